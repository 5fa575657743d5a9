"""What each lens answers in one row: its number, the best of its controls, and what may be concluded.

The page's first screen and the terminal say the same rows. Whether a number may be called a finding is
decided by `sonde.results.verdict.why_no_verdict` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sonde.report._shared.numbers import interval, number, spelled, with_interval
from sonde.report._shared.run import RunData
from sonde.results.dimensions import dimensions_are
from sonde.results.findings import findings, metric_words
from sonde.results.verdict import why_no_verdict
from sonde.results.words import digits_of, plain_words

Row = Mapping[str, Any]

ABOVE, BELOW, LEVEL, ALONE, OPEN = "above", "below", "level", "alone", "open"

VERDICTS = {
    ABOVE: "better than its control",
    BELOW: "worse than its control",
    LEVEL: "cannot be told from its control",
    ALONE: "a number without a control",
    OPEN: "no verdict",
}
"""What a row of the first screen may conclude, as it is said in few words."""

_KEY = ("model", "language", "side", "task")


@dataclass(frozen=True, slots=True, kw_only=True)
class LensQuestion:
    """Which number speaks for a lens on the first screen, and how it is said.

    Attributes:
        subject: Who is measured, in the plural.
        measure: What the number is, such that "19 % of" or "1.4" may stand before it.
        metrics: The metric; of several the first that a task has.
        where: Which rows of it.
        controls: The controls that it is held against, by name, with their words.
        share: Whether it is a share, said in per cent.
        lower: Whether less is better.
    """

    subject: str
    measure: str
    metrics: Sequence[str]
    where: pl.Expr = field(default_factory=lambda: dimensions_are({}))
    controls: Mapping[str, str] = field(default_factory=dict[str, str])
    share: bool = True
    lower: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LensAnswer:
    """What a lens says of one model and language.

    Attributes:
        lens: Public name of the lens.
        model: The model as shown.
        language: The language as prose writes it; empty where there is none.
        row: The score that speaks for the lens.
        of: What the number is of where that is not all: the task in the middle of several.
        measure: What the number is.
        control: The best control that answers the same question; None where there is none.
        control_words: It in words.
        gain: The paired difference to it; None where it was not paired.
        kind: What may be concluded, a key of `VERDICTS`.
        verdict: The same as a sentence without its full stop.
        scale: By which numbers are multiplied to be shown.
        digits: Their decimals.
    """

    lens: str
    model: str
    language: str
    row: Row
    of: str
    measure: str
    control: Row | None
    control_words: str
    gain: Row | None
    kind: str
    verdict: str
    scale: float
    digits: int

    @property
    def unit(self) -> str:
        """What stands behind each number."""
        return " %" if self.scale == 100 else ""

    def figure(self, row: Row) -> str:
        """The number of a row as this answer shows it."""
        return f"{number(row['value'] * self.scale, self.digits)}{self.unit}"

    def bounds(self, row: Row) -> str:
        """Its interval."""
        return interval(row, self.scale, self.digits)

    def line(self) -> str:
        """The answer as the terminal prints it."""
        n, clusters = self.row["n"], self.clusters
        about = " ".join(filter(None, (self.model, f"on {self.language}" if self.language else "")))
        difference = f"; difference {self.difference}" if self.difference else ""
        return (
            f"{plain_words(self.lens)}, {about}: {self.verdict}{difference} "
            f"(n={n:,}, {clusters} effective clusters)"
        )

    @property
    def difference(self) -> str:
        """The paired difference with its interval; empty where there is none."""
        if self.gain is None:
            return ""
        points = " points" if self.scale == 100 else ""
        return f"{with_interval(self.gain, self.scale, self.digits)}{points}"

    @property
    def clusters(self) -> str:
        """The effective clusters behind the number; a dash where they are not known."""
        return number(self.row["effective_clusters"], 0)


def answers(run: RunData, questions: Mapping[str, LensQuestion]) -> list[LensAnswer]:
    """One answer a lens, model and language, in the order of the table of scores.

    Args:
        run: The run.
        questions: What speaks for each lens; any other lens is answered by `sonde.results.findings`.
    """
    found: list[LensAnswer] = []
    for lens in run.scored_lenses:
        question = questions.get(lens)
        found += (_declared(run, lens, question) if question else []) or _found(run, lens)
    return found


def _declared(run: RunData, lens: str, question: LensQuestion) -> list[LensAnswer]:
    wanted = {*question.metrics, "gain", *(f"{metric}_gain" for metric in question.metrics)}
    rows = run.scores(metrics=sorted(wanted), lens=lens, controls=True, where=question.where)
    order = {model.name: place for place, model in enumerate(run.models)}
    said: list[tuple[tuple[int, str], LensAnswer]] = []
    for (model, language, side), part in rows.partition_by(
        "model", "language", "side", as_dict=True, maintain_order=True
    ).items():
        compared = [
            one
            for task in part["task"].unique(maintain_order=True)
            if (one := _compared(part.filter(pl.col("task") == task).to_dicts(), question))
        ]
        if compared:
            answer = _answer(run, lens, question, compared)
            said.append(((order.get(model, len(order)), f"{language} {side}"), answer))
    return [answer for _, answer in sorted(said, key=lambda one: one[0])]


@dataclass(frozen=True, slots=True)
class _Compared:
    """A number of one task, its best control and their paired difference."""

    row: Row
    control: Row | None
    gain: Row | None
    kind: str
    why: str


def _compared(rows: Sequence[Row], question: LensQuestion) -> _Compared | None:
    held = {row["metric"] for row in rows if row["control"] is None}
    metric = next((name for name in question.metrics if name in held), None)
    if metric is None:
        return None
    row = next(one for one in rows if one["metric"] == metric and one["control"] is None)
    beside = [one for one in rows if one["metric"] == metric and one["control"] in question.controls]
    best = min if question.lower else max
    control = best(beside, key=lambda one: one["value"]) if beside else None
    gain = None if control is None else _gain(rows, metric, control["control"])
    kind, why = _concluded(row, control, gain, lower=question.lower)
    return _Compared(row, control, gain, kind, why)


def _gain(rows: Iterable[Row], metric: str, control: str) -> Row | None:
    """The paired difference to a control."""
    for row in rows:
        of = row["metric"] == f"{metric}_gain" or (
            row["metric"] == "gain" and row["of_metric"] in (None, "", metric)
        )
        if of and control in (row["control"], row["compared_to"]):
            return row
    return None


def _concluded(row: Row, control: Row | None, gain: Row | None, *, lower: bool) -> tuple[str, str]:
    """What may be concluded, and why nothing may."""
    if control is None:
        why = why_no_verdict(row)
        return (OPEN if why else ALONE), why
    if gain is not None:
        why = why_no_verdict(gain)
        ahead, behind = (not why and gain["ci_low"] > 0), (not why and gain["ci_high"] < 0)
    else:
        # Without a paired difference only intervals that lie apart tell two numbers from each other.
        why = why_no_verdict(row) or why_no_verdict(control)
        ahead, behind = (
            not why and row["ci_low"] > control["ci_high"],
            not why and row["ci_high"] < control["ci_low"],
        )
    if why:
        return OPEN, why
    if lower:
        ahead, behind = behind, ahead
    return (ABOVE if ahead else BELOW if behind else LEVEL), ""


def _answer(run: RunData, lens: str, question: LensQuestion, compared: Sequence[_Compared]) -> LensAnswer:
    middle = sorted(compared, key=_ahead)[(len(compared) - 1) // 2]
    row, control = middle.row, middle.control
    scale, digits = (100.0, 1) if question.share else (1.0, 2)
    words = "" if control is None else question.controls[control["control"]]
    several = len(compared) > 1
    task = plain_words(row["task"]).upper() if len(row["task"]) <= 3 else plain_words(row["task"])
    verdict = (
        f"{_tally(question, compared)} {_middle(question, middle, task, words, scale)}"
        if several
        else _sentence(question, middle, words, scale)
    )
    return LensAnswer(
        lens=lens,
        model=_shown(run, row),
        language=spelled(row["language"]),
        row=row,
        of=f"{task}, the middle one of {len(compared)} tasks" if several else "",
        measure=question.measure,
        control=control,
        control_words=words,
        gain=middle.gain,
        kind=middle.kind,
        verdict=verdict,
        scale=scale,
        digits=digits,
    )


def _ahead(one: _Compared) -> float:
    """How far a task is ahead of its best control."""
    if one.gain is not None:
        return one.gain["value"]
    return one.row["value"] - (0.0 if one.control is None else one.control["value"])


def _tally(question: LensQuestion, compared: Sequence[_Compared]) -> str:
    """How many tasks end how, each by its own interval."""
    held = {kind: sum(one.kind == kind for one in compared) for kind in VERDICTS}
    parts = [f"beat the best control in {held[ABOVE]} of {len(compared)} tasks"]
    parts += [
        f"{words} {held[kind]}"
        for kind, words in (
            (BELOW, "lose in"),
            (LEVEL, "cannot be told from it in"),
            (ALONE, "have none in"),
            (OPEN, "allow no verdict in"),
        )
        if held[kind]
    ]
    return f"{question.subject} {', '.join(parts)}."


def _sentence(question: LensQuestion, one: _Compared, control: str, scale: float) -> str:
    values = [one.row["value"]] + ([] if one.control is None else [one.control["value"]])
    own, *other = _figures(values, scale)
    # A share is of something; bits stand before what they are counted by.
    of = " of " if question.share else " "
    if one.control is None:
        said = f"{question.subject}: {own}{of}{question.measure}"
        return f"{said}; no verdict: {one.why}" if one.why else f"{said}, and no control to hold it against"
    against = f"{own} against {other[0]}{of}{question.measure}"
    if one.why:
        return f"No verdict on {question.subject.lower()} against {control} ({one.why}): {against}"
    verb = {ABOVE: "beat", BELOW: "lose to", LEVEL: "cannot be told from"}[one.kind]
    return f"{question.subject} {verb} {control}: {against}"


def _middle(question: LensQuestion, one: _Compared, task: str, control: str, scale: float) -> str:
    """The task in the middle of several, in a few words."""
    values = [one.row["value"]] + ([] if one.control is None else [one.control["value"]])
    own, *other = _figures(values, scale)
    against = f" against {other[0]} by {control}" if other else ""
    why = f" (no verdict: {one.why})" if one.why else ""
    return f"Middle task, {task}: {own}{' of ' if question.share else ' '}{question.measure}{against}{why}"


def _figures(values: Sequence[float], scale: float) -> list[str]:
    """Numbers for a sentence: no decimals of per cent where they differ without."""
    if scale != 100:
        return [number(value, 2) for value in values]
    digits = 0 if len({round(scale * value) for value in values}) == len(values) else 1
    return [f"{number(scale * value, digits)} %" for value in values]


def _found(run: RunData, lens: str) -> list[LensAnswer]:
    """Of a lens that declares nothing, the number that speaks for it among its scores."""
    rows = run.every_score.filter(pl.col("lens") == lens)
    said: list[LensAnswer] = []
    for finding in findings(rows):
        row = finding.row
        control = max(finding.controls, key=lambda one: one["value"], default=None)
        # Whether more or less of it is better is not known: the row says where it lies, and judges nothing.
        kind, why = _concluded(row, control, None, lower=False)
        words = "" if control is None else plain_words(control["control"])
        where = {ABOVE: "above", BELOW: "below", LEVEL: "not told from"}.get(kind, "")
        measure = metric_words(row)
        said.append(
            LensAnswer(
                lens=lens,
                model=_shown(run, row),
                language=spelled(plain_words(row["language"])),
                row=row,
                of=f"the highest of {finding.among}" if finding.lowest is not None else "",
                measure=measure,
                control=control,
                control_words=words,
                gain=None,
                kind=OPEN if why else ALONE if control is None else LEVEL if kind == LEVEL else kind,
                verdict=f"{measure[:1].upper()}{measure[1:]}: "
                + (f"no verdict, {why}" if why else f"{where} {words}" if where else "no control beside it"),
                scale=1.0,
                digits=digits_of(row),
            )
        )
    return said


def _shown(run: RunData, row: Row) -> str:
    name = next((model.label for model in run.models if model.name == row["model"]), row["model"])
    side = f", {row['side']}" if row["side"] == "cross" else ""
    return f"{plain_words(name)}{side}"
