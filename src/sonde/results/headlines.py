"""Headline results of a lens, from its scores alone: the headline metric and the sentence about it.

For lenses without a report of their own, such as a user's: page, terminal and notebook print the same
sentence.
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
    figures,
    in_brackets,
    in_figures,
    plain_words,
    too_little,
    would_be_found,
)
from sonde.stats.power import detectable_of
from sonde.stats.verdict import amount, least_size, verdict_allowed, why_no_verdict

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


KEY = ("model", "task", "language")


_WORDS = {**OUTCOMES, "higher": "more from the states", "lower": "less from the states"}


def describe_cues(accuracy: Row, cues: Row, gain: Row) -> str:
    """Return a clause that sets what states tell beside what the word and its neighbours tell.

    Args:
        accuracy: The row of the probe, whose interval is said elsewhere.
        cues: The row of local cues.
        gain: The row of their paired difference.
    """
    return (
        f"read from the states with {100 * accuracy['value']:.1f} %, from the word and its neighbours with "
        f"{figures(cues, 100)} %: {compare_with_cues(gain)}, {figures(gain, 100, sign='+')} points"
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
    if not verdict_allowed(gain):
        return TOO_LITTLE
    low, high = gain["ci_low"], gain["ci_high"]
    least = least_size(gain["metric"], gain["ci_method"] or "")
    return _WORDS[amount(gain["value"], low, high, least, sure=low > 0 or high < 0)]


def cues_by_key(rows: pl.DataFrame) -> dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Any]]]:
    """Return the accuracy of local cues and the paired difference to it, by model, task and language.

    Args:
        rows: Scores of probes at the chosen layer; of several poolings the first counts.
    """
    cues = rows.filter(control=LOCAL_CUES, metric="accuracy")
    gains = rows.filter(metric=CUES_GAIN, of_metric="accuracy")
    first, second = (
        {tuple(row[name] for name in KEY): row for row in reversed(some.to_dicts())} for some in (cues, gains)
    )
    return {key: (row, second[key]) for key, row in first.items() if key in second}


Row = Mapping[str, Any]


Controls = dict[tuple[Any, ...], list[Row]]
"""Rows of controls by question, see `control_key`."""


PLACES = ("side", "layer", "head")
"""Columns of the position in a model."""


QUALIFIERS = (
    "task", "split", "pooling", "metric", "of_metric", "compared_to", "k", "method", "matching",
    "aggregation", "objective", "weighting", "binning", "unit", "chosen",
)  # fmt: skip
"""Columns that define a score besides model, language, position and dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
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
        return self.among if extreme is None else len(extreme.rows) + extreme.unjudged

    @property
    def judged(self) -> Row:
        """Return ``row`` with the interval that holds for the highest of several scores (`widen`)."""
        return widen(self.row, self.among)


def usable(scores: pl.DataFrame) -> pl.DataFrame:
    """Select the rows whose value is finite."""
    return scores.filter(pl.col("value").is_not_null() & pl.col("value").is_finite())


def findings(scores: pl.DataFrame) -> list[Finding]:
    """Find one headline result for each model and language, in the order of the table.

    The headline metric has an interval, covers the most data (without dimensions, layer and head before one
    with them) and has a control; of equals the first row.

    Args:
        scores: The rows of one lens in the schema of ``scores.parquet``, those of controls included.
    """
    rows = usable(scores).filter(pl.col("metric") != LEFT_OUT).to_dicts()
    beside = controls_of(rows)
    own = [row for row in rows if row["control"] is None]
    if not own:
        return []
    chosen = _first(own, beside)
    found: list[Finding] = []
    for subject in dict.fromkeys((row["model"], row["language"]) for row in own):
        held = [row for row in own if (row["model"], row["language"]) == subject]
        asked = _question(chosen)
        same = [row for row in held if _question(row) == asked]
        if not same:
            first = _first(held, beside)
            asked = _question(first)
            same = [row for row in held if _question(row) == asked]
        # Rows that nothing tells apart are no range: the first is taken.
        same = same if dimension_names(same[0]) else same[:1]
        highest = max(same, key=lambda row: row["value"])
        found.append(Finding(row=highest, values=same, controls=answering(beside, highest)))
    return found


def controls_of(rows: Iterable[Row]) -> Controls:
    """Group rows of controls by the question that they answer."""
    found: Controls = {}
    for row in rows:
        if row["control"] not in (None, LOCAL_CUES):
            found.setdefault(place_of(row), []).append(row)
    return found


def answering(controls: Controls, row: Row) -> list[Row]:
    """Return the controls of a row: those of the same layer and head, and those that have none."""
    own = controls.get(place_of(row), [])
    if row["layer"] is None and row["head"] is None:
        return own
    return own + controls.get(place_of({**row, "layer": None, "head": None}), [])


def place_of(row: Row) -> tuple[Any, ...]:
    """Return the key that a control shares with the row that it controls."""
    asked = tuple(row[name] for name in QUALIFIERS if name not in ("chosen", "method"))
    values = tuple((one["name"], one["value"]) for one in row["dimensions"])
    return (row["model"], row["language"], *asked, *(row[name] for name in PLACES), values)


def dimension_names(row: Row) -> tuple[str, ...]:
    """Return the names of a row's dimensions, and of layer and head if it has them."""
    return (*(one["name"] for one in row["dimensions"]), *(one for one in PLACES[1:] if row[one] is not None))


def dimension_words(row: Row) -> str:
    """Describe a row's dimensions with their values, for example ``"depth 3, layer 2"``."""
    named = [(one["name"], one["value"]) for one in row["dimensions"]]
    named += [(name, row[name]) for name in PLACES[1:] if row[name] is not None]
    return ", ".join(f"{plain_words(name)} {plain_words(value)}" for name, value in named)


def metric_words(row: Row) -> str:
    """Format the metric, with ``k`` and ``of_metric``."""
    of = f" of {plain_words(row['of_metric'])}" if row["of_metric"] else ""
    k = f" (k = {row['k']})" if row["k"] is not None else ""
    return f"{plain_words(row['metric'])}{of}{k}"


def control_words(row: Row) -> str:
    """Format a row of a control, for example ``"random weights 0.10 [0.08, 0.12]"``."""
    return f"{plain_words(row['control'])} {in_figures(row)}"


def sentence(finding: Finding, model: str = "") -> str:
    """Describe a headline result in a sentence, the same on page, terminal and notebook.

    Args:
        headline: The headline result.
        model: Name of the model; by default as the user named it.
    """
    row = finding.row
    task = f"{plain_words(row['task'])}, " if row["task"] else ""
    language = row["language"].capitalize() or "all languages"
    subject = f"{plain_words(model or row['model'])} on {plain_words(language)}"
    if finding.among > 1:
        # A control of one value says nothing of the others.
        of_all = [control for control in finding.controls if not dimension_words(control)]
        return f"{subject}: {task}{metric_words(row)} has {_values(finding)}{_beside(of_all)}"
    at = f" ({words})" if (words := dimension_words(row)) else ""
    behind = (
        f"over {row['n']:,} observation{'s' * (row['n'] != 1)} from {row['n_clusters']:,} "
        f"cluster{'s' * (row['n_clusters'] != 1)}"
    )
    controls = _beside(finding.controls)
    why = why_no_verdict(row)
    verdict = f"{TOO_LITTLE}: {why}" if why else "a verdict is allowed"
    return f"{subject}: {task}{metric_words(row)} is {in_figures(row)}{at}, {behind}{controls}; {verdict}"


def _beside(rows: Sequence[Row]) -> str:
    """Format controls: the first few, and a count of the rest."""
    controls = "".join(f"; control {control_words(row)}" for row in rows[:_CONTROLS])
    more = len(rows) - _CONTROLS
    return f"{controls} and {more} further control{'s' * (more > 1)} in the table" if more > 0 else controls


def _values(finding: Finding) -> str:
    """Describe several values: which are highest and lowest, as far as the intervals tell."""
    said = describe_ends(
        finding.values, dimension_words, in_figures, noun="values", verbs=("is the highest", "is the lowest")
    )
    observations = [row["n"] for row in finding.values]
    few, many = min(observations), max(observations)
    each = f"{few:,} to {many:,}" if few < many else f"{few:,}"
    values = f"{finding.among:,} values, over {each} observation{'s' * (each != '1')} each"
    if not said:
        lowest = min(finding.values, key=lambda row: row["value"])
        ends = f"from {in_figures(lowest)} to {in_figures(finding.row)}"
        why = why_no_verdict(finding.row) or "fewer than two of them can be compared"
        return f"{values}, {ends}; {TOO_LITTLE}: {why}"
    return f"{values}. {said}"


_CONTROLS = 4


def _question(row: Row) -> tuple[Any, ...]:
    """Return the key of a row's question, without the values of its dimensions and its layer and head."""
    return (*(row[name] for name in QUALIFIERS), row["side"], dimension_names(row))


def _first(rows: Sequence[Row], beside: Controls) -> Row:
    """Select the row that represents others; of equally ranked rows one with controls."""
    ranks = [_rank(row) for row in rows]
    best = min(ranks)
    same = [row for row, rank in zip(rows, ranks, strict=True) if rank == best]
    return next((row for row in same if answering(beside, row)), same[0])


def _rank(row: Row) -> tuple[bool, bool, int]:
    low, high = row["ci_low"], row["ci_high"]
    unknown = low is None or high is None or not math.isfinite(high - low)
    # As many as `dimension_names` lists.
    named = len(row["dimensions"]) + sum(row[one] is not None for one in PLACES[1:])
    return unknown, bool(row["of_metric"]), named


PERIOD = "period"


BEFORE, AFTER, CHANGE = "before", "after", "after-before"
"""Values of the dimension: both times, and by how much more the later one costs."""


SEEN, NOT_SEEN = "contamination seen", "contamination not seen"


LIMIT = (
    "a model that has read the older code predicts it better than matched newer code; other causes of drift "
    "over time are not excluded"
)
"""The most that the comparison can show, in words."""


def memory_seen(change: Mapping[str, Any], beyond: Mapping[str, Any] | None = None) -> str:
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
    rows = [change] if beyond is None else [change, beyond]
    for row in rows:
        if why := too_little(row):
            return why
    seen = all(row["ci_low"] > 0 for row in rows)
    return SEEN if seen else NOT_SEEN


def describe_memory(change: Mapping[str, Any], beyond: Mapping[str, Any] | None = None) -> str:
    """Describe `contamination_verdict` in a sentence, with its meaning and the detectable difference.

    >>> row = {"value": 0.1, "ci_low": 0.08, "ci_high": 0.12, "effective_clusters": 12}
    >>> describe_contamination({**row, "value": 0.0, "ci_low": -0.02, "ci_high": 0.02})
    'Contamination not seen: no difference found by which newer code costs more than older code of the same \
kind (0.03 bits or more would have been found).'
    """
    said = memory_seen(change, beyond)
    means = ""
    if said == SEEN:
        means = f": {LIMIT}"
    elif said == NOT_SEEN:
        last = beyond if beyond is not None and change["ci_low"] > 0 else change
        told = would_be_found(detectable_of(last), digits=2, unit=" bits")
        than = ", beyond that of random weights" if last is beyond else ""
        means = f": newer code costs less than older code of the same kind{than}"
        if last["ci_high"] >= 0:
            means = (
                f": {NO_DIFFERENCE} by which newer code costs more than older code of the same kind{than}"
                f"{in_brackets(told)}"
            )
    return f"{said[0].upper()}{said[1:]}{means}."
