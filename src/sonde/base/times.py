"""Times that a person writes."""

from __future__ import annotations

import re

from sonde.base.errors import UsageError

_PARTS = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")
_SECONDS = (3600.0, 60.0, 1.0)


def seconds_of(text: str, what: str) -> float:
    """Read a time such as ``2h``, ``90m``, ``1h30m`` or ``3600s``.

    >>> seconds_of("1h30m", "--budget")
    5400.0

    Args:
        text: The time.
        what: What it is given as, for the message.

    Raises:
        UsageError: It is something else, or no time at all.
    """
    found = _PARTS.fullmatch(text.strip().lower())
    parts = zip(found.groups(), _SECONDS, strict=True) if found else ()
    seconds = sum(float(part) * each for part, each in parts if part)
    if not seconds:
        raise UsageError(f"{what} {text!r} is no time; write it as 2h, 90m, 1h30m or 3600s")
    return seconds
