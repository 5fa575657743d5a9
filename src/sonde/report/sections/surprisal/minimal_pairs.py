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
from sonde.report.text import family_order, lacks_verdict, task_description, task_label
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


def _draw(run: RunData, own: pl.DataFrame) -> Figure:
    """The faults that the run has pairs of."""
    rows = read_pairs(run)
    listed = rows.sort(
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
        ),
        notes=[*_NOTES, *(note for name, note in _OBJECTIVES.items() if name in own["objective"])],
    )


def _plot_faults(rows: pl.DataFrame) -> Chart:
    whole = rows.filter((pl.col("at") == "text") & (pl.col("cut") == "") & pl.col("who").is_in(["", "ngram"]))
    own, ngrams = (whole.filter(pl.col("who") == who) for who in ("", "ngram"))
    # The texts are the same for all models, and so is what n-grams say of them.
    once = ngrams.unique(["task", "language"], keep="first", maintain_order=True)
    several = whole["language"].n_unique() > 1
    name = pl.struct("task", "language").map_elements(
        lambda row: task_label(row["task"]) + (f" · {format_language(row['language'])}" if several else ""),
        pl.String,
    )
    shown = pl.concat([own, once.with_columns(shown=pl.lit(_NGRAMS))]).with_columns(name=name)
    best = shown.filter(pl.col("who") == "").group_by("name").agg(pl.col("value").mean())
    return Chart(
        name="minimal-pairs",
        title="Original likelier than its mutant, by fault",
        spec=_plot_dots(shown, best.sort("value", "name", descending=[True, False])["name"].to_list()),
        wide=True,
    )


def _plot_parts(rows: pl.DataFrame) -> Iterator[Chart]:
    """By operator and distance, where a fault has several of them, those with most pairs first."""
    key = ["task", "language", "cut"]
    own = (pl.col("who") == "") & (pl.col("at") == "text") & pl.col("cut").is_in(["operator", "distance"])
    parts = rows.filter(own).with_columns(name=pl.col("part"))
    sizes = parts.group_by(key).agg(pl.col("part").n_unique(), pl.col("n").sum()).filter(pl.col("part") > 1)
    ranked = sizes.sort("n", *key, descending=[True, False, False, False]).head(_SLICED)
    several = parts["language"].n_unique() > 1
    for task, language, cut in ranked.select(key).iter_rows():
        some = parts.filter(task=task, language=language, cut=cut)
        where = f" in {format_language(language)}" if several else ""
        yield Chart(
            name=f"minimal-pairs-{task}-{language}-{cut}",
            title=f"{task_label(task)}{where}, by {CUTS[cut]}",
            spec=_plot_dots(some, some["part"].unique().sort().to_list()),
        )


def _plot_dots(rows: pl.DataFrame, order: list[str]) -> dict[str, Any]:
    return plot_dots(rows, order, "original likelier, %", reference=50.0, stands_for="guessing", scale=100)


def _list_answers(rows: pl.DataFrame, gains: pl.DataFrame) -> Iterator[str]:
    """One line a model and language: the fault, or what can be told of several."""
    for subject, _, part in split_by_subject(rows.filter((pl.col("at") == "text") & (pl.col("cut") == ""))):
        own = part.filter(pl.col("who") == "").sort("value", descending=True).to_dicts()
        firm = [row for row in own if not lacks_verdict(row)]
        if len(own) == 1:
            said = _describe_fault(own[0], part, gains)
        elif firm:
            said = _summarise_faults(own, firm, part, gains)
        else:
            shares = join_names([f"{_label(row)} {_share(row)}" for row in own])
            said = f"{TOO_LITTLE} on any fault ({no_verdict_reason(own[0])}): {shares}"
        yield f"{subject}: {said}."


def _label(row: Row) -> str:
    return f"“{task_label(row['task'])}”"


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


def _describe_fault(row: Row, part: pl.DataFrame, gains: pl.DataFrame) -> str:
    control = _best(row, part)
    said = (
        f"the original of {_label(row)} has less surprisal than its mutant in "
        f"{_share(row)} of {plural(row['n'], 'pair')}"
    )
    if control is not None:
        said += f", against {_share(control)} by {CONTROLS[control['control']]}"
    if (gain := _gain(row, control, gains)) is None:
        return f"{said}{caveat(row)}"
    difference = f" (difference {with_interval(gain, 100, 1)} points)"
    return f"{said}{difference}{difference_caveat(gain, 100, 1, ' points')}"


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


_NOTES = (
    "A fault that leaves code that does not parse is told by a parser, and by any model of syntax; the "
    "others need names, types or meaning.",
    "That a fault is less likely does not say that the model would find it: it is told here that one of "
    "two texts is faulty.",
)


_OBJECTIVES = {
    "pll": (
        "Masked models: pseudo-log-likelihoods of the place and of 32 subwords on either side, word by "
        "word from left to right; not to be set beside a decoder's."
    ),
    "infill": (
        "Models that fill in: the place alone, left out whole and written from both sides, of which "
        "nothing but the place differs; not to be set beside what is read from left to right."
    ),
}
"""What stands below the pairs of models that see both sides."""


plot = SectionPlot(
    title="Minimal pairs: the original or the fault",
    lens=LENS,
    order=5,
    caption=(
        "Each function is read as it was written and with one fault (as BLiMP does, Warstadt et al. 2020). "
        "Dots are the share of the pairs whose original has less surprisal, in %, ties counting half, with "
        "95 % intervals clustered by repository or module. Summed is from the changed place on: what stands "
        "before is the same in both texts, and what follows counts. Half is what guessing gives. Beside it, "
        "the same of 4-grams of code tokens that were counted in functions of other clusters."
    ),
    select=lambda run: read_pairs(run).filter(
        (pl.col("who") == "") & (pl.col("at") == "text") & (pl.col("cut") == "")
    ),
    figure=_draw,
)
