"""Surprisal at the places of single functions, for the explorer of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.report._shared.run import ModelInfo, RunData
from sonde.report._shared.tokens import AMOUNT, COLOURINGS, WAYS, Findings, TokenLens
from sonde.report.surprisal._scores import BITS_PER_NAT, LENS, observed

_READ = [
    "item_id", "position", "start", "end", "subword", "nats", "rank", "entropy", "context", "kind", "tag",
    "construct", "merged", "top", "top_nats",
]  # fmt: skip

_COLUMNS = ("bits", "rank", "entropy", "context", "merged", "subword", "tag", "kind", "construct", "top")


def _known(run: RunData) -> list[str]:
    ids = [observed(run, model, ["item_id"]).select(pl.col("item_id").unique()) for model in run.models]
    return pl.concat(ids).collect()["item_id"].unique().to_list()


def _difficulty(run: RunData) -> pl.DataFrame | None:
    """Bits per byte of every function that all models read, averaged over them."""
    frames = [
        observed(run, model, ["item_id", "nats", "bytes"])
        .filter(pl.col("nats").is_finite())
        .group_by("item_id")
        .agg(
            nats=pl.col("nats").cast(pl.Float64).sum(),
            bytes=pl.col("bytes").cast(pl.Int64).sum(),
            subwords=pl.len(),
        )
        .collect(engine="streaming")
        for model in run.models
    ]
    frames = [frame for frame in frames if frame.height]
    if not frames:
        return None
    rate = (pl.col("nats") * BITS_PER_NAT / pl.col("bytes")).mean()
    return (
        pl.concat([frame.filter(pl.col("bytes") > 0) for frame in frames])
        .group_by("item_id")
        .agg(difficulty=rate, subwords=pl.col("subwords").min(), models=pl.len())
        .filter(pl.col("models") == len(frames))
        .sort("item_id")
        .select("item_id", "difficulty", "subwords")
    )


def _findings(run: RunData, items: Sequence[str], characters: int) -> Findings | None:
    read = [model for model in run.models if run.table(LENS, model) is not None]
    if not read:
        return None
    pieces = {model.slug: _pieces(run, model, items, characters) for model in read}
    sizes = {
        row["item_id"]: len(row["text"][:characters].encode("utf-8", "replace"))
        for row in run.items(items).iter_rows(named=True)
    }
    return Findings(
        lens=LENS,
        label="Surprisal",
        kind=AMOUNT,
        columns=_COLUMNS,
        texts=frozenset({"subword", "tag", "kind", "construct"}),
        facts=(
            ("rank", "rank", ""),
            ("entropy", "entropy", "bits"),
            ("tag", "tag", ""),
            ("kind", "kind", ""),
            ("construct", "construct", ""),
            ("context", "context", "subwords before it"),
        ),
        colourings=COLOURINGS,
        rows={
            slug: {item: [_row(piece) for piece in rows] for item, rows in held.items()}
            for slug, held in pieces.items()
        },
        summaries={
            slug: {
                item: round(sum(_finite(rows)) * BITS_PER_NAT / sizes[item], 3)
                for item, rows in held.items()
                if sizes.get(item)
            }
            for slug, held in pieces.items()
        },
        summary="bits per byte",
        alike={model.slug: _objective(run, model) for model in read},
    )


def _objective(run: RunData, model: ModelInfo) -> str:
    """Which sides of a token its bits were read from: bits of one are not those of the other."""
    rows = run.every_row.filter((pl.col("lens") == LENS) & (pl.col("model") == model.name))
    named = rows["objective"].drop_nulls().unique().sort().to_list() if "objective" in rows.columns else []
    return ", ".join(WAYS.get(str(one), str(one)) for one in named if one)


def _pieces(
    run: RunData, model: ModelInfo, items: Sequence[str], characters: int
) -> dict[str, list[dict[str, Any]]]:
    rows = (
        observed(run, model, _READ)
        .filter(pl.col("item_id").is_in(list(items)) & (pl.col("start") < characters))
        .collect(engine="streaming")
        .sort("item_id", "position")
    )
    parts = rows.partition_by("item_id", as_dict=True)
    return {str(item): part.to_dicts() for (item,), part in parts.items()}


def _row(piece: Mapping[str, Any]) -> list[Any]:
    top: list[str | float | None] = []
    for surface, nats in zip(piece["top"] or (), piece["top_nats"] or (), strict=False):
        top += [surface, round(1000 * math.exp(-nats), 1) if math.isfinite(nats) else None]
    return [
        piece["start"],
        piece["end"],
        _bits(piece["nats"], 3),
        piece["rank"],
        _bits(piece["entropy"], 2),
        piece["context"],
        piece["merged"],
        piece["subword"],
        piece["tag"],
        piece["kind"],
        (piece["construct"] or "").replace("_", " "),
        top,
    ]


def _bits(nats: float | None, digits: int) -> float | None:
    return None if nats is None or not math.isfinite(nats) else round(nats * BITS_PER_NAT, digits)


def _finite(rows: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    return (row["nats"] for row in rows if row["nats"] is not None and math.isfinite(row["nats"]))


tokens = TokenLens(known=_known, findings=_findings, difficulty=_difficulty)
