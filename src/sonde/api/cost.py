"""Cost and power of a run before it begins: ``sonde run --plan``.

A plan takes the first steps of the run in a folder that is thrown away: it reads, labels, draws and counts.
Some inputs of each kind are timed, as a run does before its first job. If that leaves time, the first inputs
of each lens that reads items are observed and scored, which tells the spread of single items. Accuracies have
a largest spread, which needs no trial. The memory of model trainings is estimated before any weight is read.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.process import safe_path_environment
from sonde.base.progress import NullProgress, Progress
from sonde.experiments import Execution, Experiment
from sonde.experiments.experiment import get_lens_settings
from sonde.experiments.inputs import RunInputs, plan_stage, read_inputs, resolve_experiment
from sonde.experiments.observe import has_tables, time_models
from sonde.experiments.plan import LensInput, ObserveJob, TrainJob
from sonde.experiments.power import (
    ASSUMPTIONS,
    DetectableEffect,
    Question,
    Row,
    compute_detectable_effects,
    count_subwords,
    find_cluster_designs,
)
from sonde.experiments.progress import Session
from sonde.experiments.resolve import uses_datasets
from sonde.experiments.run import observe_and_score
from sonde.experiments.score import write_scores
from sonde.lenses import LENSES
from sonde.lenses.finetune.options import LENS, PRETRAINED, SCRATCH, FinetuneOptions
from sonde.models.engine.files import uses_server
from sonde.report import RunData, answer_by_task
from sonde.results.headlines import HeadlineMetric
from sonde.stats.power import ClusterDesign
from sonde.store.remote import fetch_folder


def estimate_training_memory(jobs: Iterable[TrainJob]) -> tuple[Mapping[str, Any], ...]:
    """Estimate the memory of each model and way of training.

    Args:
        jobs: Trainings; those of models count, baselines are small.

    Returns:
        ``model, how, total, weights, moving, states, examples, length`` of each.
    """
    from sonde.models import resolve_auto
    from sonde.training.finetune.memory import estimate_memory
    from sonde.training.precision import uses_bfloat16

    estimates: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for job in jobs:
        if job.part.lens.name != LENS or uses_server(job.model):
            continue
        options = dict(job.method.options)
        if job.method.name not in (PRETRAINED, SCRATCH) or options.get("as_saved"):
            continue
        settings = get_lens_settings(job.part.lens.observation_lens)
        settings = dataclasses.replace(settings, options={**settings.options, **options})
        recipe = FinetuneOptions.read(settings.options).recipe(settings)
        spec = resolve_auto(job.model)
        import torch

        half_precision = uses_bfloat16(recipe.precision, torch.device(spec.device))
        memory = estimate_memory(spec, recipe, half_precision=half_precision)
        method = f"LoRA of rank {recipe.lora_rank}" if recipe.lora_rank else "all weights"
        method = "only the head" if recipe.frozen else method
        key = (spec.name, method, memory, recipe.length)
        estimates[key] = {
            "model": spec.name,
            "how": method,
            "length": recipe.length,
            **dataclasses.asdict(memory),
            "total": memory.total,
        }
    return tuple(estimates.values())


_TRIAL_ITEMS = 16
"""Inputs of each lens that are scored for the spread."""


_TRIAL_SHARE, _TRIAL_SECONDS = 0.1, 10.0
"""A trial takes at most so many seconds, or this share of the time of the run if that is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Cost and power of a run.

    Attributes:
        folder: Where it would lie.
        jobs: Observations and trainings.
        trainings: Trainings among them.
        finished_jobs: Those whose tables the folder holds already.
        inputs: Distinct texts that are read.
        characters: Their characters.
        tokens: Subwords that jobs read of texts as they are; None where a server cuts them.
        seconds: What each stage takes from nothing: those that the plan went through itself, and the
            observations of the first stage; empty without a trial.
        forecasts: The time of each model's observations in words.
        effects: What the sample can show.
        no_trial_reason: Why nothing was tried; empty where it was.
        training: What trainings of models take of memory; see `estimate_training_memory`.
    """

    folder: Path
    jobs: int
    trainings: int
    finished_jobs: int
    inputs: int
    characters: int
    tokens: int | None
    seconds: Mapping[str, float]
    forecasts: Sequence[str]
    effects: Sequence[DetectableEffect]
    no_trial_reason: str
    training: Sequence[Mapping[str, Any]]

    @property
    def data(self) -> dict[str, Any]:
        """Convert to plain data."""
        return {
            "folder": str(self.folder),
            "jobs": self.jobs,
            "trainings": self.trainings,
            "jobs_there": self.finished_jobs,
            "inputs": self.inputs,
            "characters": self.characters,
            "tokens": self.tokens,
            "seconds": {stage: round(seconds, 1) for stage, seconds in self.seconds.items()},
            "why_no_time": self.no_trial_reason,
            "shows": [dataclasses.asdict(effect) for effect in self.effects],
            "assumed": ASSUMPTIONS,
            "training": [dict(memory) for memory in self.training],
        }


def estimate_cost(
    experiment: Experiment, execution: Execution, *, trial: bool = True, progress: Progress | None = None
) -> CostEstimate:
    """Estimate the cost and power of a run; nothing of it is kept.

    Args:
        experiment: What would be measured.
        execution: How and where.
        trial: Whether a few inputs are read, which loads the models, to know time and spread.
        progress: Shows the progress.

    Raises:
        SondeError: As for the run: what cannot be run cannot be planned.
    """
    with tempfile.TemporaryDirectory(prefix="sonde-plan-") as folder, safe_path_environment():
        session = resolve_experiment(
            experiment, dataclasses.replace(execution, output=Path(folder)), progress or NullProgress()
        )
        inputs = read_inputs(session)
        readings = inputs.readings
        plan = plan_stage(session, inputs.models, readings)
        reason = _no_trial_reason(inputs) if trial else "--no-trial leaves the trial out"
        answers: Sequence[tuple[Row, Row | None]] = ()
        trial_designs: Mapping[Question, ClusterDesign] = {}
        forecasts: list[str] = []
        stage_seconds: dict[str, float] = {}
        if not reason:
            begin = time.monotonic()
            forecasts, seconds = time_models(plan.jobs, execution)
            stage_seconds = {**session.outcome.seconds, "observe": seconds}
            allowed = max(_TRIAL_SECONDS, _TRIAL_SHARE * sum(stage_seconds.values()))
            few = _select_few(inputs)
            share = _count_inputs(plan_stage(session, inputs.models, few).jobs) / _count_inputs(plan.jobs)
            if few and seconds * share * execution.workers <= allowed - (time.monotonic() - begin):
                answers, trial_designs = _score_few(session, inputs, few)
        texts = {
            (lens_input.group.corpus, item.item_id): item.text
            for lens_input in readings
            for item in lens_input.inputs
        }
        output = _existing_folder(execution.output)
        jobs = [dataclasses.replace(job, root=str(output)) for job in (*plan.jobs, *plan.trainings)]
        designs = find_cluster_designs(readings, session.store)
        return CostEstimate(
            folder=execution.output,
            jobs=len(jobs),
            trainings=len(plan.trainings),
            finished_jobs=sum(map(has_tables, jobs)),
            inputs=len(texts),
            characters=sum(map(len, texts.values())),
            tokens=count_subwords(inputs, plan),
            seconds=stage_seconds,
            forecasts=forecasts,
            effects=compute_detectable_effects(answers, trial_designs, designs, _find_headlines(readings)),
            no_trial_reason=reason,
            training=estimate_training_memory(plan.trainings),
        )


def _no_trial_reason(inputs: RunInputs) -> str:
    """Return the reason to try nothing; empty if there is none."""
    server = next((model.name for model in inputs.models if uses_server(model.spec)), "")
    return f"{server} runs on a server, where a trial would cost tokens" if server else ""


def _find_headlines(readings: Iterable[LensInput]) -> dict[str, HeadlineMetric]:
    """Return the declared headline of each lens that does not train, by lens."""
    lenses = {
        reading.lens.name: LENSES.load(reading.lens.source) for reading in readings if not reading.methods
    }
    return {name: lens.headline for name, lens in lenses.items() if lens.headline is not None}


def _select_few(inputs: RunInputs) -> tuple[LensInput, ...]:
    """Select the first inputs of each lens that reads items.

    Nothing of lenses that train, nor of those that draw data sets: their classes need many examples, and
    fitting takes longer than reading.
    """
    return tuple(
        dataclasses.replace(reading, inputs=reading.inputs[:_TRIAL_ITEMS])
        for reading in inputs.readings
        if not reading.methods and not uses_datasets(reading.lens)
    )


def _count_inputs(jobs: Iterable[ObserveJob]) -> int:
    return max(1, sum(len(job.item_ids) for job in jobs))


def _score_few(
    session: Session, inputs: RunInputs, few: Sequence[LensInput]
) -> tuple[Sequence[tuple[Row, Row | None]], Mapping[Question, ClusterDesign]]:
    """Observe and score a few inputs of each lens, in the folder of the plan.

    Returns:
        The rows of scores that speak for each lens and task, each with the paired difference to the best
        control (None without one), and how the items fell into clusters. Nothing if so few inputs cannot be
        scored.
    """
    # On this machine, whatever the run would use, and without notes, which would read as the run's own.
    execution = dataclasses.replace(session.execution, executor="local", workers=1)
    trial = dataclasses.replace(session, execution=execution, progress=NullProgress())
    try:
        scores = observe_and_score(trial, dataclasses.replace(inputs, readings=tuple(few)))
    except (InputError, UsageError):
        return (), {}
    if not any(scores.values()):
        return (), {}
    write_scores(trial.store, scores)
    trial.outcome.directory.write_summary({})
    answers = answer_by_task(RunData(trial.outcome.directory.root))
    return [(answer.row, answer.gain) for answer in answers], find_cluster_designs(few, trial.store)


def _existing_folder(output: Path) -> Path:
    """Return the folder of finished tables, also of an address."""
    try:
        return fetch_folder(output)
    except InputError:
        # Nothing has begun there.
        return output
