"""From queries to what is asked: masked subwords of one model, or the statement with each candidate in it.

Both are the same when asking and when reading answers.

A query is asked with one mask where one piece of the model's tokenizer stands for exactly its answer. An
answer of several pieces is asked for piece by piece: the piece and all later pieces of the answer are masked,
so that what is left of a word never gives its beginning away (PLL-word-l2r, Kauf and Ivanova 2023). Models
that write into a gap are asked once, for all pieces. A query whose answer the vocabulary cannot spell (a sign
that it lacks, capital letters that it does not tell apart), or whose end no piece can have, is not asked; it
is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sonde.alignment.spans import Subwords
from sonde.capture.requests import Prepared
from sonde.corpora import Item
from sonde.tasks._cloze_items import statement_item
from sonde.tasks._cloze_queries import prompt_id

ONE, SEVERAL, CUT, RESPELLED = "one piece", "several pieces", "cut", "spelled otherwise"
NOT_ASKED = (CUT, RESPELLED)
"""Answers that the vocabulary cannot spell, and those whose letters the tokenizer changes (uncased)."""

QUERY_COLUMNS = ("item_id", "query_id", "answer", "start", "end", "prefix")

_GOES_ON = "##"
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")


@dataclass(frozen=True, slots=True)
class ClozeQuery:
    """What has to be known of a query to ask it.

    Attributes:
        query_id: Its identity.
        answer: The characters asked for.
        start: Where they begin in the text.
        end: Where they end.
        word_start: Whether a blank, or nothing, stands before them.
    """

    query_id: str
    answer: str
    start: int
    end: int
    word_start: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """A query in the subwords of a model.

    Attributes:
        query: The query.
        status: `ONE`, `SEVERAL`, `CUT` or `RESPELLED`.
        variants: Masked positions of each input that it needs; the first of them is what is scored. The
            first variant masks the whole answer.
        initial: Whether the first of its pieces begins a word for the tokenizer (is not marked ``##``).
    """

    query: ClozeQuery
    status: str
    variants: tuple[tuple[int, ...], ...]
    initial: bool = True

    @property
    def whole(self) -> tuple[tuple[int, ...], ...]:
        """The one input that it needs where the whole answer is written; none where it is not asked."""
        return self.variants[:1]


def queries_by_item(labels: pl.DataFrame) -> dict[str, list[ClozeQuery]]:
    """The queries of a job's items, by item, in the order of the table."""
    found: dict[str, list[ClozeQuery]] = {}
    for item, query_id, answer, start, end, prefix in labels.select(QUERY_COLUMNS).iter_rows():
        word_start = not prefix or prefix[-1].isspace()
        found.setdefault(item, []).append(ClozeQuery(query_id, answer, start, end, word_start))
    return found


def asks_of(prepared: Prepared, queries: Sequence[ClozeQuery]) -> list[Ask]:
    """How each query of an item is asked."""
    subwords = prepared.alignment.subwords
    begins, ends = _inked_starts(subwords), subwords.end.tolist()
    by_start: dict[int, int] = {}
    by_end: dict[int, int] = {}
    for position, surface in enumerate(subwords.surface):
        # A blank that the tokenizer put before the text, a piece of its own, begins and ends no answer.
        if surface.strip():
            by_start.setdefault(begins[position], position)
            by_end[ends[position]] = position
    return [_ask(query, by_start.get(query.start), by_end.get(query.end), subwords) for query in queries]


def distinct_variants(asks: Iterable[Ask]) -> tuple[tuple[int, ...], ...]:
    """The inputs that an item's queries need, each once, in order."""
    return tuple(dict.fromkeys(variant for ask in asks for variant in ask.variants))


def distinct_gaps(asks: Iterable[Ask]) -> tuple[tuple[int, ...], ...]:
    """The inputs that an item's queries need where whole answers are written, each once, in order."""
    return tuple(dict.fromkeys(variant for ask in asks for variant in ask.whole))


def _ask(query: ClozeQuery, first: int | None, last: int | None, subwords: Subwords) -> Ask:
    if first is None or last is None or last < first:
        return Ask(query, CUT, ())
    if not _spells(subwords, first, last, query.answer):
        unknown = subwords.unknown_id in subwords.ids[first : last + 1].tolist()
        return Ask(query, CUT if unknown else RESPELLED, ())
    initial = not subwords.surface[first].startswith(_GOES_ON)
    if first == last:
        return Ask(query, ONE, ((first,),), initial)
    positions = tuple(range(first, last + 1))
    return Ask(query, SEVERAL, tuple(positions[at:] for at in range(len(positions))), initial)


def _spells(subwords: Subwords, first: int, last: int, answer: str) -> bool:
    """Whether pieces say the characters of an answer: neither unknown nor changed by the tokenizer."""
    surfaces = subwords.surface[first : last + 1]
    if subwords.lossless or any(map(_BYTE.fullmatch, surfaces)):
        return True
    return "".join(surface.removeprefix(_GOES_ON) for surface in surfaces).strip() == answer


def _inked_starts(subwords: Subwords) -> list[int]:
    """First character of each piece that is not blank; of blank pieces the first character."""
    text = subwords.text
    starts: list[int] = []
    for start, end in zip(subwords.start.tolist(), subwords.end.tolist(), strict=True):
        at = start
        while at < end and text[at].isspace():
            at += 1
        starts.append(start if at == end else at)
    return starts


def total(values: Iterable[float]) -> float:
    """Sum in double precision."""
    return float(np.sum(np.fromiter(values, np.float64)))


def candidate_ids(row: Mapping[str, Any], *, answers: bool = False) -> list[str]:
    """Ids of the statements of a query, the right one first.

    Args:
        row: The query.
        answers: Whether the name alone is scored in them, so that no subword crosses its ends.
    """
    cuts = _ends(row) if answers else [()] * len(row["candidates"])
    return [
        prompt_id(text, row["language"], cut) for text, cut in zip(candidate_texts(row), cuts, strict=True)
    ]


def _ends(row: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """First and last character, exclusive, of each name in its statement."""
    return [(row["start"], row["start"] + len(name)) for name in row["candidates"]]


def candidate_texts(row: Mapping[str, Any]) -> list[str]:
    """The statements of a query, the right one first."""
    return [row["prefix"] + name + row["suffix"] for name in row["candidates"]]


def statements(labels: pl.DataFrame, *, answers: bool = False) -> list[Item]:
    """The distinct statements of all queries, as items; each is scored once.

    Args:
        labels: The queries.
        answers: Whether the name alone is scored in each: the item is cut at its ends.
    """
    found: dict[str, Item] = {}
    for row in labels.iter_rows(named=True):
        cuts = _ends(row) if answers else [()] * len(row["candidates"])
        ids = candidate_ids(row, answers=answers)
        for number, text, cut in zip(ids, candidate_texts(row), cuts, strict=True):
            if number not in found:
                found[number] = statement_item(row, number, text, cuts=cut)
    return list(found.values())


def name_of(prepared: Prepared) -> Ask:
    """The name between the cuts of a statement, in the subwords of a model."""
    (start, end), text = prepared.item.cuts, prepared.item.text
    word_start = not start or text[start - 1].isspace()
    (ask,) = asks_of(prepared, [ClozeQuery("", text[start:end], start, end, word_start)])
    return ask
