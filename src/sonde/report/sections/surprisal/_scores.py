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
from sonde.results.text_format import caveat, with_interval
from sonde.stats.verdict import no_verdict_reason

LENS = "surprisal"


MIN_COUNT = 20
"""Occurrences below which a slice is not ranked; said on the page."""


BITS_PER_NAT = 1.4426950408889634


_APART = "Each model is over its own subwords and inputs: numbers of two models are of other text."


PER_SUBWORD, PER_TOKEN = "bits per subword", "bits per code token"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTable:
    """The rows of a table that may set several models side by side.

    Attributes:
        rows: The rows, in bits, with ``label``: the value of the dimension.
        unit: What they are in.
        whole: What all that was counted costs, a row a model and language.
        apart: Whether each of several models is over text of its own, so that none stands beside another.
    """

    rows: pl.DataFrame
    unit: str
    whole: pl.DataFrame
    apart: bool

    @property
    def shared(self) -> bool:
        """Whether several models are over the code tokens that all of them have whole."""
        return self.unit == PER_TOKEN

    @property
    def notes(self) -> list[str]:
        """What stands below a table of them, where there are several models."""
        if self.apart:
            return [_APART]
        if not self.shared:
            return []
        return [
            f"{format_language(language)}: over the {count(n)} code tokens that every model of the run has "
            "whole, so that all are over the same text; the numbers over each model's own text are in "
            "scores.parquet."
            for language, n in self.whole.group_by("language")
            .agg(pl.col("n").first())
            .sort("language")
            .rows()
        ]


def read_slices(run: RunData, *by: str, task: str = "", metric: str = "bits") -> SliceTable:
    """Rows by the values of dimensions: of several models over the code tokens that all of them have whole.

    Tokens that one tokenizer alone cuts out, and inputs that one model alone read, would make other text of
    the same construct. Where the run has no such rows each model is by itself.

    Args:
        run: The run.
        by: The dimensions; the last is ``label``.
        task: Of one task only, where given.
        metric: What the rows over a model's own text are: ``bits`` or ``nats`` of its subwords.
    """

    def named(metric: str, *outer: str) -> tuple[pl.DataFrame, pl.DataFrame]:
        # Bits are scaled by nothing, nats by the bits in one.
        scale = 1.0 if metric == "bits" else BITS_PER_NAT
        parts = (
            run.scores(lens=LENS, metrics=[metric], where=has_dimension_names(*outer, *by), task=task),
            run.scores(lens=LENS, metrics=[metric], where=has_dimension_names(*outer)).filter(
                pl.col("task") == ""
            ),
        )
        rows, whole = (rows.with_columns(pl.col("value", "ci_low", "ci_high") * scale) for rows in parts)
        return rows.with_columns(label=dimension_value(by[-1])), whole

    own, whole = named(metric)
    if own["model"].n_unique() < 2:
        return SliceTable(rows=own, unit=PER_SUBWORD, whole=whole, apart=False)
    shared, of_shared = named("nats_per_token", SHARED_TOKENS[0])
    if shared.is_empty():
        return SliceTable(rows=own, unit=PER_SUBWORD, whole=whole, apart=True)
    return SliceTable(rows=shared, unit=PER_TOKEN, whole=of_shared, apart=False)


def list_subword_notes(run: RunData) -> list[str]:
    """What stands below single subwords of several models, which are no units that these have in common."""
    return [_APART] if run.scores(lens=LENS, metrics=["bits"])["model"].n_unique() > 1 else []


def read_observations(run: RunData, model: ModelInfo, columns: Sequence[str]) -> pl.LazyFrame:
    """The item table of one model, these columns only; empty where the run lacks it or one of them."""
    frame = run.table(LENS, model)
    if frame is None or not set(columns) <= set(frame.collect_schema().names()):
        return pl.DataFrame(schema={name: OBSERVATIONS_SCHEMA[name] for name in columns}).lazy()
    return frame.select(columns)


def read_first_subwords(run: RunData) -> pl.DataFrame:
    """What the first subwords of texts cost, a row a model and language that sets them apart."""
    return run.scores(lens=LENS, metrics=["bits"], where=has_dimensions(dict([FIRST_PART])))


def is_first_subword(run: RunData, model: ModelInfo) -> pl.Expr:
    """Whether a row of `read_observations` with the column ``context`` is in none of the model's slices."""
    return IS_FIRST if model.name in read_first_subwords(run)["model"] else pl.lit(value=False)


def list_first_subword_notes(run: RunData) -> list[str]:
    """What stands below a table of slices: how many subwords are in none of them, and what these cost."""
    return [
        f"{row['shown']}, {format_language(row['language'])}: the subword that begins a text, before which "
        f"the model has nothing of it, is in no row; the mean of {count(row['n'])} is {with_interval(row)} "
        f"bits{caveat(row)}."
        for row in read_first_subwords(run).sort("shown", "language").iter_rows(named=True)
    ]


SURPRISES = ("surprises most", "surprises least")
"""What the highest and the lowest of several means of surprisal do."""


PREFERRED = "preferred"


CONTROLS: Mapping[str, str] = {
    "chance": "chance",
    "length": "the shorter text",
    "ngram": "n-grams of code tokens",
    "parse_error": "a parser",
    "frequency": "the more frequent name",
}
"""Controls of minimal pairs, in words."""


CUTS: Mapping[str, str] = {
    "operator": "operator",
    "distance": "code tokens from the declaration",
    "construct": "construct",
}
"""Dimensions by which pairs are told apart, in words."""


def read_pairs(run: RunData, metric: str = PREFERRED) -> pl.DataFrame:
    """Rows of minimal pairs, controls included.

    ``at`` is what was summed (``text`` or ``place``), ``cut`` and ``part`` what the pairs have in common.
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
    """What is ranked.

    Attributes:
        dimension: Of scores, for example ``"tag"``.
        what: One of them in words, for example ``"syntax tag"``.
        plural: Several of them; by default with an s.
        shown: How many at each end.
        surface: From a value of the dimension to what is shown.
    """

    dimension: str
    what: str
    plural: str = ""
    shown: int = 12
    surface: Callable[[str], str] = str

    @property
    def noun(self) -> str:
        """Several of what is ranked."""
        return self.plural or f"{self.what}s"


def build_ranking(run: RunData, ranking: RankedDimension) -> Figure | None:
    """Charts of the worst and the best, and a table of the rest; models over other texts are apart."""
    held = read_slices(run, ranking.dimension)
    frame = _add_names(held.rows, run, ranking)
    if frame.is_empty():
        return None
    charts: list[Chart] = []
    for group in frame.partition_by("shown", maintain_order=True) if held.apart else [frame]:
        model = group["shown"][0] if held.apart else ""
        charts += _build_end_charts(group, ranking, held.unit, model, _overall(held, model))
    return Figure(
        answer=_format_answer(frame, ranking, held.unit),
        charts=charts,
        table=_build_table(run, frame, ranking, held.unit),
        notes=[*_list_notes(frame), *held.notes, *list_first_subword_notes(run)],
    )


def ranking_section(ranking: RankedDimension, *, title: str, order: int, caption: str) -> Plot:
    """Declare the section that shows a ranking alone."""
    return SectionPlot(
        title=title,
        lens=LENS,
        order=order,
        caption=caption,
        select=lambda run: read_slices(run, ranking.dimension).rows,
        figure=lambda run, _: build_ranking(run, ranking),
    )


def _add_names(rows: pl.DataFrame, run: RunData, ranking: RankedDimension) -> pl.DataFrame:
    """The rows above the minimum count with the ``name`` of each, the highest first."""
    several = len(run.languages) > 1
    frame = rows.filter((pl.col("n") >= MIN_COUNT) & (pl.col("label") != ""))
    names = [
        f"{ranking.surface(label)} · {language}" if several else ranking.surface(label)
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
    suffix = f", {model}" if model else ""
    stem = f"{ranking.dimension}{'-' + model.replace('/', '_') if model else ''}"
    if len(order) <= 2 * ranking.shown:
        title = f"Every {ranking.what} by mean surprisal{suffix}"
        parts = [(f"{stem}-all", title, order)]
    else:
        parts = [
            (f"{stem}-worst", f"The {ranking.shown} highest means{suffix}", order[: ranking.shown]),
            (f"{stem}-best", f"The {ranking.shown} lowest means{suffix}", order[: -ranking.shown - 1 : -1]),
        ]
    return [
        Chart(
            name=name,
            title=title,
            spec=plot_dots(
                frame.filter(pl.col("name").is_in(names)), names, unit, reference=reference, reach=reach
            ),
            wide=len(parts) == 1,
        )
        for name, title, names in parts
    ]


def _overall(held: SliceTable, model: str) -> float | None:
    rows = held.whole.filter(pl.col("shown") == model) if model else held.whole
    return rows["value"][0] if rows.height == 1 else None


def _format_answer(frame: pl.DataFrame, ranking: RankedDimension, unit: str) -> str:
    sentences: list[str] = []
    for part in frame.partition_by("shown", maintain_order=True):
        who = f"{part['shown'][0]}: " if frame["shown"].n_unique() > 1 else ""
        said = describe_ends(
            part.to_dicts(),
            lambda row: f"“{row['name']}”",
            with_interval,
            noun=ranking.noun,
            verbs=SURPRISES,
            unit=unit,
        ) or _explain_missing_ranking(part, ranking, unit)
        sentences.append(f"{who}{said}.")
    return "\n".join(sentences)


def _explain_missing_ranking(rows: pl.DataFrame, ranking: RankedDimension, unit: str) -> str:
    """Say why none is named, with the ends of what was estimated."""
    ends = [rows.row(place, named=True) for place in ((0, -1) if rows.height > 1 else (0,))]
    means = " to ".join(f"{with_interval(row)} (“{row['name']}”)" for row in ends)
    if rows.height == 1:
        return f"There is one {ranking.what} alone, {means} {unit}{caveat(ends[0])}"
    why = next(filter(None, map(no_verdict_reason, rows.to_dicts())), "they do not vary")
    return f"Too little data on which {ranking.what} is the most surprising ({why}): {means} {unit}"


def _list_notes(frame: pl.DataFrame) -> list[str]:
    notes = [f"Ranked among those with at least {MIN_COUNT} occurrences."]
    few = sum(lacks_verdict(row) for row in frame.iter_rows(named=True))
    if few:
        notes.append(
            f"{few:,} of {frame.height:,} rest{'s' * (few == 1)} on too little code for a verdict; "
            f"{'its dot is' if few == 1 else 'their dots are'} hollow."
        )
    return notes


def _build_table(run: RunData, frame: pl.DataFrame, ranking: RankedDimension, unit: str) -> Table:
    chosen = frame
    if frame.height > 2 * TABLE_ROWS:
        chosen = pl.concat([frame.head(TABLE_ROWS), frame.tail(TABLE_ROWS)])
        summary = f"The {TABLE_ROWS} highest and {TABLE_ROWS} lowest of {frame.height:,} means"
    else:
        summary = f"All {frame.height:,} rows"
    return Table(
        summary=summary,
        columns=[
            Column(title=ranking.what[0].upper() + ranking.what[1:], value="name"),
            *([MODEL] if run.several else []),
            *score_columns(unit.capitalize(), help="How unexpected it is to the model: 0 where it was sure."),
        ],
        rows=chosen,
    )
