"""Code from before a day against newer code of the same kind: whether the older code has been read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from sonde.base.formatting import count, number
from sonde.languages import format_language
from sonde.report.charts import model_order, plot_differences
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.surprisal._scores import LENS
from sonde.results.group_means import MATCHED_SHARE
from sonde.results.memorisation import (
    AFTER_CUTOFF,
    BEFORE_CUTOFF,
    CLAIM_LIMIT,
    CUTOFF_CHANGE,
    PERIOD,
    describe_contamination,
)
from sonde.results.schema import dimension_value, has_dimension_names
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import with_interval

_MODEL_NAME, _RANDOM_NAME, _EXCESS_NAME = "the model", "random weights", "the model less random weights"


_MEASURES = {"bits": "bits per subword", "bits_per_byte": "bits per byte"}


_MAX_CONSTRUCTS = 4


_NEARLY_ALL = 0.9


Row = Mapping[str, Any]


def _draw(run: RunData, rows: pl.DataFrame) -> Figure:
    """Draw the differences between newer and older code."""
    changes = rows.filter((pl.col("period") == CUTOFF_CHANGE) & (pl.col("metric") == "bits"))
    spec = plot_differences(
        changes,
        [_MODEL_NAME, _RANDOM_NAME, _EXCESS_NAME],
        "newer minus older, bits per subword",
        "subwords",
    )
    times = {BEFORE_CUTOFF: "older", AFTER_CUTOFF: "newer", CUTOFF_CHANGE: "newer minus older"}
    return Figure(
        answer="\n".join(_list_answers(rows, _read_cutoff_date(run))),
        charts=[
            Chart(name="periods", title=f"Code since {_read_cutoff_date(run)} against older code", spec=spec)
        ],
        table=Table(
            summary="Both times and their differences",
            columns=[
                MODEL,
                LANGUAGE,
                Column(title="Of", value="name"),
                Column(title="Time", value=lambda row: times[row["period"]]),
                Column(title="What", value=lambda row: _MEASURES[row["metric"]]),
                *estimate_columns(
                    "Value", help="Over the same mix of repositories, constructs and lengths of context."
                ),
                *size_columns(),
                Column(title="n counts", value=lambda row: f"{_MEASURES[row['metric']].split()[-1]}s"),
            ],
            rows=rows,
        ),
        notes=[
            *_describe_unmatched_code(run),
            *_list_omitted_functions(run),
            "When code was written is known by line from git (the commit that last changed it) and by "
            "release from a package index (its first upload), whose code may be older than that. Bits per "
            "subword decide, since random weights cost the same for each subword and not for each byte.",
        ],
    )


def _read_cutoff_date(run: RunData) -> str:
    selection = (run.summary.get("arguments") or {}).get("selection") or {}
    return str(selection.get("cut_off") or "the date")


def _read_rows(run: RunData) -> pl.DataFrame:
    """Read both periods and their difference, for the model, random weights and the model's excess."""
    rows = run.scores(lens=LENS, metrics=list(_MEASURES), where=has_dimension_names(PERIOD), controls=True)
    label = pl.when(pl.col("control").is_not_null()).then(pl.lit(_RANDOM_NAME))
    return rows.with_columns(
        period=dimension_value(PERIOD),
        name=label.when(pl.col("compared_to").is_not_null())
        .then(pl.lit(_EXCESS_NAME))
        .otherwise(pl.lit(_MODEL_NAME)),
        place=model_order(run),
    ).sort("place", "language", pl.col("metric") != "bits", "name", "period")


def _list_answers(rows: pl.DataFrame, day: str) -> Iterator[str]:
    show_subject = rows.select("shown", "language").n_unique() > 1
    for part in rows.filter(pl.col("metric") == "bits").partition_by("place", "language"):
        by_name = {(row["name"], row["period"]): row for row in part.iter_rows(named=True)}
        if (change := by_name.get((_MODEL_NAME, CUTOFF_CHANGE))) is None:
            continue
        prefix = f"{change['shown']} on {format_language(change['language'])}: " if show_subject else ""
        older, newer = (
            number(row["value"] if (row := by_name.get((_MODEL_NAME, time))) else None)
            for time in (BEFORE_CUTOFF, AFTER_CUTOFF)
        )
        excess = by_name.get((_EXCESS_NAME, CUTOFF_CHANGE))
        random_change = by_name.get((_RANDOM_NAME, CUTOFF_CHANGE))
        random_sentence = (
            f" With random weights it is {with_interval(random_change)}, "
            f"so that {with_interval(excess)} remain."
            if excess is not None and random_change is not None
            else ""
        )
        yield (
            f"{prefix}At the same mix of constructs, code since {day} costs {newer} bits per subword "
            f"and older code {older}, a difference of {with_interval(change)}.{random_sentence} "
            f"{describe_contamination(change, excess)}"
        )


def _describe_unmatched_code(run: RunData) -> Iterator[str]:
    """Yield sentences on the share of each period matched in the other, with the worst-matched constructs."""
    rows = run.scores(lens=LENS, metrics=[MATCHED_SHARE], where=dimension_value(PERIOD).is_not_null())
    rows = rows.with_columns(period=dimension_value(PERIOD), construct=dimension_value("construct"))
    times = {BEFORE_CUTOFF: "older", AFTER_CUTOFF: "newer"}
    sentences: dict[str, str] = {}
    for part in rows.partition_by("model", "language", maintain_order=True):
        totals = {row["period"]: row for row in part.filter(pl.col("construct").is_null()).to_dicts()}
        if len(totals) < 2:
            continue
        newer, older = (number(100 * totals[time]["value"], 1) for time in (AFTER_CUTOFF, BEFORE_CUTOFF))
        low_shares = part.filter((pl.col("construct") != "") & (pl.col("value") < _NEARLY_ALL))
        constructs = [
            f"{row['construct'].replace('_', ' ')} ({100 * row['value']:.0f} % of the {times[row['period']]})"
            for row in low_shares.sort((1 - pl.col("value")) * pl.col("n"), descending=True)
            .head(_MAX_CONSTRUCTS)
            .to_dicts()
        ]
        detail = f" Least of all could be matched of {', '.join(constructs)}." if constructs else ""
        sentences[f"{part['shown'][0]} on {format_language(part['language'][0])}"] = (
            f"{newer} % of the newer and {older} % of the older code, by bytes, has its like in the "
            f"other time; the rest is in no number of this section.{detail}"
        )

    # Models that cut the texts alike have the same shares.
    if len(set(sentences.values())) == 1:
        yield next(iter(sentences.values()))
    else:
        yield from (f"{subject}: {sentence}" for subject, sentence in sentences.items())


def _list_omitted_functions(run: RunData) -> Iterator[str]:
    """Yield a sentence per corpus on functions in neither period, counted by reason."""
    for entry in run.summary.get("corpus") or ():
        counts = {reason: n for reason, n in (entry.get("left_out") or {}).items() if _is_about_dates(reason)}
        if counts:
            reasons = ", ".join(f"{reason} ({count(n)})" for reason, n in counts.items())
            yield f"{entry.get('name', '')}: on neither side, by reason: {reasons}."


def _is_about_dates(reason: str) -> bool:
    return "cut-off date" in reason or "older one" in reason


plot = SectionPlot(
    title="Before and after a date: has the older code been read?",
    lens=LENS,
    order=86,
    caption=(
        "Functions written wholly before the date are compared with functions written wholly since, at the "
        "same mix. That is, both periods have the same weight within each repository, construct and length "
        "of the context before a subword. If there is one repository, packages or files take its place. Dots "
        "are differences, newer minus older, with 95 % intervals: right of zero, newer code is more "
        "surprising. Random weights have read nothing, so what they show comes from the texts. At most, this "
        "shows that "
        f"{CLAIM_LIMIT}."
    ),
    select=_read_rows,
    figure=_draw,
)
