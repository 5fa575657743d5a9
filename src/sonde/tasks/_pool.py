"""The functions that a data set may be drawn from, in order of preference."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_, itemgetter
from typing import TypeVar

from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item, NearDuplicateIndex, duplicate_tokens
from sonde.corpora._spread import ONE, ItemChunk, Spread
from sonde.languages import LANGUAGES, facet_of, has_facet, parses
from sonde.languages._edits import Edits
from sonde.tasks._balance import SHARES

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
    """What is left of a corpus for data sets.

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


class _Same:
    """Items in any order, to be a key. Ids alone would not do: equal code of another corpus has equal ids.

    Most are asked for again as the same objects in the same order, which is looked at first: a run asks as
    often as it has tasks.
    """

    def __init__(self, items: Sequence[Item], spread: Spread) -> None:
        self.items = items
        self.spread = spread

    @cached_property
    def _key(self) -> frozenset[Item]:
        return frozenset(self.items)

    def __hash__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same) or len(self.items) != len(other.items):
            return False
        return all(map(is_, self.items, other.items)) or self._key == other._key


def pool_of(items: Sequence[Item], language: str, seed: int, hint: str = "", spread: Spread = ONE) -> Pool:
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
    return _pool(_Same(items, spread), language, seed, hint)


@functools.lru_cache(maxsize=_KEPT)
def _pool(same: _Same, language: str, seed: int, hint: str) -> Pool:
    dropped: Counter[str] = Counter()
    ordered = sorted(same.items, key=lambda item: (item.path, item.offset), reverse=True)
    unique = {item.item_id: item for item in ordered if item.language == language}
    # Where no item holds it, in another language for one, the task says better what is missing.
    hinted = [item for item in unique.values() if hint in item.text] or list(unique.values())
    if len(unique) > len(hinted):
        dropped[f"without {hint!r}"] = len(unique) - len(hinted)
    read = _spread(hinted, seed)
    if len(hinted) > len(read):
        dropped["more than are read"] = len(hinted) - len(read)
    found: dict[str, Item] = {}
    tokens: dict[str, int] = {}
    for item, (reason, number) in same.spread.over(_measure, language, read):
        if reason:
            dropped[reason] += 1
            continue
        found[item.item_id] = item
        tokens[item.item_id] = number
    index, kept = NearDuplicateIndex(), list[Item]()
    for item in sorted(found.values(), key=lambda item: _preference(item, tokens, seed)):
        words = duplicate_tokens(item.text)
        if index.find(words) is not None:
            dropped["near duplicate"] += 1
            continue
        index.add(item.item_id, words)
        kept.append(item)
    kept = in_turns(kept, lambda item: (tier_of(tokens[item.item_id]), item.cluster))
    kept.sort(key=lambda item: tier_of(tokens[item.item_id]))
    return Pool(tuple(kept), tokens, dict(sorted(dropped.items())))


def edits_of(language: str) -> Edits | None:
    """The facet ``edits`` of a language, None where it has none."""
    return facet_of(language, "edits", Edits) if has_facet(language, "edits") else None


def count_tokens(text: str, edits: Edits | None) -> int:
    """Code tokens of a text, a string being one; words and signs where the language has no edits."""
    return len(edits.tokens(text)) if edits is not None else len(_WORD.findall(text))


def length_class(tokens: int) -> int:
    """Lengths that count as alike: bins of a quarter of an octave, so 19 % wide."""
    return int(4 * math.log2(max(tokens, 1)))


def _spread(items: Sequence[Item], seed: int) -> list[Item]:
    """As many as are parsed, by hash, of no cluster more than its share."""
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
    """Why each of some items is left out, and its code tokens; runs in any process."""
    edits = edits_of(part.rule)
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
        in_class = parses(item.language, item.text) and not _is_code(item)
        return "constructor, which is no code by itself" if in_class else "does not parse"
    return "getter or setter" if edits.is_accessor(item.text) else ""


def _is_code(item: Item) -> bool:
    return not LANGUAGES.load(item.language).parse(item.text).has_error


def _preference(item: Item, tokens: Mapping[str, int], seed: int) -> tuple[int, float, str]:
    return tier_of(tokens[item.item_id]), unit_hash(seed, item.item_id), item.item_id


def tier_of(tokens: int) -> int:
    """0 for short functions, 1 for those of middling length, 2 for long ones."""
    return sum(tokens > bound for bound in _TIERS)


def in_turns(members: Iterable[T], group: Callable[[T], Hashable]) -> list[T]:
    """The first of each group, then the second of each, and so on; of one turn as they come.

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
