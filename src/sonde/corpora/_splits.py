"""Splitting items so that no cluster is on two sides and every side has its share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from sonde.base.errors import UsageError
from sonde.base.fingerprint import unit_hash
from sonde.corpora._corpus import Item
from sonde.corpora._spool import Candidate

SPLITS = ("train", "valid", "test")

SPLIT_OF = {
    **dict.fromkeys(("train", "training", "tr"), "train"),
    **dict.fromkeys(("valid", "validation", "val", "va", "dev"), "valid"),
    **dict.fromkeys(("test", "testing", "te", "eval"), "test"),
}
"""What published tables call them, in lower case."""

Clustered = Item | Candidate
"""What can be given to a split: an item, or a file."""


def split(
    items: Iterable[Clustered], fractions: tuple[float, float, float] = (0.6, 0.2, 0.2), seed: int = 0
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
    check_fractions(fractions)
    members: defaultdict[str, list[Clustered]] = defaultdict(list)
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


def check_fractions(fractions: tuple[float, float, float]) -> None:
    """Refuse shares that are none.

    Raises:
        UsageError: A share is negative, or they do not sum to one.
    """
    # Written so that a share that is no number fails as well.
    if not (min(fractions) >= 0 and abs(sum(fractions) - 1) <= 1e-6):
        raise UsageError(
            f"split fractions {fractions} must be at least 0 and sum to 1, such as (0.6, 0.2, 0.2)"
        )


_RESERVED_SHARE = 0.3


def reserved(name: str) -> bool:
    """Whether a distribution or JDK package is held out of every training run: 30 % of names, by hash.

    The name decides, so that a later version, and a package nobody has seen yet, falls the same way.

    Args:
        name: The normalised name of a distribution or the name of a JDK package: the ``cluster`` that
            the sources `environment`, `pypi` and `jdk` give.
    """
    return unit_hash("reserved", name) < _RESERVED_SHARE
