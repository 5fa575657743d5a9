"""Drawing examples whose labels the code already has: of whole functions, of tokens, of pairs of tokens."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, Protocol, runtime_checkable

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item
from sonde.languages._edits import Edits
from sonde.tasks._balance import SHARES, SMALLEST, deal, largest, matched_first, split_sizes, weight_in_turns
from sonde.tasks._examples import Example, SplitExamples
from sonde.tasks._picked import Pick, Picks, picks_of
from sonde.tasks._pool import Pool, count_tokens, edits_of, in_turns, length_class, tier_of
from sonde.tasks._task import Repository, Task, classes_of

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
    """What a data set is asked for; see `sonde.tasks.build`."""

    task: Task
    size: int
    seed: int
    language: str
    mode: str
    quirks: AbstractSet[str]
    repositories: Mapping[str, Repository]
    picks: Picks = field(default_factory=dict[str, tuple[Pick, ...]])


def draw_items(pool: Pool, asked: DatasetRequest) -> SplitExamples:
    """Whole functions: splits disjoint by cluster, classes alike in length as far as they overlap."""
    examples = [
        _example(item, item, pick, pool.tokens[item.item_id], start=0, end=len(item.text))
        for item in pool.items
        for pick in _picks(item, asked)
    ]
    matching = asked.task.name not in _LENGTH_TASKS
    stratum = _by_length if matching else None
    return _balanced(examples, asked, stratum, len(pool.items) - len(examples), pool.splits)


def draw_pairs(pool: Pool, asked: DatasetRequest) -> SplitExamples:
    """Pairs of tokens, one of each class at most a function; classes alike in their distance."""
    examples: list[Example] = []
    unlabelled = 0
    for item in pool.items[:ITEMS_FOR_TOKENS]:
        picks = _picks(item, asked)
        unlabelled += not picks
        examples += [_example(item, item, pick, pool.tokens[item.item_id]) for pick in picks]
    stratum = None if asked.task.name in _LENGTH_TASKS else _by_distance
    return _balanced(examples, asked, stratum, unlabelled, pool.splits)


@runtime_checkable
class _Beside(Protocol):
    """A token task that reads more than functions."""

    def beside(
        self, items: Iterable[Item], repositories: Mapping[str, Repository]
    ) -> Iterable[tuple[Item, Item]]:
        """An item of the pool, and a derived one whose tokens are drawn as well."""
        ...


def draw_tokens(pool: Pool, asked: DatasetRequest) -> SplitExamples:
    """Tokens in real functions: no surface in two splits, the surfaces of a class in turn.

    A task may have texts beside functions to draw from, such as the imports of their files; of one surface,
    places in functions are taken first.
    """
    read = pool.items[:ITEMS_FOR_TOKENS]
    found: _PlacesOfTypes = defaultdict(lambda: defaultdict(list))
    unlabelled = sum(not _gather(item, item, pool.tokens[item.item_id], asked, found) for item in read)
    for source, derived in texts_beside(asked.task, pool.items, asked.repositories):
        _gather(source, derived, _UNCOUNTED, asked, found)
    drawn = _balanced_types(found, asked, unlabelled)
    edits = edits_of(asked.language)
    drawn.rows = [(split, matched, _counted(example, edits)) for split, matched, example in drawn.rows]
    return drawn


def _counted(example: Example, edits: Edits | None) -> Example:
    """The example with the length of its text, where that is not known: few of what is gathered are drawn."""
    if example.tokens != _UNCOUNTED:
        return example
    return replace(example, tokens=count_tokens(example.item.text, edits))


def texts_beside(
    task: Task, items: Sequence[Item], repositories: Mapping[str, Repository]
) -> Iterable[tuple[Item, Item]]:
    """What a token task reads beside the functions of a pool; nothing where it reads functions alone."""
    return task.beside(items[:ITEMS_FOR_TOKENS], repositories) if isinstance(task, _Beside) else ()


class _Place(NamedTuple):
    """A token before it is drawn: few of what is gathered become examples."""

    source: Item
    item: Item
    pick: Pick
    tokens: int


_PlacesOfTypes = defaultdict[str, defaultdict[str, list[_Place]]]
"""By class and surface."""


def _gather(source: Item, item: Item, tokens: int, asked: DatasetRequest, found: _PlacesOfTypes) -> bool:
    """Take one place of each class and surface in a text; whether it has any."""
    picks = _picks(item, asked)
    for pick in picks:
        of_type = found[pick.label][item.text[pick.start : pick.end]]
        if len(of_type) < _PER_TYPE:
            of_type.append(_Place(source, item, pick, tokens))
    return bool(picks)


def _picks(item: Item, asked: DatasetRequest) -> tuple[Pick, ...]:
    """The labelled places of an item, as they were gathered before or are now."""
    known = asked.picks.get(item.item_id)
    if known is not None:
        return known
    return picks_of(
        asked.task, item, asked.repositories, seed=asked.seed, mode=asked.mode, quirks=asked.quirks
    )


def _example(
    source: Item,
    item: Item,
    pick: Pick,
    tokens: int,
    *,
    start: int | None = None,
    end: int | None = None,
    surface: str = "",
) -> Example:
    return Example(
        item=item,
        source=source,
        label=pick.label,
        value=pick.value,
        start=pick.start if start is None else start,
        end=pick.end if end is None else end,
        other_start=pick.other_start,
        other_end=pick.other_end,
        tokens=tokens,
        cluster=surface or item.cluster,
        type=surface,
    )


def _by_length(example: Example) -> Hashable:
    return length_class(example.tokens)


def _by_distance(example: Example) -> Hashable:
    assert example.other_start is not None
    return int(4 * math.log2(1 + abs(example.other_start - example.start)))


def _balanced(
    examples: Sequence[Example],
    asked: DatasetRequest,
    stratum: Callable[[Example], Hashable] | None,
    unlabelled: int,
    splits: Mapping[str, str],
) -> SplitExamples:
    """Deal clusters to splits and take equally many of each class; of each length the clusters take turns."""
    examples = in_turns(examples, lambda one: (tier_of(one.tokens), one.label, one.cluster))
    examples.sort(key=lambda one: tier_of(one.tokens))
    found = Counter(one.label for one in examples)
    labels = _classes(found, asked)
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        counts[example.cluster][example.label] += 1
    weights = {
        cluster: Counter({label: weight_in_turns(count) for label, count in held.items()})
        for cluster, held in counts.items()
    }
    sides = deal(weights, asked.seed, splits)
    by_split: dict[str, list[Example]] = {name: [] for name in SHARES}
    for example in examples:
        by_split[sides[example.cluster]].append(example)
    chosen: dict[str, tuple[dict[str, list[Example]], int]] = {}
    for name, members in by_split.items():
        strata = ((one.label, stratum(one) if stratum else one.label, one) for one in members)
        chosen[name] = matched_first(strata, labels)
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
    sides = deal(weights, asked.seed)
    chosen = {name: {label: dict[str, list[_Place]]() for label in labels} for name in SHARES}
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
            able = [label for label in labels if _most(held, label, enough) >= enough]
            if len(able) > 1:
                labels = able
                break
        missing = set(classes_of(asked.task, asked.mode, asked.quirks)).difference(labels)
        drawn.report["classes left out"] = sorted(missing)
        held = {name: {label: of_class[label] for label in labels} for name, of_class in held.items()}
    for name, size in split_sizes(_number(held, labels, asked)).items():
        for label in labels:
            places = islice(_types_in_turns(chosen[name][label], asked.seed), size)
            drawn.rows += [(name, False, example) for example in places]
    return drawn


def _types_in_turns(types: Mapping[str, Sequence[_Place]], seed: int) -> Iterator[Example]:
    """An example of each type, then a second one of each, and so on; the types of a turn by hash."""
    for turn in range(max(map(len, types.values()), default=0)):
        left = [surface for surface, places in types.items() if len(places) > turn]
        for _, surface in sorted((unit_hash(seed, surface, turn), surface) for surface in left):
            source, item, pick, tokens = types[surface][turn]
            yield _example(source, item, pick, tokens, surface=surface)


def _number(held: Mapping[str, Mapping[str, int]], labels: Sequence[str], asked: DatasetRequest) -> int:
    """How many of each class are drawn.

    Args:
        held: For each split, how many examples of each class it could give.
        labels: The classes.
        asked: What is wanted.

    Raises:
        InputError: A split would be without a class.
    """
    available = {name: min(of_class.values()) for name, of_class in held.items()}
    number = largest(available, asked.size // len(labels))
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


def _most(held: Mapping[str, Mapping[str, int]], label: str, wanted: int) -> int:
    """Return how many examples of a class the splits can give, at most as many as wanted."""
    return largest({name: of_class[label] for name, of_class in held.items()}, wanted)


def _classes(counts: Counter[str], asked: DatasetRequest, *, every: bool = True) -> Sequence[str]:
    """All classes of the task, or those that occur where it does not name them.

    Args:
        counts: How many examples of each class are found.
        asked: What is wanted.
        every: Whether all classes are needed; else those with too few examples are left out.

    Raises:
        InputError: A class has too few examples.
    """
    labels = classes_of(asked.task, asked.mode, asked.quirks) or tuple(sorted(counts))
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
