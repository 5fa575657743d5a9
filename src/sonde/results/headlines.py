"""Headline results of a lens, from its scores alone: the headline metric and the sentence about it.

For lenses without a report of their own, such as a user's: page, terminal and notebook print the same
sentence.

Two kinds of result have wording of their own. A probe is compared with the local cues that a word and its
neighbours give: report, terminal and card use the same words. Local cues belong to the language; they appear
beside a number and are no control that takes its verdict away. The scores of code from before and after a
cut-off date, over the same mix of constructs, have the dimension ``period``; they show whether a model
remembers the older code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.results.extremes import describe_ends, find_extreme, widen
from sonde.results.scores import LEFT_OUT
from sonde.results.text_format import (
    NO_DIFFERENCE,
    TOO_LITTLE,
    bracket,
    describe_detectable,
    format_estimate,
    format_name,
    format_score,
    insufficient_data_reason,
)
from sonde.stats.power import detectable_from_score
from sonde.stats.verdict import allows_verdict, classify_effect, minimum_effect, no_verdict_reason

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


LOCAL_CUES = "local_cues"
"""The column ``control`` of these rows."""


CUES_GAIN = "cues_gain"
"""Metric of the paired difference: the probe less local cues."""


MODEL_KEY = ("model", "task", "language")


_OUTCOME_WORDS = {**OUTCOMES, "higher": "more from the states", "lower": "less from the states"}


def describe_cues(accuracy: Row, cues: Row, gain: Row) -> str:
    """Return a clause that sets what states tell beside what the word and its neighbours tell.

    Args:
        accuracy: The row of the probe, whose interval is said elsewhere.
        cues: The row of local cues.
        gain: The row of their paired difference.
    """
    return (
        f"read from the states with {100 * accuracy['value']:.1f} %, from the word and its neighbours with "
        f"{format_score(cues, 100)} %: {compare_with_cues(gain)}, {format_score(gain, 100, sign='+')} points"
    )


def compare_with_cues(gain: Row) -> str:
    """Return whether states tell more than local cues, in words.

    >>> row = {"metric": "cues_gain", "ci_method": "Fisher", "effective_clusters": 50.0, "value": -0.05}
    >>> compare_with_cues({**row, "ci_low": -0.08, "ci_high": -0.02})
    'less from the states'
    >>> compare_with_cues({**row, "ci_low": -0.08, "ci_high": 0.02})
    'cannot be told'
    >>> compare_with_cues({**row, "ci_low": -0.08, "ci_high": -0.02, "effective_clusters": 3.0})
    'too little data'
    """
    if not allows_verdict(gain):
        return TOO_LITTLE
    low, high = gain["ci_low"], gain["ci_high"]
    minimum = minimum_effect(gain["metric"], gain["ci_method"] or "")
    return _OUTCOME_WORDS[classify_effect(gain["value"], low, high, minimum, is_sure=low > 0 or high < 0)]


def index_cues(rows: pl.DataFrame) -> dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Any]]]:
    """Return the accuracy of local cues and the paired difference to it, by model, task and language.

    Args:
        rows: Scores of probes at the chosen layer; of several poolings the first counts.
    """
    cues = rows.filter(control=LOCAL_CUES, metric="accuracy")
    gains = rows.filter(metric=CUES_GAIN, of_metric="accuracy")
    first, second = (
        {tuple(row[name] for name in MODEL_KEY): row for row in reversed(frame.to_dicts())}
        for frame in (cues, gains)
    )
    return {key: (row, second[key]) for key, row in first.items() if key in second}


Row = Mapping[str, Any]


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
    def among(self) -> int:
        """Return the number of scores of which ``row`` is the highest."""
        return len(self.values)

    @property
    def tied(self) -> int:
        """Count the scores that cannot be told from the highest, with itself and those without a verdict."""
        extreme = find_extreme(self.values)
        return self.among if extreme is None else len(extreme.rows) + extreme.n_without_verdict

    @property
    def adjusted_row(self) -> Row:
        """Return ``row`` with the interval that holds for the highest of several scores (`widen`)."""
        return widen(self.row, self.among)


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
        question = _question_key(headline_row)
        matches = [row for row in subject_rows if _question_key(row) == question]
        if not matches:
            first = _select_first_row(subject_rows, controls)
            question = _question_key(first)
            matches = [row for row in subject_rows if _question_key(row) == question]
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
    values = tuple((dimension["name"], dimension["value"]) for dimension in row["dimensions"])
    return (row["model"], row["language"], *question, *(row[name] for name in POSITION_COLUMNS), values)


def dimension_names(row: Row) -> tuple[str, ...]:
    """Return the names of a row's dimensions, and of layer and head if it has them."""
    return (
        *(dimension["name"] for dimension in row["dimensions"]),
        *(name for name in POSITION_COLUMNS[1:] if row[name] is not None),
    )


def describe_dimensions(row: Row) -> str:
    """Describe a row's dimensions with their values, for example ``"depth 3, layer 2"``."""
    pairs = [(dimension["name"], dimension["value"]) for dimension in row["dimensions"]]
    pairs += [(name, row[name]) for name in POSITION_COLUMNS[1:] if row[name] is not None]
    return ", ".join(f"{format_name(name)} {format_name(value)}" for name, value in pairs)


def format_metric(row: Row) -> str:
    """Format the metric, with ``k`` and ``of_metric``."""
    of_metric = f" of {format_name(row['of_metric'])}" if row["of_metric"] else ""
    k = f" (k = {row['k']})" if row["k"] is not None else ""
    return f"{format_name(row['metric'])}{of_metric}{k}"


def format_control(row: Row) -> str:
    """Format a row of a control, for example ``"random weights 0.10 [0.08, 0.12]"``."""
    return f"{format_name(row['control'])} {format_estimate(row)}"


def describe_headline(headline: Headline, model: str = "") -> str:
    """Describe a headline result in a sentence, the same on page, terminal and notebook.

    Args:
        headline: The headline result.
        model: Name of the model; by default as the user named it.
    """
    row = headline.row
    task = f"{format_name(row['task'])}, " if row["task"] else ""
    language = row["language"].capitalize() or "all languages"
    subject = f"{format_name(model or row['model'])} on {format_name(language)}"
    if headline.among > 1:
        # A control of one value says nothing of the others.
        rows = [control for control in headline.controls if not describe_dimensions(control)]
        return f"{subject}: {task}{format_metric(row)} has {_format_values(headline)}{_format_controls(rows)}"
    site = f" ({words})" if (words := describe_dimensions(row)) else ""
    size = (
        f"over {row['n']:,} observation{'s' * (row['n'] != 1)} from {row['n_clusters']:,} "
        f"cluster{'s' * (row['n_clusters'] != 1)}"
    )
    controls = _format_controls(headline.controls)
    reason = no_verdict_reason(row)
    note = f"{TOO_LITTLE}: {reason}" if reason else "a verdict is allowed"
    return f"{subject}: {task}{format_metric(row)} is {format_estimate(row)}{site}, {size}{controls}; {note}"


def _format_controls(rows: Sequence[Row]) -> str:
    """Format controls: the first few, and a count of the rest."""
    controls = "".join(f"; control {format_control(row)}" for row in rows[:_MAX_CONTROLS])
    remaining = len(rows) - _MAX_CONTROLS
    return (
        f"{controls} and {remaining} further control{'s' * (remaining > 1)} in the table"
        if remaining > 0
        else controls
    )


def _format_values(headline: Headline) -> str:
    """Describe several values: which are highest and lowest, as far as the intervals tell."""
    ends_sentence = describe_ends(
        headline.values,
        describe_dimensions,
        format_estimate,
        noun="values",
        verbs=("is the highest", "is the lowest"),
    )
    observations = [row["n"] for row in headline.values]
    minimum, maximum = min(observations), max(observations)
    range_text = f"{minimum:,} to {maximum:,}" if minimum < maximum else f"{minimum:,}"
    values = f"{headline.among:,} values, over {range_text} observation{'s' * (range_text != '1')} each"
    if not ends_sentence:
        lowest = min(headline.values, key=lambda row: row["value"])
        ends = f"from {format_estimate(lowest)} to {format_estimate(headline.row)}"
        reason = no_verdict_reason(headline.row) or "fewer than two of them can be compared"
        return f"{values}, {ends}; {TOO_LITTLE}: {reason}"
    return f"{values}. {ends_sentence}"


_MAX_CONTROLS = 4


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


PERIOD = "period"


BEFORE_CUTOFF, AFTER_CUTOFF, CUTOFF_CHANGE = "before", "after", "after-before"
"""Values of the dimension: both times, and by how much more the later one costs."""


CONTAMINATION_SEEN, CONTAMINATION_NOT_SEEN = "contamination seen", "contamination not seen"


CLAIM_LIMIT = (
    "a model that has read the older code predicts it better than matched newer code; other causes of drift "
    "over time are not excluded"
)
"""The most that the comparison can show, in words."""


def contamination_verdict(change: Mapping[str, Any], control_change: Mapping[str, Any] | None = None) -> str:
    """Return whether code from before a cut-off date is memorised, in words.

    It is said to be where newer code costs more by an interval that excludes zero, and by more than it does
    for random weights, where those were asked as well.

    >>> row = {"value": 0.1, "ci_low": 0.05, "ci_high": 0.15, "effective_clusters": 12}
    >>> contamination_verdict(row)
    'contamination seen'
    >>> contamination_verdict({**row, "ci_low": -0.05})
    'contamination not seen'
    >>> contamination_verdict({**row, "effective_clusters": 4})
    'too little data: 4 effective clusters, a verdict needs 10'

    Args:
        change: The score of the difference, later less earlier.
        control_change: The same difference for the model with random weights; None without that control.
    """
    rows = [change] if control_change is None else [change, control_change]
    for row in rows:
        if reason := insufficient_data_reason(row):
            return reason
    is_seen = all(row["ci_low"] > 0 for row in rows)
    return CONTAMINATION_SEEN if is_seen else CONTAMINATION_NOT_SEEN


def describe_contamination(change: Mapping[str, Any], control_change: Mapping[str, Any] | None = None) -> str:
    """Describe `contamination_verdict` in a sentence, with its meaning and the detectable difference.

    >>> row = {"value": 0.1, "ci_low": 0.08, "ci_high": 0.12, "effective_clusters": 12}
    >>> describe_contamination({**row, "value": 0.0, "ci_low": -0.02, "ci_high": 0.02})
    'Contamination not seen: no difference found by which newer code costs more than older code of the same \
kind (0.03 bits or more would have been found).'
    """
    verdict = contamination_verdict(change, control_change)
    meaning = ""
    if verdict == CONTAMINATION_SEEN:
        meaning = f": {CLAIM_LIMIT}"
    elif verdict == CONTAMINATION_NOT_SEEN:
        last = control_change if control_change is not None and change["ci_low"] > 0 else change
        detectable = describe_detectable(detectable_from_score(last), digits=2, unit=" bits")
        suffix = ", beyond that of random weights" if last is control_change else ""
        meaning = f": newer code costs less than older code of the same kind{suffix}"
        if last["ci_high"] >= 0:
            meaning = (
                f": {NO_DIFFERENCE} by which newer code costs more than older code of the same kind{suffix}"
                f"{bracket(detectable)}"
            )
    return f"{verdict[0].upper()}{verdict[1:]}{meaning}."
