"""Workload and statistical power of a run, computed before a model is loaded.

`Workload` gives the jobs, inputs, subwords and clusters of a run. `compute_detectable_effects` is its power
analysis: the smallest difference that each headline metric can detect. No score of the sample is needed: its
clusters are known, and the spread of single items comes from a warm-up. Without a warm-up the spread is not
known, and differences are given in units of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sonde.base.progress import Progress
from sonde.corpora import Item
from sonde.experiments.datasets import DEFAULT_SIZE, read_labels
from sonde.experiments.experiment import Execution, Experiment, get_lens_settings
from sonde.experiments.inputs import RunInputs, plan_stage, read_inputs, resolve_experiment
from sonde.experiments.plan import LensInput, Plan
from sonde.experiments.progress import Session
from sonde.experiments.resolve import uses_datasets
from sonde.lenses import LENSES, load_reading_lens
from sonde.models import ModelSpec, load_tokenizer
from sonde.models.engine.files import takes_texts, uses_server
from sonde.stats.estimate import MIN_ICC
from sonde.stats.power import ClusterDesign, standard_error
from sonde.store.parts import PartStore

_SAMPLE_TEXTS = 2_000
"""Texts of a model whose subwords are counted; of more, so many, evenly over their order, stand for all."""


_NAMES = "names_asked_about"
"""In the report of a data set: how many names it asks about, of which a limit is, each in some statements."""


Question = tuple[str, str, str, str]
"""Lens, task (empty where the lens reads items), language and corpus hash."""


@dataclass(frozen=True, slots=True)
class InputAmount:
    """Amount of input of a run.

    Attributes:
        limit: At most this many items a task and language, as ``--limit`` says it.
        inputs: Distinct texts that are read.
        characters: Their characters.
        again: Inputs that later stages read, as far as the lenses say beforehand.
    """

    limit: int
    inputs: int
    characters: int
    again: int = 0

    @property
    def reads(self) -> int:
        """Return the number of inputs of all stages."""
        return self.inputs + self.again


@dataclass(frozen=True)
class Workload:
    """A run as far as it can be known without its models.

    Attributes:
        session: The run, in a folder that may be thrown away.
        inputs: What it reads.
        plan: The jobs of the first stage.
    """

    session: Session
    inputs: RunInputs
    plan: Plan

    @classmethod
    def build(cls, experiment: Experiment, execution: Execution, progress: Progress) -> Workload:
        """Read the corpora, label and draw; what comes of it lies in the folder of the execution.

        Raises:
            SondeError: As for a run; what cannot be run cannot be planned.
        """
        session = resolve_experiment(experiment, execution, progress)
        inputs = read_inputs(session)
        return cls(session, inputs, plan_stage(session, inputs.models, inputs.readings))

    @property
    def readings(self) -> Sequence[LensInput]:
        """Return the inputs of the lenses."""
        return self.inputs.readings

    @cached_property
    def effective_limit(self) -> int:
        """Return the items per task and language that the run takes: the limit, or all if fewer."""
        limit = self.session.experiment.selection.limit
        available = max(self._size(lens_input) for lens_input in self.readings)
        return available if limit is None else min(limit, available)

    @property
    def unit(self) -> str:
        """Return what the limit counts, in the plural."""
        if any(_NAMES in report for lens_input in self.readings for report in self._reports(lens_input)):
            return "names"
        from_datasets = {uses_datasets(lens_input.lens) for lens_input in self.readings}
        if len(from_datasets) > 1:
            return "items"
        return "examples a task" if from_datasets.pop() else f"{self.session.experiment.selection.unit}s"

    def amount(self, limit: int) -> InputAmount:
        """Return the amount of input with a limit; the same items come first for any limit."""
        limited_inputs = [
            dataclasses.replace(lens_input, inputs=tuple(self._first(lens_input, limit)))
            for lens_input in self.readings
        ]
        return measure_amount(limit, limited_inputs)

    def _first(self, lens_input: LensInput, limit: int) -> Sequence[Item]:
        """Return the inputs of a lens with a smaller limit."""
        if uses_datasets(lens_input.lens):
            share = min(1.0, limit / max(1, self._size(lens_input)))
            return lens_input.inputs[: round(share * len(lens_input.inputs))]
        # A lens may read some items alone, as masked models do; what it adds to them, it always adds.
        excluded_ids = {item.item_id for item in lens_input.group.items[limit:]}
        return [item for item in lens_input.inputs if item.item_id not in excluded_ids]

    def _size(self, lens_input: LensInput) -> int:
        """Return the limit that gives all inputs of a lens."""
        if not uses_datasets(lens_input.lens):
            return len(lens_input.group.items)
        maximum = self.session.experiment.selection.limit or DEFAULT_SIZE
        sizes = [int(report.get(_NAMES, report.get("size", maximum))) for report in self._reports(lens_input)]
        return min(max(sizes, default=maximum), maximum)

    def _reports(self, lens_input: LensInput) -> list[Mapping[str, Any]]:
        """Return the reports of the data sets of a lens."""
        reports = self.session.outcome.data_sets.get(f"{lens_input.lens.name}/{lens_input.group.prefix}", {})
        return list(reports.values())

    @property
    def servers(self) -> list[str]:
        """Return the names of the models that a server runs."""
        return [model.name for model in self.inputs.models if uses_server(model.spec)]

    def finished_jobs(self, folder: Path) -> int:
        """Count the jobs whose tables a folder holds."""
        jobs = (*self.plan.jobs, *self.plan.trainings)
        return sum(all((folder / part.relative).exists() for part in job.parts) for job in jobs)

    def subwords(self) -> int | None:
        """Count the subwords of the texts that jobs read, each as often as it is; None behind a server."""
        if any(takes_texts(model.spec) for model in self.inputs.models):
            return None
        texts = {item.item_id: item.text for lens_input in self.readings for item in lens_input.inputs}
        characters: Counter[ModelSpec] = Counter()
        for job in self.plan.jobs:
            spec = dataclasses.replace(job.model, reinitialise=None)
            characters[spec] += sum(len(texts[name]) for name in job.item_ids)
        sample = list(texts.values())[:: max(1, len(texts) // _SAMPLE_TEXTS)]
        return round(sum(_subwords_per_character(spec, sample) * count for spec, count in characters.items()))


def find_cluster_designs(readings: Sequence[LensInput], store: PartStore) -> dict[Question, ClusterDesign]:
    """Return the cluster design of each question of the lenses."""
    designs: dict[Question, ClusterDesign] = {}
    for lens_input in readings:
        lens, group = LENSES.load(lens_input.lens.source), lens_input.group
        scope = group.language, group.corpus_hash
        designs[lens_input.lens.name, "", *scope] = _build_design(
            [item.cluster for item in lens_input.inputs]
        )
        for task in lens_input.lens.tasks if uses_datasets(lens_input.lens) else ():
            examples = read_labels(store, task, group, lens_input.lens.labels)
            test_rows = lens.select_test_rows(examples, get_lens_settings(lens_input.lens))
            if not test_rows.is_empty():
                designs[lens_input.lens.name, task, *scope] = _build_design(test_rows["cluster"].to_list())
    return designs


def _build_design(clusters: Sequence[str]) -> ClusterDesign:
    return ClusterDesign.from_sizes(list(Counter(clusters).values()))


def measure_amount(limit: int, readings: Sequence[LensInput]) -> InputAmount:
    """Return the amount of input of some lens inputs."""
    lengths = {
        (lens_input.group.corpus, item.item_id): len(item.text)
        for lens_input in readings
        for item in lens_input.inputs
    }
    later_inputs = sum(
        min(load_reading_lens(lens_input.lens.source).max_later_inputs, len(lens_input.inputs))
        for lens_input in readings
        if not lens_input.methods
    )
    return InputAmount(limit, len(lengths), sum(lengths.values()), later_inputs)


def _subwords_per_character(spec: ModelSpec, texts: Sequence[str]) -> float:
    """Return the subwords of a model per character of some texts."""
    ids = load_tokenizer(spec)(list(texts), add_special_tokens=False)["input_ids"]
    return sum(map(len, ids)) / max(1, sum(map(len, texts)))


FACTORS = (0.5, 1.0, 2.0)
"""How large the differences are, of the detectable one, for which the items needed are told."""


CORRELATION = 0.5
"""Of two models' answers to one item, as far as it is not known; most are more alike, which shows more."""


ASSUMPTIONS = (
    f"80 % power at p < 0.05 of one number alone, two-sided (a comparison of several tests each at a lower "
    f"level, at worst 0.05 over their number, and shows less); intraclass correlation {MIN_ICC:g}; two "
    f"models on the same items, whose answers correlate by {CORRELATION:g} (by 0 it is {math.sqrt(2):.1f} "
    f"times as much, by 0.9 {math.sqrt(0.2):.1f} times)"
)
"""What figures between two models rest on, in words."""


_PAIRED_FACTOR = math.sqrt(2 * (1 - CORRELATION))


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredSample:
    """Items that a difference needs.

    Attributes:
        difference: The difference, in the unit of the number.
        items: So many of the same clusters; None where no number of them is enough.
        clusters: So many clusters of the same size, where the same ones are not enough.
    """

    difference: float
    items: int | None
    clusters: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectableEffect:
    """Smallest effect of one metric that a sample can detect.

    Attributes:
        lens: The lens.
        task: Its task; empty where it reads items.
        language: Of the code.
        model: The model; empty where no warm-up was done.
        metric: The number; empty likewise.
        value: What the warm-up gave; None without one.
        share: Whether the number is a share, whose differences are points of a hundred.
        items: Items that it will rest on.
        effective_clusters: Clusters of equal size that theirs are worth.
        design_effect: How much larger the variance is than that of independent items.
        deviation: Spread of single items; None where it is not known, and then differences are in its unit.
        detectable: The difference between two models that the sample reveals; None below two effective
            clusters.
        from_control: The same of the paired difference to the best control; None where there is none.
        needed: Items that half of it, it, and twice of it need.
    """

    lens: str
    task: str
    language: str
    model: str = ""
    metric: str = ""
    value: float | None = None
    share: bool = False
    items: int
    effective_clusters: float
    design_effect: float
    deviation: float | None = None
    detectable: float | None = None
    from_control: float | None = None
    needed: tuple[RequiredSample, ...] = ()


def compute_detectable_effects(
    answers: Sequence[tuple[Row, Row | None]],
    trial_designs: Mapping[Question, ClusterDesign],
    designs: Mapping[Question, ClusterDesign],
) -> list[DetectableEffect]:
    """Compute the smallest effect that a sample can detect for each headline metric.

    Args:
        answers: Of a warm-up, the scores that speak, and the paired difference to the best control of each.
        trial_designs: How the items of the warm-up fell into clusters.
        designs: How those of the sample do.
    """
    effects: list[DetectableEffect] = []
    answered: set[Question] = set()
    for row, gain in answers:
        question = _find_question(row, designs)
        if question in trial_designs and question in designs:
            answered.add(question)
            effects.append(
                _effect_for_number(row, gain, question, trial_designs[question], designs[question])
            )
    # A few items leave some numbers without an interval: what others show of the same lens is enough.
    measured_models = {(effect.lens, effect.model) for effect in effects if effect.deviation is not None}
    effects = [
        effect
        for effect in effects
        if effect.deviation is not None or (effect.lens, effect.model) not in measured_models
    ]
    # A lens of many tasks has no number over all of them.
    by_task = {question[0] for question in designs if question[1]}
    remaining = [
        question
        for question in designs
        if question not in answered and (question[1] or question[0] not in by_task)
    ]
    lenses = {question[0] for question in answered}
    return effects + [
        _effect_from_clusters(question, designs[question])
        for question in remaining
        if question[0] not in lenses or question[1]
    ]


def _find_question(row: Row, designs: Mapping[Question, ClusterDesign]) -> Question:
    scope = row["language"], row["corpus_hash"]
    question = row["lens"], row["task"] or "", *scope
    return question if question in designs else (row["lens"], "", *scope)


def _effect_for_number(
    row: Row, gain: Row | None, question: Question, trial_design: ClusterDesign, design: ClusterDesign
) -> DetectableEffect:
    weighted_trial, weighted_design = (
        _weight_design(row, trial_design, trial_design),
        _weight_design(row, trial_design, design),
    )
    deviation = weighted_trial.deviation(standard_error(row))
    is_known = math.isfinite(deviation)
    from_control = None
    if gain is not None:
        of_gain, gain_design = (
            _weight_design(gain, trial_design, trial_design),
            _weight_design(gain, trial_design, design),
        )
        from_control = _finite(gain_design.detectable(of_gain.deviation(standard_error(gain))))
    effect = _effect_from_clusters(question, weighted_design, deviation * _PAIRED_FACTOR if is_known else 1.0)
    return dataclasses.replace(
        effect,
        task=row["task"] or "",
        model=row["model"],
        metric=row["metric"],
        value=_finite(row["value"]),
        share=row["n_eff"] is not None,
        deviation=deviation if is_known else None,
        from_control=from_control,
    )


def _weight_design(row: Row, trial_design: ClusterDesign, design: ClusterDesign) -> ClusterDesign:
    """Scale a cluster design to the weights of a metric: weighting by subwords has fewer clusters."""
    clusters = row["effective_clusters"] or trial_design.effective
    return dataclasses.replace(design, effective=design.effective * clusters / trial_design.effective)


def _effect_from_clusters(
    question: Question, design: ClusterDesign, deviation: float = 1.0
) -> DetectableEffect:
    """Compute the detectable effect from clusters only, for a deviation of single items."""
    lens, task, language, _ = question
    difference = _finite(design.detectable(deviation))
    multiples = [] if difference is None else [difference * factor for factor in FACTORS]
    return DetectableEffect(
        lens=lens,
        task=task,
        language=language,
        items=round(design.items),
        effective_clusters=design.effective,
        design_effect=design.design_effect(),
        detectable=difference,
        needed=tuple(_required_sample(design, multiple, deviation) for multiple in multiples),
    )


def _required_sample(design: ClusterDesign, difference: float, deviation: float) -> RequiredSample:
    items = design.required_items(difference, deviation)
    clusters = design.required_clusters(difference, deviation) if items is None else None
    return RequiredSample(difference=difference, items=items, clusters=clusters)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
