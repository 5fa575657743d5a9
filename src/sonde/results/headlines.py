"""Headlines: the one number that speaks for a lens, its best control, and what may be concluded.

A lens declares its headline (`HeadlineMetric`); report, terminal, card, notebook and comparison read that. Of
a lens that declares none, such as a user's, `find_headlines` finds the headline in its scores.

Whether a number may be called a finding is decided by `sonde.stats.verdict.no_verdict_reason` alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sonde.base.formatting import format_name
from sonde.results.extremes import find_extreme, widen
from sonde.results.local_cues import LOCAL_CUES
from sonde.results.schema import SELECTION, get_dimensions, has_dimensions
from sonde.results.scores import LEFT_OUT
from sonde.results.text_format import NO_DIFFERENCE, PLAIN, SHARE, TOO_LITTLE, Row, Unit, format_estimate
from sonde.stats.power import detectable_from_score, detectable_gap
from sonde.stats.verdict import classify_effect, minimum_effect, no_verdict_reason

ABOVE, BELOW, SLIGHT, LEVEL, UNCONTROLLED, OPEN = "above", "below", "slight", "level", "alone", "open"


VERDICTS = {
    ABOVE: "better than its control",
    BELOW: "worse than its control",
    SLIGHT: "differs from its control by less than matters",
    LEVEL: f"{NO_DIFFERENCE} from its control",
    UNCONTROLLED: "a number without a control",
    OPEN: TOO_LITTLE,
}
"""Conclusions about a headline, in few words."""


POSITIONS = {
    ABOVE: "above",
    BELOW: "below",
    SLIGHT: "apart by less than matters from",
    LEVEL: f"{NO_DIFFERENCE} from",
}
"""Positions of a number relative to its control, if it is not known whether more is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlineMetric:
    """The metric that speaks for a lens, its rows, its controls and the words of its sentence.

    Attributes:
        subject: Subject of the sentence, in the plural.
        measure: Measure, such that "19 % of" or "1.4" may precede it.
        finding: What it means that a task beats the best control, with ``{task}``; empty for the subject.
        metrics: The metric; of several the first that a task has.
        where: Condition of its rows.
        listed: Condition of further rows that the terminal lists, such as those of swept options.
        controls: Words of the controls that it is compared with, by name.
        share: Whether it is a share, shown in per cent.
        lower: Whether less is better.
        paired: Metric of paired differences to controls, if it is none of those called gains.
        otherwise: The headline of a run that lacks the metrics.
        outcome: Whether the metrics of other lenses should predict it, over several models.
        subjects: Subject by objective, for rows with another objective.
        of_layer: Whether it is of a layer that validation chose by accuracy, see `sonde.results.layers`.
    """

    subject: str
    measure: str
    metrics: Sequence[str]
    finding: str = ""
    where: pl.Expr = field(default_factory=lambda: has_dimensions({}))
    listed: pl.Expr | None = None
    controls: Mapping[str, str] = field(default_factory=dict[str, str])
    share: bool = True
    lower: bool = False
    paired: str = ""
    otherwise: HeadlineMetric | None = None
    outcome: bool = False
    subjects: Mapping[str, str] = field(default_factory=dict[str, str])
    of_layer: bool = False

    @property
    def unit(self) -> Unit:
        """Return the unit of its numbers."""
        return SHARE if self.share else PLAIN

    @property
    def with_gains(self) -> list[str]:
        """Return its metrics, and those of paired differences to its controls."""
        gains = (f"{metric}_gain" for metric in self.metrics)
        return sorted({*self.metrics, *gains, "gain", self.paired} - {""})


@dataclass(frozen=True, slots=True)
class ControlComparison:
    """A number of one task, its best control and their paired difference.

    Attributes:
        row: The number.
        control: The best control that answers the same question.
        gain: The paired difference to it.
        kind: Conclusion, a key of `VERDICTS`.
        reason: Reason why there is none; empty if there is one.
        n_controls: Number of controls of which it is the best.
        gains: The paired difference to each control that has one.
    """

    row: Row
    control: Row | None
    gain: Row | None
    kind: str
    reason: str
    n_controls: int = 1
    gains: Mapping[str, Row] = field(default_factory=dict[str, Row])

    @property
    def detectable(self) -> float:
        """Return the difference that would have been found; NaN if it is not known."""
        if self.gain is not None:
            return detectable_from_score(self.gain, self.n_controls)
        return math.nan if self.control is None else detectable_gap(self.row, self.control)


def compare_with_controls(rows: Sequence[Row], question: HeadlineMetric) -> ControlComparison | None:
    """Compare the headline of one model and task with its best control; None if rows lack the metric.

    Args:
        rows: Scores, with those of controls and differences.
        question: The declared headline.
    """
    metrics = {row["metric"] for row in rows if row["control"] is None}
    metric = next((name for name in question.metrics if name in metrics), None)
    if metric is None:
        return None
    row = next(
        candidate for candidate in rows if candidate["metric"] == metric and candidate["control"] is None
    )
    # What was pooled otherwise is another question.
    same_pooling = [candidate for candidate in rows if candidate["pooling"] in (row["pooling"], None)]
    control_rows = [
        candidate
        for candidate in same_pooling
        if candidate["metric"] == metric and candidate["control"] in question.controls
    ]
    names = dict.fromkeys(candidate["control"] for candidate in control_rows)
    gains = {
        name: gain for name in names if (gain := _find_gain(same_pooling, metric, name, question.paired))
    }
    sign = -1 if question.lower else 1
    # A lens that chose one of several controls on validation has a paired difference to that one alone.
    paired_rows = [candidate for candidate in control_rows if candidate["control"] in gains]
    control = max(paired_rows or control_rows, key=lambda candidate: sign * candidate["value"], default=None)
    gain = None if control is None else gains.get(control["control"])
    n_controls = len(paired_rows or control_rows)
    kind, reason = decide_verdict(row, control, gain, lower=question.lower, n_controls=n_controls)
    return ControlComparison(row, control, gain, kind, reason, n_controls, gains)


def _find_gain(rows: Iterable[Row], metric: str, control: str, paired: str) -> Row | None:
    """Find the paired difference to a control."""
    for row in rows:
        is_gain = row["metric"] in (f"{metric}_gain", paired) or (
            row["metric"] == "gain" and row["of_metric"] in (None, "", metric)
        )
        if is_gain and control in (row["control"], row["compared_to"]):
            return row
    return None


def decide_verdict(
    row: Row, control: Row | None, gain: Row | None, *, lower: bool, n_controls: int = 1
) -> tuple[str, str]:
    """Return the conclusion about a number and its control, and the reason if there is none.

    The best of several controls is so by chance too. A number that is surely better than it beats them all;
    it is worse only by an interval that holds for a control chosen of so many.

    Args:
        row: The number.
        control: Its control; None without one.
        gain: Their paired difference; without one their intervals have to lie apart.
        lower: Whether less is better.
        n_controls: Number of controls of which it is the best on test. What is better than the best control
            is better than each; "worse" needs an interval that holds for all of them (Bonferroni).
    """
    if control is None:
        reason = no_verdict_reason(row)
        return (OPEN if reason else UNCONTROLLED), reason
    reason = (
        no_verdict_reason(gain) if gain is not None else no_verdict_reason(row) or no_verdict_reason(control)
    )
    if reason:
        return OPEN, reason
    if gain is not None:
        value, low, high = gain["value"], gain["ci_low"], gain["ci_high"]
        worse_end = widen(gain, n_controls)["ci_low" if lower else "ci_high"]
        tested_row = gain
    else:
        # Without a paired difference only intervals that lie apart tell two numbers from each other.
        value = row["value"] - control["value"]
        low, high = row["ci_low"] - control["ci_high"], row["ci_high"] - control["ci_low"]
        worse_end, tested_row = (low if lower else high), row
    if lower:
        value, low, high, worse_end = -value, -high, -low, -worse_end
    size = minimum_effect(tested_row["metric"], tested_row["ci_method"] or "")
    effect = classify_effect(value, low, high, size, is_sure=low > 0 or worse_end < 0)
    return {"higher": ABOVE, "lower": BELOW, "slight": SLIGHT}.get(effect, LEVEL), ""


Controls = dict[tuple[Any, ...], list[Row]]
"""Rows of controls by question, see `control_key`."""


POSITION_COLUMNS = ("side", "layer", "head")
"""Columns of the position in a model."""


QUALIFIER_COLUMNS = (
    "task", "split", "pooling", "metric", "of_metric", "compared_to", "k", "method", "matching",
    "aggregation", "objective", "weighting", "binning", "unit", "chosen",
)  # fmt: skip
"""Columns that define a score besides model, language, position and dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The headline result of a lens for one model and language.

    Attributes:
        row: The headline score; of several positions or values of a dimension the highest.
        values: The scores of all positions or values of a dimension; ``row`` alone where it is over
            everything.
        controls: Rows of controls for the same question as ``row``.
    """

    row: Row
    values: Sequence[Row]
    controls: Sequence[Row]

    @property
    def n_values(self) -> int:
        """Return the number of scores of which ``row`` is the highest."""
        return len(self.values)

    @property
    def n_tied(self) -> int:
        """Count the scores that cannot be told from the highest, with itself and those without a verdict."""
        extreme = find_extreme(self.values)
        return self.n_values if extreme is None else len(extreme.rows) + extreme.n_without_verdict

    def compare_with_best_control(self) -> ControlComparison:
        """Compare it with the highest of its controls, widened for the highest of several."""
        row = widen(self.row, self.n_values)
        control = max(self.controls, key=lambda control: control["value"], default=None)
        # Whether more is better is not known: a sentence says where it lies, never whether that is good.
        return ControlComparison(row, control, None, *decide_verdict(row, control, None, lower=False))


def select_finite(scores: pl.DataFrame) -> pl.DataFrame:
    """Select the rows whose value is finite."""
    return scores.filter(pl.col("value").is_not_null() & pl.col("value").is_finite())


def find_headlines(scores: pl.DataFrame) -> list[Headline]:
    """Find one headline result for each model and language, in the order of the table.

    The headline metric has an interval, covers the most data (without dimensions, layer and head before one
    with them) and has a control; of equals the first row.

    Args:
        scores: The rows of one lens in the schema of ``scores.parquet``, those of controls included.
    """
    rows = select_finite(scores).filter(pl.col("metric") != LEFT_OUT).to_dicts()
    controls = group_controls(rows)
    model_rows = [row for row in rows if row["control"] is None]
    if not model_rows:
        return []
    headline_row = _select_first_row(model_rows, controls)
    headlines: list[Headline] = []
    for subject in dict.fromkeys((row["model"], row["language"]) for row in model_rows):
        subject_rows = [row for row in model_rows if (row["model"], row["language"]) == subject]
        by_question: dict[tuple[Any, ...], list[Row]] = {}
        for row in subject_rows:
            by_question.setdefault(_question_key(row), []).append(row)
        matches = by_question.get(_question_key(headline_row))
        if matches is None:
            matches = by_question[_question_key(_select_first_row(subject_rows, controls))]
        # Rows that nothing tells apart are no range: the first is taken.
        matches = matches if dimension_names(matches[0]) else matches[:1]
        highest = max(matches, key=lambda row: row["value"])
        headlines.append(Headline(row=highest, values=matches, controls=find_controls(controls, highest)))
    return headlines


def group_controls(rows: Iterable[Row]) -> Controls:
    """Group rows of controls by the question that they answer."""
    controls: Controls = {}
    for row in rows:
        if row["control"] not in (None, LOCAL_CUES):
            controls.setdefault(control_key(row), []).append(row)
    return controls


def find_controls(controls: Controls, row: Row) -> list[Row]:
    """Return the controls of a row: those of the same layer and head, and those that have none."""
    matches = controls.get(control_key(row), [])
    if row["layer"] is None and row["head"] is None:
        return matches
    return matches + controls.get(control_key({**row, "layer": None, "head": None}), [])


def control_key(row: Row) -> tuple[Any, ...]:
    """Return the key that a control shares with the row that it controls."""
    question = tuple(row[name] for name in QUALIFIER_COLUMNS if name not in ("chosen", "method"))
    values = tuple(get_dimensions(row).items())
    return (row["model"], row["language"], *question, *(row[name] for name in POSITION_COLUMNS), values)


def dimension_names(row: Row) -> tuple[str, ...]:
    """Return the names of a row's dimensions, and of layer and head if it has them."""
    return (
        *get_dimensions(row),
        *(name for name in POSITION_COLUMNS[1:] if row[name] is not None),
    )


def describe_dimensions(row: Row) -> str:
    """Describe a row's dimensions with their values, for example ``"depth 3, layer 2"``."""
    pairs: list[tuple[str, Any]] = [*get_dimensions(row).items()]
    pairs += [(name, row[name]) for name in POSITION_COLUMNS[1:] if row[name] is not None]
    return ", ".join(f"{format_name(name)} {format_name(value)}" for name, value in pairs)


def describe_task(row: Row) -> str:
    """Describe whose score a row is: task, language, model, side, dimensions and external test set."""
    language = f" ({row['language']})" if row["language"] else ""
    dimensions = [f"{name}={value}" for name, value in get_dimensions(row).items() if name != SELECTION]
    split = "external test set" if row["split"] == "external" else ""
    return ", ".join(
        filter(None, (f"{row['task']}{language}", row["model"], row["side"], *dimensions, split))
    )


def format_metric(row: Row) -> str:
    """Format the metric, with ``k`` and ``of_metric``."""
    of_metric = f" of {format_name(row['of_metric'])}" if row["of_metric"] else ""
    k = f" (k = {row['k']})" if row["k"] is not None else ""
    return f"{format_name(row['metric'])}{of_metric}{k}"


def format_control(row: Row) -> str:
    """Format a row of a control, for example ``"random weights 0.10 [0.08, 0.12]"``."""
    return f"{format_name(row['control'])} {format_estimate(row)}"


def _question_key(row: Row) -> tuple[Any, ...]:
    """Return the key of a row's question, without the values of its dimensions and its layer and head."""
    return (*(row[name] for name in QUALIFIER_COLUMNS), row["side"], dimension_names(row))


def _select_first_row(rows: Sequence[Row], controls: Controls) -> Row:
    """Select the row that represents others; of equally ranked rows one with controls."""
    ranks = [_rank(row) for row in rows]
    best = min(ranks)
    ties = [row for row, rank in zip(rows, ranks, strict=True) if rank == best]
    return next((row for row in ties if find_controls(controls, row)), ties[0])


def _rank(row: Row) -> tuple[bool, bool, int]:
    low, high = row["ci_low"], row["ci_high"]
    unknown = low is None or high is None or not math.isfinite(high - low)
    # As many as `dimension_names` lists.
    n_dimensions = len(row["dimensions"]) + sum(row[name] is not None for name in POSITION_COLUMNS[1:])
    return unknown, bool(row["of_metric"]), n_dimensions
