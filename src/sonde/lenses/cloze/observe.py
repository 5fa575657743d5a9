"""The item table of the cloze lens: a row a quiz for masked models, a row a text for scored statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.base.errors import CaptureError
from sonde.capture.requests import ItemCapture, ScoredSubwords
from sonde.lenses._lens import Captured
from sonde.lenses.cloze.plan import (
    CUT,
    ONE,
    SEVERAL,
    Ask,
    asks_of,
    distinct_variants,
    quizzes_by_item,
    total,
)
from sonde.lenses.cloze.vocabulary import Vocabulary, vocabulary_of

TOP_K = 128
"""Alternatives kept a mask: P@50 stays exact though surfaces that differ in a blank alone are one answer."""

SHOWN = 10
"""Of these so many are written out."""

NEAR_TIE = 1e-4
"""Nats within which an alternative counts as tied, as capture counts them."""

TEXT = "text"
"""Status of the row of a whole statement."""

ANSWERS_SCHEMA: Mapping[str, pl.DataType | type[pl.DataType]] = {
    "item_id": pl.String,
    "quiz_id": pl.String,
    "status": pl.String,
    "pieces": pl.Int32,
    "nats": pl.Float64,
    "rank_id": pl.Int32,
    "rank": pl.Int32,
    "greedy": pl.Boolean,
    "gold_id": pl.Int32,
    "gold_rank_known": pl.Boolean,
    "characters": pl.Int32,
    "top": pl.List(pl.String),
    "top_nats": pl.List(pl.Float32),
    "top_ids": pl.List(pl.Int32),
}


def observe_quizzes(
    observed: Sequence[Captured], labels: pl.DataFrame, surfaces: Sequence[str]
) -> pl.DataFrame:
    """Rows of the quizzes of a few items, in `ANSWERS_SCHEMA`.

    - ``status``: `ONE`, `SEVERAL` or `CUT`, how many pieces of this tokenizer the answer has; cut answers
      were not asked for.
    - ``nats``: negative log-probability of the answer; for several pieces the sum over them.
    - ``rank_id``: rank of the very id that the tokenizer writes there, among all ids.
    - ``rank``: rank of the answer when ids of one surface are one answer; where it is not among the best
      `TOP_K` this is ``rank_id``, an upper bound.
    - ``greedy``: whether each piece ranks first.

    Raises:
        CaptureError: A quiz has no score.
    """
    vocabulary = vocabulary_of(surfaces)
    quizzes = quizzes_by_item(labels)
    rows: list[dict[str, Any]] = []
    for one in observed:
        item = one.prepared.item.item_id
        asks = asks_of(one.prepared, quizzes.get(item, []))
        captured = dict(zip(distinct_variants(asks), one.captures, strict=True))
        ids = one.prepared.alignment.subwords.ids
        rows += [_row(item, ask, captured, vocabulary, surfaces, ids) for ask in asks]
    return pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row")


def observe_texts(observed: Sequence[Captured]) -> pl.DataFrame:
    """One row a statement: the summed score of all its subwords, in `ANSWERS_SCHEMA`.

    For a decoder that is the log-probability of the text, for a masked model its pseudo-log-likelihood.
    """
    rows: list[dict[str, Any]] = []
    for one in observed:
        scores = [capture.scores for capture in one.captures if capture.scores is not None]
        if len(scores) == 1:
            nats = scores[0].nats[scores[0].scored]
        else:
            nats = np.array([each.nats[np.flatnonzero(each.scored)[0]] for each in scores])
        rows.append(
            {
                "item_id": one.prepared.item.item_id,
                "status": TEXT,
                "pieces": len(nats),
                "nats": total(nats.tolist()),
                "characters": len(one.prepared.item.text),
            }
        )
    return pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row")


def _row(
    item: str,
    ask: Ask,
    captured: Mapping[tuple[int, ...], ItemCapture],
    vocabulary: Vocabulary,
    surfaces: Sequence[str],
    own_ids: Int[np.ndarray, " subword"],
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "item_id": item,
        "quiz_id": ask.quiz.quiz_id,
        "status": ask.status,
        "pieces": len(ask.variants),
        "characters": len(ask.quiz.answer),
    }
    if ask.status == CUT:
        return row
    scored = [(_scores(captured[variant], item), variant[0]) for variant in ask.variants]
    row["nats"] = total(float(scores.nats[at]) for scores, at in scored)
    row["greedy"] = all(scores.rank[at] == 1 for scores, at in scored)
    if ask.status == SEVERAL:
        return row
    assert ask.status == ONE
    ((scores, at),) = scored
    ids, nats = scores.top_ids[at], scores.top_nats[at]
    row["rank_id"] = int(scores.rank[at])
    found = _surface_rank(ids.tolist(), nats.tolist(), ask, vocabulary)
    row["rank"] = row["rank_id"] if found is None else found
    row["gold_rank_known"] = found is not None
    row["gold_id"] = int(own_ids[at])
    row["top_ids"] = ids.tolist()
    row["top"] = [surfaces[number] for number in ids[:SHOWN].tolist()]
    row["top_nats"] = nats[:SHOWN].tolist()
    return row


def _surface_rank(ids: Sequence[int], nats: Sequence[float], ask: Ask, vocabulary: Vocabulary) -> int | None:
    """Rank of the answer among distinct surfaces; None where it is not among the alternatives."""
    quiz = ask.quiz
    right = set(vocabulary.right(quiz.answer, word_start=quiz.word_start, initial=quiz.initial))
    own = next((value for number, value in zip(ids, nats, strict=True) if number in right), None)
    if own is None:
        return None
    before = _texts_within(ids, nats, own + NEAR_TIE, vocabulary)
    return 1 + len(before - {quiz.answer})


def _texts_within(
    ids: Iterable[int], nats: Iterable[float], limit: float, vocabulary: Vocabulary
) -> set[str]:
    """Distinct surfaces at least as likely as a limit; ids without a surface stand for themselves."""
    return {
        vocabulary.texts[number] or f"<{number}>"
        for number, value in zip(ids, nats, strict=True)
        if value <= limit
    }


def _scores(capture: ItemCapture, item: str) -> ScoredSubwords:
    if capture.scores is None:
        raise CaptureError(f"item {item}: the capture holds no scores; the cloze lens asks for them")
    return capture.scores
