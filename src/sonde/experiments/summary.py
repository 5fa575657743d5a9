"""``run.json``: what was asked, what it resolved to, what was skipped, and on what it ran."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sonde.base.fingerprint import fingerprint
from sonde.corpora import ItemSet
from sonde.experiments._experiment import as_json
from sonde.experiments._outcome import Session
from sonde.experiments.lens_choice import LensChoice
from sonde.experiments.plan import ModelChoice, ObserveJob, Reading, TrainJob
from sonde.experiments.provenance import hardware, versions
from sonde.experiments.replication import replicated
from sonde.models import describe, describe_special
from sonde.store.cache import CACHED
from sonde.store.parts import PartStore
from sonde.store.rundir import slug


def summarise(
    session: Session,
    sets: Sequence[ItemSet],
    models: Sequence[ModelChoice],
    lenses: Sequence[LensChoice],
    readings: Sequence[Reading],
) -> dict[str, Any]:
    """The content of ``run.json`` apart from timings."""
    experiment, execution, outcome = session.experiment, session.execution, session.outcome
    coverage, forwards = _counts(models, outcome.jobs, outcome.trainings, session.store)
    reading = _readings(models, outcome.jobs, session.store)
    return {
        "name": execution.output.name,
        "fingerprint": fingerprint(experiment),
        "arguments": as_json(experiment),
        "execution": {
            "executor": execution.executor,
            "workers": execution.workers,
            "device": execution.device,
            "device_map": execution.device_map,
            "dtype": execution.dtype,
            "trust_remote_code": execution.trust_remote_code,
        },
        **({"budget": dict(execution.chosen)} if execution.chosen else {}),
        **({"published": published} if (published := replicated(experiment)) else {}),
        "models": [{**_model(model, sets), "reading": reading[model.name]} for model in models],
        "lenses": [dataclasses.asdict(lens) for lens in lenses],
        "corpus": [
            _corpus(chosen, language, readings)
            for chosen in sets
            for language in sorted(
                {reading.group.language for reading in readings if reading.group.corpus == chosen.corpus}
            )
        ],
        "mode": experiment.mode,
        "quirks": sorted({quirk for lens in lenses for quirk in lens.quirks}),
        "seed": experiment.seed,
        "versions": versions(),
        "hardware": hardware(),
        "alignment": coverage,
        "forwards": forwards,
        "refused": [dataclasses.asdict(refused) for refused in outcome.refused],
        "data_sets": outcome.data_sets,
        "scores_key": outcome.scores_key,
    }


def _corpus(chosen: ItemSet, language: str, readings: Sequence[Reading]) -> dict[str, Any]:
    items = [item for item in chosen.items if item.language == language]
    # Where all that is shown was derived from files, as prompts are, the clusters are theirs.
    items = items or [
        item
        for reading in readings
        if (reading.group.corpus, reading.group.language) == (chosen.corpus, language)
        for item in reading.inputs
    ]
    return {
        "name": chosen.corpus,
        "hash": chosen.corpus_hash,
        "language": language,
        "items": len(items),
        "files": len({item.path for item in items}),
        "clusters": len({item.cluster for item in items}),
        "found": chosen.found,
        "left_out": dict(chosen.left_out),
        "skipped": {reason: count for reason, count in chosen.intake.counts.most_common() if count},
        "examples": chosen.intake.examples,
    }


def _model(model: ModelChoice, sets: Sequence[ItemSet]) -> dict[str, Any]:
    total = sum(len(chosen.items) for chosen in sets)
    return {
        "name": model.name,
        "slug": slug(model.name),
        "revision": model.revision,
        "device": model.spec.device,
        "dtype": model.spec.dtype,
        **dataclasses.asdict(describe(model.spec)),
        "special": dataclasses.asdict(describe_special(model.spec)),
        "seen": len(model.seen),
        "items": total - len(model.seen),
    }


def _counts(
    models: Sequence[ModelChoice],
    jobs: Sequence[ObserveJob],
    trainings: Sequence[TrainJob],
    store: PartStore,
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Alignment coverage by model and forward passes, added up from the notes of the parts."""
    coverage = {slug(model.name): Counter[str]() for model in models}
    names = {model.spec: slug(model.name) for model in models}
    forwards: Counter[str] = Counter()
    for job in jobs:
        notes = store.notes(job.parts[0].relative, job.parts[0].key) or {}
        # Random-weights controls and later stages read the same inputs again.
        if job.model in names and not job.parts[0].lens.stage:
            coverage[names[job.model]].update(notes.get("coverage", {}))
        read = (
            {"inputs from the cache": len(job.item_ids)} if notes.get(CACHED) else notes.get("forwards", {})
        )
        forwards.update(read)
    for training in trainings:
        forwards.update((store.notes(training.part.relative, training.part.key) or {}).get("forwards", {}))
    return {name: dict(counts) for name, counts in coverage.items()}, dict(forwards)


def _readings(
    models: Sequence[ModelChoice], jobs: Sequence[ObserveJob], store: PartStore
) -> dict[str, dict[str, Any]]:
    """In which precision each model was read, and how near its attention is to eager attention."""
    found: dict[str, dict[str, Any]] = {model.name: {} for model in models}
    names = {model.spec: model.name for model in models}
    for job in jobs:
        for part in job.parts if job.model in names else ():
            notes = store.notes(part.relative, part.key) or {}
            into, mine = found[names[job.model]], notes.get("reading", {})
            # Each job loads the model by itself: the largest difference counts.
            most = max(into.get("difference", 0.0), mine.get("difference", 0.0))
            into |= mine | ({"difference": most} if "difference" in {**into, **mine} else {})
    return found
