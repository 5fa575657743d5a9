"""Statistical power of a run before it begins, and the subwords that it reads.

`compute_detectable_effects` gives the smallest difference that each headline metric can detect. No score of
the sample is needed: its clusters are known, and the spread of single items comes from a trial on a few of
them. Without a trial the spread of a share is at most that of one half; of other metrics it is not known, and
differences are given in units of it.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.experiments.datasets import read_labels
from sonde.experiments.experiment import get_lens_settings
from sonde.experiments.inputs import RunInputs
from sonde.experiments.plan import LensInput, Plan
from sonde.experiments.resolve import uses_datasets
from sonde.lenses import LENSES
from sonde.models import ModelSpec, load_tokenizer
from sonde.models.engine.files import takes_texts
from sonde.results.headlines import HeadlineMetric
from sonde.stats.estimate import MIN_ICC
from sonde.stats.power import ClusterDesign, standard_error
from sonde.store.parts import PartStore

_SAMPLE_TEXTS = 2_000
"""Texts of a model whose subwords are counted; of more, so many, evenly over their order, stand for all."""


Question = tuple[str, str, str, str]
"""Lens, task (empty where the lens reads items), language and corpus hash."""


def count_subwords(inputs: RunInputs, plan: Plan) -> int | None:
    """Count the subwords of the texts that jobs read, each as often as it is; None behind a server."""
    if any(takes_texts(model.spec) for model in inputs.models):
        return None
    texts = {item.item_id: item.text for lens_input in inputs.readings for item in lens_input.inputs}
    characters: Counter[ModelSpec] = Counter()
    for job in plan.jobs:
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
        item_ids = pl.Series([item.item_id for item in lens_input.inputs], dtype=pl.String).implode()
        designs[lens_input.lens.name, "", *scope] = _build_design(
            [item.cluster for item in lens_input.inputs]
        )
        for task in lens_input.lens.tasks if uses_datasets(lens_input.lens) else ():
            examples = read_labels(store, task, group, lens_input.lens.labels)
            test_rows = lens.select_test_rows(examples, get_lens_settings(lens_input.lens))
            read_rows = test_rows.filter(pl.col("item_id").is_in(item_ids))
            # Statements with candidates have ids of their own.
            test_rows = test_rows if read_rows.is_empty() else read_rows
            if not test_rows.is_empty():
                designs[lens_input.lens.name, task, *scope] = _build_design(test_rows["cluster"].to_list())
    return designs


def _build_design(clusters: Sequence[str]) -> ClusterDesign:
    return ClusterDesign.from_sizes(list(Counter(clusters).values()))


def _subwords_per_character(spec: ModelSpec, texts: Sequence[str]) -> float:
    """Return the subwords of a model per character of some texts."""
    ids = load_tokenizer(spec)(list(texts), add_special_tokens=False)["input_ids"]
    return sum(map(len, ids)) / max(1, sum(map(len, texts)))


FACTORS = (0.5, 1.0, 2.0)
"""How large the differences are, of the detectable one, for which the items needed are told."""


CORRELATION = 0.5
"""Of two models' answers to one item, as far as it is not known; most are more alike, which shows more."""


ASSUMPTIONS = (
    f"80 % power at p < 0.05 for one number, two-sided; intraclass correlation {MIN_ICC:g}; two "
    f"models on the same items, whose answers correlate by {CORRELATION:g} (the difference is "
    f"{math.sqrt(2):.1f} times as large for 0, {math.sqrt(0.2):.1f} times for 0.9). A comparison "
    "of several numbers tests each at a lower level, at worst 0.05 divided by their number, and "
    "detects less"
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
        model: The model; empty where nothing was tried.
        metric: The number; empty likewise.
        value: What the trial gave; None without one.
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
    headlines: Mapping[str, HeadlineMetric] = {},
) -> list[DetectableEffect]:
    """Compute the smallest effect that a sample can detect for each headline metric.

    Args:
        answers: Of a trial, the scores that speak, and the paired difference to the best control of each.
        trial_designs: How the items of the trial fell into clusters.
        designs: How those of the sample do.
        headlines: Headlines of lenses that do not train, by lens: a share is bounded without a trial.
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
        _effect_without_trial(question, designs[question], headlines.get(question[0]))
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


LARGEST_SHARE_DEVIATION = 0.5
"""Spread of single answers, right or wrong, if half of them are right; it is less otherwise."""


def _effect_without_trial(
    question: Question, design: ClusterDesign, headline: HeadlineMetric | None
) -> DetectableEffect:
    """Compute the effect for the largest spread of a share, or in units of the spread of another metric."""
    if headline is None or not headline.share:
        return _effect_from_clusters(question, design)
    effect = _effect_from_clusters(question, design, LARGEST_SHARE_DEVIATION * _PAIRED_FACTOR)
    return dataclasses.replace(
        effect, metric=headline.metrics[0], share=True, deviation=LARGEST_SHARE_DEVIATION
    )


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
