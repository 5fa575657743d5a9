"""What each lens reads: the items of a group with their labels, made once before any model is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.corpora import Intake, Selection, read_items
from sonde.experiments._experiment import Experiment
from sonde.experiments._progress import Progress
from sonde.experiments.drawing import DEFAULT_SIZE, DataSets, Refused, draw, unseen
from sonde.experiments.labels import read_labels, write_labels
from sonde.experiments.plan import Group, LensChoice, Reading, ScoringJob, settings_of
from sonde.lenses import LENSES, LensSettings, Method, TrainingLens, reading_lens
from sonde.results.scores import Score
from sonde.store.parts import PartStore
from sonde.tasks import TASKS, effective_clusters, lack_of_clusters, more_clusters

_PATHS = ("cluster", "path")


@dataclass(frozen=True, slots=True)
class RunReadings:
    """What the lenses of a run read.

    Attributes:
        readings: One a lens and group.
        refused: Tasks that gave no data set.
        data_sets: What each data set says of itself, by group and task.
    """

    readings: list[Reading]
    refused: list[Refused]
    data_sets: dict[str, Mapping[str, Any]]


def read_items_of(
    lenses: Sequence[LensChoice],
    groups: Sequence[Group],
    selection: Selection,
    store: PartStore,
    progress: Progress,
) -> list[Reading]:
    """Label the groups for lenses that read the items, and say what each reads of each group."""
    tasks = sorted({(task, lens.mode, lens.quirks) for lens in lenses for task in lens.tasks})
    readings: list[Reading] = []
    with progress.stage("labelling", len(tasks) * len(groups)) as advance:
        for group in groups:
            rules = {
                task: write_labels(store, task, group, mode, quirks, advance) for task, mode, quirks in tasks
            }
            readings += [_reading(lens, group, rules, store) for lens in lenses]
    for group in groups:
        if lack := _lack_of_clusters(group, selection):
            progress.note(f"{group.corpus} in {group.language}: {lack}")
    return readings


def _lack_of_clusters(group: Group, selection: Selection) -> str:
    """Why no verdict can come of the items of a group, and what would help; empty where one can."""
    paths = pl.DataFrame([(item.cluster, item.path) for item in group.items], _PATHS, orient="row")
    count = len(group.items)
    remedies = more_clusters(
        group.corpus,
        group.language,
        limited=selection.limit is not None and count >= selection.limit,
        files=paths if selection.unit == "function" else None,
    )
    return lack_of_clusters({f"{count:,} {selection.unit}s": effective_clusters(paths)}, remedies)


def read_drawn(
    lenses: Sequence[LensChoice],
    pools: Sequence[Group],
    experiment: Experiment,
    store: PartStore,
    progress: Progress,
    workers: int,
) -> RunReadings:
    """Draw the data sets of lenses that ask for them, and say what each reads of each pool."""
    size = experiment.selection.limit or DEFAULT_SIZE
    read = RunReadings([], [], {})
    for pool in pools:
        items = list(pool.items) if experiment.include_seen else unseen(pool)
        if left := len(pool.items) - len(items):
            progress.note(
                f"{pool.corpus}: {left:,} of {len(pool.items):,} {pool.language} functions are in the "
                "training data of a bundled model and in no data set (--include-seen takes them in)"
            )
        for lens in lenses:
            drawn = draw(lens, pool, items, size, store, progress, workers=workers)
            read.readings.append(_drawn_reading(lens, pool, drawn, store, progress))
            read.refused.extend(drawn.refused)
            read.data_sets[f"{lens.name}/{pool.prefix}"] = drawn.reports
    return read


def _drawn_reading(
    lens: LensChoice, pool: Group, drawn: DataSets, store: PartStore, progress: Progress
) -> Reading:
    able = dataclasses.replace(lens, tasks=drawn.tasks)
    reader, settings = LENSES.load(lens.source), settings_of(lens)
    if isinstance(reader, TrainingLens):
        methods = _trained_on(reader, drawn, settings, pool.language)
        return Reading(lens=able, group=pool, inputs=drawn.inputs, labels=drawn.key, methods=methods)
    reader = reading_lens(lens.source)
    labels = {task: read_labels(store, task, pool) for task in drawn.tasks}
    inputs = tuple(reader.inputs(drawn.inputs, labels, settings))
    if about := reader.about_inputs(inputs, labels, settings):
        progress.note(f"{lens.name}: {about}")
    return Reading(
        lens=able,
        group=pool,
        inputs=inputs,
        labels=drawn.key,
        controls=reader.controls_over(inputs, labels, settings),
    )


def _trained_on(
    lens: TrainingLens, drawn: DataSets, settings: LensSettings, language: str
) -> dict[Method, str]:
    """Every method with the fingerprint of what it is trained on."""
    methods = lens.methods(drawn.tasks, settings)
    named = {
        method: [str(value) for option, value in method.options if option in lens.corpus_options and value]
        for method in methods
    }
    held = {corpus: _contents(corpus, language) for corpus in sorted(set(chain(*named.values())))}
    return {
        method: fingerprint("beside", drawn.keys[method.task], [held[corpus] for corpus in named[method]])
        if named[method]
        else drawn.keys[method.task]
        for method in methods
    }


def _contents(corpus: str, language: str) -> str:
    """Fingerprint of a corpus's functions, whose ids are hashes of their texts."""
    items = {(item.item_id, item.cluster) for item in read_items(corpus, Intake(), languages=(language,))}
    return fingerprint("contents", sorted(items))


def _reading(lens: LensChoice, group: Group, rules: dict[str, str], store: PartStore) -> Reading:
    reader, settings = reading_lens(lens.source), settings_of(lens)
    rule = fingerprint("labels", [rules[task] for task in lens.tasks])
    lens = dataclasses.replace(lens, tasks=tuple(map(TASKS.public, lens.tasks)))
    labels = {task: read_labels(store, task, group) for task in lens.tasks}
    inputs = tuple(reader.inputs(group.items, labels, settings))
    return Reading(
        lens=lens,
        group=group,
        inputs=inputs,
        labels=rule,
        controls=reader.controls_over(inputs, labels, settings),
    )


def follow_ups(answers: Sequence[ScoringJob], scores: Mapping[str, Sequence[Score]]) -> list[Reading]:
    """What the lenses want to look at more closely, model by model, now that the scores are there."""
    more: list[Reading] = []
    for answer in answers:
        reading, lens = answer.reading, answer.reading.lens
        if reading.methods:
            continue
        found = reading_lens(lens.source).follow_up(scores[answer.key], settings_of(lens))
        if found is not None:
            next_stage = dataclasses.replace(lens, stage=lens.stage + 1, found=tuple(sorted(found.items())))
            more.append(
                dataclasses.replace(reading, lens=next_stage, controls=(), models=(answer.model.name,))
            )
    return more
