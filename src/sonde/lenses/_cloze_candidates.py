"""Candidate statements: the whole statement with one level replaced, for models that score texts.

Which names compete is fixed by the quizzes and the seed alone, so it is the same for all models: the right
one, the most frequent ones of the same place in a name (first, last or in between), the nearest in spelling,
and random ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

from sonde.base.fingerprint import derive_seed
from sonde.corpora import Item
from sonde.tasks._cloze_quizzes import prompt_id

CANDIDATES = 100
"""Statements a quiz at most, the right one among them."""

TOP, INNER, MEMBER = "top", "inner", "member"

_LEVEL_MODES = ("full", "whole")


@dataclass(frozen=True, slots=True)
class Contest:
    """One quiz as candidate statements.

    Attributes:
        quiz_id: The quiz.
        item_ids: Ids of the statements, the right one first.
        levels: What stands in the level in each.
        texts: The statements.
    """

    quiz_id: str
    item_ids: tuple[str, ...]
    levels: tuple[str, ...]
    texts: tuple[str, ...]


def place(level: int, levels: int) -> str:
    """Where in a name a level stands.

    >>> [place(level, 3) for level in range(3)]
    ['top', 'inner', 'member']
    """
    return TOP if level == 0 else MEMBER if level == levels - 1 else INNER


def level_quizzes(labels: pl.DataFrame) -> pl.DataFrame:
    """The quizzes that ask for a level as a whole, one a statement and level."""
    return labels.filter(pl.col("mode").is_in(_LEVEL_MODES))


def contests(labels: pl.DataFrame, seed: int, size: int = CANDIDATES) -> Iterator[Contest]:
    """The candidate statements of every quiz that asks for a whole level, in the order of the quizzes.

    Args:
        labels: Quizzes in `sonde.tasks._cloze_quizzes.QUIZ_SCHEMA`.
        seed: Draws other random candidates.
        size: Statements a quiz at most.
    """
    asked = level_quizzes(labels)
    pools = {name: _Pool(counts) for name, counts in _counts(asked).items()}
    for row in asked.iter_rows(named=True):
        levels = pools[place(row["level"], row["levels"])].choose(row["answer"], size, (seed, row["quiz_id"]))
        texts = tuple(row["prefix"] + level + row["suffix"] for level in levels)
        ids = tuple(prompt_id(text, row["language"]) for text in texts)
        yield Contest(row["quiz_id"], ids, levels, texts)


def statements(labels: pl.DataFrame, seed: int, size: int = CANDIDATES) -> list[Item]:
    """The distinct statements of all contests, as items."""
    rows: dict[str, Mapping[str, Any]] = {
        row["quiz_id"]: row for row in level_quizzes(labels).iter_rows(named=True)
    }
    found: dict[str, Item] = {}
    for contest in contests(labels, seed, size):
        row = rows[contest.quiz_id]
        for number, text in zip(contest.item_ids, contest.texts, strict=True):
            if number not in found:
                found[number] = _item(number, text, row)
    return list(found.values())


def _item(number: str, text: str, row: Mapping[str, Any]) -> Item:
    return Item(
        item_id=number,
        text=text,
        language=row["language"],
        unit="statement",
        path=row["name"],
        name=row["name"],
        offset=0,
        cluster=row["library"],
        repository=row["library"],
        identifier=number,
    )


def _counts(asked: pl.DataFrame) -> dict[str, Counter[str]]:
    """How often each level is called at each place, over distinct names."""
    found: dict[str, Counter[str]] = {TOP: Counter(), INNER: Counter(), MEMBER: Counter()}
    columns = asked.select("name", "level", "levels", "answer", "calls").unique(maintain_order=True)
    for _, level, levels, answer, calls in columns.iter_rows():
        found[place(level, levels)][answer] += calls
    return found


class _Pool:
    """The names of one place, ready to be chosen from."""

    def __init__(self, counts: Counter[str]) -> None:
        self._names = sorted(counts)
        self._at = {name: number for number, name in enumerate(self._names)}
        self._frequent: Sequence[str] = [
            name for name, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        ]
        self._pairs = _letter_pairs(self._names)

    def choose(self, right: str, size: int, seed: tuple[int, str]) -> tuple[str, ...]:
        """The right name, then a third each of frequent, near and random ones."""
        share = (size - 1) // 3
        chosen = dict.fromkeys([right])
        _add(chosen, self._frequent, 1 + share)
        _add(chosen, self._nearest(right, 2 * share + 1), 1 + 2 * share)
        _add(chosen, self._random(seed), size)
        return tuple(chosen)

    def _nearest(self, right: str, count: int) -> Iterator[str]:
        """Names by the cosine of their letter pairs, ties by name."""
        scores = (self._pairs @ self._pairs[self._at[right]].T).toarray()[:, 0]
        order = np.lexsort((np.arange(len(scores)), -scores))
        return (self._names[number] for number in order[: count + 1 + len(self._names) // 2].tolist())

    def _random(self, seed: tuple[int, str]) -> Iterator[str]:
        rng = np.random.default_rng(derive_seed("candidates", *seed))
        return (self._names[number] for number in rng.permutation(len(self._names)).tolist())


def _add(chosen: dict[str, None], names: Sequence[str] | Iterator[str], size: int) -> None:
    for name in names:
        if len(chosen) >= size:
            return
        chosen.setdefault(name)


def _letter_pairs(names: Sequence[str]) -> sparse.csr_array:
    """Rows of unit length: how often each pair of neighbouring letters stands in each name."""
    columns: dict[str, int] = {}
    rows: list[int] = []
    places: list[int] = []
    for row, name in enumerate(names):
        padded = f"^{name.lower()}$"
        for pair in (padded[at : at + 2] for at in range(len(padded) - 1)):
            rows.append(row)
            places.append(columns.setdefault(pair, len(columns)))
    ones = np.ones(len(rows))
    table = sparse.coo_array((ones, (rows, places)), shape=(len(names), max(len(columns), 1))).tocsr()
    length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    scale = sparse.diags_array(1.0 / np.maximum(length, 1.0))
    return sparse.csr_array(scale @ table)
