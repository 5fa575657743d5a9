"""What a run will cost, from the same run on a few items: pure arithmetic over what was measured.

A run on more items is taken to cost, stage by stage, what does not depend on their number and so much more
for each: the line through two warm-ups. What reads texts grows with their characters, the page with each
doubling of their number, later stages with as many inputs as they read, all else with their number.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sonde.base.errors import InputError, UsageError

START, PAGE, OTHER = "start", "report", "other"
"""Stages beside those of a run: Python and imports until it begins; the page; whatever else there is."""

AGAIN = "observe again"
"""Observing in later stages: what a lens looks at more closely once its scores are there."""

_BY_CHARACTERS = frozenset({"label", "observe"})

_WHATEVER_IS_READ = frozenset({START, "select", OTHER})
"""Stages that take as long for few items as for many: a corpus is read as a whole."""

_MOSTLY_FIXED = _WHATEVER_IS_READ | {"draw", PAGE}
"""Those that are, for the first guess from one warm-up."""

FEWEST, FEWEST_DRAWN = 16, 128
"""Items of the first warm-up; of data sets, whose classes each need some examples."""

_STEP = 8
"""The second warm-up has at most so many times the items of the first, and so does each further one."""

_FAR = 8
"""Where a run has more than so many times the items of the last warm-up, another one is worth its time."""

_A_SHARE = 4
"""No warm-up but a run's own size reads more than one of so many items."""

_LEAST_STEP, _FIRM_STEP = 2, 4
"""From one warm-up to the next at least so many times the items; the second where that is cheap. Two that lie
as far apart say how a run grows from there on."""

_SAME_MEMORY = 0.03
"""Of the memory of one run, as much as that of another may differ though it reads no more at a time."""

_LEAST_SHOWN = 0.05
"""Seconds of a stage below which it is not mentioned."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much a run reads.

    Attributes:
        limit: At most this many items a task and language, as ``--limit`` says it.
        inputs: Distinct texts that are read.
        characters: Their characters.
        again: Inputs that later stages read, as far as the lenses say beforehand.
    """

    limit: int
    inputs: int
    characters: int
    again: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """What a run of some size took, or is expected to take.

    Attributes:
        amount: What it read.
        seconds: Time by stage, which add up to that of the whole command.
        processor: Processor time by stage, of all processes together.
        memory: Bytes that all processes together held at most at one time.
        device_memory: Bytes on an accelerator; None where there is none.
        disk: Bytes of the run's folder without its page.
        page: Bytes of its page.
        forwards: Inputs that were forwarded, variants of a text counted each.
    """

    amount: Amount
    seconds: Mapping[str, float]
    processor: Mapping[str, float]
    memory: int
    disk: int
    forwards: int
    page: int = 0
    device_memory: int | None = None

    @property
    def total(self) -> float:
        """Seconds of the whole command."""
        return sum(self.seconds.values())

    @property
    def worked(self) -> float:
        """Processor seconds of the whole command."""
        return sum(self.processor.values())

    def left(self, known: frozenset[str] = frozenset({START})) -> float:
        """Seconds of the same in a process that has done some stages already."""
        return sum(seconds for stage, seconds in self.seconds.items() if stage not in known)


def expected(measured: Sequence[RunCost], amount: Amount) -> RunCost:
    """What a run of some size is expected to take.

    Processor time is what grows evenly; other work on the machine stretches it, and is taken to stretch each
    stage as it did in all warm-ups together.

    Args:
        measured: Warm-ups, the smallest first; the last speaks of what grows with the one before it, where
            they lie far enough apart, else with the first: not all that scoring does is there in few items.
        amount: The size of the run.
    """
    small, large = measured[0], measured[-1]
    near = measured[max(0, len(measured) - 2)]
    if large.amount.inputs < _FIRM_STEP * near.amount.inputs:
        near = small

    def grown(of: Callable[[RunCost], float], by: Callable[[Amount], float], below: RunCost = small) -> float:
        return _line((by(below.amount), of(below)), (by(large.amount), of(large)), by(amount))

    def inputs(of: Amount) -> int:
        return of.inputs

    def characters(of: Amount) -> int:
        return of.characters

    def again(of: Amount) -> int:
        return of.again

    def doublings(of: Amount) -> float:
        # A chart shows at most so many points, and a table so many rows.
        return math.log2(max(1, of.inputs))

    def of_stage(stage: str, of: Callable[[RunCost], Mapping[str, float]]) -> float:
        if stage in _WHATEVER_IS_READ:
            return statistics.fmean(of(one).get(stage, 0.0) for one in measured)
        ways = {PAGE: doublings, AGAIN: again, **dict.fromkeys(_BY_CHARACTERS, characters)}
        by = ways.get(stage, inputs)
        return grown(lambda one: of(one).get(stage, 0.0), by, near)

    stages = dict.fromkeys([*small.seconds, *large.seconds])
    worked = {stage: of_stage(stage, lambda one: one.processor) for stage in stages}
    seconds = {
        stage: worked[stage] * stretch
        if (stretch := _stretched(measured, stage))
        else of_stage(stage, lambda one: one.seconds)
        for stage in stages
    }
    device = None
    if large.device_memory is not None:
        device = round(
            grown(lambda one: _beyond_noise(one.device_memory or 0, small.device_memory or 0), inputs)
        )
    return RunCost(
        amount=amount,
        seconds=seconds,
        processor=worked,
        memory=round(grown(lambda one: _beyond_noise(one.memory, small.memory), inputs)),
        disk=round(grown(lambda one: one.disk, inputs)),
        page=round(grown(lambda one: one.page, doublings)),
        forwards=round(grown(lambda one: one.forwards, lambda of: of.inputs + of.again)),
        device_memory=device,
    )


def _stretched(measured: Sequence[RunCost], stage: str) -> float:
    """Seconds that pass for each that a processor works; 0 where none does."""
    worked = sum(one.processor.get(stage, 0.0) for one in measured)
    return sum(one.seconds.get(stage, 0.0) for one in measured) / worked if worked > 0 else 0.0


def _beyond_noise(held: int, before: int) -> float:
    """Bytes that a warm-up held, less what differs from the first one by chance alone."""
    return before + max(0.0, held - before - _SAME_MEMORY * before)


def _line(small: tuple[float, float], large: tuple[float, float], at: float) -> float:
    """The value of the line through two points; more never takes less."""
    slope = max(0.0, (large[1] - small[1]) / (large[0] - small[0])) if large[0] > small[0] else 0.0
    return max(0.0, large[1] + slope * (at - large[0]))


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Warm-ups that were done, and what else they told.

    Attributes:
        measured: The smallest first.
    """

    measured: tuple[RunCost, ...] = field(default=())

    @property
    def seconds(self) -> float:
        """What they took together."""
        return sum(one.total for one in self.measured)


def warm_up(
    measure: Callable[[int], RunCost],
    wanted: int,
    allowance: float,
    *,
    first: int = FEWEST,
    most: float = float("inf"),
) -> WarmUp:
    """Measure a run on a few items, and on more as long as that is worth its time.

    The first two are measured in any case, so that a line goes through them.

    Args:
        measure: Carries the run out with a limit.
        wanted: The limit of the run that is to be foretold; one that is small enough is measured itself.
        allowance: Seconds that warm-ups may take together, apart from the first two.
        first: The limit of the first; a larger one where no data set is that small.
        most: Seconds after which no further one is begun.

    Raises:
        SondeError: Not even the run itself can be carried out.
    """
    done = WarmUp((_first(measure, min(first, wanted), wanted),))
    while (limit := _next(done, wanted, allowance)) and done.seconds < most:
        done = WarmUp((*done.measured, measure(limit)))
    return done


def _first(measure: Callable[[int], RunCost], limit: int, wanted: int) -> RunCost:
    """The smallest run that there can be: a data set needs some examples of every class."""
    while True:
        try:
            return measure(limit)
        except (InputError, UsageError):
            if limit == wanted:
                raise
            limit = min(_A_SHARE * limit, wanted)


def _next(done: WarmUp, wanted: int, allowance: float) -> int:
    """The limit of the next warm-up; 0 where the run is known well enough, or time is up."""
    measured, last = done.measured, done.measured[-1]
    limit = last.amount.limit
    if limit >= wanted or (len(measured) > 1 and wanted <= _FAR * limit):
        return 0
    most = wanted if wanted <= _LEAST_STEP * limit else max(_LEAST_STEP * limit, wanted // _A_SHARE)
    if len(measured) == 1:
        # How much of the first depends on the items is not known yet: as if all that may did.
        growing = last.left(_MOSTLY_FIXED)
        room = (allowance - 2 * last.total + growing) / max(growing, 1e-9)
        # What differs by chance between two warm-ups grows with the distance to the run: a larger step is
        # worth its time, which is judged by processor time, as a busy machine needs it most.
        worked = sum(last.processor.get(stage, 0.0) for stage in last.seconds if stage not in _MOSTLY_FIXED)
        least = _FIRM_STEP if _FIRM_STEP * worked <= allowance else _LEAST_STEP
        return min(wanted, round(max(least * limit, min(most, _STEP * limit, limit * room))))
    room = allowance - done.seconds
    fits = largest(
        lambda one: expected(measured, _times(last.amount, one)).total <= room,
        limit,
        min(most, _STEP * _STEP * limit),
    )
    return fits if fits >= _LEAST_STEP * limit else 0


def _times(amount: Amount, limit: int) -> Amount:
    """As much as another limit gives, if all items are alike."""
    factor = limit / amount.limit
    more = (amount.inputs, amount.characters, amount.again)
    return Amount(limit, *(round(factor * number) for number in more))


def largest(fits: Callable[[int], bool], least: int, most: int) -> int:
    """The largest number that fits, where all smaller ones do as well; 0 where not even the least does.

    >>> largest(lambda number: number**2 <= 1_000, 1, 100)
    31
    """
    if not fits(least):
        return 0
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def rounded(cost: RunCost) -> dict[str, object]:
    """A cost as plain data, without digits that nobody believes."""
    return {
        **dataclasses.asdict(cost.amount),
        "seconds": round(cost.total, 1),
        "by_stage": _seconds(cost.seconds),
        "processor_seconds": round(cost.worked, 1),
        "processor_by_stage": _seconds(cost.processor),
        "memory_bytes": cost.memory,
        "device_memory_bytes": cost.device_memory,
        "disk_bytes": cost.disk + cost.page,
        "forwards": cost.forwards,
    }


def _seconds(by_stage: Mapping[str, float]) -> dict[str, float]:
    return {stage: round(seconds, 1) for stage, seconds in by_stage.items() if seconds >= _LEAST_SHOWN}
