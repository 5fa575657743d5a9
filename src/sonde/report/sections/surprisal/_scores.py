"""Scores and observations of surprisal for its sections, minimal pairs and rankings among them.

A ranking shows the worst and best values of one dimension: dots with intervals, with the whole table behind
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from sonde.base.formatting import count
from sonde.languages import format_language
from sonde.report.charts import plot_dots
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Chart, Figure, Plot, SectionPlot
from sonde.report.text import lacks_verdict
from sonde.results.extremes import describe_ends
from sonde.results.schema import (
    FIRST_PART,
    IS_FIRST,
    OBSERVATIONS_SCHEMA,
    SHARED_TOKENS,
    dimension_value,
    has_dimension_names,
    has_dimensions,
)
from sonde.results.tables import MODEL, Column, Table, score_columns
from sonde.results.text_format import BITS_PER_NAT, verdict_mark, with_interval
from sonde.stats.verdict import no_verdict_reason

LENS = "surprisal"


MIN_COUNT = 20
"""Minimum number of occurrences of a ranked slice; the report states it."""


_SEPARATE_TEXTS = "Each model is over its own subwords and inputs: numbers of two models are of other text."


PER_SUBWORD, PER_TOKEN = "bits per subword", "bits per code token"


COUNTS = {PER_SUBWORD: "subwords", PER_TOKEN: "code tokens"}
"""Plural noun of what ``n`` counts, by unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTable:
    """Mean surprisal by the values of a dimension, for one or several models.

    Attributes:
        rows: The rows, in bits, with ``label``: the value of the dimension.
        unit: `PER_SUBWORD` or `PER_TOKEN`.
        totals: Mean surprisal over everything counted, one row per model and language.
        is_separate: Whether several models are over different text, so that they must not be compared.
    """

    rows: pl.DataFrame
    unit: str
    totals: pl.DataFrame
    is_separate: bool

    @property
    def uses_shared_tokens(self) -> bool:
        """Return whether the rows are over the code tokens that every model scores."""
        return self.unit == PER_TOKEN

    @property
    def notes(self) -> list[str]:
        """List the notes below a table of these rows; none for a single model."""
        if self.is_separate:
            return [_SEPARATE_TEXTS]
        if not self.uses_shared_tokens:
            return []
        return [
            f"{format_language(language)}: over the {count(n)} code tokens that every model of the run "
            "scores, each with the whitespace before it, so that all are over the same text; the numbers "
            "over each model's own text are in scores.parquet."
            for language, n in self.totals.group_by("language")
            .agg(pl.col("n").first())
            .sort("language")
            .rows()
        ]


def read_slices(run: RunData, *dimensions: str, task: str = "", metric: str = "bits") -> SliceTable:
    """Read mean surprisal by the values of dimensions.

    Several models are compared over the code tokens that all of them score: subwords differ between
    tokenizers, and inputs that only one model read would make the text of a construct differ. If
    the run has no such rows, each model is over its own text.

    Args:
        run: The run.
        *dimensions: Names of the dimensions; the values of the last become ``label``.
        task: If not empty, read the rows of this task only.
        metric: Metric of the rows over a model's own subwords: ``bits`` or ``nats``.

    Returns:
        The rows in bits, with their unit and totals.
    """

    def read_with_totals(metric: str, *outer: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        # Bits are scaled by nothing, nats by the bits in one.
        scale = 1.0 if metric == "bits" else BITS_PER_NAT
        parts = (
            run.scores(
                lens=LENS, metrics=[metric], where=has_dimension_names(*outer, *dimensions), task=task
            ),
            run.scores(lens=LENS, metrics=[metric], where=has_dimension_names(*outer)).filter(
                pl.col("task") == ""
            ),
        )
        rows, totals = (rows.with_columns(pl.col("value", "ci_low", "ci_high") * scale) for rows in parts)
        return rows.with_columns(label=dimension_value(dimensions[-1])), totals

    model_rows, totals = read_with_totals(metric)
    if model_rows["model"].n_unique() < 2:
        return SliceTable(rows=model_rows, unit=PER_SUBWORD, totals=totals, is_separate=False)
    shared_rows, shared_totals = read_with_totals("nats_per_token", SHARED_TOKENS[0])
    if shared_rows.is_empty():
        return SliceTable(rows=model_rows, unit=PER_SUBWORD, totals=totals, is_separate=True)
    return SliceTable(rows=shared_rows, unit=PER_TOKEN, totals=shared_totals, is_separate=False)


def surprisal_columns(unit: str) -> tuple[Column, ...]:
    """Build the columns of mean surprisal in a unit, `PER_SUBWORD` or `PER_TOKEN`."""
    help = "How unexpected it is to the model: 0 if the model was sure."
    return score_columns(unit.capitalize(), n=COUNTS[unit].capitalize(), help=help)


def list_subword_notes(run: RunData) -> list[str]:
    """List the note below rows of single subwords if several models have different subwords."""
    return [_SEPARATE_TEXTS] if run.scores(lens=LENS, metrics=["bits"])["model"].n_unique() > 1 else []


def read_observations(run: RunData, model: ModelInfo, columns: Sequence[str]) -> pl.LazyFrame:
    """Read `columns` of the item table of `model`; empty if the run lacks the table or a column."""
    frame = run.table(LENS, model)
    if frame is None or not set(columns) <= set(frame.collect_schema().names()):
        return pl.DataFrame(schema={name: OBSERVATIONS_SCHEMA[name] for name in columns}).lazy()
    return frame.select(columns)


def read_first_subwords(run: RunData) -> pl.DataFrame:
    """Read the mean bits of the first subwords of texts, one row per model and language."""
    return run.scores(lens=LENS, metrics=["bits"], where=has_dimensions(dict([FIRST_PART])))


def is_first_subword(run: RunData, model: ModelInfo) -> pl.Expr:
    """Build the condition that a row begins a text and is in no slice of `model`.

    It applies to rows of `read_observations` with the column ``context``.
    """
    return IS_FIRST if model.name in read_first_subwords(run)["model"] else pl.lit(value=False)


def list_first_subword_notes(run: RunData) -> list[str]:
    """List notes on the first subwords of texts, which are in no slice: their number and mean bits."""
    return [
        f"{row['shown']}, {format_language(row['language'])}: the subword that begins a text, before which "
        f"the model has nothing of it, is in no row; the mean of {count(row['n'])} is {with_interval(row)} "
        f"bits{verdict_mark(row)}."
        for row in read_first_subwords(run).sort("shown", "language").iter_rows(named=True)
    ]


SURPRISES = ("surprises most", "surprises least")
"""Verbs for the highest and the lowest of several means of surprisal."""


PREFERRED = "preferred"


CONTROLS: Mapping[str, str] = {
    "chance": "chance",
    "length": "the shorter text",
    "ngram": "n-grams of code tokens",
    "parse_error": "a parser",
    "frequency": "the more frequent name",
}
"""Labels of the controls of minimal pairs."""


CUTS: Mapping[str, str] = {
    "operator": "operator",
    "distance": "code tokens from the declaration",
    "construct": "construct",
}
"""Labels of the dimensions that group minimal pairs."""


def read_pairs(run: RunData, metric: str = PREFERRED) -> pl.DataFrame:
    """Read the rows of minimal pairs, including controls.

    The column ``at`` says what was summed (``text`` or ``place``), ``who`` names the control (empty for the
    model), ``cut`` and ``part`` are the dimension and value that the pairs share (empty for all pairs).
    """
    rows = run.scores(metrics=[metric], lens=LENS, controls=True)
    parts = [pl.when(dimension_value(name).is_not_null()).then(pl.lit(name)) for name in CUTS]
    return rows.with_columns(
        at=dimension_value("at").fill_null("text"),
        cut=pl.coalesce(*parts, pl.lit("")),
        part=pl.coalesce(*(dimension_value(name) for name in CUTS), pl.lit("")),
        who=pl.col("control").fill_null(""),
        subject=run.subject,
    )


TABLE_ROWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedDimension:
    """A ranking of the values of one dimension by mean surprisal.

    Attributes:
        dimension: Name of the dimension of scores, for example ``"tag"``.
        what: Singular noun for a value, for example ``"syntax tag"``.
        plural: Plural noun; by default `what` with an s.
        limit: Number of values shown at each end.
        surface: Function from a value of the dimension to its label.
    """

    dimension: str
    what: str
    plural: str = ""
    limit: int = 12
    surface: Callable[[str], str] = str

    @property
    def noun(self) -> str:
        """Return the plural noun for the ranked values."""
        return self.plural or f"{self.what}s"


def build_ranking(run: RunData, ranking: RankedDimension) -> Figure | None:
    """Build charts of the highest and lowest means, and a table of all means.

    Models over different text have separate charts.

    Returns:
        The figure, or None if no value is frequent enough.
    """
    slices = read_slices(run, ranking.dimension)
    frame = _add_names(slices.rows, run, ranking)
    if frame.is_empty():
        return None
    charts: list[Chart] = []
    for group in frame.partition_by("shown", maintain_order=True) if slices.is_separate else [frame]:
        model = group["shown"][0] if slices.is_separate else ""
        charts += _build_end_charts(group, ranking, slices.unit, model, _get_overall_mean(slices, model))
    return Figure(
        answer=_format_answer(frame, ranking, slices.unit),
        charts=charts,
        table=_build_table(run, frame, ranking, slices.unit),
        notes=[*_list_notes(frame), *slices.notes, *list_first_subword_notes(run)],
    )


def ranking_section(ranking: RankedDimension, *, title: str, order: int, caption: str) -> Plot:
    """Declare a section that shows only `ranking`."""
    return SectionPlot(
        title=title,
        lens=LENS,
        order=order,
        caption=caption,
        select=lambda run: read_slices(run, ranking.dimension).rows,
        figure=lambda run, _: build_ranking(run, ranking),
    )


def _add_names(rows: pl.DataFrame, run: RunData, ranking: RankedDimension) -> pl.DataFrame:
    """Select rows with at least `MIN_COUNT` occurrences, add their ``name`` and sort by falling surprisal."""
    show_language = len(run.languages) > 1
    frame = rows.filter((pl.col("n") >= MIN_COUNT) & (pl.col("label") != ""))
    names = [
        f"{ranking.surface(label)} · {language}" if show_language else ranking.surface(label)
        for label, language in frame.select("label", "language").iter_rows()
    ]
    frame = frame.with_columns(name=pl.Series(names, dtype=pl.String))
    return frame.sort("value", descending=True)


def _build_end_charts(
    frame: pl.DataFrame, ranking: RankedDimension, unit: str, model: str, reference: float | None
) -> list[Chart]:
    order = (
        frame.group_by("name", maintain_order=True)
        .agg(pl.col("value").mean())
        .sort("value", "name", descending=[True, False])["name"]
        .to_list()
    )
    # Intervals of a few clusters can be wider than anything else on the chart; they are cut at its edge.
    firm = [row for row in frame.iter_rows(named=True) if not lacks_verdict(row)]
    ends = [row["ci_high"] for row in firm if row["ci_high"] is not None]
    reach = max([*frame["value"].to_list(), *ends])
    limit = ranking.limit
    parts = [
        ("worst", f"The {limit} highest means", order[:limit]),
        ("best", f"The {limit} lowest means", order[: -limit - 1 : -1]),
    ]
    if len(order) <= 2 * limit:
        parts = [("all", f"Every {ranking.what} by mean surprisal", order)]
    stem = f"{ranking.dimension}{'-' + model.replace('/', '_') if model else ''}"
    return [
        Chart(
            name=f"{stem}-{end}",
            title=f"{title}{f', {model}' if model else ''}",
            spec=plot_dots(
                frame.filter(pl.col("name").is_in(names)),
                names,
                unit,
                COUNTS[unit],
                reference=None if reference is None else (reference, "mean"),
                reach=reach,
            ),
            wide=len(parts) == 1,
        )
        for end, title, names in parts
    ]


def _get_overall_mean(slices: SliceTable, model: str) -> float | None:
    rows = slices.totals.filter(pl.col("shown") == model) if model else slices.totals
    return rows["value"][0] if rows.height == 1 else None


def _format_answer(frame: pl.DataFrame, ranking: RankedDimension, unit: str) -> str:
    sentences: list[str] = []
    for part in frame.partition_by("shown", maintain_order=True):
        prefix = f"{part['shown'][0]}: " if frame["shown"].n_unique() > 1 else ""
        sentence = describe_ends(
            part.to_dicts(),
            lambda row: f"“{row['name']}”",
            with_interval,
            noun=ranking.noun,
            verbs=SURPRISES,
            unit=unit,
        ) or _explain_missing_ranking(part, ranking, unit)
        sentences.append(f"{prefix}{sentence}.")
    return "\n".join(sentences)


def _explain_missing_ranking(rows: pl.DataFrame, ranking: RankedDimension, unit: str) -> str:
    """Explain why no value is named, with the highest and lowest estimates."""
    ends = [rows.row(index, named=True) for index in ((0, -1) if rows.height > 1 else (0,))]
    means = " to ".join(f"{with_interval(row)} (“{row['name']}”)" for row in ends)
    if rows.height == 1:
        return f"There is one {ranking.what} alone, {means} {unit}{verdict_mark(ends[0])}"
    reason = next(filter(None, map(no_verdict_reason, rows.to_dicts())), "they do not vary")
    return f"Too little data on which {ranking.what} is the most surprising ({reason}): {means} {unit}"


def _list_notes(frame: pl.DataFrame) -> list[str]:
    notes = [f"Ranked among those with at least {MIN_COUNT} occurrences."]
    inconclusive_count = sum(lacks_verdict(row) for row in frame.iter_rows(named=True))
    if inconclusive_count:
        notes.append(
            f"{inconclusive_count:,} of {frame.height:,} rest{'s' * (inconclusive_count == 1)} "
            "on too little code for a verdict; "
            f"{'its dot is' if inconclusive_count == 1 else 'their dots are'} hollow."
        )
    return notes


def _build_table(run: RunData, frame: pl.DataFrame, ranking: RankedDimension, unit: str) -> Table:
    table_rows = frame
    if frame.height > 2 * TABLE_ROWS:
        table_rows = pl.concat([frame.head(TABLE_ROWS), frame.tail(TABLE_ROWS)])
        summary = f"The {TABLE_ROWS} highest and {TABLE_ROWS} lowest of {frame.height:,} means"
    else:
        summary = f"All {frame.height:,} rows"
    return Table(
        summary=summary,
        columns=[
            Column(title=ranking.what[0].upper() + ranking.what[1:], value="name"),
            *([MODEL] if run.several else []),
            *surprisal_columns(unit),
        ],
        rows=table_rows,
    )
