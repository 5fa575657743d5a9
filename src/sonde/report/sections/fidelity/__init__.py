"""Sections of the lens `fidelity`, and the flips that the token explorer shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import ANSWER, LensTitle, TokenFindings, TokenLens
from sonde.results.fidelity import LENS

__all__ = ["title"]

_PLACES = (
    "item_id", "start", "end", "subword", "choice", "base_choice", "kl", "nats", "base_nats", "won", "lost",
    "slice",
)  # fmt: skip


def read_places(run: RunData, model: ModelInfo) -> pl.LazyFrame:
    """Read the places of single functions where a model differs most from its base."""
    table = run.table(LENS, model)
    if table is None or not {*_PLACES, "dimension"} <= set(table.collect_schema().names()):
        return pl.LazyFrame(schema=dict.fromkeys(_PLACES, pl.String))
    return table.filter(pl.col("dimension") == "place").select(_PLACES)


def _list_item_ids(run: RunData) -> list[str]:
    ids = [read_places(run, model).select("item_id") for model in run.models]
    return pl.concat(ids).collect()["item_id"].unique().to_list() if ids else []


def _read_findings(run: RunData, items: Sequence[str], characters: int) -> TokenFindings | None:
    rows: dict[str, dict[str, list[list[Any]]]] = {}
    for model in run.models:
        places = read_places(run, model).filter(pl.col("item_id").is_in(list(items))).collect()
        if places.is_empty():
            continue
        by_item = rows[model.slug] = {}
        for row in places.filter(pl.col("start") < characters).sort("item_id", "start").iter_rows(named=True):
            group = "answer won" if row["won"] else "answer lost" if row["lost"] else "far from the base"
            entry = [group, row["choice"], row["subword"], int(row["choice"] == row["subword"])]
            place = [row["start"], row["end"], *entry, row["base_choice"], round(row["kl"], 3)]
            by_item.setdefault(row["item_id"], []).append(place)
    if not rows:
        return None
    return TokenFindings(
        lens=LENS,
        label="Fidelity",
        kind=ANSWER,
        columns=("group", "said", "right", "hit", "base", "kl"),
        texts=frozenset({"group", "said", "right", "base"}),
        facts=(("first choice of the base", "base", ""), ("KL", "kl", "nats")),
        group="change",
        rows=rows,
        note=(
            "of each function at most six answers that the model won or lost compared with its base, and the "
            "two places where it is farthest from it"
        ),
    )


title = LensTitle(
    name="Fidelity",
    question="How far is the model from its base? Both read the same code side by side.",
    counts={"": "subword", "bits_per_byte_change": "byte", "bytes": "weight", "bits_per_weight": "weight"},
    method_text=(
        "Both models read the same subwords, and their predictions are compared at each of them. The "
        "divergence is KL(base || model) over the whole vocabulary. A flip is a subword that is the first "
        "choice of one of the two models alone."
    ),
    in_float32="divergences and probabilities",
    tokens=TokenLens(known=_list_item_ids, findings=_read_findings),
)
