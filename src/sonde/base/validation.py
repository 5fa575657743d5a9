"""Dataclasses that validate their fields on creation, whether from a file, the command line or code.

Types and bounds come from the annotations of the fields (``Annotated[int, Ge(1)]``,
`sonde.base.option_types.OneOf`). Nothing is converted, so that ``"no"`` is not true and 1.5 is no seed.
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
class ValidatedRecord:
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

    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    try:
        _build_model(type(record)).model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise _build_error(type(record), first["loc"], first["input"], values) from None


def build_record(data_class: type[Record], table: object, label: str) -> Record:
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
        raise UsageError(f"{label} = {table!r} is not a table")
    names = [field.name for field in dataclasses.fields(data_class)]
    for key in table:
        if key not in names:
            raise UnknownNameError(f"{label} key", key, names)
    missing_names = [
        field.name
        for field in dataclasses.fields(data_class)
        if _is_required(field) and field.name not in table
    ]
    if missing_names:
        raise UsageError(f"{label} lacks {', '.join(missing_names)}")
    return data_class(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    )


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def get_annotated_fields(data_class: type[DataclassInstance]) -> Mapping[str, FieldInfo]:
    """Return the types and metadata of all fields, by name."""
    return _build_model(data_class).model_fields


@cache
def _build_model(data_class: type[DataclassInstance]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    hints = get_type_hints(data_class, include_extras=True)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], ...) for field in dataclasses.fields(data_class)
    }
    config = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    return create_model(data_class.__name__, __config__=config, **fields)


def _build_error(
    data_class: type[DataclassInstance],
    location: tuple[int | str, ...],
    invalid_value: object,
    values: dict[str, Any],
) -> UsageError:
    from sonde.base.option_types import AllowedValues

    name = str(location[0])
    allowed_values = AllowedValues.of(get_annotated_fields(data_class)[name])
    if allowed_values.names and isinstance(invalid_value, str):
        return UnknownNameError(name, invalid_value, allowed_values.names)
    if allowed_values.several:
        return UsageError(f"{name} = {values[name]!r} is not a list of {allowed_values.word}s")
    if len(location) > 1:
        expectation = "a table" if len(location) == _TABLE_DEPTH else "a text, a finite number, true or false"
        return UsageError(
            f"{'.'.join(map(str, location[:_VALUE_DEPTH]))} = {invalid_value!r} is not {expectation}"
        )
    return UsageError(f"{name} = {values[name]!r} is not {allowed_values.describe_expectation(values[name])}")


_TABLE_DEPTH, _VALUE_DEPTH = 2, 3
"""Number of parts in the location of a table, and of a value, of the options of a lens."""
