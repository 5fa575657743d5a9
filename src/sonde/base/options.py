"""Options as typed models: one declaration gives the checks, the help, and the values that are read.

    class ProbeOptions(Options):
        lens = "probe"
        seeds: Count = option(3, "trainings of a hidden layer", scoring=True)
        pooling: tuple[Annotated[str, OneOf(POOLINGS)], ...] = option(("mean",), "how states become one")

    ProbeOptions.read({"seeds": 5}).seeds

What a value may be is said in its annotation (`sonde.base.option_types`); several values are written with
commas.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.option_types import (
    LARGEST,
    UNKNOWN,
    AnyDevice,
    Count,
    Device,
    OneOf,
    Positive,
    PositiveShare,
    Share,
    Values,
    Whole,
)
from sonde.base.validation import Help, annotated_fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "LARGEST",
    "AnyDevice",
    "Count",
    "Device",
    "OneOf",
    "Option",
    "Options",
    "Positive",
    "PositiveShare",
    "Share",
    "Values",
    "Whole",
    "guessed",
    "option",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One option.

    Attributes:
        name: Its name, where it is set in a file.
        values: What it can be.
        line: What it is, in one line that begins small and has no full stop.
        default: Its value where a user gives none.
        unset: What then holds, in words, where the value itself does not say it.
        flag: Its name on a command line; empty where it has none of its own.
        scoring: Whether it changes scores alone, so that nothing is forwarded again for it.
    """

    name: str
    values: Values
    line: str
    default: object = None
    unset: str = ""
    flag: str = ""
    scoring: bool = False

    @property
    def default_words(self) -> str:
        """What holds where a user gives nothing."""
        spelled = self.values.spelled(self.default).replace("\n", "a newline")
        return self.unset or ("none" if self.default in (None, "", ()) else spelled)

    @property
    def sentence(self) -> str:
        """What it is, can be and is by default."""
        return f"{self.line} ({self.values}; default {self.default_words})"

    @property
    def help(self) -> str:
        """The help of its flag, which takes several values by being repeated."""
        begin = f"{self.line[:1].upper()}{self.line[1:]}"
        if self.values.kind is bool:
            return f"{begin}."
        said = [self.values.range] if self.values.range and self.values.range not in self.line else []
        said += ["may be repeated"] if self.values.several else []
        said += [f"default {self.default_words}"] if self.default_words != "none" else []
        return f"{begin} ({'; '.join(said)})." if said else f"{begin}."


def described_fields(kind: type[DataclassInstance], table: str = "") -> tuple[Described, ...]:
    """The fields of plain data that a person sets: those that say what they are with `Help`.

    Args:
        kind: The dataclass.
        table: The table of a file that holds them; empty for the file itself.
    """
    annotated = annotated_fields(kind)
    rows: list[Described] = []
    for field in dataclasses.fields(kind):
        said = next((mark for mark in annotated[field.name].metadata if isinstance(mark, Help)), None)
        if said is None:
            continue
        missing = field.default is dataclasses.MISSING
        rows.append(
            Described(
                name=f"{table}.{field.name}" if table else field.name,
                values=Values.of(annotated[field.name]),
                line=said.line,
                default=None if missing else field.default,
                unset=said.unset,
                flag=said.flag,
            )
        )
    return tuple(rows)


def named(lines: Mapping[str, str]) -> tuple[Described, ...]:
    """Options that are known by name and line alone, as those of a lens from outside may be."""
    anything = Values(object)
    return tuple(
        Described(name=name, values=anything, line=line, unset="see there") for name, line in lines.items()
    )


COLUMNS: Mapping[str, Callable[[Described], str]] = {
    "option": lambda one: one.name,
    "flag": lambda one: one.flag,
    "type": lambda one: one.values.type,
    "default": lambda one: one.default_words,
    "range or choices": lambda one: one.values.range,
    "scores alone": lambda one: "yes" if one.scoring else "",
    "what it is": lambda one: one.line,
}
"""What a table says of an option, by title."""


def table_of(options: Sequence[Described]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Titles and rows of a table of options; a column that is empty for all of them is left out."""
    shown = [title for title, cell in COLUMNS.items() if any(map(cell, options))]
    return tuple(shown), [tuple(COLUMNS[title](one) for title in shown) for one in options]


Option = str | int | float | bool


def option(
    default: object,
    line: str,
    *,
    scoring: bool = False,
    corpus: bool = False,
    corpus_name: bool = False,
    file_name: bool = False,
    unset: str = "none",
) -> Any:
    """Declare an option.

    Args:
        default: Its value where a user gives none.
        line: What it is, in one line; type, range and default are said by themselves.
        scoring: Whether it changes scores alone, so that nothing is forwarded again for it.
        corpus: Whether it names a corpus that is trained on.
        corpus_name: Whether it names a corpus, trained on or not.
        file_name: Whether it names a file that has to be there.
        unset: What holds where the default is None or empty.
    """
    extra: dict[str, Any] = {
        "scoring": scoring,
        "corpus": corpus,
        "corpus_name": corpus or corpus_name,
        "file_name": file_name,
        "unset": unset,
    }
    return Field(default, description=line, json_schema_extra=extra)


class Options(BaseModel):
    """The options of a lens; see the module. A class without fields is a lens without options."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    lens: ClassVar[str] = ""
    """The lens that they belong to, by its public name."""

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Self:
        """Check what a user gave.

        Args:
            given: Values by name, as a file or the command line gives them; several values in one text.

        Raises:
            UnknownNameError: An option or one of its names that does not exist; the nearest is named.
            UsageError: A value of the wrong type or outside its range.
        """
        for name in given:
            if name not in cls.model_fields:
                raise UnknownNameError(f"option of lens {cls.lens!r}", name, cls.model_fields)
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise cls._refusal(error, given) from None

    @classmethod
    def among(cls, given: Mapping[str, object]) -> Self:
        """Read these options out of those of a lens that has more.

        Raises:
            UsageError: As `read`.
        """
        return cls.read({name: value for name, value in given.items() if name in cls.model_fields})

    @classmethod
    def written(cls, name: str, text: str) -> Option:
        """The value of an option that was written on a command line."""
        field = cls.model_fields.get(name)
        return text if field is not None and Values.of(field).kind is str else guessed(text)

    @classmethod
    def described(cls) -> tuple[Described, ...]:
        """What each option is, what it can be, and its default."""
        return tuple(
            Described(
                name=name,
                values=Values.of(field),
                line=field.description or "",
                default=field.default,
                unset=_extra(field)["unset"] if field.default in (None, "", ()) else "",
                scoring=_extra(field)["scoring"],
            )
            for name, field in cls.model_fields.items()
        )

    @classmethod
    def lines(cls) -> dict[str, str]:
        """The same in one line each, by name."""
        return {one.name: one.sentence for one in cls.described()}

    @classmethod
    def names(cls, flag: str | None = None) -> frozenset[str]:
        """The names of all options, or of those with a flag of `option`."""
        return frozenset(name for name, field in cls.model_fields.items() if not flag or _extra(field)[flag])

    @classmethod
    def refused(cls, name: str, value: object, expected: str) -> UsageError:
        """The error about a value, with an example that is valid."""
        field = cls.model_fields[name]
        default = Values.of(field).spelled(field.default)
        shown = field.default not in (None, ()) and default.strip()
        example = f"; for example {cls.lens}.{name}={default}" if shown else ""
        return UsageError(f"lens {cls.lens!r}: option {name} = {value!r} is not {expected}{example}")

    @classmethod
    def _refusal(cls, error: ValidationError, given: Mapping[str, object]) -> UsageError:
        first = error.errors()[0]
        if not first["loc"]:
            return UsageError(f"lens {cls.lens!r}: {first['msg']}")
        name = str(first["loc"][0])
        values = Values.of(cls.model_fields[name])
        if first["type"] in (UNKNOWN, "literal_error") and isinstance(first["input"], str):
            return UnknownNameError(f"{name} of lens {cls.lens!r}", first["input"], values.names)
        return cls.refused(name, given[name], values.expected(given[name]))

    @field_validator("*", mode="before")
    @classmethod
    def _take_apart(cls, value: object, info: ValidationInfo) -> object:
        return Values.of(cls.model_fields[str(info.field_name)]).taken_apart(value)

    @field_validator("*", mode="after")
    @classmethod
    def _not_empty(cls, value: object) -> object:
        if value == ():
            raise PydanticCustomError("empty", "empty")
        return value


def _extra(field: FieldInfo) -> dict[str, Any]:
    extra = field.json_schema_extra
    assert isinstance(extra, dict), "declare options with `option`"
    return dict(extra)


def guessed(text: str) -> Option:
    """A value of the type that its text looks like.

    >>> guessed("50"), guessed("1e-3"), guessed("True"), guessed("50%")
    (50, 0.001, True, '50%')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
