"""A comparison as people read it: an overview first, then what got better and worse, then the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from sonde.results.dimensions import SELECTION, in_words
from sonde.results.formats import COUNT, Format, Interval, Number, PValue, Row, counted
from sonde.results.tables import Column, Table
from sonde.results.words import NO_DIFFERENCE, TOO_LITTLE, plain_words

OUTCOMES: Mapping[str, str] = {
    "better": "better",
    "worse": "worse",
    "higher": "higher",
    "lower": "lower",
    "slight": "differs, by less than matters",
    "alike": "no difference that matters",
    "undecided": NO_DIFFERENCE,
}
"""What a comparison says of a number, in the words of page and terminal."""

_COUNTED = {
    **OUTCOMES,
    "slight": "apart by less than matters",
    "alike": "without a difference that matters",
    "undecided": f"with {NO_DIFFERENCE}",
}
"""The same of a number of numbers."""

_IN_PERCENT = ("accuracy", "first_hit", "p_at_k", "preferred", "classification", "localisation_repair")


def with_words(differences: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``comparison.parquet`` with what tables and charts show of them.

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
    """The value of a column where the rows of a lens have several."""
    value = pl.col(name).fill_null("")
    alone = (value == "") | (value.n_unique().over("lens") == 1)
    return pl.when(alone).then(pl.lit("")).otherwise(pl.concat_str(pl.lit(f"{name} "), value))


def _joined(*parts: pl.Expr) -> pl.Expr:
    return pl.concat_list(*parts).list.eval(pl.element().filter(pl.element() != "")).list.join(", ")


def overview(differences: pl.DataFrame) -> pl.DataFrame:
    """One row a pair of models, lens, task and language: the number that is over the most."""
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
    """The differences with an outcome, the strongest first."""
    rows = differences.filter(pl.col("outcome") == outcome)
    return rows.sort("strength", descending=True, nulls_last=True, maintain_order=True)


def counts(differences: pl.DataFrame) -> list[dict[str, Any]]:
    """How many numbers of each lens got better and worse, and how many ended otherwise."""
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
    """Write the counts of a lens, for example ``"3 better, 4 with no difference found; of 7 numbers"``."""
    said = [f"{row[name]:,} {words}" for name, words in _COUNTED.items() if row[name]]
    few = [f"{row['no_verdict']:,} with {TOO_LITTLE}"] if row["no_verdict"] else []
    return f"{', '.join([*said, *few])}; of {counted(row['compared'], 'number')}"


def table(summary: str, rows: pl.DataFrame | Sequence[Row], *, several: bool, outcome: bool = True) -> Table:
    """Differences as one table.

    Args:
        summary: What it holds.
        rows: Rows with what `with_words` adds.
        several: Whether there are several pairs of models, which then have a column.
        outcome: Whether the outcome has a column.
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
    """Shares in per cent, other numbers with three decimals."""

    def form(row: Row) -> Format:
        return kind(digits=1 if row["metric"] in _IN_PERCENT else 3, scale=scale_of(row))

    return form


def _bounds(row: Row) -> Row:
    return {"value": row["difference"], "ci_low": row["ci_low"], "ci_high": row["ci_high"]}


def unit_of(row: Row) -> str:
    """The unit of a number's difference, for the axis of a chart."""
    unit = "percentage points" if row["metric"] in _IN_PERCENT else plain_words(row["metric"])
    return f"{unit} ({row['better']} is better)" if row["better"] else unit


def scale_of(row: Row) -> float:
    """By which a number is multiplied where it is shown."""
    return 100.0 if row["metric"] in _IN_PERCENT else 1.0
