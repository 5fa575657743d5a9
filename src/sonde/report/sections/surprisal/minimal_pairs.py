"""Minimal pairs: how often the original is likelier than the same with a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import join_names, plural
from sonde.languages import format_language
from sonde.report.charts import plot_dots
from sonde.report.run_tables import RunData
from sonde.report.section import Chart, Figure
from sonde.report.sections.surprisal._scores import CONTROLS, CUTS, LENS, read_pairs
from sonde.report.text import lacks_verdict, sort_by_family, task_description, task_label
from sonde.results.extremes import describe_extreme, find_extreme
from sonde.results.tables import LANGUAGE, MODEL, Column, Table, estimate_columns, size_columns
from sonde.results.text_format import (
    TOO_LITTLE,
    caveat,
    describe_null_results,
    difference_caveat,
    with_interval,
)
from sonde.stats.verdict import no_verdict_reason

_SLICED = 3
"""Charts of what pairs have in common, at most; all of it stands in the table."""


_NGRAMS = "n-grams"


Row = Mapping[str, Any]


_SUBJECT = ("model", "language", "task", "corpus_hash")


class MinimalPairs:
    """A dot a kind of fault, the n-gram model beside it, and a table with every part and control."""

    title = "Minimal pairs: the original or the fault"
    lens = LENS
    order = 5
    caption = (
        "Each function is read as it was written and with one fault (as BLiMP does, Warstadt et al. 2020). "
        "Dots are the share of the pairs whose original has less surprisal, in %, ties counting half, with "
        "95 % intervals clustered by repository or module. Summed is from the changed place on: what stands "
        "before is the same in both texts, and what follows counts. Half is what guessing gives. Beside it, "
        "the same of 4-grams of code tokens that were counted in functions of other clusters."
    )

    def draw(self, run: RunData) -> Figure | None:
        """The faults that the run has pairs of."""
        rows = read_pairs(run)
        own = rows.filter((pl.col("who") == "") & (pl.col("at") == "text") & (pl.col("cut") == ""))
        if own.is_empty():
            return None
        gains = read_pairs(run, "gain")
        return Figure(
            answer="\n".join(_list_answers(rows, gains)),
            charts=[_by_task(rows), *_by_part(rows)],
            table=_build_table(rows),
            notes=_list_notes(own),
        )


def _by_task(rows: pl.DataFrame) -> Chart:
    whole = rows.filter((pl.col("at") == "text") & (pl.col("cut") == "") & pl.col("who").is_in(["", "ngram"]))
    # The texts are the same for all models, and so is what n-grams say of them.
    once = whole.filter(pl.col("who") == "ngram").unique(["task", "language"], keep="first")
    shown = pl.concat([whole.filter(pl.col("who") == ""), once.with_columns(shown=pl.lit(_NGRAMS))])
    several = whole["language"].n_unique() > 1
    labels = [
        f"{task_label(task)} · {format_language(language)}" if several else task_label(task)
        for task, language in shown.select("task", "language").iter_rows()
    ]
    shown = shown.with_columns(name=pl.Series(labels, dtype=pl.String))
    best = shown.filter(pl.col("who") == "").group_by("name").agg(pl.col("value").mean())
    order = best.sort("value", "name", descending=[True, False])["name"].to_list()
    return Chart(
        name="minimal-pairs",
        title="Original likelier than its mutant, by fault",
        spec=_plot_dots(shown, order),
        wide=True,
    )


def _by_part(rows: pl.DataFrame) -> Sequence[Chart]:
    """By operator and distance, where a fault has several of them, those with most pairs first."""
    held = rows.filter((pl.col("who") == "") & (pl.col("at") == "text"))
    parts = held.filter(pl.col("cut").is_in(["operator", "distance"]))
    asked = parts.group_by("task", "language", "cut").agg(pl.col("part").n_unique(), pl.col("n").sum())
    asked = asked.filter(pl.col("part") > 1).sort(
        "n", "task", "language", "cut", descending=[True, False, False, False]
    )
    several = parts["language"].n_unique() > 1
    charts: list[Chart] = []
    for task, language, cut in asked.head(_SLICED).select("task", "language", "cut").iter_rows():
        some = parts.filter(
            (pl.col("task") == task) & (pl.col("language") == language) & (pl.col("cut") == cut)
        )
        order = some["part"].unique().sort().to_list()
        charts.append(
            Chart(
                name=f"minimal-pairs-{task}-{language}-{cut}",
                title=(
                    f"{task_label(task)}{f' in {format_language(language)}' if several else ''}, "
                    f"by {CUTS[cut]}"
                ),
                spec=_plot_dots(some.with_columns(name=pl.col("part")), order),
            )
        )
    return charts


def _plot_dots(rows: pl.DataFrame, order: list[str]) -> dict[str, Any]:
    return plot_dots(rows, order, "original likelier, %", reference=50.0, stands_for="guessing", scale=100)


def _list_answers(rows: pl.DataFrame, gains: pl.DataFrame) -> Sequence[str]:
    """One line a model and language: the fault, or what can be told of several."""
    whole = rows.filter((pl.col("at") == "text") & (pl.col("cut") == ""))
    sentences: list[str] = []
    for (subject,), part in whole.partition_by("subject", as_dict=True, maintain_order=True).items():
        own = part.filter(pl.col("who") == "").sort("value", descending=True).to_dicts()
        firm = [row for row in own if not lacks_verdict(row)]
        if len(own) == 1:
            sentences.append(f"{subject}: {_describe_fault(own[0], part, gains)}.")
        elif not firm:
            shares = join_names([f"{_label(row)} {_share(row)}" for row in own])
            sentences.append(f"{subject}: {TOO_LITTLE} on any fault ({no_verdict_reason(own[0])}): {shares}.")
        else:
            sentences.append(f"{subject}: {_summarise_faults(own, firm, part, gains)}.")
    return sentences


def _summarise_faults(
    own: Sequence[Row], firm: Sequence[Row], part: pl.DataFrame, gains: pl.DataFrame
) -> str:
    """For how many faults a model is beyond the best control, and what can be told of both ends."""
    leads = [gain for row in own if (gain := _gain(row, _best(row, part), gains)) is not None]
    judged = [gain for gain in leads if not lacks_verdict(gain)]
    ahead = sum(gain["ci_low"] > 0 for gain in judged)
    behind = sum(gain["ci_high"] < 0 for gain in judged)
    level = [gain for gain in judged if gain["ci_low"] <= 0 <= gain["ci_high"]]
    said = [
        f"for {ahead} of {len(own)} faults the original is likelier more often than by the best control"
        + f", for {behind} less often" * bool(behind)
    ]
    said += describe_null_results(level, 100, 1, " points")
    if few := len(leads) - len(judged):
        said.append(f"{TOO_LITTLE} in {few}")
    if ahead and (lead := find_extreme(leads, ends=2)) is not None:
        said.append(
            describe_extreme(
                lead, _label, lambda row: f"{with_interval(row, 100, 1)} points",
                verb="is ahead by most", end="top of these differences",
            )
        )  # fmt: skip
    if (least := find_extreme(firm, largest=False, ends=2)) is not None:
        said.append(
            describe_extreme(
                least, _label, _share, verb="is recognised least often", end="bottom of the shares recognised"
            )
        )
    return "; ".join(said)


def _label(row: Row) -> str:
    return f"“{task_label(row['task'])}”"


def _describe_fault(row: Row, part: pl.DataFrame, gains: pl.DataFrame) -> str:
    control = _best(row, part)
    gain = _gain(row, control, gains)
    said = (
        f"the original of “{task_label(row['task'])}” has less surprisal than its mutant in "
        f"{_share(row)} of {plural(row['n'], 'pair')}"
    )
    if control is not None:
        said += f", against {_share(control)} by {CONTROLS[control['control']]}"
    if gain is not None:
        said += f" (difference {with_interval(gain, 100, 1)} points)"
    if gain is None:
        return f"{said}{caveat(row)}"
    return f"{said}{difference_caveat(gain, 100, 1, ' points')}"


def _share(row: Row) -> str:
    return f"{with_interval(row, 100, 1)} %"


def _matches_subject(row: Row) -> pl.Expr:
    return pl.all_horizontal(pl.col(name) == row[name] for name in _SUBJECT)


def _best(row: Row, part: pl.DataFrame) -> Row | None:
    """The best control of a fault."""
    held = part.filter(_matches_subject(row) & pl.col("who").is_in(list(CONTROLS)))
    return max(held.to_dicts(), key=lambda one: one["value"], default=None)


def _gain(row: Row, control: Row | None, gains: pl.DataFrame) -> Row | None:
    if control is None:
        return None
    held = gains.filter(_matches_subject(row) & (pl.col("compared_to") == control["control"]))
    return next(held.iter_rows(named=True), None)


def _build_table(rows: pl.DataFrame) -> Table:
    places = {task: place for place, task in enumerate(sort_by_family(rows["task"].unique().to_list()))}
    order = ["place", "model", "language", "cut", "part", "at", "who"]
    down = [name == "at" for name in order]
    listed = rows.with_columns(place=pl.col("task").replace_strict(places)).sort(order, descending=down)
    return Table(
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
                value=lambda row: "at the place alone" if row["at"] == "place" else "from the place on",
                help="Which part of the texts is held against each other.",
            ),
            Column(
                title="Who",
                value=lambda row: CONTROLS.get(row["who"], "model"),
                help="The model, or what tells the original without a model.",
            ),
            *estimate_columns("Original likelier, %", 1, 100, help="Ties count half."),
            *size_columns(n="Pairs, n"),
        ],
        rows=listed,
    )


def _list_notes(own: pl.DataFrame) -> Sequence[str]:
    notes = [
        "A fault that leaves code that does not parse is told by a parser, and by any model of syntax; the "
        "others need names, types or meaning.",
        "That a fault is less likely does not say that the model would find it: it is told here that one of "
        "two texts is faulty.",
    ]
    if (own["objective"] == "pll").any():
        notes.append(
            "Masked models: pseudo-log-likelihoods of the place and of 32 subwords on either side, word by "
            "word from left to right; not to be set beside a decoder's."
        )
    if (own["objective"] == "infill").any():
        notes.append(
            "Models that fill in: the place alone, left out whole and written from both sides, of which "
            "nothing but the place differs; not to be set beside what is read from left to right."
        )
    return notes


plot = MinimalPairs()
