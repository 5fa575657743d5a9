"""Comparison tables (an overview, what got better and worse, the rest) and series of checkpoints.

A series follows the checkpoints of one training: the growth of every number, and the step at which it crosses
its control.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from sonde.base.errors import UsageError
from sonde.base.formatting import bracket, format_name, plural
from sonde.comparison.differences import WITHIN_PRECISION
from sonde.languages import format_language
from sonde.results.local_cues import LOCAL_CUES
from sonde.results.schema import SELECTION, dimensions_text, get_dimensions
from sonde.results.score_pairs import IDENTITY_COLUMNS, ComparableMetric
from sonde.results.scores import frame_to_scores
from sonde.results.tables import Column, Table
from sonde.results.text_format import (
    COUNT,
    NO_DIFFERENCE,
    OUTCOMES,
    TOO_LITTLE,
    Format,
    Interval,
    Number,
    PValue,
    Row,
)
from sonde.stats.verdict import classify_score, no_verdict_reason

_OUTCOME_PHRASES = {
    **OUTCOMES,
    "slight": "apart by less than matters",
    "alike": "without a difference that matters",
    "undecided": f"with {NO_DIFFERENCE}",
}
"""The same of a number of numbers."""


NUMERICAL_NOISE = "numerical noise"
"""Printed of a difference that another batch or machine would change by more."""


_PERCENT_METRICS = ("accuracy", "first_hit", "p_at_k", "preferred", "classification", "localisation_repair")


def add_text_columns(differences: pl.DataFrame) -> pl.DataFrame:
    """Add the text columns that tables and charts show to rows of ``comparison.parquet``.

    Added are ``what`` (the number in words), ``about`` (of several its language, then its dimensions, other
    names, layer and pooling), ``label`` (the same without what the models chose), ``dimension`` (the names of
    the dimensions alone), ``said`` (the outcome in words) and ``strength``, the difference as a multiple of
    the one that would have been detected.
    """
    is_selection = _dimension_names().list.contains(SELECTION)
    description = dimensions_text(exclude=(SELECTION,))
    layer = (
        pl.when(pl.col("layer").is_null() | pl.col("base_layer").is_null())
        .then(pl.lit(""))
        .when(pl.col("layer") == pl.col("base_layer"))
        .then(pl.format("layer {}", "layer"))
        .otherwise(pl.format("layer {} against {}", "layer", "base_layer"))
    )
    head = pl.when(pl.col("head").is_null()).then(pl.lit("")).otherwise(pl.format("head {}", "head"))
    rule_texts = [_text_if_varies("matching"), _text_if_varies("aggregation")]
    position_texts = [_text_if_varies("pooling"), _text_if_varies("side")]
    names = {
        language: format_language(language) for language in differences["language"].drop_nulls().unique()
    }
    language = (
        pl.when(pl.col("language").n_unique() > 1)
        .then(pl.col("language").replace(names))
        .otherwise(pl.lit(""))
    )
    # What a model chose stands in the table, not beside every dot.
    own_layer = pl.when(is_selection | pl.col("head").is_not_null()).then(pl.lit("")).otherwise(layer)
    other_names = pl.lit("")
    if "other_names" in differences.columns:
        has_other_names = pl.col("other_names").list.len() > 0
        same_as = pl.format("the same as {}", pl.col("other_names").list.join("; "))
        other_names = pl.when(has_other_names).then(same_as).otherwise(other_names)
    parts = _join_texts(language, description, other_names, layer, head, *position_texts, *rule_texts)
    label = _join_texts(language, description, own_layer, *position_texts, *rule_texts)
    k = pl.when(pl.col("metric") == "p_at_k").then(pl.format("P@{}", "k"))
    metric = k.otherwise(pl.col("metric").str.replace_all("_", " "))
    task = pl.when(pl.col("task") == "").then(pl.lit("")).otherwise(pl.format("{}: ", "task"))
    return differences.with_columns(
        what=pl.concat_str(task, metric),
        about=parts,
        label=label,
        dimension=_dimension_names().list.join(", "),
        said=pl.when(pl.col("why") == WITHIN_PRECISION)
        .then(pl.lit(NUMERICAL_NOISE))
        .when((pl.col("outcome") == "undecided") & (pl.col("why") != ""))
        .then(pl.lit(TOO_LITTLE))
        .otherwise(pl.col("outcome").replace(OUTCOMES)),
        strength=(pl.col("difference") / pl.col("detectable")).abs(),
    )


def _text_if_varies(name: str) -> pl.Expr:
    """Return the value of a column if it varies within a lens, else empty text."""
    value = pl.col(name).fill_null("")
    is_constant = (value == "") | (value.n_unique().over("lens") == 1)
    return pl.when(is_constant).then(pl.lit("")).otherwise(pl.concat_str(pl.lit(f"{name} "), value))


def _join_texts(*parts: pl.Expr) -> pl.Expr:
    return pl.concat_list(*parts).list.eval(pl.element().filter(pl.element() != "")).list.join(", ")


def select_overview(differences: pl.DataFrame) -> pl.DataFrame:
    """Select one row for each pair of models, lens, task and language: the metric that covers most data."""
    is_selection = _dimension_names().list.contains(SELECTION)
    frame = differences.with_row_index("_place").with_columns(
        _inner=_dimension_names().list.len() - is_selection.cast(pl.UInt32),
        _layered=pl.col("layer").is_not_null() & ~is_selection,
    )
    keys = ["base", "model", "lens", "task", "language", "side"]
    first = frame.sort("_inner", "_layered", "_place").group_by(keys, maintain_order=True).first()
    return first.sort("_place").select(differences.columns)


def _dimension_names() -> pl.Expr:
    return pl.col("dimensions").list.eval(pl.element().struct.field("name"))


def select_outcome(differences: pl.DataFrame, outcome: str) -> pl.DataFrame:
    """Select the differences with an outcome, the strongest first."""
    rows = differences.filter(pl.col("outcome") == outcome)
    return rows.sort("strength", descending=True, nulls_last=True, maintain_order=True)


def count_outcomes(differences: pl.DataFrame) -> list[dict[str, Any]]:
    """Count the outcomes of each lens."""
    rows: list[dict[str, Any]] = []
    for (base, model, lens), part in differences.group_by("base", "model", "lens", maintain_order=True):
        outcomes = dict(part.group_by("outcome").len().iter_rows())
        n_noise = part.filter(pl.col("why") == WITHIN_PRECISION).height
        n_without_verdict = part.filter(pl.col("why") != "").height - n_noise
        rows.append(
            {
                "base": base,
                "model": model,
                "lens": lens,
                "compared": part.height,
                **{name: outcomes.get(name, 0) for name in OUTCOMES},
                "undecided": outcomes.get("undecided", 0) - n_without_verdict - n_noise,
                "noise": n_noise,
                "no_verdict": n_without_verdict,
            }
        )
    return rows


def format_counts(row: Mapping[str, Any], reason: str = "") -> str:
    """Format the counts of a lens, for example ``"3 better, 4 with no difference found; of 7 numbers"``.

    Args:
        row: A row of `count_outcomes`.
        reason: What the numbers without a verdict lack; empty where it is said elsewhere.
    """
    phrases = [f"{row[name]:,} {words}" for name, words in _OUTCOME_PHRASES.items() if row[name]]
    phrases += [f"{row['noise']:,} with {NUMERICAL_NOISE}"] if row["noise"] else []
    phrases += [f"{row['no_verdict']:,} with {TOO_LITTLE}{bracket(reason)}"] if row["no_verdict"] else []
    return f"{', '.join(phrases)}; of {plural(row['compared'], 'number')}"


def differences_table(
    summary: str, rows: pl.DataFrame | Sequence[Row], *, show_models: bool, show_outcome: bool = True
) -> Table:
    """Build the table of differences.

    Args:
        summary: Summary of the table.
        rows: Rows with the columns of `add_text_columns`.
        show_models: Whether there is a column of models, for several pairs.
        show_outcome: Whether there is a column of outcomes.
    """
    pair = Column(title="Model", value="model", help="The model that is compared with the base.")
    return Table(
        summary=summary,
        columns=[
            *([pair] if show_models else []),
            Column(title="Lens", value="lens"),
            Column(title="Number", value="what"),
            Column(title="Of what", value="about", format=Format(missing="")),
            Column(title="Base", value="base_value", format=_score_format(Number)),
            Column(title="Value", value="value", format=_score_format(Number)),
            Column(title="Difference", value="difference", format=_score_format(Number)),
            Column(title="95 % interval", value=_to_estimate, format=_score_format(Interval)),
            Column(
                title="Adjusted p",
                value="p_adjusted",
                format=PValue(),
                help="The p-value among all numbers that are compared (Benjamini and Hochberg).",
            ),
            Column(
                title="Detectable",
                value="detectable",
                format=_score_format(Number),
                help="The difference that is detected with 80 % power, at the Benjamini-Hochberg "
                "level of all comparisons.",
            ),
            Column(title="n", value="n", format=COUNT, help="Observations of each of the two numbers."),
            Column(
                title="Clusters",
                value="effective_clusters",
                format=Number(digits=1),
                help="Effective number of clusters (Kish); below ten there is no verdict.",
            ),
            *([Column(title="Outcome", value="said")] if show_outcome else []),
        ],
        rows=rows,
    )


def _score_format(kind: type[Number]) -> Any:
    """Choose the format: shares in per cent, other numbers with three decimals."""

    def form(row: Row) -> Format:
        return kind(digits=1 if row["metric"] in _PERCENT_METRICS else 3, scale=display_scale(row))

    return form


def _to_estimate(row: Row) -> Row:
    return {"value": row["difference"], "ci_low": row["ci_low"], "ci_high": row["ci_high"]}


def difference_unit(row: Row) -> str:
    """Return the unit of a number's difference, for the axis of a chart."""
    unit = "percentage points" if row["metric"] in _PERCENT_METRICS else format_name(row["metric"])
    return f"{unit} ({row['better']} is better)" if row["better"] else unit


def display_scale(row: Row) -> float:
    """Return the factor by which a number is displayed."""
    return 100.0 if row["metric"] in _PERCENT_METRICS else 1.0


MIN_CHECKPOINTS = 3
"""Checkpoints that a series needs."""


_RANK_METRICS = ("p_at_k", "first_hit")
"""Metrics whose ``k`` is a part of the question; of others it says how the number was made."""


_QUESTION_COLUMNS = [name for name in IDENTITY_COLUMNS if name != "dimensions"]


def compile_step_pattern(pattern: str) -> Callable[[str], int | None]:
    r"""Compile a pattern to a function from a name to its step, the one group of the expression.

    Raises:
        UsageError: The expression cannot be read, or has not one group.

    >>> compile_step_pattern(r"step(\d+)")("runs/step128"), compile_step_pattern(r"step(\d+)")("final")
    (128, None)
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--series {pattern!r}: not a regular expression: {error}") from error
    if expression.groups != 1:
        raise UsageError(
            rf"--series {pattern!r}: one group in brackets has to give the step, as in 'step(\d+)'"
        )

    def step(name: str) -> int | None:
        match = expression.search(name)
        if match is None or not match[1].isdecimal():
            return None
        return int(match[1])

    return step


def build_series(
    checkpoints: Iterable[tuple[int, pl.DataFrame]],
    metrics: Mapping[str, Sequence[ComparableMetric]],
    minimum_effects: Mapping[str, float] = MappingProxyType({}),
) -> pl.DataFrame:
    """Collect the compared metrics of every checkpoint with their best controls.

    Args:
        checkpoints: The step of each, with its rows of ``scores.parquet``.
        metrics: Compared metrics of each lens.
        minimum_effects: Smallest difference that matters, by metric; the default is in
            `sonde.stats.verdict.minimum_effect`.

    Returns:
        The rows with ``step``; ``control_value``: that of the best control beside the number (null without
        any); ``above``: whether the number is beyond it with its interval, on the better side and by as much
        as matters, and may be called a finding.
    """
    parts: list[pl.DataFrame] = []
    for step, scores in sorted(checkpoints, key=lambda checkpoint: checkpoint[0]):
        rows = scores.to_dicts()
        controls: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in rows:
            if row["control"] not in (None, LOCAL_CUES) and row["value"] is not None:
                controls.setdefault(_question_key(row), []).append(row)
        output: list[dict[str, Any]] = []
        for row, score in zip(rows, frame_to_scores(scores), strict=True):
            compared = (one for one in metrics.get(score.lens, ()) if one.tokenizers != "other")
            metric = next((candidate for candidate in compared if candidate.takes(score)), None)
            if metric is None:
                continue
            higher = metric.direction != "lower"
            values = [
                control["value"]
                for control in controls.get(_question_key(row), ())
                if all(control[name] in (None, row[name]) for name in ("layer", "head"))
            ]
            best = (max(values) if higher else min(values)) if values else None
            output.append(
                {
                    **row,
                    "step": step,
                    "control_value": best,
                    "above": _beats_control(row, best, minimum_effects, higher=higher),
                }
            )
        schema = {**scores.schema, "step": pl.Int64, "control_value": pl.Float64, "above": pl.Boolean}
        parts.append(pl.DataFrame(output, schema=schema, orient="row"))
    return pl.concat(parts)


def _question_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key that a control shares with its number, whatever was selected for either."""
    question = (
        row[name] for name in ("lens", "task", "language", "split", "side", "metric", "pooling", "matching")
    )
    ranks = row["k"] if row["metric"] in _RANK_METRICS else None
    return (
        *question,
        ranks,
        tuple(get_dimensions(row).items()),
    )


def _beats_control(
    row: Mapping[str, Any], control: float | None, minimum_effects: Mapping[str, float], *, higher: bool
) -> bool | None:
    if control is None:
        return None
    if no_verdict_reason(row):
        return False
    return classify_score(row, minimum_effects, control) == ("higher" if higher else "lower")


def find_crossings(series: pl.DataFrame) -> pl.DataFrame:
    """Find the step at which each number crosses its control for good.

    Returns:
        One row a number that has a control: its question, its dimensions in words (``about``), ``layer`` and
        ``head`` where a checkpoint has several such numbers; ``crossed``: the first step from which on it
        stays above, null where it is not by the last; its ``first`` and ``last`` value, and the control's
        ``control_value`` at the last step.
    """
    keys = [*_QUESTION_COLUMNS, "about"]
    rows = series.filter(pl.col("above").is_not_null()).sort("step").with_columns(about=dimensions_text())
    has_several_positions = pl.len().over([*keys, "step"]) > 1
    frame = rows.with_columns(
        pl.when(has_several_positions).then(pl.col(name)).alias(f"_{name}") for name in ("layer", "head")
    )
    # From the last step backwards: above there and at every later one.
    stays = pl.col("above").reverse().cum_min().reverse().cast(pl.Boolean)
    return (
        frame.group_by(*keys, "_layer", "_head", maintain_order=True)
        .agg(
            crossed=pl.col("step").filter(stays).first(),
            first=pl.col("value").first(),
            last=pl.col("value").last(),
            control_value=pl.col("control_value").last(),
        )
        .rename({"_layer": "layer", "_head": "head"})
    )
