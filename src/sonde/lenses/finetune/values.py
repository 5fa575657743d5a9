"""Values of options as a user writes them, each with its own refusal."""

from __future__ import annotations

import math

from sonde.base.errors import UnknownNameError, UsageError
from sonde.lenses._lens import LensSettings


def known(kind: str, name: str, names: tuple[str, ...]) -> None:
    """Refuse a name that there is not."""
    if name not in names:
        raise UnknownNameError(f"{kind} of lens 'finetune'", name, names)


def count(settings: LensSettings, option: str, default: int) -> int:
    """A whole number of at least 1."""
    value = settings.options.get(option, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"lens 'finetune': option {option} = {value!r} is not a whole number of at least 1")
    return value


def counts(settings: LensSettings, option: str, default: int) -> tuple[int, ...]:
    """One whole number, or several separated by commas."""
    value = settings.options.get(option, default)
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else []
    if not parts:
        return (count(settings, option, default),)
    if not all(part.isdecimal() and int(part) for part in parts):
        raise UsageError(
            f"lens 'finetune': option {option} = {value!r}: give whole numbers of at least 1, as 16,32"
        )
    return tuple(dict.fromkeys(map(int, parts)))


def number(settings: LensSettings, option: str, default: float, most: float = math.inf) -> float:
    """A number from 0 on."""
    value = settings.options.get(option, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        until = "" if math.isinf(most) else f" to {most:g}"
        raise UsageError(f"lens 'finetune': option {option} = {value!r} is not a number from 0{until}")
    return float(value)


def rates(settings: LensSettings, option: str, default: tuple[float, ...]) -> tuple[float, ...]:
    """Learning rates, separated by commas."""
    value = settings.options.get(option)
    if value is None:
        return default
    try:
        found = tuple(dict.fromkeys(float(part) for part in str(value).split(",")))
    except ValueError:
        found = (0.0,)
    if isinstance(value, bool) or not all(0 < rate < 1 for rate in found):
        raise UsageError(
            f"lens 'finetune': option {option} = {value!r}: give numbers between 0 and 1, as 1e-4,3e-4"
        )
    return found
