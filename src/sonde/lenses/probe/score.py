"""The scores of one task: every layer, the layer chosen on validation, and what qualifies them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.executors import EXECUTORS, cores
from sonde.lenses._lens import Scoring
from sonde.lenses.probe.controls import ControlStates, Surfaces, random_weights, selectivity, surfaces_of
from sonde.lenses.probe.curves import codelength, curves
from sonde.lenses.probe.data import Examples, States, poolings_of, read_once, states_of
from sonde.lenses.probe.fit import BEST, Fitted, fit, fit_hidden
from sonde.lenses.probe.numbers import numbers
from sonde.lenses.probe.observe import IS_WHOLE
from sonde.lenses.probe.options import Probing
from sonde.lenses.probe.states import as_probed
from sonde.results import Score, left_out, mean_rows, share_rows, trained_rows
from sonde.results.answers import ANSWERS
from sonde.results.layers import LAYER_DIFFERENCE, LAYER_GAIN
from sonde.results.local_cues import LOCAL_CUES
from sonde.results.metrics import ranks

_TOGETHER = 1 << 31
"""Bytes of states that may be held at a time by tasks that are scored side by side."""

_WORTH_PROCESSES = 1 << 26
"""Bytes of states of all tasks below which processes cost longer to start than they save."""


def score_tasks(scoring: Scoring, options: Probing) -> list[Score]:
    """The rows of all tasks, in their order, as many tasks at a time as there are cores.

    Fits of one task are too small to fill several cores, so each has one: a process, since threads of one
    would wait for each other between the many short steps of a fit.
    """
    # One pooling is unpacked, at twice its size, while all of them are held packed.
    each = (2 + len(options.pooling)) * _packed_size(scoring)
    sizes = {task: table.height * each for task, table in scoring.labels.items()}
    together = _side_by_side(scoring, list(sizes.values()))
    if together < 2 or options.device != "cpu":
        return [row for task in sizes for row in score_task(scoring, task, options)]
    # What takes longest comes first, so that no core is left with it at the end.
    order = sorted(sizes, key=lambda task: -sizes[task] * scoring.labels[task]["label"].n_unique())
    jobs = [
        _Job(dataclasses.replace(scoring, labels={task: scoring.labels[task]}, tables=()), options)
        for task in order
    ]
    executor = EXECUTORS.load(scoring.cluster or "local")
    done = {job.task: held for job, held in executor.map(_scored, jobs, workers=together)}
    scoring.answers.extend(table for task in sizes for table in done[task][1])
    return [row for task in sizes for row in done[task][0]]


def _side_by_side(scoring: Scoring, sizes: Sequence[int]) -> int:
    """How many tasks are scored at a time: on a cluster as many as were asked for, here what fits."""
    if scoring.cluster:
        return min(scoring.workers, len(sizes))
    fitting = min(cores(), len(sizes), _TOGETHER // max(1, *sizes))
    return fitting if sum(sizes) >= _WORTH_PROCESSES else 1


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """A task that a process scores."""

    scoring: Scoring
    options: Probing

    @property
    def task(self) -> str:
        (task,) = self.scoring.labels
        return task


def _scored(job: _Job) -> tuple[list[Score], list[pl.DataFrame]]:
    """The rows of a task and its answers; runs in any process."""
    # In this process the list is shared by all tasks.
    scoring = dataclasses.replace(job.scoring, answers=[])
    return list(score_task(scoring, job.task, job.options)), scoring.answers


def _packed_size(scoring: Scoring) -> int:
    """Bytes of the states of one example, as they are stored."""
    packed = scoring.observations.select(pl.col("states").bin.size()).head(1).collect()
    return 0 if packed.is_empty() else int(packed.item())


def score_task(scoring: Scoring, task: str, options: Probing) -> Iterator[Score]:
    """Every row of a task; one that says why where it cannot be scored."""
    labelled = scoring.labels[task].filter(pl.col("label").is_not_null())
    names = labelled["cluster"].unique().sort().to_list()
    for row in _rows_of(scoring, task, options):
        yield row.over(names)


def _rows_of(scoring: Scoring, task: str, options: Probing) -> Iterator[Score]:
    template = dataclasses.replace(scoring.template, task=task, split="test")
    try:
        examples = as_probed(task, scoring.labels[task], options, template.seed)
        surfaces = surfaces_of(examples, scoring) if options.controls else None
        poolings = poolings_of(examples, options)
        if examples.whole and len(poolings) > 1:
            once = read_once(scoring.observations, examples, poolings)
            scoring = dataclasses.replace(scoring, observations=once)
        for place, pooling in enumerate(poolings):
            held = _hold(scoring, examples, pooling, options, dataclasses.replace(template, pooling=pooling))
            found = fit(held.states, held.examples, options)
            yield from _pooled(held, found, surfaces)
            # The first pooling is the headline's; what qualifies it is made for it alone.
            if place == 0:
                scoring.answers.append(_answers(held.examples, found))
                clusters = held.examples.clusters[held.examples.tested]
                control = None if surfaces is None else surfaces.to_beat(held.examples)
                yield from compare_layers(found, clusters, held.template, control)
                yield from _qualified(held, scoring, options, surfaces)
    except InputError as error:
        yield left_out(template, str(error))


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """One task with one pooling: the examples that have a state, and what their rows share."""

    examples: Examples
    states: States
    asked: int
    template: Score


def _hold(scoring: Scoring, examples: Examples, pooling: str, options: Probing, template: Score) -> _Held:
    states, rows = _load(scoring.observations, scoring, examples, pooling, options)
    held = examples if len(rows) == len(examples.labels) else examples.only(rows)
    return _Held(held, states, len(examples.labels), template)


def _load(
    observations: pl.LazyFrame, scoring: Scoring, examples: Examples, pooling: str, options: Probing
) -> tuple[States, np.ndarray]:
    language = scoring.template.language
    return states_of(observations, examples, pooling, language=language, alone=options.pooling[0])


def _answers(examples: Examples, found: Fitted) -> pl.DataFrame:
    """What the chosen layer says of every tested example, in the columns `ANSWERS`."""
    test = examples.tested
    classes = np.array(examples.classes, object)
    tested = examples.frame.with_columns(whole=IS_WHOLE)[test]
    return tested.select(
        "item_id",
        "start",
        "end",
        "whole",
        "label",
        task=pl.lit(examples.task),
        layer=pl.Series(np.repeat(found.layers, found.sizes)),
        said=pl.Series(classes[found.chosen(found.predicted)].tolist(), dtype=pl.String),
    ).select(pl.col(name).cast(kind) for name, kind in ANSWERS.items())


def _pooled(held: _Held, found: Fitted, surfaces: Surfaces | None) -> Iterator[Score]:
    """Rows of one pooling: coverage, layers, the chosen layer, baselines and the gains over them."""
    examples, template = held.examples, held.template
    clusters = examples.clusters[examples.tested]
    share = len(examples.labels) / held.asked
    yield dataclasses.replace(
        template, metric="coverage", split="all", value=share, n=held.asked, n_clusters=0
    )
    yield from _layers(found, examples, template)
    yield from _confusion(found, examples, template)
    if surfaces is None:
        return
    # Chosen on validation: against the best on test a probe of labels by coin would lose.
    best, right = surfaces.to_beat(examples)
    for name, correct in {**surfaces.on_tested(examples), best: right}.items():
        own = dataclasses.replace(template, metric="accuracy", control=name)
        yield from mean_rows(own, correct[None], clusters, [{"dimensions": (BEST,)}])
    gain = dataclasses.replace(template, metric="gain", control=best, **_chosen(found)).within(BEST)
    yield from trained_rows(gain, found.chosen(found.correct), clusters, less=right)
    cues = surfaces.of_cues(examples)
    if not cues.is_empty():
        right = cues["correct"].to_numpy()
        own = dataclasses.replace(template, metric="accuracy", control=LOCAL_CUES)
        yield from mean_rows(own, right[None], clusters, [{"dimensions": (BEST,)}])
        own = dataclasses.replace(own, metric="cues_gain", of_metric="accuracy", **_chosen(found))
        yield from trained_rows(own.within(BEST), found.chosen(found.correct), clusters, less=right)


def compare_layers(
    found: Fitted,
    clusters: Int[np.ndarray, " tested"],
    template: Score,
    control: tuple[str, Bool[np.ndarray, " tested"]] | None,
) -> Iterator[Score]:
    """Every layer less the chosen ones and less a control, on the same examples, see `sonde.results.layers`.

    Args:
        found: The probes.
        clusters: Cluster of each tested example.
        template: What the scores share.
        control: The control that validation chose, by name, and whether it is right; None without one.
    """
    less: dict[str, tuple[str | None, np.ndarray]] = {
        LAYER_DIFFERENCE: (None, found.chosen(found.correct)),
        **({} if control is None else {LAYER_GAIN: control}),
    }
    for metric, (name, other) in less.items():
        own = dataclasses.replace(template, metric=metric, control=name)
        for layer, correct in enumerate(found.correct):
            # The layer that every fold chose differs from the chosen ones in nothing.
            if metric != LAYER_DIFFERENCE or {*found.layers} != {layer}:
                at = dataclasses.replace(own, **_at(found, layer))
                yield from trained_rows(at, correct, clusters, less=other)


def _qualified(held: _Held, scoring: Scoring, options: Probing, surfaces: Surfaces | None) -> Iterator[Score]:
    """What stands beside the headline's accuracy; each part that cannot be had says so and no more."""
    examples, template = held.examples, held.template
    parts: dict[str, tuple[bool, Any]] = {
        "random_weights": (
            options.controls and bool(scoring.controls),
            lambda: _of_controls(held, scoring, options),
        ),
        "control_task": (
            options.controls and examples.about_tokens,
            lambda: selectivity(held.states, examples, options, template),
        ),
        "ridge": (
            "ridge" in options.probe and bool(np.isfinite(examples.values).any()),
            lambda: numbers(held.states, examples, options, template, surfaces),
        ),
        "mlp": ("mlp" in options.probe, lambda: _hidden(held, options)),
        "curves": (options.curves, lambda: curves(held.states, examples, options, template)),
        "mdl": (options.mdl, lambda: codelength(held.states, examples, options, template)),
    }
    for name, (wanted, rows) in parts.items():
        if not wanted:
            continue
        try:
            yield from rows()
        except InputError as error:
            yield dataclasses.replace(left_out(template, str(error)), control=name)


def _layers(found: Fitted, examples: Examples, template: Score) -> Iterator[Score]:
    clusters = examples.clusters[examples.tested]
    layers = range(len(found.correct))
    accuracy = dataclasses.replace(template, metric="accuracy")
    fields = [_at(found, layer) for layer in layers]
    yield from mean_rows(accuracy, found.correct, clusters, fields)
    best = {"dimensions": (BEST,), **_chosen(found)}
    yield from mean_rows(accuracy, found.chosen(found.correct)[None], clusters, [best])
    valid = np.unique(np.concatenate([parts.valid for parts in examples.folds]))
    held = dataclasses.replace(
        accuracy, split="valid", n=len(valid), n_clusters=len(np.unique(examples.clusters[valid]))
    )
    for field, value in zip(fields, found.valid.tolist(), strict=True):
        yield dataclasses.replace(held, value=value, **field)
    ranked = dataclasses.replace(
        template, metric="layer_rank", n=len(clusters), n_clusters=len(np.unique(clusters))
    )
    for field, value in zip(fields, ranks(-found.correct.mean(axis=1)).tolist(), strict=True):
        yield dataclasses.replace(ranked, value=value, **field)


def _at(found: Fitted, layer: int) -> dict[str, Any]:
    return {"layer": layer, "l2": float(found.l2[layer]), "method": found.kind}


def _chosen(found: Fitted) -> dict[str, Any]:
    """What sets the chosen layer's row apart: with several folds, also how many and the layer of each."""
    folds = {"k": len(found.layers), "fold_layers": tuple(found.layers)} if len(found.layers) > 1 else {}
    return _at(found, found.best) | folds


def _confusion(found: Fitted, examples: Examples, template: Score) -> Iterator[Score]:
    """Of the test examples of a class, the share that each class is said to be, by the chosen layer."""
    test = examples.tested
    classes = np.array(examples.classes, object)
    gold, said = classes[examples.labels[test]], classes[found.chosen(found.predicted)]
    clusters = examples.clusters[test]
    own = dataclasses.replace(template, metric="confusion", layer=found.best)
    for name in examples.classes:
        members, of = gold == name, own.within(("gold", name))
        yield from share_rows(of, said[members], clusters[members], "predicted", examples.classes)


def _hidden(held: _Held, options: Probing) -> Iterator[Score]:
    seeds = [derive_seed("mlp", held.template.seed, number) % 2**32 for number in range(options.seeds)]
    yield from _layers(fit_hidden(held.states, held.examples, seeds, options), held.examples, held.template)


def _of_controls(held: _Held, scoring: Scoring, options: Probing) -> Iterator[Score]:
    loaded: list[ControlStates] = []
    for control in scoring.controls:
        states, rows = _load(control.observations, scoring, held.examples, held.template.pooling, options)
        loaded.append(ControlStates(control.control.seed, control.control.share, states, rows))
    yield from random_weights(held.states, held.examples, loaded, options, held.template)
