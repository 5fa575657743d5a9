"""Labels of a user's own through every lens that takes them, and what is said where they cannot be."""

from __future__ import annotations

import csv
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sonde
from sonde.api.predict import predict_with_model
from sonde.api.predictions import FORMS
from sonde.base.errors import InputError, SondeError, UsageError
from sonde.results.schema import dimension_value
from tests.copied import copied
from tests.copied import functions as known_functions

ROWS = 90


def functions() -> list[str]:
    """Functions that add, and functions that call: what is told apart is in most of their tokens."""
    adding = "def f{0}(a, b):\n    c = a + {0} + b + a\n    return c + a + b\n"
    calling = "def g{0}(a, b):\n    print(a, b, {0})\n    return call(other(a, name{0}), b)\n"
    return [(adding, calling)[number % 2].format(number) for number in range(ROWS)]


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., str]:
    """Writes a table of some columns, and names it as a corpus."""

    def write(query: str = "", **columns: list[Any]) -> str:
        path = tmp_path / "own.csv"
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return f"labelled:{path}{query}"

    return write


def run(corpus: str, model: Path, lens: str, tmp_path: Path, **options: Any) -> sonde.Run:
    return sonde.run(
        models=model,
        lenses=lens,
        corpora=corpus,
        output=tmp_path / "run",
        options={lens: options} if options else None,
        workers=1,
    )


KINDS = [("add", "call")[number % 2] for number in range(ROWS)]


def test_numbers_are_regressed_beside_their_quartiles(
    table: Callable[..., str], encoder: Path, tmp_path: Path
) -> None:
    numbers = [37 * number % ROWS / 2 for number in range(ROWS)]
    found = run(table(code=functions(), label=numbers), encoder, "probe", tmp_path, curves=False)
    rows = found.scores.filter(task="labelled")
    assert {"accuracy", "gain", "r2", "spearman"} <= set(rows["metric"])
    assert rows.filter(metric="r2", control="length").height
    assert set(found.states("labelled", 1).examples["value"]) == set(numbers)


def test_spans_have_the_controls_of_tokens(table: Callable[..., str], encoder: Path, tmp_path: Path) -> None:
    texts, labels, starts, ends = [], [], [], []
    for number, text in enumerate(functions()):
        for label, word in (("name", text[4:7].strip("(")), ("end", text.split()[-1])):
            start = text.index(word) if label == "name" else text.rindex(word)
            texts.append(text)
            labels.append(label)
            starts.append(start)
            ends.append(start + len(word))
        assert number < ROWS
    corpus = table(
        "?start=s&end=e&group=g", code=texts, label=labels, s=starts, e=ends, g=[t[:6] for t in texts]
    )
    found = run(corpus, encoder, "probe", tmp_path, curves=False)
    rows = found.scores.filter(task="labelled_spans")
    assert {"majority", "length", "surface", "type", "control_task", "random_weights"} <= set(rows["control"])


def test_pairs_are_told_by_both_texts(table: Callable[..., str], encoder: Path, tmp_path: Path) -> None:
    texts = functions()
    others = [texts[number - number % 4] for number in range(ROWS)]
    same = ["same" if (number - number % 4) % 2 == number % 2 else "other" for number in range(ROWS)]
    corpus = table("?text_b=b", code=texts, b=[f"# {n}\n{text}" for n, text in enumerate(others)], label=same)
    found = run(corpus, encoder, "probe", tmp_path, curves=False)
    rows = found.scores.filter(task="labelled_pairs", metric="accuracy", split="test")
    assert {"majority", "distance", "surface"} <= set(rows["control"])
    states = found.states("labelled_pairs", 1)
    one, other, product, difference = np.split(states.values, 4, axis=1)
    assert one.shape[1] == 32
    np.testing.assert_array_equal(product, one * other)
    np.testing.assert_array_equal(difference, np.abs(one - other))
    assert (rows.filter(pl.col("control").is_null())["value"] > 0.6).any()


@pytest.mark.slow
def test_labels_by_coin_of_functions_in_copies_are_not_found(
    table: Callable[..., str], encoder: Path, tmp_path: Path
) -> None:
    """With every row a group, as before, copies are tested by a probe that learned the labels of others."""
    known, coin = known_functions(30), random.Random(1).sample(["a", "b"] * 15, 30)
    texts = [copied(text, number) for text in known for number in range(5)]
    labels = [label for label in coin for _ in range(5)]
    corpus = table(code=texts, label=labels, row=list(range(150)))
    found: dict[str, dict[str, Any]] = {}
    for name, query in (("clusters", ""), ("rows", "?group=row")):
        made = run(f"{corpus}{query}", encoder, "probe", tmp_path / name, curves=False, controls=False)
        rows = made.scores.filter(task="labelled", metric="accuracy", split="test", pooling="mean")
        own = rows.filter(pl.col("control").is_null() & (pl.col("dimensions").list.len() == 0))
        found[name] = own.sort("layer").row(-1, named=True)
    clusters, rows = found["clusters"], found["rows"]
    assert (clusters["n"], clusters["n_clusters"]) == (150, 30)
    assert clusters["ci_low"] < 0.5 < clusters["ci_high"]
    assert rows["n_clusters"] == rows["n"] and rows["ci_low"] > 0.5
    page = sonde.Run(tmp_path / "clusters" / "run").page.read_text(encoding="utf-8")
    assert (
        "No group column: rows with nearly the same code share a cluster (30 clusters of 150 rows)." in page
    )


def test_fine_tuning_takes_the_labels_and_their_splits(
    table: Callable[..., str], encoder: Path, tmp_path: Path
) -> None:
    parts = [("train", "train", "valid", "test", "test", "train")[number // 2 % 6] for number in range(ROWS)]
    corpus = table(code=functions(), label=KINDS, split=parts)
    found = run(
        corpus, encoder, "finetune", tmp_path, epochs=6, rates=5e-3, methods="pretrained,bag_of_tokens"
    )
    rows = found.scores.filter(task="labelled", metric="accuracy", split="test")
    assert set(rows["n"]) == {parts.count("test")}
    assert "bag_of_tokens" in set(rows["control"])
    (folder,) = (found.directory / "trained").glob("*/model")
    new = tmp_path / "new.py"
    new.write_text("\n\n".join(functions()[:6]))
    said = predict_with_model(folder, [new])
    assert [one.label for one in said.functions] == KINDS[:6]
    (tuned,) = said.probes
    own = rows.filter(pl.col("control").is_null() & (pl.col("dimensions").list.len() == 0))
    assert tuned.accuracy is not None
    assert (tuned.task, tuned.language, tuned.accuracy["n"]) == ("labelled", "python", parts.count("test"))
    assert tuned.accuracy["value"] in own["value"].to_list()
    shutil.copytree(folder, tmp_path / "alone")
    assert predict_with_model(tmp_path / "alone", [new]).functions == said.functions
    assert "accuracy unknown" in FORMS["text"](predict_with_model(tmp_path / "alone", [new]))


def test_surprisal_comes_by_label(table: Callable[..., str], decoder: Path, tmp_path: Path) -> None:
    found = run(table(code=functions(), label=KINDS), decoder, "surprisal", tmp_path)
    rows = found.scores.filter(pl.col("metric") == "bits").with_columns(label=dimension_value("user_tag"))
    assert set(rows["label"].drop_nulls()) == {"add", "call"}


@pytest.mark.parametrize(
    ("columns", "query", "lens", "kind", "reason"),
    [
        ({"label": ["same"] * ROWS}, "", "probe", InputError, "all 90 labels are 'same'"),
        ({"label": [""] * ROWS}, "", "probe", InputError, "none of its 90 rows can be used"),
        (
            {"label": KINDS, "split": ["train"] * ROWS},
            "",
            "probe",
            InputError,
            "has only train, but train and test",
        ),
        ({"label": KINDS}, "?x=1", "probe", UsageError, "unknown option"),
        (
            {"label": KINDS, "s": [0] * ROWS, "e": [3] * ROWS},
            "?start=s&end=e",
            "finetune",
            UsageError,
            "lens 'finetune' takes tasks about item, mutation, pair",
        ),
    ],
)
def test_a_table_that_cannot_serve_ends_in_one_line(
    columns: dict[str, list[Any]],
    query: str,
    lens: str,
    kind: type[SondeError],
    reason: str,
    table: Callable[..., str],
    encoder: Path,
    tmp_path: Path,
) -> None:
    with pytest.raises(kind, match=reason) as caught:
        run(table(query, code=functions(), **columns), encoder, lens, tmp_path)
    assert "\n" not in str(caught.value)
