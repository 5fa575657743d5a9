"""What each model answers to the queries that are shown, from masks and from whole statements alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.report._shared.at_k import TEMPLATES
from sonde.report._shared.run import ModelInfo, RunData
from sonde.report.cloze._scores import LENS
from sonde.results.columns import scan_files
from sonde.tasks._cloze_candidates import place
from sonde.tasks._cloze_queries import prompt_id

ANSWERS = 5
"""Answers shown a query."""

_WRONG, _RIGHT = 90, 30
"""Queries shown of each model and kind of statement."""

_COLUMNS = [
    "query_id", "template", "mode", "prefix", "answer", "suffix", "calls", "level", "levels", "language",
    "candidates", "paths",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownQuery:
    """A query with what one model answers.

    Attributes:
        model: The model as shown.
        template: Of `sonde.report.cloze._scores.TEMPLATES`.
        mode: What is masked.
        place: Where in the name the level stands.
        before: The statement up to the gap.
        answer: What was asked for.
        behind: The statement behind it.
        rank: Rank of the right answer.
        calls: Calls of the name in the corpus.
        competing: Candidates that it is ranked among; 0 for all pieces of a vocabulary.
        top: Best answers with their probability and whether each is the right one.
    """

    model: str
    template: str
    mode: str
    place: str
    before: str
    answer: str
    behind: str
    rank: int
    calls: int
    competing: int
    top: tuple[tuple[str, float, bool], ...]


def answered(run: RunData, model: ModelInfo) -> Iterator[ShownQuery]:
    """The queries shown of a model, wrong ones first, of each kind of statement alike."""
    held = AnsweredQueries.of(run, model)
    if held is not None:
        yield from (held.shown(row) for row in _chosen(held.ranked).iter_rows(named=True))


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredQueries:
    """What a model answers to the queries that stand alone.

    Attributes:
        model: The model.
        ranked: A row a query that it was asked, with the ``rank`` of the right answer.
        nats: Of each whole statement that was scored in place of a mask; empty where masks were asked.
    """

    model: ModelInfo
    ranked: pl.DataFrame
    nats: Mapping[str, float]

    @classmethod
    def of(cls, run: RunData, model: ModelInfo) -> AnsweredQueries | None:
        """The answers of a model; None where it was asked nothing."""
        answers, queries = run.table(LENS, model), _queries(run)
        if answers is None or queries is None:
            return None
        pieces = answers.filter(pl.col("rank").is_not_null()).select("query_id", "rank", "top", "top_nats")
        masked = pieces.collect().join(queries, on="query_id", maintain_order="left")
        listed = queries.filter(pl.col("candidates").list.len() > 1)
        if masked.height or listed.is_empty():
            return cls(model, masked, {})
        texts = answers.filter(pl.col("query_id").is_null()).select("item_id", "nats").collect()
        nats = dict(texts.iter_rows())
        ranks: list[int | None] = []
        for row in listed.iter_rows(named=True):
            held = _nats(row, nats)
            # As in the scores: a tie counts against the right one, which comes first.
            ranks.append(sum(one <= held[0] + 1e-4 for one in held) if held else None)
        ranked = listed.with_columns(rank=pl.Series(ranks, dtype=pl.Int32))
        return cls(model, ranked.filter(pl.col("rank").is_not_null()), nats)

    def shown(self, row: Mapping[str, Any]) -> ShownQuery:
        """A row of `ranked`, with the likeliest answers and their share of the probability."""
        if not self.nats:
            return _shown(self.model, row, 0, _pieces(row))
        held = _nats(row, self.nats)
        best = min(held)
        # Where the vocabulary can spell none of them, none is likelier.
        weights = [math.exp(best - one) if math.isfinite(best) else 1.0 for one in held]
        order = sorted(range(len(held)), key=lambda at: (held[at], at))[:ANSWERS]
        top = tuple((row["candidates"][at], weights[at] / sum(weights), at == 0) for at in order)
        return _shown(self.model, row, len(held), top)


def _nats(row: Mapping[str, Any], nats: Mapping[str, float]) -> list[float]:
    """Of each candidate's statement, the right one first; empty where one was not scored."""
    texts = [row["prefix"] + name + row["suffix"] for name in row["candidates"]]
    found = [nats.get(prompt_id(text, row["language"])) for text in texts]
    if None in found:
        # Scored by the name alone, if at all: such statements are cut at its ends.
        start = len(row["prefix"])
        ends = [(start, start + len(name)) for name in row["candidates"]]
        found = [
            nats.get(prompt_id(text, row["language"], end)) for text, end in zip(texts, ends, strict=True)
        ]
    held = [one for one in found if one is not None]
    return held if len(held) == len(found) else []


def _queries(run: RunData) -> pl.DataFrame | None:
    files = run.directory.label_tables("api_cloze", LENS)
    if not files:
        return None
    # Queries behind words and in frames repeat others.
    alone = (pl.col("context") == "") & (pl.col("frame") == "")
    frame = scan_files(files).filter(alone & pl.col("template").is_in(list(TEMPLATES)))
    return frame.select(_COLUMNS).collect()


def _chosen(queries: pl.DataFrame) -> pl.DataFrame:
    """Wrong ones first, of each kind of statement those whose names are called most."""
    order = queries.sort("calls", "query_id", descending=[True, False])
    wrong = pl.col("rank") > 1
    parts = [
        order.filter(side & (pl.col("template") == template)).head(size)
        for side, size in ((wrong, _WRONG), (~wrong, _RIGHT))
        for template in TEMPLATES
    ]
    return pl.concat(parts).sort(wrong, "calls", "query_id", descending=[True, True, False])


def _pieces(row: Mapping[str, Any]) -> tuple[tuple[str, float, bool], ...]:
    pairs = list(zip(row["top"] or (), row["top_nats"] or (), strict=False))[:ANSWERS]
    return tuple((text, math.exp(-nats), _is(text, row["answer"])) for text, nats in pairs)


def _is(piece: str, answer: str) -> bool:
    """Whether a piece spells the answer, marks of vocabularies aside."""
    return piece.strip().removeprefix("##") == answer


def _shown(
    model: ModelInfo,
    row: Mapping[str, Any],
    competing: int,
    top: Sequence[tuple[str, float, bool]],
) -> ShownQuery:
    return ShownQuery(
        model=model.label,
        template=row["template"],
        mode=row["mode"],
        place=place(row["level"], row["levels"]),
        before=row["prefix"],
        answer=row["answer"],
        behind=row["suffix"],
        rank=row["rank"],
        calls=row["calls"],
        competing=competing,
        top=tuple(top),
    )
