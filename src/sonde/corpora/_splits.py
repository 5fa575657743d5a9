"""Splitting items so that no cluster is on two sides and every side has its share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from sonde.base.errors import UsageError
from sonde.base.fingerprint import unit_hash
from sonde.corpora._corpus import Item

SPLITS = ("train", "valid", "test")


def split(
    items: Iterable[Item], fractions: tuple[float, float, float] = (0.6, 0.2, 0.2), seed: int = 0
) -> dict[str, str]:
    """Give each item to ``"train"``, ``"valid"`` or ``"test"``, whole clusters at a time.

    Clusters are dealt out from the largest to the smallest, each to the split that is furthest below its
    share of the items of the cluster's languages; ties fall by hash. The order of the items does not
    matter, and a cluster of several languages stays together.

    Args:
        items: Items of one or several languages.
        fractions: Shares of train, valid and test; they sum to one.
        seed: Breaks ties another way.

    Returns:
        Item id to the name of its split.

    Raises:
        UsageError: A share is negative, or they do not sum to one.
    """
    if min(fractions) < 0 or abs(sum(fractions) - 1) > 1e-6:
        raise UsageError(
            f"split fractions {fractions} must be at least 0 and sum to 1, such as (0.6, 0.2, 0.2)"
        )
    members: defaultdict[str, list[Item]] = defaultdict(list)
    totals: Counter[str] = Counter()
    for item in items:
        members[item.cluster].append(item)
        totals[item.language] += 1
    filled = {name: Counter[str]() for name in SPLITS}

    def need(name: str, fraction: float, sizes: Counter[str]) -> float:
        """Items that a split is short of, in the mix of languages of one cluster."""
        short = (
            size * (fraction * totals[language] - filled[name][language]) for language, size in sizes.items()
        )
        return sum(short) / sizes.total()

    chosen: dict[str, str] = {}
    for cluster in sorted(members, key=lambda name: (-len(members[name]), unit_hash(seed, name), name)):
        sizes = Counter(item.language for item in members[cluster])
        target = max(
            ((name, fraction) for name, fraction in zip(SPLITS, fractions, strict=True) if fraction > 0),
            key=lambda share: (need(*share, sizes), unit_hash(seed, cluster, share[0])),
        )[0]
        filled[target].update(sizes)
        chosen.update({item.item_id: target for item in members[cluster]})
    return chosen
