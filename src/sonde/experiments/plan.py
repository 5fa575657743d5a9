"""Jobs of an experiment, their batches, and the device of each process.

Planning is pure, so that a plan can be printed, compared and tested without a model. Items are split into
jobs in their hash order, so a run with a larger limit begins with the very jobs of a smaller one, and a batch
never depends on how many processes there are.

On an accelerator several jobs are forwarded together. The 64 inputs of a job are of all lengths, and a batch
that keeps an accelerator busy holds more than that: padded to its longest row, it would be mostly padding. So
each batch takes inputs of about one length from several jobs. The jobs that belong together follow from the
plan and the size of the model.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from sonde.base.fingerprint import fingerprint, unit_hash
from sonde.corpora import Item
from sonde.experiments.experiment import LensChoice
from sonde.lenses import Control, Method
from sonde.models import ModelSpec, describe_model
from sonde.models.engine.files import takes_texts
from sonde.store.run_folder import RunDirectory, group_prefix

ITEMS_A_JOB = 64


CHARACTERS_A_JOB = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
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
        parts: What to write, one table per lens.
        batch_tokens: Subwords forwarded at once; 0 for what suits the device. It changes no number.
    """

    root: str
    model: ModelSpec
    corpus: str
    language: str
    item_ids: tuple[str, ...]
    parts: tuple[Part, ...]
    batch_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainJob:
    """Train one method of a lens. Carries keys only.

    Attributes:
        root: The folder of the run.
        model: The model of the run.
        corpus: The corpus that the examples come from.
        language: Their language.
        method: What is trained.
        part: What to write: what the method answers to each example.
    """

    root: str
    model: ModelSpec
    corpus: str
    language: str
    method: Method
    part: Part

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the one part."""
        return (self.part,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Items of one corpus and language, in hash order: what a row of scores is about."""

    corpus: str
    corpus_hash: str
    language: str
    items: tuple[Item, ...]

    @property
    def prefix(self) -> str:
        """Return the prefix of the file names of this group's parts."""
        return group_prefix(self.corpus, self.language)


@dataclass(frozen=True, slots=True, kw_only=True)
class LensInput:
    """One lens over one group: what every model of the run is shown.

    Attributes:
        lens: The lens, with the tasks that have labels in this group.
        group: Where the inputs come from.
        inputs: What is shown, in hash order: items of the group, and what tasks derive from them.
        labels: Fingerprint of the labels of the inputs.
        controls: Models with random weights that are shown a share of it.
        methods: What a lens that trains is to train on it, each with the fingerprint of its data set; such a
            lens observes nothing.
        models: The models that read it; None for all.
    """

    lens: LensChoice
    group: Group
    inputs: tuple[Item, ...]
    labels: str
    controls: tuple[Control, ...] = ()
    methods: Mapping[Method, str] = field(default_factory=dict[Method, str])
    models: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringJob:
    """Tables that are scored together: those of a model, and of its random-weights controls."""

    model: ResolvedModel
    reading: LensInput
    parts: tuple[Part, ...]
    controls: tuple[tuple[Control, tuple[Part, ...]], ...]

    @property
    def key(self) -> str:
        """Return the fingerprint of everything that can change the scores, dates included."""
        controls = [(control, [part.key for part in parts]) for control, parts in self.controls]
        fixed = self.reading.lens, [part.key for part in self.parts], controls
        periods = [(item.item_id, item.period) for item in self.reading.inputs if item.period]
        return fingerprint("score", *fixed, *filter(None, [periods]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Jobs in the order in which they are best done, and what is scored when they are."""

    jobs: tuple[ObserveJob, ...]
    trainings: tuple[TrainJob, ...]
    answers: tuple[ScoringJob, ...]


def input_key(item: Item) -> str:
    """Return the key of an item as a model reads it: its id and its context."""
    return f"{item.item_id} {fingerprint('before', item.context)}" if item.context else item.item_id


def cut_chunks(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
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


def build_plan(
    run: RunDirectory,
    models: Sequence[ResolvedModel],
    readings: Sequence[LensInput],
    components: Mapping[str, str],
) -> Plan:
    """Plan all jobs of a run, or of a later stage.

    Inputs that the same lenses read are forwarded together, so that each is forwarded once.

    Args:
        run: The folder of the run.
        models: Models; inputs that a model has seen are left out of its jobs.
        readings: What the lenses read.
        components: For each language, the fingerprint of everything else that can change an observation:
            versions of capture, alignment, grammar and the libraries that compute.
    """
    jobs: list[ObserveJob] = []
    trainings: dict[str, TrainJob] = {}
    answers: list[ScoringJob] = []
    for model in models:
        reads = [
            lens_input
            for lens_input in readings
            if lens_input.models is None or model.name in lens_input.models
        ]
        for lens_input in (lens_input for lens_input in reads if lens_input.methods):
            first = next(
                reader for reader in models if lens_input.models is None or reader.name in lens_input.models
            )
            methods = [
                _training_job(run, model, first, lens_input, method, components)
                for method in lens_input.methods
            ]
            trainings |= {job.part.key: job for job in methods}
            answers.append(
                ScoringJob(
                    model=model, reading=lens_input, parts=_select_parts(methods, lens_input), controls=()
                )
            )
        observed_inputs = [lens_input for lens_input in reads if not lens_input.methods]
        model_jobs = _observe_jobs(run, model, observed_inputs, components)
        controls = [
            (control, lens_input, _control_jobs(run, model, lens_input, control, components))
            for lens_input in observed_inputs
            for control in lens_input.controls
            # Of a model that is handed texts no weights are here to be drawn anew.
            if not takes_texts(model.spec)
        ]
        jobs += model_jobs
        # One after the other by seed, so that each control is made once.
        for _, _, of_control in sorted(controls, key=lambda entry: entry[0].seed):
            jobs += of_control
        for lens_input in observed_inputs:
            control_parts = tuple(
                (control, _select_parts(control_jobs, lens_input))
                for control, control_input, control_jobs in controls
                if control_input is lens_input
            )
            if parts := _select_parts(model_jobs, lens_input):
                answers.append(
                    ScoringJob(model=model, reading=lens_input, parts=parts, controls=control_parts)
                )
    return Plan(jobs=tuple(jobs), trainings=tuple(trainings.values()), answers=tuple(answers))


def _training_job(
    run: RunDirectory,
    model: ResolvedModel,
    first: ResolvedModel,
    lens_input: LensInput,
    method: Method,
    components: Mapping[str, str],
) -> TrainJob:
    """Build the job of one method; one that needs no model is the same for all models.

    Its key knows its own task alone, so that one more task leaves what is trained as it is.
    """
    job_model, basis = (model, (model.revision, model.spec)) if method.needs_model else (first, ())
    task_lens = dataclasses.replace(lens_input.lens.observation_lens, tasks=(method.task,))
    versions = components[lens_input.group.language]
    key = fingerprint("arm", basis, task_lens, lens_input.methods[method], method, versions)
    folder = run.observations(lens_input.lens.folder, job_model.name)
    name = f"{lens_input.group.prefix}-{method.task}-{method.name}-{method.seed}-{key[:16]}.parquet"
    return TrainJob(
        root=str(run.root),
        model=job_model.spec,
        corpus=lens_input.group.corpus,
        language=lens_input.group.language,
        method=method,
        part=Part(lens=lens_input.lens, relative=f"{folder}/{name}", key=key),
    )


def _observe_jobs(
    run: RunDirectory, model: ResolvedModel, readings: Sequence[LensInput], components: Mapping[str, str]
) -> list[ObserveJob]:
    jobs: list[ObserveJob] = []
    for prefix, group in {lens_input.group.prefix: lens_input.group for lens_input in readings}.items():
        group_inputs = [lens_input for lens_input in readings if lens_input.group.prefix == prefix]
        for joint_inputs, items in _group_by_inputs(group_inputs, model.seen):
            for chunk in cut_chunks(items):
                input_keys = tuple(input_key(item) for item in chunk)
                parts = tuple(
                    _build_part(run, model, lens_input, input_keys, components) for lens_input in joint_inputs
                )
                jobs.append(
                    ObserveJob(
                        root=str(run.root),
                        model=model.spec,
                        corpus=group.corpus,
                        language=group.language,
                        item_ids=tuple(item.item_id for item in chunk),
                        parts=parts,
                    )
                )
    return jobs


def _group_by_inputs(
    readings: Sequence[LensInput], excluded_ids: frozenset[str]
) -> list[tuple[tuple[LensInput, ...], list[Item]]]:
    """Group items by the lenses that read them, in the order of the first lens."""
    inputs = {item.item_id: item for lens_input in readings for item in lens_input.inputs}
    id_sets = [{item.item_id for item in lens_input.inputs} for lens_input in readings]
    items_by_readers: dict[tuple[int, ...], list[Item]] = {}
    for item in inputs.values():
        if item.item_id not in excluded_ids:
            readers = tuple(index for index, ids in enumerate(id_sets) if item.item_id in ids)
            items_by_readers.setdefault(readers, []).append(item)
    return [
        (tuple(readings[index] for index in readers), items) for readers, items in items_by_readers.items()
    ]


def _control_jobs(
    run: RunDirectory,
    model: ResolvedModel,
    lens_input: LensInput,
    control: Control,
    components: Mapping[str, str],
) -> list[ObserveJob]:
    """Build the jobs of a model with random weights, which reads a share of the inputs."""
    control_ids = None if control.items is None else frozenset(control.items)
    share = tuple(
        item
        for item in lens_input.inputs
        if (
            unit_hash("twin", item.item_id) < control.share
            if control_ids is None
            else item.item_id in control_ids
        )
    )
    random = dataclasses.replace(
        model,
        name=f"{model.name}+reinitialised-{control.seed}",
        spec=dataclasses.replace(model.spec, reinitialise=control.seed),
        revision=f"{model.revision}+reinitialised-{control.seed}",
    )
    return _observe_jobs(run, random, [dataclasses.replace(lens_input, inputs=share)], components)


def _select_parts(jobs: Sequence[ObserveJob | TrainJob], lens_input: LensInput) -> tuple[Part, ...]:
    """Return the parts that some jobs write of one lens input."""
    return tuple(
        part
        for job in jobs
        if (job.corpus, job.language) == (lens_input.group.corpus, lens_input.group.language)
        for part in job.parts
        if part.lens == lens_input.lens
    )


def _build_part(
    run: RunDirectory,
    model: ResolvedModel,
    lens_input: LensInput,
    input_keys: tuple[str, ...],
    components: Mapping[str, str],
) -> Part:
    inputs = (input_keys, lens_input.labels, components[lens_input.group.language])
    key = fingerprint("part", model.revision, model.spec, lens_input.lens.observation_lens, inputs)
    folder = run.observations(lens_input.lens.folder, model.name)
    return Part(
        lens=lens_input.lens, relative=f"{folder}/{lens_input.group.prefix}-{key[:16]}.parquet", key=key
    )


_MOST_JOBS = 16
"""Jobs of one pool: 1,024 functions give batches of 13,000 tokens, 0.87 of them real."""


_STATES = 600_000
"""Values of a model's states a subword, times jobs of a pool: a large model is busy with smaller batches, and
what its inputs gave is held until the pool is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBatch:
    """Jobs of one model, group and set of lenses that are forwarded together; each writes its own tables.

    Attributes:
        root: The folder of the run, as this process finds it.
        model: What to load.
        jobs: The jobs.
        deadline: The time after which what is not there is not read any more, as
            `sonde.base.process.read_clock` gives it.
    """

    root: str
    model: ModelSpec
    jobs: tuple[ObserveJob, ...]
    deadline: float = math.inf


def batch_jobs(
    jobs: Sequence[ObserveJob], deadline: float = math.inf, finished: Set[ObserveJob] = frozenset()
) -> list[JobBatch]:
    """Group all jobs into pools, in the order of their first jobs.

    With a deadline they go round by round, and each round has as many pools of a model and its lenses as all
    rounds before it: so models come equally far, and are loaded few times. The first that is not there yet
    is always read.

    Args:
        jobs: The jobs as they were planned, with the device settled.
        deadline: As in `JobBatch`.
        finished: The jobs whose tables are there.
    """
    groups: dict[tuple[object, ...], list[ObserveJob]] = {}
    for job in jobs:
        lenses = tuple(part.lens for part in job.parts)
        groups.setdefault((job.model, job.corpus, job.language, lenses), []).append(job)
    rounds: list[tuple[int, JobBatch]] = []
    for group in groups.values():
        maximum = _jobs_per_batch(group[0].model)
        number = -(-len(group) // maximum)
        # Evenly, since a pool of a few jobs has little to choose from.
        ends = [len(group) * index // number for index in range(number + 1)]
        limit = math.inf
        for index, (begin, end) in enumerate(itertools.pairwise(ends)):
            batch = JobBatch(
                root=group[0].root, model=group[0].model, jobs=tuple(group[begin:end]), deadline=limit
            )
            rounds.append((0 if deadline == math.inf else index.bit_length(), batch))
            if not set(batch.jobs) <= finished:
                limit = deadline
    return [batch for _, batch in sorted(rounds, key=lambda entry: entry[0])]


def _jobs_per_batch(model: ModelSpec) -> int:
    """Return how many jobs are read together."""
    if model.device == "cpu" or takes_texts(model):
        return 1
    size = describe_model(model)
    return max(2, min(_MOST_JOBS, _STATES // max(1, size.layers * size.d_model)))


def assign_device(model: ModelSpec) -> ModelSpec:
    """Place a model on the device of this process; processes take devices in turn."""
    import torch

    if model.device != "cuda" or multiprocessing.parent_process() is None:
        return model
    number = torch.cuda.device_count()
    rank = (multiprocessing.current_process()._identity or (1,))[0] - 1
    return dataclasses.replace(model, device=f"cuda:{rank % number}") if number > 1 else model
