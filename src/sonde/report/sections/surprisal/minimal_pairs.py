"""Minimal pairs: how often the original is likelier than the same with a fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import join_names, plural
from sonde.languages import format_language
from sonde.report.charts import plot_dots, split_by_subject
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure, SectionPlot
from sonde.report.sections.surprisal._scores import CONTROLS, CUTS, LENS, read_pairs
from sonde.report.text import (
    family_order,
    lacks_verdict,
    sort_differences,
    task_description,
    task_label,
)
from sonde.results.extremes import describe_extreme, find_extreme
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import SHARE, TOO_LITTLE, verdict_mark, with_interval
from sonde.stats.verdict import no_verdict_reason
from sonde.store.run_folder import slug

_MAX_PART_CHARTS = 3
"""Maximum number of charts by operator or distance; the table has all of them."""


Row = Mapping[str, Any]


_SUBJECT = ("model", "language", "task", "corpus_hash")


def _draw(run: RunData, model_rows: pl.DataFrame) -> Figure:
    """Draw the share of pairs whose original is likelier, by fault, operator and distance."""
    rows = read_pairs(run)
    table_rows = rows.sort(
        family_order(rows), "model", "language", "cut", "part", "at", "who",
        descending=[False, False, False, False, False, True, False],
    )  # fmt: skip
    return Figure(
        answer="\n".join(_list_answers(rows, read_pairs(run, "gain"))),
        charts=[_plot_faults(rows), *_plot_parts(rows)],
        table=Table(
            summary="Every fault, part and control",
            columns=[
                Column(title="Fault", value=lambda row: task_label(row["task"])),
                Column(title="What it is", value=lambda row: task_description(row["task"]) or None),
                MODEL,
                LANGUAGE,
                Column(
                    title="Pairs",
                    value=lambda row: f"{CUTS[row['cut']]}: {row['part']}" if row["cut"] else "all",
                    help="Which of them: all, or those that have something in common.",
                ),
                Column(
                    title="Summed",
                    value=lambda row: "only at the place" if row["at"] == "place" else "from the place on",
                    help="The part of the two texts that is compared.",
                ),
                Column(
                    title="Who",
                    value=lambda row: CONTROLS.get(row["who"], "model"),
                    help="The model, or what tells the original without a model.",
                ),
                *estimate_columns("Original likelier, %", 1, 100, help="Ties count half."),
                *size_columns(n="Pairs, n"),
            ],
            rows=table_rows,
        ),
        notes=[
            "A parser, and any model of syntax, recognises a fault after which code does not parse; the "
            "others need names, types or meaning.",
            "A model that finds a fault less likely need not detect it: here it compares two texts of which "
            "one is faulty.",
            *(note for name, note in _OBJECTIVES.items() if name in model_rows["objective"]),
        ],
    )


def _plot_faults(rows: pl.DataFrame) -> Chart:
    totals = rows.filter(
        (pl.col("at") == "text") & (pl.col("cut") == "") & pl.col("who").is_in(["", "ngram"])
    )
    model_rows, ngrams = (totals.filter(pl.col("who") == control) for control in ("", "ngram"))
    # The texts are the same for all models, and so is what n-grams say of them.
    unique_ngrams = ngrams.unique(["task", "language"], keep="first", maintain_order=True)
    show_language = totals["language"].n_unique() > 1
    name = pl.struct("task", "language").map_elements(
        lambda row: (
            task_label(row["task"]) + (f" · {format_language(row['language'])}" if show_language else "")
        ),
        pl.String,
    )
    dots = pl.concat([model_rows, unique_ngrams.with_columns(shown=pl.lit("n-grams"))]).with_columns(
        name=name
    )
    best = dots.filter(pl.col("who") == "").group_by("name").agg(pl.col("value").mean())
    return Chart(
        name="minimal-pairs",
        title="Original likelier than its mutant, by fault",
        spec=_plot_dots(dots, best.sort("value", "name", descending=[True, False])["name"].to_list()),
        wide=True,
    )


def _plot_parts(rows: pl.DataFrame) -> Iterator[Chart]:
    """Yield charts by operator or distance for faults that have several, those with most pairs first."""
    key = ["task", "language", "cut"]
    is_model_part = (
        (pl.col("who") == "") & (pl.col("at") == "text") & pl.col("cut").is_in(["operator", "distance"])
    )
    parts = rows.filter(is_model_part).with_columns(name=pl.col("part"))
    sizes = parts.group_by(key).agg(pl.col("part").n_unique(), pl.col("n").sum()).filter(pl.col("part") > 1)
    largest = sizes.sort("n", *key, descending=[True, False, False, False]).head(_MAX_PART_CHARTS)
    show_language = parts["language"].n_unique() > 1
    for task, language, dimension in largest.select(key).iter_rows():
        part_rows = parts.filter(task=task, language=language, cut=dimension)
        suffix = f" in {format_language(language)}" if show_language else ""
        yield Chart(
            name=slug(f"minimal-pairs-{task}-{language}-{dimension}"),
            title=f"{task_label(task)}{suffix}, by {CUTS[dimension]}",
            spec=_plot_dots(part_rows, part_rows["part"].unique().sort().to_list()),
        )


def _plot_dots(rows: pl.DataFrame, order: list[str]) -> dict[str, Any]:
    return plot_dots(rows, order, "original likelier, %", "pairs", reference=(50.0, "guessing"), scale=100)


def _list_answers(rows: pl.DataFrame, gains: pl.DataFrame) -> Iterator[str]:
    """Yield one line per model and language: its only fault, or a summary of several."""
    for subject, _, part in split_by_subject(rows.filter((pl.col("at") == "text") & (pl.col("cut") == ""))):
        faults = part.filter(pl.col("who") == "").sort("value", descending=True).to_dicts()
        if len(faults) == 1:
            sentence = _describe_fault(faults[0], part, gains)
        elif firm := [row for row in faults if not lacks_verdict(row)]:
            sentence = _summarise_faults(faults, firm, part, gains)
        else:
            shares = join_names([f"{_format_fault(row)} {_format_share(row)}" for row in faults])
            sentence = f"{TOO_LITTLE} on any fault ({no_verdict_reason(faults[0])}): {shares}"
        yield f"{subject}: {sentence}."


def _format_fault(row: Row) -> str:
    return f"“{task_label(row['task'])}”"


def _summarise_faults(
    faults: Sequence[Row], firm: Sequence[Row], part: pl.DataFrame, gains: pl.DataFrame
) -> str:
    """Count the faults on which a model beats its best control, and describe the extremes."""
    leads = [
        gain for row in faults if (gain := _find_gain(row, _find_best_control(row, part), gains)) is not None
    ]
    gains_by_sign = sort_differences(leads)
    clauses = [
        f"for {len(gains_by_sign.higher)} of {len(faults)} faults the original is likelier more often "
        "than by the best control"
        + f", for {len(gains_by_sign.lower)} less often"
        * bool(gains_by_sign.lower)
    ]
    clauses += gains_by_sign.describe_rest()
    if gains_by_sign.higher and (lead := find_extreme(leads, ends=2)) is not None:
        clauses.append(
            describe_extreme(
                lead, _format_fault, lambda row: f"{with_interval(row, 100, 1)} points",
                verb="is ahead by most", end="top of these differences",
            )
        )  # fmt: skip
    if (lowest := find_extreme(firm, largest=False, ends=2)) is not None:
        clauses.append(
            describe_extreme(
                lowest,
                _format_fault,
                _format_share,
                verb="is recognised least often",
                end="bottom of the shares recognised",
            )
        )
    return "; ".join(clauses)


def _describe_fault(row: Row, part: pl.DataFrame, gains: pl.DataFrame) -> str:
    control = _find_best_control(row, part)
    sentence = (
        f"the original of {_format_fault(row)} has less surprisal than its mutant in "
        f"{_format_share(row)} of {plural(row['n'], 'pair')}"
    )
    if control is not None:
        sentence += f", against {_format_share(control)} by {CONTROLS[control['control']]}"
    if (gain := _find_gain(row, control, gains)) is None:
        return f"{sentence}{verdict_mark(row)}"
    difference = f" (difference {with_interval(gain, 100, 1)} points)"
    return f"{sentence}{difference}{SHARE.difference_caveat(gain)}"


def _format_share(row: Row) -> str:
    return f"{with_interval(row, 100, 1)} %"


def _matches_subject(row: Row) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == row[name] for name in _SUBJECT)


def _find_best_control(row: Row, part: pl.DataFrame) -> Row | None:
    """Return the control with the highest share on the fault of `row`, or None."""
    controls = part.filter(_matches_subject(row) & pl.col("who").is_in(list(CONTROLS)))
    return max(controls.to_dicts(), key=lambda control: control["value"], default=None)


def _find_gain(row: Row, control: Row | None, gains: pl.DataFrame) -> Row | None:
    if control is None:
        return None
    matches = gains.filter(_matches_subject(row) & (pl.col("compared_to") == control["control"]))
    return next(matches.iter_rows(named=True), None)


_OBJECTIVES = {
    "pll": (
        "Masked models: pseudo-log-likelihoods of the place and of 32 subwords on either side, word by "
        "word from left to right. Do not compare them with those of a decoder."
    ),
    "infill": (
        "Models that fill in: only the place, left out whole and predicted from both sides, which are the "
        "same in both texts. Do not compare them with models that read from left to right."
    ),
}
"""Notes on models that see both sides, by objective."""


plot = SectionPlot(
    title="Minimal pairs: the original or the fault",
    lens=LENS,
    order=5,
    caption=(
        "Each function is read as written and with one fault (as in BLiMP, Warstadt et al. 2020). Dots are "
        "the share of pairs whose original has less surprisal, in per cent; ties count half, and 95 % "
        "intervals are clustered by repository or module. Surprisal is summed from the changed place on: "
        "the text before it is the same in both, and the text after it counts. Guessing gives half. "
        "4-grams of code tokens, counted in functions of other clusters, are shown for comparison."
    ),
    select=lambda run: read_pairs(run).filter(
        (pl.col("who") == "") & (pl.col("at") == "text") & (pl.col("cut") == "")
    ),
    figure=_draw,
)
