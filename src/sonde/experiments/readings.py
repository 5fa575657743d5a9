"""What each lens reads: the items of a group with their labels, made once before any model is loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sonde.base.fingerprint import fingerprint
from sonde.experiments._progress import Progress
from sonde.experiments.labels import read_labels, write_labels
from sonde.experiments.plan import Answer, Group, LensChoice, Reading, settings_of
from sonde.lenses import LENSES
from sonde.stats.scores import Score
from sonde.store.parts import PartStore


def readings_of(
    lenses: Sequence[LensChoice], groups: Sequence[Group], store: PartStore, progress: Progress
) -> list[Reading]:
    """Label the groups for the lenses, and say what each lens reads of each group."""
    tasks = sorted({(task, lens.mode) for lens in lenses for task in lens.tasks})
    readings: list[Reading] = []
    with progress.stage("labelling", len(tasks) * len(groups)) as advance:
        for group in groups:
            rules: dict[str, str] = {}
            for mode in sorted({mode for _, mode in tasks}):
                named = [task for task, other in tasks if other == mode]
                rules |= write_labels(store, named, group, mode, advance)
            readings += [_reading(lens, group, rules, store) for lens in lenses]
    return readings


def _reading(lens: LensChoice, group: Group, rules: dict[str, str], store: PartStore) -> Reading:
    reader, settings = LENSES.load(lens.name), settings_of(lens)
    labels = {task: read_labels(store, task, group) for task in lens.tasks}
    return Reading(
        lens=lens,
        group=group,
        inputs=tuple(reader.inputs(group.items, labels, settings)),
        labels=fingerprint("labels", [rules[task] for task in lens.tasks]),
        twins=reader.twins(settings),
    )


def follow_ups(answers: Sequence[Answer], scores: Mapping[str, Sequence[Score]]) -> list[Reading]:
    """What the lenses want to look at more closely, model by model, now that the scores are there."""
    more: list[Reading] = []
    for answer in answers:
        reading, lens = answer.reading, answer.reading.lens
        found = LENSES.load(lens.name).follow_up(scores[answer.key], settings_of(lens))
        if found is not None:
            next_stage = dataclasses.replace(lens, stage=lens.stage + 1, found=tuple(sorted(found.items())))
            more.append(dataclasses.replace(reading, lens=next_stage, twins=(), model=answer.model.name))
    return more
