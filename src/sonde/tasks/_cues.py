"""What a token's word and its neighbours tell of it: local cues, which belong to the language.

A name before a bracket is a function in most languages: who reads one sign further knows the class, without
a model. That is no fault of a data set, so local cues stand beside a probe and are no baseline that it has to
beat (`sonde.tasks._surface`). Of whole functions ``bag_of_tokens`` tells as much, which is such a baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.corpora import Item
from sonde.tasks._examples import Dataset
from sonde.tasks._surface import Parts, by_counts, count_words, spell_word
from sonde.tasks._words import split_words

CUES_SCHEMA: Mapping[str, type[pl.DataType]] = {
    "example_id": pl.String,
    "prediction": pl.String,
    "correct": pl.Boolean,
    "number": pl.Float64,
}
"""Columns of `predict_local_cues`: one row a test example.

``number``: what ridge regression says of the number before classes; null where there is none.
"""

WINDOWS = (1, 2)
"""Words and characters on either side that are read; which serves better is chosen on validation."""

_REACH = 80
"""Characters on either side in which neighbouring words are looked for."""

_SPELT = 40
"""Characters of a marked stretch whose spelling is read: more than a word has."""

_PENALTIES = (1.0, 10.0, 100.0, 1000.0)
_NONE = "\0"
"""Stands for the neighbour of what begins or ends its text."""


def predict_local_cues(dataset: Dataset, items: Iterable[Item], folds: Sequence[Parts]) -> pl.DataFrame:
    """Predict the test examples from the marked words and their neighbours, in `CUES_SCHEMA`.

    Classes by logistic regression and numbers by ridge regression, both on counts of `read_cues`; how strong
    their penalties are and how far they read is chosen on validation, in each fold.

    Args:
        dataset: The data set.
        items: The items that it was built from; its own derived items need not be among them.
        folds: Rows of the data set that train, choose and are tested, in each fold.

    Returns:
        The predictions; no rows where examples are whole functions.
    """
    rows = dataset.examples.to_dicts()
    if not marks_places(dataset.examples):
        return pl.DataFrame(schema=dict(CUES_SCHEMA))
    texts = {item.item_id: item.text for item in (*items, *dataset.inputs)}
    features = _count_cues(rows, texts)
    labels = dataset.examples["label"].to_numpy().astype(np.str_)
    values = dataset.examples["value"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    names = dataset.examples["example_id"]
    baselines = [by_counts(counts, 1) for counts in features]
    found: list[pl.DataFrame] = []
    for train, valid, test in folds:
        both = train, valid, np.concatenate([valid, test])
        said = [np.asarray(baseline(labels, both)) for baseline in baselines]
        right = [np.mean(one[: len(valid)] == labels[valid]) for one in said]
        chosen = said[int(np.argmax(right))][len(valid) :]
        columns: dict[str, Any] = {
            "example_id": names[test],
            "prediction": chosen.tolist(),
            "correct": chosen == labels[test],
            "number": _regress(features, values, (train, valid, test)),
        }
        found.append(pl.DataFrame(columns, schema=dict(CUES_SCHEMA), nan_to_null=True))
    return pl.concat(found)


def marks_places(examples: pl.DataFrame) -> bool:
    """Return whether every example marks a token, or two places of its text."""
    # Where only some have another end, as functions with a bug have, the mark itself would tell the class.
    return bool((examples["type"] != "").any()) or not examples["other_start"].has_nulls()


def read_cues(text: str, start: int, end: int, window: int) -> list[str]:
    """Return what stands at one place of the window around a marked stretch of a text.

    Args:
        text: The text.
        start: First marked character.
        end: Their end, exclusive.
        window: Which place, from 1: its words are that many words away from the stretch, or as far inside it,
            its characters are all up to there.
    """
    words = {
        "before": split_words(text[max(0, start - _REACH) : start])[::-1],
        "after": split_words(text[end : end + _REACH]),
        "first": split_words(text[start : min(end, start + _REACH)]),
        "last": split_words(text[max(start, end - _REACH) : end])[::-1],
    }
    told = {name: word[window - 1] if len(word) >= window else _NONE for name, word in words.items()}
    told["characters before"] = text[max(0, start - window) : start]
    told["characters after"] = text[end : end + window]
    return [f"{name} {window} {what}" for name, what in told.items()]


def _count_cues(rows: Sequence[dict[str, Any]], texts: Mapping[str, str]) -> list[Any]:
    """Return the counts of the cues of all examples, a matrix a window; a wider one holds the narrower."""
    from scipy import sparse

    places = [_marked(row) for row in rows]
    marked = [(texts[row["item_id"]], of_row) for row, of_row in zip(rows, places, strict=True)]
    counted: list[Any] = []
    for window in WINDOWS:
        bags = [
            [f"{side} {cue}" for side, start, end in of_row for cue in read_cues(text, start, end, window)]
            for text, of_row in marked
        ]
        counted.append(count_words(bags))
    spelt = [
        [gram for side, start, end in of_row for gram in spell_word(side, text[start:end][:_SPELT])]
        for text, of_row in marked
    ]
    counted[0] = sparse.hstack([counted[0], count_words(spelt)], format="csr")
    return [sparse.hstack(counted[: place + 1], format="csr") for place in range(len(counted))]


def _marked(row: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return the marked places of an example, each with a name."""
    first = ("a", row["start"], row["end"])
    return [first] if row["other_start"] is None else [first, ("b", row["other_start"], row["other_end"])]


def _regress(features: Sequence[Any], values: Float[np.ndarray, " example"], parts: Parts) -> Any:
    """Predict numbers of the test part; NaN where too few examples have one."""
    from sklearn.linear_model import Ridge

    train, valid, test = parts
    known = [rows[np.isfinite(values[rows])] for rows in (train, valid)]
    nothing = np.full(len(test), np.nan)
    if min(map(len, known)) == 0 or np.ptp(values[known[0]]) == 0:
        return nothing
    best, said = np.inf, nothing
    for counts in features:
        for penalty in _PENALTIES:
            model: Any = Ridge(alpha=penalty, solver="sparse_cg", tol=1e-3)
            model.fit(counts[known[0]], values[known[0]])
            error = float(np.mean((model.predict(counts[known[1]]) - values[known[1]]) ** 2))
            if error < best:
                best, said = error, model.predict(counts[test])
    return said
