"""Where the best head of each relation leads in single functions, for the explorer of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from sonde.report._shared.run import ModelInfo, RunData
from sonde.report._shared.tokens import LINK, LINKED, Findings, Rows, TokenLens
from sonde.report.attention._scores import LENS, SNIPPET

_STAGE = f"{LENS}.1"

_MOST = 5
"""Tokens kept of those that a token attends to."""

_LEAST = 2.0
"""Per cent of the attention below which a token is not kept."""


def _tables(run: RunData) -> Iterator[tuple[ModelInfo, pl.LazyFrame]]:
    for model in run.models:
        table = run.table(_STAGE, model)
        if table is not None and {"asked_end", "words"} <= set(table.collect_schema()):
            yield model, table.filter(~pl.col("item_id").str.ends_with(SNIPPET))


def _known(run: RunData) -> list[str]:
    ids = [table.select(pl.col("item_id").unique()) for _, table in _tables(run)]
    return pl.concat(ids).collect()["item_id"].unique().to_list() if ids else []


def _findings(run: RunData, items: Sequence[str], characters: int) -> Findings | None:
    rows: dict[str, dict[str, Rows]] = {}
    weights: dict[str, dict[str, dict[str, Rows]]] = {}
    sides: dict[str, str] = {}
    for model, table in _tables(run):
        held = table.filter(pl.col("item_id").is_in(list(items))).collect()
        edges = held.filter(pl.col("words").is_null() & (pl.col("asked_start") < characters))
        looks = held["side"].unique().to_list()
        sides[model.slug] = "what stands before a word" if looks == ["decoder"] else "the whole text"
        rows[model.slug] = {
            str(item): [_edge(row) for row in part.iter_rows(named=True)]
            for (item,), part in edges.sort("asked_start", "relation")
            .partition_by("item_id", as_dict=True, maintain_order=True)
            .items()
        }
        whole = weights.setdefault(model.slug, {})
        for row in held.filter(pl.col("words").is_not_null()).iter_rows(named=True):
            whole.setdefault(row["item_id"], {})[_head(row)] = list(_most(row, characters))
    if not rows:
        return None
    return Findings(
        lens=LENS,
        label="Attention",
        kind=LINK,
        columns=LINKED,
        texts=frozenset({"group", "by"}),
        group="relation",
        rows=rows,
        weights=weights,
        alike=sides,
        note=(
            "each relation is shown in the head that does best on other functions; what that head attends to "
            "from every token was kept of a few functions of the random sample"
        ),
    )


def _head(row: Mapping[str, Any]) -> str:
    side = "" if row["side"] in ("encoder", "decoder") else f", {row['side']}"
    return f"head {row['layer']}.{row['head']}{side}"


def _edge(row: Mapping[str, Any]) -> list[Any]:
    return [
        row["asked_start"],
        row["asked_end"],
        row["relation"],
        int(row["hit"]),
        _head(row),
        row["picked_start"],
        row["picked_end"],
        row["expected_start"],
        row["expected_end"],
    ]


def _most(row: Mapping[str, Any], characters: int) -> Iterator[list[Any]]:
    """Of each word the words that it attends to most, in per cent of its attention."""
    starts = np.array(row["starts"], np.int64)
    ends = starts + np.array([len(word) for word in row["words"]], np.int64)
    paid = np.frombuffer(row["weights"], np.float16).astype(np.float64).reshape(len(starts), len(starts))
    shares = 100 * np.nan_to_num(paid)
    for word in np.flatnonzero((starts < characters) & (ends > starts)).tolist():
        best = np.argsort(-shares[word], kind="stable")[:_MOST]
        kept = [
            [int(starts[other]), int(ends[other]), round(float(shares[word, other]), 1)]
            for other in best.tolist()
            if shares[word, other] >= _LEAST and ends[other] > starts[other]
        ]
        yield [int(starts[word]), kept]


tokens = TokenLens(known=_known, findings=_findings)
