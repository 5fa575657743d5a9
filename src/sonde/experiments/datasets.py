"""Labels and data sets of a run, made once before any model is loaded and kept beside the items.

A data set, for the lenses that draw their examples, may have an external test set: labels that a published
file brings, scored next to those of the corpus itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.base.errors import InputError, SondeError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.formatting import duration
from sonde.base.progress import Advance, Progress
from sonde.corpora import (
    FirstItems,
    Item,
    NearDuplicateIndex,
    Selection,
    SkipCounter,
    cached_definitions,
    cached_imports,
    duplicate_tokens,
    read_files,
    select,
)
from sonde.experiments.experiment import LensChoice, get_lens_settings
from sonde.experiments.plan import Group
from sonde.experiments.progress import Session, SkippedTask
from sonde.languages import get_language_version
from sonde.lenses import LENSES
from sonde.lenses.engine.item_tables import frame_to_items, items_to_frame
from sonde.models import bundled_names, seen_items
from sonde.results.schema import scan_files
from sonde.store.parts import PartStore
from sonde.store.run_folder import label_path
from sonde.tasks import (
    COPIES,
    DRAWING,
    NO_PICKS,
    TRANSFORM_VERSION,
    Dataset,
    DrawingTask,
    LabelRequest,
    ParallelMap,
    Picks,
    PoolTransform,
    Repository,
    Task,
    build,
    build_pairs,
    check_cluster_count,
    collect_labelled_spans,
    effective_clusters,
    index_imports,
    label_items,
    labels_existing_code,
    needs_imports,
    plan_first_items,
    repositories,
    select_source_items,
    suggest_more_clusters,
    transform_dataset,
)
from sonde.tasks.engine.sampling import get_edits
from sonde.tasks.engine.task import TASKS, example_table
from sonde.tasks.engine.user_labels import make_example


def label_key(task_name: str, group: Group, mode: str, quirks: tuple[str, ...]) -> str:
    """Fingerprint of whatever can change the labels of one item, whichever other items are labelled."""
    task = TASKS.load(task_name)
    version = task.version + TASKS.source_hash(task_name)
    around = group.corpus_hash if task.needs_repository or needs_imports(task) else ""
    rules = get_language_version(group.language)
    return fingerprint("labels", task_name, version, rules, around, mode, quirks)


def read_labels(store: PartStore, task_name: str, group: Group, of: str = "") -> pl.DataFrame:
    """The label rows of all inputs of a group; ``of`` as in `sonde.store.run_folder.label_path`."""
    return scan_files([store.path(label_path(task_name, group.prefix, of))]).collect()


class LabelTables(Mapping[str, pl.DataFrame]):
    """The label rows of all inputs of a group, task by task, each read when it is asked for.

    Args:
        store: Where the labels are kept.
        tasks: The tasks, by public name.
        group: The items.
        of: As in `sonde.store.run_folder.label_path`.
    """

    def __init__(self, store: PartStore, tasks: Sequence[str], group: Group, of: str = "") -> None:
        self._store, self._group, self._of = store, group, of
        self._tables: dict[str, pl.DataFrame | None] = dict.fromkeys(tasks)

    def __getitem__(self, task: str) -> pl.DataFrame:
        table = self._tables[task]
        if table is None:
            table = self._tables[task] = read_labels(self._store, task, self._group, self._of)
        return table

    def __contains__(self, task: object) -> bool:
        return task in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def write_labels(
    store: PartStore,
    name: str,
    group: Group,
    mode: str,
    quirks: tuple[str, ...],
    advance: Advance,
    spread: ParallelMap,
    of: str = "",
) -> str:
    """Label a group's items for a task, unless that is done.

    Args:
        store: Where the labels are kept.
        name: The task.
        group: The items.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks beside the mode's preset.
        advance: Is called when it is done.
        spread: Processes that label; any number gives the same.
        of: As in `sonde.store.run_folder.label_path`.

    Returns:
        The rule of the labels, see `label_key`.
    """
    rule = label_key(name, group, mode, quirks)
    relative = label_path(TASKS.public(name), group.prefix, of)
    key = fingerprint(rule, [item.item_id for item in group.items])
    if store.notes(relative, key) is None:
        around = find_repositories(TASKS.load(name), group, spread)
        asked = LabelRequest(name, 0, mode, frozenset(quirks), around)
        tables = label_items(asked, group.items, spread)
        named = (frame.with_columns(pl.lit(item.item_id).alias("item_id")) for item, frame in tables)
        store.put_tables(relative, key, named, {})
    advance()
    return rule


def find_repositories(
    task: Task, group: Group, spread: ParallelMap, items: Sequence[Item] | None = None
) -> dict[str, Repository]:
    """What a task may know of the files around a group's items, gathered once for all tasks that ask.

    Args:
        task: The task.
        group: The items.
        spread: Processes that read files; any number gives the same.
        items: Those of the items that are read; None for all. Only their files are read for imports.
    """
    if task.needs_repository:
        return _cached_definitions(group.corpus, group.language, group.corpus_hash, spread)
    if needs_imports(task):
        paths = frozenset(item.path for item in (group.items if items is None else items))
        return _cached_imports(group.corpus, group.language, group.corpus_hash, paths, spread)
    return {}


def clear_repositories() -> None:
    """Let go of what is known of the files around items, once all of a run are labelled."""
    _cached_definitions.cache_clear()
    _cached_imports.cache_clear()


@functools.lru_cache(maxsize=1)
def _cached_definitions(
    corpus: str, language: str, corpus_hash: str, spread: ParallelMap
) -> dict[str, Repository]:
    return read_definitions(corpus, (language,), spread)


@functools.lru_cache(maxsize=1)
def _cached_imports(
    corpus: str, language: str, corpus_hash: str, paths: frozenset[str], spread: ParallelMap
) -> dict[str, Repository]:
    return read_imports(corpus, (language,), spread, paths)


def read_repositories(
    task: Task, corpus: str, languages: tuple[str, ...], spread: ParallelMap
) -> dict[str, Repository]:
    """What a task may know of all files of a corpus in some languages."""
    if task.needs_repository:
        return read_definitions(corpus, languages, spread)
    return read_imports(corpus, languages, spread) if needs_imports(task) else {}


def read_definitions(corpus: str, languages: tuple[str, ...], spread: ParallelMap) -> dict[str, Repository]:
    """What the files of a corpus define."""
    with cached_definitions(corpus) as known:
        return repositories(read_files(corpus, languages, SkipCounter()), spread, known=known)


def read_imports(
    corpus: str, languages: tuple[str, ...], spread: ParallelMap, paths: Set[str] | None = None
) -> dict[str, Repository]:
    """What the files of a corpus import, or those of some paths."""
    files = read_files(corpus, languages, SkipCounter())
    wanted = (file for file in files if paths is None or file.path in paths)
    with cached_imports(corpus) as known:
        return index_imports(wanted, spread=spread, known=known)


DROPPED = "does not parse"
"""The reason by which data sets count what they leave out."""


def describe_dropped_items(corpus: str, language: str, number: int) -> str:
    """Return a line on the functions with a parse error that data sets leave out.

    >>> describe_dropped_items("local:a", "python", 1)
    'local:a in python: data sets leave out 1 function that does not parse'
    """
    what = "1 function that does" if number == 1 else f"{number:,} functions that do"
    return f"{corpus} in {language}: data sets leave out {what} not parse"


OPTION = "external_test"
"""Option of a lens that names the corpus."""


SPLIT = "external"
"""Its split in the data sets."""


_TAKEN = ("", "test")


@dataclass(frozen=True, slots=True)
class ExternalTest:
    """What an external test set is made of.

    Attributes:
        corpus: As named by the user.
        items: All of its items in one language, as they are.
        key: Hash of the files that hold them.
    """

    corpus: str
    items: tuple[Item, ...]
    key: str


def read_external(lens: LensChoice, language: str) -> ExternalTest | None:
    """The external test set that a user asks a lens to score, or None.

    Raises:
        UsageError: No item brings labels of a task of the lens.
        SondeError: The corpus cannot be read.
    """
    corpus = dict(lens.options).get(OPTION)
    if not corpus:
        return None
    # A published test set is taken as it is: nothing is capped, and what repeats counts.
    chosen = select(str(corpus), Selection(languages=(language,), per_cluster=0, near_duplicates=False))
    brought = {given.task.lower() for item in chosen.items for given in item.given}
    if not brought & set(lens.tasks):
        raise UsageError(
            f"lens {lens.name!r}: option {OPTION} = {str(corpus)!r} brings labels of "
            f"{', '.join(sorted(brought)) or 'no task'}, and the run asks {', '.join(lens.tasks)}; "
            "name a file with labels of one of them, as cubert:FILE"
        )
    return ExternalTest(str(corpus), chosen.items, chosen.corpus_hash)


def add_external_test(made: Dataset, pool: Sequence[Item], external: ExternalTest, language: str) -> Dataset:
    """A data set with the second test set beside its own.

    Of train and valid, what nearly repeats an item of the second test set is left out, with whatever else
    comes from the same function.

    Args:
        made: The data set.
        pool: What it was drawn from.
        external: The external test set.
        language: Public name of the language.
    """
    added = _external_examples(made, external, language)
    if added.is_empty():
        return made
    index = NearDuplicateIndex()
    for item in external.items:
        index.add(item.item_id, duplicate_tokens(item.text))
    texts = {item.item_id: item.text for item in (*pool, *made.inputs)}
    near = _find_near_duplicates(made.examples, texts, index)
    kept = made.examples.filter(~pl.col("source_id").is_in(pl.Series(near, dtype=pl.String).implode()))
    about = {
        "corpus": external.corpus,
        "examples": added.height,
        "left out for it": made.examples.height - kept.height,
    }
    return dataclasses.replace(made, examples=pl.concat([kept, added]), report={**made.report, OPTION: about})


def _external_examples(made: Dataset, external: ExternalTest, language: str) -> pl.DataFrame:
    edits = get_edits(language)
    rows = [
        make_example(item, given, edits)
        for item in external.items
        for given in item.given
        if given.task.lower() == made.task and given.split in _TAKEN
    ]
    table = example_table([("test", False, row) for row in rows], made.task, made.version)
    # An example that is in both test sets is two examples.
    names = pl.concat_str(pl.lit(f"{SPLIT}-"), "example_id")
    return table.with_columns(example_id=names, split=pl.lit(SPLIT))


def _find_near_duplicates(
    examples: pl.DataFrame, texts: Mapping[str, str], index: NearDuplicateIndex
) -> list[str]:
    """Sources of train and valid that nearly repeat an item of the index."""
    asked = examples.filter(pl.col("split") != "test").select("source_id", "item_id").unique()
    return sorted(
        {
            source
            for source, item in asked.iter_rows()
            if index.find(duplicate_tokens(texts[item])) is not None
        }
    )


DEFAULT_SIZE = 10_000
"""Examples a task where a run names no limit; the largest set of INSPECT's paper."""


_WORTH_A_PROCESS = 500
"""Functions from which on one more process saves time: processes start once for all data sets of a run."""


_LIMITED = 0.9
"""A data set that has this share of the size wanted is as small as it is because of the size."""


@dataclass(frozen=True, slots=True)
class LensDatasets:
    """What a lens is shown.

    Attributes:
        inputs: Items of the corpus and derived ones, in hash order.
        keys: Fingerprint of each data set, by task.
        refused: Tasks without one.
        reports: What each data set says of itself, by task.
    """

    inputs: tuple[Item, ...]
    keys: Mapping[str, str]
    refused: tuple[SkippedTask, ...]
    reports: Mapping[str, Any]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Those with a data set."""
        return tuple(self.keys)

    @property
    def key(self) -> str:
        """Fingerprint of all data sets."""
        return fingerprint("drawn", list(self.keys.values()))


def select_pool(selection: Selection) -> Selection:
    """Of what data sets are drawn: all; a data set takes a share of each cluster and drops what repeats.

    Of a transform too: the examples are those of the code as it was written, each in other words.
    """
    return dataclasses.replace(selection, limit=None, per_cluster=0, near_duplicates=False, transform="none")


def find_pool_limit(session: Session, lenses: Sequence[LensChoice]) -> FirstItems | None:
    """How many items of a table with labels are enough for the lenses; None where they need all."""
    experiment = session.experiment
    if experiment.selection.transform != "none" or any(
        lens.paired or dict(lens.options).get(OPTION) for lens in lenses
    ):
        return None
    return plan_first_items(
        [task for lens in lenses for task in lens.tasks],
        size=experiment.selection.limit or DEFAULT_SIZE,
        seed=experiment.seed,
        keep=(lambda items: items) if experiment.include_seen else exclude_training_items,
    )


def exclude_training_items(items: Sequence[Item]) -> list[Item]:
    """The items that no bundled model was trained on; which models run changes no data set."""
    ids = [item.original or item.item_id for item in items]
    seen = frozenset[str]().union(*(seen_items(name, ids) for name in bundled_names()))
    return [item for item, name in zip(items, ids, strict=True) if name not in seen]


def build_datasets(session: Session, lens: LensChoice, group: Group, pool: Sequence[Item]) -> LensDatasets:
    """Build the data sets of a lens, those excepted that are there already.

    Any number of processes gives the same data sets.

    Args:
        session: The run.
        lens: The lens with its tasks.
        group: Corpus and language.
        pool: Functions that may be drawn.

    Raises:
        SondeError: No task of the lens has a data set; the reason of the last.
    """
    progress, store = session.progress, session.store
    selection = session.experiment.selection
    size = selection.limit or DEFAULT_SIZE
    spread = dataclasses.replace(session.spread, worth=_WORTH_A_PROCESS)
    keys: dict[str, str] = {}
    refused: list[SkippedTask] = []
    reports: dict[str, Any] = {}
    external = read_external(lens, group.language)
    found: dict[str, Item] = {item.item_id: item for item in pool}
    found |= {item.item_id: item for item in external.items} if external else {}
    # Taken once: a pool may hold every function of a corpus, and a lens has dozens of tasks.
    pool_key = fingerprint("pool", [(item.item_id, item.split) for item in pool])
    used: dict[str, Item] = {}
    transform = None
    if selection.transform != "none":
        transform = PoolTransform(selection.transform, group.language, selection.seed, pool)
    drawing = _DatasetBuilder(lens, group, pool, pool_key, size, store, spread, external, transform)
    picks = drawing.picks(progress)
    with progress.stage(f"drawing {group.language}", len(lens.tasks)) as advance:
        for name in lens.tasks:
            public = TASKS.public(name)
            try:
                made = drawing.data_set(name, picks.pop(name, NO_PICKS))
            except (InputError, UsageError) as error:
                refused.append(SkippedTask(lens.name, public, group.language, str(error)))
                progress.note(f"left out: {error}")
            else:
                keys[public] = made.key
                reports[public] = {**made.report, **_count_effective_clusters(lens, public, group, store)}
                if copies := made.report.get(COPIES):
                    progress.note(f"{public}: {copies['said']}")
                if told := made.report.get("transform"):
                    progress.note(describe_transform(public, told))
                found |= {item.item_id: item for item in made.derived}
                used |= {item: found[item] for item in made.shown}
            advance()
    if not keys:
        raise _no_dataset_error(refused)
    if unparsed := max(report.get("dropped", {}).get(DROPPED, 0) for report in reports.values()):
        progress.note(describe_dropped_items(group.corpus, group.language, unparsed))
    worth = {task: one["effective_clusters"] for task, one in reports.items() if "effective_clusters" in one}
    limited = any(reports[task]["size"] >= _LIMITED * size for task in worth)
    remedies = suggest_more_clusters(group.corpus, group.language, limited=limited)
    if lack := check_cluster_count(worth, remedies, "tasks"):
        progress.note(f"{lens.name} on {group.corpus} in {group.language}: {lack}")
    order = sorted(used.values(), key=lambda item: fingerprint(lens.seed, item.item_id))
    return LensDatasets(tuple(order), keys, tuple(refused), reports)


def _count_effective_clusters(
    lens: LensChoice, task: str, group: Group, store: PartStore
) -> dict[str, float]:
    """How many clusters the tested examples are worth; nothing where they come in none."""
    tested = LENSES.load(lens.source).select_test_rows(
        read_labels(store, task, group, lens.labels), get_lens_settings(lens)
    )
    return {} if tested.is_empty() else {"effective_clusters": round(effective_clusters(tested), 1)}


@dataclass(frozen=True, slots=True)
class _StoredDataset:
    """A stored data set: what it shows of the pool and beside it."""

    key: str
    shown: tuple[str, ...]
    derived: tuple[Item, ...]
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _DatasetBuilder:
    """What the data sets of a lens have in common; see `draw`."""

    lens: LensChoice
    group: Group
    pool: Sequence[Item]
    pool_key: str
    size: int
    store: PartStore
    spread: ParallelMap
    external: ExternalTest | None
    transform: PoolTransform | None

    def key(self, name: str) -> str:
        """Fingerprint of everything that can change the data set of a task."""
        lens = self.lens
        language = get_language_version(self.group.language)
        version = TASKS.load(name).version + TASKS.source_hash(name)
        rules = (version, language, lens.mode, lens.quirks, lens.observation_lens.options)
        beside_it = [self.external.key] if self.external else []
        if self.transform is not None:
            beside_it += [TRANSFORM_VERSION, self.transform.name]
        return fingerprint(
            "data set",
            DRAWING,
            name,
            rules,
            self.size,
            lens.seed,
            self.group.corpus_hash,
            self.pool_key,
            *beside_it,
        )

    def paths(self, name: str) -> tuple[str, str]:
        """Where the examples of a task lie, and the inputs that it derives."""
        relative = label_path(TASKS.public(name), self.group.prefix, self.lens.labels)
        return relative, f"{relative.removesuffix('.parquet')}.inputs.parquet"

    def has_dataset(self, name: str) -> bool:
        """Whether the data set of a task is there already."""
        return all(self.store.notes(path, self.key(name)) is not None for path in self.paths(name))

    def picks(self, progress: Progress) -> dict[str, Picks]:
        """The labelled places of the functions, for all tasks whose data sets are still to be built."""
        if self.lens.paired:
            return {}
        missing = [name for name in self.lens.tasks if not self.has_dataset(name)]
        tasks = {name: TASKS.load(name) for name in missing}
        alone = {name: task for name, task in tasks.items() if labels_existing_code(task)}
        if not alone:
            return {}
        with progress.stage(f"labelling {self.group.language}"):
            return collect_labelled_spans(
                {
                    name: self.find_repositories(task)
                    for name, task in alone.items()
                    if not task.needs_repository
                },
                self.pool,
                seed=self.lens.seed,
                language=self.group.language,
                mode=self.lens.mode,
                quirks=frozenset(self.lens.quirks),
                spread=self.spread,
                tell=lambda estimate: progress.note(
                    f"labelling {estimate.functions:,} functions for {estimate.tasks} tasks: about "
                    f"{duration(estimate.seconds)} (estimated from {estimate.tried} of them)"
                ),
            )

    def find_repositories(self, task: Task) -> dict[str, Repository]:
        """What a task may know of the files around the functions that its data set is drawn from."""
        if not needs_imports(task):
            return find_repositories(task, self.group, self.spread)
        items = select_source_items(task, self.pool, self.lens.seed, self.group.language, self.spread)
        return find_repositories(task, self.group, self.spread, items)

    def data_set(self, name: str, picks: Picks) -> _StoredDataset:
        """The data set of a task, from the store or built."""
        key, (relative, beside) = self.key(name), self.paths(name)
        if not self.has_dataset(name):
            made = self._build(name, picks)
            if self.external:
                made = add_external_test(made, self.pool, self.external, self.group.language)
            if self.transform is not None and not self.lens.paired:
                made = transform_dataset(
                    made, self.pool, self.transform, self._label_request(name), self.spread
                )
            self.store.put(beside, key, items_to_frame([(self.group.corpus, made.inputs)]), {})
            self.store.put(relative, key, made.examples, {"report": dict(made.report)})
        examples = scan_files(self.store.path(relative)).select("item_id").collect()
        notes = self.store.notes(relative, key) or {}
        return _StoredDataset(
            key,
            tuple(examples["item_id"].unique(maintain_order=True)),
            tuple(frame_to_items(scan_files(self.store.path(beside)).collect())),
            notes.get("report", {}),
        )

    def _label_request(self, name: str) -> LabelRequest:
        lens = self.lens
        return LabelRequest(
            name, lens.seed, lens.mode, frozenset(lens.quirks), self.find_repositories(TASKS.load(name))
        )

    def _build(self, name: str, picks: Picks) -> Dataset:
        lens, group, task = self.lens, self.group, TASKS.load(name)
        if lens.paired:
            return build_pairs(
                name,
                self.pool,
                size=self.size,
                seed=lens.seed,
                language=group.language,
                mode=lens.mode,
                quirks=frozenset(lens.quirks),
                spread=self.spread,
                transform=self.transform,
            )
        if isinstance(task, DrawingTask):
            files = read_files(group.corpus, (group.language,), SkipCounter())
            return task.draw(
                files,
                size=self.size,
                seed=lens.seed,
                language=group.language,
                mode=lens.mode,
                options=dict(lens.options),
                spread=self.spread,
            )
        if task.target == "corpus":
            raise UsageError(
                f"task {task.name!r} lists what a corpus holds; no lens asks it, `sonde label` does"
            )
        return build(
            name,
            self.pool,
            size=self.size,
            seed=lens.seed,
            language=group.language,
            mode=lens.mode,
            quirks=frozenset(lens.quirks),
            repositories=self.find_repositories(task),
            spread=self.spread,
            picks=picks,
        )


def describe_transform(task: str, told: Mapping[str, int]) -> str:
    """How many examples a transform leaves, and why it leaves the others out.

    >>> describe_transform("idn", {"kept": 1632, "nothing to change by rename": 368})
    'idn: 1,632 of 2,000 examples transformed; left out: 368 nothing to change by rename'
    """
    left = ", ".join(f"{count:,} {reason}" for reason, count in told.items() if reason != "kept")
    shown = f"{task}: {told['kept']:,} of {sum(told.values()):,} examples transformed"
    return f"{shown}; left out: {left}" if left else shown


def _no_dataset_error(refused: Sequence[SkippedTask]) -> SondeError:
    return InputError(f"lens {refused[-1].lens!r} has no data set to read: {refused[-1].reason}")
