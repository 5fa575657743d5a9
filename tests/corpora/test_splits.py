import random
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.base.errors import UsageError
from sonde.corpora import Item, split


def make(sizes: dict[tuple[str, str], int]) -> list[Item]:
    return [
        Item(f"{language}-{cluster}-{n}", "x", language, "function", "p", "n", 0, cluster, cluster)
        for (language, cluster), size in sizes.items()
        for n in range(size)
    ]


sizes = st.dictionaries(
    st.tuples(st.sampled_from(["python", "java"]), st.integers(0, 30).map(str)),
    st.integers(1, 20),
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(sizes, st.randoms(use_true_random=False))
def test_clusters_stay_whole_and_order_does_not_matter(
    given_sizes: dict[tuple[str, str], int], rng: random.Random
) -> None:
    items = make(given_sizes)
    chosen = split(items, seed=3)
    sides: defaultdict[str, set[str]] = defaultdict(set)
    for item in items:
        sides[item.cluster].add(chosen[item.item_id])
    assert all(len(side) == 1 for side in sides.values())
    assert chosen.keys() == {item.item_id for item in items}
    rng.shuffle(items)
    assert split(items, seed=3) == chosen


def test_shares_are_met_in_each_language() -> None:
    rng = random.Random(1)
    items = make(
        {(lang, f"{lang}{n}"): rng.randrange(1, 100) for lang in ("python", "java") for n in range(80)}
    )
    chosen = split(items)
    for language in ("python", "java"):
        counts = Counter(chosen[item.item_id] for item in items if item.language == language)
        for name, share in (("train", 0.6), ("valid", 0.2), ("test", 0.2)):
            assert abs(counts[name] / counts.total() - share) < 0.01


def test_one_large_cluster_does_not_starve_the_other_splits() -> None:
    chosen = split(make({("python", "huge"): 900, ("python", "a"): 5, ("python", "b"): 5}))
    assert chosen["python-huge-0"] == "train"
    assert {chosen["python-a-0"], chosen["python-b-0"]} == {"valid", "test"}


def test_the_seed_breaks_ties_another_way() -> None:
    items = make({("python", str(n)): 1 for n in range(50)})
    assert split(items, seed=0) != split(items, seed=1)


def test_an_empty_share_gets_nothing() -> None:
    chosen = split(make({("python", str(n)): 3 for n in range(20)}), fractions=(0.5, 0.0, 0.5))
    assert Counter(chosen.values()) == {"train": 30, "test": 30}


def test_shares_must_sum_to_one() -> None:
    with pytest.raises(UsageError, match="sum to 1"):
        split([], fractions=(0.6, 0.6, 0.2))
