"""Types and bounds of options in annotations: ``Annotated[float, Ge(0), Le(1)]``, `OneOf`, `TextForm`.

Types are ``bool``, ``int``, ``float``, ``str``, literals, and tuples of them. Validation, help texts and JSON
schemas all read them here.
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

UNKNOWN = "unknown_name"
"""Type of the pydantic error for an unknown name."""


LARGEST = 2**31 - 1
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
            raise PydanticCustomError(UNKNOWN, "unknown name")
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


Count = Annotated[int, Ge(1), Le(LARGEST)]


Whole = Annotated[int, Ge(0), Le(LARGEST)]


Share = Annotated[float, Ge(0), Le(1)]


PositiveShare = Annotated[float, Gt(0), Le(1)]


Positive = Annotated[float, Gt(0)]


_DEVICE = r"cpu|mps|(cuda|xpu)(:\d{1,3})?"


Device = Annotated[str, TextForm(_DEVICE, "a device: cpu, cuda, cuda:N, mps or xpu")]


AnyDevice = Annotated[str, TextForm(f"auto|{_DEVICE}", "a device: auto, cpu, cuda, cuda:N, mps or xpu")]


@dataclass(frozen=True, slots=True)
class Values:
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
    def of(cls, field: FieldInfo) -> Values:
        """Read the allowed values of a declared option from its field."""
        (kind, *marks) = _unwrapped(field.annotation)
        several = get_origin(kind) is tuple
        if several:
            (kind, *marks) = _unwrapped(get_args(kind)[0])
        marks += field.metadata
        names = next((mark.names for mark in marks if isinstance(mark, OneOf)), ())
        if get_origin(kind) is Literal:
            kind, names = str, get_args(kind)
        form = next((mark for mark in marks if isinstance(mark, TextForm)), TextForm("", ""))
        return cls(kind, several, names, tuple(_bounds(marks)), form.words, form.pattern)

    def __str__(self) -> str:
        """Describe the allowed values, as they follow "is not" in a message."""
        if self.names:
            return f"{'any' if self.several else 'one'} of {self.range}" + self._commas(", ")
        words = self.form or (self.word if self.kind is bool else f"a {self.word}")
        return f"{words} {self._limits}".rstrip() + self._commas(", or several ")

    @property
    def word(self) -> str:
        """Name of the type of a single value."""
        return "name" if self.names else _WORDS.get(self.kind, "table")

    @property
    def type(self) -> str:
        """Name of the type; plural for a list."""
        return f"{self.word}s" if self.several else self.word

    @property
    def range(self) -> str:
        """Names, form or bounds in words; empty if any value of the type is allowed."""
        return ", ".join(self.names) or self.form or self._limits.replace("of at", "at")

    @property
    def _limits(self) -> str:
        held = dict(self.bounds)
        if ">=" in held and "<=" in held and held["<="] < LARGEST:
            return f"from {held['>=']:g} to {held['<=']:g}"
        return " and ".join(f"{_BOUNDS[sign]} {value:g}" for sign, value in self.bounds if value < LARGEST)

    def expected(self, value: object) -> str:
        """Describe the allowed values for an error about `value`, as they follow "is not"."""
        too_large = isinstance(value, int) and value > LARGEST and ("<=", LARGEST) in self.bounds
        return f"at most {LARGEST}" if too_large else str(self)

    def _commas(self, before: str) -> str:
        return f"{before}separated by commas" if self.several else ""

    def spelled(self, value: object) -> str:
        """Format a value as a user writes it."""
        if isinstance(value, tuple):
            return ",".join(map(self.spelled, value))
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:g}" if isinstance(value, float) else str(value)

    def taken_apart(self, value: object) -> object:
        """Split the value of a list option at its commas; types are checked later."""
        if not self.several:
            return value
        if isinstance(value, str):
            parts = [part.strip() for part in value.split(",")]
            kept = [part for part in parts if part or (self.kind is not str and len(parts) > 1)]
            return tuple(dict.fromkeys(self._number(part) for part in kept))
        return tuple(value) if isinstance(value, list | tuple) else (value,)

    def _number(self, part: str) -> object:
        kinds: Mapping[type, tuple[Callable[[str], object], ...]] = {int: (int,), float: (int, float)}
        for kind in kinds.get(self.kind, ()):
            try:
                return kind(part)
            except ValueError:
                continue
        return part


_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    object: "text, number, true or false",
}


_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


def _unwrapped(annotation: Any) -> list[Any]:
    """Return a type without ``Annotated`` and ``| None``, followed by its metadata."""
    inner = [one for one in get_args(annotation) if one is not type(None)]
    if len(inner) == 1 and get_origin(annotation) is not tuple:
        return _unwrapped(inner[0])
    if hasattr(annotation, "__metadata__"):
        return [annotation.__origin__, *annotation.__metadata__]
    return [annotation]


def _bounds(marks: Iterable[object]) -> Iterator[tuple[str, float]]:
    for mark in marks:
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


_PARTS = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


_SECONDS = (3600.0, 60.0, 1.0)


def seconds_of(text: str, what: str) -> float:
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
    found = _PARTS.fullmatch(text.strip().lower())
    parts = zip(found.groups(), _SECONDS, strict=True) if found else ()
    seconds = sum(float(part) * each for part, each in parts if part)
    if not seconds:
        raise UsageError(f"{what} {text!r} is no time; write it as 2h, 90m, 1h30m or 3600s")
    return seconds
