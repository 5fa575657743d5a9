"""Typed options: one declaration gives types, bounds, validation, help and values.

    class ProbeOptions(Options):
        lens = "probe"
        seeds: Count = option(3, "trainings of a hidden layer", scoring=True)
        pooling: tuple[Annotated[str, OneOf(POOLINGS)], ...] = option(("mean",), "how states become one")

    ProbeOptions.read({"seeds": 5}).seeds

Annotations give the allowed values: ``Annotated[float, Ge(0), Le(1)]``, `OneOf` and `TextForm`. Types are
``bool``, ``int``, ``float``, ``str``, literals, and tuples of them; lists are separated by commas, and
durations are read as a user writes them.

A `ValidatedRecord` is a dataclass that validates its fields on creation, whether its values come from a file,
the command line or code. Nothing is converted, so that ``"no"`` is not true and 1.5 is no seed. Fields that
users set are declared with `option` as well.

Flags of the command line, help tables (a row per option) and the JSON schema of experiment files are built
from the descriptions of both kinds.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.fingerprint import OMITTED_AT_DEFAULT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


UNKNOWN_NAME = "unknown_name"
"""Type of the pydantic error for an unknown name."""


MAXIMUM_INTEGER = 2**31 - 1
"""Largest integer of the columns of tables (32 bits)."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """The names that a text may have, as ``Annotated[str, OneOf(("mean", "last"))]``."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a schema that checks a value after its type."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, name: str) -> str:
        if name not in self.names:
            raise PydanticCustomError(UNKNOWN_NAME, "unknown name")
        return name


@dataclass(frozen=True, slots=True)
class TextForm:
    """A pattern that a text has to match.

    Attributes:
        pattern: A regular expression for the full text.
        words: The expectation, as it follows "is not" in a message.
    """

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a schema that checks a value after its type."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise PydanticCustomError("form", "other form")
        return text


Count = Annotated[int, Ge(1), Le(MAXIMUM_INTEGER)]


NonNegative = Annotated[int, Ge(0), Le(MAXIMUM_INTEGER)]


Share = Annotated[float, Ge(0), Le(1)]


PositiveShare = Annotated[float, Gt(0), Le(1)]


Positive = Annotated[float, Gt(0)]


_DEVICE = r"cpu|mps|(cuda|xpu)(:\d{1,3})?"


Device = Annotated[str, TextForm(_DEVICE, "a device: cpu, cuda, cuda:N, mps or xpu")]


AnyDevice = Annotated[str, TextForm(f"auto|{_DEVICE}", "a device: auto, cpu, cuda, cuda:N, mps or xpu")]


@dataclass(frozen=True, slots=True)
class AllowedValues:
    """The values that an option accepts.

    Attributes:
        kind: Type of a single value.
        several: Whether the option is a list, separated by commas.
        names: The valid names; empty if any value of the type is valid.
        bounds: Bounds of a number, such as ``(">=", 1)``.
        form: Description of the form of a text.
        pattern: Regular expression for the full text.
    """

    kind: type
    several: bool = False
    names: tuple[str, ...] = ()
    bounds: tuple[tuple[str, float], ...] = ()
    form: str = ""
    pattern: str = ""

    @classmethod
    def of(cls, field: FieldInfo) -> AllowedValues:
        """Read the allowed values of a declared option from its field."""
        (kind, *metadata) = _unwrap_annotation(field.annotation)
        is_list = get_origin(kind) is tuple
        if is_list:
            (kind, *metadata) = _unwrap_annotation(get_args(kind)[0])
        metadata += field.metadata
        names = next((mark.names for mark in metadata if isinstance(mark, OneOf)), ())
        if get_origin(kind) is Literal:
            kind, names = str, get_args(kind)
        form = next((mark for mark in metadata if isinstance(mark, TextForm)), TextForm("", ""))
        return cls(kind, is_list, names, tuple(_iterate_bounds(metadata)), form.words, form.pattern)

    def __str__(self) -> str:
        """Describe the allowed values, as they follow "is not" in a message."""
        if self.names:
            return f"{'any' if self.several else 'one'} of {self.range_text}" + self._format_comma_hint(", ")
        words = self.form or (self.word if self.kind is bool else f"a {self.word}")
        return f"{words} {self._limits_text}".rstrip() + self._format_comma_hint(", or several ")

    @property
    def word(self) -> str:
        """Name of the type of a single value."""
        return "name" if self.names else _TYPE_NAMES.get(self.kind, "table")

    @property
    def type(self) -> str:
        """Name of the type; plural for a list."""
        return f"{self.word}s" if self.several else self.word

    @property
    def range_text(self) -> str:
        """Return names, form or bounds in words; empty if any value of the type is allowed."""
        return ", ".join(self.names) or self.form or self._limits_text.replace("of at", "at")

    @property
    def _limits_text(self) -> str:
        limits = dict(self.bounds)
        if ">=" in limits and "<=" in limits and limits["<="] < MAXIMUM_INTEGER:
            return f"from {limits['>=']:g} to {limits['<=']:g}"
        return " and ".join(
            f"{_BOUND_PHRASES[sign]} {value:g}" for sign, value in self.bounds if value < MAXIMUM_INTEGER
        )

    def describe_expectation(self, value: object) -> str:
        """Describe the allowed values for an error about `value`, as they follow "is not"."""
        too_large = (
            isinstance(value, int) and value > MAXIMUM_INTEGER and ("<=", MAXIMUM_INTEGER) in self.bounds
        )
        return f"at most {MAXIMUM_INTEGER}" if too_large else str(self)

    def _format_comma_hint(self, separator: str) -> str:
        return f"{separator}separated by commas" if self.several else ""

    def format_value(self, value: object) -> str:
        """Format a value as a user writes it."""
        if isinstance(value, tuple):
            return ",".join(map(self.format_value, value))
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:g}" if isinstance(value, float) else str(value)

    def split_values(self, value: object) -> object:
        """Split the value of a list option at its commas; types are checked later."""
        if not self.several:
            return value
        if isinstance(value, str):
            parts = [part.strip() for part in value.split(",")]
            entries = [part for part in parts if part or (self.kind is not str and len(parts) > 1)]
            return tuple(dict.fromkeys(map(parse_value, entries) if self.kind in (int, float) else entries))
        return tuple(value) if isinstance(value, list | tuple) else (value,)


_TYPE_NAMES: Mapping[type, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    object: "text, number, true or false",
}


_BOUND_PHRASES = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


def _unwrap_annotation(annotation: Any) -> list[Any]:
    """Return a type without ``Annotated`` and ``| None``, followed by its metadata."""
    arguments = [argument for argument in get_args(annotation) if argument is not type(None)]
    if len(arguments) == 1 and get_origin(annotation) is not tuple:
        return _unwrap_annotation(arguments[0])
    if hasattr(annotation, "__metadata__"):
        return [annotation.__origin__, *annotation.__metadata__]
    return [annotation]


def _iterate_bounds(metadata: Iterable[object]) -> Iterator[tuple[str, float]]:
    for mark in metadata:
        if type(mark) in _BOUND_SIGNS:
            attribute, sign = _BOUND_SIGNS[type(mark)]
            yield sign, float(getattr(mark, attribute))


_BOUND_SIGNS: Mapping[type, tuple[str, str]] = {
    Ge: ("ge", ">="),
    Le: ("le", "<="),
    Gt: ("gt", ">"),
    Lt: ("lt", "<"),
}


_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


_UNIT_SECONDS = (3600.0, 60.0, 1.0)


def parse_duration(text: str, label: str) -> float:
    """Parse a duration such as ``2h``, ``90m``, ``1h30m`` or ``3600s``.

    >>> parse_duration("1h30m", "--budget")
    5400.0

    Args:
        text: The duration.
        label: Name of the option, for the message.

    Returns:
        Seconds.

    Raises:
        UsageError: The text is no duration, or zero.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    parts = zip(match.groups(), _UNIT_SECONDS, strict=True) if match else ()
    seconds = sum(float(part) * unit_seconds for part, unit_seconds in parts if part)
    if not seconds:
        raise UsageError(f"{label} {text!r} is not a duration; write it as 2h, 90m, 1h30m or 3600s")
    return seconds


Record = TypeVar("Record", bound="DataclassInstance")


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
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    try:
        _build_model(type(record)).model_validate(values)
    except ValidationError as error:
        raise _build_error(error, get_annotated_fields(type(record)), values) from None


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
    fields = get_annotated_fields(data_class)
    for key in table:
        if key not in fields:
            raise UnknownNameError(f"{label} key", key, fields)
    if missing_names := [name for name in fields if fields[name].is_required() and name not in table]:
        raise UsageError(f"{label} lacks {', '.join(missing_names)}")
    return data_class(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    )


def get_annotated_fields(data_class: type[DataclassInstance]) -> Mapping[str, FieldInfo]:
    """Return the types and metadata of all fields, by name."""
    return _build_model(data_class).model_fields


@cache
def _build_model(data_class: type[DataclassInstance]) -> type[BaseModel]:
    hints = get_type_hints(data_class, include_extras=True)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], field) for field in dataclasses.fields(data_class)
    }
    config = ConfigDict(strict=True, allow_inf_nan=False, arbitrary_types_allowed=True)
    return create_model(data_class.__name__, __config__=config, **fields)


def _build_error(
    error: ValidationError, fields: Mapping[str, FieldInfo], values: Mapping[str, Any]
) -> UsageError:
    """Return the error of a dataclass whose fields have invalid values."""
    first = error.errors(include_url=False)[0]
    name, location = str(first["loc"][0]), first["loc"]
    allowed_values = AllowedValues.of(fields[name])
    if _is_unknown_name(first):
        return UnknownNameError(name, first["input"], allowed_values.names)
    if allowed_values.several:
        return UsageError(f"{name} = {values[name]!r} is not a list of {allowed_values.word}s")
    if len(location) > 1:
        expectation = "a table" if len(location) == _TABLE_DEPTH else "a text, a finite number, true or false"
        return UsageError(
            f"{'.'.join(map(str, location[:_VALUE_DEPTH]))} = {first['input']!r} is not {expectation}"
        )
    return UsageError(f"{name} = {values[name]!r} is not {allowed_values.describe_expectation(values[name])}")


def _is_unknown_name(details: ErrorDetails) -> bool:
    return details["type"] in (UNKNOWN_NAME, "literal_error") and isinstance(details["input"], str)


_TABLE_DEPTH, _VALUE_DEPTH = 2, 3
"""Number of parts in the location of a table, and of a value, of the options of a lens."""


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
        short: Its flag of one letter.
        scoring: Whether it changes only scores, so that no model runs again for it.
        synonyms: Other words by which somebody may look for it.
    """

    name: str
    values: AllowedValues
    line: str
    default: object = None
    unset: str = ""
    flag: str = ""
    short: str = ""
    scoring: bool = False
    synonyms: tuple[str, ...] = ()

    @property
    def default_text(self) -> str:
        """Return the default in words."""
        default = self.values.format_value(self.default).replace("\n", "a newline")
        return self.unset or ("none" if self.default in (None, "", ()) else default)

    @property
    def search_text(self) -> str:
        """Return the words by which somebody may look for it."""
        return ". ".join((*self.synonyms, self.values.range_text, self.line))

    @property
    def sentence(self) -> str:
        """Return description, allowed values and default."""
        return f"{self.line} ({self.values}; default {self.default_text})"

    @property
    def help(self) -> str:
        """Return the help of its flag, which is repeated for several values."""
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
    """Describe the fields of a dataclass that are declared with `option`.

    Args:
        data_class: The dataclass.
        table: Name of the fields' table in a file; empty for the top level.
    """
    descriptions = (
        _describe(f"{table}.{name}" if table else name, field)
        for name, field in get_annotated_fields(data_class).items()
        if field.description is not None
    )
    return tuple(descriptions)


def _describe(name: str, field: FieldInfo) -> OptionDescription:
    marks = {mark: value for mark, value in _get_marks(field).items() if mark in _DESCRIBED_MARKS}
    return OptionDescription(
        name=name,
        values=AllowedValues.of(field),
        line=field.description or "",
        default=None if field.is_required() or field.default_factory else field.default,
        **marks,
    )


_DESCRIBED_MARKS = ("unset", "flag", "short", "scoring", "synonyms")


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
    "rescores only": lambda description: "yes" if description.scoring else "",
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
    flag: str = "",
    short: str = "",
    unset: str = "",
    scoring: bool = False,
    synonyms: tuple[str, ...] = (),
    corpus: bool = False,
    corpus_name: bool = False,
    file_name: bool = False,
    omitted_at_default: bool = False,
) -> Any:
    """Declare an option, as a field of `Options` or of a dataclass.

    Args:
        default: Default value; a type makes a new one each time, and `NO_DEFAULT` means that there is none.
        line: A phrase that describes it, without capital and full stop; type, range and default are added
            automatically.
        flag: Its flag on the command line; empty if it has none.
        short: Its flag of one letter.
        unset: The default in words, if the value itself does not explain it.
        scoring: Whether it changes only scores, so that no model runs again for it.
        synonyms: Other words by which somebody may look for it, in errors and `sonde explain`.
        corpus: Whether it names a training corpus.
        corpus_name: Whether it names a corpus, for training or not.
        file_name: Whether it names a file that has to exist.
        omitted_at_default: Whether it is part of a key only if it differs from its default.
    """
    marks = {
        "flag": flag,
        "short": short,
        "unset": unset,
        "scoring": scoring,
        "synonyms": synonyms,
        "corpus": corpus,
        "corpus_name": corpus or corpus_name,
        "file_name": file_name,
    }
    metadata: dict[str, Any] = {"description": line, "json_schema_extra": marks}
    if omitted_at_default:
        metadata |= OMITTED_AT_DEFAULT
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


NO_DEFAULT = dataclasses.MISSING
"""Default of an option that has none."""


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
                lines = {description.name: description.search_text for description in cls.describe()}
                raise UnknownNameError(
                    f"option of lens {cls.lens!r}", name, cls.model_fields, descriptions=lines
                )
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
        return tuple(_describe(name, field) for name, field in cls.model_fields.items())

    @classmethod
    def lines(cls) -> dict[str, str]:
        """Return a one-line description of each option, by name."""
        return {description.name: description.sentence for description in cls.describe()}

    @classmethod
    def names(cls, mark: str | None = None) -> frozenset[str]:
        """Return the names of all options, or of those with a mark of `option`, such as ``corpus``."""
        return frozenset(
            name for name, field in cls.model_fields.items() if not mark or _get_marks(field)[mark]
        )

    @classmethod
    def _refusal(cls, error: ValidationError, values: Mapping[str, object]) -> UsageError:
        """Return an error about an invalid value, with a valid example."""
        first = error.errors(include_url=False)[0]
        if not first["loc"]:
            return UsageError(f"lens {cls.lens!r}: {first['msg']}")
        name = str(first["loc"][0])
        field = cls.model_fields[name]
        allowed_values = AllowedValues.of(field)
        if _is_unknown_name(first):
            return UnknownNameError(f"{name} of lens {cls.lens!r}", first["input"], allowed_values.names)
        expectation = allowed_values.describe_expectation(values[name])
        default = allowed_values.format_value(field.default)
        has_example = field.default not in (None, ()) and default.strip()
        example = f"; for example {cls.lens}.{name}={default}" if has_example else ""
        return UsageError(
            f"lens {cls.lens!r}: option {name} = {values[name]!r} is not {expectation}{example}"
        )

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


def _get_marks(field: FieldInfo) -> dict[str, Any]:
    marks = field.json_schema_extra
    assert isinstance(marks, dict), "declare options with `option`"
    return dict(marks)


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
