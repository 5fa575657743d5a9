"""Types and bounds of options in annotations, and durations as a user writes them.

Examples are ``Annotated[float, Ge(0), Le(1)]``, `OneOf` and `TextForm`. Types are ``bool``, ``int``,
``float``, ``str``, literals, and tuples of them. Validation, help texts and JSON schemas all read them here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from sonde.base.errors import UsageError

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
        """Names, form or bounds in words; empty if any value of the type is allowed."""
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
            return tuple(dict.fromkeys(self._number(part) for part in entries))
        return tuple(value) if isinstance(value, list | tuple) else (value,)

    def _number(self, part: str) -> object:
        kinds: Mapping[type, tuple[Callable[[str], object], ...]] = {int: (int,), float: (int, float)}
        for kind in kinds.get(self.kind, ()):
            try:
                return kind(part)
            except ValueError:
                continue
        return part


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
        match mark:
            case Ge(ge=value):
                yield ">=", float(str(value))
            case Le(le=value):
                yield "<=", float(str(value))
            case Gt(gt=value):
                yield ">", float(str(value))
            case Lt(lt=value):
                yield "<", float(str(value))
            case _:
                continue


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
        raise UsageError(f"{label} {text!r} is no time; write it as 2h, 90m, 1h30m or 3600s")
    return seconds
