"""What can be predicted of a data set without reading the code: the baselines that a probe has to beat.

Each baseline learns on train, takes its setting from valid and predicts test:

- ``majority``: the commonest class;
- ``length``: code tokens and characters, by a decision tree, which needs no order of classes;
- ``bag_of_tokens``: counts of words and signs, by logistic regression;
- ``parse_error``: whether the text parses;
- ``artefacts`` (texts and pairs): what the making of the examples left (`sonde.tasks._artefacts`), by a
  decision tree;
- ``surface`` (tokens and pairs): the tokens' own characters, by logistic regression over character n-grams;
- ``type`` (tokens): the commonest class of the same token in train;
- ``distance`` (pairs): how far apart the two are, by a decision tree.

For tokens and pairs the first two and the last three are what there is to know outside the context; the text
around says nothing about which token is asked for. What stands right beside a token is no trick of a data set
but belongs to the language: that baseline, of which none of these is a part, is in `sonde.tasks._cues`.
"""

from __future__ import annotations

import functools
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Int
from numpy.typing import NDArray

from sonde.corpora import Item
from sonde.languages import LANGUAGES
from sonde.tasks._artefacts import artefact_features
from sonde.tasks._examples import Dataset
from sonde.tasks._pool import edits_of
from sonde.tasks._words import bag_words

SURFACE_SCHEMA: Mapping[str, type[pl.DataType]] = {
    "example_id": pl.String,
    "control": pl.String,
    "prediction": pl.String,
    "correct": pl.Boolean,
    "chosen": pl.Boolean,
}
"""Columns of `surface_predictions`: one row a test example and baseline.

``chosen``: whether the baseline is the best on validation in the fold that tests the example, of equals the
first. It is the one to beat: the best on test would be chosen on what it is held against.
"""

_STRENGTHS = (0.003, 0.03, 0.3, 3.0)
_LEAVES = (2, 4, 8, 16, 32, 64)
_STEPS = 300
_TOLERANCE = 1e-3
_SEED = 0

Rows = list[dict[str, Any]]
Labels = NDArray[np.str_]
Parts = tuple[Int[np.ndarray, " train"], Int[np.ndarray, " valid"], Int[np.ndarray, " test"]]
"""Rows that a baseline learns on, takes its setting from and predicts."""

Baseline = Callable[[Labels, Parts], Sequence[str]]
Fit = Callable[[Any, Labels, Any], Sequence[Labels]]


def surface_predictions(
    dataset: Dataset, items: Iterable[Item], folds: Sequence[Parts] | None = None
) -> pl.DataFrame:
    """Predictions of every baseline on the test examples, in `SURFACE_SCHEMA`.

    Args:
        dataset: The data set.
        items: The items that it was built from; its own derived items need not be among them.
        folds: Rows of the data set that train, choose and are tested, in each fold; None takes its splits.
    """
    texts = {item.item_id: item for item in (*items, *dataset.inputs)}
    rows = dataset.examples.to_dicts()
    labels = np.array([row["label"] for row in rows], dtype=np.str_)
    if folds is None:
        split = dataset.examples["split"].to_numpy()
        train, valid, test = (np.flatnonzero(split == part) for part in ("train", "valid", "test"))
        folds = [(train, valid, test)]
    baselines = _baselines(rows, texts)
    found: list[tuple[str, str, str, bool, bool]] = []
    for train, valid, test in folds:
        both = train, valid, np.concatenate([valid, test])
        said = {name: np.asarray(baseline(labels, both)) for name, baseline in baselines.items()}
        on_valid = {name: float(np.mean(one[: len(valid)] == labels[valid])) for name, one in said.items()}
        best = max(on_valid, key=on_valid.__getitem__)
        for name, one in said.items():
            for row, prediction in zip(test.tolist(), one[len(valid) :].tolist(), strict=True):
                right = bool(prediction == labels[row])
                found.append((rows[row]["example_id"], name, str(prediction), right, name == best))
    order = {name: place for place, name in enumerate(baselines)}
    found.sort(key=lambda one: order[one[1]])
    return pl.DataFrame(found, schema=dict(SURFACE_SCHEMA), orient="row")


def by_words(bags: Sequence[Sequence[str]], labels: Labels, parts: Parts, least: int) -> Sequence[str]:
    """Test predictions by logistic regression on counts of words, its strength chosen on valid.

    Args:
        bags: The words of each example.
        labels: Their classes.
        parts: Rows that train, choose and are tested.
        least: Training examples that a word has to stand in.
    """
    return _words(bags, least)(labels, parts)


def _baselines(rows: Rows, texts: Mapping[str, Item]) -> dict[str, Baseline]:
    """The baselines of a data set; what they look at is read once for all folds."""
    found: dict[str, Baseline] = {"majority": _majority}
    found["length"] = _tree([(row["tokens"], row["characters"]) for row in rows])
    # Where only some have another end, as functions with a bug have, there is no distance to learn from.
    pairs, tokens = all(row["other_start"] is not None for row in rows), bool(rows[0]["type"])
    if pairs:
        found["distance"] = _tree([_distance(row, texts) for row in rows])
    if not tokens:
        found["artefacts"] = _tree(artefact_features(rows, texts))
    if tokens or pairs:
        found["surface"] = _words([_spelt(row, texts) for row in rows], 1)
    if tokens:
        found["type"] = _by_key([row["type"] for row in rows])
    if not tokens and not pairs:
        found["bag_of_tokens"] = _words([bag_words(texts[row["item_id"]].text) for row in rows], 2)
        found["parse_error"] = _by_key([_has_error(texts[row["item_id"]]) for row in rows])
    return found


def _commonest(labels: Iterable[str]) -> str:
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def _majority(labels: Labels, parts: Parts) -> list[str]:
    return [_commonest(labels[parts[0]].tolist())] * len(parts[2])


def _by_key(keys: Sequence[Any]) -> Baseline:
    """The commonest class in train of what has the same key; of all where none has."""

    def predict(labels: Labels, parts: Parts) -> list[str]:
        known: defaultdict[Any, list[str]] = defaultdict(list)
        for row in parts[0].tolist():
            known[keys[row]].append(str(labels[row]))
        said = {key: _commonest(held) for key, held in known.items()}
        usual = _commonest(labels[parts[0]].tolist())
        return [said.get(keys[row], usual) for row in parts[2].tolist()]

    return predict


def _chosen(labels: Labels, parts: Parts, matrix: Any, fits: Sequence[Fit]) -> Sequence[str]:
    """Test predictions of the setting that is best on valid; of equals the first."""
    train, valid, test = parts
    best: tuple[float, Labels] | None = None
    for fit in fits:
        both = fit(matrix[train], labels[train], (matrix[valid], matrix[test]))
        right = float(np.mean(np.asarray(both[0]) == labels[valid]))
        if best is None or right > best[0]:
            best = right, both[1]
    assert best is not None
    return best[1].tolist()


def _tree(features: Sequence[Sequence[float]]) -> Baseline:
    from sklearn.tree import DecisionTreeClassifier

    def fit(leaves: int, train: Any, labels: Labels, others: Any) -> Any:
        model = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=_SEED).fit(train, labels)
        return [model.predict(other) for other in others]

    matrix = np.array(features, np.float64)
    fits = [functools.partial(fit, leaves) for leaves in _LEAVES]
    return lambda labels, parts: _chosen(labels, parts, matrix, fits)


def _words(bags: Sequence[Sequence[str]], least: int) -> Baseline:
    """Logistic regression on logarithms of counts; words of fewer training examples are left out."""
    return by_counts(count_words(bags), least)


def count_words(bags: Sequence[Sequence[str]]) -> Any:
    """Return the logarithms of the counts of words, a sparse matrix with a row a bag."""
    return _vectorizer().fit_transform(bags).log1p().tocsr().astype(np.float32)


def by_counts(counts: Any, least: int) -> Baseline:
    """Build the baseline that learns from counts of words by logistic regression.

    Newton steps reach the optimum in a ninth of the time that L-BFGS needs to come near it: counts of words
    differ in scale by orders of magnitude.

    Args:
        counts: What `count_words` gives.
        least: Training examples that a word has to stand in.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    def fit(model: Any, strength: float, train: Any, labels: Labels, others: Any) -> Any:
        model.set_params(C=strength)
        with warnings.catch_warnings():
            # The weakest penalties stop early on small data sets; valid decides whether they serve.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(train, labels)
        return [model.predict(other) for other in others]

    def predict(labels: Labels, parts: Parts) -> Sequence[str]:
        # Each strength goes on where the one before it ended, which is near.
        model = LogisticRegression(max_iter=_STEPS, solver="newton-cg", tol=_TOLERANCE, warm_start=True)
        fits = [functools.partial(fit, model, strength) for strength in _STRENGTHS]
        texts = np.asarray((counts[parts[0]] > 0).sum(axis=0)).ravel()
        known = np.flatnonzero(texts >= least)
        return _chosen(labels, parts, counts[:, known], fits)

    return predict


def _spelt(row: dict[str, Any], texts: Mapping[str, Item]) -> list[str]:
    text = texts[row["item_id"]].text
    grams = spell_word("a", text[row["start"] : row["end"]])
    if row["other_start"] is not None:
        grams += spell_word("b", text[row["other_start"] : row["other_end"]])
    return grams


def _vectorizer() -> Any:
    """Counts of words that are cut already."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer: Any = CountVectorizer
    return vectorizer(analyzer=tuple)


def spell_word(side: str, word: str) -> list[str]:
    """Return a word's runs of one to three characters, its ends marked, and the word itself."""
    marked = f"\x02{word[:200]}\x03"
    runs = [marked[place : place + size] for size in (1, 2, 3) for place in range(len(marked) - size + 1)]
    return [side + run for run in (*runs, marked)]


def _distance(row: dict[str, Any], texts: Mapping[str, Item]) -> tuple[float, float]:
    """Characters and words between the two ends of a pair."""
    first, second = sorted(((row["start"], row["end"]), (row["other_start"], row["other_end"])))
    between = texts[row["item_id"]].text[first[1] : second[0]]
    return float(second[0] - first[0]), float(len(between.split()))


def _has_error(item: Item) -> bool:
    edits = edits_of(item.language)
    return (
        LANGUAGES.load(item.language).parse(item.text).has_error
        if edits is None
        else not edits.parses(item.text)
    )
