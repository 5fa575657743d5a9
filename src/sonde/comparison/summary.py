"""Comparison tables: an overview, what got better and worse, and the rest; and series of checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from sonde.base.errors import UsageError
from sonde.results.headlines import LOCAL_CUES, OUTCOMES
from sonde.results.pairing import IDENTITY, Compared
from sonde.results.schema import SELECTION, in_words
from sonde.results.tables import Column, Table
from sonde.results.text_format import (
    COUNT,
    NO_DIFFERENCE,
    TOO_LITTLE,
    Format,
    Interval,
    Number,
    PValue,
    Row,
    counted,
    plain_words,
)
from sonde.stats.verdict import amount, least_size, why_no_verdict

_COUNTED = {
    **OUTCOMES,
    "slight": "apart by less than matters",
    "alike": "without a difference that matters",
    "undecided": f"with {NO_DIFFERENCE}",
}
"""The same of a number of numbers."""


_IN_PERCENT = ("accuracy", "first_hit", "p_at_k", "preferred", "classification", "localisation_repair")


def with_words(differences: pl.DataFrame) -> pl.DataFrame:
    """Add the text columns that tables and charts show to rows of ``comparison.parquet``.

    Added are ``what`` (the number in words), ``about`` (its dimensions, other names, layer and pooling),
    ``label`` (the dimensions without what the models chose), ``dimension`` (their names alone), ``said`` (the
    outcome in words) and ``strength``, the difference as a multiple of the one that would have been detected.
    """
    chosen = _names().list.contains(SELECTION)
    about = in_words(without=(SELECTION,))
    layer = (
        pl.when(pl.col("layer").is_null() | pl.col("base_layer").is_null())
        .then(pl.lit(""))
        .when(pl.col("layer") == pl.col("base_layer"))
        .then(pl.format("layer {}", "layer"))
        .otherwise(pl.format("layer {} against {}", "layer", "base_layer"))
    )
    head = pl.when(pl.col("head").is_null()).then(pl.lit("")).otherwise(pl.format("head {}", "head"))
    counted = [_where_it_varies("matching"), _where_it_varies("aggregation")]
    place = [_where_it_varies("pooling"), _where_it_varies("side")]
    # What a model chose stands in the table, not beside every dot.
    own_layer = pl.when(chosen | pl.col("head").is_not_null()).then(pl.lit("")).otherwise(layer)
    others = pl.lit("")
    if "other_names" in differences.columns:
        several = pl.col("other_names").list.len() > 0
        listed = pl.format("the same as {}", pl.col("other_names").list.join("; "))
        others = pl.when(several).then(listed).otherwise(others)
    parts = _joined(about, others, layer, head, *place, *counted)
    shown = _joined(about, own_layer, *place, *counted)
    k = pl.when(pl.col("metric") == "p_at_k").then(pl.format("P@{}", "k"))
    named = k.otherwise(pl.col("metric").str.replace_all("_", " "))
    task = pl.when(pl.col("task") == "").then(pl.lit("")).otherwise(pl.format("{}: ", "task"))
    return differences.with_columns(
        what=pl.concat_str(task, named),
        about=parts,
        label=shown,
        dimension=_names().list.join(", "),
        said=pl.when((pl.col("outcome") == "undecided") & (pl.col("why") != ""))
        .then(pl.lit(TOO_LITTLE))
        .otherwise(pl.col("outcome").replace(OUTCOMES)),
        strength=(pl.col("difference") / pl.col("detectable")).abs(),
    )


def _where_it_varies(name: str) -> pl.Expr:
    """Return the value of a column if it varies within a lens, else empty text."""
    value = pl.col(name).fill_null("")
    alone = (value == "") | (value.n_unique().over("lens") == 1)
    return pl.when(alone).then(pl.lit("")).otherwise(pl.concat_str(pl.lit(f"{name} "), value))


def _joined(*parts: pl.Expr) -> pl.Expr:
    return pl.concat_list(*parts).list.eval(pl.element().filter(pl.element() != "")).list.join(", ")


def overview(differences: pl.DataFrame) -> pl.DataFrame:
    """Select one row for each pair of models, lens, task and language: the metric that covers most data."""
    chosen = _names().list.contains(SELECTION)
    ranked = differences.with_row_index("_place").with_columns(
        _inner=_names().list.len() - chosen.cast(pl.UInt32),
        _layered=pl.col("layer").is_not_null() & ~chosen,
    )
    keys = ["base", "model", "lens", "task", "language", "side"]
    first = ranked.sort("_inner", "_layered", "_place").group_by(keys, maintain_order=True).first()
    return first.sort("_place").select(differences.columns)


def _names() -> pl.Expr:
    return pl.col("dimensions").list.eval(pl.element().struct.field("name"))


def changed(differences: pl.DataFrame, outcome: str) -> pl.DataFrame:
    """Select the differences with an outcome, the strongest first."""
    rows = differences.filter(pl.col("outcome") == outcome)
    return rows.sort("strength", descending=True, nulls_last=True, maintain_order=True)


def counts(differences: pl.DataFrame) -> list[dict[str, Any]]:
    """Count the outcomes of each lens."""
    rows: list[dict[str, Any]] = []
    for (base, model, lens), part in differences.group_by("base", "model", "lens", maintain_order=True):
        said = dict(part.group_by("outcome").len().iter_rows())
        too_few = part.filter(pl.col("why") != "").height
        rows.append(
            {
                "base": base,
                "model": model,
                "lens": lens,
                "compared": part.height,
                **{name: said.get(name, 0) for name in OUTCOMES},
                "undecided": said.get("undecided", 0) - too_few,
                "no_verdict": too_few,
            }
        )
    return rows


def in_sentence(row: Mapping[str, Any]) -> str:
    """Format the counts of a lens, for example ``"3 better, 4 with no difference found; of 7 numbers"``."""
    said = [f"{row[name]:,} {words}" for name, words in _COUNTED.items() if row[name]]
    few = [f"{row['no_verdict']:,} with {TOO_LITTLE}"] if row["no_verdict"] else []
    return f"{', '.join([*said, *few])}; of {counted(row['compared'], 'number')}"


def table(summary: str, rows: pl.DataFrame | Sequence[Row], *, several: bool, outcome: bool = True) -> Table:
    """Build the table of differences.

    Args:
        summary: Summary of the table.
        rows: Rows with the columns of `add_text_columns`.
        show_models: Whether there is a column of models, for several pairs.
        show_outcome: Whether there is a column of outcomes.
    """
    pair = Column(title="Model", value="model", help="The model that is compared with the first one.")
    return Table(
        summary=summary,
        columns=[
            *([pair] if several else []),
            Column(title="Lens", value="lens"),
            Column(title="Number", value="what"),
            Column(title="Of what", value="about", format=Format(missing="")),
            Column(title="Held against", value="base_value", format=_form(Number)),
            Column(title="Value", value="value", format=_form(Number)),
            Column(title="Difference", value="difference", format=_form(Number)),
            Column(title="95 % interval", value=_bounds, format=_form(Interval)),
            Column(
                title="Adjusted p",
                value="p_adjusted",
                format=PValue(),
                help="The p-value among all numbers that are compared (Benjamini and Hochberg).",
            ),
            Column(
                title="Detectable",
                value="detectable",
                format=_form(Number),
                help="The difference that four of five such comparisons would have found, at the level that "
                "Benjamini and Hochberg ask for among all of them.",
            ),
            Column(title="n", value="n", format=COUNT, help="Observations behind each of the two numbers."),
            Column(
                title="Clusters",
                value="effective_clusters",
                format=Number(digits=1),
                help="Equally large clusters that the observations are worth; below ten no verdict is drawn.",
            ),
            *([Column(title="Outcome", value="said")] if outcome else []),
        ],
        rows=rows,
    )


def _form(kind: type[Number]) -> Any:
    """Choose the format: shares in per cent, other numbers with three decimals."""

    def form(row: Row) -> Format:
        return kind(digits=1 if row["metric"] in _IN_PERCENT else 3, scale=scale_of(row))

    return form


def _bounds(row: Row) -> Row:
    return {"value": row["difference"], "ci_low": row["ci_low"], "ci_high": row["ci_high"]}


def unit_of(row: Row) -> str:
    """Return the unit of a number's difference, for the axis of a chart."""
    unit = "percentage points" if row["metric"] in _IN_PERCENT else plain_words(row["metric"])
    return f"{unit} ({row['better']} is better)" if row["better"] else unit


def scale_of(row: Row) -> float:
    """Return the factor by which a number is displayed."""
    return 100.0 if row["metric"] in _IN_PERCENT else 1.0


FEWEST = 3
"""Checkpoints that a series needs."""


_BY_RANK = ("p_at_k", "first_hit")
"""Metrics whose ``k`` is a part of the question; of others it says how the number was made."""


_QUESTION = [name for name in IDENTITY if name != "dimensions"]


def step_of(pattern: str) -> Callable[[str], int | None]:
    r"""Compile a pattern to a function from a name to its step, the one group of the expression.

    Raises:
        UsageError: The expression cannot be read, or has not one group.

    >>> compile_step_pattern(r"step(\d+)")("runs/step128"), compile_step_pattern(r"step(\d+)")("final")
    (128, None)
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--series {pattern!r}: no regular expression: {error}") from error
    if expression.groups != 1:
        raise UsageError(
            rf"--series {pattern!r}: one group in brackets has to give the step, as in 'step(\d+)'"
        )

    def step(name: str) -> int | None:
        found = expression.search(name)
        if found is None or not found[1].isdecimal():
            return None
        return int(found[1])

    return step


def series_frame(
    checkpoints: Iterable[tuple[int, pl.DataFrame]],
    compared: Mapping[str, Sequence[Compared]],
    least: Mapping[str, float] = MappingProxyType({}),
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
    for step, scores in sorted(checkpoints, key=lambda one: one[0]):
        rows = scores.to_dicts()
        beside: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in rows:
            if row["control"] not in (None, LOCAL_CUES) and row["value"] is not None:
                beside.setdefault(_asked(row), []).append(row)
        kept: list[dict[str, Any]] = []
        for row in rows:
            wanted = next((one for one in compared.get(row["lens"], ()) if _takes(one, row)), None)
            if wanted is None:
                continue
            higher = wanted.better != "lower"
            values = [
                one["value"]
                for one in beside.get(_asked(row), ())
                if all(one[name] in (None, row[name]) for name in ("layer", "head"))
            ]
            best = (max(values) if higher else min(values)) if values else None
            kept.append(
                {**row, "step": step, "control_value": best, "above": _above(row, best, least, higher=higher)}
            )
        schema = {**scores.schema, "step": pl.Int64, "control_value": pl.Float64, "above": pl.Boolean}
        parts.append(pl.DataFrame(kept, schema=schema, orient="row"))
    return pl.concat(parts)


def _asked(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the key that a control shares with its number, whatever was selected for either."""
    asked = (
        row[name] for name in ("lens", "task", "language", "split", "side", "metric", "pooling", "matching")
    )
    ranks = row["k"] if row["metric"] in _BY_RANK else None
    return (*asked, ranks, tuple((one["name"], one["value"]) for one in row["dimensions"]))


def _takes(one: Compared, row: Mapping[str, Any]) -> bool:
    return (
        row["metric"] == one.metric
        and row["control"] is None
        and row["split"] not in ("train", "valid")
        and one.k in (None, row["k"])
        and one.method in (None, row["method"])
        and one.tokenizers != "other"
        and not any(held["name"] in one.without for held in row["dimensions"])
        and {*one.within} <= {held["name"] for held in row["dimensions"]}
    )


def _above(
    row: Mapping[str, Any], control: float | None, least: Mapping[str, float], *, higher: bool
) -> bool | None:
    if control is None:
        return None
    if why_no_verdict(row):
        return False
    value, low, high = (row[name] - control for name in ("value", "ci_low", "ci_high"))
    size = least_size(row["metric"], row["ci_method"] or "", least)
    return amount(value, low, high, size, sure=low > 0 or high < 0) == ("higher" if higher else "lower")


def crossings(series: pl.DataFrame) -> pl.DataFrame:
    """Find the step at which each number crosses its control for good.

    Returns:
        One row a number that has a control: its question, its dimensions in words (``about``), ``layer`` and
        ``head`` where a checkpoint has several such numbers; ``crossed``: the first step from which on it
        stays above, null where it is not by the last; its ``first`` and ``last`` value, and the control's
        ``control_value`` at the last step.
    """
    keys = [*_QUESTION, "about"]
    ordered = series.filter(pl.col("above").is_not_null()).sort("step").with_columns(about=in_words())
    several = pl.len().over([*keys, "step"]) > 1
    placed = ordered.with_columns(
        pl.when(several).then(pl.col(name)).alias(f"_{name}") for name in ("layer", "head")
    )
    # From the last step backwards: above there and at every later one.
    stays = pl.col("above").reverse().cum_min().reverse().cast(pl.Boolean)
    return (
        placed.group_by(*keys, "_layer", "_head", maintain_order=True)
        .agg(
            crossed=pl.col("step").filter(stays).first(),
            first=pl.col("value").first(),
            last=pl.col("value").last(),
            control_value=pl.col("control_value").last(),
        )
        .rename({"_layer": "layer", "_head": "head"})
    )
