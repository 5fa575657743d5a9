"""What was not scored, or allows no verdict, and what to do about it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from sonde.report._shared.numbers import count, spelled
from sonde.report._shared.reasons import by_reason
from sonde.report._shared.run import RunData
from sonde.results.dimensions import REASON, dimension
from sonde.results.formats import counted
from sonde.results.scores import LEFT_OUT
from sonde.results.verdict import ENOUGH_CLUSTERS, ENOUGH_SEEDS, why_no_verdict
from sonde.results.words import plain_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """One thing that the page does not say: what, why, and what would change it (empty for nothing)."""

    what: str
    why: str
    remedy: str


def missing(run: RunData) -> list[Missing]:
    """All that was asked for and not scored, then the numbers that allow no verdict, by reason."""
    return [*_refused(run), *_left_out_methods(run), *_left_out_code(run), *_without_verdict(run)]


def _refused(run: RunData) -> Iterator[Missing]:
    """Models that a lens does not read, and tasks without a data set."""
    for refused in run.summary.get("refused") or ():
        why = str(refused.get("reason") or "")
        reason, _, remedy = why.rpartition("; ")
        if refused.get("model"):
            what = f"{plain_words(refused.get('lens'))} of {refused['model']}"
        else:
            what = f"{plain_words(refused.get('task'))} in {spelled(str(refused.get('language') or ''))}"
        yield Missing(what=what, why=reason or why, remedy=_sentence(remedy) if reason else "")


def _left_out_methods(run: RunData) -> Iterator[Missing]:
    """Baselines and tasks that a lens left out while it scored."""
    rows = run.every_row.filter(pl.col("metric") == LEFT_OUT)
    rows = rows.select("lens", "control", reason=dimension(REASON)).unique(maintain_order=True)
    for (lens,), part in rows.partition_by("lens", as_dict=True, maintain_order=True).items():
        for control, reasons in by_reason(part.select("control", "reason").iter_rows()).items():
            method = f", {plain_words(control)}" if control else ""
            for reason in reasons:
                yield Missing(what=f"{plain_words(lens)}{method}", why=reason, remedy="")


_REMEDIES = {
    "cap of its cluster": "Raise --per-cluster.",
    "training": "--include-seen scores it too, and then the number tells what was memorised.",
    "seen": "--include-seen scores it too, and then the number tells what was memorised.",
    "limit": "Raise --limit.",
    "older one": "Nothing: who has read the older one knows the newer one too.",
    "duplicate": "Nothing: a copy would count the same code twice.",
    "cut-off date": "Name another day (--cut-off), or read older and newer code of each repository.",
    "parse": "Repair the files, or leave them out.",
    "large": "Split the files, or leave them out.",
}
"""What helps, by a word of the reason why code was left out."""


def _left_out_code(run: RunData) -> Iterator[Missing]:
    """Code of a corpus that no lens read."""
    for entry in run.summary.get("corpus") or ():
        reasons = {**(entry.get("left_out") or {}), **(entry.get("skipped") or {})}
        for reason, number in reasons.items():
            if number:
                remedy = next((words for part, words in _REMEDIES.items() if part in str(reason)), "")
                corpus = f"{entry.get('name', '')}, {spelled(str(entry.get('language', '')))}"
                yield Missing(what=f"{count(number)} of {corpus}", why=str(reason), remedy=remedy)
    for model in run.models:
        if model.facts.get("seen") and model.facts.get("seen_excluded", True):
            yield Missing(
                what=f"{count(model.facts['seen'])} items with {model.label}",
                why="in the model's training data",
                remedy=_REMEDIES["seen"],
            )


def _without_verdict(run: RunData) -> Iterator[Missing]:
    """The numbers of each lens that allow no verdict, counted by what they lack."""
    lacks: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    columns = ["lens", "value", "ci_low", "ci_high", "ci_method", "n_clusters", "effective_clusters", "n_eff"]
    is_number = pl.col("control").is_null() & (pl.col("metric") != LEFT_OUT)
    own = run.every_score.filter(is_number).select(*columns, "seeds")
    for row in own.iter_rows(named=True):
        totals[row["lens"]] += 1
        if why := why_no_verdict(row):
            lacks[row["lens"]][_kind(why)] += 1
    for lens, kinds in lacks.items():
        for kind, number in kinds.most_common():
            why, remedy = _LACKS[kind]
            remedy = remedy.format(lens=lens)
            what = f"{count(number)} of the {counted(totals[lens], 'number')} of the lens {plain_words(lens)}"
            yield Missing(what=what, why=why, remedy=remedy)


_LACKS = {
    "cluster": (
        f"fewer than {ENOUGH_CLUSTERS} effective clusters",
        "Read more independent code: further repositories or packages (-c), not more of the same.",
    ),
    "seed": (
        f"fewer than {ENOUGH_SEEDS} seeds",
        f"Train from more seeds (--option {{lens}}.seeds={ENOUGH_SEEDS}).",
    ),
    "interval is known": (
        "no interval is known",
        "Nothing: such a number is a count or a setting and is not estimated.",
    ),
    "": (
        "too few examples for so wide an interval",
        "Read more items (--limit), from further repositories or packages.",
    ),
}
"""What a number without a verdict lacks and what helps, by a word of `why_no_verdict`."""


def _kind(why: str) -> str:
    return next(word for word in _LACKS if word in why)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}" if text else ""
