"""The protocols and inputs of lenses, their defaults, and the quirks that papers register.

A lens requests, observes a few items at a time, and scores all observations at once. `LensDefaults` holds
what most lenses answer, so that a lens defines only what is particular to it. `ServerOptions` are the options
of lenses that read a model behind a server.

What a paper published replaces the rule of a lens at a hook (`QuirkHook`) that the lens declares. A lens
knows its hooks and never what replaces its rules there. A paper provides its quirks of a lens by an entry
point of the group `GROUP`, named ``<lens>.<paper>`` (sonde's own are in `sonde.papers`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, runtime_checkable
from urllib.parse import urlsplit

import polars as pl
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from sonde.base.options import Count, NonNegative, Option, Options, option
from sonde.base.registry import check_published_group, find_entry_points, load_published_object
from sonde.capture.requests import ItemCapture, Pass, Prepared
from sonde.corpora import Item
from sonde.lenses.engine.observations import BatchSums
from sonde.models import Capabilities, ModelSpec
from sonde.models.engine.external import BASE_URL, KEY, ServerSettings
from sonde.models.engine.model_names import PREFIX
from sonde.results.headlines import HeadlineMetric
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score
from sonde.store.run_folder import RunDirectory

STAGE_RESULT, STAGE_RESULT_KEY = "handed", "handed_key"
"""What `LensSettings.found` calls the table that a stage handed on, and its fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LensSettings:
    """What a user chose for a lens, and what an earlier stage of it found.

    Attributes:
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Named quirks that are on (the lens's preset in paper mode, plus ``--quirk``).
        options: Further options by name, from the experiment file's table of the lens.
        seed: Seed of whatever is random.
        stage: 0, or the number of stages done before this one, see `ReadingLens.next_stage`.
        found: What the stage before answered in `ReadingLens.next_stage`.
        root: The folder of the run; empty where nothing is read from one.
    """

    mode: str = "corrected"
    quirks: frozenset[str] = frozenset()
    options: Mapping[str, Option] = field(default_factory=dict)
    seed: int = 0
    stage: int = 0
    found: Mapping[str, Option] = field(default_factory=dict)
    root: str = ""

    @property
    def stage_result(self) -> Path | None:
        """The table that the stage before handed on in `ScoringContext.stage_result`; None if it did not."""
        return Path(self.root) / str(self.found[STAGE_RESULT]) if STAGE_RESULT in self.found else None


@dataclass(frozen=True, slots=True)
class Control:
    """A random-weights control: the model's architecture with random weights, never trained.

    Attributes:
        seed: Seed of the weights.
        share: The part of the inputs that the control reads, a seeded random sample.
        items: The inputs that it reads, where the lens names them; None leaves it to the sample.
    """

    kind_in_keys: ClassVar[str] = "Twin"

    seed: int
    share: float = 1.0
    items: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CapturedItem:
    """One item with what was captured of it for this lens, one capture a variant."""

    prepared: Prepared
    captures: tuple[ItemCapture, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ControlObservations:
    """What a random-weights control was observed to do: the same table as the model's, over fewer items."""

    control: Control
    observations: pl.LazyFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringContext:
    """What a lens gets to score with.

    Attributes:
        observations: The item table of this lens and model, lazily read; it may be larger than memory.
        items: One row an input: ``item_id, language, unit, path, name, cluster, repository, licence, bytes,
            characters, seen`` (``seen``: the model was trained on it).
        template: A score that carries model, revision, corpus hash, seed, mode and fingerprint.
        settings: What the user chose.
        labels: For each task of the lens, the rows of all inputs.
        texts: ``item_id, text`` of every input, lazily read; surface baselines look at it.
        frequencies: ``subword_id, count`` in the model's training data; None where unknown.
        controls: What the model's random-weights controls were observed to do.
        beside: The same table of every other model of the run, at the same stage.
        tables: The observations again, in batches that part no item; empty where they come as one.
        cluster: The executor of other machines that a lens hands long work to; empty where there is none.
        workers: Jobs at a time there.
        root: The folder of the run, by its full path; empty where nothing is read from one.
        device: Where the model ran.
        model: How it is loaded, for what is fitted through its head; None where it is not at hand.
        answers: Takes tables in the columns `sonde.results.schema.ANSWERS` of what was answered to single
            examples, which are written beside the scores.
        stage_result: Takes tables of one schema that the next stage of the lens is to have, see
            `LensSettings.stage_result`: what was fitted and is too large for `ReadingLens.next_stage`.
    """

    observations: pl.LazyFrame
    items: pl.DataFrame
    template: Score
    settings: LensSettings
    labels: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    texts: pl.LazyFrame = field(default_factory=lambda: pl.LazyFrame({"item_id": [], "text": []}))
    frequencies: pl.DataFrame | None = None
    controls: tuple[ControlObservations, ...] = ()
    beside: tuple[pl.LazyFrame, ...] = ()
    tables: tuple[pl.LazyFrame, ...] = ()
    cluster: str = ""
    workers: int = 1
    root: str = ""
    device: str = "cpu"
    model: ModelSpec | None = None
    answers: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    stage_result: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])

    @property
    def batches(self) -> BatchSums:
        """The observations in batches, for sums; on a cluster its machines add them up."""
        tables = self.tables or (self.observations,)
        return BatchSums(tables, self.cluster, self.workers, self.root) if self.cluster else BatchSums(tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One training: a method that is trained on the examples of one task, from one seed.

    Attributes:
        name: What is trained, for example ``"pretrained"`` or ``"bag_of_tokens"``.
        task: Public name of the task.
        seed: Seed of the training.
        needs_model: Whether it begins with the model of the run; else it is trained once for all models.
        variant: Which values of swept options it has, as ``fraction=0.33;epochs=2``; empty where nothing is
            swept.
        options: Options of the lens that its training depends on, as sorted pairs. Those that the lens counts
            among its `Lens.scoring_options` reach a training only so, and make it a new one only so.
    """

    name: str
    task: str
    seed: int
    needs_model: bool = True
    variant: str = ""
    options: tuple[tuple[str, Option], ...] = ()

    kind_in_keys: ClassVar[str] = "Arm"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What a method is trained with.

    Attributes:
        examples: The data set of the task with the ``text`` of each example's input.
        model: The model of the run; a lens loads of it what it needs.
        language: Public name of the language.
        folder: A folder of this method's own, where checkpoints survive a kill and trained models stay.
        settings: What the user chose.
        unkeyed: Of the options those that no key of a training knows (`Lens.scoring_options`): for what
            changes no answer, such as how many requests a server gets at a time.
        counts: What the lens counts while it trains, by what it is; added up in ``run.json``.
    """

    examples: pl.DataFrame
    model: ModelSpec
    language: str
    folder: Path
    settings: LensSettings
    unkeyed: Mapping[str, Option] = field(default_factory=dict[str, Option])
    counts: dict[str, int] = field(default_factory=dict[str, int])


@runtime_checkable
class Lens(Protocol):
    """What every lens answers."""

    @property
    def name(self) -> str:
        """Public name, the file's stem."""
        ...

    @property
    def version(self) -> str:
        """Raised when observations change; part of their fingerprint."""
        ...

    @property
    def quirks(self) -> Mapping[str, str]:
        """Named quirks of the published code that this lens can reproduce, with one line each."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """Options that `LensSettings.options` may hold, with one line each; see `LensDefaults`."""
        ...

    @property
    def scoring_options(self) -> frozenset[str]:
        """Those of `options` that change scores alone: nothing is forwarded again for them."""
        ...

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks whose labels `observe` joins, by public name."""
        ...

    @property
    def targets(self) -> frozenset[str]:
        """Targets of the tasks that a user may name in place of `tasks`; empty where they are fixed."""
        ...

    @property
    def comparable_metrics(self) -> tuple[ComparableMetric, ...]:
        """Which of its scores a comparison of two models holds against each other."""
        ...

    @property
    def comparison_options(self) -> Mapping[str, Option]:
        """Options of a comparison's scoring, without what qualifies numbers that are not compared."""
        ...

    @property
    def uses_datasets(self) -> bool:
        """Whether its tasks' data sets are drawn from a pool of functions; else it reads the items."""
        ...

    @property
    def reads_attention(self) -> bool:
        """Whether its numbers come from attention weights: on a processor they are computed in float32."""
        ...

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """One line saying why this lens cannot read such a model and which can, or None."""
        ...

    def select_test_rows(self, examples: pl.DataFrame, settings: LensSettings) -> pl.DataFrame:
        """The rows of a drawn data set that scores rest on; none where they come in no clusters."""
        ...

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Every number of the lens, each with its interval."""
        ...

    @property
    def headline(self) -> HeadlineMetric | None:
        """The metric that speaks for the lens; None leaves it to `sonde.results.headlines.find_headlines`."""
        ...

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """Yield lines that a run prints below the headline, from the lens's rows of ``scores.parquet``."""
        ...

    def write_files(self, run: RunDirectory) -> Sequence[str]:
        """Write what the lens leaves in the folder of a finished run beside its tables.

        Returns:
            A line about each file, for a person.
        """
        ...


@runtime_checkable
class TrainingLens(Lens, Protocol):
    """A lens that trains: `train` is called once a method, then `score` once."""

    @property
    def corpus_options(self) -> frozenset[str]:
        """Those of `options` that name a corpus to be trained on: with other contents it is trained again."""
        ...

    def methods(self, tasks: Sequence[str], settings: LensSettings) -> tuple[Method, ...]:
        """What is trained for these tasks, in the order in which it is best done."""
        ...

    def train(self, method: Method, training: Training) -> pl.DataFrame:
        """Train, and give the rows of the item table: what is answered to each example.

        A call after a kill goes on from the checkpoints in ``training.folder`` and ends with the rows of an
        undisturbed one.

        Raises:
            SondeError: The data or the model cannot be trained on; one line.
        """
        ...


@runtime_checkable
class ReadingLens(Lens, Protocol):
    """A lens that reads a frozen model.

    The job runner calls `input_requests` once a job, `observe` for a few items at a time, then `score` once.
    """

    def resolve_options(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """The options that a run goes by, given the models that it reads, by name; those named stay.

        Raises:
            UsageError: The models cannot be asked so.
        """
        ...

    def excluded_models(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, str]:
        """Models that it does not read in one run with the others, by name, with one line why."""
        ...

    def needs_file_context(self, settings: LensSettings) -> bool:
        """Whether it wants `sonde.corpora.Item.context`, the text of an item's file before it."""
        ...

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """Random-weights controls to be observed beside the model."""
        ...

    def assign_controls(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Control, ...]:
        """The same controls, now that what the model is shown is known: which of it each of them reads."""
        ...

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """What the model is shown, given the items and the labels of all of them."""
        ...

    def describe_inputs(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> str:
        """What a person has to know of the inputs before they are read, on one line; empty for nothing."""
        ...

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """What is wanted of these items.

        Args:
            prepared: The items of a job with tree, tokens and alignment.
            labels: For each of `tasks`, the label rows of these items, with their ``item_id``.
            settings: What the user chose.
        """
        ...

    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """The rows of a few items in this lens's item table.

        Args:
            observed: The items, each with its captures.
            labels: For each of `tasks`, the label rows of the job's items (``item_id, start, end, label,
                ...`` in characters).
            settings: What the user chose.
            surfaces: Readable surface of each vocabulary id.
        """
        ...

    @property
    def max_later_inputs(self) -> int:
        """Inputs that later stages read at most, of each model and group; 0 where there is one stage."""
        ...

    def next_stage(self, scores: Sequence[Score], settings: LensSettings) -> Mapping[str, Option] | None:
        """What a further stage has to know of this one's scores; None where there is no further stage.

        A head chosen on validation is looked at more closely in a second stage: `input_requests`, `observe`
        and `score` run again with ``settings.stage`` raised and the answer in ``settings.found``, and the
        scores are added to those of the first.
        """
        ...


@runtime_checkable
class PairingLens(Protocol):
    """A lens of which an option asks for minimal pairs in place of what it reads else."""

    def pairs(self, options: Mapping[str, Option]) -> tuple[str, ...]:
        """The tasks whose originals and mutants it is shown in pairs; empty where it is shown none.

        Raises:
            SondeError: There is no such task, or it gives no pairs.
        """
        ...


GROUP = "sonde.lenses.quirks"


T = TypeVar("T")


P = ParamSpec("P")


class QuirkHook(Generic[T, P]):
    """A place where a lens has a published rule change what its own gave; P is what the rule is told besides.

    Args:
        lens: Public name of the lens.
    """

    def __init__(self, lens: str) -> None:
        self._lens = lens

    def quirk(self, rule: Callable[Concatenate[T, P], T], *tasks: str) -> PublishedRule:
        """What a paper hands over: a function from the corrected thing to the published one.

        Args:
            rule: The function.
            tasks: Tasks whose labels it asks for beside those of the lens.
        """
        return PublishedRule(self, rule, tasks)

    def resolve(self, settings: LensSettings, corrected: T, *told: P.args, **named: P.kwargs) -> T:
        """The thing itself where no quirk of this seam is on, else as published."""
        for quirk in get_active_quirks(self._lens, settings):
            if quirk.published is not None and quirk.published.seam is self:
                corrected = quirk.published.rule(corrected, *told, **named)
        return corrected


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRule:
    """A published rule, the seam that it stands at, and tasks whose labels it asks for."""

    seam: QuirkHook[Any, ...]
    rule: Callable[..., Any]
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Quirk:
    """What the released code of a paper does otherwise than a lens.

    Attributes:
        name: Its name, ``<paper>.<what>``.
        line: What the published code does.
        published: The published rule and its seam. None for a switch of the lens, which changes what a model
            is fed, and for what a task labels otherwise.
    """

    name: str
    line: str
    published: PublishedRule | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PaperPreset:
    """What a paper hands over of a lens.

    Attributes:
        quirks: Its quirks, all on in paper mode.
        options: The values that options of the lens have in paper mode where none is given.
    """

    quirks: tuple[Quirk, ...]
    options: Mapping[str, Option] = field(default_factory=dict[str, Option])


def get_paper_presets(lens: str) -> tuple[PaperPreset, ...]:
    """What papers published of a lens."""
    names = (name for name in sorted(find_entry_points(GROUP)) if name.partition(".")[0] == lens)
    return tuple(load_published_object(GROUP, name) for name in names)


def get_quirk_lines(lens: str) -> Mapping[str, str]:
    """The quirks of a lens, with one line each."""
    return {quirk.name: quirk.line for one in get_paper_presets(lens) for quirk in one.quirks}


def get_quirk_tasks(lens: str, on: Collection[str]) -> tuple[str, ...]:
    """Tasks whose labels some quirks of a lens ask for, beside those that the lens always asks."""
    rules = (quirk.published for one in get_paper_presets(lens) for quirk in one.quirks if quirk.name in on)
    return tuple(task for rule in rules if rule is not None for task in rule.tasks)


def get_active_quirks(lens: str, settings: LensSettings) -> tuple[Quirk, ...]:
    """The quirks of a lens that are on: all of them in paper mode, else those that were named.

    Raises:
        InputError: Quirks are on, and what papers published is not registered.
    """
    everything = settings.mode == "paper"
    if not everything and not settings.quirks:
        return ()
    check_published_group(GROUP)
    known = (quirk for one in get_paper_presets(lens) for quirk in one.quirks)
    return tuple(quirk for quirk in known if everything or quirk.name in settings.quirks)


def paper_options(lens: str, settings: LensSettings) -> Mapping[str, Option]:
    """The values that options of a lens have where none is given: those of paper mode, else none."""
    if settings.mode != "paper":
        return {}
    return {name: value for one in get_paper_presets(lens) for name, value in one.options.items()}


class LensDefaults:
    """What most lenses answer: they read the items as they are, in one stage, without random weights beside.

    Attributes:
        typed_options: The options of the lens, typed. A lens without them names its options in a mapping
            ``options`` and checks their values itself.
    """

    name: str = ""
    headline: HeadlineMetric | None = None
    targets: frozenset[str] = frozenset()
    uses_datasets: bool = False
    reads_attention: bool = False
    max_later_inputs: int = 0
    comparable_metrics: tuple[ComparableMetric, ...] = ()
    comparison_options: Mapping[str, Option] = MappingProxyType({})
    typed_options: type[Options] = Options

    @property
    def quirks(self) -> Mapping[str, str]:
        """What papers published of the lens, with one line each."""
        return get_quirk_lines(self.name)

    @property
    def options(self) -> Mapping[str, str]:
        """The typed options, with one line each."""
        return self.typed_options.lines()

    @property
    def scoring_options(self) -> frozenset[str]:
        """Those that are declared to change scores alone."""
        return self.typed_options.names("scoring")

    @property
    def corpus_options(self) -> frozenset[str]:
        """Those that are declared to name a corpus that is trained on."""
        return self.typed_options.names("corpus")

    def resolve_options(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """The options as they are."""
        return options

    def excluded_models(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, str]:
        """All are read together."""
        return {}

    def needs_file_context(self, settings: LensSettings) -> bool:
        """Items are shown alone."""
        return False

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """No random-weights control."""
        return ()

    def assign_controls(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Control, ...]:
        """The controls with their shares."""
        return self.controls(settings)

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """The items themselves."""
        return items

    def describe_inputs(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> str:
        """Nothing that their number does not say."""
        return ""

    def select_test_rows(self, examples: pl.DataFrame, settings: LensSettings) -> pl.DataFrame:
        """The test split of a data set that has one."""
        if not {"split", "cluster"} <= set(examples.columns):
            return examples.clear()
        return examples.filter(pl.col("split") == "test")

    def next_stage(self, scores: Sequence[Score], settings: LensSettings) -> Mapping[str, Option] | None:
        """One stage is all."""
        return None

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """Yield nothing."""
        return iter(())

    def write_files(self, run: RunDirectory) -> Sequence[str]:
        """No files."""
        return ()


class ServerOptions(Options):
    """Where a server is and how it is asked."""

    base_url: str = option(
        BASE_URL, f"address of the server for models named {PREFIX}NAME; its key is read from {KEY}"
    )
    concurrency: Count = option(4, "requests to the server at a time", scoring=True)
    token_limit: NonNegative = option(
        0,
        "tokens that a call of the command may spend at the server, as it counts them, prompts and replies "
        "together; what was answered by then is kept",
        scoring=True,
        unset="no limit",
    )
    parameters: str = option(
        "",
        "what each request says beside the prompt, as a JSON object, such as "
        '{"reasoning_effort": "low", "max_completion_tokens": 512, "max_tokens": null}; null leaves out what '
        "sonde says by itself",
    )

    @model_validator(mode="after")
    def _check_server(self) -> Self:
        if "@" in urlsplit(self.base_url).netloc:
            # Options are written into the files of the run.
            raise PydanticCustomError("login", f"option base_url has a login in it; put the key into {KEY}")
        if not self.base_url.startswith(("http://", "https://")):
            raise PydanticCustomError(
                "address", "option base_url is no address; give one such as {url}", {"url": BASE_URL}
            )
        if self.parameters and not isinstance(_object(self.parameters), dict):
            raise PydanticCustomError("json", "option parameters is no JSON object")
        return self

    @property
    def server(self) -> ServerSettings:
        """The same for the client."""
        return ServerSettings(
            base_url=self.base_url,
            concurrency=self.concurrency,
            token_limit=self.token_limit,
            parameters=self.parameters,
        )


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
