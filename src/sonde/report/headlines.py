"""Headline rows of the lenses and of their tasks: the number, its best control, and the conclusion.

The report's first screen, the terminal and a notebook show the same rows. The first screen also summarises
all tasks of a lens in one row, by the same declarations and the same rule that apply to each task.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from sonde.base.registry import Registry
from sonde.languages import format_language
from sonde.report.controls import (
    ABOVE,
    ALONE,
    BELOW,
    LEVEL,
    OPEN,
    SLIGHT,
    VERDICTS,
    WHERE,
    ControlComparison,
    LensQuestion,
    Row,
    compare_with_controls,
    decide_verdict,
)
from sonde.report.run_tables import RunData
from sonde.report.section import LensTitle
from sonde.report.text import task_label
from sonde.results.headlines import Headline, find_headlines, format_metric, index_cues
from sonde.results.layers import LayerSummary, summarise_layers
from sonde.results.text_format import (
    NO_DIFFERENCE,
    TOO_LITTLE,
    auto_digits,
    bracket,
    describe_detectable,
    format_estimate,
    format_name,
    interval,
    number,
    plural,
    with_interval,
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
        n, clusters = self.row["n"], plural(self.row["effective_clusters"], "effective cluster")
        about = " ".join(filter(None, (self.model, f"on {self.language}" if self.language else "")))
        difference = f"; difference {self.difference}" if self.difference else ""
        return f"{format_name(self.lens)}, {about}: {self.verdict}{difference} (n={n:,}, {clusters})"

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


def answer_questions(run: RunData, questions: Mapping[str, LensQuestion]) -> list[LensAnswer]:
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
            said, question = _answer_question(run, lens, question), question.otherwise
        found += said or _answer_from_scores(run, lens)
    return found


def _answer_question(run: RunData, lens: str, question: LensQuestion) -> list[LensAnswer]:
    rows = run.scores(metrics=question.with_gains, lens=lens, controls=True, where=question.where)
    order = {model.name: place for place, model in enumerate(run.models)}
    said: list[tuple[tuple[int, str], LensAnswer]] = []
    for (model, language, side), part in rows.partition_by(
        "model", "language", "side", as_dict=True, maintain_order=True
    ).items():
        tasks = [
            one
            for task in part["task"].unique(maintain_order=True)
            if (one := compare_with_controls(part.filter(pl.col("task") == task).to_dicts(), question))
        ]
        if tasks:
            answer = _build_answer(run, lens, question, tasks)
            said.append(((order.get(model, len(order)), f"{language} {side}"), answer))
    return [answer for _, answer in sorted(said, key=lambda one: one[0])]


def _build_answer(
    run: RunData, lens: str, question: LensQuestion, tasks: Sequence[ControlComparison]
) -> LensAnswer:
    middle = sorted(tasks, key=_compute_lead)[(len(tasks) - 1) // 2]
    row, control = middle.row, middle.control
    scale, digits = (100.0, 1) if question.share else (1.0, 2)
    words = "" if control is None else question.controls[control["control"]]
    several = len(tasks) > 1
    task = task_label(row["task"])
    verdict = (
        f"{_format_tally(question, tasks, scale)} {_describe_median(question, middle, task, words, scale)}"
        if several
        else describe_comparison(question, middle, words, scale)
    )
    return LensAnswer(
        lens=lens,
        model=_format_model(run, row),
        language=format_language(row["language"]),
        row=row,
        control=control,
        gain=middle.gain,
        kind=middle.kind,
        verdict=verdict,
        scale=scale,
        digits=digits,
    )


def _compute_lead(one: ControlComparison) -> float:
    """How far a task is ahead of its best control."""
    if one.gain is not None:
        return one.gain["value"]
    return one.row["value"] - (0.0 if one.control is None else one.control["value"])


def _format_tally(question: LensQuestion, tasks: Sequence[ControlComparison], scale: float) -> str:
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
    told = describe_detectable(most, scale, 1 if scale == 100 else 2, " points" if scale == 100 else "")
    each = " in each" if told and len(level) > 1 else ""
    return f"{question.subject} {', '.join(parts)}{bracket(f'{told}{each}')}."


def describe_comparison(question: LensQuestion, one: ControlComparison, control: str, scale: float) -> str:
    """Say in a sentence what a number is beside its best control."""
    own, *other = _format_figures(one, scale)
    digits = 1 if question.share else 2
    subject = question.get_subject(one.row)
    # A share is of something; bits stand before what they are counted by.
    of = " of " if question.share else " "
    if one.control is None:
        said = f"{subject}: {own}{of}{question.measure}"
        return f"{said}; {TOO_LITTLE}: {one.why}" if one.why else f"{said}, and no control to hold it against"
    against = f"{own} against {other[0]}{of}{question.measure}"
    if one.why:
        return f"Too little data on {subject.lower()} against {control} ({one.why}): {against}"
    if one.kind == LEVEL:
        told = describe_detectable(one.detectable, scale, digits, " points" if question.share else "")
        return f"No difference found between {subject.lower()} and {control}{bracket(told)}: {against}"
    verb = {ABOVE: "beat", BELOW: "lose to", SLIGHT: "differ by less than matters from"}[one.kind]
    return f"{subject} {verb} {control}: {against}"


def _describe_median(
    question: LensQuestion, one: ControlComparison, task: str, control: str, scale: float
) -> str:
    """The task in the middle of several, in a few words."""
    own, *other = _format_figures(one, scale)
    against = f" against {other[0]} by {control}" if other else ""
    why = bracket(f"{TOO_LITTLE}: {one.why}" if one.why else "")
    return f"Middle task, {task}: {own}{' of ' if question.share else ' '}{question.measure}{against}{why}"


def _format_figures(one: ControlComparison, scale: float) -> list[str]:
    """A number and its control for a sentence: with their intervals where no paired difference has one."""
    rows = [one.row, *([] if one.control is None else [one.control])]
    percent = " %" if scale == 100 else ""
    if one.gain is None:
        return [f"{with_interval(row, scale, 1 if percent else 2)}{percent}" for row in rows]
    # No decimals of per cent where they differ without.
    values = [scale * row["value"] for row in rows]
    digits = 2 if not percent else 0 if len({round(value) for value in values}) == len(values) else 1
    return [f"{number(value, digits)}{percent}" for value in values]


def _answer_from_scores(run: RunData, lens: str) -> list[LensAnswer]:
    """Of a lens that declares nothing, the number that speaks for it among its scores."""
    rows = run.every_score.filter(pl.col("lens") == lens)
    said: list[LensAnswer] = []
    for finding in find_headlines(rows):
        row, one = finding.row, compare_with_best_control(finding)
        said.append(
            LensAnswer(
                lens=lens,
                model=_format_model(run, row),
                language=format_language(format_name(row["language"])),
                row=row,
                control=one.control,
                gain=None,
                kind=one.kind,
                verdict=describe_undeclared_headline(finding, one),
                scale=1.0,
                digits=auto_digits(row),
            )
        )
    return said


def compare_with_best_control(finding: Headline) -> ControlComparison:
    """Hold a finding against the highest of its controls, by the interval that holds for the one chosen."""
    control = max(finding.controls, key=lambda one: one["value"], default=None)
    # Whether more or less of it is better is not known: it is said where it lies, never whether that is good.
    held = decide_verdict(finding.adjusted_row, control, None, lower=False)
    return ControlComparison(finding.adjusted_row, control, None, *held)


def describe_undeclared_headline(finding: Headline, one: ControlComparison) -> str:
    """Say what may be concluded of a number of which no lens declares whether more is better.

    Args:
        finding: The number that speaks for the lens.
        one: The same, as `compare_with_best_control` gives it.
    """
    measure = format_metric(finding.row)
    control = "" if one.control is None else f" {format_name(one.control['control'])}"
    figures = format_estimate(finding.row)
    if one.control is not None:
        figures += f" against {format_estimate(one.control)}"
    if one.why:
        said = f"{TOO_LITTLE} ({one.why}): {figures}{' by' * bool(control)}{control}"
    elif one.kind == LEVEL:
        told = describe_detectable(one.detectable, digits=auto_digits(one.row))
        said = f"{WHERE[LEVEL]}{control}{bracket(told)}: {figures}"
    else:
        said = f"{WHERE[one.kind]}{control}: {figures}" if control else f"{figures}; no control beside it"
    return f"{measure[:1].upper()}{measure[1:]}: {said}"


def _format_model(run: RunData, row: Row) -> str:
    name = next((model.label for model in run.models if model.name == row["model"]), row["model"])
    side = f", {row['side']}" if row["side"] == "cross" else ""
    return f"{format_name(name)}{side}"


TITLES: Registry[LensTitle] = Registry(
    "sonde.report.sections", "folder of sections", "title", group="sonde.report"
)


def load_titles(run: RunData) -> dict[str, LensTitle]:
    """What the lenses that have scores declare, by lens; those handed in from outside declare nothing."""
    known = {header.name for header in TITLES.headers()}
    return {lens: TITLES.load(lens) for lens in run.scored_lenses if lens in known}


def answer_by_lens(run: RunData) -> list[LensAnswer]:
    """What each lens of a run answers in one row, the same on the page and in the terminal."""
    declared = load_titles(run).items()
    return answer_questions(run, {lens: title.question for lens, title in declared if title.question})


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
    layers: LayerSummary | None = None
    cues: tuple[Row, Row] | None = None


_SUBJECT = ("model", "language", "corpus_hash", "task")


def answer_by_task(run: RunData) -> list[TaskAnswer]:
    """Every task's answer, lens by lens; where a lens declares nothing of a task, by `find_headlines`."""
    declared = load_titles(run)
    said: list[TaskAnswer] = []
    for lens in run.scored_lenses:
        question = declared[lens].question if lens in declared else None
        rows = run.every_score.filter(pl.col("lens") == lens)
        for part in rows.partition_by(_SUBJECT, maintain_order=True):
            said += _answer_tasks(part, question) or [_to_answer(finding) for finding in find_headlines(part)]
    return said


def _add_cues(answer: TaskAnswer, part: pl.DataFrame) -> TaskAnswer:
    """Add what local cues reach on the same examples."""
    same = part.filter(pl.col("pooling") == answer.row["pooling"])
    return dataclasses.replace(answer, cues=next(iter(index_cues(same).values()), None))


def _answer_tasks(part: pl.DataFrame, question: LensQuestion | None) -> list[TaskAnswer]:
    said: list[TaskAnswer] = []
    while question and not said:
        sides = part.filter(question.where).partition_by("side", maintain_order=True)
        held = [compare_with_controls(rows.to_dicts(), question) for rows in sides]
        said = [_add_cues(_to_task_answer(one, _describe_answer(question, one)), part) for one in held if one]
        if question.of_layer:
            layers = next(iter(summarise_layers(part)), None)
            said = [dataclasses.replace(one, layers=layers) for one in said]
        question = question.otherwise
    return said


def _describe_answer(question: LensQuestion, one: ControlComparison) -> str:
    control = "" if one.control is None else question.controls[one.control["control"]]
    return describe_comparison(question, one, control, 100.0 if question.share else 1.0)


def _to_answer(finding: Headline) -> TaskAnswer:
    one = compare_with_best_control(finding)
    answer = _to_task_answer(one, describe_undeclared_headline(finding, one))
    return dataclasses.replace(answer, row=finding.row, among=finding.among, tied=finding.tied)


def _to_task_answer(one: ControlComparison, verdict: str) -> TaskAnswer:
    return TaskAnswer(
        row=one.row,
        control=one.control,
        gain=one.gain,
        kind=one.kind,
        why=one.why,
        verdict=verdict,
    )
