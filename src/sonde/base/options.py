"""Typed options: one declaration gives validation, help and values.

    class ProbeOptions(Options):
        lens = "probe"
        seeds: Count = option(3, "trainings of a hidden layer", scoring=True)
        pooling: tuple[Annotated[str, OneOf(POOLINGS)], ...] = option(("mean",), "how states become one")

    ProbeOptions.read({"seeds": 5}).seeds

Annotations give the allowed values (`sonde.base.option_types`); lists are separated by commas.

Help tables have a row per option. Fields of plain data (`sonde.base.validation`) have their help line in the
annotation, fields of typed options in `option`; both kinds are described in the same way.
The JSON schema of experiment files is built from the same descriptions.
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
    MAXIMUM_INTEGER,
    UNKNOWN_NAME,
    AllowedValues,
    AnyDevice,
    Count,
    Device,
    NonNegative,
    OneOf,
    Positive,
    PositiveShare,
    Share,
)
from sonde.base.validation import Help, get_annotated_fields

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "MAXIMUM_INTEGER",
    "AllowedValues",
    "AnyDevice",
    "Count",
    "Device",
    "NonNegative",
    "OneOf",
    "Option",
    "Options",
    "Positive",
    "PositiveShare",
    "Share",
    "option",
    "parse_value",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDescription:
    """Description of an option.

    Attributes:
        name: Its name in a file.
        values: Its allowed values.
        line: A phrase that describes it, without capital and full stop.
        default: Its default value.
        unset: The default in words, if the value itself does not explain it.
        flag: Its flag on the command line; empty if it has none.
        scoring: Whether it changes only scores, so that no model runs again for it.
    """

    name: str
    values: AllowedValues
    line: str
    default: object = None
    unset: str = ""
    flag: str = ""
    scoring: bool = False

    @property
    def default_text(self) -> str:
        """The default in words."""
        default = self.values.format_value(self.default).replace("\n", "a newline")
        return self.unset or ("none" if self.default in (None, "", ()) else default)

    @property
    def sentence(self) -> str:
        """Description, allowed values and default."""
        return f"{self.line} ({self.values}; default {self.default_text})"

    @property
    def help(self) -> str:
        """Help of its flag, which is repeated for several values."""
        line = f"{self.line[:1].upper()}{self.line[1:]}"
        if self.values.kind is bool:
            return f"{line}."
        details = (
            [self.values.range_text]
            if self.values.range_text and self.values.range_text not in self.line
            else []
        )
        details += ["may be repeated"] if self.values.several else []
        details += [f"default {self.default_text}"] if self.default_text != "none" else []
        return f"{line} ({'; '.join(details)})." if details else f"{line}."


def describe_fields(data_class: type[DataclassInstance], table: str = "") -> tuple[OptionDescription, ...]:
    """Describe the fields of a dataclass that are annotated with `Help`.

    Args:
        data_class: The dataclass.
        table: Name of the fields' table in a file; empty for the top level.
    """
    field_types = get_annotated_fields(data_class)
    descriptions: list[OptionDescription] = []
    for field in dataclasses.fields(data_class):
        help_text = next((mark for mark in field_types[field.name].metadata if isinstance(mark, Help)), None)
        if help_text is None:
            continue
        has_no_default = field.default is dataclasses.MISSING
        descriptions.append(
            OptionDescription(
                name=f"{table}.{field.name}" if table else field.name,
                values=AllowedValues.of(field_types[field.name]),
                line=help_text.line,
                default=None if has_no_default else field.default,
                unset=help_text.unset,
                flag=help_text.flag,
            )
        )
    return tuple(descriptions)


def describe_named_options(lines: Mapping[str, str]) -> tuple[OptionDescription, ...]:
    """Describe options by name and line only, such as those of an external lens."""
    any_value = AllowedValues(object)
    return tuple(
        OptionDescription(name=name, values=any_value, line=line, unset="see there")
        for name, line in lines.items()
    )


COLUMNS: Mapping[str, Callable[[OptionDescription], str]] = {
    "option": lambda description: description.name,
    "flag": lambda description: description.flag,
    "type": lambda description: description.values.type,
    "default": lambda description: description.default_text,
    "range or choices": lambda description: description.values.range_text,
    "scores alone": lambda description: "yes" if description.scoring else "",
    "what it is": lambda description: description.line,
}
"""Columns of an option table: title and cell."""


def build_option_table(options: Sequence[OptionDescription]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the titles and rows of a table of options, without empty columns."""
    titles = [title for title, format_cell in COLUMNS.items() if any(map(format_cell, options))]
    return tuple(titles), [tuple(COLUMNS[title](description) for title in titles) for description in options]


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
        default: Default value.
        line: A phrase that describes it; type, range and default are added automatically.
        scoring: Whether it changes only scores, so that no model runs again for it.
        corpus: Whether it names a training corpus.
        corpus_name: Whether it names a corpus, for training or not.
        file_name: Whether it names a file that has to exist.
        unset: The default in words, if it is None or empty.
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
    """Options of a lens, see the module; a class without fields is for a lens without options."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)

    lens: ClassVar[str] = ""
    """Public name of the lens that the options belong to."""

    @classmethod
    def read(cls, values: Mapping[str, object]) -> Self:
        """Validate the options that a user set.

        Args:
            values: Values by name, from a file or the command line; lists may be one text with commas.

        Raises:
            UnknownNameError: An option, or a name as its value, does not exist; suggests the nearest.
            UsageError: A value has the wrong type or is outside its range.
        """
        for name in values:
            if name not in cls.model_fields:
                raise UnknownNameError(f"option of lens {cls.lens!r}", name, cls.model_fields)
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise cls._refusal(error, values) from None

    @classmethod
    def among(cls, values: Mapping[str, object]) -> Self:
        """Validate only the options of this class from `values`, which may have more.

        Raises:
            UsageError: As `read`.
        """
        return cls.read({name: value for name, value in values.items() if name in cls.model_fields})

    @classmethod
    def written(cls, name: str, text: str) -> Option:
        """Parse the value of an option from a command line."""
        field = cls.model_fields.get(name)
        return text if field is not None and AllowedValues.of(field).kind is str else parse_value(text)

    @classmethod
    def describe(cls) -> tuple[OptionDescription, ...]:
        """Describe each option, its allowed values and its default."""
        return tuple(
            OptionDescription(
                name=name,
                values=AllowedValues.of(field),
                line=field.description or "",
                default=field.default,
                unset=_extra(field)["unset"] if field.default in (None, "", ()) else "",
                scoring=_extra(field)["scoring"],
            )
            for name, field in cls.model_fields.items()
        )

    @classmethod
    def lines(cls) -> dict[str, str]:
        """Return a one-line description of each option, by name."""
        return {description.name: description.sentence for description in cls.describe()}

    @classmethod
    def names(cls, flag: str | None = None) -> frozenset[str]:
        """Return the names of all options, or of those with a flag of `option`, such as ``corpus``."""
        return frozenset(name for name, field in cls.model_fields.items() if not flag or _extra(field)[flag])

    @classmethod
    def refused(cls, name: str, value: object, expectation: str) -> UsageError:
        """Return an error about an invalid value, with a valid example."""
        field = cls.model_fields[name]
        default = AllowedValues.of(field).format_value(field.default)
        has_example = field.default not in (None, ()) and default.strip()
        example = f"; for example {cls.lens}.{name}={default}" if has_example else ""
        return UsageError(f"lens {cls.lens!r}: option {name} = {value!r} is not {expectation}{example}")

    @classmethod
    def _refusal(cls, error: ValidationError, values: Mapping[str, object]) -> UsageError:
        first = error.errors()[0]
        if not first["loc"]:
            return UsageError(f"lens {cls.lens!r}: {first['msg']}")
        name = str(first["loc"][0])
        allowed_values = AllowedValues.of(cls.model_fields[name])
        if first["type"] in (UNKNOWN_NAME, "literal_error") and isinstance(first["input"], str):
            return UnknownNameError(f"{name} of lens {cls.lens!r}", first["input"], allowed_values.names)
        return cls.refused(name, values[name], allowed_values.describe_expectation(values[name]))

    @field_validator("*", mode="before")
    @classmethod
    def _split_values(cls, value: object, info: ValidationInfo) -> object:
        return AllowedValues.of(cls.model_fields[str(info.field_name)]).split_values(value)

    @field_validator("*", mode="after")
    @classmethod
    def _check_not_empty(cls, value: object) -> object:
        if value == ():
            raise PydanticCustomError("empty", "empty")
        return value


def _extra(field: FieldInfo) -> dict[str, Any]:
    extra = field.json_schema_extra
    assert isinstance(extra, dict), "declare options with `option`"
    return dict(extra)


def parse_value(text: str) -> Option:
    """Parse a text as bool, int or float if it looks like one.

    >>> parse_value("50"), parse_value("1e-3"), parse_value("True"), parse_value("50%")
    (50, 0.001, True, '50%')
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            continue
    return text
