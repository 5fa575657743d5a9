"""What each lens answers in one row: its number, the best of its controls, and what may be concluded.

The page's first screen, the terminal and a notebook say the same rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from sonde.base.registry import Registry
from sonde.languages import spelled
from sonde.report.controls import (
    ABOVE,
    ALONE,
    BELOW,
    LEVEL,
    OPEN,
    SLIGHT,
    VERDICTS,
    WHERE,
    HeldAgainst,
    LensQuestion,
    Row,
    compared,
    concluded,
)
from sonde.report.run_tables import RunData
from sonde.report.section import Title
from sonde.report.text import label_of
from sonde.results.headlines import Finding, cues_by_key, findings, metric_words
from sonde.results.layers import LayerAccount, account_layers
from sonde.results.text_format import (
    NO_DIFFERENCE,
    TOO_LITTLE,
    counted,
    digits_of,
    in_brackets,
    in_figures,
    interval,
    number,
    plain_words,
    with_interval,
    would_be_found,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LensAnswer:
    """What a lens says of one model and language.

    Attributes:
        lens: Public name of the lens.
        model: The model as shown.
        language: The language as prose writes it; empty where there is none.
        row: The score that speaks for the lens.
        control: The best control that answers the same question; None where there is none.
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
    control: Row | None
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
        n, clusters = self.row["n"], counted(self.row["effective_clusters"], "effective cluster")
        about = " ".join(filter(None, (self.model, f"on {self.language}" if self.language else "")))
        difference = f"; difference {self.difference}" if self.difference else ""
        return f"{plain_words(self.lens)}, {about}: {self.verdict}{difference} (n={n:,}, {clusters})"

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
        questions: What speaks for each lens; any other lens is answered by `sonde.results.headlines`.
    """
    found: list[LensAnswer] = []
    for lens in run.scored_lenses:
        question = questions.get(lens)
        said: list[LensAnswer] = []
        while question and not said:
            said, question = _declared(run, lens, question), question.otherwise
        found += said or _found(run, lens)
    return found


def _declared(run: RunData, lens: str, question: LensQuestion) -> list[LensAnswer]:
    rows = run.scores(metrics=question.with_gains, lens=lens, controls=True, where=question.where)
    order = {model.name: place for place, model in enumerate(run.models)}
    said: list[tuple[tuple[int, str], LensAnswer]] = []
    for (model, language, side), part in rows.partition_by(
        "model", "language", "side", as_dict=True, maintain_order=True
    ).items():
        tasks = [
            one
            for task in part["task"].unique(maintain_order=True)
            if (one := compared(part.filter(pl.col("task") == task).to_dicts(), question))
        ]
        if tasks:
            answer = _answer(run, lens, question, tasks)
            said.append(((order.get(model, len(order)), f"{language} {side}"), answer))
    return [answer for _, answer in sorted(said, key=lambda one: one[0])]


def _answer(run: RunData, lens: str, question: LensQuestion, tasks: Sequence[HeldAgainst]) -> LensAnswer:
    middle = sorted(tasks, key=_ahead)[(len(tasks) - 1) // 2]
    row, control = middle.row, middle.control
    scale, digits = (100.0, 1) if question.share else (1.0, 2)
    words = "" if control is None else question.controls[control["control"]]
    several = len(tasks) > 1
    task = label_of(row["task"])
    verdict = (
        f"{_tally(question, tasks, scale)} {_middle(question, middle, task, words, scale)}"
        if several
        else sentence_of(question, middle, words, scale)
    )
    return LensAnswer(
        lens=lens,
        model=_shown(run, row),
        language=spelled(row["language"]),
        row=row,
        control=control,
        gain=middle.gain,
        kind=middle.kind,
        verdict=verdict,
        scale=scale,
        digits=digits,
    )


def _ahead(one: HeldAgainst) -> float:
    """How far a task is ahead of its best control."""
    if one.gain is not None:
        return one.gain["value"]
    return one.row["value"] - (0.0 if one.control is None else one.control["value"])


def _tally(question: LensQuestion, tasks: Sequence[HeldAgainst], scale: float) -> str:
    """How many tasks end how, each by its own interval."""
    held = {kind: sum(one.kind == kind for one in tasks) for kind in VERDICTS}
    parts = [f"beat the best control in {held[ABOVE]} of {len(tasks)} tasks"]
    parts += [
        f"{words} {held[kind]}"
        for kind, words in (
            (BELOW, "lose in"),
            (SLIGHT, "differ from it by less than matters in"),
            (LEVEL, f"{NO_DIFFERENCE} in"),
            (ALONE, "have none in"),
            (OPEN, f"{TOO_LITTLE} in"),
        )
        if held[kind]
    ]
    level = [one.detectable for one in tasks if one.kind == LEVEL]
    most = max((size for size in level if math.isfinite(size)), default=math.nan)
    told = would_be_found(most, scale, 1 if scale == 100 else 2, " points" if scale == 100 else "")
    each = " in each" if told and len(level) > 1 else ""
    return f"{question.subject} {', '.join(parts)}{in_brackets(f'{told}{each}')}."


def sentence_of(question: LensQuestion, one: HeldAgainst, control: str, scale: float) -> str:
    """Say in a sentence what a number is beside its best control."""
    own, *other = _figures(one, scale)
    digits = 1 if question.share else 2
    subject = question.subject_of(one.row)
    # A share is of something; bits stand before what they are counted by.
    of = " of " if question.share else " "
    if one.control is None:
        said = f"{subject}: {own}{of}{question.measure}"
        return f"{said}; {TOO_LITTLE}: {one.why}" if one.why else f"{said}, and no control to hold it against"
    against = f"{own} against {other[0]}{of}{question.measure}"
    if one.why:
        return f"Too little data on {subject.lower()} against {control} ({one.why}): {against}"
    if one.kind == LEVEL:
        told = would_be_found(one.detectable, scale, digits, " points" if question.share else "")
        return f"No difference found between {subject.lower()} and {control}{in_brackets(told)}: {against}"
    verb = {ABOVE: "beat", BELOW: "lose to", SLIGHT: "differ by less than matters from"}[one.kind]
    return f"{subject} {verb} {control}: {against}"


def _middle(question: LensQuestion, one: HeldAgainst, task: str, control: str, scale: float) -> str:
    """The task in the middle of several, in a few words."""
    own, *other = _figures(one, scale)
    against = f" against {other[0]} by {control}" if other else ""
    why = in_brackets(f"{TOO_LITTLE}: {one.why}" if one.why else "")
    return f"Middle task, {task}: {own}{' of ' if question.share else ' '}{question.measure}{against}{why}"


def _figures(one: HeldAgainst, scale: float) -> list[str]:
    """A number and its control for a sentence: with their intervals where no paired difference has one."""
    rows = [one.row, *([] if one.control is None else [one.control])]
    percent = " %" if scale == 100 else ""
    if one.gain is None:
        return [f"{with_interval(row, scale, 1 if percent else 2)}{percent}" for row in rows]
    # No decimals of per cent where they differ without.
    values = [scale * row["value"] for row in rows]
    digits = 2 if not percent else 0 if len({round(value) for value in values}) == len(values) else 1
    return [f"{number(value, digits)}{percent}" for value in values]


def _found(run: RunData, lens: str) -> list[LensAnswer]:
    """Of a lens that declares nothing, the number that speaks for it among its scores."""
    rows = run.every_score.filter(pl.col("lens") == lens)
    said: list[LensAnswer] = []
    for finding in findings(rows):
        row, one = finding.row, held_against(finding)
        said.append(
            LensAnswer(
                lens=lens,
                model=_shown(run, row),
                language=spelled(plain_words(row["language"])),
                row=row,
                control=one.control,
                gain=None,
                kind=one.kind,
                verdict=sentence_of_finding(finding, one),
                scale=1.0,
                digits=digits_of(row),
            )
        )
    return said


def held_against(finding: Finding) -> HeldAgainst:
    """Hold a finding against the highest of its controls, by the interval that holds for the one chosen."""
    control = max(finding.controls, key=lambda one: one["value"], default=None)
    # Whether more or less of it is better is not known: it is said where it lies, never whether that is good.
    held = concluded(finding.judged, control, None, lower=False)
    return HeldAgainst(finding.judged, control, None, *held)


def sentence_of_finding(finding: Finding, one: HeldAgainst) -> str:
    """Say what may be concluded of a number of which no lens declares whether more is better.

    Args:
        finding: The number that speaks for the lens.
        one: The same, as `held_against` gives it.
    """
    measure = metric_words(finding.row)
    control = "" if one.control is None else f" {plain_words(one.control['control'])}"
    figures = in_figures(finding.row)
    if one.control is not None:
        figures += f" against {in_figures(one.control)}"
    if one.why:
        said = f"{TOO_LITTLE} ({one.why}): {figures}{' by' * bool(control)}{control}"
    elif one.kind == LEVEL:
        told = would_be_found(one.detectable, digits=digits_of(one.row))
        said = f"{WHERE[LEVEL]}{control}{in_brackets(told)}: {figures}"
    else:
        said = f"{WHERE[one.kind]}{control}: {figures}" if control else f"{figures}; no control beside it"
    return f"{measure[:1].upper()}{measure[1:]}: {said}"


def _shown(run: RunData, row: Row) -> str:
    name = next((model.label for model in run.models if model.name == row["model"]), row["model"])
    side = f", {row['side']}" if row["side"] == "cross" else ""
    return f"{plain_words(name)}{side}"


TITLES: Registry[Title] = Registry(
    "sonde.report.sections", "folder of sections", "title", group="sonde.report"
)


def titles(run: RunData) -> dict[str, Title]:
    """What the lenses that have scores declare, by lens; those handed in from outside declare nothing."""
    known = {header.name for header in TITLES.headers()}
    return {lens: TITLES.load(lens) for lens in run.scored_lenses if lens in known}


def first_screen(run: RunData) -> list[LensAnswer]:
    """What each lens of a run answers in one row, the same on the page and in the terminal."""
    declared = titles(run).items()
    return answers(run, {lens: title.question for lens, title in declared if title.question})


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAnswer:
    """What a lens says of one task, model, language, corpus and side.

    Attributes:
        row: The score that speaks for the task.
        control: The best control that answers the same question; None where there is none.
        gain: The paired difference to it; None where it was not paired.
        kind: What may be concluded, a key of `sonde.report.controls.VERDICTS`.
        why: Why nothing may be concluded; empty where something may.
        verdict: The conclusion in a sentence without its full stop.
        among: Of how many values of a dimension or places in the model the number is the highest.
        tied: How many of these cannot be told from the highest, itself among them.
        layers: Where in the model the task is encoded; None where the number is of no layer.
        cues: What local cues reach and the paired difference to it, of a number about tokens; else None. They
            take no part in the verdict.
    """

    row: Row
    control: Row | None
    gain: Row | None
    kind: str
    why: str
    verdict: str
    among: int = 1
    tied: int = 1
    layers: LayerAccount | None = None
    cues: tuple[Row, Row] | None = None


_SUBJECT = ("model", "language", "corpus_hash", "task")


def task_answers(run: RunData) -> list[TaskAnswer]:
    """Every task's answer, lens by lens; where a lens declares nothing of a task, by `findings`."""
    declared = titles(run)
    said: list[TaskAnswer] = []
    for lens in run.scored_lenses:
        question = declared[lens].question if lens in declared else None
        rows = run.every_score.filter(pl.col("lens") == lens)
        for part in rows.partition_by(_SUBJECT, maintain_order=True):
            said += _declared_tasks(part, question) or [_headline_task(finding) for finding in findings(part)]
    return said


def _with_cues(answer: TaskAnswer, part: pl.DataFrame) -> TaskAnswer:
    """Add what local cues reach on the same examples."""
    same = part.filter(pl.col("pooling") == answer.row["pooling"])
    return dataclasses.replace(answer, cues=next(iter(cues_by_key(same).values()), None))


def _declared_tasks(part: pl.DataFrame, question: LensQuestion | None) -> list[TaskAnswer]:
    said: list[TaskAnswer] = []
    while question and not said:
        sides = part.filter(question.where).partition_by("side", maintain_order=True)
        held = [compared(rows.to_dicts(), question) for rows in sides]
        said = [_with_cues(_task_answer(one, _declared_sentence(question, one)), part) for one in held if one]
        if question.of_layer:
            layers = next(iter(account_layers(part)), None)
            said = [dataclasses.replace(one, layers=layers) for one in said]
        question = question.otherwise
    return said


def _declared_sentence(question: LensQuestion, one: HeldAgainst) -> str:
    control = "" if one.control is None else question.controls[one.control["control"]]
    return sentence_of(question, one, control, 100.0 if question.share else 1.0)


def _headline_task(finding: Finding) -> TaskAnswer:
    one = held_against(finding)
    answer = _task_answer(one, sentence_of_finding(finding, one))
    return dataclasses.replace(answer, row=finding.row, among=finding.among, tied=finding.tied)


def _task_answer(one: HeldAgainst, verdict: str) -> TaskAnswer:
    return TaskAnswer(
        row=one.row,
        control=one.control,
        gain=one.gain,
        kind=one.kind,
        why=one.why,
        verdict=verdict,
    )
