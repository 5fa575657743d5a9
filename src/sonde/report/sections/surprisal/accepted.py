"""Accepted characters: how far a greedy completion is right, by where it begins and what stands there."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.base.formatting import count, number
from sonde.languages import format_language
from sonde.report.charts import model_order, plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.surprisal._scores import LENS, MIN_COUNT
from sonde.results.accepted import (
    AGREEMENT,
    ALL,
    CHARACTERS,
    CURSORS,
    DIMENSIONS,
    GENERATED,
    LINE,
    PAIRS_TABLE,
    select_places,
)
from sonde.results.extremes import describe_ends
from sonde.results.schema import SHARED_PLACES, dimension_value, has_dimensions
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import PLAIN, Number, verdict_mark, with_interval

_KEYS = ["model", "language", "dimension", "name"]


_CONSTRUCTS_SHOWN = 15


_UNIT = "characters per place"


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw characters and whole lines by kind of place, and characters by construct."""
    charts = [
        Chart(name=f"accepted-{name}", title=title, spec=spec)
        for name, title, spec in (
            ("cursor", "Accepted characters by place", _plot(rows, "cursor", _list_cursors(rows))),
            (
                "line",
                "Places from which the rest of the line is right",
                plot_dots(
                    _with_line(rows.filter(pl.col("dimension") == "cursor")),
                    _list_cursors(rows),
                    "% of places",
                    "places",
                    scale=100,
                ),
            ),
            (
                "construct",
                "Accepted characters by construct",
                _plot(rows, "construct", _list_constructs(rows)),
            ),
        )
    ]
    is_shared = rows.select(dimension_value(SHARED_PLACES[0]).is_not_null().any()).item()
    return Figure(
        answer="\n".join(_list_answers(run, rows)),
        charts=charts,
        table=Table(
            summary="Every number",
            columns=[
                *([MODEL] if run.several else []),
                *([LANGUAGE] if rows["language"].n_unique() > 1 else []),
                Column(
                    title="Places",
                    value=lambda row: (
                        row["name"]
                        if row["dimension"] in ("", "cursor")
                        else f"{row['dimension']}: {row['name']}"
                    ),
                ),
                *estimate_columns(
                    _UNIT.capitalize(), help="In a row from the place on; whole subwords, blanks included."
                ),
                *estimate_columns("Rest of the line, %", 1, 100, key="line", interval="95 % interval of it"),
                *(
                    []
                    if is_shared
                    else [
                        Column(
                            title="By subword pairs",
                            value="pairs",
                            format=Number(),
                            help="Characters by a table of subword pairs, counted in the other half of "
                            "the clusters.",
                        )
                    ]
                ),
                *size_columns(),
            ],
            rows=rows,
        ),
        notes=[*_list_notes(run, is_shared=is_shared), *_list_generated(run)],
    )


def _plot(rows: pl.DataFrame, dimension: str, labels: list[str]) -> dict[str, object]:
    part = rows.filter((pl.col("dimension") == dimension) & pl.col("label").is_in(labels))
    return plot_dots(part.with_columns(name="label"), labels, _UNIT, "places")


def _list_cursors(rows: pl.DataFrame) -> list[str]:
    part = rows.filter(pl.col("dimension") == "cursor").sort("cursor", "language")
    return part["label"].unique(maintain_order=True).to_list()


def _list_constructs(rows: pl.DataFrame) -> list[str]:
    """List the most frequent constructs, by falling mean."""
    part = rows.filter((pl.col("dimension") == "construct") & (pl.col("n") >= MIN_COUNT))
    sizes = part.group_by("label").agg(pl.col("n").sum(), pl.col("value").mean())
    frequent = sizes.sort("n", "label", descending=[True, False]).head(_CONSTRUCTS_SHOWN)
    return frequent.sort("value", "label", descending=[True, False])["label"].to_list()


def _with_line(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows whose number is the share of places with a right rest of the line."""
    known = rows.with_columns(name="label").filter(pl.col("line").struct.field("value").is_not_null())
    return known.drop("value", "ci_low", "ci_high", "n_eff", "df").unnest("line")


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read characters by place and slice, with the columns ``line`` (a score) and ``pairs`` (a value)."""
    rows = run.scores(lens=LENS, metrics=[CHARACTERS, LINE], controls=True)
    if rows.is_empty():
        return rows
    is_model = pl.col("control").is_null()
    characters, lines = (
        select_places(rows.filter((pl.col("metric") == metric) & is_model)) for metric in (CHARACTERS, LINE)
    )
    pairs = select_places(rows.filter((pl.col("metric") == CHARACTERS) & (pl.col("control") == PAIRS_TABLE)))
    score = pl.struct("value", "ci_low", "ci_high", "n_eff", "df")
    return (
        characters.join(lines.select(*_KEYS, line=score), on=_KEYS, how="left")
        .join(pairs.select(*_KEYS, pairs="value"), on=_KEYS, how="left")
        .with_columns(
            place=model_order(run),
            label=pl.concat_str("name", pl.lit(" · "), "language") if len(run.languages) > 1 else "name",
            row=pl.col("dimension").replace_strict({name: at for at, name in enumerate(("", *DIMENSIONS))}),
            cursor=pl.col("name").replace_strict(
                {name: at for at, name in enumerate(CURSORS)}, default=len(CURSORS)
            ),
        )
        .sort("place", "language", "row", "cursor", "name")
    )


def _list_answers(run: RunData, rows: pl.DataFrame) -> Iterator[str]:
    gains = run.scores(lens=LENS, metrics=["gain"], where=has_dimensions({}), controls=True)
    shows_language = rows["language"].n_unique() > 1
    for part in rows.partition_by("place", "language", maintain_order=True):
        total = next((row for row in part.to_dicts() if row["name"] == ALL), None)
        if total is None:
            continue
        subject = [
            *([total["shown"]] if rows["shown"].n_unique() > 1 else []),
            *([format_language(total["language"])] if shows_language else []),
        ]
        prefix = f"{' on '.join(subject)}: " if subject else ""
        line = (total["line"] or {}).get("value")
        to_the_end = (
            "" if line is None else f", and in {number(100 * line, 1)} % of the places to the end of the line"
        )
        yield (
            f"{prefix}From an average place a greedy completion is right for {with_interval(total)} "
            f"characters{verdict_mark(total)}{to_the_end} (n = {count(total['n'])} places)."
        )
        of_model = (pl.col("model") == total["model"]) & (pl.col("language") == total["language"])
        is_gain = (pl.col("of_metric") == CHARACTERS) & (pl.col("compared_to") == PAIRS_TABLE)
        for gain in gains.filter(of_model & is_gain).to_dicts():
            yield (
                f"{prefix}At its {count(gain['n'])} places it gets {with_interval(gain)} characters more "
                f"right than a table of subword pairs{PLAIN.difference_caveat(gain)}."
            )
        sentence = describe_ends(
            part.filter(pl.col("dimension") == "cursor").to_dicts(),
            lambda row: f"“{row['name']}”",
            with_interval,
            noun="kinds of place",
            verbs=("gets the most characters right", "the fewest"),
        )
        if sentence:
            yield f"{prefix}{sentence}."


def _list_notes(run: RunData, *, is_shared: bool) -> Iterator[str]:
    yield (
        "Only whole subwords count: a completion that is wrong in the middle of a subword is not right up "
        "to there. The beginning of a text is no place, since nothing stands before it. A completion that is "
        "right up to the end of a text ends there."
    )
    if is_shared:
        yield (
            "Over the places at which every model of the run begins a subword, so that all are over the same "
            "places; the numbers over each model's own places are in scores.parquet."
        )
    elif run.scores(lens=LENS, metrics=[CHARACTERS])["model"].n_unique() > 1:
        yield "Each model is over the places at which it begins a subword."


def _list_generated(run: RunData) -> Iterator[str]:
    """Yield a note per model and language on completions that were really generated."""
    rows = run.scores(
        lens=LENS, metrics=[GENERATED, AGREEMENT, "gain"], where=has_dimensions({}), controls=True
    ).filter((pl.col("metric") != "gain") | (pl.col("of_metric") == GENERATED))
    for part in rows.with_columns(place=model_order(run)).partition_by(
        "place", "language", maintain_order=True
    ):
        by_metric = {row["metric"]: row for row in part.to_dicts()}
        if not {GENERATED, AGREEMENT, "gain"} <= by_metric.keys():
            continue
        generated, agreement, gain = (by_metric[name] for name in (GENERATED, AGREEMENT, "gain"))
        prefix = f"{generated['shown']}: " if run.several else ""
        yield (
            f"{prefix}From {count(generated['n'])} sampled places the model generated, with the text before "
            f"encoded anew: {with_interval(generated)} characters{verdict_mark(generated)} are right, "
            f"{with_interval(gain, sign='+')}{verdict_mark(gain)} compared with its ranks. Both agree at "
            f"{with_interval(agreement, 100, 1)} %{verdict_mark(agreement)} of these places; elsewhere "
            "the text before, or the same characters, were cut into other subwords, or two subwords were "
            "nearly tied."
        )


plot = SectionPlot(
    title="Accepted characters: how far its completions are right",
    lens=LENS,
    order=12,
    caption=(
        "A greedy completion takes the likeliest subword each time, so it is right as long as the subwords "
        "of the text have rank 1. It could begin wherever a subword begins (spaces aside). Dots are means "
        "over places, lines 95 % intervals clustered by repository or module."
    ),
    select=_read_rows,
    figure=_draw,
)
