import dataclasses
import random
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from sonde.corpora import Given, Item, item_id
from sonde.tasks import Dataset, build
from sonde.tasks.engine.surface import SURFACE_SCHEMA, bag_words, faultiness, surface_predictions


def item(text: str, label: str, split: str, task: str, start: int = 0, end: int | None = None) -> Item:
    place = Given(task, label, start, len(text) if end is None else end, split=split)
    identity = item_id(text, "python", "function")
    return Item(identity, text, "python", "function", f"{identity}.py", "f", 0, identity, "r", given=(place,))


def data_set(write: Callable[[random.Random, bool], str], size: int = 300) -> tuple[Dataset, list[Item]]:
    """Texts of a mutation task with labels that ``write`` plants."""
    draw = random.Random(5)
    items = []
    for number in range(size):
        faulty = number % 2 == 1
        split = ("train", "train", "train", "valid", "test")[number // 2 % 5]
        items.append(item(write(draw, faulty), "FAULT" if faulty else "ORIG", split, "sri"))
    return build("sri", items, size=size, language="python"), items


def filler(draw: random.Random, number: int) -> str:
    return "".join(f"    {draw.choice('abcde')} = {draw.randint(0, 9**9)}\n" for _ in range(number))


def accuracy(dataset: Dataset, items: list[Item]) -> dict[str, float]:
    table = surface_predictions(dataset, items)
    assert dict(table.schema) == dict(SURFACE_SCHEMA)
    tests = dataset.examples.filter(pl.col("split") == "test")
    for _, part in table.group_by("control"):
        assert sorted(part["example_id"]) == sorted(tests["example_id"])
    truth = dict(zip(tests["example_id"], tests["label"], strict=True))
    for row in table.to_dicts():
        assert row["correct"] == (row["prediction"] == truth[row["example_id"]])
    rows = table.group_by("control").agg(pl.col("correct").mean()).rows()
    return {str(control): float(share) for control, share in rows}


def test_nothing_planted_is_nothing_found() -> None:
    found = accuracy(*data_set(lambda draw, _: f"def f():\n{filler(draw, 5)}", size=1000))
    assert set(found) == {"majority", "length", "bag_of_tokens", "parse_error", "artefacts"}
    assert found["majority"] == found["parse_error"] == 0.5
    assert abs(found["length"] - 0.5) < 0.15
    assert abs(found["bag_of_tokens"] - 0.5) < 0.15


def test_a_planted_word_is_found_by_the_bag_alone() -> None:
    def write(draw: random.Random, faulty: bool) -> str:
        return f"def f():\n{filler(draw, 5)}    {'raise' if faulty else 'yield'}\n"

    found = accuracy(*data_set(write))
    assert found["bag_of_tokens"] == 1.0
    assert found["parse_error"] == 0.5


def test_a_planted_length_is_found_by_length() -> None:
    found = accuracy(*data_set(lambda draw, faulty: f"def f():\n{filler(draw, 20 if faulty else 5)}"))
    assert found["length"] == 1.0
    assert found["majority"] == 0.5


def test_length_needs_no_order_of_classes() -> None:
    """Middling lengths against short and long ones: no line parts them."""

    def write(draw: random.Random, faulty: bool) -> str:
        return f"def f():\n{filler(draw, 10 if faulty else draw.choice([2, 30]))}"

    assert accuracy(*data_set(write))["length"] == 1.0


def test_a_planted_parse_error_is_found() -> None:
    found = accuracy(*data_set(lambda draw, faulty: f"def f({':' * faulty}):\n{filler(draw, 5)}"))
    assert found["parse_error"] == 1.0


def test_faults_of_a_data_set_need_not_be_handed_in() -> None:
    draw = random.Random(2)
    texts = [f"def f(a, b):\n{filler(draw, 6)}    return a_{number}(b)\n" for number in range(300)]
    items = [
        Item(
            item_id(text, "python", "function"),
            text,
            "python",
            "function",
            f"{n}.py",
            "f",
            0,
            f"c{n % 30}",
            "r",
        )
        for n, text in enumerate(texts)
    ]
    made = build("sri", items, size=100, language="python")
    assert made.inputs
    assert set(accuracy(made, items)) == {"majority", "length", "bag_of_tokens", "parse_error", "artefacts"}


def tokens(spelt: Callable[[random.Random, str], str]) -> tuple[Dataset, list[Item]]:
    draw = random.Random(8)
    labels = ("IDC", "IDM", "IDP", "IDV")
    items = []
    for number in range(400):
        label = labels[number % 4]
        word = spelt(draw, label)
        text = f"{word} = {number}"
        split = ("train", "train", "train", "valid", "test")[number // 4 % 5]
        items.append(item(text, label, split, "idn", 0, len(word)))
    return build("idn", items, size=400, language="python"), items


def test_tokens_are_told_by_their_spelling() -> None:
    found = accuracy(*tokens(lambda draw, label: f"{label.lower()}{draw.randint(0, 10**9)}"))
    assert set(found) == {"majority", "length", "surface", "type"}
    assert found["surface"] == 1.0
    assert found["type"] == 0.25


def test_tokens_seen_in_training_are_told_by_their_type() -> None:
    found = accuracy(*tokens(lambda draw, label: f"{label[::-1]}{draw.randint(0, 3)}"))
    assert found["type"] == 1.0


def test_where_only_some_have_another_end_the_words_are_read() -> None:
    dataset, items = data_set(
        lambda draw, faulty: f"def f():\n{filler(draw, 3)}    {'bad' if faulty else 'good'}\n"
    )
    other = pl.when(pl.col("label") == "FAULT").then(pl.lit(0, pl.Int32))
    mixed = dataset.examples.with_columns(other_start=other, other_end=other).sort("label")
    found = accuracy(dataclasses.replace(dataset, examples=mixed), items)
    assert set(found) == {"majority", "length", "bag_of_tokens", "parse_error", "artefacts"}
    assert found["bag_of_tokens"] > 0.95


def test_the_baseline_to_beat_is_chosen_on_validation_in_each_fold() -> None:
    dataset, items = data_set(lambda draw, faulty: f"def f():\n{filler(draw, 20 if faulty else 5)}")
    rows = np.arange(dataset.examples.height)
    parts = [rows[rows % 3 == part] for part in range(3)]
    folds = [(parts[one], parts[(one + 1) % 3], parts[(one + 2) % 3]) for one in range(3)]
    table = surface_predictions(dataset, items, folds)
    assert set(table.filter("chosen")["control"]) == {"length"}
    assert table.filter("chosen").height == len(rows)
    # Labels by coin on what one fold tests change nothing of what that fold chose.
    draw = np.random.default_rng(0)
    own = dataset.examples.with_row_index()
    coins = pl.Series(draw.choice(["FAULT", "ORIG"], len(rows)).tolist())
    label = pl.when(pl.col("index").is_in(folds[0][2].tolist())).then(coins).otherwise("label")
    changed = dataclasses.replace(dataset, examples=own.with_columns(label=label).drop("index"))
    again = surface_predictions(changed, items, folds[:1])
    assert set(again.filter("chosen")["control"]) == {"length"}
    reached = dict(again.group_by("control").agg(pl.col("correct").mean()).iter_rows())
    assert reached["length"] < 0.6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a>>>=b != c", ["a", ">>>=", "b", "!=", "c"]),
        ("f(x)::y // z", ["f", "(", "x", ")", "::", "y", "//", "z"]),
        ("x:=-1", ["x", ":=", "-", "1"]),
        ("'é b' # c", ["'", "é", "b", "'", "#", "c"]),
    ],
)
def test_words_and_signs(text: str, expected: list[str]) -> None:
    assert list(bag_words(text)) == expected


def test_texts_of_equal_leaning_have_equal_counts() -> None:
    """Matched on the score, the planted word no longer tells the sides apart."""
    draw = random.Random(4)
    texts, faulty = [], []
    for number in range(2000):
        side = number % 2 == 1
        word = "x" if draw.random() < (0.7 if side else 0.3) else "y"
        texts.append(f"{word} {draw.choice('abc')} {draw.choice('def')}")
        faulty.append(side)
    scores = faultiness(texts, faulty)
    has = [text.startswith("x") for text in texts]
    assert abs(sum(scores[n] for n in range(2000) if has[n]) / sum(has) - 0.7) < 0.03
    by_score: dict[float, list[int]] = {}
    for number, score in enumerate(scores.tolist()):
        by_score.setdefault(round(score, 6), []).append(number)
    for members in by_score.values():
        assert len({has[number] for number in members}) == 1
