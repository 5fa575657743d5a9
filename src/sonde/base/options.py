"""Options as typed models: one declaration gives the checks, the help, and the values that are read.

    class ProbeOptions(Options):
        lens = "probe"
        seeds: Count = option(3, "trainings of a hidden layer", scoring=True)
        pooling: tuple[Annotated[str, OneOf(POOLINGS)], ...] = option(("mean",), "how states become one")

    ProbeOptions.read({"seeds": 5}).seeds

Types are ``bool``, ``int``, ``float``, ``str``, literals, and tuples of them, which a user writes with
commas. Their ranges are those of `annotated_types` (``Annotated[float, Ge(0), Le(1)]``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from sonde.base.errors import UnknownNameError, UsageError

Option = str | int | float | bool

UNKNOWN = "unknown_name"
"""Type of pydantic's error about a name that there is not."""

LARGEST = 2**31 - 1
"""Largest whole number that tables hold."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """The names that a text may be, as ``Annotated[str, OneOf(("mean", "last"))]``."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check what has been found to be a text."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, name: str) -> str:
        if name not in self.names:
            raise PydanticCustomError(UNKNOWN, "unknown name")
        return name


@dataclass(frozen=True, slots=True)
class Form:
    """The form that a text has, beside its type ``str``.

    Attributes:
        pattern: A regular expression that the whole text matches.
        words: What it is, behind "is not".
    """

    pattern: str
    words: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Check what has been found to be a text."""
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
Device = Annotated[str, Form(_DEVICE, "a device: cpu, cuda, cuda:N, mps or xpu")]
AnyDevice = Annotated[str, Form(f"auto|{_DEVICE}", "a device: auto, cpu, cuda, cuda:N, mps or xpu")]


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


@dataclass(frozen=True, slots=True)
class Values:
    """The values that an option can have.

    Attributes:
        kind: The type of one of them.
        several: Whether several may be given, with commas.
        names: All of them, where they are few.
        bounds: What they have to be, as ``(">=", 1)``.
        form: The form of a text, in words.
    """

    kind: type
    several: bool = False
    names: tuple[str, ...] = ()
    bounds: tuple[tuple[str, float], ...] = ()
    form: str = ""

    @classmethod
    def of(cls, field: FieldInfo) -> Values:
        """Those of a declared option."""
        (kind, *marks) = _unwrapped(field.annotation)
        several = get_origin(kind) is tuple
        if several:
            (kind, *marks) = _unwrapped(get_args(kind)[0])
        marks += field.metadata
        names = next((mark.names for mark in marks if isinstance(mark, OneOf)), ())
        if get_origin(kind) is Literal:
            kind, names = str, get_args(kind)
        form = next((mark.words for mark in marks if isinstance(mark, Form)), "")
        return cls(kind, several, names, tuple(_bounds(marks)), form)

    def __str__(self) -> str:
        """What they are in words, behind "is not"."""
        if self.names:
            return f"{'any' if self.several else 'one'} of {', '.join(self.names)}" + self._commas(", ")
        words = self.form or _WORDS.get(self.kind, "a table")
        held = dict(self.bounds)
        if ">=" in held and "<=" in held and held["<="] < LARGEST:
            words += f" from {held['>=']:g} to {held['<=']:g}"
        else:
            said = [f"{_BOUNDS[sign]} {value:g}" for sign, value in self.bounds if value < LARGEST]
            words += f" {' and '.join(said)}" if said else ""
        return words + self._commas(", or several ")

    def expected(self, value: object) -> str:
        """What a value should have been, in words behind "is not"."""
        too_large = isinstance(value, int) and value > LARGEST and ("<=", LARGEST) in self.bounds
        return f"at most {LARGEST}" if too_large else str(self)

    def _commas(self, before: str) -> str:
        return f"{before}separated by commas" if self.several else ""

    def spelled(self, value: object) -> str:
        """A value as a user writes it."""
        if isinstance(value, tuple):
            return ",".join(map(self.spelled, value))
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:g}" if isinstance(value, float) else str(value)

    def taken_apart(self, value: object) -> object:
        """What a user gave for several values, one by one; the types are left to be checked."""
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
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "a path",
}
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


def _unwrapped(annotation: Any) -> list[Any]:
    """A type without ``Annotated`` and ``| None``, and what it is annotated with."""
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
    def lines(cls) -> dict[str, str]:
        """What each option is, what it can be, and its default, by name."""
        return {
            name: f"{field.description} ({Values.of(field)}; default {cls._default(field)})"
            for name, field in cls.model_fields.items()
        }

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
    def _default(cls, field: FieldInfo) -> str:
        spelled = Values.of(field).spelled(field.default)
        return (
            _extra(field)["unset"] if field.default in (None, "", ()) else spelled.replace("\n", "a newline")
        )

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
    def _not_empty(cls, value: object, info: ValidationInfo) -> object:
        if value == () and cls.model_fields[str(info.field_name)].default:
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
