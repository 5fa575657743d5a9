"""Reader of TOML files by users (experiments, recipes, requirements), with limits on size and depth."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError

_MAXIMUM_BYTES = 200_000
_MAXIMUM_DOTS = 5_000
"""Limit because parsing is quadratic in the parts of a dotted name; floating-point numbers count too."""

_MAXIMUM_DEPTH = 16


def read_toml(path: Path, label: str, *, empty_lists: bool = False) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: The file.
        label: Its kind, for messages.
        empty_lists: Whether empty lists are allowed and mean "none".

    Raises:
        InputError: The file cannot be read, or is no TOML.
        UsageError: It has an empty list, and `empty_lists` is not set.
    """
    subject = f"{label} {str(path)!r}"
    try:
        with path.open("rb") as file:
            raw = file.read(_MAXIMUM_BYTES + 1)
        if len(raw) > _MAXIMUM_BYTES:
            raise InputError(f"{subject}: longer than {_MAXIMUM_BYTES:,} bytes")
        if raw.count(b".") > _MAXIMUM_DOTS:
            raise InputError(f"{subject}: it holds more than {_MAXIMUM_DOTS:,} dots")
        table = tomllib.loads(raw.decode("utf-8"))
        _check_values(table, path, subject, empty_lists=empty_lists)
    except OSError as error:
        raise InputError(f"{subject}: {error.strerror or error}") from error
    except RecursionError:
        raise InputError(f"{subject}: not TOML that can be read: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{subject}: not TOML: {error}") from error
    return table


def _check_values(table: dict[str, Any], path: Path, subject: str, *, empty_lists: bool) -> None:
    stack: list[tuple[str, object, int]] = [(name, value, 1) for name, value in table.items()]
    while stack:
        name, value, depth = stack.pop()
        if depth > _MAXIMUM_DEPTH:
            raise InputError(f"{subject}: {name.split('.')[0]!r} holds tables or lists nested too deeply")
        if isinstance(value, dict):
            stack += [(f"{name}.{key}", child, depth + 1) for key, child in value.items()]
        elif isinstance(value, list):
            if not empty_lists and (not value or "" in value):
                raise UsageError(f"{name} = {value!r} names nothing; leave it out for the default").located(
                    str(path)
                )
            stack += [(name, child, depth + 1) for child in value]
