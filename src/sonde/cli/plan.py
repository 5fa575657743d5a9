"""``sonde run --plan``: what a run costs and can show, printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sonde.api.cost import CostEstimate, estimate_cost
from sonde.api.outputs import OutputOptions
from sonde.base.errors import UsageError
from sonde.base.formatting import duration, format_bytes, format_name
from sonde.base.progress import Progress
from sonde.base.terminal import print_lines
from sonde.cli.output import CommandOutput
from sonde.experiments import Execution, Experiment
from sonde.experiments.cost import RunCost
from sonde.experiments.workload import ASSUMED, FACTORS, DetectableEffect, RequiredSample
from sonde.results.tables import Column, Table
from sonde.results.text_format import Format, Row

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
        yield from _format_cost(found.cost)
        of = " and ".join(f"{one.amount.limit:,}" for one in found.warm_ups)
        took = duration(sum(one.total for one in found.warm_ups))
        yield f"This is from runs with {of} {found.unit}, which loaded the models and took {took}."
    else:
        yield f"Forwards, disk, memory and time are not known: {found.why_no_cost}."
    yield from map(_format_training, found.training)
    yield ""
    yield "What the sample can show: the smallest difference that would be found"
    yield from _build_table(found.shows).lines(indent=2)
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


def _format_cost(cost: RunCost) -> Iterator[str]:
    yield f"forwards  {cost.forwards:,}"
    yield f"disk      {format_bytes(cost.disk + cost.page)}"
    device = "" if cost.device_memory is None else f"; on the device {format_bytes(cost.device_memory)}"
    yield f"memory    {format_bytes(cost.memory)} at most at one time, all processes together{device}"
    stages = sorted(cost.seconds.items(), key=lambda one: -one[1])
    parts = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in stages if seconds >= 1)
    yield (
        f"time      {duration(cost.total)}, {duration(cost.processor_seconds)} of processor time"
        f"{f' ({parts})' if parts else ''}"
    )


def _build_table(rows: tuple[DetectableEffect, ...]) -> Table:
    several = len({one.model for one in rows}) > 1
    columns = [
        Column(title="lens", value=lambda row: format_name(row["of"].lens)),
        *([Column(title="model", value=lambda row: row["of"].model)] if several else []),
        Column(title="task", value=lambda row: format_name(row["of"].task)),
        Column(title="code", value=lambda row: row["of"].language),
        Column(title="number", value=lambda row: format_name(row["of"].metric)),
        Column(title="items", value=lambda row: f"{row['of'].items:,}", format=_NUMBER),
        Column(title="effective clusters", value=_format_clusters, format=_NUMBER),
        Column(title="design effect", value=lambda row: f"{row['of'].design_effect:.2f}", format=_NUMBER),
        Column(title="between models", value=_format_model_difference, format=_NUMBER),
        Column(title="from best control", value=_format_control_difference, format=_NUMBER),
        *(
            Column(title=f"needed for {factor:g}x", value=f"needed {place}", format=_NUMBER)
            for place, factor in enumerate(FACTORS)
        ),
    ]
    return Table(summary="", columns=columns, rows=[_build_row(one) for one in rows])


def _build_row(one: DetectableEffect) -> dict[str, object]:
    needed = {f"needed {place}": _format_required_sample(held) for place, held in enumerate(one.needed)}
    return {"of": one, **{f"needed {place}": None for place in range(len(FACTORS))}, **needed}


def _format_clusters(row: Row) -> str:
    return f"{row['of'].effective_clusters:.1f}"


def _format_model_difference(row: Row) -> str | None:
    one = row["of"]
    return None if one.detectable is None else format_difference(one.detectable, one)


def _format_control_difference(row: Row) -> str | None:
    one = row["of"]
    return None if one.from_control is None else format_difference(one.from_control, one)


def format_difference(value: float, of: DetectableEffect) -> str:
    """A difference in the unit of its number."""
    if of.deviation is None:
        return f"{value:.2f} SD"
    return f"{100 * value:.1f} points" if of.share else f"{value:.3g}"


def _format_required_sample(held: RequiredSample) -> str:
    if held.items is not None:
        return f"{held.items:,}"
    return f"{held.clusters:,} clusters" if held.clusters else "no sample"
