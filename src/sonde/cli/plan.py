"""``sonde run --plan``: what a run costs and can show, printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sonde.api.cost import CostPlan, plan
from sonde.api.outputs import Wanted
from sonde.base.errors import UsageError
from sonde.base.progress import Progress
from sonde.base.terminal import say
from sonde.cli.output import Shown
from sonde.experiments import Execution, Experiment
from sonde.experiments.cost import RunCost
from sonde.experiments.timing import duration
from sonde.experiments.workload import ASSUMED, FACTORS, Needed, Shows
from sonde.results.tables import Column, Table
from sonde.results.text_format import Format, Row, plain_words

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


_THOUSAND = 1000


_NUMBER = Format(missing="-", right=True)


def shown_plan(
    experiment: Experiment, execution: Execution, wanted: Wanted, *, trial: bool, progress: Progress
) -> Shown:
    """What ``sonde run --plan`` found.

    Raises:
        UsageError: A share of a run is to be planned.
        SondeError: As for the run.
    """
    if execution.shard:
        raise UsageError(f"--plan is that of the whole run; leave out --shard {execution.shard}")
    found = plan(experiment, execution, wanted=wanted, trial=trial, progress=progress)
    return Shown(found.data, lambda: say(*_lines(found)))


def _lines(found: CostPlan) -> Iterator[str]:
    if found.chosen:
        yield found.chosen.sentence
    there = f", {found.jobs_there:,} of them in {found.folder} already" if found.jobs_there else ""
    trainings = f", {found.trainings:,} of them trainings" if found.trainings else ""
    yield f"sample    {found.limit:,} {found.unit}"
    yield f"jobs      {found.jobs:,}{trainings}{there}"
    yield f"inputs    {found.inputs:,} texts of {found.characters:,} characters"
    if found.tokens is not None:
        yield f"tokens    {found.tokens:,} in all texts that jobs read, each read once"
    if found.cost:
        yield from _cost(found.cost)
        of = " and ".join(f"{one.amount.limit:,}" for one in found.warm_ups)
        took = duration(sum(one.total for one in found.warm_ups))
        yield f"This is from runs with {of} {found.unit}, which loaded the models and took {took}."
    else:
        yield f"Forwards, disk, memory and time are not known: {found.why_no_cost}."
    yield from map(_training, found.training)
    yield ""
    yield "What the sample can show: the smallest difference that would be found"
    yield from _table(found.shows).lines(indent=2)
    yield f"Assumed: {ASSUMED}."
    if any(one.deviation is None for one in found.shows):
        yield "Differences in SD are in standard deviations of single items, whose spread is not known yet."


def _training(one: Mapping[str, Any]) -> str:
    """What a training takes of memory, counted and not measured."""
    parts = ", ".join(
        f"{words} {size(one[name])}"
        for name, words in (("weights", "weights"), ("moving", "what moves"), ("states", "states"))
    )
    return (
        f"training  {one['model']}, {one['how']} ({one['trained']:,} of {one['parameters']:,} weights): "
        f"about {size(one['total'])} on each device ({parts}), with {one['examples']:,} examples of at most "
        f"{one['length']:,} subwords at once"
    )


def _cost(cost: RunCost) -> Iterator[str]:
    yield f"forwards  {cost.forwards:,}"
    yield f"disk      {size(cost.disk + cost.page)}"
    device = "" if cost.device_memory is None else f"; on the device {size(cost.device_memory)}"
    yield f"memory    {size(cost.memory)} at most at one time, all processes together{device}"
    stages = sorted(cost.seconds.items(), key=lambda one: -one[1])
    parts = ", ".join(f"{stage} {duration(seconds)}" for stage, seconds in stages if seconds >= 1)
    yield (
        f"time      {duration(cost.total)}, {duration(cost.worked)} of processor time"
        f"{f' ({parts})' if parts else ''}"
    )


def _table(rows: tuple[Shows, ...]) -> Table:
    several = len({one.model for one in rows}) > 1
    columns = [
        Column(title="lens", value=lambda row: plain_words(row["of"].lens)),
        *([Column(title="model", value=lambda row: row["of"].model)] if several else []),
        Column(title="task", value=lambda row: plain_words(row["of"].task)),
        Column(title="code", value=lambda row: row["of"].language),
        Column(title="number", value=lambda row: plain_words(row["of"].metric)),
        Column(title="items", value=lambda row: f"{row['of'].items:,}", format=_NUMBER),
        Column(title="effective clusters", value=_effective, format=_NUMBER),
        Column(title="design effect", value=lambda row: f"{row['of'].design_effect:.2f}", format=_NUMBER),
        Column(title="between models", value=_between, format=_NUMBER),
        Column(title="from best control", value=_from_control, format=_NUMBER),
        *(
            Column(title=f"needed for {factor:g}x", value=f"needed {place}", format=_NUMBER)
            for place, factor in enumerate(FACTORS)
        ),
    ]
    return Table(summary="", columns=columns, rows=[_row(one) for one in rows])


def _row(one: Shows) -> dict[str, object]:
    needed = {f"needed {place}": _needed(held) for place, held in enumerate(one.needed)}
    return {"of": one, **{f"needed {place}": None for place in range(len(FACTORS))}, **needed}


def _effective(row: Row) -> str:
    return f"{row['of'].effective_clusters:.1f}"


def _between(row: Row) -> str | None:
    one = row["of"]
    return None if one.detectable is None else difference(one.detectable, one)


def _from_control(row: Row) -> str | None:
    one = row["of"]
    return None if one.from_control is None else difference(one.from_control, one)


def difference(value: float, of: Shows) -> str:
    """A difference in the unit of its number."""
    if of.deviation is None:
        return f"{value:.2f} SD"
    return f"{100 * value:.1f} points" if of.share else f"{value:.3g}"


def _needed(held: Needed) -> str:
    if held.items is not None:
        return f"{held.items:,}"
    return f"{held.clusters:,} clusters" if held.clusters else "no sample"


def size(held: float) -> str:
    """A number of bytes.

    >>> size(512), size(1_234_567_890)
    ('512 bytes', '1.2 GB')
    """
    unit = 0
    while held >= _THOUSAND and unit < len(_UNITS) - 1:
        held, unit = held / _THOUSAND, unit + 1
    return f"{held:,.0f} {_UNITS[unit]}" if unit == 0 or held >= 10 else f"{held:.1f} {_UNITS[unit]}"
