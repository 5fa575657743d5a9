"""How long a run will take, estimated from the first jobs of each kind before most of it is done."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sonde.experiments.plan import ObserveJob, TrainJob

_JOBS, _SECONDS = 2, 10.0
"""A kind of work is measured by so many jobs, or by fewer that took so long."""

_WORTH_SAYING = 10.0
"""Seconds: what is over sooner needs no estimate."""

Job = TypeVar("Job")
_Kind = tuple[str, frozenset[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job as an estimate sees it.

    Attributes:
        subject: What the work is summed by: the name of a model.
        does: What is done with each input: names of lenses, or of what is trained.
        where: Corpus and language: inputs of one take equally long.
        size: How many inputs.
        control: Whether it belongs to a control of the subject, which is as fast.
    """

    subject: str
    does: frozenset[str]
    where: str
    size: int
    control: bool = False


class Forecast:
    """Gives one line for each subject, as soon as every kind of its work has been measured.

    Args:
        verb: What is done, for example ``"observing"``.
        unit: What it is done with, for example ``"input"``.
        works: All jobs.
        workers: Jobs at a time.
    """

    def __init__(self, verb: str, unit: str, works: Sequence[Work], workers: int) -> None:
        self._verb, self._unit = verb, unit
        self._workers = max(1, min(workers, len(works)))
        self._open: defaultdict[str, list[Work]] = defaultdict(list)
        for work in works:
            self._open[work.subject].append(work)
        self._planned = {subject: tuple(mine) for subject, mine in self._open.items()}
        self._jobs: Counter[_Kind] = Counter()
        self._size: Counter[_Kind] = Counter()
        self._seconds: defaultdict[_Kind, float] = defaultdict(float)
        self._there: Counter[str] = Counter()
        self._said: set[str] = set()

    def planned(self) -> list[str]:
        """One line a subject on what there is to do, for before the first job is done."""
        return [
            f"{self._verb} {sum(work.size for work in works):,} {self._unit}s with {subject}"
            f"{self._parts(subject)}; how long it takes is said when the first are done"
            for subject, works in self._planned.items()
        ]

    def done(self, work: Work, seconds: float | None) -> str:
        """Take in a finished job, and give the line of its subject when it can be said; else nothing.

        Args:
            work: The job.
            seconds: What it took; None where its results were there already.
        """
        self._open[work.subject].remove(work)
        if seconds is None:
            self._there[work.subject] += work.size
            return ""
        kind = _kind(work)
        self._jobs[kind] += 1
        self._size[kind] += work.size
        self._seconds[kind] += seconds
        if work.subject in self._said or not self._is_measured(work.subject):
            return ""
        self._said.add(work.subject)
        return self._line(work.subject)

    def _is_measured(self, subject: str) -> bool:
        return all(
            self._jobs[kind] >= _JOBS or self._seconds[kind] >= _SECONDS
            for kind in {_kind(work) for work in self._open[subject] if not work.control}
        )

    def _line(self, subject: str) -> str:
        left = self._open[subject]
        seconds = sum(work.size * self._pace(work) for work in left) / self._workers
        if seconds < _WORTH_SAYING:
            return ""
        pace = sum(work.size for work in left) / seconds
        planned = sum(work.size for work in self._planned[subject]) - self._there[subject]
        first = sum(size for kind, size in self._size.items() if kind[0] == subject)
        return (
            f"{self._verb} {planned:,} {self._unit}s with {subject}{self._parts(subject)}: about "
            f"{duration(seconds)} left at {self._speed(pace)} (estimated from the first {first:,})"
            f"{self._others(pace)}"
        )

    def _parts(self, subject: str) -> str:
        """How many inputs are for which lenses, and for controls; nothing where all are for the same."""
        sizes: Counter[str] = Counter()
        for work in self._planned[subject]:
            sizes["controls" if work.control else " and ".join(sorted(work.does))] += work.size
        parts = ", ".join(f"{what} {size:,}" for what, size in sorted(sizes.items(), key=lambda one: -one[1]))
        return f" ({parts})" if len(sizes) > 1 else ""

    def _speed(self, pace: float) -> str:
        if pace >= 1.5:
            return f"{pace:,.0f} {self._unit}s a second"
        return f"one {self._unit} every {duration(1 / pace)}"

    def _others(self, pace: float) -> str:
        """What comes after it with other subjects."""
        later = [work for other, mine in self._open.items() if other not in self._said for work in mine]
        if not later:
            return ""
        names = ", ".join(dict.fromkeys(work.subject for work in later))
        size = sum(work.size for work in later)
        return f"; then {size:,} with {names}, another {duration(size / pace)} if as fast"

    def _pace(self, work: Work) -> float:
        """Seconds an input: of its kind, else of the kinds that do the same and more, else of all."""
        kinds = [_kind(work)] if self._size[_kind(work)] else []
        mine = [kind for kind in self._size if kind[0] == work.subject and self._size[kind]]
        kinds = kinds or [kind for kind in mine if kind[1] >= work.does] or mine
        return sum(self._seconds[kind] for kind in kinds) / sum(self._size[kind] for kind in kinds)


def duration(seconds: float) -> str:
    """A time to plan by.

    >>> duration(44.4), duration(660), duration(9_000)
    ('44 s', '11 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"


def measured_first(jobs: Sequence[Job], work_of: Callable[[Job], Work]) -> list[Job]:
    """The jobs of each subject in their order, but for two of each kind that go before the others."""
    order: dict[tuple[str, bool], list[tuple[bool, Job]]] = {}
    begun: Counter[_Kind] = Counter()
    for job in jobs:
        work = work_of(job)
        kind = _kind(work)
        # Controls are as fast as their subject and need other weights: they are not asked first.
        later = work.control or begun[kind] >= _JOBS
        begun[kind] += not later
        order.setdefault((work.subject, work.control), []).append((later, job))
    return [job for mine in order.values() for _, job in sorted(mine, key=lambda entry: entry[0])]


def _kind(work: Work) -> _Kind:
    return work.subject, work.does, work.where


def observing(job: ObserveJob) -> Work:
    """An observation: what its lenses do with its items."""
    model = job.model
    return Work(
        subject=f"{model.name}@{model.revision}" if model.revision else model.name,
        does=frozenset(part.lens.name for part in job.parts),
        where=f"{job.corpus} {job.language}",
        size=len(job.item_ids),
        control=model.reinitialise is not None,
    )


def training(job: TrainJob) -> Work:
    """A training run."""
    return Work(subject=job.model.name, does=frozenset({job.arm.name}), where=job.corpus, size=1)
