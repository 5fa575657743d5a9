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

from sonde.base.errors import InputError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.base.formatting import bracket, duration, plural
from sonde.base.progress import Advance, Progress, ignore_advance
from sonde.corpora import (
    FirstItems,
    Item,
    ItemSet,
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
    merge_repositories,
    needs_imports,
    plan_first_items,
    repositories,
    select_source_items,
    suggest_more_clusters,
    transform_dataset,
)
from sonde.tasks.engine.sampling import get_edits
from sonde.tasks.engine.task import TASKS, example_table
from sonde.tasks.engine.user_labels import TESTED, UserLabels, make_example


def label_key(task_name: str, group: Group, mode: str, quirks: tuple[str, ...]) -> str:
    """Return the fingerprint of everything that can change the labels of one item."""
    task = TASKS.load(task_name)
    version = task.version + TASKS.source_hash(task_name)
    repository_key = group.corpus_hash if task.needs_repository or needs_imports(task) else ""
    rules = get_language_version(group.language)
    return fingerprint("labels", task_name, version, rules, repository_key, mode, quirks)


def read_labels(store: PartStore, task_name: str, group: Group, suffix: str = "") -> pl.DataFrame:
    """Read the label rows of all inputs of a group; ``suffix`` is `label_path`'s ``of``."""
    return scan_files([store.path(label_path(task_name, group.prefix, suffix))]).collect()


class LabelTables(Mapping[str, pl.DataFrame]):
    """The label rows of all inputs of a group, task by task, each read when it is asked for.

    Args:
        store: Where the labels are kept.
        tasks: The tasks, by public name.
        group: The items.
        of: As in `sonde.store.run_folder.label_path`.
    """

    def __init__(self, store: PartStore, tasks: Sequence[str], group: Group, suffix: str = "") -> None:
        self._store, self._group, self._of = store, group, suffix
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
    session: Session,
    name: str,
    group: Group,
    mode: str,
    quirks: tuple[str, ...],
    suffix: str = "",
    advance: Advance = ignore_advance,
) -> str:
    """Label a group's items for a task, unless that is done; any number of processes gives the same.

    Args:
        session: The run.
        name: The task.
        group: The items.
        mode: ``"corrected"`` or ``"paper"``.
        quirks: Single quirks in addition to the mode's preset.
        suffix: As in `sonde.store.run_folder.label_path`.
        advance: Counts the items that are labelled.

    Returns:
        The rule of the labels, see `label_key`.
    """
    store, parallel = session.store, session.spread
    rule = label_key(name, group, mode, quirks)
    relative = label_path(TASKS.public(name), group.prefix, suffix)
    key = fingerprint(rule, [item.item_id for item in group.items])
    if store.notes(relative, key) is None:
        repositories = find_repositories(TASKS.load(name), group, parallel)
        request = LabelRequest(name, 0, mode, frozenset(quirks), repositories)

        def build_tables() -> Iterator[pl.DataFrame]:
            for item, frame in label_items(request, group.items, parallel):
                yield frame.with_columns(pl.lit(item.item_id).alias("item_id"))
                advance()

        store.put_tables(relative, key, build_tables(), {})
    else:
        advance(len(group.items), reused=True)
    return rule


def find_repositories(
    task: Task, group: Group, parallel: ParallelMap, items: Sequence[Item] | None = None
) -> dict[str, Repository]:
    """Return what a task may know of the files around a group's items, read once for all tasks.

    Args:
        task: The task.
        group: The items.
        parallel: Processes that read files; any number gives the same.
        items: Those of the items that are read; None for all. Only their files are read for imports.
    """
    found: list[Mapping[str, Repository]] = []
    where = (group.corpus, group.language, group.corpus_hash)
    if task.needs_repository:
        found.append(_cached_repositories(*where, None, parallel))
    if needs_imports(task):
        paths = frozenset(item.path for item in (group.items if items is None else items))
        found.append(_cached_repositories(*where, paths, parallel))
    return merge_repositories(found)


def clear_repositories() -> None:
    """Let go of what is known of the files around items, once all of a run are labelled."""
    _cached_repositories.cache_clear()


def read_repositories(
    task: Task, corpus: str, languages: tuple[str, ...], parallel: ParallelMap
) -> dict[str, Repository]:
    """Read what a task may know of all files of a corpus in some languages."""
    needs = {True: task.needs_repository, False: needs_imports(task)}
    return merge_repositories(
        [
            _read_repositories(corpus, languages, parallel, definitions=definitions)
            for definitions, is_needed in needs.items()
            if is_needed
        ]
    )


@functools.lru_cache(maxsize=2)
def _cached_repositories(
    corpus: str,
    language: str,
    corpus_hash: str,
    paths: frozenset[str] | None,
    parallel: ParallelMap,
) -> dict[str, Repository]:
    """Read the definitions in all files of a corpus, or the imports of some paths."""
    return _read_repositories(corpus, (language,), parallel, definitions=paths is None, paths=paths)


def _read_repositories(
    corpus: str,
    languages: tuple[str, ...],
    parallel: ParallelMap,
    *,
    definitions: bool,
    paths: Set[str] | None = None,
) -> dict[str, Repository]:
    """Read the definitions in the files of a corpus, or the imports of its files or of some paths."""
    files = read_files(corpus, languages, SkipCounter())
    if definitions:
        with cached_definitions(corpus) as cache:
            return repositories(files, parallel, cache=cache)
    with cached_imports(corpus) as cache:
        selected_files = (file for file in files if paths is None or file.path in paths)
        return index_imports(selected_files, parallel=parallel, cache=cache)


PARSE_ERROR_REASON = "does not parse"
"""The reason by which data sets count what they leave out."""


def describe_dropped_items(corpus: str, language: str, number: int) -> str:
    """Return a line on the functions with a parse error that data sets leave out.

    >>> describe_dropped_items("local:a", "python", 1)
    'local:a in python: data sets leave out 1 function that does not parse'
    """
    functions = "1 function that does" if number == 1 else f"{number:,} functions that do"
    return f"{corpus} in {language}: data sets leave out {functions} not parse"


OPTION = "external_test"
"""Option of a lens that names the corpus."""


SPLIT = "external"
"""Its split in the data sets."""


_EXTERNAL_SPLITS = ("", "test")


def read_external(lens: LensChoice, language: str) -> ItemSet | None:
    """Read the external test set that the options of a lens name; None without one.

    Raises:
        UsageError: No item brings labels of a task of the lens.
        SondeError: The corpus cannot be read.
    """
    corpus = dict(lens.options).get(OPTION)
    if not corpus:
        return None
    # A published test set is taken as it is: nothing is capped, and what repeats counts.
    item_set = select(str(corpus), Selection(languages=(language,), per_cluster=0, near_duplicates=False))
    provided_tasks = {provided_label.task.lower() for item in item_set.items for provided_label in item.given}
    if not provided_tasks & set(lens.tasks):
        raise UsageError(
            f"lens {lens.name!r}: option {OPTION} = {str(corpus)!r} has labels of "
            f"{', '.join(sorted(provided_tasks)) or 'no task'}, but the run measures "
            f"{', '.join(lens.tasks)}; name a file with labels of one of them, as cubert:FILE"
        )
    return item_set


def add_external_test(dataset: Dataset, pool: Sequence[Item], external: ItemSet, language: str) -> Dataset:
    """Add an external test set to a data set.

    Of train and valid, what nearly repeats an item of the second test set is left out, with whatever else
    comes from the same function.

    Args:
        dataset: The data set.
        pool: What it was drawn from.
        external: The external test set.
        language: Public name of the language.
    """
    external_examples = _external_examples(dataset, external, language)
    if external_examples.is_empty():
        return dataset
    index = NearDuplicateIndex()
    for item in external.items:
        index.add(item.item_id, duplicate_tokens(item.text))
    texts = {item.item_id: item.text for item in (*pool, *dataset.inputs)}
    fitting_rows = dataset.examples.filter(pl.col("split") != "test").select("source_id", "item_id").unique()
    duplicates = [
        source
        for source, item in fitting_rows.iter_rows()
        if index.find(duplicate_tokens(texts[item])) is not None
    ]
    remaining = dataset.examples.filter(
        ~pl.col("source_id").is_in(pl.Series(duplicates, dtype=pl.String).implode())
    )
    summary = {
        "corpus": external.corpus,
        "examples": external_examples.height,
        "left out for it": dataset.examples.height - remaining.height,
    }
    return dataclasses.replace(
        dataset,
        examples=pl.concat([remaining, external_examples]),
        report={**dataset.report, OPTION: summary},
    )


def _external_examples(dataset: Dataset, external: ItemSet, language: str) -> pl.DataFrame:
    edits = get_edits(language)
    rows = [
        make_example(item, provided_label, edits)
        for item in external.items
        for provided_label in item.given
        if provided_label.task.lower() == dataset.task and provided_label.split in _EXTERNAL_SPLITS
    ]
    table = example_table([("test", False, row) for row in rows], dataset.task, dataset.version)
    # An example that is in both test sets is two examples.
    names = pl.concat_str(pl.lit(f"{SPLIT}-"), "example_id")
    return table.with_columns(example_id=names, split=pl.lit(SPLIT))


DEFAULT_SIZE = 10_000
"""Examples a task where a run names no limit; the largest set of INSPECT's paper."""


_WORTH_A_PROCESS = 500
"""Functions from which on one more process saves time: processes start once for all data sets of a run."""


_LIMIT_SHARE = 0.9
"""A data set that has this share of the size wanted is as small as it is because of the size."""


@dataclass(frozen=True, slots=True)
class LensDatasets:
    """The data sets of a lens.

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
        """Return the tasks with a data set."""
        return tuple(self.keys)

    @property
    def key(self) -> str:
        """Return the fingerprint of all data sets."""
        return fingerprint("drawn", list(self.keys.values()))


def select_pool(selection: Selection) -> Selection:
    """Return the selection of the pool that data sets are drawn from: all functions.

    Of a transform too: the examples are those of the code as it was written, each in other words.
    """
    return dataclasses.replace(selection, limit=None, per_cluster=0, near_duplicates=False, transform="none")


def find_pool_limit(session: Session, lenses: Sequence[LensChoice]) -> FirstItems | None:
    """Return how many items of a table with labels suffice for the lenses; None if they need all."""
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
    """Return the items that no bundled model was trained on; which models run changes no data set."""
    ids = [item.original or item.item_id for item in items]
    training_ids = frozenset[str]().union(*(seen_items(name, ids) for name in bundled_names()))
    return [item for item, name in zip(items, ids, strict=True) if name not in training_ids]


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
    parallel = dataclasses.replace(session.spread, worth=_WORTH_A_PROCESS)
    keys: dict[str, str] = {}
    skipped_tasks: list[SkippedTask] = []
    reports: dict[str, Any] = {}
    external = read_external(lens, group.language)
    items: dict[str, Item] = {item.item_id: item for item in pool}
    items |= {item.item_id: item for item in external.items} if external else {}
    # Taken once: a pool may hold every function of a corpus, and a lens has dozens of tasks.
    pool_key = fingerprint("pool", [(item.item_id, item.split) for item in pool])
    used: dict[str, Item] = {}
    transform = None
    if selection.transform != "none":
        transform = PoolTransform(selection.transform, group.language, selection.seed, pool)
    builder = _DatasetBuilder(lens, group, pool, pool_key, size, store, parallel, external, transform)
    picks = builder.picks(progress)
    with progress.stage(f"drawing {group.language}", len(lens.tasks)) as advance:
        for name in lens.tasks:
            public = TASKS.public(name)
            try:
                dataset = builder.data_set(name, picks.pop(name, NO_PICKS))
            except (InputError, UsageError) as error:
                skipped_tasks.append(SkippedTask(lens.name, public, group.language, str(error)))
                progress.note(f"left out: {error}")
                advance()
            else:
                keys[public] = dataset.key
                tested = _count_tested_examples(lens, name, dataset.report, group, store)
                reports[public] = {**dataset.report, **tested}
                for key in (COPIES, TESTED):
                    if counts := reports[public].get(key):
                        progress.note(f"{public}: {counts['said']}")
                if transform_counts := dataset.report.get("transform"):
                    progress.note(describe_transform(public, transform_counts))
                items |= {item.item_id: item for item in dataset.derived}
                used |= {item: items[item] for item in dataset.shown}
                advance(reused=dataset.is_reused)
    if not keys:
        raise InputError(f"lens {lens.name!r} has no data set to read: {skipped_tasks[-1].reason}")
    if parse_errors := max(
        report.get("dropped", {}).get(PARSE_ERROR_REASON, 0) for report in reports.values()
    ):
        progress.note(describe_dropped_items(group.corpus, group.language, parse_errors))
    worth = {
        task: report["effective_clusters"]
        for task, report in reports.items()
        if "effective_clusters" in report
    }
    is_limited = any(reports[task]["size"] >= _LIMIT_SHARE * size for task in worth)
    remedies = suggest_more_clusters(group.corpus, group.language, has_limit=is_limited)
    if lack := check_cluster_count(worth, remedies, "tasks"):
        progress.note(f"{lens.name} on {group.corpus} in {group.language}: {lack}")
    order = sorted(used.values(), key=lambda item: fingerprint(lens.seed, item.item_id))
    return LensDatasets(tuple(order), keys, tuple(skipped_tasks), reports)


def _count_tested_examples(
    lens: LensChoice, task: str, report: Mapping[str, Any], group: Group, store: PartStore
) -> dict[str, Any]:
    """Return the effective clusters of the test examples, and of a user's labels how many are tested."""
    labels = read_labels(store, TASKS.public(task), group, lens.labels)
    test_rows = LENSES.load(lens.source).select_test_rows(labels, get_lens_settings(lens))
    if test_rows.is_empty():
        return {}
    counts: dict[str, Any] = {"effective_clusters": round(effective_clusters(test_rows), 1)}
    if isinstance(TASKS.load(task), UserLabels):
        sentence = describe_tested_examples(report, test_rows.height)
        counts[TESTED] = {"n": test_rows.height, "said": sentence}
    return counts


def describe_tested_examples(report: Mapping[str, Any], n: int) -> str:
    """Describe how many examples of a user's labels are tested, and why no more.

    >>> describe_tested_examples({"asked": 500, "size": 40, "pool": 46, "dropped": {"near duplicate": 6}}, 40)
    '40 examples (of 46 texts left out: 6 near duplicate), each tested once: n = 40'
    >>> describe_tested_examples({"asked": 90, "size": 90, "splits": {"train": 50, "valid": 10}}, 30)
    '90 examples (as many as asked for, 90), 30 of them in the test split: n = 30; 50 train, 10 valid'

    Args:
        report: The report of the data set.
        n: Examples that are tested.
    """
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in report.get("dropped", {}).items() if count)
    reasons = [f"left out of {report['pool']:,} texts: {dropped}"] if dropped else []
    if report["size"] >= report["asked"]:
        reasons.append(f"the requested {report['asked']:,}")
    subject = f"{plural(report['size'], 'example')}{bracket('; '.join(reasons))}"
    if n == report["size"]:
        return f"{subject}, each tested once: n = {n:,}"
    others = ", ".join(f"{report['splits'][split]:,} {split}" for split in ("train", "valid"))
    return f"{subject}, {n:,} of them in the test split: n = {n:,}; {others}"


@dataclass(frozen=True, slots=True)
class _StoredDataset:
    """A stored data set: what it shows of the pool and beside it, and whether an earlier run made it."""

    key: str
    shown: tuple[str, ...]
    derived: tuple[Item, ...]
    report: Mapping[str, Any]
    is_reused: bool


@dataclass(frozen=True, slots=True)
class _DatasetBuilder:
    """Builder of the data sets of a lens."""

    lens: LensChoice
    group: Group
    pool: Sequence[Item]
    pool_key: str
    size: int
    store: PartStore
    spread: ParallelMap
    external: ItemSet | None
    transform: PoolTransform | None

    def key(self, name: str) -> str:
        """Return the fingerprint of everything that can change the data set of a task."""
        lens = self.lens
        language = get_language_version(self.group.language)
        version = TASKS.load(name).version + TASKS.source_hash(name)
        rules = (version, language, lens.mode, lens.quirks, lens.observation_lens.options)
        beside_it = [self.external.corpus_hash] if self.external else []
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
        """Return the paths of the examples of a task and of the inputs that it derives."""
        relative = label_path(TASKS.public(name), self.group.prefix, self.lens.labels)
        return relative, f"{relative.removesuffix('.parquet')}.inputs.parquet"

    def has_dataset(self, name: str) -> bool:
        """Return whether the data set of a task is stored."""
        return all(self.store.notes(path, self.key(name)) is not None for path in self.paths(name))

    def picks(self, progress: Progress) -> dict[str, Picks]:
        """Label the spans of the functions for all tasks whose data sets are missing."""
        if self.lens.paired:
            return {}
        missing = [name for name in self.lens.tasks if not self.has_dataset(name)]
        tasks = {name: TASKS.load(name) for name in missing}
        span_tasks = {name: task for name, task in tasks.items() if labels_existing_code(task)}
        if not span_tasks:
            return {}
        with progress.stage(f"labelling {self.group.language}"):
            return collect_labelled_spans(
                [self._label_request(name) for name, task in span_tasks.items() if not task.needs_repository],
                self.pool,
                language=self.group.language,
                parallel=self.spread,
                tell=lambda estimate: progress.note(
                    f"labelling {plural(estimate.functions, 'function')} for "
                    f"{plural(estimate.tasks, 'task')}: about {duration(estimate.seconds)} "
                    f"(estimated from {estimate.tried} of them)"
                ),
            )

    def find_repositories(self, task: Task) -> dict[str, Repository]:
        """Return what a task may know of the files around the functions of its data set."""
        if not needs_imports(task):
            return find_repositories(task, self.group, self.spread)
        items = select_source_items(task, self.pool, self.lens.seed, self.group.language, self.spread)
        return find_repositories(task, self.group, self.spread, items)

    def data_set(self, name: str, picks: Picks) -> _StoredDataset:
        """Return the data set of a task, from the store or built."""
        key, (relative, inputs_path) = self.key(name), self.paths(name)
        is_reused = self.has_dataset(name)
        if not is_reused:
            dataset = self._build(name, picks)
            if self.external:
                dataset = add_external_test(dataset, self.pool, self.external, self.group.language)
            if self.transform is not None and not self.lens.paired:
                dataset = transform_dataset(
                    dataset, self.pool, self.transform, self._label_request(name), self.spread
                )
            self.store.put(inputs_path, key, items_to_frame([(self.group.corpus, dataset.inputs)]), {})
            self.store.put(relative, key, dataset.examples, {"report": dict(dataset.report)})
        examples = scan_files(self.store.path(relative)).select("item_id").collect()
        notes = self.store.notes(relative, key) or {}
        return _StoredDataset(
            key,
            tuple(examples["item_id"].unique(maintain_order=True)),
            tuple(frame_to_items(scan_files(self.store.path(inputs_path)).collect())),
            notes.get("report", {}),
            is_reused,
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
                parallel=self.spread,
                transform=self.transform,
            )
        if isinstance(task, DrawingTask):
            files = read_files(group.corpus, (group.language,), SkipCounter())
            return task.draw(
                files,
                size=self.size,
                seed=lens.seed,
                language=group.language,
                options=dict(lens.options),
                parallel=self.spread,
            )
        if task.target == "corpus":
            raise UsageError(
                f"task {task.name!r} lists the content of a corpus; no lens reads it, only `sonde label`"
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
            parallel=self.spread,
            picks=picks,
        )


def describe_transform(task: str, counts: Mapping[str, int]) -> str:
    """Describe how many examples a transform keeps, and why it drops the others.

    >>> describe_transform("idn", {"kept": 1632, "nothing to change by rename": 368})
    'idn: 1,632 of 2,000 examples transformed; left out: 368 nothing to change by rename'
    """
    left = ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if reason != "kept")
    line = f"{task}: {counts['kept']:,} of {sum(counts.values()):,} examples transformed"
    return f"{line}; left out: {left}" if left else line
