"""Data sets of labels that a user's own table brings."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from sonde.base.errors import InputError
from sonde.corpora import Given, Item, item_id
from sonde.tasks import TASKS, Dataset, build

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


def test_near_duplicates_are_left_out_where_sonde_deals_the_splits() -> None:
    pool = items()
    copy = item(0, "common")
    text = copy.text.replace("w0_59", "other")
    near = replace(copy, text=text, item_id="near", path="own.csv#near", cluster="near")
    made = built([*pool, near])
    assert (made.report["size"], made.report["dropped"]) == (SIZE, {"near duplicate": 1})


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
        (items(split=lambda _: "train"), "its split says train alone"),
        ([item(n, "a") for n in range(30)], "all 30 labels are 'a'"),
        (
            [item(n, "a", group="g") for n in range(30)] + [item(n, "b") for n in range(40, 42)],
            "no example of class",
        ),
        ([Item("x", "def f(): pass", "python", "function")], "name it as labelled:FILE"),
        ([], "name it as labelled:FILE"),
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
