"""Sampling of examples: the pool of functions, the draw by unit, and the number of effective clusters.

The pool holds the functions that a data set may be drawn from, in order of preference. The examples drawn
here are those whose labels the code already has: of whole functions, of tokens, of pairs of tokens.
`effective_clusters` tells how many independent clusters a data set is worth, before any model is read.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from operator import is_, itemgetter
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl

from sonde.base.errors import InputError
from sonde.base.fingerprint import fingerprint, unit_hash
from sonde.corpora import Item, LabelledSource, NearDuplicateIndex, check_corpus, duplicate_tokens
from sonde.corpora.engine.parallel import ONE, ItemChunk, ParallelMap
from sonde.languages import LANGUAGES, get_facet, has_facet, list_corpora, parses
from sonde.languages.engine.edits import Edits
from sonde.stats.estimate import kish
from sonde.stats.verdict import MIN_CLUSTERS
from sonde.tasks.engine.balance import (
    SHARES,
    SMALLEST,
    assign_splits,
    cluster_weight,
    largest_class_size,
    order_matched_first,
    split_sizes,
)
from sonde.tasks.engine.label_cache import cached_labels, hash_items, label_keys
from sonde.tasks.engine.spans import LabelledSpan, Picks
from sonde.tasks.engine.task import Example, Repository, SplitExamples, Task

_TIERS = (250, 500)
"""Code tokens up to which a function is short, and of middling length: most of the short ones fit into 512
subwords (the windows of the published models)."""


_MAXIMUM_ITEMS = 40_000
"""Items that are parsed; by hash, so that a corpus of any size costs no more than this."""


_PER_CLUSTER = 500
"""Of them of one cluster, so that no single one fills a data set."""


T = TypeVar("T")


_WORD = re.compile(r"\w+|[^\w\s]")


_CACHE_SIZE = 4


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The functions of a corpus that data sets may be drawn from.

    Attributes:
        items: Shorter ones first in three tiers; in each the clusters take turns, by hash.
        tokens: Code tokens by item id.
        dropped: How many were left out, by reason.
    """

    items: tuple[Item, ...]
    tokens: Mapping[str, int]
    dropped: Mapping[str, int]

    @property
    def splits(self) -> dict[str, str]:
        """Split by cluster where the corpus was built with all of them; empty where it was not.

        A model may have been pre-trained on the corpus's own train split: what a data set tests on is then
        not to come from there.
        """
        splits = {item.cluster: item.split for item in self.items if item.split}
        return splits if set(splits.values()) >= SHARES.keys() else {}


class _ItemsKey:
    """Items in any order, to be a key. Ids alone would not do: equal code of another corpus has equal ids.

    Most are asked for again as the same objects in the same order, which is looked at first: a run asks as
    often as it has tasks.
    """

    def __init__(self, items: Sequence[Item], parallel: ParallelMap) -> None:
        self.items = items
        self.parallel = parallel

    @cached_property
    def _key(self) -> frozenset[Item]:
        return frozenset(self.items)

    def __hash__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ItemsKey) or len(self.items) != len(other.items):
            return False
        return all(map(is_, self.items, other.items)) or self._key == other._key


def build_pool(
    items: Sequence[Item], language: str, seed: int, hint: str = "", parallel: ParallelMap = ONE
) -> Pool:
    """Prepare the items of a language: getters and setters, unparsable code and near-duplicates are left out.

    Of near-duplicates the preferred one stays. The order of ``items`` does not matter. Several tasks ask for
    the same items in turn, so the last few answers are kept.

    Args:
        items: Items of any language.
        language: Public name of the language wanted.
        seed: Draws another order.
        hint: Items without this text are left out before they are counted: of what is rare, a share of all
            items would hold too few.
        parallel: Processes that read the items; any number gives the same pool.
    """
    return _pool(_ItemsKey(items, parallel), language, seed, hint)


@functools.lru_cache(maxsize=_CACHE_SIZE)
def _pool(key: _ItemsKey, language: str, seed: int, hint: str) -> Pool:
    drop_counts: Counter[str] = Counter()
    sorted_items = sorted(key.items, key=lambda item: (item.path, item.offset), reverse=True)
    unique = {item.item_id: item for item in sorted_items if item.language == language}
    # Where no item holds it, in another language for one, the task says better what is missing.
    hinted_items = [item for item in unique.values() if hint in item.text] or list(unique.values())
    if len(unique) > len(hinted_items):
        drop_counts[f"without {hint!r}"] = len(unique) - len(hinted_items)
    read = _sample_items(hinted_items, seed)
    if len(hinted_items) > len(read):
        drop_counts["more than are read"] = len(hinted_items) - len(read)
    keys = label_keys(read, hash_items(read))
    measures = dict[str, tuple[str, int]]()
    with cached_labels(read, tuple, list, "measures", language, hint) as answers:
        for item in read:
            if (measure := answers.get(keys[item.item_id])) is not None:
                measures[item.item_id] = measure
        unknown = [item for item in read if item.item_id not in measures]
        for item, measure in key.parallel.map(_measure, language, unknown):
            measures[item.item_id] = answers[keys[item.item_id]] = measure
    drop_counts.update(reason for reason, _ in measures.values() if reason)
    tokens = {item.item_id: measures[item.item_id][1] for item in read if not measures[item.item_id][0]}

    def preference(item: Item) -> tuple[int, float, str]:
        return length_tier(tokens[item.item_id]), unit_hash(seed, item.item_id), item.item_id

    sorted_items = sorted((item for item in read if item.item_id in tokens), key=preference)
    with cached_labels(sorted_items, frozenset, sorted, "near duplicates", language) as answers:
        ids_key = fingerprint([item.item_id for item in sorted_items])
        if (near_duplicates := answers.get(ids_key)) is None:
            near_duplicates = answers[ids_key] = _find_near_duplicates(sorted_items)
    if near_duplicates:
        drop_counts["near duplicate"] = len(near_duplicates)
    pool_items = [item for item in sorted_items if item.item_id not in near_duplicates]
    pool_items = round_robin(pool_items, lambda item: (length_tier(tokens[item.item_id]), item.cluster))
    pool_items.sort(key=lambda item: length_tier(tokens[item.item_id]))
    return Pool(tuple(pool_items), tokens, dict(sorted(drop_counts.items())))


def _find_near_duplicates(items: Sequence[Item]) -> frozenset[str]:
    """Return the ids of the items that nearly repeat an earlier one that stays."""
    index, near_duplicates = NearDuplicateIndex(), set[str]()
    for item in items:
        words = duplicate_tokens(item.text)
        if index.find(words) is not None:
            near_duplicates.add(item.item_id)
        else:
            index.add(item.item_id, words)
    return frozenset(near_duplicates)


def get_edits(language: str) -> Edits | None:
    """Return the facet ``edits`` of a language, or None."""
    return get_facet(language, "edits", Edits) if has_facet(language, "edits") else None


def count_tokens(text: str, edits: Edits | None) -> int:
    """Count the code tokens of a text, a string being one; words and signs if the language has no edits."""
    return len(edits.tokens(text)) if edits is not None else len(_WORD.findall(text))


def length_class(tokens: int) -> int:
    """Return the length bin, a quarter of an octave (19 %) wide."""
    return int(4 * math.log2(max(tokens, 1)))


def _sample_items(items: Sequence[Item], seed: int) -> list[Item]:
    """Sample the items to parse by hash, with a cap per cluster."""
    sample: list[Item] = []
    of_cluster: Counter[str] = Counter()
    for item in sorted(items, key=lambda item: (unit_hash(seed, item.item_id), item.item_id)):
        if of_cluster[item.cluster] < _PER_CLUSTER:
            of_cluster[item.cluster] += 1
            sample.append(item)
            if len(sample) == _MAXIMUM_ITEMS:
                break
    return sample


def _measure(part: ItemChunk[str, Item]) -> list[tuple[str, int]]:
    """Return why each of some items is left out, and its number of code tokens; runs in any process."""
    edits = get_edits(part.rule)
    refusals = [_refusal(item, edits) for item in part.items]
    return [
        (reason, 0 if reason else count_tokens(item.text, edits))
        for item, reason in zip(part.items, refusals, strict=True)
    ]


def _refusal(item: Item, edits: Edits | None) -> str:
    if edits is None:
        return ""
    if not edits.parses(item.text):
        # A constructor of Java parses in its class, and by itself is no code that could be changed.
        in_class = (
            parses(item.language, item.text) and LANGUAGES.load(item.language).parse(item.text).has_error
        )
        return "constructor, which is no code by itself" if in_class else "does not parse"
    return "getter or setter" if edits.is_accessor(item.text) else ""


def length_tier(tokens: int) -> int:
    """Return 0 for short functions, 1 for medium ones, 2 for long ones."""
    return sum(tokens > limit for limit in _TIERS)


def round_robin(members: Iterable[T], group: Callable[[T], Hashable]) -> list[T]:
    """Interleave members by group: the first of each group, then the second of each, and so on.

    What is drawn from the front then holds about as many of each group, whatever their sizes: a set that a
    few large clusters fill says little about clusters.
    """
    turns: Counter[Hashable] = Counter()
    members_by_turn: list[tuple[int, T]] = []
    for member in members:
        key = group(member)
        members_by_turn.append((turns[key], member))
        turns[key] += 1
    return [member for _, member in sorted(members_by_turn, key=itemgetter(0))]


_LENGTH_TASKS = frozenset({"len", "next_use"})
"""Tasks that ask for the length itself: matching on it would leave nothing."""


_PER_TYPE = 400


_WEIGHT = 50
"""Examples of one token type that are gathered, and that count when types are dealt to splits."""


_ENOUGH = 20
"""Examples below which a class is left out where a task does not need all: the others would shrink to it."""


_NOT_COUNTED = -1


ITEMS_FOR_TOKENS = 20_000
"""Functions that are read for token tasks: each gives many examples."""


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """A request for a data set; see `sonde.tasks.build`.

    Attributes:
        task: The task, as published where that was asked for.
        size: Examples wanted.
        seed: Draws another data set.
        language: Public name of the language.
        picks: The labelled places of the functions, and of further texts.
        repositories: What the task may know of the files around.
    """

    task: Task
    size: int
    seed: int
    language: str
    picks: Picks = field(default_factory=dict[str, tuple[LabelledSpan, ...]])
    repositories: Mapping[str, Repository] = field(default_factory=dict[str, Repository])


def split_clusters(pool: Pool, seed: int, shares: Mapping[str, float] = SHARES) -> dict[str, str]:
    """Deal the clusters of a pool to splits by their sizes, where the corpus itself does not say."""
    sizes = Counter(item.cluster for item in pool.items)
    weights = {cluster: {"": cluster_weight(size)} for cluster, size in sizes.items()}
    return assign_splits(weights, seed, pool.splits, shares)


def take_blocks(
    blocks: Mapping[str, Sequence[Sequence[Example]]],
    request: DatasetRequest,
    block_size: int,
    counts: Mapping[str, int],
    block_name: str,
) -> SplitExamples:
    """Take the first blocks of each split, as many as all splits can give in their shares.

    Args:
        blocks: The examples that belong together, by split.
        request: What is wanted.
        block_size: How many examples a block holds.
        counts: What was read and left out, for the report.
        block_name: What a block is, for a message.

    Raises:
        InputError: A split has too few of them.
    """
    sizes = split_sizes(request.size // block_size)
    capacities = {name: len(split_blocks) for name, split_blocks in blocks.items()}
    number = largest_class_size(capacities, request.size // block_size)
    if number < SMALLEST:
        scarce = min(capacities, key=lambda name: capacities[name] / max(sizes[name], 1))
        raise InputError(
            f"task {request.task.name!r} in {request.language}: the {scarce} split has "
            f"{capacities[scarce]} {block_name}, of {counts['read']} functions read; use a larger corpus"
        )
    rows = [
        (name, block_size > 1, example)
        for name, size in split_sizes(number).items()
        for block in blocks[name][:size]
        for example in block
    ]
    return SplitExamples(rows, dict(counts))


def draw_functions(pool: Pool, request: DatasetRequest) -> SplitExamples:
    """Draw whole functions, or pairs of tokens in them, with splits that are disjoint by cluster.

    Functions of all classes are alike in length, pairs in their distance, as far as they overlap.
    """
    is_item_task = request.task.target == "item"
    read = pool.items if is_item_task else pool.items[:ITEMS_FOR_TOKENS]
    item_picks = [(item, request.picks.get(item.item_id, ())) for item in read]
    examples = [
        _example(item, item, pick, pool.tokens[item.item_id]) for item, picks in item_picks for pick in picks
    ]
    stratum = None if request.task.name in _LENGTH_TASKS else _by_length if is_item_task else _by_distance
    return _balance_classes(
        examples, request, stratum, sum(not picks for _, picks in item_picks), pool.splits
    )


def draw_tokens(pool: Pool, request: DatasetRequest) -> SplitExamples:
    """Draw tokens in functions: no surface is in two splits, the surfaces of a class take turns.

    A task may have texts beside functions to draw from, such as the imports of their files; of one surface,
    places in functions are taken first.
    """
    read = pool.items[:ITEMS_FOR_TOKENS]
    types_by_class: _PlacesOfTypes = defaultdict(lambda: defaultdict(list))
    unlabelled_count = sum(
        not _gather(item, item, pool.tokens[item.item_id], request, types_by_class) for item in read
    )
    for source, extra_item in find_extra_items(request.task, pool.items, request.repositories):
        _gather(source, extra_item, _NOT_COUNTED, request, types_by_class)
    sample = _balanced_types(types_by_class, request, unlabelled_count)
    edits = get_edits(request.language)
    # Few of what is gathered are drawn: the tokens of a text beside functions are counted only now.
    sample.rows = [
        (
            split,
            is_matched,
            replace(example, tokens=count_tokens(example.item.text, edits))
            if example.tokens == _NOT_COUNTED
            else example,
        )
        for split, is_matched, example in sample.rows
    ]
    return sample


def find_extra_items(
    task: Task, items: Sequence[Item], repositories: Mapping[str, Repository]
) -> Iterable[tuple[Item, Item]]:
    """Return the texts that a token task reads in addition to the functions of a pool."""
    extra_items = getattr(task, "extra_items", None)
    return () if extra_items is None else extra_items(items[:ITEMS_FOR_TOKENS], repositories)


class _TokenCandidate(NamedTuple):
    """A token before it is drawn: few of what is gathered become examples."""

    source: Item
    item: Item
    pick: LabelledSpan
    tokens: int


_PlacesOfTypes = defaultdict[str, defaultdict[str, list[_TokenCandidate]]]
"""By class and surface."""


def _gather(
    source: Item, item: Item, tokens: int, request: DatasetRequest, types_by_class: _PlacesOfTypes
) -> bool:
    """Take one place of each class and surface in a text; whether it has any."""
    picks = request.picks.get(item.item_id, ())
    for pick in picks:
        of_type = types_by_class[pick.label][item.text[pick.start : pick.end]]
        if len(of_type) < _PER_TYPE:
            of_type.append(_TokenCandidate(source, item, pick, tokens))
    return bool(picks)


def _example(source: Item, item: Item, pick: LabelledSpan, tokens: int, surface: str = "") -> Example:
    cluster = surface or item.cluster
    return Example(item=item, source=source, **pick._asdict(), tokens=tokens, cluster=cluster, type=surface)


def _by_length(example: Example) -> Hashable:
    return length_class(example.tokens)


def _by_distance(example: Example) -> Hashable:
    assert example.other_start is not None
    return int(4 * math.log2(1 + abs(example.other_start - example.start)))


def _balance_classes(
    examples: Sequence[Example],
    request: DatasetRequest,
    stratum: Callable[[Example], Hashable] | None,
    unlabelled_count: int,
    splits: Mapping[str, str],
) -> SplitExamples:
    """Deal clusters to splits and take equally many of each class; of each length the clusters take turns."""
    examples = round_robin(
        examples, lambda example: (length_tier(example.tokens), example.label, example.cluster)
    )
    examples.sort(key=lambda example: length_tier(example.tokens))
    class_counts = Counter(example.label for example in examples)
    labels = _classes(class_counts, request)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        counts[example.cluster][example.label] += 1
    weights = {
        cluster: Counter({label: cluster_weight(count) for label, count in cluster_counts.items()})
        for cluster, cluster_counts in counts.items()
    }
    sides = assign_splits(weights, request.seed, splits)
    by_split: dict[str, list[Example]] = {name: [] for name in SHARES}
    for example in examples:
        by_split[sides[example.cluster]].append(example)
    selection: dict[str, tuple[dict[str, list[Example]], int]] = {}
    for name, members in by_split.items():
        strata = (
            (example.label, stratum(example) if stratum else example.label, example) for example in members
        )
        selection[name] = order_matched_first(strata, labels)
    capacities = {
        name: {label: len(of_class) for label, of_class in examples_by_class.items()}
        for name, (examples_by_class, _) in selection.items()
    }
    number = _number(capacities, labels, request)
    sample = SplitExamples()
    for name, size in split_sizes(number).items():
        examples_by_class, match_count = selection[name]
        for label in labels:
            sample.rows += [
                (name, index < match_count, example)
                for index, example in enumerate(examples_by_class[label][:size])
            ]
    sample.report = {"no label": unlabelled_count, "found": dict(class_counts)}
    if stratum is not None:
        sample.report["matched"] = sum(is_matched for _, is_matched, _ in sample.rows) / len(sample.rows)
    return sample


def _balanced_types(
    types_by_class: _PlacesOfTypes, request: DatasetRequest, unlabelled_count: int
) -> SplitExamples:
    """Deal token types to splits and take equally many of each class; its types take turns.

    A token type is not in one split of a corpus alone, so types are assigned to splits, and clusters are
    not.
    """
    totals = Counter({label: sum(map(len, types.values())) for label, types in types_by_class.items()})
    needs_all_classes = getattr(request.task, "needs_every_class", True)
    labels = _classes(totals, request, needs_all_classes=needs_all_classes)
    weights: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for label, types in types_by_class.items():
        for surface, candidates in types.items():
            weights[surface][label] = min(len(candidates), _WEIGHT)
    sides = assign_splits(weights, request.seed)
    selection = {name: {label: dict[str, list[_TokenCandidate]]() for label in labels} for name in SHARES}
    for label in labels:
        for surface, candidates in types_by_class[label].items():
            selection[sides[surface]][label][surface] = candidates
    capacities = {
        name: {label: sum(map(len, types.values())) for label, types in of_class.items()}
        for name, of_class in selection.items()
    }
    sample = SplitExamples(report={"no label": unlabelled_count, "found": dict(totals)})
    if not needs_all_classes:
        for enough in (_ENOUGH, SMALLEST):
            large_classes = [
                label
                for label in labels
                if largest_class_size({name: sizes[label] for name, sizes in capacities.items()}, enough)
                >= enough
            ]
            if len(large_classes) > 1:
                labels = large_classes
                break
        missing = set(request.task.labels).difference(labels)
        sample.report["classes left out"] = sorted(missing)
        capacities = {
            name: {label: of_class[label] for label in labels} for name, of_class in capacities.items()
        }
    for name, size in split_sizes(_number(capacities, labels, request)).items():
        for label in labels:
            candidates = islice(_types_in_turns(selection[name][label], request.seed), size)
            sample.rows += [(name, False, example) for example in candidates]
    return sample


def _types_in_turns(types: Mapping[str, Sequence[_TokenCandidate]], seed: int) -> Iterator[Example]:
    """Yield an example of each type, then a second of each, and so on; the types of a turn by hash."""
    for turn in range(max(map(len, types.values()), default=0)):
        left = [surface for surface, candidates in types.items() if len(candidates) > turn]
        for _, surface in sorted((unit_hash(seed, surface, turn), surface) for surface in left):
            source, item, pick, tokens = types[surface][turn]
            yield _example(source, item, pick, tokens, surface)


def _number(
    capacities: Mapping[str, Mapping[str, int]], labels: Sequence[str], request: DatasetRequest
) -> int:
    """Return how many examples of each class are drawn.

    Args:
        capacities: For each split, how many examples of each class it could give.
        labels: The classes.
        request: What is wanted.

    Raises:
        InputError: A split would be without a class.
    """
    available = {name: min(of_class.values()) for name, of_class in capacities.items()}
    number = largest_class_size(available, request.size // len(labels))
    if number >= SMALLEST:
        return number
    name, label = min(
        ((name, label) for name in SHARES for label in labels),
        key=lambda pair: (capacities[pair[0]][pair[1]] / SHARES[pair[0]], pair),
    )
    raise InputError(
        f"task {request.task.name!r} in {request.language}: class {label!r} has "
        f"{capacities[name][label]} examples in the {name} split (a cluster is in one split only); a data "
        f"set needs {SMALLEST} of each class or more; use a larger corpus"
    )


def _classes(
    counts: Counter[str], request: DatasetRequest, *, needs_all_classes: bool = True
) -> Sequence[str]:
    """Return all classes of the task, or those that occur if it does not name them.

    Args:
        counts: How many examples of each class are found.
        request: What is wanted.
        needs_all_classes: Whether all classes are needed; else those with too few examples are left out.

    Raises:
        InputError: A class has too few examples.
    """
    labels = request.task.labels or tuple(sorted(counts))
    if not needs_all_classes:
        labels = tuple(label for label in labels if counts[label] >= SMALLEST)
    if len(labels) < 2:
        problem = (
            f"all {counts.total():,} examples are of class {labels[0]!r}" if labels else "no example is found"
        )
        raise InputError(
            f"task {request.task.name!r} in {request.language}: {problem}, and a data set needs two classes; "
            "use another corpus or another task"
        )
    rare = min(labels, key=lambda label: (counts[label], label))
    if counts[rare] < SMALLEST:
        raise InputError(
            f"task {request.task.name!r} in {request.language}: class {rare!r} has {counts[rare]} examples, "
            f"a data set needs {SMALLEST} or more; use a larger corpus"
        )
    return labels


_NAMES_LISTED = 8
"""Data sets that a line names; more are counted."""


def effective_clusters(examples: pl.DataFrame) -> float:
    """Return Kish's effective number of clusters (1965), from the column ``cluster``.

    It is the number that an interval over all of them rests on, so it can be told before the run whether a
    verdict is possible.
    """
    return kish(examples["cluster"].value_counts()["count"].to_numpy().astype(np.float64))


def check_cluster_count(worth: Mapping[str, float], remedies: Sequence[str], dataset_noun: str = "") -> str:
    """Describe the data sets that are too small for a verdict, with remedies; empty if none is.

    >>> check_cluster_count({"sri": 4.21, "idn": 12.0, "rea": 1.0}, ["a larger --limit"], "tasks")
    'too few effective clusters for a verdict: 2 of 3 tasks (sri, rea), with 1.0 to 4.2, where 10 are \
needed; use a larger --limit'

    Args:
        worth: Effective clusters of what each data set tests, by a name that a reader knows it by.
        remedies: What would give more, the nearest first.
        dataset_noun: What the data sets are, where they are several.
    """
    small_datasets = {name: effective for name, effective in worth.items() if effective < MIN_CLUSTERS}
    if not small_datasets:
        return ""
    names = ", ".join(list(small_datasets)[:_NAMES_LISTED]) + (
        f" and {len(small_datasets) - _NAMES_LISTED} more" if len(small_datasets) > _NAMES_LISTED else ""
    )
    subject = f"{len(small_datasets)} of {len(worth)} {dataset_noun} ({names})" if len(worth) > 1 else names
    low, high = f"{min(small_datasets.values()):.1f}", f"{max(small_datasets.values()):.1f}"
    span = low if low == high else f"{low} to {high}"
    return (
        f"too few effective clusters for a verdict: {subject}, with {span}, where {MIN_CLUSTERS} are needed; "
        f"use {', or '.join(remedies)}"
    )


def suggest_more_clusters(
    corpus: str, language: str, *, has_limit: bool = False, files: pl.DataFrame | None = None
) -> list[str]:
    """List what would give a data set more clusters, the easiest first.

    Args:
        corpus: What it is drawn from.
        language: Its language.
        has_limit: Whether a limit keeps it as small as it is.
        files: ``cluster, path`` of what is tested, where whole files could be tested in place of it.
    """
    remedies = ["a larger --limit"] if has_limit else []
    if isinstance(check_corpus(corpus), LabelledSource):
        return [*remedies, "labels of more groups in the table"]
    corpus_options = [f"-c {name}" for name in list_corpora(language) if name != corpus]
    if files is not None and effective_clusters(files.unique()) >= MIN_CLUSTERS:
        remedies.append("--unit file, by which each file counts once")
    suggestion = f", for example {' or '.join(corpus_options)}" if corpus_options else ""
    return [*remedies, f"more repositories{suggestion}"]
