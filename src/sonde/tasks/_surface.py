"""What can be predicted of a data set without reading the code: the baselines that a probe has to beat.

Each baseline learns on train, takes its setting from valid and predicts test:

- ``majority``: the commonest class;
- ``length``: code tokens and characters, by a decision tree, which needs no order of classes;
- ``bag_of_tokens``: counts of words and signs, by logistic regression;
- ``parse_error``: whether the text parses;
- ``surface`` (tokens and pairs): the tokens' own characters, by logistic regression over character n-grams;
- ``type`` (tokens): the commonest class of the same token in train;
- ``distance`` (pairs): how far apart the two are, by a decision tree.

For tokens and pairs the first two and the last three are what there is to know outside the context; the text
around says nothing about which token is asked for.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.corpora import Item
from sonde.languages import LANGUAGES
from sonde.tasks._examples import Dataset
from sonde.tasks._words import bag_words

SURFACE_SCHEMA: Mapping[str, type[pl.DataType]] = {
    "example_id": pl.String,
    "control": pl.String,
    "prediction": pl.String,
    "correct": pl.Boolean,
}
"""Columns of `surface_predictions`: one row a test example and baseline."""

_STRENGTHS = (0.003, 0.03, 0.3, 3.0)
_LEAVES = (2, 4, 8, 16, 32, 64)
_STEPS = 300
_SEED = 0

Rows = list[dict[str, Any]]
Fit = Callable[[Any, Sequence[str], Any], Sequence[str]]


def surface_predictions(dataset: Dataset, items: Iterable[Item]) -> pl.DataFrame:
    """Predictions of every baseline on the test examples, in `SURFACE_SCHEMA`.

    Args:
        dataset: The data set.
        items: The items that it was built from; its own derived items need not be among them.
    """
    texts = {item.item_id: item for item in (*items, *dataset.inputs)}
    parts = {
        split: dataset.examples.filter(pl.col("split") == split).to_dicts()
        for split in ("train", "valid", "test")
    }
    baselines: dict[str, Sequence[str]] = {"majority": _majority(parts)}
    baselines["length"] = _tree(parts, lambda row: (row["tokens"], row["characters"]))
    first = parts["train"][0]
    if first["other_start"] is not None:
        baselines["distance"] = _tree(parts, lambda row: _distance(row, texts))
    if first["type"] or first["other_start"] is not None:
        baselines["surface"] = _spelling(parts, texts)
    if first["type"]:
        baselines["type"] = _by_key(parts, lambda row: row["type"])
    if not first["type"] and first["other_start"] is None:
        baselines["bag_of_tokens"] = _bag(parts, texts)
        baselines["parse_error"] = _by_key(parts, lambda row: _has_error(texts[row["item_id"]]))
    rows = [
        (row["example_id"], control, prediction, prediction == row["label"])
        for control, predictions in baselines.items()
        for row, prediction in zip(parts["test"], predictions, strict=True)
    ]
    return pl.DataFrame(rows, schema=dict(SURFACE_SCHEMA), orient="row")


def _labels(rows: Rows) -> list[str]:
    return [row["label"] for row in rows]


def _commonest(labels: Iterable[str]) -> str:
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def _majority(parts: Mapping[str, Rows]) -> list[str]:
    return [_commonest(_labels(parts["train"]))] * len(parts["test"])


def _by_key(parts: Mapping[str, Rows], key: Callable[[dict[str, Any]], Any]) -> list[str]:
    """The commonest class in train of what has the same key; of all where none has."""
    known: defaultdict[Any, list[str]] = defaultdict(list)
    for row in parts["train"]:
        known[key(row)].append(row["label"])
    usual = _commonest(_labels(parts["train"]))
    return [_commonest(known[found]) if (found := key(row)) in known else usual for row in parts["test"]]


def _chosen(parts: Mapping[str, Rows], matrices: Mapping[str, Any], fits: Sequence[Fit]) -> Sequence[str]:
    """Test predictions of the setting that is best on valid; of equals the first."""
    truth = np.array(_labels(parts["valid"]))
    best: tuple[float, Sequence[str]] | None = None
    for fit in fits:
        both = fit(matrices["train"], _labels(parts["train"]), (matrices["valid"], matrices["test"]))
        right = float(np.mean(np.array(both[0]) == truth))
        if best is None or right > best[0]:
            best = right, both[1]
    assert best is not None
    return best[1]


def _tree(parts: Mapping[str, Rows], features: Callable[[dict[str, Any]], Sequence[float]]) -> Sequence[str]:
    from sklearn.tree import DecisionTreeClassifier

    def fit(leaves: int, train: Any, labels: Sequence[str], others: Any) -> Any:
        model = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=_SEED).fit(train, labels)
        return [model.predict(other) for other in others]

    matrices = {name: _matrix(rows, features) for name, rows in parts.items()}
    return _chosen(parts, matrices, [functools.partial(fit, leaves) for leaves in _LEAVES])


def _matrix(
    rows: Rows, features: Callable[[dict[str, Any]], Sequence[float]]
) -> Float[np.ndarray, "example feature"]:
    return np.array([features(row) for row in rows], np.float64)


def _regression(parts: Mapping[str, Rows], matrices: Mapping[str, Any]) -> Sequence[str]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    def fit(strength: float, train: Any, labels: Sequence[str], others: Any) -> Any:
        model = LogisticRegression(C=strength, max_iter=_STEPS, random_state=_SEED)
        with warnings.catch_warnings():
            # The weakest penalties stop early on small data sets; valid decides whether they serve.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(train, labels)
        return [model.predict(other) for other in others]

    return _chosen(parts, matrices, [functools.partial(fit, strength) for strength in _STRENGTHS])


def _bag(parts: Mapping[str, Rows], texts: Mapping[str, Item]) -> Sequence[str]:
    """Logarithms of token counts; tokens of one training example only are left out."""
    vectorizer = _vectorizer(2)
    bags = {name: [bag_words(texts[row["item_id"]].text) for row in rows] for name, rows in parts.items()}
    vectorizer.fit(bags["train"])
    return _regression(parts, {name: vectorizer.transform(bag).log1p() for name, bag in bags.items()})


def _spelling(parts: Mapping[str, Rows], texts: Mapping[str, Item]) -> Sequence[str]:
    def spelt(row: dict[str, Any]) -> list[str]:
        text = texts[row["item_id"]].text
        grams = _grams("a", text[row["start"] : row["end"]])
        if row["other_start"] is not None:
            grams += _grams("b", text[row["other_start"] : row["other_end"]])
        return grams

    vectorizer = _vectorizer(1)
    bags = {name: [spelt(row) for row in rows] for name, rows in parts.items()}
    vectorizer.fit(bags["train"])
    return _regression(parts, {name: vectorizer.transform(bag).log1p() for name, bag in bags.items()})


def _vectorizer(least: int) -> Any:
    """Counts of words that are cut already; those of fewer than ``least`` texts are left out."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer: Any = CountVectorizer
    return vectorizer(analyzer=tuple, min_df=least)


def _grams(side: str, word: str) -> list[str]:
    """Runs of one to three characters, the word's ends marked, and the word itself."""
    marked = f"\x02{word[:200]}\x03"
    runs = [marked[place : place + size] for size in (1, 2, 3) for place in range(len(marked) - size + 1)]
    return [side + run for run in (*runs, marked)]


def _distance(row: dict[str, Any], texts: Mapping[str, Item]) -> tuple[float, float]:
    """Characters and words between the two ends of a pair."""
    first, second = sorted(((row["start"], row["end"]), (row["other_start"], row["other_end"])))
    between = texts[row["item_id"]].text[first[1] : second[0]]
    return float(second[0] - first[0]), float(len(between.split()))


def _has_error(item: Item) -> bool:
    return LANGUAGES.load(item.language).parse(item.text).has_error
