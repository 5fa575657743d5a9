"""Tasks: their protocols and registry, and the labels on characters and examples that they give.

Labels are fixed on characters, before any tokenizer exists. An example is a labelled place, and a data set a
table of examples with their splits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import polars as pl

from sonde.base.errors import InputError
from sonde.base.fingerprint import fingerprint
from sonde.base.registry import Registry, check_published_group, load_published_object
from sonde.corpora import Given, Item, SkipCounter, SourceFile, content_key
from sonde.corpora.engine.parallel import AHEAD, ONE, ItemChunk, ParallelMap, make_chunks
from sonde.corpora.engine.read import extract_items
from sonde.languages import LANGUAGES, Definition, get_facet, has_facet
from sonde.languages.engine.tagging import Tagger
from sonde.results.schema import Columns, ColumnType, to_schema

EXAMPLE_COLUMNS: Columns = {
    "example_id": (pl.String, "hash of the task, its version and the labelled place"),
    "item_id": (pl.String, "the input that is forwarded; a derived item for mutated text"),
    "source_id": (pl.String, "the corpus item that it comes from"),
    "start": (pl.Int32, "first labelled character in the forwarded text; the whole text for whole functions"),
    "end": (pl.Int32, "their end, exclusive"),
    "other_start": (pl.Int32, "first character of the second place of a pair; null otherwise"),
    "other_end": (pl.Int32, "its end, exclusive; null otherwise"),
    "label": (pl.String, "the class"),
    "value": (pl.Float64, "the number that the class is made of; null if there is none"),
    "split": (pl.String, "`train`, `valid`, `test`, or `external` (an external test set)"),
    "cluster": (
        pl.String,
        "unit of resampling: the cluster of the source item; for token tasks, the token type",
    ),
    "type": (pl.String, "the surface of the token for token tasks, else empty"),
    "characters": (pl.Int32, "length of the forwarded text in characters"),
    "tokens": (pl.Int32, "its length in code tokens"),
    "matched": (pl.Boolean, "whether every other class has an example of equal length in the same split"),
    "given_split": (
        pl.Boolean,
        "whether the split comes from the source (a published data set, or a corpus built with splits) and "
        "is kept. Otherwise sonde made the split, and cross-fitting may replace it",
    ),
}
"""Columns of a data set, one row an example."""


EXAMPLE_SCHEMA = to_schema(EXAMPLE_COLUMNS)


@dataclass(frozen=True, slots=True)
class Example:
    """A labelled place before it has a split; see `EXAMPLE_SCHEMA`."""

    item: Item
    source: Item
    label: str
    start: int
    end: int
    tokens: int
    cluster: str
    other_start: int | None = None
    other_end: int | None = None
    value: float | None = None
    type: str = ""


@dataclass(slots=True)
class SplitExamples:
    """Examples with their splits, on the way to a table.

    Attributes:
        rows: Split, whether the example is matched, and the example.
        report: What the builder says of its choice.
    """

    rows: list[tuple[str, bool, Example]] = field(default_factory=list[tuple[str, bool, Example]])
    report: dict[str, Any] = field(default_factory=dict[str, Any])


def example_table(
    rows: Iterable[tuple[str, bool, Example]], task: str, version: str, *, given_split: bool = False
) -> pl.DataFrame:
    """Build the table of examples in `EXAMPLE_SCHEMA`, sorted by split, then by id.

    A published file may hold an example several times; each time counts, under an id of its own.
    """
    times: Counter[tuple[Any, ...]] = Counter()

    def identity(example: Example) -> str:
        key = (example.item.item_id, example.start, example.end, example.other_start, example.label)
        times[key] += 1
        return fingerprint("example", task, version, key, times[key])

    table_rows = [
        (
            identity(example),
            example.item.item_id,
            example.source.item_id,
            example.start,
            example.end,
            example.other_start,
            example.other_end,
            example.label,
            example.value,
            split,
            example.cluster,
            example.type,
            len(example.item.text),
            example.tokens,
            is_matched,
            given_split,
        )
        for split, is_matched, example in rows
    ]
    table = pl.DataFrame(table_rows, schema=dict(EXAMPLE_SCHEMA), orient="row")
    order = pl.col("split").replace_strict({"train": 0, "valid": 1, "test": 2}, return_dtype=pl.Int8)
    return table.sort(order, "example_id")


@dataclass(frozen=True)
class Dataset:
    """A data set of one task in one language.

    Attributes:
        task: Public name of the task.
        version: Its version.
        examples: One row per example, in `EXAMPLE_SCHEMA`.
        inputs: Derived items, which are in no corpus; all other ``item_id`` are items that were given.
        report: ``asked`` and ``size``; ``pool`` and ``dropped`` (why functions were left out); ``kept``
            (examples by class) and ``splits``; ``matched`` (the share of examples with their like in length
            in every other class), absent where nothing is matched; and what the kind of task adds.
    """

    task: str
    version: str
    examples: pl.DataFrame
    inputs: tuple[Item, ...]
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])


GROUP = "sonde.tasks.published"


T = TypeVar("T")


def resolve_task(task: T, mode: str, quirks: Set[str] = frozenset()) -> T:
    """Return the task itself, or its published variant if the mode or a quirk requests that.

    A task that has ``as_published`` says itself what a mode and quirks make of it; of others a paper
    registers a variant under the same name.

    Raises:
        InputError: It is asked as published, and nothing is registered.
    """
    if mode != "paper" and not quirks:
        return task
    check_published_group(GROUP)
    if hasattr(task, "as_published"):
        return task.as_published(mode, quirks)  # pyright: ignore[reportAttributeAccessIssue]
    name: str = task.name  # pyright: ignore[reportAttributeAccessIssue]
    variant = load_published_object(GROUP, name)
    uses_variant = mode == "paper" or quirks & getattr(variant, "quirks", {}).keys()
    return variant if variant is not None and uses_variant else task


LABEL_COLUMNS: Columns = {
    "start": (pl.Int32, "first labelled character of the item"),
    "end": (pl.Int32, "end of the labelled characters, exclusive"),
    "label": (pl.String, "the label; null if no class fits"),
    "value": (pl.Float64, "the number that the class is made of; null if there is none"),
}
"""Columns of an item's labels, one row a label."""


LABEL_SCHEMA = to_schema(LABEL_COLUMNS)


PAIR_COLUMNS: Columns = {
    **LABEL_COLUMNS,
    "other_start": (pl.Int32, "first character of the second place; null if there is none"),
    "other_end": (pl.Int32, "its end, exclusive; null if there is none"),
}
"""The same with a second labelled place."""


PAIR_SCHEMA = to_schema(PAIR_COLUMNS)


LabelRow = tuple[int, int, str | None, float | None]
"""A row in `LABEL_SCHEMA`."""


@dataclass(frozen=True, slots=True)
class Repository:
    """The files around an item, as far as a task may know them.

    Attributes:
        definitions: For each name, the paths of the files of the repository that define it, with the kinds.
        imports: The import statements of each file that has any, by path.
    """

    definitions: Mapping[str, tuple[tuple[str, Definition], ...]]
    imports: Mapping[str, str] = field(default_factory=dict[str, str])


class _Named(Protocol):
    """The properties that every task states of itself."""

    @property
    def name(self) -> str:
        """Return the public name, the file's stem."""
        ...

    @property
    def version(self) -> str:
        """Return the version, which is raised when labels change; part of a labelled span's identity."""
        ...

    @property
    def target(self) -> str:
        """Return ``"item"``, ``"span"``, ``"pair"``, ``"relation"`` (of spans) or ``"mutation"`` (of items).

        Relations are all labelled together; of all others a balanced data set can be built. ``"corpus"`` for
        questions asked of whole files.
        """
        ...


@runtime_checkable
class Task(_Named, Protocol):
    """A question asked of the code alone."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels that can occur."""
        ...

    @property
    def needs_repository(self) -> bool:
        """Return whether `label` looks at the repository's definitions."""
        ...

    def label(
        self, items: Iterable[Item], repositories: Mapping[str, Repository], /
    ) -> dict[str, pl.DataFrame]:
        """Label each item: a table in `LABEL_SCHEMA`, plus columns of the task, by item id.

        An item task gives one row with the item's whole span.

        Args:
            items: The items.
            repositories: The definitions around, where the task needs them.
        """
        ...


def get_provided_labels(item: Item, task: str) -> tuple[Given, ...]:
    """Return the labels that the source of an item brings for a task."""
    return tuple(given for given in item.given if given.task.lower() == task)


class ItemLabels(ABC):
    """Base of the tasks that label each item separately. A subclass implements `label_rows`.

    Labels that the source of an item brings are taken as they are.

    Attributes:
        schema: Columns of the rows.
    """

    name: str
    version: str = "1"
    labels: tuple[str, ...]
    needs_repository: bool = False
    schema: ClassVar[Mapping[str, ColumnType]] = LABEL_SCHEMA

    def label(self, items: Iterable[Item], repositories: Mapping[str, Repository]) -> dict[str, pl.DataFrame]:
        """Label each item as a table, by item id; see `Task.label`."""
        rows: list[tuple[Any, ...]] = []
        spans: dict[str, tuple[int, int]] = {}
        for item in items:
            begin = len(rows)
            rows += self.rows(item, repositories)
            spans[item.item_id] = begin, len(rows) - begin
        # One table, and of it a part an item: a table an item takes half the time of a task that counts.
        table = pl.DataFrame(rows, schema=dict(self.schema), orient="row")
        return {name: table.slice(begin, height) for name, (begin, height) in spans.items()}

    def rows(self, item: Item, repositories: Mapping[str, Repository]) -> Sequence[tuple[Any, ...]]:
        """Return the rows of the item's table: those of its source, else those of `label_rows`."""
        return self.provided_rows(item) or self.label_rows(item, repositories)

    def provided_rows(self, item: Item) -> list[tuple[Any, ...]]:
        """Return the rows of the labels that the item's source brings."""
        rows: list[tuple[Any, ...]] = []
        for label in get_provided_labels(item, self.name):
            other_span = (None, None) if label.other_start < 0 else (label.other_start, label.other_end)
            values = (label.start, label.end, label.label, label.value, *other_span)
            values_by_column = dict(zip(PAIR_SCHEMA, values, strict=True))
            rows.append(tuple(values_by_column.get(name) for name in self.schema))
        return rows

    @abstractmethod
    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> Sequence[tuple[Any, ...]]:
        """Return the rows of an item that no source labels."""


@runtime_checkable
class CorpusTask(_Named, Protocol):
    """A question asked of whole files together: its rows are no labels of single items."""

    def collect(self, files: Iterable[SourceFile], /) -> Iterable[Mapping[str, Any]]:
        """Return the rows of ``sonde label``, as JSON can hold them."""
        ...


class RowTask(ABC):
    """Base of the corpus tasks with one row per item, for any unit. A subclass defines ``name`` and `row`."""

    name: str
    version = "1"
    target = "corpus"

    def collect(self, files: Iterable[SourceFile]) -> Iterator[dict[str, Any]]:
        """Yield a row for each function of some files."""
        for file in files:
            yield from map(self.row, extract_items(file, "function", SkipCounter()))

    @abstractmethod
    def row(self, item: Item) -> dict[str, Any]:
        """Return the row of one item."""


@dataclass(frozen=True, slots=True)
class DrawRequest:
    """The files and settings that a data set is drawn with; see `DrawingTask.draw`."""

    files: Sequence[SourceFile]
    size: int
    seed: int
    language: str
    options: Mapping[str, Any]
    parallel: ParallelMap


class DrawingTask(ABC):
    """Base of the corpus tasks that a lens can ask: each draws its own data set from the files.

    A subclass gives ``name``, ``version``, `collect` and `draw_table`.
    """

    name: str
    version: str
    target = "corpus"

    @abstractmethod
    def collect(self, files: Iterable[SourceFile]) -> list[dict[str, Any]]:
        """Return the rows of ``sonde label``, as JSON can hold them."""

    @abstractmethod
    def draw_table(self, request: DrawRequest) -> tuple[pl.DataFrame, list[Item], dict[str, Any]]:
        """Draw the examples of a data set, their texts and their report; see `draw`."""

    def draw(
        self,
        files: Iterable[SourceFile],
        *,
        size: int,
        seed: int,
        language: str,
        options: Mapping[str, Any],
        parallel: ParallelMap = ONE,
    ) -> Dataset:
        """Draw a data set, as `sonde.tasks.build` does for other tasks.

        Args:
            files: The files of a corpus in one language.
            size: Examples wanted.
            seed: Draws another data set.
            language: Public name of the language.
            options: Options of the lens.
            parallel: Processes that read files; any number gives the same.

        Raises:
            UsageError: An option that makes no sense.
            InputError: The files hold too little.
        """
        request = DrawRequest(list(files), size, seed, language, options, parallel)
        examples, inputs, details = self.draw_table(request)
        report = {"asked": size, "size": examples.height, **details}
        return Dataset(self.name, self.version, examples, tuple(inputs), report)


def get_languages(task: Task | CorpusTask) -> tuple[str, ...]:
    """Return the languages that a task can label: those with its ``facet``, or all if it names none."""
    facet: str = getattr(task, "facet", "")
    return tuple(name for name in LANGUAGES.names() if not facet or has_facet(name, facet))


def get_quirks(task: Task | CorpusTask) -> frozenset[str]:
    """Return the names of a task's quirks of published code, all on in paper mode."""
    return frozenset(get_quirk_lines(task))


def get_quirk_lines(task: Task | CorpusTask) -> Mapping[str, str]:
    """Return a task's quirks with a line on each: its own, and those of its published variant."""
    variant = load_published_object(GROUP, task.name)
    return {**getattr(task, "quirks", {}), **getattr(variant, "quirks", {})}


def get_ablations(task: Task | CorpusTask) -> frozenset[str]:
    """Return the names of the switches that are set like quirks but belong to no mode."""
    return frozenset(getattr(task, "ablations", ()))


def repositories(
    files: Iterable[SourceFile],
    parallel: ParallelMap = ONE,
    *,
    cache: MutableMapping[str, list[Definition]] | None = None,
) -> dict[str, Repository]:
    """Index every function, method and class of the files by repository and name.

    Definitions whose name begins and ends with two underscores do not count: they are called by the
    language, and every repository has them (PERPLEXED, data preparation).

    Args:
        files: Files of a corpus, in any order; the answer does not depend on it.
        parallel: Processes that read them; any number gives the same.
        cache: What files were found to define before, by `sonde.corpora.content_key`; new ones are added.

    Returns:
        One repository for every name that a file has in ``repository``, empty ones included.
    """
    cache = {} if cache is None else cache
    names_by_repository: dict[str, dict[str, list[tuple[str, Definition]]]] = {}
    for chunk in make_chunks(files, times=AHEAD * parallel.workers):
        for file, definitions in _read_unknown(chunk, _definitions, parallel, cache):
            names = names_by_repository.setdefault(file.repository, defaultdict(list))
            for definition in definitions:
                if not is_dunder(definition.name):
                    names[definition.name].append((file.path, definition))
    return {
        repository: Repository(
            {
                name: tuple(sorted(entries, key=lambda entry: (entry[0], entry[1].start)))
                for name, entries in names.items()
            }
        )
        for repository, names in names_by_repository.items()
    }


def index_imports(
    files: Iterable[SourceFile], *, parallel: ParallelMap = ONE, cache: MutableMapping[str, str] | None = None
) -> dict[str, Repository]:
    """Gather the import statements of the files by repository and path; no definition is indexed.

    Args:
        files: Files of a corpus.
        parallel: Processes that read them; any number gives the same.
        cache: Import statements that were found before, by `sonde.corpora.content_key`; new ones are added.
    """
    supported_files = [file for file in files if has_facet(file.language, "tagging")]
    imports_by_repository: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for file, imports in _read_unknown(supported_files, _imports, parallel, {} if cache is None else cache):
        if imports:
            imports_by_repository[file.repository][file.path] = imports
    return {repository: Repository({}, imports) for repository, imports in imports_by_repository.items()}


def merge_repositories(parts: Sequence[Mapping[str, Repository]]) -> dict[str, Repository]:
    """Merge what is known of repositories: the definitions of one index and the imports of another."""
    if len(parts) == 1:
        return dict(parts[0])
    merged: dict[str, Repository] = {}
    for part in parts:
        for name, repository in part.items():
            known = merged.get(name, Repository({}))
            merged[name] = Repository(
                {**known.definitions, **repository.definitions}, {**known.imports, **repository.imports}
            )
    return merged


Answer = TypeVar("Answer")


def _read_unknown(
    files: Sequence[SourceFile],
    read: Callable[[ItemChunk[None, SourceFile]], list[Answer]],
    parallel: ParallelMap,
    cache: MutableMapping[str, Answer],
) -> Iterator[tuple[SourceFile, Answer]]:
    """Return each file with what it holds; content that is not ``cache`` is read and added."""
    keyed_files = [(content_key(file), file) for file in files]
    missing = {key: file for key, file in keyed_files if key not in cache}
    answers = parallel.of_files.map(read, None, missing.values())
    cache.update(zip(missing, (answer for _, answer in answers), strict=True))
    return ((file, cache[key]) for key, file in keyed_files)


def _definitions(part: ItemChunk[None, SourceFile]) -> list[list[Definition]]:
    """Find the definitions of some files; runs in any process."""
    return [list(LANGUAGES.load(file.language).definitions(file.text)) for file in part.items]


def _imports(part: ItemChunk[None, SourceFile]) -> list[str]:
    """Find the import statements of some files; runs in any process."""
    return [get_facet(file.language, "tagging", Tagger).imports(file.text) for file in part.items]


def needs_imports(task: Task) -> bool:
    """Return whether a task looks at the imports of the items' files."""
    return bool(getattr(task, "needs_imports", False))


def is_dunder(name: str) -> bool:
    """Return whether a name begins and ends with two underscores."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def get_repository(item: Item, repositories: Mapping[str, Repository]) -> Repository:
    """Return the repository of an item.

    Raises:
        InputError: The repository was not indexed, so that every call would wrongly look external.
    """
    if item.repository not in repositories:
        raise InputError(
            f"item {item.path!r}: repository {item.repository!r} is not indexed; "
            "pass its files to sonde.tasks.repositories"
        )
    return repositories[item.repository]


def is_defined_in_other_file(name: str, path: str, repository: Repository) -> bool:
    """Return whether a file other than ``path`` defines the name."""
    return any(definition_path != path for definition_path, _ in repository.definitions.get(name, ()))


TASKS: Registry[Task] = Registry("sonde.tasks", "task", "task", protocols=(Task, CorpusTask), folders=True)
