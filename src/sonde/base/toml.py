"""Reader of TOML files by users (experiments, recipes, requirements), with limits on size and depth."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError

_MOST_BYTES = 200_000
_MOST_DOTS = 5_000
"""Limit because parsing is quadratic in the parts of a dotted name; floating-point numbers count too."""

_DEEPEST = 16


def read_toml(path: Path, what: str, *, empty_lists: bool = False) -> dict[str, Any]:
    """Read a TOML file.

    Args:
        path: The file.
        label: Its kind, for messages.
        empty_lists: Whether empty lists are allowed and mean "none".

    Raises:
        InputError: The file cannot be read, or is no TOML.
        UsageError: It has an empty list, and `empty_lists` is not set.
    """
    about = f"{what} {str(path)!r}"
    try:
        with path.open("rb") as handle:
            raw = handle.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise InputError(f"{about}: longer than {_MOST_BYTES:,} bytes")
        if raw.count(b".") > _MOST_DOTS:
            raise InputError(f"{about}: it holds more than {_MOST_DOTS:,} dots")
        table = tomllib.loads(raw.decode("utf-8"))
        _check(table, path, about, empty_lists=empty_lists)
    except OSError as error:
        raise InputError(f"{about}: {error.strerror or error}") from error
    except RecursionError:
        raise InputError(f"{about}: not TOML that can be read: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{about}: not TOML: {error}") from error
    return table


def _check(table: dict[str, Any], path: Path, about: str, *, empty_lists: bool) -> None:
    pending: list[tuple[str, object, int]] = [(name, value, 1) for name, value in table.items()]
    while pending:
        name, value, depth = pending.pop()
        if depth > _DEEPEST:
            raise InputError(f"{about}: {name.split('.')[0]!r} holds tables or lists nested too deeply")
        if isinstance(value, dict):
            pending += [(f"{name}.{key}", held, depth + 1) for key, held in value.items()]
        elif isinstance(value, list):
            if not empty_lists and (not value or "" in value):
                raise UsageError(f"{name} = {value!r} names nothing; leave it out for the default").located(
                    str(path)
                )
            pending += [(name, held, depth + 1) for held in value]
