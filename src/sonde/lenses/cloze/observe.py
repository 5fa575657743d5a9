"""The item table of the cloze lens: a row a query for masked models, a row a text for scored statements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.base.errors import CaptureError
from sonde.capture.requests import ItemCapture, ScoredSubwords
from sonde.lenses._lens import Captured
from sonde.lenses.cloze.plan import (
    NOT_ASKED,
    ONE,
    SEVERAL,
    Ask,
    asks_of,
    distinct_gaps,
    distinct_variants,
    name_of,
    queries_by_item,
    total,
)
from sonde.results.columns import Columns, schema_of

TOP_K = 10
"""Alternatives kept a mask."""

TEXT = "text"
"""Status of the row of a whole statement."""

ANSWER = "answer"
"""Status of the row of a name scored alone in its statement."""

MASK, GAP, CAUSAL, PLL = "mask", "gap", "causal", "pll"
"""How an answer or a statement was scored: under a mask, in a gap that a decoder fills (a denoiser's
objective), from left to right, or as the pseudo-log-likelihood of a model that fills in."""

ANSWERS_COLUMNS: Columns = {
    "item_id": (pl.String, "the text"),
    "query_id": (pl.String, "the query; null where a whole statement is scored"),
    "status": (
        pl.String,
        "`one piece`, `several pieces`, `cut` (the vocabulary cannot spell the answer), `spelled otherwise` "
        "(the tokenizer changes its letters, as uncased ones do; neither is asked for), `text`, `answer` (a "
        "name scored alone in its statement)",
    ),
    "measure": (
        pl.String,
        "what `nats` is: `mask`, `gap` (a denoiser's), `causal`, `pll`; figures of two measures share no "
        "table",
    ),
    "pieces": (pl.Int32, "subwords that were summed"),
    "nats": (
        pl.Float64,
        "negative log-probability of the answer (sum over its subwords, later ones hidden) or of the text; "
        "of `answer` endless where the vocabulary cannot spell it",
    ),
    "rank_id": (pl.Int32, "rank of the very id that the tokenizer writes; ties count against it"),
    "rank": (pl.Int32, "rank of the answer when ids of one text are one answer"),
    "rank_unified": (
        pl.Int32,
        "the same among the texts that all compared models have; null where the answer is none of them",
    ),
    "nats_unified": (pl.Float64, "`nats` among these texts; null as well"),
    "greedy": (pl.Boolean, "each subword ranks first"),
    "gold_id": (pl.Int32, "the id that the tokenizer writes for the answer"),
    "characters": (pl.Int32, "characters of the answer or text"),
    "top": (pl.List(pl.String), "best alternatives, best first"),
    "top_nats": (pl.List(pl.Float32), "their negative log-probabilities"),
}
"""Columns of the cloze lens's item table, one row a query or a whole statement."""

ANSWERS_SCHEMA = schema_of(ANSWERS_COLUMNS)


def observe_queries(
    observed: Sequence[Captured], labels: pl.DataFrame, surfaces: Sequence[str]
) -> pl.DataFrame:
    """Rows of the queries of a few items, in `ANSWERS_COLUMNS`.

    Of one piece ``nats`` is that of the very id that the tokenizer writes there, over the whole vocabulary;
    ``nats_unified`` is that of the answer's likeliest id given that an id of a shared text is written, of
    another distribution. Where only the shared vocabulary was projected on, answers of one piece have
    ``rank_unified`` and ``nats_unified`` alone.

    Raises:
        CaptureError: A query has no score.
    """
    queries = queries_by_item(labels)
    rows: list[dict[str, Any]] = []
    for one in observed:
        item = one.prepared.item.item_id
        asks = asks_of(one.prepared, queries.get(item, []))
        writes = any(capture.written for capture in one.captures)
        wanted = distinct_gaps(asks) if writes else distinct_variants(asks)
        captured = dict(zip(wanted, one.captures, strict=False))
        if len(captured) < len(wanted):
            raise CaptureError(
                f"item {item}: {len(captured)} captures for {len(wanted)} masked inputs; ask models that "
                "fill in what is left out"
            )
        ids = one.prepared.alignment.subwords.ids
        rows += [_row(item, ask, captured, surfaces, ids, writes=writes) for ask in asks]
    return pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row")


def observe_texts(observed: Sequence[Captured]) -> pl.DataFrame:
    """One row a statement: the summed score of all its subwords, in `ANSWERS_SCHEMA`.

    For a decoder that is the log-probability of the text, for a masked model its pseudo-log-likelihood; for
    one that writes, the same with each word left out and written whole.
    """
    rows: list[dict[str, Any]] = []
    for one in observed:
        if one.prepared.item.cuts:
            rows.append(_name_row(one))
            continue
        captures = [capture for capture in one.captures if capture.scores is not None]
        scored = [nats for capture in captures for nats in _counted(capture)]
        rows.append(
            {
                "item_id": one.prepared.item.item_id,
                "status": TEXT,
                "measure": CAUSAL if all(capture.variant == 0 for capture in captures) else PLL,
                "pieces": len(scored),
                "nats": total(scored),
                "characters": len(one.prepared.item.text),
            }
        )
    return pl.DataFrame(rows, schema=dict(ANSWERS_SCHEMA), orient="row")


def _name_row(one: Captured) -> dict[str, Any]:
    """The summed score of the subwords of one name in its statement; endless where they cannot spell it."""
    item, ask = one.prepared.item.item_id, name_of(one.prepared)
    row: dict[str, Any] = {
        "item_id": item,
        "status": ANSWER,
        "pieces": len(ask.variants),
        "nats": math.inf,
        "characters": len(ask.query.answer),
    }
    if ask.status in NOT_ASKED:
        return row
    positions = ask.variants[0]
    captures = one.captures
    if len(captures) == 1 and captures[0].variant == 0:
        scores = _scores(captures[0], item)
        row["measure"] = CAUSAL
        row["nats"] = total(float(scores.nats[at]) for at in positions if scores.scored[at])
    elif any(capture.written for capture in captures):
        row["measure"] = GAP
        row["nats"] = total(float(_scores(captures[0], item).nats[at]) for at in positions)
    else:
        row["measure"] = PLL
        pairs = zip(captures, positions, strict=True)
        row["nats"] = total(float(_scores(capture, item).nats[at]) for capture, at in pairs)
    return row


def _counted(capture: ItemCapture) -> list[float]:
    """The scores that count of one input: all, or of a masked input the first."""
    assert capture.scores is not None
    nats = capture.scores.nats[capture.scores.scored].tolist()
    return nats if capture.written or capture.variant == 0 else nats[:1]


def _row(
    item: str,
    ask: Ask,
    captured: Mapping[tuple[int, ...], ItemCapture],
    surfaces: Sequence[str],
    own_ids: Int[np.ndarray, " subword"],
    *,
    writes: bool,
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "item_id": item,
        "query_id": ask.query.query_id,
        "status": ask.status,
        "pieces": len(ask.variants),
        "characters": len(ask.query.answer),
    }
    if ask.status in NOT_ASKED:
        return row
    row["measure"] = GAP if writes else MASK
    positions = ask.variants[0]
    if ask.status == SEVERAL:
        inputs = ask.whole * len(positions) if writes else ask.variants
        scored = [
            (_scores(captured[variant], item), at) for variant, at in zip(inputs, positions, strict=True)
        ]
        row["nats"] = total(float(scores.nats[at]) for scores, at in scored)
        row["greedy"] = all(scores.rank[at] == 1 for scores, at in scored)
        return row
    assert ask.status == ONE
    capture, at = captured[positions], positions[0]
    row["gold_id"] = int(own_ids[at])
    row |= _ranks(capture, at, item)
    if capture.scores is not None:
        row["nats"] = float(capture.scores.nats[at])
        row["rank_id"] = int(capture.scores.rank[at])
        row["greedy"] = row["rank_id"] == 1
        row["top"] = [surfaces[number] for number in capture.scores.top_ids[at].tolist()]
        row["top_nats"] = capture.scores.top_nats[at].tolist()
    return row


def _ranks(capture: ItemCapture, at: int, item: str) -> dict[str, Any]:
    """The ranks of an answer as a text; what is not known is left out."""
    answers = capture.answers
    if answers is None:
        raise CaptureError(f"item {item}: the capture ranks no answers; the cloze lens asks for that")
    found: dict[str, Any] = {}
    if answers.rank[at]:
        found["rank"] = int(answers.rank[at])
    if answers.shared_rank[at]:
        found["rank_unified"] = int(answers.shared_rank[at])
        found["nats_unified"] = float(answers.shared_nats[at])
    return found


def _scores(capture: ItemCapture, item: str) -> ScoredSubwords:
    if capture.scores is None:
        raise CaptureError(f"item {item}: the capture holds no scores; the cloze lens asks for them")
    return capture.scores
