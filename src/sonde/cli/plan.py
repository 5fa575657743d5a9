"""``sonde run --plan``: what a run costs and can show, printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sonde.api.cost import CostEstimate, estimate_cost
from sonde.api.outputs import OutputOptions
from sonde.base.errors import UsageError
from sonde.base.progress import Progress
from sonde.base.terminal import print_lines
from sonde.cli.output import CommandOutput
from sonde.experiments import Execution, Experiment
from sonde.experiments.cost import duration
from sonde.experiments.workload import ASSUMED, FACTORS, DetectableEffect, RequiredSample
from sonde.results.tables import Column, Table
from sonde.results.text_format import Format, format_name

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


_THOUSAND = 1000


_NAMES = frozenset({"lens", "model", "task", "code", "number"})


_NUMBER = Format(missing="-", right=True)


def build_plan_output(
    experiment: Experiment, execution: Execution, wanted: OutputOptions, *, trial: bool, progress: Progress
) -> CommandOutput:
    """What ``sonde run --plan`` found.

    Raises:
        UsageError: A share of a run is to be planned.
        SondeError: As for the run.
    """
    if execution.shard:
        raise UsageError(f"--plan is that of the whole run; leave out --shard {execution.shard}")
    found = estimate_cost(experiment, execution, wanted=wanted, trial=trial, progress=progress)
    return CommandOutput(found.data, lambda: print_lines(*_format_plan(found)))


def _format_plan(found: CostEstimate) -> Iterator[str]:
    if found.chosen:
        yield found.chosen.sentence
    there = f", {found.finished_jobs:,} of them in {found.folder} already" if found.finished_jobs else ""
    trainings = f", {found.trainings:,} of them trainings" if found.trainings else ""
    yield f"sample    {found.limit:,} {found.unit}"
    yield f"jobs      {found.jobs:,}{trainings}{there}"
    yield f"inputs    {found.inputs:,} texts of {found.characters:,} characters"
    if found.tokens is not None:
        yield f"tokens    {found.tokens:,} in all texts that jobs read, each read once"
    if found.cost:
        cost = found.cost
        stages = sorted(cost.seconds.items(), key=lambda stage: -stage[1])
        parts = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in stages if seconds >= 1)
        yield f"forwards  {cost.forwards:,}"
        yield (
            f"time      {duration(cost.total)}, {duration(cost.processor_seconds)} of processor time"
            f"{f' ({parts})' if parts else ''}"
        )
        of = " and ".join(f"{one.amount.limit:,}" for one in found.warm_ups)
        took = duration(sum(one.total for one in found.warm_ups))
        yield f"This is from runs with {of} {found.unit}, which loaded the models and took {took}."
    else:
        yield f"Forwards and time are not known: {found.why_no_cost}."
    yield from map(_format_training, found.training)
    yield ""
    yield "What the sample can show: the smallest difference that would be found"
    yield from _build_table([_build_row(effect) for effect in found.shows]).lines(indent=2)
    yield f"Assumed: {ASSUMED}."
    if any(one.deviation is None for one in found.shows):
        yield "Differences in SD are in standard deviations of single items, whose spread is not known yet."


def _format_training(one: Mapping[str, Any]) -> str:
    """What a training takes of memory, counted and not measured."""
    parts = ", ".join(
        f"{words} {format_bytes(one[name])}"
        for name, words in (("weights", "weights"), ("moving", "what moves"), ("states", "states"))
    )
    return (
        f"training  {one['model']}, {one['how']} ({one['trained']:,} of {one['parameters']:,} weights): "
        f"about {format_bytes(one['total'])} on each device ({parts}), with {one['examples']:,} examples "
        f"of at most {one['length']:,} subwords at once"
    )


def _build_table(rows: list[dict[str, str | None]]) -> Table:
    several = len({row["model"] for row in rows}) > 1
    titles = [title for title in rows[0] if several or title != "model"] if rows else []
    columns = [
        Column(title=title, value=title, format=Format() if title in _NAMES else _NUMBER) for title in titles
    ]
    return Table(summary="", columns=columns, rows=rows)


def _build_row(effect: DetectableEffect) -> dict[str, str | None]:
    needed = dict.fromkeys(f"needed for {factor:g}x" for factor in FACTORS)
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
        **needed,
        **dict(zip(needed, map(_format_required_sample, effect.needed), strict=False)),
    }


def format_difference(value: float | None, of: DetectableEffect) -> str | None:
    """A difference in the unit of its number; None where there is none."""
    if value is None:
        return None
    if of.deviation is None:
        return f"{value:.2f} SD"
    return f"{100 * value:.1f} points" if of.share else f"{value:.3g}"


def _format_required_sample(held: RequiredSample) -> str:
    if held.items is not None:
        return f"{held.items:,}"
    return f"{held.clusters:,} clusters" if held.clusters else "no sample"


def format_bytes(held: float) -> str:
    """A number of bytes.

    >>> format_bytes(512), format_bytes(1_234_567_890)
    ('512 bytes', '1.2 GB')
    """
    unit = 0
    while held >= _THOUSAND and unit < len(_UNITS) - 1:
        held, unit = held / _THOUSAND, unit + 1
    return f"{held:,.0f} {_UNITS[unit]}" if unit == 0 or held >= 10 else f"{held:.1f} {_UNITS[unit]}"
