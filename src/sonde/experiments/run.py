"""Carrying a plan out: select, label, observe, score; each stage skips what the folder already holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sonde.base.errors import UsageError
from sonde.base.fingerprint import fingerprint
from sonde.corpora import ItemSet, select
from sonde.executors import EXECUTORS
from sonde.experiments._experiment import Execution, Experiment
from sonde.experiments._outcome import Outcome
from sonde.experiments._progress import Progress, Silent
from sonde.experiments.choices import components, lens_choices, model_choices, refuse_early
from sonde.experiments.labels import write_labels
from sonde.experiments.observe import observe_job
from sonde.experiments.plan import Group, LensChoice, ObserveJob, label_name, plan
from sonde.experiments.scoring import score_all
from sonde.experiments.summary import summarise
from sonde.experiments.tables import items_frame
from sonde.store.parts import PartStore
from sonde.store.rundir import RunDirectory


def run(experiment: Experiment, execution: Execution, progress: Progress | None = None) -> Outcome:
    """Carry an experiment out, or go on where an earlier call stood.

    Every stage writes atomically under a key of everything that can change it, so that a run killed at any
    moment and started again ends with the scores of an undisturbed one.

    Raises:
        SondeError: One line for a person; whatever was finished is kept.
    """
    progress = progress or Silent()
    directory = RunDirectory(execution.output)
    store = PartStore(execution.output)
    outcome = Outcome(directory)
    lenses = lens_choices(experiment)
    refuse_early(experiment, execution)
    with outcome.timed("select"):
        sets = _select(experiment, execution, progress)
        groups = _groups(sets)
        _write_items(store, sets)
    models = model_choices(experiment, execution, groups)
    with outcome.timed("label"):
        label_rules = _label(store, lenses, groups, progress)
    versions = {group.language: components(group.language) for group in groups}
    jobs = outcome.jobs = plan(directory, groups, models, lenses, label_rules, versions)
    with outcome.timed("observe"):
        _observe(jobs, execution, progress, outcome)
    _drop_stale(store, jobs)
    questions = len(models) * len(lenses) * len(groups)
    with outcome.timed("score"), progress.stage("scoring", questions) as advance:
        outcome.scores_key = score_all(store, jobs, groups, models, lenses, advance)
    outcome.damaged += store.damaged
    for relative in outcome.damaged:
        progress.note(f"{relative} was damaged and has been computed again")
    summary = summarise(experiment, execution, sets, models, lenses, jobs, store)
    directory.write_summary(summary | {"scores_key": outcome.scores_key, "timing": outcome.seconds})
    return outcome


def _select(experiment: Experiment, execution: Execution, progress: Progress) -> list[ItemSet]:
    if execution.lock is not None and len(experiment.corpora) != 1:
        raise UsageError(f"--lock fixes the items of one corpus, but {len(experiment.corpora)} are named")
    with progress.stage("reading", len(experiment.corpora)) as advance:
        sets: list[ItemSet] = []
        for corpus in experiment.corpora:
            sets.append(select(corpus, experiment.selection, execution.lock))
            advance()
    return sets


def _groups(sets: Sequence[ItemSet]) -> tuple[Group, ...]:
    groups: list[Group] = []
    for chosen in sets:
        for language in sorted({item.language for item in chosen.items}):
            mine = tuple(item for item in chosen.items if item.language == language)
            groups.append(
                Group(corpus=chosen.corpus, corpus_hash=chosen.corpus_hash, language=language, items=mine)
            )
    return tuple(groups)


def _write_items(store: PartStore, sets: Sequence[ItemSet]) -> None:
    key = fingerprint("items", [(chosen.corpus, [item.item_id for item in chosen.items]) for chosen in sets])
    if store.notes("items.parquet", key) is None:
        store.put("items.parquet", key, items_frame((chosen.corpus, chosen.items) for chosen in sets), {})


def _label(
    store: PartStore, lenses: Sequence[LensChoice], groups: Sequence[Group], progress: Progress
) -> dict[str, str]:
    tasks = sorted({task for lens in lenses for task in lens.tasks})
    rules: dict[str, str] = {}
    with progress.stage("labelling", len(tasks) * len(groups)) as advance:
        for group in groups:
            for task, rule in write_labels(store, tasks, group, advance).items():
                rules[label_name(task, group)] = rule
    return rules


def _observe(jobs: Sequence[ObserveJob], execution: Execution, progress: Progress, outcome: Outcome) -> None:
    executor = EXECUTORS.load(execution.executor)
    with progress.stage("observing", sum(len(job.item_ids) for job in jobs)) as advance:
        for job, observed in executor.map(observe_job, jobs, workers=execution.workers):
            if observed.computed:
                outcome.observed += len(job.item_ids)
            else:
                outcome.reused += len(job.item_ids)
            outcome.damaged += observed.damaged
            advance(len(job.item_ids))


def _drop_stale(store: PartStore, jobs: Sequence[ObserveJob]) -> None:
    """Remove parts of earlier plans, so that the folder holds what the scores are about and nothing else."""
    planned = {part.relative for job in jobs for part in job.parts}
    for folder in {Path(relative).parent.as_posix() for relative in planned}:
        store.keep_only(folder, planned)
