"""Controls of probes: surface baselines, random weights, and labels to learn by heart.

Surface baselines and local cues are fitted to the very examples, and in the very folds, of the probes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.corpora import Item
from sonde.lenses.engine.lens import Control, ScoringContext
from sonde.lenses.probe.data import TOKEN_UNIT
from sonde.lenses.probe.fit import (
    BEST,
    CONTROL_LEAST,
    Examples,
    ResolvedProbeOptions,
    States,
    fit_label_sets,
    fit_probes,
)
from sonde.results import Score, mean_rows, trained_rows
from sonde.tasks import Dataset
from sonde.tasks.engine.surface import predict_local_cues, surface_predictions
from sonde.training.probes.control_tasks import sample_control_labels, split_within_types
from sonde.training.probes.splits import check_folds

CONTROL_TASK = "control_task"
RANDOM_WEIGHTS = "random_weights"
CHOSEN_BASELINE = "chosen_baseline"
SEEN_TYPES = ("types", "seen")
"""Dimension of scores whose test tokens may occur in training, as a control task needs."""


def score_selectivity(
    states: States, examples: Examples, options: ResolvedProbeOptions, template: Score
) -> Iterator[Score]:
    """Score a token task against labels drawn per type, with types dealt to all splits.

    Both are learned from the same tokens by the same probe; what the control task reaches shows how much of
    an accuracy could be learned by heart (Hewitt and Liang 2019).
    """
    folds = split_within_types(examples.types, template.seed, len(examples.folds))
    seeds = [derive_seed("control task", template.seed, number) for number in range(options.seeds)]
    controls = [sample_control_labels(examples.types, examples.labels, seed) for seed in seeds]
    fits = fit_label_sets(states, np.stack([examples.labels, *controls]), examples, folds, options)
    task, control = fits[0], np.mean([fit.correct for fit in fits[1:]], axis=0)
    clusters = examples.clusters[np.concatenate([parts.test for parts in folds])]
    layers = range(len(states))
    template = template.within(SEEN_TYPES)
    accuracy = dataclasses.replace(template, metric="accuracy")
    yield from mean_rows(accuracy, task.correct, clusters, [{"layer": layer} for layer in layers])
    control_template = dataclasses.replace(accuracy, control=CONTROL_TASK)
    yield from mean_rows(control_template, control, clusters, [{"layer": layer} for layer in layers])
    gain = dataclasses.replace(template, metric="selectivity", control=CONTROL_TASK)
    for layer in layers:
        layer_template = dataclasses.replace(gain, layer=layer)
        yield from trained_rows(layer_template, task.correct[layer], clusters, baseline=control[layer])
    best = dataclasses.replace(gain, layer=task.best, dimensions=(BEST,))
    yield from trained_rows(
        best, task.at_best_layer(task.correct), clusters, baseline=task.at_best_layer(control)
    )


def share_of_classes(
    inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], share: float
) -> tuple[str, ...]:
    """Select the inputs for models with random weights: of every class a share by hash.

    Where a source brings its splits, of every class in each of them.

    Args:
        inputs: What the model is shown; a token that is shown alone goes with its function.
        labels: The examples of each task.
        share: The share wanted.

    Returns:
        Their ids, in order.
    """
    read: set[str] = set()
    types: set[str] = set()
    for table in labels.values():
        rows = table[_of_each_class(table, share)]
        read.update(rows["item_id"].to_list())
        types.update(rows["type"].to_list())
    read.update(item.item_id for item in inputs if item.unit == TOKEN_UNIT and item.name in types)
    return tuple(sorted(read))


def _of_each_class(table: pl.DataFrame, share: float) -> list[int]:
    """Return the rows of a share of each class and given split, in order; enough to learn."""
    split = pl.when("given_split").then("split").otherwise(pl.lit(""))
    indices: list[int] = []
    for _, members in table.with_row_index("_row").group_by("label", split.alias("_split")):
        number = max(CONTROL_LEAST, math.ceil(share * members.height))
        rows = members.select("item_id", "type", "_row").rows()
        rows.sort(key=lambda row: (unit_hash("twin", row[0]), row))
        indices += [row for _, _, row in rows[:number]]
    return sorted(indices)


ControlStates = tuple[Control, States, Int[np.ndarray, " row"]]
"""A model with random weights, its states, and the examples that have one."""


def score_random_weights(
    states: States,
    examples: Examples,
    controls: Sequence[ControlStates],
    options: ResolvedProbeOptions,
    template: Score,
) -> Iterator[Score]:
    """Score the model against models with random weights, on the examples that all read.

    A linear probe comes out the same each time, its control does not: another draw of the weights gives other
    states, so the interval of the difference includes the variance over draws as well as over clusters.

    Raises:
        InputError: Those are too few for a probe.
    """
    # What another task had read is in no share of this one: its classes would not be as frequent as here.
    share_text = f"{controls[0][0].share:g}"
    rows = np.array(_of_each_class(examples.frame, controls[0][0].share), dtype=np.int64)
    for _, _, control_rows in controls:
        rows = np.intersect1d(rows, control_rows)
    shared = examples.select(rows)
    label = f"the share {share_text} read by models with random weights"
    try:
        check_folds(examples.task, shared.labels, shared.classes, shared.folds)
    except InputError as error:
        raise InputError(f"{error}; in {label}: raise random_weights_share") from error
    if shared.classes != examples.classes:
        raise InputError(
            f"task {examples.task!r}: {label} lacks a class; raise random_weights_share or the limit"
        )
    real = fit_probes(states[:, rows], shared, options)
    control_fits = [
        fit_probes(control_states[:, np.searchsorted(control_rows, rows)], shared, options)
        for _, control_states, control_rows in controls
    ]
    clusters = shared.clusters[shared.tested_rows]
    share = ("share", share_text)
    accuracy = dataclasses.replace(template, metric="accuracy").within(share)
    yield from mean_rows(accuracy, real.correct, clusters, [{"layer": layer} for layer in range(len(states))])
    for (weights, _, _), control_fit in zip(controls, control_fits, strict=True):
        control = dataclasses.replace(accuracy, control=RANDOM_WEIGHTS, seed=weights.seed)
        yield from mean_rows(
            control, control_fit.correct, clusters, [{"layer": layer} for layer in range(len(states))]
        )
        best = {"layer": control_fit.best, "dimensions": (BEST, share)}
        yield from mean_rows(control, control_fit.at_best_layer(control_fit.correct)[None], clusters, [best])
    best = {"layer": real.best, "dimensions": (BEST, share)}
    yield from mean_rows(accuracy, real.at_best_layer(real.correct)[None], clusters, [best])
    control_hits = np.stack([control_fit.at_best_layer(control_fit.correct) for control_fit in control_fits])
    gain = dataclasses.replace(template, metric="gain", control=RANDOM_WEIGHTS, **best)
    yield from trained_rows(gain, real.at_best_layer(real.correct), clusters, baseline=control_hits)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SurfaceBaselines:
    """Predictions of baselines without a model on a task's examples.

    Attributes:
        correct: Whether each surface baseline is right, by baseline and example.
        chosen: The surface baseline that is the best on validation in the fold that tests an example.
        cues: What local cues say, in `sonde.tasks.engine.surface.CUES_SCHEMA`; no rows for whole functions.
    """

    correct: Mapping[str, Mapping[str, bool]]
    chosen: Mapping[str, str]
    cues: pl.DataFrame

    def baseline_hits(self, examples: Examples) -> dict[str, Bool[np.ndarray, " test"]]:
        """Return the hits of the baselines on the tested ones of some examples."""
        ids = _tested_ids(examples)
        return {
            name: np.array([is_correct[example_id] for example_id in ids], np.bool_)
            for name, is_correct in self.correct.items()
        }

    def to_beat(self, examples: Examples) -> tuple[str, Bool[np.ndarray, " test"]]:
        """Return the baseline to beat on some examples, and its hits.

        Each fold has the baseline that is the best on its validation part, as it has its layer; where these
        differ, what they say together is `CHOSEN_BASELINE`.
        """
        ids = _tested_ids(examples)
        names = [self.chosen[example_id] for example_id in ids]
        right = [self.correct[name][example_id] for name, example_id in zip(names, ids, strict=True)]
        return names[0] if len({*names}) == 1 else CHOSEN_BASELINE, np.array(right, np.bool_)

    def of_cues(self, examples: Examples) -> pl.DataFrame:
        """Return what local cues say of the tested ones of some examples; no rows for whole functions."""
        test_rows = examples.frame[examples.tested_rows].select("example_id")
        return test_rows.join(self.cues, on="example_id", how="inner", maintain_order="left")


def _tested_ids(examples: Examples) -> list[str]:
    return examples.frame[examples.tested_rows]["example_id"].to_list()


def fit_surface_baselines(examples: Examples, scoring: ScoringContext) -> SurfaceBaselines:
    """Fit every surface baseline and local cues to a task's examples, in the very folds of the probes.

    Raises:
        InputError: A part of a fold lacks a class, or there is one only.
    """
    check_folds(examples.task, examples.labels, examples.classes, examples.folds)
    items = _items(examples, scoring)
    data = Dataset(task=examples.task, version="", examples=examples.frame, inputs=())
    folds = [(parts.train, parts.valid, parts.test) for parts in examples.folds]
    table = surface_predictions(data, items, folds)
    correct = {
        str(name): dict(rows.select("example_id", "correct").iter_rows())
        for (name,), rows in table.partition_by("control", as_dict=True).items()
    }
    best_baselines = dict(table.filter("chosen").select("example_id", "control").iter_rows())
    return SurfaceBaselines(correct, best_baselines, predict_local_cues(data, items, folds))


def _items(examples: Examples, scoring: ScoringContext) -> list[Item]:
    ids = examples.frame.select(pl.col("item_id").unique())
    texts = scoring.texts.join(ids.lazy(), on="item_id", how="semi").collect()
    kinds = scoring.items.select("item_id", "language", "unit", "path", "name").unique("item_id")
    rows = texts.select("item_id", "text").unique("item_id").join(kinds, on="item_id")
    return [Item(**row) for row in rows.iter_rows(named=True)]
