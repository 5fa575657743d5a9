"""Days on which code was written, as texts such as ``2024-12-31``: they sort as the days do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

from sonde.base.errors import UsageError


def check_day(what: str, text: str) -> None:
    """Refuse what is no day.

    Args:
        what: What the day is of, for the message.
        text: The day.

    Raises:
        UsageError: It is not written as a year, a month and a day.
    """
    try:
        known = date.fromisoformat(text).isoformat() == text
    except ValueError:
        known = False
    if not known:
        raise UsageError(f"{what} = {text!r} is no day; write it as 2024-12-31")


def day_of(seconds: int) -> str:
    """The day of a time in seconds since 1970, in UTC.

    >>> day_of(0)
    '1970-01-01'
    """
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def utc_day(time: str) -> str:
    """The day of a time as an index writes it, in UTC.

    >>> utc_day("2024-12-31T23:30:00-05:00")
    '2025-01-01'

    Raises:
        ValueError, TypeError, OverflowError: It is no time.
    """
    return datetime.fromisoformat(time).astimezone(UTC).date().isoformat()


def days_between(dates: Sequence[tuple[int, str]], start: int, end: int) -> tuple[str, str]:
    """The oldest and the newest day of the stretches that a span of characters touches.

    >>> days_between([(0, "2020-01-01"), (10, "2024-01-01"), (20, "2022-01-01")], 12, 25)
    ('2022-01-01', '2024-01-01')

    Args:
        dates: Where each stretch begins and its day, in order; the last goes on to the end of the text.
        start: First character of the span.
        end: One past its last.

    Returns:
        Two empty texts where no stretch is known.
    """
    ends = [begin for begin, _ in dates[1:]]
    touched = [
        day
        for (begin, day), stop in zip(dates, [*ends, end + 1], strict=True)
        if begin < end and stop > start
    ]
    return (min(touched), max(touched)) if touched else ("", "")
