"""Time that a run takes to observe or train, from a few inputs that are tried or from its first jobs."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sonde.base.formatting import duration
from sonde.experiments.plan import ObserveJob, TrainJob

_JOBS, _SECONDS = 2, 10.0
"""A kind of work is measured by so many jobs, or by fewer that took so long."""


_MINIMUM_SECONDS = 10.0
"""Seconds: what is over sooner needs no estimate."""


LONG_SECONDS = 600.0
"""Time in seconds above which a run says which options would shorten it."""


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
        where: Corpus and language: inputs of one take equally long for their length.
        size: How many inputs.
        control: Whether it belongs to a control of the subject, which is as fast.
        characters: Characters of all inputs; 0 where inputs are taken to be alike.
        squares: The squares of the characters of each input, summed.
        token_cost: What a token takes with this model, compared with other models.
    """

    subject: str
    does: frozenset[str]
    where: str
    size: int
    control: bool = False
    characters: float = 0.0
    squares: float = 0.0
    token_cost: float = 1.0


@dataclass(slots=True)
class _Measured:
    """Work that was measured: inputs, characters, squares of characters, and seconds."""

    size: float = 0.0
    characters: float = 0.0
    squares: float = 0.0
    seconds: float = 0.0

    def add(self, work: JobProfile, seconds: float, share: float = 1.0) -> None:
        """Add a share of a job."""
        self.size += share * work.size
        self.characters += share * work.characters
        self.squares += share * work.squares
        self.seconds += seconds


class _Curvature:
    """How the work of an input grows with its characters: `characters + curvature * characters ** 2`.

    A masked model reads a text once per subword, and attention compares all pairs of subwords.
    """

    def __init__(self) -> None:
        # Sums of the normal equations of the least squares.
        self._sums = [0.0] * 5

    def learn(self, inputs: Iterable[tuple[float, float]]) -> None:
        """Take in characters and work of some inputs."""
        for characters, work in inputs:
            terms = (characters**2, characters**3, characters**4, characters * work, characters**2 * work)
            self._sums = [total + term for total, term in zip(self._sums, terms, strict=True)]

    def weigh(self, load: JobProfile | _Measured) -> float:
        """Return the work of some inputs, in a unit of its own."""
        if not load.characters:
            return load.size
        second, third, fourth, linear, square = self._sums
        determinant = second * fourth - third**2
        # Texts of one length, or none yet, say nothing about longer ones.
        if determinant <= 1e-9 * second * fourth:
            return load.characters
        slope = max(0.0, (linear * fourth - square * third) / determinant)
        bend = max(0.0, (square * second - linear * third) / determinant)
        if not slope:
            return load.squares
        return load.characters + bend / slope * load.squares


class Forecast:
    """Gives one line for each subject: before its first job where a few inputs of every kind were tried.

    Else as soon as every kind of its work has been measured. How long all of it takes is known as soon as
    anything was measured, see `estimate`.

    Args:
        verb: What is done, for example ``"observing"``.
        unit: What it is done with, for example ``"input"``.
        works: All jobs.
        workers: Jobs at a time.
        savings: Options that make the work shorter, see `advise`.
    """

    def __init__(
        self, verb: str, unit: str, works: Sequence[JobProfile], workers: int, savings: Sequence[str] = ()
    ) -> None:
        self._verb, self._unit = verb, unit
        self._savings = savings
        self._has_advised = False
        self._workers = max(1, min(workers, len(works)))
        self._open: defaultdict[str, list[JobProfile]] = defaultdict(list)
        for work in works:
            self._open[work.subject].append(work)
        self._planned = {subject: list(subject_works) for subject, subject_works in self._open.items()}
        self._jobs: Counter[_Kind] = Counter()
        self._done: defaultdict[_Kind, _Measured] = defaultdict(_Measured)
        self._tried: dict[_Kind, _Measured] = {}
        self._curvatures: defaultdict[_Kind, _Curvature] = defaultdict(_Curvature)
        self._current: tuple[Sequence[JobProfile], float, float, float] = ((), 0.0, 0.0, 0.0)
        self._token_costs = {_work_kind(work): work.token_cost for work in works}
        self._said: set[str] = set()

    def describe_plan(self) -> list[str]:
        """Return one line per subject on its work, before the first job is done."""
        return [line for subject in self._planned if (line := self.start(subject))]

    def add_trial(self, work: JobProfile, seconds: float) -> None:
        """Take in what a few inputs of a kind took, before its first job.

        Args:
            work: The inputs that were tried.
            seconds: What they took together.
        """
        self._tried[_work_kind(work)] = _Measured()
        self._tried[_work_kind(work)].add(work, seconds)

    def learn_lengths(self, work: JobProfile, inputs: Iterable[tuple[float, float]]) -> None:
        """Take in how the work of inputs of a kind grows with their length.

        Args:
            work: Any job of the kind.
            inputs: Characters and work of some inputs; the unit of work is the same for all of the kind.
        """
        self._curvatures[_work_kind(work)].learn(inputs)

    def follow(self, works: Sequence[JobProfile], share: float, seconds: float, left: float = 1.0) -> None:
        """Take in how far the jobs are that are done now.

        Args:
            works: The jobs, all of one kind.
            share: The share of their work that is done.
            seconds: What that share took.
            left: The share of their inputs that had to be read at all.
        """
        self._current = works, share, seconds, left

    def estimate(self) -> float | None:
        """Return the seconds until all jobs are done; None as long as nothing was measured."""
        if not self._tried and not self._done and not self._current[1]:
            return None
        return self.remaining_seconds()

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
            return f"{summary}; estimating time ..."
        self._said.add(subject)
        seconds = self.remaining_seconds(subject)
        pace = _count_inputs(left) / seconds
        number = round(sum(self._tried[kind].size for kind in kinds))
        return (
            f"{summary}: about {duration(seconds)} at {self._speed(pace)} (estimated from {number:,} of them)"
            f"{self._later_subjects()}"
        )

    def advise(self) -> str:
        """Return, once, what to give up if all jobs together take long; empty if they do not."""
        seconds = self.estimate()
        if self._has_advised or seconds is None or seconds < LONG_SECONDS:
            return ""
        self._has_advised = True
        return (
            f"{self._verb} takes more than {duration(LONG_SECONDS)}; shorter with "
            f"{' or '.join(('a smaller --limit', 'fewer models', *self._savings))}"
        )

    def done(self, work: JobProfile, seconds: float | None) -> str:
        """Take in a finished job, and give the line of its subject when it can be said; else nothing.

        Args:
            work: The job.
            seconds: What it took; None where its results were there already.
        """
        if work in self._current[0]:
            self._current = (), 0.0, 0.0, 0.0
        # What seemed to be there already and turns out damaged is no longer open.
        if work in self._open[work.subject]:
            self._open[work.subject].remove(work)
        if seconds is None:
            # A job with a damaged table was taken out before, and resumes from its pieces.
            if work in self._planned[work.subject]:
                self._planned[work.subject].remove(work)
            return ""
        kind = _work_kind(work)
        self._jobs[kind] += 1
        self._done[kind].add(work, seconds)
        if work.subject in self._said or not self._has_measurements(work.subject):
            return ""
        self._said.add(work.subject)
        return self._line(work.subject)

    def _has_measurements(self, subject: str) -> bool:
        return all(
            self._jobs[kind] >= _JOBS or (kind in self._done and self._done[kind].seconds >= _SECONDS)
            for kind in {_work_kind(work) for work in self._open[subject] if not work.control}
        )

    def _line(self, subject: str) -> str:
        seconds = self.remaining_seconds(subject)
        if seconds < _MINIMUM_SECONDS:
            return ""
        pace = _count_inputs(self._open[subject]) / seconds
        total = _count_inputs(self._planned[subject])
        first = round(sum(done.size for kind, done in self._done.items() if kind[0] == subject))
        return (
            f"{self._verb} {total:,} {self._unit}s with {subject}{_parts(self._planned[subject])}: about "
            f"{duration(seconds)} left at {self._speed(pace)} (estimated from the first {first:,})"
            f"{self._later_subjects()}"
        )

    def remaining_seconds(self, subject: str | None = None) -> float:
        """Return the seconds until a subject, or all of them, are done; each has to be measured."""
        subjects = self._open if subject is None else [subject]
        works = [work for name in subjects for work in self._open[name]]
        measured = self._measure()
        seconds = sum(self._predict(work, measured) for work in works)
        current, share, _, left = self._current
        finished = 1 - left * (1 - share)
        seconds -= finished * sum(
            self._predict(work, measured) for work in current if work.subject in subjects
        )
        return seconds / self._workers

    def _speed(self, pace: float) -> str:
        if pace >= 1.5:
            return f"{pace:,.0f} {self._unit}s per second"
        return f"one {self._unit} every {duration(1 / pace)}"

    def _later_subjects(self) -> str:
        """Describe the work for other subjects that comes later."""
        waiting_works = [
            work for subject, works in self._open.items() if subject not in self._said for work in works
        ]
        if not waiting_works:
            return ""
        subjects = dict.fromkeys(work.subject for work in waiting_works)
        measured = self._measure()
        seconds = sum(self._predict(work, measured) for work in waiting_works) / self._workers
        measured_subjects = {kind[0] for kind in measured}
        basis = "" if measured_subjects >= subjects.keys() else " by the size of the models"
        size = _count_inputs(waiting_works)
        return f"; then {size:,} with {', '.join(subjects)}, another {duration(seconds)}{basis}"

    def _measure(self) -> dict[_Kind, _Measured]:
        """Return what was measured of each kind.

        What jobs took counts before what a few inputs did, as soon as they took as long.
        """
        measured = {kind: _Measured(*dataclasses.astuple(done)) for kind, done in self._done.items()}
        works, share, seconds, left = self._current
        for work in works if share else ():
            kind = _work_kind(work)
            measured.setdefault(kind, _Measured()).add(work, seconds / len(works), share * left)
        return {
            kind: measured[kind]
            if kind in measured and (kind not in self._tried or measured[kind].seconds >= tried.seconds)
            else tried
            for kind, tried in {**measured, **self._tried}.items()
        }

    def _predict(self, work: JobProfile, measured: Mapping[_Kind, _Measured]) -> float:
        """Return the seconds of a job: by its kind, else by kinds that do the same and more, else by all.

        A model of which nothing was measured is predicted from the others, by the cost of a token.
        """
        kind = _work_kind(work)
        if kind in measured:
            curvature = self._curvatures[kind]
            return measured[kind].seconds * curvature.weigh(work) / curvature.weigh(measured[kind])
        references = [other for other in measured if other[0] == work.subject] or [*measured]
        references = [other for other in references if other[1] >= work.does] or references
        plain = _Curvature()
        costs = sum(plain.weigh(measured[other]) * self._token_costs[other] for other in references)
        seconds = sum(measured[other].seconds for other in references)
        return seconds / costs * plain.weigh(work) * work.token_cost


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


def observation_work(
    job: ObserveJob, characters: Mapping[str, int] | None = None, token_cost: float = 1.0
) -> JobProfile:
    """Return the profile of an observation.

    Args:
        job: The observation.
        characters: The length of each input by its id; None where inputs are taken to be alike.
        token_cost: As in `JobProfile`.
    """
    model = job.model
    lengths = [characters[item] for item in job.item_ids] if characters else []
    return JobProfile(
        subject=model.full_name,
        does=frozenset(part.lens.name for part in job.parts),
        where=f"{job.corpus} {job.language}",
        size=len(job.item_ids),
        control=model.reinitialise is not None,
        characters=sum(lengths),
        squares=sum(length**2 for length in lengths),
        token_cost=token_cost,
    )


def training_work(job: TrainJob) -> JobProfile:
    """Return the profile of a training."""
    return JobProfile(
        subject=job.model.full_name, does=frozenset({job.method.name}), where=job.corpus, size=1
    )
