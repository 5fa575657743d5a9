"""Time that a run takes to observe or train, from a few inputs that are tried or from its first jobs."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sonde.base.formatting import duration
from sonde.experiments.plan import ObserveJob, TrainJob

_JOBS, _SECONDS = 2, 10.0
"""A kind of work is measured by so many jobs, or by fewer that took so long."""


_MINIMUM_SECONDS = 10.0
"""Seconds: what is over sooner needs no estimate."""


WORTH_A_TRIAL = 512
"""Inputs of a kind below which its first jobs are a large part of it anyway."""


Job = TypeVar("Job")


_Kind = tuple[str, frozenset[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProfile:
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
    """Gives one line for each subject: before its first job where a few inputs of every kind were tried.

    Else as soon as every kind of its work has been measured.

    Args:
        verb: What is done, for example ``"observing"``.
        unit: What it is done with, for example ``"input"``.
        works: All jobs.
        workers: Jobs at a time.
    """

    def __init__(self, verb: str, unit: str, works: Sequence[JobProfile], workers: int) -> None:
        self._verb, self._unit = verb, unit
        self._workers = max(1, min(workers, len(works)))
        self._open: defaultdict[str, list[JobProfile]] = defaultdict(list)
        for work in works:
            self._open[work.subject].append(work)
        self._planned = {subject: list(subject_works) for subject, subject_works in self._open.items()}
        self._jobs: Counter[_Kind] = Counter()
        self._size: Counter[_Kind] = Counter()
        self._seconds: defaultdict[_Kind, float] = defaultdict(float)
        self._tried: dict[_Kind, tuple[int, float]] = {}
        self._said: set[str] = set()

    def describe_plan(self) -> list[str]:
        """Return one line per subject on its work, before the first job is done."""
        return [line for subject in self._planned if (line := self.start(subject))]

    def add_trial(self, work: JobProfile, inputs: int, seconds: float) -> None:
        """Take in what a few inputs of a kind took, before its first job.

        Args:
            work: Any job of the kind.
            inputs: How many were tried.
            seconds: What they took together.
        """
        self._tried[_work_kind(work)] = inputs, seconds

    def start(self, subject: str) -> str:
        """Describe the work left for a subject, with its time if every kind was tried.

        Nothing where nothing is left.
        """
        left = self._open[subject]
        kinds = {_work_kind(work) for work in left if not work.control}
        if not left:
            return ""
        summary = f"{self._verb} {_count_inputs(left):,} {self._unit}s with {subject}{_parts(left)}"
        if not kinds or kinds - self._tried.keys():
            return f"{summary}; how long it takes is said when the first are done"
        self._said.add(subject)
        seconds = self.remaining_seconds(subject)
        pace = _count_inputs(left) / seconds
        number = sum(self._tried[kind][0] for kind in kinds)
        return (
            f"{summary}: about {duration(seconds)} at {self._speed(pace)} (estimated from {number:,} of them)"
            f"{self._later_subjects(pace)}"
        )

    def done(self, work: JobProfile, seconds: float | None) -> str:
        """Take in a finished job, and give the line of its subject when it can be said; else nothing.

        Args:
            work: The job.
            seconds: What it took; None where its results were there already.
        """
        # What seemed to be there already and turns out damaged is no longer open.
        if work in self._open[work.subject]:
            self._open[work.subject].remove(work)
        if seconds is None:
            self._planned[work.subject].remove(work)
            return ""
        kind = _work_kind(work)
        self._jobs[kind] += 1
        self._size[kind] += work.size
        self._seconds[kind] += seconds
        if work.subject in self._said or not self._has_measurements(work.subject):
            return ""
        self._said.add(work.subject)
        return self._line(work.subject)

    def _has_measurements(self, subject: str) -> bool:
        return all(
            self._jobs[kind] >= _JOBS or self._seconds[kind] >= _SECONDS
            for kind in {_work_kind(work) for work in self._open[subject] if not work.control}
        )

    def _line(self, subject: str) -> str:
        seconds = self.remaining_seconds(subject)
        if seconds < _MINIMUM_SECONDS:
            return ""
        pace = _count_inputs(self._open[subject]) / seconds
        total = _count_inputs(self._planned[subject])
        first = sum(size for kind, size in self._size.items() if kind[0] == subject)
        return (
            f"{self._verb} {total:,} {self._unit}s with {subject}{_parts(self._planned[subject])}: about "
            f"{duration(seconds)} left at {self._speed(pace)} (estimated from the first {first:,})"
            f"{self._later_subjects(pace)}"
        )

    def remaining_seconds(self, subject: str | None = None) -> float:
        """Return the seconds until a subject, or all of them, are done; each has to be measured."""
        works = self._open[subject] if subject is not None else itertools.chain(*self._open.values())
        return sum(work.size * self._pace(work) for work in works) / self._workers

    def _speed(self, pace: float) -> str:
        if pace >= 1.5:
            return f"{pace:,.0f} {self._unit}s a second"
        return f"one {self._unit} every {duration(1 / pace)}"

    def _later_subjects(self, pace: float) -> str:
        """Describe the work for other subjects that comes later."""
        waiting_works = [
            work for subject, works in self._open.items() if subject not in self._said for work in works
        ]
        if not waiting_works:
            return ""
        names = ", ".join(dict.fromkeys(work.subject for work in waiting_works))
        size = _count_inputs(waiting_works)
        return f"; then {size:,} with {names}, another {duration(size / pace)} if as fast"

    def _pace(self, work: JobProfile) -> float:
        """Return the seconds per input: of its kind, else of kinds that do the same and more, else of all.

        What jobs took counts before what a few inputs did.
        """
        done = {kind: (size, self._seconds[kind]) for kind, size in self._size.items() if size}
        measurements = self._tried | done
        subject_kinds = [kind for kind in measurements if kind[0] == work.subject]
        kinds = [kind for kind in subject_kinds if kind == _work_kind(work)]
        kinds = kinds or [kind for kind in subject_kinds if kind[1] >= work.does] or subject_kinds
        return sum(measurements[kind][1] for kind in kinds) / sum(measurements[kind][0] for kind in kinds)


def _count_inputs(works: Sequence[JobProfile]) -> int:
    return sum(work.size for work in works)


def _parts(works: Sequence[JobProfile]) -> str:
    """Return the numbers of inputs by lens and for controls; empty if all inputs are alike."""
    sizes: Counter[str] = Counter()
    for work in works:
        sizes["controls" if work.control else " and ".join(sorted(work.does))] += work.size
    parts = ", ".join(
        f"{label} {size:,}" for label, size in sorted(sizes.items(), key=lambda entry: -entry[1])
    )
    return f" ({parts})" if len(sizes) > 1 else ""


def put_trials_first(jobs: Sequence[Job], work_of: Callable[[Job], JobProfile]) -> list[Job]:
    """Move two jobs of each kind to the front of the jobs of their subject."""
    order: dict[tuple[str, bool], list[tuple[bool, Job]]] = {}
    counts: Counter[_Kind] = Counter()
    for job in jobs:
        work = work_of(job)
        kind = _work_kind(work)
        # Controls are as fast as their subject and need other weights: they are not asked first.
        is_deferred = work.control or counts[kind] >= _JOBS
        counts[kind] += not is_deferred
        order.setdefault((work.subject, work.control), []).append((is_deferred, job))
    return [job for entries in order.values() for _, job in sorted(entries, key=lambda entry: entry[0])]


def group_trial_jobs(
    jobs: Sequence[Job], work_of: Callable[[Job], JobProfile], minimum: int
) -> list[list[Job]]:
    """Group jobs by kind, if every kind has so many inputs at least that a trial costs little.

    All or none: a forecast needs each of them.
    """
    kinds: defaultdict[_Kind, list[Job]] = defaultdict(list)
    for job in jobs:
        # Controls are as fast as their subject.
        if not work_of(job).control:
            kinds[_work_kind(work_of(job))].append(job)
    groups = list(kinds.values())
    large = all(_count_inputs([work_of(job) for job in group]) >= minimum for group in groups)
    return groups if large else []


def _work_kind(work: JobProfile) -> _Kind:
    return work.subject, work.does, work.where


def observation_work(job: ObserveJob) -> JobProfile:
    """Return the profile of an observation."""
    model = job.model
    return JobProfile(
        subject=model.full_name,
        does=frozenset(part.lens.name for part in job.parts),
        where=f"{job.corpus} {job.language}",
        size=len(job.item_ids),
        control=model.reinitialise is not None,
    )


def training_work(job: TrainJob) -> JobProfile:
    """Return the profile of a training."""
    return JobProfile(
        subject=job.model.full_name, does=frozenset({job.method.name}), where=job.corpus, size=1
    )
