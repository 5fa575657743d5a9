"""Dataclasses that validate their fields on creation, whether from a file, the command line or code.

Types and bounds come from the annotations of the fields (``Annotated[int, Ge(1)]``, `OneOf`). Nothing is
converted, so that ``"no"`` is not true and 1.5 is no seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from sonde.base.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

Record = TypeVar("Record", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class Help:
    """Help text of a field that users set: ``Annotated[Count | None, Help("most items", "--limit")]``.

    Attributes:
        line: A phrase without capital and full stop; type, range and default are added automatically.
        flag: Its flag on the command line; empty if it has none.
        unset: The default in words, if the value itself does not explain it.
    """

    line: str
    flag: str = ""
    unset: str = ""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Base dataclass that validates its fields with `check_fields` on creation."""

    def __post_init__(self) -> None:
        check_fields(self)


def check_fields(record: DataclassInstance) -> None:
    """Check the values of all fields; call it in ``__post_init__``.

    Raises:
        UnknownNameError: A name does not exist; suggests the nearest.
        UsageError: A value has the wrong type or is outside its range.
    """
    from pydantic import ValidationError

    given = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    try:
        _model(type(record)).model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise _refusal(type(record), first["loc"], first["input"], given) from None


def from_table(kind: type[Record], table: object, what: str) -> Record:
    """Build a dataclass from a table of a file; lists become tuples.

    Args:
        data_class: The dataclass, which validates its fields.
        table: Values by name.
        label: Name of the table in messages.

    Raises:
        UnknownNameError: A key does not exist; suggests the nearest.
        UsageError: `table` is no table, a key is missing, or a value is invalid.
    """
    if not isinstance(table, dict):
        raise UsageError(f"{what} = {table!r} is not a table")
    known = [field.name for field in dataclasses.fields(kind)]
    for key in table:
        if key not in known:
            raise UnknownNameError(f"{what} key", key, known)
    needed = [one.name for one in dataclasses.fields(kind) if _needed(one) and one.name not in table]
    if needed:
        raise UsageError(f"{what} lacks {', '.join(needed)}")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()})


def _needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def annotated_fields(kind: type[DataclassInstance]) -> Mapping[str, FieldInfo]:
    """Return the types and metadata of all fields, by name."""
    return _model(kind).model_fields


@cache
def _model(kind: type[DataclassInstance]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {field.name: (hints[field.name], ...) for field in dataclasses.fields(kind)}
    config = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    return create_model(kind.__name__, __config__=config, **fields)


def _refusal(
    kind: type[DataclassInstance], place: tuple[int | str, ...], found: object, given: dict[str, Any]
) -> UsageError:
    from sonde.base.option_types import Values

    name = str(place[0])
    values = Values.of(annotated_fields(kind)[name])
    if values.names and isinstance(found, str):
        return UnknownNameError(name, found, values.names)
    if values.several:
        return UsageError(f"{name} = {given[name]!r} is not a list of {values.word}s")
    if len(place) > 1:
        expected = "a table" if len(place) == _TABLE else "a text, a finite number, true or false"
        return UsageError(f"{'.'.join(map(str, place[:_VALUE]))} = {found!r} is not {expected}")
    return UsageError(f"{name} = {given[name]!r} is not {values.expected(given[name])}")


_TABLE, _VALUE = 2, 3
"""Number of parts in the location of a table, and of a value, of the options of a lens."""
