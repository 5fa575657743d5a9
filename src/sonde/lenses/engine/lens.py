"""The base classes of lenses, their inputs, and the quirks that papers register.

A lens requests, observes a few items at a time, and scores all observations at once. The base classes hold
what most lenses answer, so that a lens defines only what is particular to it. `ServerOptions` are the options
of lenses that read a model behind a server.

What a paper published replaces the rule of a lens at a hook (`QuirkHook`) that the lens declares. A lens
knows its hooks and never what replaces its rules there. A paper provides its quirks of a lens by an entry
point of the group `GROUP`, named ``<lens>.<paper>`` (sonde's own are in `sonde.papers`).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, Self, TypeVar
from urllib.parse import urlsplit

import polars as pl
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from sonde.base.options import Count, NonNegative, Option, Options, option
from sonde.base.progress import Advance, ignore_advance
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
"""Keys of `LensSettings.found` for the table of the previous stage and its fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LensSettings:
    """Settings of a lens that a user chose, and results of its previous stage.

    Attributes:
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Quirks that are on (the lens's preset in paper mode, plus ``--quirk``).
        options: Further options by name, from the experiment file's table of the lens.
        seed: Seed of everything random.
        stage: Number of stages that are done, see `ReadingLens.next_stage`.
        found: The previous stage's answer in `ReadingLens.next_stage`.
        root: Folder of the run; empty if nothing is read from one.
        base: Model that is read beside the model, of a lens that compares with a base.
    """

    mode: str = "corrected"
    quirks: frozenset[str] = frozenset()
    options: Mapping[str, Option] = field(default_factory=dict)
    seed: int = 0
    stage: int = 0
    found: Mapping[str, Option] = field(default_factory=dict)
    root: str = ""
    base: ModelSpec | None = None

    @property
    def stage_result(self) -> Path | None:
        """Return the path of the previous stage's `ScoringContext.stage_result`; None without one."""
        return Path(self.root) / str(self.found[STAGE_RESULT]) if STAGE_RESULT in self.found else None


@dataclass(frozen=True, slots=True)
class Control:
    """A random-weights control: the architecture of the model, with weights that were never trained.

    Attributes:
        seed: Seed of the weights.
        share: Share of the inputs that the control reads, as a seeded random sample.
        items: Ids of the inputs that it reads, if the lens names them; None takes the sample.
    """

    kind_in_keys: ClassVar[str] = "Twin"

    seed: int
    share: float = 1.0
    items: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CapturedItem:
    """An item with its captures for this lens, one per variant."""

    prepared: Prepared
    captures: tuple[ItemCapture, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ControlObservations:
    """Observations of a random-weights control: the columns of the model's table, over fewer items."""

    control: Control
    observations: pl.LazyFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringContext:
    """Inputs of `Lens.score`.

    Attributes:
        observations: Item table of this lens and model, lazily read; it may be larger than memory.
        items: One row per input: ``item_id, language, unit, path, name, cluster, repository, licence, bytes,
            characters, seen`` (``seen``: the model was trained on it).
        template: A score with model, revision, corpus hash, seed, mode and fingerprint.
        settings: Settings of the lens.
        labels: Label rows of all inputs, by task of the lens.
        texts: ``item_id, text`` of every input, lazily read, for surface baselines.
        frequencies: ``subword_id, count`` in the model's training data; None if unknown.
        controls: Observations of the model's random-weights controls.
        beside: Item tables of the other models of the run, at the same stage.
        shared: What a lens finds for the models of a run together. It is filled when the first of them is
            scored, and the others are given the same mapping.
        tables: The observations in batches that split no item; empty if they come as one.
        cluster: Executor on other machines for long work; empty without one.
        workers: Number of parallel jobs there.
        root: Full path of the run's folder; empty if nothing is read from one.
        device: Device that the model ran on.
        model: How to load the model, to fit something through its head; None if it is not available.
        advance: Is called when a task of the lens is scored, so that long scoring is not silent.
        answers: Receives tables in the columns `sonde.results.schema.ANSWERS`: answers to single examples,
            which are written with the scores.
        stage_result: Receives tables of one schema for the next stage of the lens, see
            `LensSettings.stage_result`: fitted results that are too large for `ReadingLens.next_stage`.
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
    shared: dict[str, Any] = field(default_factory=dict[str, Any])
    tables: tuple[pl.LazyFrame, ...] = ()
    cluster: str = ""
    workers: int = 1
    root: str = ""
    device: str = "cpu"
    model: ModelSpec | None = None
    advance: Advance = ignore_advance
    answers: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    stage_result: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])

    @property
    def batches(self) -> BatchSums:
        """Return the observations in batches, for sums; on a cluster its machines sum them."""
        tables = self.tables or (self.observations,)
        return BatchSums(tables, self.cluster, self.workers, self.root) if self.cluster else BatchSums(tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One training: a method, a task whose examples it is trained on, and a seed.

    Attributes:
        name: Name of the method, for example ``"pretrained"`` or ``"bag_of_tokens"``.
        task: Public name of the task.
        seed: Seed of the training.
        needs_model: Whether training starts from the model of the run; else it is done once for all models.
        variant: Values of swept options, as ``fraction=0.33;epochs=2``; empty without a sweep.
        options: Options of the lens that the training depends on, as sorted pairs. Those among the lens's
            `Lens.scoring_options` reach a training, and change its key, only by this.
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
    """Inputs of `TrainingLens.train`.

    Attributes:
        examples: Data set of the task with the ``text`` of each example's input.
        model: The model of the run, for the lens to load as far as needed.
        language: Public name of the language.
        folder: Folder of this method, where checkpoints survive a kill and trained models stay.
        settings: Settings of the lens.
        unkeyed: Options in no key of a training (`Lens.scoring_options`), which change no answer, such as the
            number of parallel requests to a server.
        counts: Counters of the lens by name; they are summed in ``run.json``.
    """

    examples: pl.DataFrame
    model: ModelSpec
    language: str
    folder: Path
    settings: LensSettings
    unkeyed: Mapping[str, Option] = field(default_factory=dict[str, Option])
    counts: dict[str, int] = field(default_factory=dict[str, int])


GROUP = "sonde.lenses.quirks"


T = TypeVar("T")


P = ParamSpec("P")


class QuirkHook(Generic[T, P]):
    """Hook of a lens at which a published rule may change the lens's own result; P: further arguments.

    Args:
        lens: Public name of the lens.
    """

    def __init__(self, lens: str) -> None:
        self._lens = lens

    def quirk(self, rule: Callable[Concatenate[T, P], T], *tasks: str) -> PublishedRule:
        """Build a published rule: a function from the corrected result to the published one.

        Args:
            rule: The function.
            tasks: Tasks whose labels it needs besides those of the lens.
        """
        return PublishedRule(self, rule, tasks)

    def resolve(self, settings: LensSettings, result: T, *arguments: P.args, **keywords: P.kwargs) -> T:
        """Return the corrected result, changed by the published rules of this hook that are on."""
        for quirk in get_active_quirks(self._lens, settings):
            if quirk.published is not None and quirk.published.seam is self:
                result = quirk.published.rule(result, *arguments, **keywords)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRule:
    """A published rule, its hook, and the tasks whose labels it needs."""

    seam: QuirkHook[Any, ...]
    rule: Callable[..., Any]
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Quirk:
    """A difference between the released code of a paper and a lens.

    Attributes:
        name: Name, as ``<paper>.<what>``.
        line: Description of what the published code does.
        published: The published rule and its hook. None for a switch of the lens, which changes the input of
            a model, and for a different label of a task.
    """

    name: str
    line: str
    published: PublishedRule | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PaperPreset:
    """Quirks and options of a lens that a paper registers.

    Attributes:
        quirks: Its quirks, all on in paper mode.
        options: Values of options in paper mode, unless a user gives others.
    """

    quirks: tuple[Quirk, ...]
    options: Mapping[str, Option] = field(default_factory=dict[str, Option])


def get_paper_presets(lens: str) -> tuple[PaperPreset, ...]:
    """Return the presets that papers register for a lens."""
    names = (name for name in sorted(find_entry_points(GROUP)) if name.partition(".")[0] == lens)
    return tuple(load_published_object(GROUP, name) for name in names)


def get_quirk_lines(lens: str) -> Mapping[str, str]:
    """Return the quirks of a lens, with one line each."""
    return {quirk.name: quirk.line for preset in get_paper_presets(lens) for quirk in preset.quirks}


def get_quirk_tasks(lens: str, active: Collection[str]) -> tuple[str, ...]:
    """Return the tasks whose labels some quirks of a lens need, besides the tasks of the lens."""
    rules = (
        quirk.published
        for preset in get_paper_presets(lens)
        for quirk in preset.quirks
        if quirk.name in active
    )
    return tuple(task for rule in rules if rule is not None for task in rule.tasks)


def get_active_quirks(lens: str, settings: LensSettings) -> tuple[Quirk, ...]:
    """Return the quirks of a lens that are on: all of them in paper mode, else the named ones.

    Raises:
        InputError: Quirks are on, and papers are not registered.
    """
    is_paper_mode = settings.mode == "paper"
    if not is_paper_mode and not settings.quirks:
        return ()
    check_published_group(GROUP)
    quirks = (quirk for preset in get_paper_presets(lens) for quirk in preset.quirks)
    return tuple(quirk for quirk in quirks if is_paper_mode or quirk.name in settings.quirks)


def paper_options(lens: str, settings: LensSettings) -> Mapping[str, Option]:
    """Return the default options of a lens in paper mode; empty in other modes."""
    if settings.mode != "paper":
        return {}
    return {name: value for preset in get_paper_presets(lens) for name, value in preset.options.items()}


class Lens(ABC):
    """A question to a model; what most lenses answer alike has a default.

    Attributes:
        name: Public name, the file's stem.
        version: Part of the fingerprint of observations; to be raised when these change.
        tasks: Public names of the tasks whose labels are joined.
        targets: Targets of tasks that a user may name instead of `tasks`; empty if `tasks` are fixed.
        typed_options: Typed options. A lens without them names its options in a mapping ``options`` and
            checks their values itself.
        headline: The declared headline; None leaves it to `sonde.results.headlines.find_headlines`.
        uses_datasets: Whether it reads balanced data sets of its tasks instead of the items.
        reads_attention: Whether it reads attention weights, which are computed in float32 on a CPU.
        savings: Options, as the command line takes them, that make a long run shorter; empty for none.
        compares_with_base: Whether a base model of the same vocabulary is read beside each model
            (`LensSettings.base`): that of the option ``base``, by default the first model of the run.
        comparable_metrics: Metrics that a comparison of two models compares.
        comparison_options: Options for the scoring of a comparison, which omits what qualifies other numbers.
    """

    name: str = ""
    version: str
    tasks: tuple[str, ...] = ()
    targets: frozenset[str] = frozenset()
    typed_options: type[Options] = Options
    headline: HeadlineMetric | None = None
    uses_datasets: bool = False
    reads_attention: bool = False
    savings: str = ""
    compares_with_base: bool = False
    comparable_metrics: tuple[ComparableMetric, ...] = ()
    comparison_options: Mapping[str, Option] = MappingProxyType({})

    @property
    def quirks(self) -> Mapping[str, str]:
        """Return the quirks of published code that the lens can reproduce, with one line each."""
        return get_quirk_lines(self.name)

    @property
    def options(self) -> Mapping[str, str]:
        """Return the options that `LensSettings.options` may hold, with one line each."""
        return self.typed_options.lines()

    @property
    def scoring_options(self) -> frozenset[str]:
        """Return the `options` that change scores only: no model runs again for them."""
        return self.typed_options.names("scoring")

    @abstractmethod
    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return why this lens cannot read such a model and which it can, in one line; None if it can."""

    def select_test_rows(self, examples: pl.DataFrame, settings: LensSettings) -> pl.DataFrame:
        """Select the rows of a data set that scores are computed from; none if they have no clusters."""
        if not {"split", "cluster"} <= set(examples.columns):
            return examples.clear()
        return examples.filter(pl.col("split") == "test")

    @abstractmethod
    def score(self, scoring: ScoringContext) -> list[Score]:
        """Compute every score of the lens, each with its interval."""

    def pairs(self, options: Mapping[str, Option]) -> tuple[str, ...]:
        """Return the tasks whose minimal pairs are read in place of the other inputs; empty for none.

        Raises:
            SondeError: A task does not exist, or gives no pairs.
        """
        return ()

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """Yield lines that a run prints below the headline, from the lens's rows of ``scores.parquet``."""
        return iter(())

    def write_files(self, run: RunDirectory) -> Sequence[str]:
        """Write further files of the lens into the folder of a finished run.

        Returns:
            A line about each file.
        """
        return ()


class TrainingLens(Lens):
    """A lens that trains: `train` is called once per method, then `score` once."""

    @property
    def corpus_options(self) -> frozenset[str]:
        """Return the `options` that name a training corpus, whose content is part of the key."""
        return self.typed_options.names("corpus")

    @abstractmethod
    def methods(self, tasks: Sequence[str], settings: LensSettings) -> tuple[Method, ...]:
        """Return the trainings for these tasks, in the best order."""

    @abstractmethod
    def train(self, method: Method, training: Training) -> pl.DataFrame:
        """Train a method and return the rows of the item table: the answer to each example.

        After a kill, a call resumes from the checkpoints in ``training.folder`` and returns the rows of an
        undisturbed one.

        Raises:
            SondeError: The data or the model cannot be used for training.
        """


class ReadingLens(Lens):
    """A lens that reads a frozen model.

    The job runner calls `input_requests` once per job, `observe` for a few items at a time, `score` once.
    """

    def resolve_options(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, Option]:
        """Resolve options that depend on the models of a run; options that a user gave stay.

        Raises:
            UsageError: The options do not fit the models.
        """
        return options

    def excluded_models(
        self, models: Mapping[str, Capabilities], options: Mapping[str, Option]
    ) -> Mapping[str, str]:
        """Return models that cannot be read in one run with the others, by name, with the reason."""
        return {}

    def needs_file_context(self, settings: LensSettings) -> bool:
        """Return whether it reads `sonde.corpora.Item.context`, the text of the file before an item."""
        return False

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """Return the random-weights controls to observe."""
        return ()

    def assign_controls(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Control, ...]:
        """Assign inputs to the controls, once the inputs are known."""
        return self.controls(settings)

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """Return the inputs of the model, given all items and their labels."""
        return items

    def describe_inputs(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> str:
        """Describe in one line what a user should know before the inputs are read; empty for nothing."""
        return ""

    @abstractmethod
    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Return the requests for these items.

        Args:
            prepared: Items of a job with tree, tokens and alignment.
            labels: Label rows of these items with ``item_id``, for each of `tasks`.
            settings: Settings of the lens.
        """

    @abstractmethod
    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """Compute the rows of a few items in the item table.

        Args:
            observed: The items with their captures.
            labels: Label rows of the job's items (``item_id, start, end, label, ...``, in characters), for
                each of `tasks`.
            settings: Settings of the lens.
            surfaces: Readable surface of each vocabulary id.
        """

    def next_stage(self, scores: Sequence[Score], settings: LensSettings) -> Mapping[str, Option] | None:
        """Return what the next stage needs of this one's scores; None if there is no next stage.

        A second stage examines a head that validation chose: `input_requests`, `observe` and `score` run
        again with ``settings.stage`` increased and the answer in ``settings.found``. The scores are added to
        those of the first.
        """
        return None


class ServerOptions(Options):
    """Options of lenses that read a model on a server."""

    base_url: str = option(
        BASE_URL, f"address of the server for models named {PREFIX}NAME; the key comes from {KEY}"
    )
    concurrency: Count = option(4, "maximum concurrent requests to the server", scoring=True)
    token_limit: NonNegative = option(
        0,
        "maximum tokens per call of the command, prompts and replies together, as the server counts them; "
        "answers up to then are kept",
        scoring=True,
    )
    parameters: str = option(
        "",
        "further fields of each request, as a JSON object, such as "
        '{"reasoning_effort": "low", "max_completion_tokens": 512, "max_tokens": null}; null removes a field '
        "that sonde sets itself",
    )

    @model_validator(mode="after")
    def _check_server(self) -> Self:
        if "@" in urlsplit(self.base_url).netloc:
            # Options are written into the files of the run.
            raise PydanticCustomError("login", f"option base_url has a login in it; put the key into {KEY}")
        if not self.base_url.startswith(("http://", "https://")):
            raise PydanticCustomError(
                "address", "option base_url is not an address; give one such as {url}", {"url": BASE_URL}
            )
        if self.parameters and not isinstance(_object(self.parameters), dict):
            raise PydanticCustomError("json", "option parameters is not a JSON object")
        return self

    @property
    def server(self) -> ServerSettings:
        """Return the options as settings of the client."""
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
