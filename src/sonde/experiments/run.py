"""Carrying an experiment out: settle, read, plan, observe, train, score; what is there already is skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.children import safe_children
from sonde.base.errors import InputError, SondeError, StoreError
from sonde.base.fingerprint import fingerprint
from sonde.experiments._experiment import Execution, Experiment
from sonde.experiments._outcome import Outcome, Session
from sonde.experiments._progress import Progress, Silent
from sonde.experiments.checks import Readable
from sonde.experiments.comparing import compare, compared_before, default_output, write_comparison
from sonde.experiments.costs import AGAIN
from sonde.experiments.lens_choice import LensChoice
from sonde.experiments.observing import observe
from sonde.experiments.plan import ModelChoice, ObserveJob, Reading, TrainJob
from sonde.experiments.readings import follow_ups
from sonde.experiments.scoring import score_all, write_scores
from sonde.experiments.settled import planned, read_by_models, settled
from sonde.experiments.shards import check_merged, observe_share
from sonde.experiments.summary import summarise
from sonde.experiments.train import train
from sonde.lenses import LENSES
from sonde.results.scores import Score
from sonde.store.lock import held
from sonde.store.parts import PartStore


@safe_children()
def run(experiment: Experiment, execution: Execution, progress: Progress | None = None) -> Outcome:
    """Carry an experiment out, or go on where an earlier call stood.

    Every stage writes atomically under a key of everything that can change it, so that a run killed at any
    moment and started again ends with the scores of an undisturbed one.

    Raises:
        SondeError: One line for a person; whatever was finished is kept.
    """
    session, lenses, able = settled(experiment, execution, progress or Silent())
    with held(session.outcome.directory.root):
        return _carried_out(session, lenses, able)


def _carried_out(session: Session, lenses: Sequence[LensChoice], able: Readable) -> Outcome:
    """What `run` does once it is known that it can be done."""
    experiment, store, outcome = session.experiment, session.store, session.outcome
    directory = outcome.directory
    before = _summary_before(outcome)
    if before and before.get("fingerprint") != fingerprint(experiment):
        session.progress.note(
            f"{directory.root} holds another experiment: what fits is used again, its scores and page are "
            "replaced"
        )
    readings, sets, models = read_by_models(session, lenses, able)
    outcome.readings = tuple(readings)
    for model in models:
        if model.seen:
            session.progress.note(
                f"{model.name}: {len(model.seen):,} inputs were in its training data and are left out "
                "(--include-seen takes them in)"
            )
    if session.execution.shard:
        observe_share(session, planned(session, models, readings))
        return outcome
    scores = _scores(session, models, readings)
    outcome.scores_key = write_scores(store, scores)
    _drop_stale(store, [*outcome.jobs, *outcome.trainings])
    outcome.damaged += store.damaged
    for relative in outcome.damaged:
        session.progress.note(f"{relative} was damaged and has been computed again")
    summary = summarise(session, sets, models, lenses, readings)
    directory.write_summary(summary | _times(outcome, before))
    for choice in lenses:
        outcome.files += LENSES.load(choice.source).write_files(directory)
    if len(models) > 1:
        _compare(session)
    return outcome


def _compare(session: Session) -> None:
    """Hold the models of a run against its first; what cannot be compared costs nothing else."""
    outcome = session.outcome
    folder = default_output([outcome.directory.root])
    if compared_before(folder) == outcome.scores_key:
        return
    try:
        found = compare([outcome.directory.root], session.progress)
        write_comparison(found, folder, of=outcome.scores_key)
    except SondeError as error:
        session.progress.note(f"the models were not compared: {error}")


def _scores(
    session: Session, models: Sequence[ModelChoice], readings: Sequence[Reading]
) -> dict[str, list[Score]]:
    """Observe, train and score what is read, and then whatever the lenses want to look at more closely."""
    outcome = session.outcome
    scores: dict[str, list[Score]] = {}
    while readings:
        stage = planned(session, models, readings)
        if not scores:
            check_merged(session.execution.merges, stage)
        outcome.jobs += stage.jobs
        observe(session, stage.jobs, AGAIN if scores else "observe")
        if stage.trainings:
            train(session, stage.trainings)
        with outcome.timed("score"), session.progress.stage("scoring", len(stage.answers)) as advance:
            found = score_all(session.store, stage.answers, session.execution, advance)
        scores |= found
        readings = follow_ups(session.store, stage.answers, found)
    return scores


def _summary_before(outcome: Outcome) -> Mapping[str, Any]:
    """What an earlier run left in the folder; nothing where there is none, or it is not what was written."""
    try:
        return outcome.directory.read_summary()
    except StoreError:
        outcome.damaged.append(outcome.directory.summary.name)
    except InputError:
        pass
    return {}


def _times(outcome: Outcome, before: Mapping[str, Any]) -> dict[str, Any]:
    """``timing`` of the run that computed; a run that found all there already has its own beside it."""
    computing = before.get("timing")
    if outcome.observed or outcome.trained or not isinstance(computing, dict):
        return {"timing": outcome.seconds}
    scored = {} if before.get("scores_key") == outcome.scores_key else {"score": outcome.seconds["score"]}
    return {"timing": {**computing, **scored}, "timing_of_rerun": outcome.seconds}


def _drop_stale(store: PartStore, jobs: Sequence[ObserveJob | TrainJob]) -> None:
    """Remove parts of earlier plans, so that the folder holds what the scores are about and nothing else."""
    planned = {part.relative for job in jobs for part in job.parts}
    for folder in {Path(relative).parent.as_posix() for relative in planned}:
        store.keep_only(folder, planned)
