"""Carrying a plan out: select, label, observe, score; each stage skips what the folder already holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError
from sonde.base.fingerprint import fingerprint
from sonde.corpora import Item, ItemSet
from sonde.executors import EXECUTORS
from sonde.executors.local import kept_processes
from sonde.experiments._experiment import Execution, Experiment
from sonde.experiments._forecast import Forecast, measured_first, training
from sonde.experiments._outcome import Outcome
from sonde.experiments._progress import Progress, Silent
from sonde.experiments.checks import Readable, check_names, readable
from sonde.experiments.choices import components, lens_choices, model_choices, settled_options
from sonde.experiments.drawing import pool_selection
from sonde.experiments.observing import is_there, observe
from sonde.experiments.overrides import with_current_names
from sonde.experiments.plan import (
    Group,
    LensChoice,
    ObserveJob,
    Reading,
    TrainJob,
    identity,
    plan,
    settings_of,
)
from sonde.experiments.readings import follow_ups, read_drawn, read_items_of
from sonde.experiments.scoring import score_all, write_scores
from sonde.experiments.selecting import behind_files, groups_of, select_items, survey_files
from sonde.experiments.summary import summarise
from sonde.experiments.tables import items_frame
from sonde.experiments.train import train_job
from sonde.lenses import LENSES, reading_lens
from sonde.results.scores import Score
from sonde.store.lock import held
from sonde.store.parts import PartStore
from sonde.store.rundir import RunDirectory
from sonde.tasks import TASKS, DrawingTask


def run(experiment: Experiment, execution: Execution, progress: Progress | None = None) -> Outcome:
    """Carry an experiment out, or go on where an earlier call stood.

    Every stage writes atomically under a key of everything that can change it, so that a run killed at any
    moment and started again ends with the scores of an undisturbed one.

    Raises:
        SondeError: One line for a person; whatever was finished is kept.
    """
    progress = progress or Silent()
    directory = RunDirectory(execution.output)
    outcome = Outcome(directory)
    experiment, notices = with_current_names(experiment)
    for notice in notices:
        progress.note(notice)
    lenses = lens_choices(experiment)
    check_names(experiment, execution, lenses)
    able = readable(lenses, experiment, execution)
    lenses = settled_options(lenses, able.by_lens)
    outcome.refused += able.left_out
    for refused in able.left_out:
        progress.note(f"{refused.model} is left out of the lens {refused.lens}: {refused.reason}")
    with held(directory.root):
        return _carried_out(experiment, execution, lenses, able, outcome, progress)


def _carried_out(
    experiment: Experiment,
    execution: Execution,
    lenses: Sequence[LensChoice],
    able: Readable,
    outcome: Outcome,
    progress: Progress,
) -> Outcome:
    """What `run` does once it is known that it can be done."""
    directory, store = outcome.directory, PartStore(execution.output)
    before = _summary_before(directory)
    if before and before.get("fingerprint") != fingerprint(experiment):
        progress.note(
            f"{directory.root} holds another experiment: what fits is used again, its scores and page are "
            "replaced"
        )
    readings, sets = _readings(experiment, execution, lenses, store, progress, outcome)
    readings = [
        dataclasses.replace(reading, models=tuple(able.by_lens[reading.lens.name])) for reading in readings
    ]
    models = model_choices(experiment, execution, readings, able.models)
    for model in models:
        if model.seen:
            progress.note(
                f"{model.name}: {len(model.seen):,} inputs were in its training data and are left out "
                "(--include-seen takes them in)"
            )
    languages = {reading.group.language for reading in readings}
    versions = {language: components(language) for language in sorted(languages)}
    scores: dict[str, list[Score]] = {}
    shown = readings
    while readings:
        stage = plan(directory, models, readings, versions)
        outcome.jobs += stage.jobs
        with outcome.timed("observe"):
            observe(stage.jobs, execution, progress, outcome)
        if stage.trainings:
            with outcome.timed("train"):
                _train(stage.trainings, execution, progress, outcome)
        with outcome.timed("score"), progress.stage("scoring", len(stage.answers)) as advance:
            found = score_all(store, stage.answers, advance)
        scores |= found
        readings = follow_ups(stage.answers, found)
    outcome.scores_key = write_scores(store, scores)
    _drop_stale(store, [*outcome.jobs, *outcome.trainings])
    outcome.damaged += store.damaged
    for relative in outcome.damaged:
        progress.note(f"{relative} was damaged and has been computed again")
    summary = summarise(experiment, execution, sets, models, lenses, shown, outcome.jobs, store)
    directory.write_summary(
        summary
        | {
            "refused": [dataclasses.asdict(refused) for refused in outcome.refused],
            "data_sets": outcome.data_sets,
            "scores_key": outcome.scores_key,
            **_times(outcome, before),
        }
    )
    for choice in lenses:
        outcome.files += LENSES.load(choice.source).write_files(directory)
    return outcome


def _summary_before(directory: RunDirectory) -> Mapping[str, Any]:
    """What an earlier run left in the folder; nothing where there is none or it cannot be read."""
    try:
        return directory.read_summary()
    except InputError:
        return {}


def _times(outcome: Outcome, before: Mapping[str, Any]) -> dict[str, Any]:
    """``timing`` of the run that computed; a run that found all there already has its own beside it."""
    computing = before.get("timing")
    if outcome.observed or outcome.trained or not isinstance(computing, dict):
        return {"timing": outcome.seconds}
    scored = {} if before.get("scores_key") == outcome.scores_key else {"score": outcome.seconds["score"]}
    return {"timing": {**computing, **scored}, "timing_of_rerun": outcome.seconds}


def _readings(
    experiment: Experiment,
    execution: Execution,
    lenses: Sequence[LensChoice],
    store: PartStore,
    progress: Progress,
    outcome: Outcome,
) -> tuple[list[Reading], list[ItemSet]]:
    """What the lenses are shown, and the items of the corpora among it."""
    reading = [lens for lens in lenses if not LENSES.load(lens.source).draws]
    drawing = [lens for lens in lenses if lens not in reading]
    from_files = [lens for lens in drawing if _reads_files(lens)]
    from_functions = [lens for lens in drawing if lens not in from_files]
    chosen, corpora = experiment.selection, experiment.corpora
    readings: list[Reading] = []
    sets: list[ItemSet] = []
    if reading:
        with outcome.timed("select"):
            items = select_items(corpora, chosen, execution.lock, progress)
            if any(reading_lens(lens.source).reads_before(settings_of(lens)) for lens in reading):
                items = [behind_files(one) for one in items]
        with outcome.timed("label"):
            readings += read_items_of(reading, groups_of(items), chosen, store, progress)
        sets += items
    if from_functions:
        with outcome.timed("select"):
            pools = select_items(corpora, pool_selection(chosen), execution.lock, progress)
        readings += _drawn(from_functions, groups_of(pools), experiment, execution, store, progress, outcome)
        sets += pools
    if from_files:
        with outcome.timed("select"):
            files, groups = survey_files(corpora, chosen, progress)
        readings += _drawn(from_files, groups, experiment, execution, store, progress, outcome)
        sets += files
    return readings, _write_inputs(store, sets, readings)


def _reads_files(lens: LensChoice) -> bool:
    return all(isinstance(TASKS.load(task), DrawingTask) for task in lens.tasks)


def _drawn(
    lenses: Sequence[LensChoice],
    pools: Sequence[Group],
    experiment: Experiment,
    execution: Execution,
    store: PartStore,
    progress: Progress,
    outcome: Outcome,
) -> list[Reading]:
    with outcome.timed("draw"), kept_processes(execution.light_workers):
        drawn = read_drawn(lenses, pools, experiment, store, progress, execution.light_workers)
    outcome.refused += drawn.refused
    outcome.data_sets |= drawn.data_sets
    return drawn.readings


def _write_inputs(store: PartStore, sets: Sequence[ItemSet], readings: Sequence[Reading]) -> list[ItemSet]:
    """Write what the lenses read: items of the corpora, and apart from them what tasks derived.

    Returns:
        The sets with the items that are read.
    """
    inputs = {(reading.group.corpus, item.item_id): item for reading in readings for item in reading.inputs}
    used: dict[str, ItemSet] = {}
    for chosen in sets:
        items = [item for item in chosen.items if inputs.pop((chosen.corpus, item.item_id), None)]
        before = used[chosen.corpus].items if chosen.corpus in used else ()
        used[chosen.corpus] = dataclasses.replace(chosen, items=(*before, *items))
    derived: dict[str, list[Item]] = {chosen.corpus: [] for chosen in sets}
    for (corpus, _), item in inputs.items():
        derived[corpus].append(item)
    _write_table(store, "items.parquet", [(name, chosen.items) for name, chosen in used.items()])
    _write_table(store, "inputs.parquet", list(derived.items()))
    return list(used.values())


def _write_table(store: PartStore, name: str, corpora: Sequence[tuple[str, Sequence[Item]]]) -> None:
    key = fingerprint(name, [(corpus, [identity(item) for item in items]) for corpus, items in corpora])
    if store.notes(name, key) is None:
        store.put(name, key, items_frame(corpora), {})


def _train(jobs: Sequence[TrainJob], execution: Execution, progress: Progress, outcome: Outcome) -> None:
    outcome.trainings += tuple(jobs)
    executor = EXECUTORS.load(execution.executor)
    jobs = measured_first(jobs, training)
    forecast = Forecast("training", "run", [training(job) for job in jobs], execution.workers)
    for job in filter(is_there, jobs):
        forecast.done(training(job), None)
    for line in forecast.planned():
        progress.note(line)
    with progress.stage("training", len(jobs)) as advance:
        for job, seconds in executor.map(train_job, jobs, workers=execution.workers):
            outcome.trained += seconds is not None
            if seconds is not None and (line := forecast.done(training(job), seconds)):
                progress.note(line)
            advance()


def _drop_stale(store: PartStore, jobs: Sequence[ObserveJob | TrainJob]) -> None:
    """Remove parts of earlier plans, so that the folder holds what the scores are about and nothing else."""
    planned = {part.relative for job in jobs for part in job.parts}
    for folder in {Path(relative).parent.as_posix() for relative in planned}:
        store.keep_only(folder, planned)
