"""Statements that cloze queries are cut from, with the levels of their names and competing candidates.

A statement is an import or call, with the position of each level of the name. The templates are the
language's (``imports.toml``). A level is what stands between dots, or whatever a field gives after a colon;
words of the language, what joins levels, and an alias are never asked for. `make_statement_items` makes
statements the items of a run.

Candidates are names that compete for a level, for models that score whole statements. Which names compete is
fixed by the corpus and the seed only, so it is the same for all models and under any limit: the right one,
the most called ones of the same position in a name (first, last or in between), the nearest in spelling, and
random ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

import numpy as np
import polars as pl
from scipy import sparse

from sonde.corpora import Item

CALL, IMPORT, ALIAS, ADVERSARIAL = "call", "import", "alias", "adversarial"


TEMPLATES = (CALL, IMPORT, ALIAS, ADVERSARIAL)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, and the characters of the levels that may be asked for in it, by number in the name."""

    text: str
    levels: Mapping[int, tuple[int, int]]


def make_plain_statement(template: str, levels: Sequence[str]) -> Statement:
    """Make a call or an import of a name.

    >>> make_plain_statement("from {module} import {member}", ("a", "b", "c")).text
    'from a.b import c'
    >>> make_plain_statement("{module:/}::{member}", ("a", "b", "c")).text
    'a/b::c'
    >>> make_plain_statement("{package}.{member}(", ("a", "b", "c")).text
    'b.c('
    """
    numbered_levels = [(level, number) for number, level in enumerate(levels)]
    module = numbered_levels[:-1]
    fields = {
        "name": numbered_levels,
        "module": module,
        "package": module[-1:],
        "member": numbered_levels[-1:],
    }
    return _fill(template, fields)


def make_aliased_statement(template: str, levels: Sequence[str], alias_depth: int, alias: str) -> Statement:
    """Make an import under an alias and a call through it.

    Args:
        template: One of the alias forms.
        levels: The levels of the name.
        alias_depth: How many of them the alias replaces; at least one has to follow.
        alias: The alias.
    """
    head = [(level, None) for level in levels[:alias_depth]]
    fields: dict[str, Sequence[tuple[str, int | None]]] = {
        "imported": head,
        "imported_module": head[:-1],
        "imported_member": head[-1:],
        "alias": [(alias, None)],
        "rest": [(level, alias_depth + offset) for offset, level in enumerate(levels[alias_depth:])],
    }
    return _fill(template, fields)


def _fill(template: str, fields: Mapping[str, Sequence[tuple[str, int | None]]]) -> Statement:
    text, levels = "", dict[int, tuple[int, int]]()
    for literal, field, joint, _ in Formatter().parse(template):
        text += literal
        for index, (part, number) in enumerate(fields[field] if field else ()):
            text += (joint or ".") if index else ""
            if number is not None:
                levels[number] = (len(text), len(text) + len(part))
            text += part
    return Statement(text, levels)


_OF_RUNS = ("paths", "users", "release", "majority", "unigram", "spelling")
"""Columns that are no labels: what an answer without knowledge ranks, and where a name stands, as numbers."""


def make_statement_item(
    row: Mapping[str, Any], identifier: str, text: str, *, cuts: tuple[int, ...] = ()
) -> Item:
    """Make an item of a statement about the name of a query.

    Args:
        row: The query, in `sonde.tasks.engine.cloze_queries.QUERY_SCHEMA`.
        identifier: Id of the text.
        text: The statement.
        cuts: Characters where no piece may go on.
    """
    return Item(
        item_id=identifier,
        text=text,
        language=row["language"],
        unit="statement",
        path=row["name"],
        name=row["name"],
        offset=0,
        cluster=row["library"],
        repository=row["library"],
        identifier=identifier,
        cuts=cuts,
    )


def make_statement_items(table: pl.DataFrame) -> list[Item]:
    """Make the items of the statements that queries are cut from; no subword crosses an end of an answer.

    Of pairs of statements they are the better ones; the others are made when they are scored.

    Args:
        table: Queries in `sonde.tasks.engine.cloze_queries.QUERY_SCHEMA`.
    """
    first = table.unique("item_id", keep="first", maintain_order=True)
    items: list[Item] = []
    for row in first.iter_rows(named=True):
        text = row["prefix"] + row["answer"] + row["suffix"]
        cuts = () if text == row["answer"] else (row["start"], row["end"])
        items.append(make_statement_item(row, row["item_id"], text, cuts=cuts))
    return items


def to_label_rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return queries as ``sonde label`` writes them, without the columns that only a run reads."""
    return table.drop(_OF_RUNS).to_dicts()


MAXIMUM_CANDIDATES = 100
"""Candidates a query at most, the right one among them."""


TOP, INNER, MEMBER = "top", "inner", "member"


def level_position(level: int, levels: int) -> str:
    """Return the position of a level in a name.

    >>> [level_position(level, 3) for level in range(3)]
    ['top', 'inner', 'member']
    """
    return TOP if level == 0 else MEMBER if level == levels - 1 else INNER


class Candidates:
    """The levels of all names of a corpus in one language and at one position, ready to be chosen from.

    Args:
        counts: Calls of the names of each level.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._names = sorted(counts)
        self._frequent = sorted(counts, key=lambda name: (-counts[name], name))
        self._pairs = _letter_pairs(self._names)

    def choose(self, right: str, size: int, seed: int) -> tuple[str, ...]:
        """Choose the right name, then a third each of frequent, similar and random ones."""
        share = (size - 1) // 3
        order = np.random.default_rng(seed).permutation(len(self._names)).tolist()
        random_names = (self._names[number] for number in order)
        selected_names = dict.fromkeys([right])
        for names, total in (
            (self._frequent, 1 + share),
            (self._select_similar(right, size), 1 + 2 * share),
            (random_names, size),
        ):
            for name in names:
                if len(selected_names) >= total:
                    break
                selected_names.setdefault(name)
        return tuple(selected_names)

    def _select_similar(self, right: str, count: int) -> list[str]:
        """Return the names sorted by the cosine of their letter pairs, ties by name."""
        row = self._pairs[[bisect_left(self._names, right)]]
        scores = (self._pairs @ row.T).toarray().ravel()
        order = np.argsort(-scores, kind="stable")
        return [self._names[number] for number in order[:count].tolist()]


def _letter_pairs(names: Sequence[str]) -> sparse.csr_array:
    """Count the pairs of neighbouring letters in each name, as rows of unit length."""
    columns: dict[str, int] = {}
    rows: list[int] = []
    column_indices: list[int] = []
    for row, name in enumerate(names):
        padded_name = f"^{name.lower()}$"
        for pair in (padded_name[position : position + 2] for position in range(len(padded_name) - 1)):
            rows.append(row)
            column_indices.append(columns.setdefault(pair, len(columns)))
    shape = (len(names), max(len(columns), 1))
    table = sparse.coo_array((np.ones(len(rows)), (rows, column_indices)), shape=shape).tocsr()
    length = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    return sparse.csr_array(sparse.diags_array(1.0 / np.maximum(length, 1.0)) @ table)
