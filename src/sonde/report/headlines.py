"""Answers of lenses: the headline of each lens and task, its best control, and the conclusion in a sentence.

The report's first screen, the terminal, a notebook and the card show the same answers (`LensAnswer`). The
first screen summarises all tasks of a lens in one answer, by the same declarations and the same rule that
apply to each task.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from sonde.base.formatting import bracket, format_name, number, plural, shorten_names
from sonde.base.registry import Registry
from sonde.languages import format_language
from sonde.report.run_tables import RunData
from sonde.report.section import LensTitle
from sonde.report.text import describe_task_plainly, task_label
from sonde.results.extremes import describe_ends
from sonde.results.headlines import (
    ABOVE,
    BELOW,
    LEVEL,
    OPEN,
    POSITIONS,
    SLIGHT,
    UNCONTROLLED,
    VERDICTS,
    ControlComparison,
    Headline,
    HeadlineMetric,
    Row,
    compare_with_controls,
    describe_dimensions,
    describe_task,
    find_headlines,
    format_control,
    format_metric,
    select_finite,
)
from sonde.results.layers import LayerSummary, summarise_layers
from sonde.results.local_cues import describe_cues, index_cues
from sonde.results.metrics import read_metrics
from sonde.results.schema import REASON, dimension_value
from sonde.results.scores import LEFT_OUT
from sonde.results.text_format import (
    NO_DIFFERENCE,
    TOO_LITTLE,
    Unit,
    auto_digits,
    format_estimate,
    mark_reason,
    mark_reasons,
    verdict_mark,
)
from sonde.stats.verdict import format_effective_clusters, no_verdict_reason


class _AnsweringLens(Protocol):
    """Members of a lens that a report reads; its own type is in a package that imports models."""

    @property
    def headline(self) -> HeadlineMetric | None: ...

    def details(self, scores: pl.DataFrame) -> Iterator[str]: ...


# The report knows lenses by name alone: their modules know models, without which finished scores are read.
_LENSES: Registry[_AnsweringLens] = Registry("sonde.lenses", "lens", "lens")


TITLES: Registry[LensTitle] = Registry(
    "sonde.report.sections", "folder of sections", "title", group="sonde.report"
)


def load_title(lens: str) -> LensTitle:
    """Load what the folder of sections of a lens declares; of a lens without one its name alone."""
    if lens in TITLES.names():
        return TITLES.load(lens)
    return LensTitle(name=format_name(lens).capitalize())


def load_titles(run: RunData) -> dict[str, LensTitle]:
    """Load what the folders of sections declare, by lens, of the lenses that have scores."""
    names = TITLES.names()
    return {lens: TITLES.load(lens) for lens in run.scored_lenses if lens in names}


def load_headline(lens: str) -> HeadlineMetric | None:
    """Load the headline that a lens declares; None for none, and for a lens unknown to this process."""
    return _LENSES.load(lens).headline if lens in _LENSES.names() else None


def load_units(lens: str) -> Mapping[str, str]:
    """Load the units of the metrics of a lens; empty for a lens unknown to this process."""
    metrics = read_metrics(_LENSES, lens) if lens in _LENSES.names() else {}
    return {name: metric.unit for name, metric in metrics.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class LensAnswer(ControlComparison):
    """Answer of a lens about one model and language: to one task, or to all tasks together.

    Attributes:
        lens: Public name of the lens.
        model: The model as shown.
        language: The language as prose writes it; empty where there is none.
        verdict: The conclusion in a sentence without its full stop.
        unit: Unit of the numbers.
        task: The task in plain words if the answer of a lens is to a single one; empty if the verdict names
            tasks.
        headline: The declared headline; None for a lens that declares none of these scores.
        n_values: Number of values of a dimension, or positions in the model, of which it is the highest.
        n_tied: Number of these that cannot be told from the highest, with itself.
        layers: Where in the model the task is encoded; None if the number is of no layer.
        cues: What local cues reach and the paired difference to it, of a number about tokens; else None. They
            take no part in the verdict.
    """

    lens: str
    model: str
    language: str
    verdict: str
    unit: Unit
    task: str = ""
    headline: HeadlineMetric | None = None
    n_values: int = 1
    n_tied: int = 1
    layers: LayerSummary | None = None
    cues: tuple[Row, Row] | None = None

    @property
    def difference(self) -> str:
        """Format the paired difference with its interval; empty without one."""
        return "" if self.gain is None else self.unit.change(self.gain)

    @property
    def marked_verdict(self) -> str:
        """Return the conclusion with a mark in place of the reason why there is none."""
        return mark_reasons(self.verdict)

    @property
    def clusters(self) -> str:
        """Format the effective clusters that the verdict rests on; a dash if they are not known."""
        return format_effective_clusters((self.gain or self.row)["effective_clusters"])

    @property
    def size(self) -> str:
        """Format ``n`` with what it counts."""
        return load_title(self.lens).format_size(self.row)

    def line(self) -> str:
        """Format the answer for the terminal."""
        subject = " ".join(filter(None, (self.model, f"on {self.language}" if self.language else "")))
        difference = f"; difference {self.difference}" if self.difference else ""
        return f"{format_name(self.lens)}, {subject}: {self.marked_verdict}{difference} {self._format_size()}"

    def task_line(self, *, with_verdict: bool) -> str:
        """Format the answer to a task for the terminal: layer, controls, cues and layers; empty without any.

        Args:
            with_verdict: Whether to begin with the verdict. Without it, the line of the lens has verdict and
                difference.
        """
        row = self.row
        parts = [f"{self.marked_verdict} {self._format_size()}"] if with_verdict else []
        if self.layers is not None:
            parts.append(f"at layer {row['layer']}, chosen on validation")
        controls = self.headline.controls if self.headline else {}
        for name, gain in self.gains.items():
            if with_verdict or gain != self.gain:
                parts.append(f"{self.unit.change(gain, sign='+')} over {controls[name]}{verdict_mark(gain)}")
        if self.cues is not None:
            parts.append(describe_cues(row, *self.cues))
        if self.layers is not None:
            parts.append(self.layers.describe())
        return f"{describe_task(row)}: {'; '.join(parts)}" if parts else ""

    def _format_size(self) -> str:
        return f"(n = {self.size}, {plural(self.clusters, 'effective cluster')})"


_SUBJECT = ("model", "language", "corpus_hash", "task")


def answer_by_task(run: RunData) -> list[LensAnswer]:
    """Answer every task, lens by lens; of a task without the declared headline by `find_headlines`."""
    return [
        answer
        for lens in run.scored_lenses
        for answer in _answer_tasks(run.every_score.filter(pl.col("lens") == lens), run.labels)
    ]


def _answer_tasks(
    scores: pl.DataFrame, labels: Mapping[str, str], *, listed: bool = False
) -> list[LensAnswer]:
    """Answer the tasks of one lens, with the rows that the terminal lists besides the headline if asked."""
    answers: list[LensAnswer] = []
    for part in scores.partition_by(_SUBJECT, maintain_order=True):
        headline = load_headline(part["lens"][0])
        answers += _answer_declared(part, headline, labels, listed=listed) or [
            _answer_undeclared(undeclared, labels) for undeclared in find_headlines(part)
        ]
    return answers


def _answer_declared(
    scores: pl.DataFrame, headline: HeadlineMetric | None, labels: Mapping[str, str], *, listed: bool
) -> list[LensAnswer]:
    """Answer a task by the declared headline, or by the one that takes its place."""
    while headline is not None:
        keys = ["side"]
        rows = scores.filter(headline.where)
        if listed and headline.listed is not None:
            rows = scores.filter(headline.where | headline.listed)
            keys += ["split", "dimensions"]
        comparisons = [
            compare_with_controls(part.to_dicts(), headline)
            for part in rows.partition_by(keys, maintain_order=True)
        ]
        if answers := [
            _build_answer(comparison, headline, labels, scores) for comparison in comparisons if comparison
        ]:
            return answers
        headline = headline.otherwise
    return []


def _build_answer(
    comparison: ControlComparison, headline: HeadlineMetric, labels: Mapping[str, str], scores: pl.DataFrame
) -> LensAnswer:
    row = comparison.row
    same_pooling = scores.filter(pl.col("pooling") == row["pooling"])
    return LensAnswer(
        **dataclasses.asdict(comparison),
        lens=row["lens"],
        model=_format_model(labels, row),
        language=format_language(row["language"]),
        verdict=describe_comparison(headline, comparison),
        unit=headline.unit,
        headline=headline,
        layers=next(iter(summarise_layers(scores)), None) if headline.of_layer else None,
        cues=next(iter(index_cues(same_pooling).values()), None),
    )


def _answer_undeclared(headline: Headline, labels: Mapping[str, str]) -> LensAnswer:
    comparison, row = headline.compare_with_best_control(), headline.row
    return LensAnswer(
        **dataclasses.asdict(dataclasses.replace(comparison, row=row)),
        lens=row["lens"],
        model=_format_model(labels, row),
        language=format_language(format_name(row["language"])),
        verdict=_describe_position(headline, comparison),
        unit=Unit(digits=auto_digits(row)),
        n_values=headline.n_values,
        n_tied=headline.n_tied,
    )


def answer_by_lens(run: RunData) -> list[LensAnswer]:
    """Answer each lens, model and language, in the order of the table of scores."""
    answers: list[LensAnswer] = []
    for lens in run.scored_lenses:
        scores = run.every_score.filter(pl.col("lens") == lens)
        headline, tasks = load_headline(lens), _answer_tasks(scores, run.labels)
        while headline is not None and all(answer.headline is not headline for answer in tasks):
            headline = headline.otherwise
        if headline is None:
            answers += [_answer_undeclared(undeclared, run.labels) for undeclared in find_headlines(scores)]
        else:
            lens_answers = [answer for answer in tasks if answer.headline is headline]
            answers += _summarise_tasks(lens_answers, headline, list(run.labels))
    return answers


def _summarise_tasks(
    answers: Sequence[LensAnswer], headline: HeadlineMetric, models: Sequence[str]
) -> Iterator[LensAnswer]:
    """Summarise the tasks of each model, language and side; of several corpora the first counts."""
    groups: dict[tuple[str, str, str], dict[str, LensAnswer]] = {}
    for answer in answers:
        row = answer.row
        tasks = groups.setdefault((row["model"], row["language"], row["side"]), {})
        tasks.setdefault(row["task"], answer)
    order = {model: index for index, model in enumerate(models)}
    for key in sorted(groups, key=lambda key: (order.get(key[0], len(order)), f"{key[1]} {key[2]}")):
        tasks = list(groups[key].values())
        middle = sorted(tasks, key=_compute_lead)[(len(tasks) - 1) // 2]
        if len(tasks) > 1:
            sentence = f"{middle.verdict[:1].lower()}{middle.verdict[1:]}"
            label = task_label(middle.row["task"])
            verdict = f"{_describe_tasks(headline, tasks)}. Middle task, {label}: {sentence}"
            yield dataclasses.replace(middle, verdict=verdict)
        else:
            verdict = middle.verdict
            if middle.kind == ABOVE and headline.finding:
                verdict = _describe_finding(headline, tasks, len(tasks))
            task = describe_task_plainly(middle.row["task"] or "")
            yield dataclasses.replace(middle, verdict=verdict, task=task)


def _compute_lead(comparison: ControlComparison) -> float:
    """Compute how far a task is ahead of its best control."""
    if comparison.gain is not None:
        return comparison.gain["value"]
    return comparison.row["value"] - (0.0 if comparison.control is None else comparison.control["value"])


_CLAUSES = {
    BELOW: "worse than the best control",
    SLIGHT: "different from the best control by less than matters",
    LEVEL: NO_DIFFERENCE,
    UNCONTROLLED: "no control",
    OPEN: TOO_LITTLE,
}
"""Conclusions about several tasks, before their names."""


def _describe_tasks(headline: HeadlineMetric, tasks: Sequence[LensAnswer]) -> str:
    """Describe the conclusions about several tasks: a supported one with its figures, then the others.

    Each is by its own interval. Of the supported tasks, the one furthest ahead of its control comes first.
    """
    by_kind = {kind: [task for task in tasks if task.kind == kind] for kind in VERDICTS}
    supported = sorted(by_kind[ABOVE], key=_compute_lead, reverse=True)
    clauses = [_describe_finding(headline, supported, len(tasks))]
    for kind, words in _CLAUSES.items():
        if by_kind[kind]:
            names = shorten_names([task_label(task.row["task"]) for task in by_kind[kind]])
            detectable = _format_detectable(headline, by_kind[kind]) if kind == LEVEL else ""
            clauses.append(f"{words} for {names}{bracket(detectable)}")
    return "; ".join(clauses)


def _describe_finding(headline: HeadlineMetric, supported: Sequence[LensAnswer], n_tasks: int) -> str:
    """Describe the first of the supported tasks with its figures, and name the others."""
    if not supported:
        return f"{headline.subject} beat the best control in 0 of {n_tasks} tasks"
    first, *others = supported
    task = describe_task_plainly(first.row["task"])
    finding = headline.finding or f"{headline.subject} beat the best control for {{task}}"
    sentence = finding.format(task=task)
    figure, control = _format_figures(headline, first)
    assert first.control is not None
    control_name = headline.controls[first.control["control"]]
    names = shorten_names([task_label(task.row["task"]) for task in others]) if others else ""
    rest = f"; the same holds for {names} ({len(supported)} of {n_tasks} tasks)" if others else ""
    return (
        f"{sentence[:1].upper()}{sentence[1:]} ({figure}{_format_measure(headline)}; "
        f"best control, {control_name}, {control}){rest}"
    )


def _format_detectable(headline: HeadlineMetric, tasks: Sequence[LensAnswer]) -> str:
    """Describe the largest difference that would have been found in tasks without one."""
    sizes = [task.detectable for task in tasks if math.isfinite(task.detectable)]
    detectable = headline.unit.detectable(max(sizes, default=math.nan))
    return f"{detectable} in each" if detectable and len(tasks) > 1 else detectable


def _format_measure(headline: HeadlineMetric) -> str:
    # A share is of something; bits stand before what they are counted by.
    return f"{' of' if headline.share else ''} {headline.measure}"


def describe_comparison(headline: HeadlineMetric, comparison: ControlComparison) -> str:
    """Describe a number and its best control in a sentence."""
    figure, *control_figure = _format_figures(headline, comparison)
    subject = headline.subjects.get(comparison.row.get("objective") or "", headline.subject)
    measure = _format_measure(headline)
    if comparison.control is None:
        sentence = f"{subject}: {figure}{measure}"
        return (
            f"{sentence}; {TOO_LITTLE} ({comparison.reason})"
            if comparison.reason
            else f"{sentence}; there is no control to compare with"
        )
    control = headline.controls[comparison.control["control"]]
    figures = f"{figure} compared with {control_figure[0]}{measure}"
    if comparison.reason:
        return (
            f"{TOO_LITTLE[:1].upper()}{TOO_LITTLE[1:]} to tell {subject.lower()} from {control} "
            f"({comparison.reason}): {figures}"
        )
    if comparison.kind == LEVEL:
        detectable = bracket(headline.unit.detectable(comparison.detectable))
        return f"No difference found between {subject.lower()} and {control}{detectable}: {figures}"
    verb = {ABOVE: "beat", BELOW: "lose to", SLIGHT: "differ by less than matters from"}[comparison.kind]
    return f"{subject} {verb} {control}: {figures}"


def _format_figures(headline: HeadlineMetric, comparison: ControlComparison) -> list[str]:
    """Format a number and its control for a sentence: with intervals if no paired difference has one."""
    rows, unit = (
        [comparison.row, *([] if comparison.control is None else [comparison.control])],
        headline.unit,
    )
    if comparison.gain is None:
        return [unit.estimate(row) for row in rows]
    # No decimals of per cent where they differ without.
    values = [unit.scale * row["value"] for row in rows]
    are_distinct = len({round(value) for value in values}) == len(values)
    digits = 0 if headline.share and are_distinct else unit.digits
    return [f"{number(value, digits)}{unit.symbol}" for value in values]


def _describe_position(headline: Headline, comparison: ControlComparison) -> str:
    """Describe a number of which no lens declares whether more is better, beside its best control."""
    measure = format_metric(headline.row)
    control = "" if comparison.control is None else f" {format_name(comparison.control['control'])}"
    figures = format_estimate(headline.row)
    if comparison.control is not None:
        figures += f" compared with {format_estimate(comparison.control)}"
    if comparison.reason:
        sentence = f"{TOO_LITTLE} ({comparison.reason}): {figures}{' by' * bool(control)}{control}"
    elif comparison.kind == LEVEL:
        detectable = Unit(digits=auto_digits(comparison.row)).detectable(comparison.detectable)
        sentence = f"{POSITIONS[LEVEL]}{control}{bracket(detectable)}: {figures}"
    else:
        sentence = (
            f"{POSITIONS[comparison.kind]}{control}: {figures}"
            if control
            else f"{figures}; there is no control to compare with"
        )
    return f"{measure[:1].upper()}{measure[1:]}: {sentence}"


def _format_model(labels: Mapping[str, str], row: Row) -> str:
    name = labels.get(row["model"], row["model"])
    side = f", {row['side']}" if row["side"] == "cross" else ""
    return f"{format_name(name)}{side}"


def describe_headline(headline: Headline, model: str = "") -> str:
    """Describe a headline result in a sentence, the same in report, terminal and notebook.

    Args:
        headline: The headline result.
        model: Name of the model; by default as the user named it.
    """
    row = headline.row
    task = f"{format_name(row['task'])}, " if row["task"] else ""
    language = format_language(format_name(row["language"])) if row["language"] else "all languages"
    subject = f"{format_name(model or row['model'])} on {language}"
    if headline.n_values > 1:
        # A control of one value says nothing of the others.
        rows = [control for control in headline.controls if not describe_dimensions(control)]
        return f"{subject}: {task}{format_metric(row)} has {_format_values(headline)}{_format_controls(rows)}"
    site = f" ({words})" if (words := describe_dimensions(row)) else ""
    size = f"over {plural(row['n'], 'observation')} from {plural(row['n_clusters'], 'cluster')}"
    controls = _format_controls(headline.controls)
    # The line of the lens has its verdict by the same comparison.
    reason = headline.compare_with_best_control().reason
    note = f"; {TOO_LITTLE}{mark_reason(reason)}" if reason else "; a verdict is allowed"
    return f"{subject}: {task}{format_metric(row)} is {format_estimate(row)}{site}, {size}{controls}{note}"


def _format_controls(rows: Sequence[Row]) -> str:
    """Format controls: the first few, and a count of the rest."""
    controls = "".join(f"; control {format_control(row)}" for row in rows[:_MAX_CONTROLS])
    remaining = len(rows) - _MAX_CONTROLS
    return (
        f"{controls} and {plural(remaining, 'further control')} in the table" if remaining > 0 else controls
    )


def _format_values(headline: Headline) -> str:
    """Describe several values: which are highest and lowest, as far as the intervals tell."""
    ends_sentence = describe_ends(
        headline.values,
        describe_dimensions,
        format_estimate,
        noun="values",
        verbs=("is the highest", "is the lowest"),
    )
    observations = [row["n"] for row in headline.values]
    minimum, maximum = min(observations), max(observations)
    range_text = f"{minimum:,} to {maximum:,}" if minimum < maximum else f"{minimum:,}"
    values = f"{headline.n_values:,} values, over {plural(range_text, 'observation')} each"
    if not ends_sentence:
        lowest = min(headline.values, key=lambda row: row["value"])
        ends = f"from {format_estimate(lowest)} to {format_estimate(headline.row)}"
        reason = no_verdict_reason(headline.row) or "fewer than two of them can be compared"
        return f"{values}, {ends}; {TOO_LITTLE}: {reason}"
    return f"{values}. {ends_sentence}"


_MAX_CONTROLS = 4


def describe_scores(scores: pl.DataFrame) -> Iterator[str]:
    """Yield lines about scores: per lens its tasks, its own details, what it left out.

    A lens without a declared headline has its headline in a sentence.
    """
    for rows in scores.partition_by("lens", maintain_order=True):
        lens = rows["lens"][0]
        answers = _answer_tasks(select_finite(rows), {}, listed=True)
        task_answers = [answer for answer in answers if answer.headline is not None]
        # The only answer of a model and language has its verdict in the line of the lens.
        subjects = {(answer.row["model"], answer.row["language"]) for answer in task_answers}
        with_verdict = len(task_answers) > len(subjects) or any(
            answer.headline is not task_answers[0].headline for answer in task_answers
        )
        yield from filter(None, (answer.task_line(with_verdict=with_verdict) for answer in task_answers))
        if lens in _LENSES.names():
            yield from _LENSES.load(lens).details(rows)
        yield from _list_omissions(rows)
        if not task_answers and (headlines := find_headlines(rows)):
            yield from (
                "",
                f"{format_name(lens)}:",
                *(f"  {describe_headline(headline)}" for headline in headlines),
            )


def _list_omissions(rows: pl.DataFrame) -> Iterator[str]:
    """Yield what a lens left out while it scored, with the reason."""
    left_out = rows.filter(pl.col("metric") == LEFT_OUT).with_columns(reason=dimension_value(REASON))
    keys = ("control", "task", "model", "reason")
    for control, task, model, reason in left_out.select(keys).unique(maintain_order=True).iter_rows():
        task = "" if task in str(reason) else task
        yield f"left out{bracket(control or '')}, {', '.join(filter(None, (task, model)))}: {reason}"
