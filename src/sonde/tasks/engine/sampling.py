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
from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item, NearDuplicateIndex, duplicate_tokens
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
from sonde.tasks.engine.spans import LabelledSpan, Picks
from sonde.tasks.engine.task import Example, Repository, SplitExamples, Task

_TIERS = (250, 500)
"""Code tokens up to which a function is short, and of middling length: most of the short ones fit into 512
subwords (the windows of the published models)."""


_MOST = 40_000
"""Items that are parsed; by hash, so that a corpus of any size costs no more than this."""


_PER_CLUSTER = 500
"""Of them of one cluster, so that no single one fills a data set."""


T = TypeVar("T")


_WORD = re.compile(r"\w+|[^\w\s]")


_KEPT = 4


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
        found = {item.cluster: item.split for item in self.items if item.split}
        return found if set(found.values()) >= SHARES.keys() else {}


class _ItemsKey:
    """Items in any order, to be a key. Ids alone would not do: equal code of another corpus has equal ids.

    Most are asked for again as the same objects in the same order, which is looked at first: a run asks as
    often as it has tasks.
    """

    def __init__(self, items: Sequence[Item], spread: ParallelMap) -> None:
        self.items = items
        self.spread = spread

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
    items: Sequence[Item], language: str, seed: int, hint: str = "", spread: ParallelMap = ONE
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
        spread: Processes that read the items; any number gives the same pool.
    """
    return _pool(_ItemsKey(items, spread), language, seed, hint)


@functools.lru_cache(maxsize=_KEPT)
def _pool(same: _ItemsKey, language: str, seed: int, hint: str) -> Pool:
    dropped: Counter[str] = Counter()
    ordered = sorted(same.items, key=lambda item: (item.path, item.offset), reverse=True)
    unique = {item.item_id: item for item in ordered if item.language == language}
    # Where no item holds it, in another language for one, the task says better what is missing.
    hinted = [item for item in unique.values() if hint in item.text] or list(unique.values())
    if len(unique) > len(hinted):
        dropped[f"without {hint!r}"] = len(unique) - len(hinted)
    read = _sample_items(hinted, seed)
    if len(hinted) > len(read):
        dropped["more than are read"] = len(hinted) - len(read)
    found: dict[str, Item] = {}
    tokens: dict[str, int] = {}
    for item, (reason, number) in same.spread.map(_measure, language, read):
        if reason:
            dropped[reason] += 1
            continue
        found[item.item_id] = item
        tokens[item.item_id] = number
    index, kept = NearDuplicateIndex(), list[Item]()

    def preference(item: Item) -> tuple[int, float, str]:
        return length_tier(tokens[item.item_id]), unit_hash(seed, item.item_id), item.item_id

    for item in sorted(found.values(), key=preference):
        words = duplicate_tokens(item.text)
        if index.find(words) is not None:
            dropped["near duplicate"] += 1
            continue
        index.add(item.item_id, words)
        kept.append(item)
    kept = round_robin(kept, lambda item: (length_tier(tokens[item.item_id]), item.cluster))
    kept.sort(key=lambda item: length_tier(tokens[item.item_id]))
    return Pool(tuple(kept), tokens, dict(sorted(dropped.items())))


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
    kept: list[Item] = []
    of_cluster: Counter[str] = Counter()
    for item in sorted(items, key=lambda item: (unit_hash(seed, item.item_id), item.item_id)):
        if of_cluster[item.cluster] < _PER_CLUSTER:
            of_cluster[item.cluster] += 1
            kept.append(item)
            if len(kept) == _MOST:
                break
    return kept


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
    return sum(tokens > bound for bound in _TIERS)


def round_robin(members: Iterable[T], group: Callable[[T], Hashable]) -> list[T]:
    """Interleave members by group: the first of each group, then the second of each, and so on.

    What is drawn from the front then holds about as many of each group, whatever their sizes: a set that a
    few large clusters fill says little about clusters.
    """
    turns: Counter[Hashable] = Counter()
    placed: list[tuple[int, T]] = []
    for member in members:
        own = group(member)
        placed.append((turns[own], member))
        turns[own] += 1
    return [member for _, member in sorted(placed, key=itemgetter(0))]


_LENGTH_TASKS = frozenset({"len", "next_use"})
"""Tasks that ask for the length itself: matching on it would leave nothing."""


_PER_TYPE = 400


_WEIGHT = 50
"""Examples of one token type that are gathered, and that count when types are dealt to splits."""


_ENOUGH = 20
"""Examples below which a class is left out where a task does not need all: the others would shrink to it."""


_UNCOUNTED = -1


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
        picks: The labelled places of the functions, and of texts beside them.
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
    asked: DatasetRequest,
    each: int,
    counts: Mapping[str, int],
    what: str,
) -> SplitExamples:
    """Take the first blocks of each split, as many as all splits can give in their shares.

    Args:
        blocks: The examples that belong together, by split.
        asked: What is wanted.
        each: How many examples a block holds.
        counts: What was read and left out, for the report.
        what: What a block is, for a message.

    Raises:
        InputError: A split has too few of them.
    """
    wanted = split_sizes(asked.size // each)
    held = {name: len(found) for name, found in blocks.items()}
    number = largest_class_size(held, asked.size // each)
    if number < SMALLEST:
        scarce = min(held, key=lambda name: held[name] / max(wanted[name], 1))
        raise InputError(
            f"task {asked.task.name!r} in {asked.language}: the {scarce} split has {held[scarce]} {what}, "
            f"of {counts['read']} functions read; draw from more code"
        )
    rows = [
        (name, each > 1, example)
        for name, size in split_sizes(number).items()
        for block in blocks[name][:size]
        for example in block
    ]
    return SplitExamples(rows, dict(counts))


def draw_functions(pool: Pool, asked: DatasetRequest) -> SplitExamples:
    """Draw whole functions, or pairs of tokens in them, with splits that are disjoint by cluster.

    Functions of all classes are alike in length, pairs in their distance, as far as they overlap.
    """
    whole = asked.task.target == "item"
    read = pool.items if whole else pool.items[:ITEMS_FOR_TOKENS]
    picked = [(item, asked.picks.get(item.item_id, ())) for item in read]
    examples = [
        _example(item, item, pick, pool.tokens[item.item_id]) for item, picks in picked for pick in picks
    ]
    stratum = None if asked.task.name in _LENGTH_TASKS else _by_length if whole else _by_distance
    return _balance_classes(examples, asked, stratum, sum(not picks for _, picks in picked), pool.splits)


def draw_tokens(pool: Pool, asked: DatasetRequest) -> SplitExamples:
    """Draw tokens in functions: no surface is in two splits, the surfaces of a class take turns.

    A task may have texts beside functions to draw from, such as the imports of their files; of one surface,
    places in functions are taken first.
    """
    read = pool.items[:ITEMS_FOR_TOKENS]
    found: _PlacesOfTypes = defaultdict(lambda: defaultdict(list))
    unlabelled = sum(not _gather(item, item, pool.tokens[item.item_id], asked, found) for item in read)
    for source, derived in find_extra_items(asked.task, pool.items, asked.repositories):
        _gather(source, derived, _UNCOUNTED, asked, found)
    drawn = _balanced_types(found, asked, unlabelled)
    edits = get_edits(asked.language)
    # Few of what is gathered are drawn: the tokens of a text beside functions are counted only now.
    drawn.rows = [
        (
            split,
            matched,
            replace(example, tokens=count_tokens(example.item.text, edits))
            if example.tokens == _UNCOUNTED
            else example,
        )
        for split, matched, example in drawn.rows
    ]
    return drawn


def find_extra_items(
    task: Task, items: Sequence[Item], repositories: Mapping[str, Repository]
) -> Iterable[tuple[Item, Item]]:
    """Return the texts that a token task reads beside the functions of a pool."""
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


def _gather(source: Item, item: Item, tokens: int, asked: DatasetRequest, found: _PlacesOfTypes) -> bool:
    """Take one place of each class and surface in a text; whether it has any."""
    picks = asked.picks.get(item.item_id, ())
    for pick in picks:
        of_type = found[pick.label][item.text[pick.start : pick.end]]
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
    asked: DatasetRequest,
    stratum: Callable[[Example], Hashable] | None,
    unlabelled: int,
    splits: Mapping[str, str],
) -> SplitExamples:
    """Deal clusters to splits and take equally many of each class; of each length the clusters take turns."""
    examples = round_robin(examples, lambda one: (length_tier(one.tokens), one.label, one.cluster))
    examples.sort(key=lambda one: length_tier(one.tokens))
    found = Counter(one.label for one in examples)
    labels = _classes(found, asked)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        counts[example.cluster][example.label] += 1
    weights = {
        cluster: Counter({label: cluster_weight(count) for label, count in held.items()})
        for cluster, held in counts.items()
    }
    sides = assign_splits(weights, asked.seed, splits)
    by_split: dict[str, list[Example]] = {name: [] for name in SHARES}
    for example in examples:
        by_split[sides[example.cluster]].append(example)
    chosen: dict[str, tuple[dict[str, list[Example]], int]] = {}
    for name, members in by_split.items():
        strata = ((one.label, stratum(one) if stratum else one.label, one) for one in members)
        chosen[name] = order_matched_first(strata, labels)
    held = {
        name: {label: len(of_class) for label, of_class in some.items()} for name, (some, _) in chosen.items()
    }
    number = _number(held, labels, asked)
    drawn = SplitExamples()
    for name, size in split_sizes(number).items():
        some, matched = chosen[name]
        for label in labels:
            drawn.rows += [(name, place < matched, one) for place, one in enumerate(some[label][:size])]
    drawn.report = {"no label": unlabelled, "found": dict(found)}
    if stratum is not None:
        drawn.report["matched"] = sum(matched for _, matched, _ in drawn.rows) / len(drawn.rows)
    return drawn


def _balanced_types(found: _PlacesOfTypes, asked: DatasetRequest, unlabelled: int) -> SplitExamples:
    """Deal token types to splits and take equally many of each class; its types take turns.

    A token type is not in one split of a corpus alone, so types are dealt anew where clusters are not.
    """
    totals = Counter({label: sum(map(len, types.values())) for label, types in found.items()})
    every = getattr(asked.task, "needs_every_class", True)
    labels = _classes(totals, asked, every=every)
    weights: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for label, types in found.items():
        for surface, places in types.items():
            weights[surface][label] = min(len(places), _WEIGHT)
    sides = assign_splits(weights, asked.seed)
    chosen = {name: {label: dict[str, list[_TokenCandidate]]() for label in labels} for name in SHARES}
    for label in labels:
        for surface, places in found[label].items():
            chosen[sides[surface]][label][surface] = places
    held = {
        name: {label: sum(map(len, types.values())) for label, types in of_class.items()}
        for name, of_class in chosen.items()
    }
    drawn = SplitExamples(report={"no label": unlabelled, "found": dict(totals)})
    if not every:
        for enough in (_ENOUGH, SMALLEST):
            able = [label for label in labels if _class_capacity(held, label, enough) >= enough]
            if len(able) > 1:
                labels = able
                break
        missing = set(asked.task.labels).difference(labels)
        drawn.report["classes left out"] = sorted(missing)
        held = {name: {label: of_class[label] for label in labels} for name, of_class in held.items()}
    for name, size in split_sizes(_number(held, labels, asked)).items():
        for label in labels:
            places = islice(_types_in_turns(chosen[name][label], asked.seed), size)
            drawn.rows += [(name, False, example) for example in places]
    return drawn


def _types_in_turns(types: Mapping[str, Sequence[_TokenCandidate]], seed: int) -> Iterator[Example]:
    """Yield an example of each type, then a second of each, and so on; the types of a turn by hash."""
    for turn in range(max(map(len, types.values()), default=0)):
        left = [surface for surface, places in types.items() if len(places) > turn]
        for _, surface in sorted((unit_hash(seed, surface, turn), surface) for surface in left):
            source, item, pick, tokens = types[surface][turn]
            yield _example(source, item, pick, tokens, surface)


def _number(held: Mapping[str, Mapping[str, int]], labels: Sequence[str], asked: DatasetRequest) -> int:
    """Return how many examples of each class are drawn.

    Args:
        held: For each split, how many examples of each class it could give.
        labels: The classes.
        asked: What is wanted.

    Raises:
        InputError: A split would be without a class.
    """
    available = {name: min(of_class.values()) for name, of_class in held.items()}
    number = largest_class_size(available, asked.size // len(labels))
    if number >= SMALLEST:
        return number
    name, label = min(
        ((name, label) for name in SHARES for label in labels),
        key=lambda place: (held[place[0]][place[1]] / SHARES[place[0]], place),
    )
    raise InputError(
        f"task {asked.task.name!r} in {asked.language}: class {label!r} has {held[name][label]} examples in "
        f"the {name} split, whose clusters are in no other; a data set needs {SMALLEST} of each class or "
        "more; draw from more code"
    )


def _class_capacity(held: Mapping[str, Mapping[str, int]], label: str, wanted: int) -> int:
    """Return how many examples of a class the splits can give, at most as many as wanted."""
    return largest_class_size({name: of_class[label] for name, of_class in held.items()}, wanted)


def _classes(counts: Counter[str], asked: DatasetRequest, *, every: bool = True) -> Sequence[str]:
    """Return all classes of the task, or those that occur if it does not name them.

    Args:
        counts: How many examples of each class are found.
        asked: What is wanted.
        every: Whether all classes are needed; else those with too few examples are left out.

    Raises:
        InputError: A class has too few examples.
    """
    labels = asked.task.labels or tuple(sorted(counts))
    if not every:
        labels = tuple(label for label in labels if counts[label] >= SMALLEST)
    if len(labels) < 2:
        found = (
            f"all {counts.total():,} examples are of class {labels[0]!r}" if labels else "no example is found"
        )
        raise InputError(
            f"task {asked.task.name!r} in {asked.language}: {found}, and a data set needs two classes; "
            "draw from other code or ask for another task"
        )
    rare = min(labels, key=lambda label: (counts[label], label))
    if counts[rare] < SMALLEST:
        raise InputError(
            f"task {asked.task.name!r} in {asked.language}: class {rare!r} has {counts[rare]} examples, "
            f"a data set needs {SMALLEST} or more; draw from more code"
        )
    return labels


_NAMED = 8
"""Data sets that a line names; more are counted."""


def effective_clusters(examples: pl.DataFrame) -> float:
    """Return Kish's effective number of clusters (1965), from the column ``cluster``.

    It is the number that an interval over all of them rests on, so it can be told before the run whether a
    verdict is possible.
    """
    return kish(examples["cluster"].value_counts()["count"].to_numpy().astype(np.float64))


def check_cluster_count(worth: Mapping[str, float], remedies: Sequence[str], what: str = "") -> str:
    """Describe the data sets that are too small for a verdict, with remedies; empty if none is.

    >>> check_cluster_count({"sri": 4.21, "idn": 12.0, "rea": 1.0}, ["a larger --limit"], "tasks")
    'no verdict can come of 2 of 3 tasks (sri, rea), worth 1.0 to 4.2 clusters of equal size where a verdict \
needs 10; what would help: a larger --limit'

    Args:
        worth: Effective clusters of what each data set tests, by a name that a reader knows it by.
        remedies: What would give more, the nearest first.
        what: What the data sets are, where they are several.
    """
    few = {name: effective for name, effective in worth.items() if effective < MIN_CLUSTERS}
    if not few:
        return ""
    named = ", ".join(list(few)[:_NAMED]) + (f" and {len(few) - _NAMED} more" if len(few) > _NAMED else "")
    which = f"{len(few)} of {len(worth)} {what} ({named})" if len(worth) > 1 else named
    low, high = f"{min(few.values()):.1f}", f"{max(few.values()):.1f}"
    span = low if low == high else f"{low} to {high}"
    return (
        f"no verdict can come of {which}, worth {span} clusters of equal size where "
        f"a verdict needs {MIN_CLUSTERS}; what would help: {', or '.join(remedies)}"
    )


def suggest_more_clusters(
    corpus: str, language: str, *, limited: bool = False, files: pl.DataFrame | None = None
) -> list[str]:
    """List what would give a data set more clusters, the easiest first.

    Args:
        corpus: What it is drawn from.
        language: Its language.
        limited: Whether a limit keeps it as small as it is.
        files: ``cluster, path`` of what is tested, where whole files could be tested in place of it.
    """
    others = [f"-c {other}" for other in list_corpora(language) if other != corpus]
    remedies = ["a larger --limit"] if limited else []
    if files is not None and effective_clusters(files.unique()) >= MIN_CLUSTERS:
        remedies.append("--unit file, by which each file counts once")
    beside = f", for example {' or '.join(others)}" if others else ""
    return [*remedies, f"more repositories{beside}"]
