"""Text of scores for people, their values for programs, and the glossary of terms.

Plain numbers and names are formatted by `sonde.base.formatting`. The glossary gives the tooltips of pages and
a list in the docs.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

import polars as pl

from sonde.base.formatting import DASH, bracket, count, legible, number
from sonde.stats.power import detectable_from_score
from sonde.stats.verdict import MIN_CLUSTERS, MIN_SEEDS, allows_verdict, no_verdict_reason

Row = Mapping[str, Any]
"""A record of a table, often a row of ``scores.parquet`` with more beside it."""


CellValue = str | float | int | bool | None
"""Value of a cell of a CSV file."""


ColumnType = pl.DataType | type[pl.DataType]


_MAX_EXTRA_DIGITS = 4
"""Decimals that a small number and its interval may have beyond those asked for."""


def choose_digits(row: Row, scale: float = 1.0, digits: int = 2) -> int:
    """Return the decimals that tell a number and its interval from 0 and from each other.

    Args:
        row: ``value, ci_low, ci_high`` of a score.
        scale: Factor of all three.
        digits: Decimals that are enough for most numbers.

    Returns:
        ``digits``, or up to three more where both ends would be printed alike, or a number whose interval
        excludes 0 as 0; ``digits`` too where three more do not help.

    >>> choose_digits({"value": 0.0004, "ci_low": 0.0001, "ci_high": 0.0007})
    4
    >>> choose_digits({"value": 0.0004, "ci_low": -0.1, "ci_high": 0.1})
    2
    """
    low, high = _get_bounds(row)
    if low is None or high is None or low == high:
        return digits
    value = _get_value(row)
    for decimals in range(digits, digits + _MAX_EXTRA_DIGITS):
        unit = 10.0**-decimals
        is_flat = round(low * scale, decimals) == round(high * scale, decimals)
        is_lost = value is not None and low * high > 0 and abs(value * scale) < unit / 2
        if not is_flat and not is_lost:
            return decimals
    return digits


def interval(row: Row, scale: float = 1.0, digits: int = 2, sign: str = "") -> str:
    """Format the 95 % interval of a score row, never with zero width; a dash where there is none.

    Args:
        row: ``value, ci_low, ci_high`` of a score.
        scale: Factor of both ends.
        digits: Decimals; more where they are needed (`choose_digits`).
        sign: ``"+"`` writes the sign of positive numbers too.

    >>> interval({"value": 0.0004, "ci_low": 0.0001, "ci_high": 0.0007})
    '[0.0001, 0.0007]'
    """
    low, high = _get_bounds(row)
    # Equal ends are those of a number that does not vary, which has no interval.
    if low is None or high is None or low == high:
        return DASH
    decimals = choose_digits(row, scale, digits)
    low, high, unit = low * scale, high * scale, 10.0**-decimals
    if round(low / unit) == round(high / unit):
        # What no more decimals tell apart is rounded outwards.
        low, high = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    return f"[{number(low, decimals, sign)}, {number(high, decimals, sign)}]"


NO_VARIATION = "no variation"
"""Printed instead of an interval if a number is the same in every cluster."""


def with_interval(row: Row, scale: float = 1.0, digits: int = 2, sign: str = "") -> str:
    """Format value and interval, for example ``1.43 [1.39, 1.47]``; arguments as for `interval`.

    >>> with_interval({"value": 0.0, "ci_low": 0.0, "ci_high": 0.0})
    '0.00 (no variation)'
    """
    value = number(row["value"] * scale, choose_digits(row, scale, digits), sign)
    if (bounds := interval(row, scale, digits, sign)) != DASH:
        return f"{value} {bounds}"
    return value if _get_bounds(row)[0] is None else f"{value} ({NO_VARIATION})"


def _get_bounds(row: Row) -> tuple[float, float] | tuple[None, None]:
    """Return both ends of a row's interval, or neither: half an interval is none."""
    low, high = row.get("ci_low"), row.get("ci_high")
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None, None
    return low, high


def _get_value(content: Any) -> float | None:
    """Return the number of a score row, or the number itself; None where it is none."""
    value = content["value"] if isinstance(content, Mapping) else content
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Plain text; the base class of formats.

    Attributes:
        missing: Text for a missing value.
        right: Whether the column is right-aligned, and sorted from the largest when it is first clicked.
    """

    missing: str = DASH
    right: bool = False

    parts: ClassVar[Mapping[str, ColumnType]] = {"": pl.String}
    """Columns of a CSV file: suffix of the title, and type of the values."""

    def text(self, content: Any) -> str:
        """Format a value that is not missing, for people."""
        return str(content)

    def order(self, content: Any) -> float | None:
        """Return the number by which rows are sorted; None where they are sorted by text."""
        del content
        return None

    def plain(self, content: Any) -> tuple[CellValue, ...]:
        """Return one value for each of `parts`."""
        return (legible(str(content)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Format):
    """A number with fixed decimals; of a score row, its value.

    Attributes:
        digits: Decimals.
        scale: Factor, for example 100 for a share in per cent.
    """

    digits: int = 2
    scale: float = 1.0
    right: bool = True

    parts: ClassVar[Mapping[str, ColumnType]] = {"": pl.Float64}

    def text(self, content: Any) -> str:
        """Format the scaled number with its decimals."""
        value = _get_value(content)
        return self.missing if value is None else number(value * self.scale, self.digits)

    def order(self, content: Any) -> float | None:
        """Return the number itself."""
        return _get_value(content)

    def plain(self, content: Any) -> tuple[CellValue, ...]:
        """Return the scaled number, not rounded to the decimals shown."""
        return (self._scale(_get_value(content)),)

    def _scale(self, value: float | None) -> float | None:
        # Twelve digits leave out what multiplying by 100 adds at the end: 7.000000000000001.
        return None if value is None else float(f"{value * self.scale:.12g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Number):
    """A whole number."""

    digits: int = 0

    parts: ClassVar[Mapping[str, ColumnType]] = {"": pl.Int64}

    def plain(self, content: Any) -> tuple[CellValue, ...]:
        """Return the number as an integer."""
        value = _get_value(content)
        return (None if value is None else round(value),)


@dataclass(frozen=True, slots=True, kw_only=True)
class General(Number):
    """A number of any size, such as a learning rate, with as many digits as it needs."""

    def text(self, content: Any) -> str:
        """Format with decimals or a power of ten, whichever is shorter."""
        value = _get_value(content)
        return self.missing if value is None else f"{value:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PValue(Number):
    """A p-value; one too small for its decimals is printed as below the smallest that they show."""

    digits: int = 4

    def text(self, content: Any) -> str:
        """Format, for example, ``0.0312`` or ``< 0.0001``."""
        value, minimum = _get_value(content), 10.0**-self.digits
        if value is None:
            return self.missing
        return f"< {number(minimum, self.digits)}" if value < minimum else number(value, self.digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(Number):
    """The 95 % interval of a score row; low and high are two columns of a CSV file."""

    parts: ClassVar[Mapping[str, ColumnType]] = {" low": pl.Float64, " high": pl.Float64}

    def text(self, content: Any) -> str:
        """Format both ends in brackets."""
        bounds = interval(content, self.scale, self.digits)
        return self.missing if bounds == DASH else bounds

    def order(self, content: Any) -> float | None:
        """Return the lower end."""
        return _get_bounds(content)[0]

    def plain(self, content: Any) -> tuple[CellValue, ...]:
        """Return both ends, scaled."""
        return tuple(self._scale(end) for end in _get_bounds(content))


@dataclass(frozen=True, slots=True, kw_only=True)
class WithInterval(Number):
    """A score row's value followed by its 95 % interval; three columns of a CSV file."""

    parts: ClassVar[Mapping[str, ColumnType]] = {"": pl.Float64, " low": pl.Float64, " high": pl.Float64}

    def text(self, content: Any) -> str:
        """Format, for example, ``1.43 [1.39, 1.47]``."""
        return (
            self.missing if _get_value(content) is None else with_interval(content, self.scale, self.digits)
        )

    def plain(self, content: Any) -> tuple[CellValue, ...]:
        """Return value and both ends, scaled."""
        return tuple(self._scale(part) for part in (_get_value(content), *_get_bounds(content)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WithHalfWidth(WithInterval):
    """A score row's value with half the width of its interval, where whole intervals do not fit."""

    def text(self, content: Any) -> str:
        """Format, for example, ``41.3 ±2.1``."""
        value, (low, high) = _get_value(content), _get_bounds(content)
        if value is None:
            return self.missing
        digits = (
            choose_digits(content, self.scale, self.digits) if isinstance(content, Mapping) else self.digits
        )
        text = number(value * self.scale, digits)
        if low is None or high is None or low == high:
            return text
        return f"{text} ±{number(self.scale / 2 * (high - low), digits)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCount(Format):
    """A score row's clusters, its effective clusters, and whether these are too few for a verdict."""

    right: bool = True

    parts: ClassVar[Mapping[str, ColumnType]] = {
        "": pl.Int64,
        " effective": pl.Float64,
        " verdict": pl.Boolean,
    }

    def text(self, content: Any) -> str:
        """Format, for example, ``12 (worth 8.3), no verdict``."""
        effective = content.get("effective_clusters")
        worth = "" if effective is None else f" (worth {number(effective, 1)})"
        return f"{count(content['n_clusters'])}{worth}{'' if allows_verdict(content) else ', no verdict'}"

    def order(self, content: Any) -> float | None:
        """Return the number of clusters."""
        return content["n_clusters"]

    def plain(self, content: Any) -> tuple[CellValue, ...]:
        """Return clusters, effective clusters, and whether a verdict is allowed."""
        return content["n_clusters"], content.get("effective_clusters"), allows_verdict(content)


_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline(Format):
    """Numbers as bars between the least and the largest of them; shown on a screen, and in no file.

    Fonts of papers lack these signs, and a program needs the numbers.
    """

    missing: str = ""

    parts: ClassVar[Mapping[str, ColumnType]] = {}

    def text(self, content: Any) -> str:
        """Format one bar per number.

        >>> Sparkline().text([0.0, 0.5, 1.0]), Sparkline().text([0.3, 0.3])
        ('▁▅█', '▄▄')
        """
        low, high = min(content), max(content)
        if high <= low:
            return "▄" * len(content)
        return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in content)

    def plain(self, content: Any) -> tuple[CellValue, ...]:
        """Return no value."""
        del content
        return ()


TEXT = Format()
"""Plain text."""


COUNT = Count()
"""A whole number."""


PERCENT = Number(digits=1, scale=100)
"""A share, shown in per cent."""


PERCENT_WITH_INTERVAL = WithInterval(digits=1, scale=100)
"""A share with its interval behind it, in per cent."""


NO_DIFFERENCE = "no difference found"
"""Printed of a number that allows a verdict and is not distinguishable from its reference."""


TOO_LITTLE = "too little data"
"""Printed of a number that allows no verdict, with its estimate."""


OUTCOMES: Mapping[str, str] = {
    "better": "better",
    "worse": "worse",
    "higher": "higher",
    "lower": "lower",
    "slight": "differs, by less than matters",
    "alike": "no difference that matters",
    "undecided": NO_DIFFERENCE,
}
"""Outcomes of a comparison, in the words of page and terminal."""


_MAX_DIGITS = 8


def caveat(row: Row) -> str:
    """Return why a score allows no verdict, in brackets after a blank; empty if it allows one."""
    return bracket(insufficient_data_reason(row))


MARKS: Mapping[str, str] = {
    "cluster": "†",
    "seed": "‡",
    "interval is known": "§",
    "": "¶",
}
"""Mark of a number without a verdict, by a word of `sonde.stats.verdict.no_verdict_reason`."""


MARK_MEANINGS: Mapping[str, str] = {
    "†": f"fewer than {MIN_CLUSTERS} effective clusters",
    "‡": f"fewer than {MIN_SEEDS} seeds or draws",
    "§": "no interval is known",
    "¶": "too few independent observations, or too wide an interval",
}
"""What a number with a mark lacks for a verdict."""


MARK_GROUP = re.compile(f"(?<= )[{''.join(MARK_MEANINGS)}]+")
"""Marks after a number; a blank tells them from a section sign in quoted code."""


def mark_reason(*reasons: str) -> str:
    """Return the marks of reasons of `sonde.stats.verdict.no_verdict_reason`, each once, after a blank.

    >>> mark_reason("8.3 effective clusters, a verdict needs 10", "no interval is known"), mark_reason("")
    (' †§', '')
    """
    marks = dict.fromkeys(
        next(mark for word, mark in MARKS.items() if word in reason) for reason in reasons if reason
    )
    return f" {''.join(marks)}" if marks else ""


_REASON = (
    r"(?:[\d.,]+ effective clusters?, a verdict needs \d+|no interval is known"
    r"|worth [\d.,]+ independent observations?, a verdict needs \d+"
    r"|an interval of [\d.,]+ points(?:, a verdict needs \d+ or fewer| is too wide for so small a share)"
    r"|[\d,]+ (?:seed or draw|seeds or draws), a verdict needs \d+)"
)
"""What `sonde.stats.verdict.no_verdict_reason` returns."""


_STATED_REASONS = re.compile(
    rf" \((?!most often)[a-z :]*{_REASON}(?:; {_REASON})*(?:; …)?\)"
    rf"|(?<=oo little data): {_REASON}"
)


def mark_reasons(text: str) -> str:
    """Replace reasons without a verdict by their marks: those in brackets, and after "too little data".

    >>> mark_reasons("too little data (9.5 effective clusters, a verdict needs 10; no interval is known): 2")
    'too little data †§: 2'
    """

    def mark(match: re.Match[str]) -> str:
        return mark_reason(*re.findall(_REASON, match[0]))

    return _STATED_REASONS.sub(mark, text)


def verdict_mark(row: Row) -> str:
    """Return the mark of what a score lacks for a verdict, after a blank; empty if it allows one."""
    return mark_reason(no_verdict_reason(row))


def format_mark_legend(texts: Iterable[str]) -> str:
    """Explain the marks that occur in texts, in a sentence without a full stop; empty if none occurs.

    >>> format_mark_legend(["n = 7 pairs, 7 clusters †", "no mark"])
    'Too little data for a verdict: † fewer than 10 effective clusters'
    """
    marks = {mark for text in texts for group in MARK_GROUP.findall(mark_reasons(text)) for mark in group}
    meanings = [f"{mark} {meaning}" for mark, meaning in MARK_MEANINGS.items() if mark in marks]
    return f"Too little data for a verdict: {'; '.join(meanings)}" if meanings else ""


def insufficient_data_reason(row: Row) -> str:
    """Return why a score allows no verdict, to be printed with its estimate; empty if it allows one."""
    reason = no_verdict_reason(row)
    return f"{TOO_LITTLE}: {reason}" if reason else ""


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit that scores of one kind are shown in.

    Attributes:
        scale: Factor from a score to the number shown.
        digits: Decimals; more where they are needed (`choose_digits`).
        symbol: Text after a number.
        difference: Text after a difference of two numbers.

    >>> row = {"value": 0.3, "ci_low": 0.25, "ci_high": 0.5}
    >>> SHARE.value(row), SHARE.estimate(row), SHARE.change(row)
    ('30.0 %', '30.0 [25.0, 50.0] %', '30.0 [25.0, 50.0] points')
    >>> SHARE.detectable(0.029), PLAIN.detectable(0.0004), PLAIN.detectable(0.0)
    ('2.9 points or more would have been found', '0.0004 or more would have been found', 'no variation')
    >>> SHARE.null_result({"value": 0.0, "ci_low": -0.02, "ci_high": 0.02, "df": 29.0})
    'no difference found (2.8 points or more would have been found)'
    """

    scale: float = 1.0
    digits: int = 2
    symbol: str = ""
    difference: str = ""

    def value(self, row: Row) -> str:
        """Format the number of a score."""
        return f"{number(row['value'] * self.scale, self.digits)}{self.symbol}"

    def bounds(self, row: Row) -> str:
        """Format the interval of a score."""
        return interval(row, self.scale, self.digits)

    def estimate(self, row: Row) -> str:
        """Format a score with its interval."""
        return f"{with_interval(row, self.scale, self.digits)}{self.symbol}"

    def change(self, row: Row, sign: str = "") -> str:
        """Format a difference of two scores with its interval, with ``sign="+"`` for positive ones."""
        return f"{with_interval(row, self.scale, self.digits, sign)}{self.difference}"

    def detectable(self, difference: float) -> str:
        """Describe the difference that would have been found, without a full stop; empty if it is not known.

        Args:
            difference: Detectable difference: found in four of five such samples (`sonde.stats.power`). It
                has more decimals if it would be printed as 0.
        """
        if not math.isfinite(difference):
            return ""
        size = abs(difference * self.scale)
        if not size:
            return NO_VARIATION
        digits = max(self.digits, -math.floor(math.log10(size)))
        return f"{number(size, min(digits, _MAX_DIGITS))}{self.difference} or more would have been found"

    def null_result(self, row: Row, n_comparisons: float = 1) -> str:
        """Describe a paired difference that was not found, with the one that would have been."""
        return f"{NO_DIFFERENCE}{bracket(self.detectable(detectable_from_score(row, n_comparisons)))}"

    def null_results(self, rows: Sequence[Row], n_comparisons: float = 1) -> list[str]:
        """Describe several differences that were not found, with the largest detectable one; empty for none.

        Args:
            rows: Differences that allow a verdict and are not distinguishable from 0.
            n_comparisons: Number of comparisons whose intervals hold at once.
        """
        if not rows:
            return []
        sizes = [size for row in rows if math.isfinite(size := detectable_from_score(row, n_comparisons))]
        detectable = self.detectable(max(sizes, default=math.nan))
        suffix = " in each" if detectable and len(rows) > 1 else ""
        return [f"{NO_DIFFERENCE} in {len(rows)}{bracket(detectable + suffix)}"]

    def difference_caveat(self, row: Row) -> str:
        """Return the mark of a difference without a verdict, or in brackets that none was found."""
        if mark := verdict_mark(row):
            return mark
        if not row["ci_low"] <= 0 <= row["ci_high"]:
            return ""
        detectable = self.detectable(detectable_from_score(row))
        return bracket(f"{NO_DIFFERENCE}: {detectable}" if detectable else NO_DIFFERENCE)


PLAIN = Unit()
"""A number as it is."""


SHARE = Unit(100.0, 1, " %", " points")
"""A share in per cent; differences of shares are in points."""


BITS = Unit(difference=" bits")
"""A number whose differences are in bits."""


BITS_PER_NAT = 1.4426950408889634
"""Factor from nats, which tables of scores hold, to bits, which reports show."""


def auto_digits(row: Row) -> int:
    """Return the decimals that show three figures of a number, or of half its interval; at most six.

    >>> values = (1234.5, 12.5, 0.034, 0.0)
    >>> [auto_digits({"value": value, "ci_low": None, "ci_high": None}) for value in values]
    [0, 1, 4, 2]
    """
    low, high = row["ci_low"], row["ci_high"]
    half_width = 0.0 if low is None or high is None or not math.isfinite(high - low) else (high - low) / 2
    size = max(abs(row["value"]), half_width)
    return 2 if not size or not math.isfinite(size) else min(6, max(0, 2 - math.floor(math.log10(size))))


def format_estimate(row: Row) -> str:
    """Format a number of unknown unit with its interval, both with the same decimals.

    >>> format_estimate({"value": 0.25, "ci_low": 0.2, "ci_high": 0.3})
    '0.250 [0.200, 0.300]'
    """
    return with_interval(row, digits=auto_digits(row))


@cache
def load_glossary() -> Mapping[str, str]:
    """Load the meaning of each term, in one clause, in alphabetical order."""
    return tomllib.loads((files("sonde.results") / "glossary.toml").read_text(encoding="utf-8"))
