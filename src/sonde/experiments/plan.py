"""From an experiment to jobs: pure, so that a plan can be printed, compared and tested without a model.

Items are cut into jobs in their hash order, so a run with a larger limit begins with the very jobs of a
smaller one, and a batch never depends on how many processes there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sonde.base.fingerprint import fingerprint
from sonde.corpora import Item
from sonde.lenses import LensSettings
from sonde.models import ModelSpec
from sonde.store.rundir import RunDirectory

ITEMS_A_JOB = 64
CHARACTERS_A_JOB = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model of a run, resolved.

    Attributes:
        name: The name in every table.
        spec: What is loaded.
        revision: What the name resolved to; part of every key.
        seen: Item ids of the run that the model was trained on.
    """

    name: str
    spec: ModelSpec
    revision: str
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class LensChoice:
    """A lens of a run with the settings that its observations depend on.

    Attributes:
        name: Public name.
        version: The lens's own version.
        tasks: Tasks whose labels it joins, by public name.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Quirks that are on.
        options: Options as sorted pairs.
        seed: Seed of the experiment.
    """

    name: str
    version: str
    tasks: tuple[str, ...]
    mode: str
    quirks: tuple[str, ...]
    options: tuple[tuple[str, str | int | float | bool], ...]
    seed: int


def settings_of(lens: LensChoice) -> LensSettings:
    """A lens's settings as its methods take them."""
    return LensSettings(
        mode=lens.mode, quirks=frozenset(lens.quirks), options=dict(lens.options), seed=lens.seed
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One table that a job writes: the observations of one lens."""

    lens: LensChoice
    relative: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveJob:
    """Observe some items with one model. Carries keys only; any process with the run's folder can do it.

    Attributes:
        root: The folder of the run.
        model: What to load.
        corpus: The corpus that the items come from.
        language: Their language.
        item_ids: The items.
        parts: What to write, one table a lens.
    """

    root: str
    model: ModelSpec
    corpus: str
    language: str
    item_ids: tuple[str, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Items of one corpus and language, in hash order: what a row of scores is about."""

    corpus: str
    corpus_hash: str
    language: str
    items: tuple[Item, ...]

    @property
    def prefix(self) -> str:
        """Beginning of the file names of this group's parts."""
        return group_prefix(self.corpus, self.language)


def group_prefix(corpus: str, language: str) -> str:
    """Beginning of the file names of a group's parts and labels."""
    return f"{language}-{fingerprint(corpus)[:8]}"


def chunks(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    """Cut items into jobs, in order, by count and characters; the first chunks do not depend on the rest."""
    chunk: list[Item] = []
    characters = 0
    for item in items:
        if chunk and (len(chunk) == ITEMS_A_JOB or characters + len(item.text) > CHARACTERS_A_JOB):
            yield tuple(chunk)
            chunk, characters = [], 0
        chunk.append(item)
        characters += len(item.text)
    if chunk:
        yield tuple(chunk)


def plan(
    run: RunDirectory,
    groups: Sequence[Group],
    models: Sequence[ModelChoice],
    lenses: Sequence[LensChoice],
    label_rules: Mapping[str, str],
    components: Mapping[str, str],
) -> tuple[ObserveJob, ...]:
    """All observation jobs of a run, in the order in which they are best done.

    Args:
        run: The folder of the run.
        groups: Items by corpus and language.
        models: Models; items that a model has seen are left out of its jobs.
        lenses: Lenses.
        label_rules: What each task's labels depend on, by task and group (`label_name`).
        components: For each language, the fingerprint of everything else that can change an observation:
            versions of capture, alignment, grammar and the libraries that compute.
    """
    jobs: list[ObserveJob] = []
    for model in models:
        for group in groups:
            unseen = [item for item in group.items if item.item_id not in model.seen]
            for chunk in chunks(unseen):
                ids = tuple(item.item_id for item in chunk)
                parts = tuple(
                    _part(
                        run,
                        group,
                        model,
                        lens,
                        (ids, _labels_of(lens, group, label_rules), components[group.language]),
                    )
                    for lens in lenses
                )
                jobs.append(
                    ObserveJob(
                        root=str(run.root),
                        model=model.spec,
                        corpus=group.corpus,
                        language=group.language,
                        item_ids=ids,
                        parts=parts,
                    )
                )
    return tuple(jobs)


def label_name(task: str, group: Group) -> str:
    """Name of a task's labels of a group among the rules of a plan."""
    return f"{task}/{group.prefix}"


def _labels_of(lens: LensChoice, group: Group, label_rules: Mapping[str, str]) -> list[str]:
    return [label_rules[label_name(task, group)] for task in lens.tasks]


def _part(run: RunDirectory, group: Group, model: ModelChoice, lens: LensChoice, inputs: object) -> Part:
    key = fingerprint("part", model.revision, model.spec, lens, inputs)
    folder = run.observations(lens.name, model.name)
    return Part(lens=lens, relative=f"{folder}/{group.prefix}-{key[:16]}.parquet", key=key)
