"""What generated bugs give away by their neighbours: planted, absent, and against n-grams text by text."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from sonde.corpora.engine.ngram import NGram
from sonde.tasks.engine import surface
from sonde.tasks.engine.surface import BIGRAMS, NGRAM, bag_words, bias_predictions


def examples(size: int, seed: int, *, planted: bool) -> pl.DataFrame:
    """Functions of the same tokens; a bug puts ``is`` and ``none`` the other way round, if it does so."""
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    labels: list[str] = []
    for number in range(size):
        names = rng.choice(list("abcdefgh"), 6).tolist()
        buggy = number % 2 == 1
        middle = ["none", "is"] if buggy and planted else ["is", "none"]
        texts.append(" ".join([*names[:3], *middle, *names[3:]]))
        labels.append("Bug" if buggy else "Correct")
    ids = [f"{seed}-{number}" for number in range(size)]
    return pl.DataFrame({"example_id": ids, "text": texts, "label": labels})


def splits(*, planted: bool) -> dict[str, pl.DataFrame]:
    sizes = {"train": 200, "valid": 60, "test": 400}
    return {name: examples(size, seed, planted=planted) for seed, (name, size) in enumerate(sizes.items())}


def right(found: dict[str, list[str]], held: dict[str, pl.DataFrame]) -> dict[str, float]:
    gold = held["test"]["label"].to_list()
    return {name: float(np.mean([one == two for one, two in zip(said, gold, strict=True)]))
            for name, said in found.items()}  # fmt: skip


def test_neighbours_that_give_bugs_away_are_found_and_others_are_not() -> None:
    held = splits(planted=True)
    assert right(bias_predictions(held), held) == dict.fromkeys((BIGRAMS, NGRAM), 1.0)
    none = splits(planted=False)
    found = right(bias_predictions(none), none)
    assert found.keys() == {BIGRAMS, NGRAM}
    assert all(0.4 < share < 0.6 for share in found.values())


@pytest.mark.parametrize("order", [2, 3, 4])
def test_texts_in_a_row_are_as_surprising_as_each_by_itself(order: int) -> None:
    held = splits(planted=True)
    words = [bag_words(text) for text in held["train"]["text"].to_list()[:30]]
    numbers = surface._numbers(words)
    coded = [np.array([numbers.get(word, 1) for word in text]) for text in words]
    learned, asked = coded[:20], coded[20:]
    model = NGram(surface._stream(learned, order), len(numbers) + 2, order)
    alone = [model.nats(np.concatenate([[0] * (order - 1), text]))[order - 1 :].sum() for text in asked]
    np.testing.assert_allclose(surface._nats(learned, asked, len(numbers) + 2, order), alone)


def test_the_commoner_class_is_said_where_the_text_says_nothing() -> None:
    held = splits(planted=False)
    held["train"] = pl.concat(
        [
            held["train"].filter(pl.col("label") == "Correct"),
            held["train"].filter(pl.col("label") == "Bug").head(2),
        ]
    )
    said = bias_predictions(held)[NGRAM]
    assert said.count("Correct") > 0.9 * len(said)
