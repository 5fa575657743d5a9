"""``sonde run --plan``: what a run costs and can show, printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sonde.api.cost import CostEstimate, estimate_cost
from sonde.base.errors import UsageError
from sonde.base.formatting import duration, format_bytes, format_name, plural
from sonde.base.progress import Progress
from sonde.base.terminal import print_lines
from sonde.cli.output import CommandOutput
from sonde.experiments import Execution, Experiment
from sonde.experiments.power import ASSUMPTIONS, FACTORS, DetectableEffect, RequiredSample
from sonde.results.tables import Column, Table
from sonde.results.text_format import Format

_NAMES = frozenset({"lens", "model", "task", "code", "number"})


_NUMBER = Format(missing="-", right=True)


def build_plan_output(
    experiment: Experiment, execution: Execution, *, trial: bool, progress: Progress
) -> CommandOutput:
    """Build the output of ``sonde run --plan``.

    Raises:
        UsageError: A share of a run, or a run within a budget, is to be planned.
        SondeError: As for the run.
    """
    for flag, value in (("--shard", execution.shard), ("--budget", execution.budget)):
        if value:
            raise UsageError(f"--plan covers the whole run; leave out {flag} {value}")
    estimate = estimate_cost(experiment, execution, trial=trial, progress=progress)
    return CommandOutput(estimate.data, lambda: print_lines(*_format_plan(estimate)))


def _format_plan(estimate: CostEstimate) -> Iterator[str]:
    finished_clause = (
        f", {estimate.finished_jobs:,} of them already in {estimate.folder}" if estimate.finished_jobs else ""
    )
    trainings = f" (of which {plural(estimate.trainings, 'training')})" if estimate.trainings else ""
    yield f"jobs      {estimate.jobs:,}{trainings}{finished_clause}"
    yield f"inputs    {plural(estimate.inputs, 'text')} of {plural(estimate.characters, 'character')}"
    if estimate.tokens is not None:
        yield f"tokens    {estimate.tokens:,} in the texts that jobs read; each text counted once"
    if estimate.no_trial_reason:
        yield f"No estimate of time: {estimate.no_trial_reason}."
    else:
        stages = sorted(estimate.seconds.items(), key=lambda stage: -stage[1])
        parts = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in stages if seconds >= 1)
        total = duration(sum(estimate.seconds.values()))
        end = "trainings" if estimate.trainings else "scores"
        yield f"time      {total}{f' ({parts})' if parts else ''} until {end} begin"
        yield from estimate.forecasts
    if estimate.trainings:
        yield "The run estimates the time of trainings after the first ones."
    yield from map(_format_training, estimate.training)
    yield ""
    yield "Power: the smallest difference that this sample can detect"
    yield from _build_table([_build_row(effect) for effect in estimate.effects]).lines(indent=2)
    yield f"Assumed: {ASSUMPTIONS}."
    if any(effect.deviation is not None and effect.value is None for effect in estimate.effects):
        yield "Accuracies that were not tried are taken as 50 %, where their spread is largest."
    if any(effect.deviation is None for effect in estimate.effects):
        yield "Differences in SD are in standard deviations of single items, which are still unknown."


def _format_training(memory: Mapping[str, Any]) -> str:
    """Format the estimated memory of a training."""
    parts = ", ".join(
        f"{words} {format_bytes(memory[name])}"
        for name, words in (("weights", "weights"), ("moving", "what moves"), ("states", "states"))
    )
    return (
        f"training  {memory['model']}, {memory['how']} ({memory['trained']:,} of {memory['parameters']:,} "
        f"weights): about {format_bytes(memory['total'])} on each device ({parts}), with "
        f"{memory['examples']:,} examples of at most {memory['length']:,} subwords at once"
    )


def _build_table(rows: list[dict[str, str | None]]) -> Table:
    shows_models = len({row["model"] for row in rows}) > 1
    titles = [title for title in rows[0] if shows_models or title != "model"] if rows else []
    columns = [
        Column(title=title, value=title, format=Format() if title in _NAMES else _NUMBER) for title in titles
    ]
    return Table(summary="", columns=columns, rows=rows)


def _build_row(effect: DetectableEffect) -> dict[str, str | None]:
    required_samples = dict.fromkeys(f"needed for {factor:g}x" for factor in FACTORS)
    return {
        "lens": format_name(effect.lens),
        "model": effect.model,
        "task": format_name(effect.task),
        "code": effect.language,
        "number": format_name(effect.metric),
        "items": f"{effect.items:,}",
        "effective clusters": f"{effect.effective_clusters:.1f}",
        "design effect": f"{effect.design_effect:.2f}",
        "between models": format_difference(effect.detectable, effect),
        "from best control": format_difference(effect.from_control, effect),
        **required_samples,
        **dict(zip(required_samples, map(_format_required_sample, effect.needed), strict=False)),
    }


def format_difference(value: float | None, effect: DetectableEffect) -> str | None:
    """Format a difference in the unit of its metric; None without one."""
    if value is None:
        return None
    if effect.deviation is None:
        return f"{value:.2f} SD"
    return f"{100 * value:.1f} points" if effect.share else f"{value:.3g}"


def _format_required_sample(sample: RequiredSample) -> str:
    if sample.items is not None:
        return f"{sample.items:,}"
    return f"{sample.clusters:,} clusters" if sample.clusters else "no sample"
