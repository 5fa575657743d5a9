"""Text of numbers, counts, names, sizes and durations, the same in every message, table and page."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence

DASH = "–"
"""Printed in place of a number where there is none."""


_REPLACEMENT = "\ufffd"


_ALLOWED_CONTROLS = "\t\n\r"


def plural(quantity: float | str, noun: str, plural_noun: str = "") -> str:
    """Format a count with its noun.

    Args:
        quantity: The count, or its text.
        noun: Singular noun.
        plural_noun: Plural noun; by default with an s, or ies for a final y.

    >>> plural(1, "pair"), plural(1200, "pair"), plural(0, "miss", "misses"), plural(2, "query")
    ('1 pair', '1,200 pairs', '0 misses', '2 queries')
    """
    text = quantity if isinstance(quantity, str) else number(quantity, 0)
    if text == "1":
        return f"{text} {noun}"
    return f"{text} {plural_noun or (f'{noun[:-1]}ies' if noun.endswith('y') else f'{noun}s')}"


class _Pictures(dict[int, str]):
    """Table for `str.translate`: visible signs for control characters and other unprintable code points."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        picture = sign
        if sign not in _ALLOWED_CONTROLS and unicodedata.category(sign) in ("Cc", "Cs", "Cn"):
            picture = chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else _REPLACEMENT
        self[code] = picture
        return picture


_PICTURES = _Pictures()


def legible(text: str) -> str:
    r"""Replace each character that cannot be shown by one visible sign; line breaks and tabulators stay.

    >>> ascii(legible("a\x1b[0m\x00\n\ud800"))
    "'a\\u241b[0m\\u2400\\n\\ufffd'"
    """
    return text if text.isprintable() else type(text)(text.translate(_PICTURES))


def join_names(names: Sequence[str]) -> str:
    """Join names for a sentence.

    >>> join_names(["a"]), join_names(["a", "b"]), join_names(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def align_cells(rows: Sequence[Sequence[str]], right: Sequence[bool] = ()) -> list[str]:
    """Align the cells of rows in columns, a line per row.

    Args:
        rows: Rows with equally many cells.
        right: Whether each column is right-aligned; by default none is.

    >>> align_cells([["a", "bb"], ["ccc", "d"]], [False, True])
    ['a    bb', 'ccc   d']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.rjust if is_right else str.ljust for is_right in right or [False] * len(widths)]
    return [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip()
        for row in rows
    ]


def shorten_names(names: Sequence[str], maximum: int = 3) -> str:
    """Join names for a sentence; beyond ``maximum`` the rest is counted.

    >>> shorten_names(["a"]), shorten_names(["a", "b", "c"]), shorten_names(["a", "b", "c", "d", "e"])
    ('a', 'a, b and c', 'a, b, c and 2 others')
    """
    if len(names) <= maximum:
        return join_names(names)
    return f"{', '.join(names[:maximum])} and {plural(len(names) - maximum, 'other')}"


def number(value: float | None, digits: int = 2, sign: str = "") -> str:
    """Format a number with fixed decimals and separated thousands; a dash where there is none.

    Args:
        value: The number.
        digits: Decimals.
        sign: ``"+"`` writes the sign of positive numbers too.

    >>> number(1234.5, 1), number(-0.25), number(-0.001), number(None), number(float("nan"))
    ('1,234.5', '−0.25', '0.00', '–', '–')
    """
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:{sign}z,.{digits}f}".replace("-", "−")


def count(value: float | None) -> str:
    """Format a whole number with separated thousands."""
    return number(value, 0)


def bracket(text: str) -> str:
    """Return a text in brackets after a blank; an empty text stays empty."""
    return f" ({text})" if text else ""


_MAX_NAME_LENGTH = 60


def format_name(name: object) -> str:
    r"""Format a name for a sentence: one line without control characters, cut where it is long.

    >>> format_name("random_weights"), ascii(format_name("a\x1b[0m"))
    ('random weights', "'a\\ufffd[0m'")
    """
    text = str(name).replace("_", " ") if str(name).isidentifier() else str(name)
    visible_text = "".join(sign if sign.isprintable() else "\ufffd" for sign in text[: _MAX_NAME_LENGTH + 1])
    return (
        visible_text if len(visible_text) <= _MAX_NAME_LENGTH else f"{visible_text[:_MAX_NAME_LENGTH]}\u2026"
    )


def duration(seconds: float) -> str:
    """Format a duration to plan by.

    >>> duration(44.4), duration(660), duration(9_000)
    ('44 s', '11 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"


_BYTE_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def format_bytes(size: float) -> str:
    """Format a number of bytes.

    >>> format_bytes(512), format_bytes(1_234_567_890)
    ('512 bytes', '1.2 GB')
    """
    unit = 0
    while size >= 1000 and unit < len(_BYTE_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return (
        f"{size:,.0f} {_BYTE_UNITS[unit]}" if unit == 0 or size >= 10 else f"{size:.1f} {_BYTE_UNITS[unit]}"
    )


def format_parameters(parameters: int) -> str:
    """Format a number of parameters as model cards do.

    >>> format_parameters(125_000_000), format_parameters(1_230_000_000), format_parameters(21_000_000_000)
    ('125M', '1.23B', '21B')
    """
    scale, unit = (1e9, "B") if parameters >= 1e9 else (1e6, "M")
    return f"{parameters / scale:.3g}{unit}"
