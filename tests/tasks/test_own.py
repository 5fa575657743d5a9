"""Data sets of labels that a user's own table brings."""

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.copied import copied, functions

from sonde.base.errors import InputError
from sonde.corpora import Given, Item, item_id
from sonde.tasks import COPIES, Dataset, build
from sonde.tasks.engine.task import TASKS

SIZE = 120


def item(number: int, label: str, *, split: str = "", group: str = "", value: float | None = None) -> Item:
    words = " + ".join(f"{number}{at:02}" for at in range(60))
    text = f"def f{number}():\n    return {words}\n"
    given = Given("labelled", label, 0, len(text), split=split, value=value)
    path = f"own.csv#{number}"
    return Item(
        item_id(text, "python", "function"),
        text,
        "python",
        "function",
        path,
        "f",
        0,
        group or path,
        "r",
        given=(given,),
    )


def items(
    split: Callable[[int], str] = lambda _: "", group: Callable[[int], str] = lambda _: ""
) -> list[Item]:
    """One in four is rare."""
    return [item(n, "rare" if n % 4 == 0 else "common", split=split(n), group=group(n)) for n in range(SIZE)]


def built(pool: Sequence[Item], size: int = 10_000, task: str = "labelled") -> Dataset:
    return build(task, pool, size=size, language="python")


def test_classes_stay_as_frequent_as_they_are() -> None:
    examples = built(items()).examples
    assert Counter(examples["label"]) == {"common": 90, "rare": 30}
    assert Counter(examples["split"]) == {"train": 72, "valid": 24, "test": 24}
    assert not examples["given_split"].any()


def test_groups_are_in_one_split_each() -> None:
    examples = built(items(group=lambda n: f"g{n // 5}")).examples
    sides = defaultdict(set)
    for cluster, split in examples.select("cluster", "split").iter_rows():
        sides[cluster].add(split)
    assert len(sides) == 24
    assert all(len(held) == 1 for held in sides.values())


def test_splits_of_the_table_are_kept() -> None:
    pool = items(split=lambda n: ("train", "test", "valid")[n % 3])
    examples = built(pool).examples
    assert examples["given_split"].all()
    by_item = {one.item_id: one.given[0].split for one in pool}
    assert [by_item[name] for name in examples["item_id"]] == examples["split"].to_list()


def test_validation_comes_out_of_training_where_the_table_has_none() -> None:
    pool = items(split=lambda n: "test" if n % 5 == 0 else "train")
    examples = built(pool).examples
    assert Counter(examples["split"]) == {"train": 72, "valid": 24, "test": 24}
    tests = {one.item_id for one in pool if one.given[0].split == "test"}
    assert set(examples.filter(split="test")["item_id"]) == tests


def with_a_copy(group: Callable[[int], str] = lambda _: "", split: str = "") -> list[Item]:
    """The items, of the first also a copy in which one word differs."""
    pool = items(group=group, split=lambda n: split and ("train", "test", "valid")[n % 3])
    copy = item(0, "common", split=split)
    text = copy.text.replace("059", "99999")
    assert text != copy.text
    near = replace(
        copy, text=text, item_id="near", path="own.csv#near", cluster=group(SIZE) or "own.csv#near"
    )
    if group(0):
        return [replace(one, given=(replace(one.given[0], group=one.cluster),)) for one in [*pool, near]]
    return [*pool, near]


def test_near_duplicates_are_left_out_where_the_table_names_groups() -> None:
    made = built(with_a_copy(group=lambda n: f"g{n}"))
    assert (made.report["size"], made.report["dropped"]) == (SIZE, {"near duplicate": 1})
    assert COPIES not in made.report


def test_near_duplicates_share_a_cluster_where_the_table_names_no_group() -> None:
    made = built(with_a_copy())
    assert made.report["size"] == SIZE + 1
    rows = made.examples.filter(pl.col("item_id").is_in(["near", items()[0].item_id]))
    assert rows["cluster"].n_unique() == 1 and rows["split"].n_unique() == 1
    assert made.examples["cluster"].n_unique() == SIZE
    assert made.report[COPIES]["said"] == (
        "no group column: rows with nearly the same code share a cluster "
        f"({SIZE} clusters of {SIZE + 1} rows)"
    )
    assert built(items()).report[COPIES]["said"] == (
        f"no group column: no two of {SIZE} rows have nearly the same code, so each row is a cluster"
    )


def test_copies_across_splits_of_the_table_are_counted_and_stay() -> None:
    for group in ("", "g"):
        pool = with_a_copy(group=lambda n, group=group: group and f"{group}{n}", split="test")
        assert pool[0].given[0].split == "train"
        examples = (made := built(pool)).examples
        assert examples.filter(item_id="near")["split"].to_list() == ["test"]
        told = made.report[COPIES]["said"]
        assert told.endswith(
            "the table's splits are kept: 1 of 41 test rows have nearly the same code as a training row"
        )
        assert told.startswith("no group column") == (not group)


LABELS = "ab"


def rows_of(texts: Sequence[str], labels: Sequence[str], language: str = "python") -> list[Item]:
    """One item per text, as a table without a group and a split gives them."""
    return [
        Item(
            item_id(text, language, "function"), text, language, "function", f"own.csv#{n}",
            cluster=f"own.csv#{n}", given=(Given("labelled", label, 0, len(text)),),
        )
        for n, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]  # fmt: skip


def nearest_label(made: Dataset, texts: Mapping[str, str]) -> float:
    """How many labels of test a look at the likest text of training gets right."""
    train, test = (made.examples.filter(pl.col("split") == split) for split in ("train", "test"))
    words = {name: set(re.findall(r"\w+", text)) for name, text in texts.items()}

    def guess(name: str) -> str:
        own = words[name]
        likest = max(train["item_id"], key=lambda other: len(own & words[other]) / len(own | words[other]))
        return train.filter(item_id=likest)["label"][0]

    return sum(guess(name) == label for name, label in test.select("item_id", "label").iter_rows()) / len(
        test
    )


@pytest.mark.slow
def test_labels_by_coin_of_functions_in_copies_cannot_be_learned() -> None:
    """Before, copies straddled splits: with every row a group, as then, their labels are looked up."""
    texts = [copied(text, number) for text in functions(30) for number in range(5)]
    found: dict[str, list[float]] = {"clusters": [], "rows": []}
    for draw in range(12):
        coin = random.Random(draw)
        labels = [label for label in coin.sample(LABELS * 15, 30) for _ in range(5)]
        pool = rows_of(texts, labels)
        apart = [replace(one, given=(replace(one.given[0], group=one.cluster),)) for one in pool]
        by_name = {one.item_id: one.text for one in pool}
        for name, some in (("clusters", pool), ("rows", apart)):
            made = built(some)
            assert made_of(made) == (30, 150) if name == "clusters" else made_of(made)[0] > 60
            found[name].append(nearest_label(made, by_name))
    clusters, rows = (np.array(found[name]) for name in ("clusters", "rows"))
    assert rows.mean() > 0.75
    assert abs(clusters.mean() - 0.5) < 2.2 * clusters.std(ddof=1) / math.sqrt(len(clusters)) + 0.02


def made_of(made: Dataset) -> tuple[int, int]:
    """Clusters and rows of a data set."""
    return made.examples["cluster"].n_unique(), len(made.examples)


def test_numbers_and_prose_have_clusters_too() -> None:
    texts = [copied(text, number) for text in functions(30) for number in range(5)]
    pool = rows_of(texts, [f"{n // 5 % 4}" for n in range(150)])
    numbers = [replace(one, given=(replace(one.given[0], value=n / 2),)) for n, one in enumerate(pool)]
    assert made_of(built(numbers)) == (30, 150)
    prose = [
        f"{' '.join(f'word{at}of{n}' for at in range(9))} {end}"
        for n in range(30)
        for end in ("today", "yesterday", "again")
    ]
    made = build(
        "labelled", rows_of(prose, [LABELS[n // 3 % 2] for n in range(90)], "text"), size=90, language="text"
    )
    assert made_of(made) == (30, 90)
    assert "nearly the same text share" in made.report[COPIES]["said"]


def test_pairs_of_nearly_the_same_texts_share_a_cluster() -> None:
    known = functions(30)
    pool: list[Item] = []
    for n in range(90):
        # Each pair in three copies, one of which has its sides turned; and one text of every pair in another.
        first, second = known[n // 3], known[(n // 3 + 1) % 30]
        one, other = (copied(text, n, 1) for text in ((first, second), (second, first))[n % 3 == 2])
        text = f"{one}\n\n{other}"
        given = Given("labelled_pairs", LABELS[n // 3 % 2], 0, len(one), len(one) + 2, len(text))
        pool.append(replace(rows_of([text], ["a"])[0], given=(given,), cluster=f"own.csv#{n}"))
    made = built(pool, task="labelled_pairs")
    assert made_of(made) == (30, 90)
    assert made.report[COPIES]["said"] == (
        "no group column: rows with nearly the same two texts share a cluster (30 clusters of 90 rows); "
        "90 rows share one of their texts with rows of other clusters"
    )


def test_of_texts_with_spans_one_copy_is_kept() -> None:
    texts = [copied(text, number) for text in functions(30) for number in range(5)]
    pool = []
    for one in rows_of(texts, ["a"] * 150):
        places = [found.span() for found in re.finditer(r"\w+", one.text)][3:]
        given = [Given("labelled_spans", LABELS[one.text[begin] < "m"], begin, end) for begin, end in places]
        pool.append(replace(one, given=tuple(given)))
    made = built(pool, task="labelled_spans")
    assert made.examples["item_id"].n_unique() == 30
    assert made.report["dropped"] == {"near duplicate": 120}
    assert made.report[COPIES]["said"] == (
        "no group column: one of several texts with nearly the same code is kept (120 of 150 left out), and "
        "spans with the same text share a cluster"
    )


def test_a_limit_draws_texts_by_hash() -> None:
    small, large = (set(built(items(), size=size).examples["item_id"]) for size in (40, 80))
    assert (len(small), len(large)) == (40, 80)
    assert small < large


def test_values_stand_beside_classes() -> None:
    pool = [item(n, f"{n % 4}", value=n / 2) for n in range(SIZE)]
    assert set(built(pool).examples["value"]) == {n / 2 for n in range(SIZE)}


def test_spans_have_what_they_say_as_type_and_the_group_as_cluster() -> None:
    def labelled(group: str) -> list[Item]:
        plain = items(group=lambda n: group and f"{group}{n % 9}")
        return [
            replace(
                one,
                given=(
                    Given("labelled_spans", "name", 4, 6, group=group),
                    Given("labelled_spans", "keyword", 0, 3, group=group),
                ),
            )
            for one in plain
        ]

    grouped = built(labelled("g"), task="labelled_spans").examples
    assert set(grouped["cluster"]) == {f"g{n}" for n in range(9)}
    assert "def" in set(grouped["type"])
    with pytest.raises(InputError, match="has no example of class 'keyword'"):
        # All keywords say the same, and what says the same stays in one split.
        built(labelled(""), task="labelled_spans")


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        (items(split=lambda _: "train"), "its split column has only train, but"),
        ([item(n, "a") for n in range(30)], "all 30 labels are 'a'"),
        (
            [item(n, "a", group="g") for n in range(30)] + [item(n, "b") for n in range(40, 42)],
            "no example of class",
        ),
        ([Item("x", "def f(): pass", "python", "function")], "name it as -c labelled:FILE"),
        ([], "name it as -c labelled:FILE"),
    ],
)
def test_what_cannot_be_learned_is_refused(pool: list[Item], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        built(pool)


def test_labels_of_an_item_are_those_that_it_brings() -> None:
    one = item(3, "a", value=1.5)
    assert TASKS.load("labelled").label([one], {})[one.item_id].rows() == [
        (0, len(one.text), "a", 1.5, None, None)
    ]
