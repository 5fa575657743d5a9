"""What a run reads, before a model is loaded: jobs, inputs, subwords, and clusters of its items."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sonde.corpora import Item
from sonde.experiments._experiment import Execution, Experiment
from sonde.experiments._forecast import observing
from sonde.experiments._outcome import Session
from sonde.experiments._progress import Progress
from sonde.experiments.choices import draws
from sonde.experiments.costs import Amount
from sonde.experiments.drawing import DEFAULT_SIZE
from sonde.experiments.labels import read_labels
from sonde.experiments.lens_choice import settings_of
from sonde.experiments.plan import ModelChoice, ObserveJob, Plan, Reading
from sonde.experiments.settled import planned, read_by_models, settled
from sonde.lenses import LENSES, reading_lens
from sonde.models import ModelSpec, load_tokenizer
from sonde.models.engine.files import behind_a_server, takes_texts
from sonde.results.detectable import Clustering
from sonde.store.parts import PartStore

_COUNTED = 2_000
"""Texts of a model whose subwords are counted; of more, so many, evenly over their order, stand for all."""

_LONGEST = 4
"""Of each kind of job so many of its longest inputs show what memory they need."""

_NAMES = "names_asked_about"
"""In the report of a data set: how many names it asks about, of which a limit is, each in some statements."""

Question = tuple[str, str, str, str]
"""Lens, task (empty where the lens reads items), language and corpus hash."""


@dataclass(frozen=True)
class Outlook:
    """A run as far as it can be known without its models.

    Attributes:
        session: The run, in a folder that may be thrown away.
        readings: What the lenses are shown.
        models: What reads it.
        plan: The jobs of the first stage.
    """

    session: Session
    readings: Sequence[Reading]
    models: Sequence[ModelChoice]
    plan: Plan

    @classmethod
    def of(cls, experiment: Experiment, execution: Execution, progress: Progress) -> Outlook:
        """Read the corpora, label and draw; what comes of it lies in the folder of the execution.

        Raises:
            SondeError: As for a run; what cannot be run cannot be planned.
        """
        session, lenses, able = settled(experiment, execution, progress)
        readings, _, models = read_by_models(session, lenses, able)
        return cls(session, readings, models, planned(session, models, readings))

    @cached_property
    def wanted(self) -> int:
        """Items a task and language that the run takes: the limit, or what there is where that is less."""
        limit = self.session.experiment.selection.limit
        there = max(self._size(reading) for reading in self.readings)
        return there if limit is None else min(limit, there)

    @property
    def unit(self) -> str:
        """What the limit counts, in the plural."""
        if any(_NAMES in report for reading in self.readings for report in self._reports(reading)):
            return "names"
        drawn = {draws(reading.lens) for reading in self.readings}
        if len(drawn) > 1:
            return "items"
        return "examples a task" if drawn.pop() else f"{self.session.experiment.selection.unit}s"

    def amount(self, limit: int) -> Amount:
        """What the run reads with a limit: the same items come first, whatever the limit is."""
        return _amount(limit, [(reading, self._first(reading, limit)) for reading in self.readings])

    def _first(self, reading: Reading, limit: int) -> Sequence[Item]:
        """What a lens is shown with a limit, of what it is shown with that of the run."""
        if draws(reading.lens):
            share = min(1.0, limit / max(1, self._size(reading)))
            return reading.inputs[: round(share * len(reading.inputs))]
        # A lens may read some items alone, as masked models do; what it adds to them, it always adds.
        beyond = {item.item_id for item in reading.group.items[limit:]}
        return [item for item in reading.inputs if item.item_id not in beyond]

    def _size(self, reading: Reading) -> int:
        """Which limit gives all that a lens is shown."""
        if not draws(reading.lens):
            return len(reading.group.items)
        asked = self.session.experiment.selection.limit or DEFAULT_SIZE
        sizes = [int(report.get(_NAMES, report.get("size", asked))) for report in self._reports(reading)]
        return min(max(sizes, default=asked), asked)

    def _reports(self, reading: Reading) -> list[Mapping[str, Any]]:
        """What the data sets of a lens say of themselves."""
        held = self.session.outcome.data_sets.get(f"{reading.lens.name}/{reading.group.prefix}", {})
        return list(held.values())

    @property
    def servers(self) -> list[str]:
        """Models that a server runs, by name."""
        return [model.name for model in self.models if behind_a_server(model.spec)]

    def jobs_there(self, folder: Path) -> int:
        """How many jobs a folder holds the tables of already."""
        jobs = (*self.plan.jobs, *self.plan.trainings)
        return sum(all((folder / part.relative).exists() for part in job.parts) for job in jobs)

    def subwords(self) -> int | None:
        """Subwords of the texts that jobs read, each as often as it is; None where a server cuts them."""
        if any(takes_texts(model.spec) for model in self.models):
            return None
        texts = self._texts()
        counted: dict[ModelSpec, float] = {}
        for job in self.plan.jobs:
            spec = dataclasses.replace(job.model, reinitialise=None)
            if spec not in counted:
                counted[spec] = _subwords_a_character(spec, list(texts.values()))
        return round(
            sum(
                counted[dataclasses.replace(job.model, reinitialise=None)]
                * sum(len(texts[name]) for name in job.item_ids)
                for job in self.plan.jobs
            )
        )

    def _texts(self) -> dict[str, str]:
        return {item.item_id: item.text for reading in self.readings for item in reading.inputs}

    def longest(self) -> list[ObserveJob]:
        """For each kind of job one with its longest inputs, which need the most memory."""
        texts, kinds = self._texts(), dict[tuple[Any, ...], list[ObserveJob]]()
        for job in self.plan.jobs:
            if job.model.reinitialise is None and not takes_texts(job.model):
                work = observing(job)
                kinds.setdefault((work.subject, work.does, work.where), []).append(job)
        return [dataclasses.replace(jobs[0], item_ids=_long(jobs, texts)) for jobs in kinds.values()]

    def clusterings(self) -> dict[Question, Clustering]:
        """How what is scored falls into clusters, for each question that a lens asks."""
        return clusterings(self.readings, self.session.store)


def clusterings(readings: Sequence[Reading], store: PartStore) -> dict[Question, Clustering]:
    """How what is scored falls into clusters, by lens, task, language and corpus hash."""
    found: dict[Question, Clustering] = {}
    for reading in readings:
        lens, group = LENSES.load(reading.lens.source), reading.group
        place = group.language, group.corpus_hash
        found[reading.lens.name, "", *place] = _of([item.cluster for item in reading.inputs])
        for task in reading.lens.tasks if draws(reading.lens) else ():
            examples = read_labels(store, task, group, reading.lens.labels)
            tested = lens.tested(examples, settings_of(reading.lens))
            if not tested.is_empty():
                found[reading.lens.name, task, *place] = _of(tested["cluster"].to_list())
    return found


def _of(clusters: Sequence[str]) -> Clustering:
    return Clustering.of(list(Counter(clusters).values()))


def amount_read(limit: int, readings: Sequence[Reading]) -> Amount:
    """What a finished run has read, by what its lenses were shown."""
    return _amount(limit, [(reading, reading.inputs) for reading in readings])


def _amount(limit: int, shown: Sequence[tuple[Reading, Sequence[Item]]]) -> Amount:
    lengths = {
        (reading.group.corpus, item.item_id): len(item.text) for reading, inputs in shown for item in inputs
    }
    again = sum(
        min(reading_lens(reading.lens.source).read_again, len(inputs))
        for reading, inputs in shown
        if not reading.methods
    )
    return Amount(limit, len(lengths), sum(lengths.values()), again)


def _long(jobs: Sequence[ObserveJob], texts: Mapping[str, str]) -> tuple[str, ...]:
    names = {name for job in jobs for name in job.item_ids}
    return tuple(sorted(names, key=lambda name: (-len(texts[name]), name))[:_LONGEST])


def _subwords_a_character(spec: ModelSpec, texts: Sequence[str]) -> float:
    """Subwords of a model for each character of some texts."""
    some = texts[:: max(1, len(texts) // _COUNTED)]
    ids = load_tokenizer(spec)(list(some), add_special_tokens=False)["input_ids"]
    return sum(map(len, ids)) / max(1, sum(map(len, some)))
