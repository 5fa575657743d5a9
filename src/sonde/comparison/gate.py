"""A gate for the checkpoints of one training: is a number worse than at the last accepted checkpoint?

A gate may be looked at often. The error of its verdicts is spent over looks and numbers
(`sonde.stats.looks`), so that false alarms over a whole training stay below 5 %. Tests are paired and
two-sided, as in a comparison, though only a loss can stop a training: what is left makes up for the tails of
skewed losses, which no interval covers exactly so far out.

Each number is compared with its own last accepted value. An accepted checkpoint replaces all values but those
of numbers with a suspected loss. So a loss that one look cannot be sure of is looked at again, and losses
that are less than matters add up over checkpoints instead of becoming the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from sonde.comparison.differences import (
    FALSE_DISCOVERIES,
    WITHIN_PRECISION,
    Difference,
    compute_differences,
)
from sonde.results.schema import format_dimensions
from sonde.results.score_pairs import IDENTITY_COLUMNS, ComparableMetric, Direction
from sonde.results.scores import Score
from sonde.stats.intervals import DIFFERENCE_OF, Bounds, move_to_level
from sonde.stats.looks import spend_error
from sonde.stats.power import detectable_difference

Verdict = Literal["pass", "warn", "fail"]


Finding = Literal["fail", "warn", "slight", "open", "pass"]
"""Result for one number.

``fail``: a loss is sure over all looks, and it may be as large as what matters. ``warn``: so it would be if
this were the only look. ``slight``: a loss is sure, and less than matters. ``open``: a loss that matters is
not excluded. ``pass``: it is.
"""


SUSPICION = 0.05
"""P-value below which a loss is suspected, so that its number keeps its last accepted value."""


DIMENSION = "construct"
"""Dimension by which a gate looks at a number, beside the number over everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRow:
    """One number of a checkpoint, compared with its last accepted value.

    Attributes:
        difference: The paired difference, with its 95 % interval.
        low: Lower end of its interval at the spent level.
        high: Upper end.
        detectable: The loss that four of five such looks would find at the spent level.
        finding: The result.
    """

    difference: Difference
    low: float
    high: float
    detectable: float
    finding: Finding

    @property
    def about(self) -> str:
        """Return what the number is about, in words."""
        score = self.difference.score
        return ", ".join(filter(None, (score.task, format_dimensions(score.dimensions) or "everything")))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCheckpoint:
    """All numbers of a checkpoint at one look.

    Attributes:
        rows: One row per number.
        level: Error of each two-sided test.
        tests: Number of tests.
    """

    rows: Sequence[GateRow]
    level: float
    tests: int

    @property
    def verdict(self) -> Verdict:
        """Return the worst result of any number."""
        findings = {row.finding for row in self.rows}
        return "fail" if "fail" in findings else "warn" if "warn" in findings else "pass"

    @property
    def suspects(self) -> list[Score]:
        """Return the new scores with a suspected loss, see `SUSPICION`."""
        return [
            row.difference.score
            for row in self.rows
            if _loss(row.difference) > 0 and row.difference.p_value < SUSPICION
        ]

    def select(self, *findings: Finding) -> list[GateRow]:
        """Return the rows with these findings, the largest loss first."""
        rows = [row for row in self.rows if row.finding in findings]
        return sorted(rows, key=lambda row: -_loss(row.difference))


def get_question(score: Score) -> tuple[object, ...]:
    """Return the columns that define a number, whatever its model."""
    return tuple(getattr(score, name) for name in IDENTITY_COLUMNS)


def find_direction(score: Score, metrics: Sequence[ComparableMetric]) -> Direction:
    """Return which values of a score are better; empty if a gate does not look at it.

    A gate looks at numbers over everything and by construct that are sums by cluster over their observations.

    Args:
        score: The score.
        metrics: Metrics of its lens that are compared between models.
    """
    if score.contributions is None or score.contributions.sums is None:
        return ""
    if score.layer is not None or score.head is not None:
        return ""
    if [name for name, _ in score.dimensions] not in ([], [DIMENSION]):
        return ""
    for metric in metrics:
        if metric.gated and metric.tokenizers in ("same", "") and metric.takes(score):
            return metric.direction
    return ""


def judge_checkpoint(
    pairs: Sequence[tuple[Score, Score, Direction]],
    look: int,
    planned: int | None = None,
    minimum_effects: Mapping[str, float] = MappingProxyType({}),
) -> JudgedCheckpoint:
    """Compare the numbers of a checkpoint with their last accepted values.

    Args:
        pairs: The last accepted score, the new score over the same observations, and which values are better.
        look: Number of this look at the training, from 1.
        planned: Number of looks, if it is known beforehand.
        minimum_effects: Smallest loss that matters, by metric; the default is in `sonde.stats.verdict`.

    Raises:
        UsageError: The look is beyond the planned ones.
    """
    differences = compute_differences(pairs, minimum_effects)
    tests = sum(difference.why in ("", WITHIN_PRECISION) for difference in differences)
    level = spend_error(look, tests, planned)
    rows = [_judge_difference(difference, level) for difference in differences]
    return JudgedCheckpoint(rows=rows, level=level, tests=tests)


def _judge_difference(difference: Difference, level: float) -> GateRow:
    assert difference.score.contributions is not None
    kind = DIFFERENCE_OF[difference.score.contributions.kind]
    value, low, high, df = (np.array([getattr(difference, name)]) for name in ("value", "low", "high", "df"))
    low, high = (float(end[0]) for end in move_to_level(value, Bounds(low, high), df, kind, level / 2))
    error, factor = difference.error, difference.width_factor
    return GateRow(
        difference=difference,
        low=low,
        high=high,
        detectable=detectable_difference(error, difference.df, level, factor),
        finding=_classify_loss(difference, low, high),
    )


def _classify_loss(difference: Difference, low: float, high: float) -> Finding:
    if difference.why == WITHIN_PRECISION or not difference.value:
        return "pass"
    if difference.why:
        return "open"
    near, far = _loss_ends(difference, low, high)
    _, far_now = _loss_ends(difference, difference.low, difference.high)
    if near > 0:
        return "fail" if far >= difference.minimum_effect else "slight"
    if _loss(difference) > 0 and difference.p_adjusted < FALSE_DISCOVERIES:
        return "warn" if far_now >= difference.minimum_effect else "slight"
    return "pass" if far < difference.minimum_effect else "open"


def _loss(difference: Difference) -> float:
    """Return by how much the number is worse."""
    return -difference.value if difference.direction == "higher" else difference.value


def _loss_ends(difference: Difference, low: float, high: float) -> tuple[float, float]:
    """Return the smallest and the largest loss of an interval."""
    return (-high, -low) if difference.direction == "higher" else (low, high)
