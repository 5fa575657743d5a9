"""Scores of probing tasks: every layer, the layer chosen on validation, controls, and regressions.

Beside the scores of a task there are learning curves (accuracy by number of examples), the online codelength
of the labels, and regressions on the number that classes were made from, with and without the part that
length predicts.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.base.progress import ignore_advance
from sonde.executors import EXECUTORS, count_cores
from sonde.lenses.engine.lens import ScoringContext
from sonde.lenses.probe.controls import (
    SurfaceBaselines,
    fit_surface_baselines,
    score_random_weights,
    score_selectivity,
)
from sonde.lenses.probe.data import gather_states, get_poolings, prepare_examples, scan_text_states
from sonde.lenses.probe.fit import (
    BEST,
    IS_WHOLE,
    SIZES,
    Examples,
    FittedProbes,
    ResolvedProbeOptions,
    States,
    fit_hidden_probes,
    fit_label_sets,
    fit_probes,
)
from sonde.results import (
    Score,
    left_out,
    mean_rows,
    r2_difference_rows,
    r2_rows,
    share_rows,
    spearman_rows,
    trained_rows,
)
from sonde.results.layers import LAYER_DIFFERENCE, LAYER_GAIN
from sonde.results.local_cues import LOCAL_CUES
from sonde.results.schema import ANSWERS, Dimensions
from sonde.stats.metrics import average_ranks
from sonde.training.probes.splits import Splits

if TYPE_CHECKING:
    from sonde.training.probes.linear import RidgeResult

TRAIN_SHARE, VALID_SHARE = 0.6, 0.2


def score_learning_curves(
    states: States, examples: Examples, options: ResolvedProbeOptions, template: Score
) -> Iterator[Score]:
    """Score the layer chosen on validation by the size of the data set.

    A set of N examples trains on 60 % of N and chooses on 20 %, drawn class by class; all are tested on the
    whole test part, so that sizes differ in nothing else. Each fold draws a set of its own; where there is
    one fold, several are drawn and averaged.
    """
    total = len(examples.labels)
    draws = options.seeds if len(examples.folds) == 1 else 1
    clusters = examples.clusters[examples.tested_rows]
    for size in [size for size in SIZES if size < total]:
        correct: list[np.ndarray] = []
        for number in range(draws):
            folds: list[Splits] = []
            for fold, parts in enumerate(examples.folds):
                rng = np.random.default_rng(derive_seed("curve", template.seed, number + fold))
                folds.append(
                    Splits(
                        _sample_by_class(parts.train, examples.labels, round(TRAIN_SHARE * size), rng),
                        _sample_by_class(parts.valid, examples.labels, round(VALID_SHARE * size), rng),
                        parts.test,
                    )
                )
            (fit,) = fit_label_sets(states, examples.labels[None], examples, folds, options)
            correct.append(fit.at_best_layer(fit.correct))
        row = {"dimensions": (("size", str(size)),), "k": size, "method": "linear"}
        accuracy = dataclasses.replace(template, metric="accuracy")
        yield from mean_rows(accuracy, np.mean(correct, axis=0)[None], clusters, [row])


def _sample_by_class(
    rows: Int[np.ndarray, " row"], labels: Int[np.ndarray, " example"], size: int, rng: np.random.Generator
) -> Int[np.ndarray, " drawn"]:
    """Sample rows, the classes in turn."""
    order = rng.permutation(rows)
    turn = np.empty(len(order))
    for label in np.unique(labels[order]):
        members = labels[order] == label
        turn[members] = np.arange(members.sum())
    return np.sort(order[np.argsort(turn, kind="stable")[:size]])


def score_codelength(
    states: States, examples: Examples, options: ResolvedProbeOptions, template: Score
) -> Iterator[Score]:
    """Score the online codelength of the training labels: bits per label, and compression.

    Every label is coded by probes of what came before it, so folds would add nothing: it is over the training
    part of the first fold.
    """
    from sonde.training.probes.linear import compute_online_codelength

    parts = examples.folds[0]
    codelength = compute_online_codelength(
        states,
        examples.labels,
        len(examples.classes),
        parts,
        seed=template.seed,
        l2=options.l2,
        device=options.device,
    )
    clusters = len(np.unique(examples.clusters[parts.train]))
    for metric, values in (
        ("codelength", codelength.bits / codelength.items),
        ("compression", codelength.compression),
    ):
        for layer, value in enumerate(values.tolist()):
            assert math.isfinite(value)
            yield dataclasses.replace(
                template,
                metric=metric,
                split="train",
                layer=layer,
                value=value,
                n=codelength.items,
                n_clusters=clusters,
            )


RIDGE = "ridge"


WITHOUT_LENGTH = ("length", "removed")
"""Dimension of scores from which length is partialled out."""


def score_regression(
    states: States,
    examples: Examples,
    options: ResolvedProbeOptions,
    template: Score,
    surfaces: SurfaceBaselines | None = None,
) -> Iterator[Score]:
    """Score R2 of every layer and of baselines, and the rank correlation of the chosen layer.

    Partialled out means: the regression is on what is left of the number when length (code tokens and
    characters, as they are and in logarithms) has said what it can by least squares. Where nothing is left,
    as with the length itself, there are no such rows.
    """
    from sonde.training.probes.linear import regress_layers, remove_length_effect

    rows_with_value = np.flatnonzero(np.isfinite(examples.values))
    if len(rows_with_value) < len(examples.values):
        examples, states = examples.select(rows_with_value), states[:, rows_with_value]
    clusters = examples.clusters[examples.tested_rows]
    rest = [remove_length_effect(examples.values, examples.lengths, parts) for parts in examples.folds]
    residuals = [residual for residual in rest if residual is not None]
    targets: dict[Dimensions, Sequence[Float[np.ndarray, " example"]]] = {(): [examples.values] * len(rest)}
    if len(residuals) == len(rest):
        targets[(WITHOUT_LENGTH,)] = residuals
    results = [
        regress_layers(states, np.stack(values), parts, name=examples.task, device=options.device)
        for parts, *values in zip(examples.folds, *targets.values(), strict=True)
    ]
    for index, target in enumerate(targets):
        yield from _rows([fold[index] for fold in results], clusters, target, template)
    if len(residuals) == len(rest):
        length_predictions = [
            (examples.values - residual)[parts.test]
            for residual, parts in zip(residuals, examples.folds, strict=True)
        ]
        control = dataclasses.replace(template, metric="r2", control="length")
        row = {"method": RIDGE}
        gold = examples.values[examples.tested_rows]
        yield from r2_rows(control, gold, np.concatenate(length_predictions)[None], clusters, [row])
    if surfaces is not None:
        yield from _beside_cues([fold[0] for fold in results], clusters, surfaces.of_cues(examples), template)


def _rows(
    folds: Sequence[RidgeResult], clusters: Int[np.ndarray, " tested"], target: Dimensions, template: Score
) -> Iterator[Score]:
    """Score every layer of one target, and the layer that each fold chose."""
    gold = np.concatenate([fold.gold for fold in folds])
    predictions = np.concatenate([fold.predicted for fold in folds], axis=1)
    penalties = np.median([fold.l2 for fold in folds], axis=0).tolist()
    fields = [
        {"layer": layer, "dimensions": target, "l2": penalty, "method": RIDGE}
        for layer, penalty in enumerate(penalties)
    ]
    r2 = dataclasses.replace(template, metric="r2")
    yield from r2_rows(r2, gold, predictions, clusters, fields)
    best = {**fields[_best_layer(folds)], "dimensions": (BEST, *target)}
    best_predictions = _predict_at_best(folds)
    yield from r2_rows(r2, gold, best_predictions[None], clusters, [best])
    rank_template = dataclasses.replace(template, metric="spearman", **best)
    yield from spearman_rows(rank_template, gold, best_predictions, clusters, template.seed)


def _best_layer(folds: Sequence[RidgeResult]) -> int:
    """Return the layer that most folds chose."""
    return Counter(fold.best for fold in folds).most_common(1)[0][0]


def _predict_at_best(folds: Sequence[RidgeResult]) -> Float[np.ndarray, " tested"]:
    """Return what the layer says that each fold chose."""
    return np.concatenate([fold.predicted[fold.best] for fold in folds])


def _beside_cues(
    folds: Sequence[RidgeResult], clusters: Int[np.ndarray, " tested"], cues: pl.DataFrame, template: Score
) -> Iterator[Score]:
    """Score local cues and the paired difference of the chosen layer to them."""
    if cues.is_empty() or cues["number"].has_nulls():
        return
    gold, cue_values = np.concatenate([fold.gold for fold in folds]), cues["number"].to_numpy()
    cue_template = dataclasses.replace(template, metric="r2", control=LOCAL_CUES, method=RIDGE).within(BEST)
    yield from r2_rows(cue_template, gold, cue_values[None], clusters)
    gain = dataclasses.replace(cue_template, metric="cues_gain", of_metric="r2", layer=_best_layer(folds))
    yield from r2_difference_rows(gain, gold, _predict_at_best(folds), cue_values, clusters)


_TOGETHER = 1 << 31
"""Bytes of states that may be held at a time by tasks that are scored side by side."""


_WORTH_PROCESSES = 1 << 26
"""Bytes of states of all tasks below which processes cost longer to start than they save."""


def score_tasks(scoring: ScoringContext, options: ResolvedProbeOptions) -> list[Score]:
    """Score all tasks in order, as many at a time as there are cores.

    Fits of one task are too small to fill several cores, so each has one: a process, since threads of one
    would wait for each other between the many short steps of a fit.
    """
    # One pooling is unpacked, at twice its size, while all of them are held packed.
    row_size = (2 + len(options.pooling)) * _packed_size(scoring)
    sizes = {task: table.height * row_size for task, table in scoring.labels.items()}
    parallel_tasks = _side_by_side(scoring, list(sizes.values()))
    if parallel_tasks < 2 or options.device != "cpu":
        scores: list[Score] = []
        for task in sizes:
            scores += score_task(scoring, task, options)
            scoring.advance()
        return scores
    # What takes longest comes first, so that no core is left with it at the end.
    order = sorted(sizes, key=lambda task: -sizes[task] * scoring.labels[task]["label"].n_unique())
    jobs = [
        (
            dataclasses.replace(
                scoring, labels={task: scoring.labels[task]}, tables=(), advance=ignore_advance
            ),
            task,
            options,
        )
        for task in order
    ]
    executor = EXECUTORS.load(scoring.cluster or "local")
    results: dict[str, tuple[list[Score], list[pl.DataFrame]]] = {}
    for (_, task, _), rows in executor.map(_score_job, jobs, workers=parallel_tasks):
        results[task] = rows
        scoring.advance()
    scoring.answers.extend(table for task in sizes for table in results[task][1])
    return [row for task in sizes for row in results[task][0]]


def _side_by_side(scoring: ScoringContext, sizes: Sequence[int]) -> int:
    """Return the number of tasks to score at a time: as requested on a cluster, else what fits."""
    if scoring.cluster:
        return min(scoring.workers, len(sizes))
    workers = min(count_cores(), len(sizes), _TOGETHER // max(1, *sizes))
    return workers if sum(sizes) >= _WORTH_PROCESSES else 1


def _score_job(
    job: tuple[ScoringContext, str, ResolvedProbeOptions],
) -> tuple[list[Score], list[pl.DataFrame]]:
    """Score a task in any process; return its rows and answers."""
    scoring, task, options = job
    # In this process the list is shared by all tasks.
    scoring = dataclasses.replace(scoring, answers=[])
    return list(score_task(scoring, task, options)), scoring.answers


def _packed_size(scoring: ScoringContext) -> int:
    """Return the bytes of the states of one example, as stored."""
    sizes = scoring.observations.select(pl.col("states").bin.size()).head(1).collect()
    return 0 if sizes.is_empty() else int(sizes.item())


def score_task(scoring: ScoringContext, task: str, options: ResolvedProbeOptions) -> Iterator[Score]:
    """Score a task; one row says why where it cannot be scored."""
    examples = scoring.labels[task].filter(pl.col("label").is_not_null())
    names = examples["cluster"].unique().sort().to_list()
    for row in _score_poolings(scoring, task, options):
        yield row.over(names)


def _score_poolings(scoring: ScoringContext, task: str, options: ResolvedProbeOptions) -> Iterator[Score]:
    template = dataclasses.replace(scoring.template, task=task, split="test")
    try:
        examples = prepare_examples(task, scoring.labels[task], options, template.seed)
        surfaces = fit_surface_baselines(examples, scoring) if options.controls else None
        poolings, asked = get_poolings(examples, options), len(examples.labels)
        if examples.are_texts and len(poolings) > 1:
            rows = scan_text_states(scoring.observations, examples, poolings)
            scoring = dataclasses.replace(scoring, observations=rows)
        for index, pooling in enumerate(poolings):
            states, state_rows = _load(scoring.observations, scoring, examples, pooling, options)
            task_examples = examples if len(state_rows) == asked else examples.select(state_rows)
            pooling_template = dataclasses.replace(template, pooling=pooling)
            task_states = _ProbedTask(task_examples, states, asked, pooling_template)
            probes = fit_probes(task_states.states, task_states.examples, options)
            yield from _score_pooling(task_states, probes, surfaces)
            # The first pooling is the headline's; what qualifies it is made for it alone.
            if index == 0:
                scoring.answers.append(_answers(task_states.examples, probes))
                clusters = task_states.examples.clusters[task_states.examples.tested_rows]
                control = None if surfaces is None else surfaces.to_beat(task_states.examples)
                yield from compare_layers(probes, clusters, task_states.template, control)
                yield from _score_qualifiers(task_states, scoring, options, surfaces)
    except InputError as error:
        yield left_out(template, str(error))


@dataclass(frozen=True, slots=True, eq=False)
class _ProbedTask:
    """One task with one pooling: the examples that have a state, and what their rows share."""

    examples: Examples
    states: States
    asked: int
    template: Score


def _load(
    observations: pl.LazyFrame,
    scoring: ScoringContext,
    examples: Examples,
    pooling: str,
    options: ResolvedProbeOptions,
) -> tuple[States, np.ndarray]:
    language = scoring.template.language
    return gather_states(observations, examples, pooling, language=language, token_pooling=options.pooling[0])


def _answers(examples: Examples, probes: FittedProbes) -> pl.DataFrame:
    """Return the answers of the chosen layer on tested examples, in the columns `ANSWERS`."""
    test = examples.tested_rows
    classes = np.array(examples.classes, object)
    test_rows = examples.frame.with_columns(whole=IS_WHOLE)[test]
    return test_rows.select(
        "item_id",
        "start",
        "end",
        "whole",
        "label",
        task=pl.lit(examples.task),
        layer=pl.Series(np.repeat(probes.layers, probes.sizes)),
        said=pl.Series(classes[probes.at_best_layer(probes.predicted)].tolist(), dtype=pl.String),
    ).select(pl.col(name).cast(kind) for name, kind in ANSWERS.items())


def _score_pooling(
    task_states: _ProbedTask, probes: FittedProbes, surfaces: SurfaceBaselines | None
) -> Iterator[Score]:
    """Score one pooling: coverage, layers, the chosen layer, baselines and gains over them."""
    examples, template = task_states.examples, task_states.template
    clusters = examples.clusters[examples.tested_rows]
    share = len(examples.labels) / task_states.asked
    yield dataclasses.replace(
        template, metric="coverage", split="all", value=share, n=task_states.asked, n_clusters=0
    )
    yield from _layers(probes, examples, template)
    yield from _confusion(probes, examples, template)
    if surfaces is None:
        return
    # Chosen on validation: against the best on test a probe of labels by coin would lose.
    best, right = surfaces.to_beat(examples)
    for name, correct in {**surfaces.baseline_hits(examples), best: right}.items():
        baseline_template = dataclasses.replace(template, metric="accuracy", control=name)
        yield from mean_rows(baseline_template, correct[None], clusters, [{"dimensions": (BEST,)}])
    gain = dataclasses.replace(template, metric="gain", control=best, **_best_layer_fields(probes)).within(
        BEST
    )
    yield from trained_rows(gain, probes.at_best_layer(probes.correct), clusters, baseline=right)
    cues = surfaces.of_cues(examples)
    if not cues.is_empty():
        right = cues["correct"].to_numpy()
        baseline_template = dataclasses.replace(template, metric="accuracy", control=LOCAL_CUES)
        yield from mean_rows(baseline_template, right[None], clusters, [{"dimensions": (BEST,)}])
        baseline_template = dataclasses.replace(
            baseline_template, metric="cues_gain", of_metric="accuracy", **_best_layer_fields(probes)
        )
        yield from trained_rows(
            baseline_template.within(BEST), probes.at_best_layer(probes.correct), clusters, baseline=right
        )


def compare_layers(
    probes: FittedProbes,
    clusters: Int[np.ndarray, " tested"],
    template: Score,
    control: tuple[str, Bool[np.ndarray, " tested"]] | None,
) -> Iterator[Score]:
    """Compare every layer with the chosen ones and with a control; see `sonde.results.layers`.

    Args:
        probes: The probes.
        clusters: Cluster of each tested example.
        template: What the scores share.
        control: The control that validation chose, by name, and whether it is right; None without one.
    """
    comparisons: dict[str, tuple[str | None, np.ndarray]] = {
        LAYER_DIFFERENCE: (None, probes.at_best_layer(probes.correct)),
        **({} if control is None else {LAYER_GAIN: control}),
    }
    for metric, (name, baseline) in comparisons.items():
        metric_template = dataclasses.replace(template, metric=metric, control=name)
        for layer, correct in enumerate(probes.correct):
            # The layer that every fold chose differs from the chosen ones in nothing.
            if metric != LAYER_DIFFERENCE or {*probes.layers} != {layer}:
                layer_template = dataclasses.replace(metric_template, **_layer_fields(probes, layer))
                yield from trained_rows(layer_template, correct, clusters, baseline=baseline)


def _score_qualifiers(
    task_states: _ProbedTask,
    scoring: ScoringContext,
    options: ResolvedProbeOptions,
    surfaces: SurfaceBaselines | None,
) -> Iterator[Score]:
    """Score what qualifies the headline's accuracy; a part that fails says why."""
    examples, template = task_states.examples, task_states.template
    parts: dict[str, tuple[bool, Any]] = {
        "random_weights": (
            options.controls and bool(scoring.controls),
            lambda: score_random_weights(
                task_states.states,
                examples,
                [
                    (
                        control.control,
                        *_load(control.observations, scoring, examples, template.pooling, options),
                    )
                    for control in scoring.controls
                ],
                options,
                template,
            ),
        ),
        "control_task": (
            options.controls and examples.about_tokens,
            lambda: score_selectivity(task_states.states, examples, options, template),
        ),
        "ridge": (
            "ridge" in options.probe and bool(np.isfinite(examples.values).any()),
            lambda: score_regression(task_states.states, examples, options, template, surfaces),
        ),
        "mlp": ("mlp" in options.probe, lambda: _score_hidden_layer(task_states, options)),
        "curves": (
            options.curves,
            lambda: score_learning_curves(task_states.states, examples, options, template),
        ),
        "mdl": (options.mdl, lambda: score_codelength(task_states.states, examples, options, template)),
    }
    for name, (is_requested, rows) in parts.items():
        if not is_requested:
            continue
        try:
            yield from rows()
        except InputError as error:
            yield dataclasses.replace(left_out(template, str(error)), control=name)


def _layers(probes: FittedProbes, examples: Examples, template: Score) -> Iterator[Score]:
    clusters = examples.clusters[examples.tested_rows]
    layers = range(len(probes.correct))
    accuracy = dataclasses.replace(template, metric="accuracy")
    fields = [_layer_fields(probes, layer) for layer in layers]
    yield from mean_rows(accuracy, probes.correct, clusters, fields)
    best = {"dimensions": (BEST,), **_best_layer_fields(probes)}
    yield from mean_rows(accuracy, probes.at_best_layer(probes.correct)[None], clusters, [best])
    valid = np.unique(np.concatenate([parts.valid for parts in examples.folds]))
    valid_template = dataclasses.replace(
        accuracy, split="valid", n=len(valid), n_clusters=len(np.unique(examples.clusters[valid]))
    )
    for field, value in zip(fields, probes.valid.tolist(), strict=True):
        yield dataclasses.replace(valid_template, value=value, **field)
    rank_template = dataclasses.replace(
        template, metric="layer_rank", n=len(clusters), n_clusters=len(np.unique(clusters))
    )
    for field, value in zip(fields, average_ranks(-probes.correct.mean(axis=1)).tolist(), strict=True):
        yield dataclasses.replace(rank_template, value=value, **field)


def _layer_fields(probes: FittedProbes, layer: int) -> dict[str, Any]:
    return {"layer": layer, "l2": float(probes.l2[layer]), "method": probes.kind}


def _best_layer_fields(probes: FittedProbes) -> dict[str, Any]:
    """Return the fields of the chosen layer's row; with several folds also each fold's layer."""
    folds = {"k": len(probes.layers), "fold_layers": tuple(probes.layers)} if len(probes.layers) > 1 else {}
    return _layer_fields(probes, probes.best) | folds


def _confusion(probes: FittedProbes, examples: Examples, template: Score) -> Iterator[Score]:
    """Score the confusion of the chosen layer: predicted shares of each class's examples."""
    test = examples.tested_rows
    classes = np.array(examples.classes, object)
    gold, predictions = classes[examples.labels[test]], classes[probes.at_best_layer(probes.predicted)]
    clusters = examples.clusters[test]
    confusion_template = dataclasses.replace(template, metric="confusion", layer=probes.best)
    for name in examples.classes:
        members, class_template = gold == name, confusion_template.within(("gold", name))
        yield from share_rows(
            class_template, predictions[members], clusters[members], "predicted", examples.classes
        )


def _score_hidden_layer(task_states: _ProbedTask, options: ResolvedProbeOptions) -> Iterator[Score]:
    seeds = [derive_seed("mlp", task_states.template.seed, number) % 2**32 for number in range(options.seeds)]
    yield from _layers(
        fit_hidden_probes(task_states.states, task_states.examples, seeds, options),
        task_states.examples,
        task_states.template,
    )
