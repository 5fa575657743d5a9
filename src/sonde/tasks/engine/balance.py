"""Dealing clusters to splits, and choosing equally many examples of every class, alike in length."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sonde.base.fingerprint import unit_hash

T = TypeVar("T")


SHARES: Mapping[str, float] = {"train": 0.6, "valid": 0.2, "test": 0.2}
"""Splits with their shares, as published (INSPECT, section 5.1)."""


SMALLEST = 5
"""Examples of a class below which a split would be without one: three, one and one."""


def split_sizes(number: int) -> dict[str, int]:
    """Return how many examples of one class each split gets out of ``number``; more never means fewer."""
    fifth, rest = divmod(number, 5)
    return {
        "train": 3 * fifth + (rest + 1) // 2,
        "valid": fifth + (rest >= 2),
        "test": fifth + (rest >= 4),
    }


def largest_class_size(available: Mapping[str, int], limit: int) -> int:
    """Return how many examples of a class, at most ``limit``, the splits can give in their shares."""
    number = min(limit, *(int(available.get(name, 0) / share) + SMALLEST for name, share in SHARES.items()))
    while number > 0 and any(size > available.get(name, 0) for name, size in split_sizes(number).items()):
        number -= 1
    return number


def cluster_weight(examples: int) -> int:
    """Return the weight of a cluster when splits are dealt: the root of its size, in hundredths.

    Clusters take turns when a set is drawn from them, so a large one gives less than its size; dealt by its
    size, it would be most of a split.
    """
    return math.isqrt(10_000 * examples)


_TEST_CLUSTERS = 60
"""Clusters that a test set is to be drawn from: some give few examples, and 30 of equal size are wanted."""


_MAXIMUM_TEST_SHARE = 0.5


_AMPLE = 5_000
"""Functions of a pool from which a data set is filled though training has fewer clusters to draw from."""


def shares_for_test(clusters: int, items: int) -> Mapping[str, float]:
    """Return the shares of clusters, by weight, for a model that is trained once and tested on one split.

    A fifth of a hundred clusters are too few for a verdict. Where a pool holds more functions than a data set
    asks for, test gets up to half of the clusters and takes fewer examples of each; what is left is
    shared by train and valid as in `SHARES`. The examples of the splits stay in their shares.

    Args:
        clusters: Clusters of the pool.
        items: Functions of the pool.
    """
    if items < _AMPLE:
        return SHARES
    test = min(max(_TEST_CLUSTERS / clusters, SHARES["test"]), _MAXIMUM_TEST_SHARE)
    rest = (1 - test) / (1 - SHARES["test"])
    return {name: test if name == "test" else share * rest for name, share in SHARES.items()}


def assign_splits(
    clusters: Mapping[str, Mapping[str, int]],
    seed: int,
    fixed_splits: Mapping[str, str] = {},
    shares: Mapping[str, float] = SHARES,
) -> dict[str, str]:
    """Give whole clusters to splits so that each class has its share in each, rare classes first of all.

    From the largest to the smallest, a cluster goes to the split that is relatively emptiest in the classes
    of the cluster, each class weighed by the part of it that the cluster holds; of equally empty ones to that
    with the larger share, then by hash. So no split goes without a class that has a cluster for each.

    Args:
        clusters: For each cluster, how many examples of each class it holds.
        seed: Breaks ties another way.
        fixed_splits: Clusters whose split is settled.
        shares: Splits with their shares.

    Returns:
        Cluster to the name of its split.
    """
    totals: Counter[str] = Counter()
    for counts in clusters.values():
        totals.update(counts)
    split_counts: dict[str, Counter[str]] = {name: Counter() for name in shares}
    split_by_cluster: dict[str, str] = {}

    def order(cluster: str) -> tuple[float, float, str]:
        weight = sum(count / totals[label] for label, count in clusters[cluster].items() if count)
        return -weight, unit_hash(seed, cluster), cluster

    def emptiness(name: str, cluster: str) -> tuple[float, float]:
        short = sum(
            count / totals[label] * (1 - split_counts[name][label] / (shares[name] * totals[label]))
            for label, count in clusters[cluster].items()
            if count
        )
        return short, shares[name]

    def emptiest(cluster: str) -> str:
        scores = {name: emptiness(name, cluster) for name in shares}
        maximum = max(scores.values())
        equal = [name for name, how_empty in scores.items() if how_empty == maximum]
        return equal[0] if len(equal) == 1 else max(equal, key=lambda name: unit_hash(seed, cluster, name))

    for cluster in sorted(clusters, key=lambda cluster: (cluster not in fixed_splits, order(cluster))):
        best = fixed_splits.get(cluster) or emptiest(cluster)
        split_counts[best].update(clusters[cluster])
        split_by_cluster[cluster] = best
    return split_by_cluster


@dataclass(slots=True)
class BlockMatcher(Generic[T]):
    """Blocks of one example of each class that are alike, formed as examples come in.

    Blocks come in the order in which they are complete, so a longer selection contains a shorter one.

    Attributes:
        labels: The classes.
        blocks: Complete blocks, an example of each class in the classes' order.
    """

    labels: Sequence[str]
    blocks: list[tuple[T, ...]] = field(default_factory=list[tuple[T, ...]])
    _queues: defaultdict[Hashable, dict[str, deque[T]]] = field(
        default_factory=lambda: defaultdict(dict), init=False
    )

    def add(self, label: str, stratum: Hashable, example: T) -> None:
        """Take an example; with the last class of its stratum a block is complete."""
        queues = self._queues[stratum]
        queues.setdefault(label, deque()).append(example)
        if all(queues.get(name) for name in self.labels):
            self.blocks.append(tuple(queues[name].popleft() for name in self.labels))


def order_matched_first(
    examples: Iterable[tuple[str, Hashable, T]], labels: Sequence[str]
) -> tuple[dict[str, list[T]], int]:
    """Order examples so that those with a match in every other class come first.

    Args:
        examples: Label, what matched examples have in common, and the example, in order of preference.
        labels: The classes.

    Returns:
        The examples of each class, and how many of each are matched: they stand first, and the first of one
        class is the like of the first of another.
    """
    example_list = list(examples)
    matcher: BlockMatcher[int] = BlockMatcher(labels)
    for number, (label, stratum, _) in enumerate(example_list):
        matcher.add(label, stratum, number)
    examples_by_class: dict[str, list[T]] = {label: [] for label in labels}
    used: set[int] = set()
    for block in matcher.blocks:
        used.update(block)
        for label, number in zip(labels, block, strict=True):
            examples_by_class[label].append(example_list[number][2])
    for number, (label, _, example) in enumerate(example_list):
        if number not in used:
            examples_by_class[label].append(example)
    return examples_by_class, len(matcher.blocks)
