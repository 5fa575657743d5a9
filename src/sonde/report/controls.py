"""A number held against the best of its controls, and what may be concluded.

Whether it may be called a finding is decided by `sonde.stats.verdict.no_verdict_reason` alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sonde.results.extremes import widen
from sonde.results.schema import has_dimensions
from sonde.results.text_format import NO_DIFFERENCE, TOO_LITTLE
from sonde.stats.power import detectable_from_score, detectable_gap
from sonde.stats.verdict import classify_effect, minimum_effect, no_verdict_reason

Row = Mapping[str, Any]


ABOVE, BELOW, SLIGHT, LEVEL, ALONE, OPEN = "above", "below", "slight", "level", "alone", "open"


VERDICTS = {
    ABOVE: "better than its control",
    BELOW: "worse than its control",
    SLIGHT: "differs from its control by less than matters",
    LEVEL: f"{NO_DIFFERENCE} from its control",
    ALONE: "a number without a control",
    OPEN: TOO_LITTLE,
}
"""What a row of the first screen may conclude, as it is said in few words."""


WHERE = {
    ABOVE: "above",
    BELOW: "below",
    SLIGHT: "apart by less than matters from",
    LEVEL: f"{NO_DIFFERENCE} from",
}
"""Where a number lies beside its control, of which it is not known whether more is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LensQuestion:
    """Which number speaks for a lens on the first screen, and how it is said.

    Attributes:
        subject: Who is measured, in the plural.
        measure: What the number is, such that "19 % of" or "1.4" may stand before it.
        metrics: The metric; of several the first that a task has.
        where: Which rows of it.
        controls: The controls that it is held against, by name, with their words.
        share: Whether it is a share, said in per cent.
        lower: Whether less is better.
        paired: The metric of paired differences to controls, where it is none of those called gains.
        otherwise: What speaks in its place where the run lacks the metrics.
        outcome: Whether it is what the numbers of other lenses should foretell, over several models.
        subjects: Who is measured where a row has another objective, by that.
        of_layer: Whether it is of a layer that validation chose by accuracy, see `sonde.results.layers`.
    """

    subject: str
    measure: str
    metrics: Sequence[str]
    where: pl.Expr = field(default_factory=lambda: has_dimensions({}))
    controls: Mapping[str, str] = field(default_factory=dict[str, str])
    share: bool = True
    lower: bool = False
    paired: str = ""
    otherwise: LensQuestion | None = None
    outcome: bool = False
    subjects: Mapping[str, str] = field(default_factory=dict[str, str])
    of_layer: bool = False

    def get_subject(self, row: Row) -> str:
        """Say who is measured by a row."""
        return self.subjects.get(row.get("objective") or "", self.subject)

    @property
    def with_gains(self) -> list[str]:
        """Its metrics, and those of paired differences to its controls."""
        gains = (f"{metric}_gain" for metric in self.metrics)
        return sorted({*self.metrics, *gains, "gain", self.paired} - {""})


@dataclass(frozen=True, slots=True)
class ControlComparison:
    """A number of one task, its best control and their paired difference.

    Attributes:
        row: The number.
        control: The best control that answers the same question.
        gain: The paired difference to it.
        kind: What may be concluded, a key of `VERDICTS`.
        why: Why nothing may; empty where something may.
        among: Of how many controls it is the best.
    """

    row: Row
    control: Row | None
    gain: Row | None
    kind: str
    why: str
    among: int = 1

    @property
    def detectable(self) -> float:
        """The difference that would have been found; NaN where it is not known."""
        if self.gain is not None:
            return detectable_from_score(self.gain, self.among)
        return math.nan if self.control is None else detectable_gap(self.row, self.control)


def compare_with_controls(rows: Sequence[Row], question: LensQuestion) -> ControlComparison | None:
    """What the rows of one model and task say; None where they lack the number.

    Args:
        rows: Scores, those of controls and differences among them.
        question: Which of them speaks.
    """
    held = {row["metric"] for row in rows if row["control"] is None}
    metric = next((name for name in question.metrics if name in held), None)
    if metric is None:
        return None
    row = next(one for one in rows if one["metric"] == metric and one["control"] is None)
    # What was pooled otherwise is another question.
    same = [one for one in rows if one["pooling"] in (row["pooling"], None)]
    beside = [one for one in same if one["metric"] == metric and one["control"] in question.controls]
    gains = {one["control"]: _find_gain(same, metric, one["control"], question.paired) for one in beside}
    sign = -1 if question.lower else 1
    # A lens that chose one of several controls on validation has a paired difference to that one alone.
    paired = [one for one in beside if gains[one["control"]] is not None]
    control = max(paired or beside, key=lambda one: sign * one["value"], default=None)
    gain = None if control is None else gains[control["control"]]
    among = len(paired or beside)
    kind, why = decide_verdict(row, control, gain, lower=question.lower, among=among)
    return ControlComparison(row, control, gain, kind, why, among)


def _find_gain(rows: Iterable[Row], metric: str, control: str, paired: str) -> Row | None:
    """The paired difference to a control."""
    for row in rows:
        of = row["metric"] in (f"{metric}_gain", paired) or (
            row["metric"] == "gain" and row["of_metric"] in (None, "", metric)
        )
        if of and control in (row["control"], row["compared_to"]):
            return row
    return None


def decide_verdict(
    row: Row, control: Row | None, gain: Row | None, *, lower: bool, among: int = 1
) -> tuple[str, str]:
    """What may be concluded of a number beside its control, and why nothing may.

    The best of several controls is so by chance too. A number that is surely better than it beats them all;
    it is worse only by an interval that holds for a control chosen of so many.

    Args:
        row: The number.
        control: Its control; None where there is none.
        gain: Their paired difference; without one their intervals have to lie apart.
        lower: Whether less is better.
        among: Of how many controls it is the best, on what is tested. To be better than that one is to be
            better than each; to be worse asks for an interval that holds for all of them (Bonferroni).
    """
    if control is None:
        why = no_verdict_reason(row)
        return (OPEN if why else ALONE), why
    why = (
        no_verdict_reason(gain) if gain is not None else no_verdict_reason(row) or no_verdict_reason(control)
    )
    if why:
        return OPEN, why
    if gain is not None:
        value, low, high = gain["value"], gain["ci_low"], gain["ci_high"]
        worse = widen(gain, among)["ci_low" if lower else "ci_high"]
        counted = gain
    else:
        # Without a paired difference only intervals that lie apart tell two numbers from each other.
        value = row["value"] - control["value"]
        low, high = row["ci_low"] - control["ci_high"], row["ci_high"] - control["ci_low"]
        worse, counted = (low if lower else high), row
    if lower:
        value, low, high, worse = -value, -high, -low, -worse
    size = minimum_effect(counted["metric"], counted["ci_method"] or "")
    found = classify_effect(value, low, high, size, is_sure=low > 0 or worse < 0)
    return {"higher": ABOVE, "lower": BELOW, "slight": SLIGHT}.get(found, LEVEL), ""
