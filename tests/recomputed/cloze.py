"""Cloze: log-probabilities of statements, and the ranks that the page counts; of decoders alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tests.recomputed.agreement import NOISE, Agreement, compare
from tests.recomputed.plain_model import PlainModel
from tests.recomputed.run_folder import RunFolder, hash_text_id

NEAR_TIE = 1e-4
"""Nats within which two statements tie, and ties count against the right one."""


def recompute(run: RunFolder, plain: PlainModel, most: int) -> Iterator[Agreement]:
    """Compare what each statement costs, and the ranks of queries."""
    rows = run.observations("cloze")
    for task in run.tasks("cloze"):
        queries = run.labels(task, "cloze")
        if plain.decoder:
            yield from _statements(run, plain, rows, queries)


def _statements(
    run: RunFolder, plain: PlainModel, rows: pl.DataFrame, queries: pl.DataFrame
) -> Iterator[Agreement]:
    told = dict(rows.filter(pl.col("status") == "text").select("item_id", "nats").iter_rows())
    nats: dict[str, float] = {}
    ranks: list[int] = []
    for row in queries.iter_rows(named=True):
        texts = [row["prefix"] + name + row["suffix"] for name in row["candidates"]]
        ids = [hash_text_id("prompt", row["language"], text, []) for text in texts]
        for number, text in zip(ids, texts, strict=True):
            if number not in nats:
                nats[number] = float(np.nansum(plain.score(plain.encode(text).ids).nats))
        sums = np.array([nats[number] for number in ids])
        ranks.append(int((sums <= sums[0] + NEAR_TIE).sum()))
    yield compare("nats of a statement", [told[key] for key in nats], list(nats.values()), tolerance=NOISE)
    page = run.scores.filter(
        (pl.col("lens") == "cloze")
        & (pl.col("metric") == "mrr")
        & (pl.col("aggregation") == "sum")
        & (pl.col("matching") == "candidates")
        & (pl.col("slice") == "all")
        & pl.col("control").is_null()
    )
    yield compare(
        "mean reciprocal rank of the page", page["value"], [np.mean(1 / np.array(ranks))], tolerance=0.002
    )
