"""Which training files hold rewritten code of a held-out corpus, below the rule that keeps near-copies out.

Held-out files and files with a function that nearly is a held-out one are not trained on
(`sonde.training.documents`). What has been rewritten further, as a vendored module of the standard library,
stays; it is looked for here with a lower threshold, so that a card can name it. So are whole files: a model
may have been trained before they were left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int
from scipy.sparse import csr_matrix

from sonde.base.fingerprint import hash_text
from sonde.corpora import Intake, SourceFile, duplicate_tokens, read_files
from sonde.corpora._items import items_of
from sonde.training.documents import MIN_TOKENS

THRESHOLD = 0.5
"""Jaccard similarity of two functions' identifiers and literals, as sets, above which one is named."""

_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """A training file with functions that are near a held-out one.

    Attributes:
        path: The training file.
        distribution: Where it is from.
        version: Of the distribution.
        source: The held-out file with the nearest function.
        functions: How many of its functions are near one; a file that is a held-out one as a whole may have
            none that are long enough.
        similarity: The highest Jaccard similarity.
    """

    path: str
    distribution: str
    version: str
    source: str
    functions: int
    similarity: float


def near_copies(files: pl.DataFrame, held_out: Sequence[str]) -> tuple[Copies, ...]:
    """The training files that hold functions near one of the held-out corpora, most functions first.

    Args:
        files: The training files, from `sonde.training.export.manifest`; those that the corpora no longer
            have as they were are passed over.
        held_out: Names of the held-out corpora.
    """
    read = files.filter("seen_in_training")
    languages = tuple(sorted(read["language"].unique()))
    texts = [file for name in held_out for file in read_files(name, languages, Intake(keep_all=True))]
    known = _functions(iter(texts))
    if not known:
        return ()
    languages = tuple(sorted({one.language for one in known}))
    rows = {(row["corpus"], row["path"]): row for row in read.iter_rows(named=True)}
    held_by_hash = {hash_text(file.text): file.path for file in texts if file.text.strip()}
    found: dict[str, list[tuple[float, str]]] = {}
    whole = {row["path"]: held_by_hash[row["hash"]] for row in rows.values() if row["hash"] in held_by_hash}
    trained = _functions(
        file
        for name in sorted(read["corpus"].unique())
        for file in read_files(name, languages, Intake(keep_all=True))
        if (row := rows.get((name, file.path))) is not None and row["hash"] == hash_text(file.text)
    )
    if trained:
        similarity, nearest = _closest([one.tokens for one in trained], [one.tokens for one in known])
        for one, value, place in zip(trained, similarity.tolist(), nearest.tolist(), strict=True):
            if value > THRESHOLD:
                found.setdefault(one.path, []).append((value, known[place].path))
    by_path = {row["path"]: row for row in rows.values()}
    paths = [*found, *(path for path in whole if path not in found)]
    copies = [_copies(by_path[path], found.get(path, []), whole.get(path)) for path in paths]
    return tuple(sorted(copies, key=lambda one: (-one.functions, -one.similarity, one.path)))


def _copies(row: dict[str, Any], pairs: list[tuple[float, str]], whole: str | None) -> Copies:
    similarity, source = max(pairs) if whole is None else (1.0, whole)
    return Copies(
        path=row["path"],
        distribution=row["distribution"],
        version=row["version"],
        source=source,
        functions=len(pairs),
        similarity=similarity,
    )


@dataclass(frozen=True, slots=True)
class _Function:
    path: str
    language: str
    tokens: frozenset[str]


def _functions(files: Iterator[SourceFile]) -> list[_Function]:
    found: list[_Function] = []
    for file in files:
        for item in items_of(file, "function", Intake()):
            tokens = frozenset(duplicate_tokens(item.text))
            if len(tokens) >= MIN_TOKENS:
                found.append(_Function(file.path, file.language, tokens))
    return found


def _closest(
    ours: list[frozenset[str]], theirs: list[frozenset[str]]
) -> tuple[Float[np.ndarray, " function"], Int[np.ndarray, " function"]]:
    """The highest Jaccard similarity of each of our sets to one of theirs, and to which."""
    numbers: dict[str, int] = {}
    one, other = _indicator(ours, numbers), _indicator(theirs, numbers)
    width = len(numbers)
    one.resize((len(ours), width))
    other.resize((len(theirs), width))
    sizes, other_sizes = (np.array([len(part) for part in parts]) for parts in (ours, theirs))
    best: list[Float[np.ndarray, " function"]] = []
    where: list[Int[np.ndarray, " function"]] = []
    for start in range(0, len(ours), _AT_ONCE):
        shared = (one[start : start + _AT_ONCE] @ other.T).toarray()
        jaccard = shared / (sizes[start : start + _AT_ONCE, None] + other_sizes[None] - shared)
        best.append(jaccard.max(axis=1))
        where.append(jaccard.argmax(axis=1))
    return np.concatenate(best), np.concatenate(where)


def _indicator(sets: list[frozenset[str]], numbers: dict[str, int]) -> Any:
    rows = np.repeat(np.arange(len(sets)), [len(part) for part in sets])
    columns = np.array([numbers.setdefault(token, len(numbers)) for part in sets for token in sorted(part)])
    values = np.ones(len(rows), np.float32)
    return csr_matrix((values, (rows, columns)), shape=(len(sets), len(numbers)))
