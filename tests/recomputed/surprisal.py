"""Bits and ranks: every scored subword, and the bits per byte of the page."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tests.recomputed.agreement import Agreement, compare
from tests.recomputed.plain_model import PlainModel
from tests.recomputed.run_folder import RunFolder


def recompute(run: RunFolder, plain: PlainModel, most: int) -> Iterator[Agreement]:
    """Compare ids, nats and ranks of subwords, and the bits per byte where all items were read."""
    ids: list[tuple[int, int]] = []
    nats: list[tuple[float, float]] = []
    ranks: list[tuple[int, int]] = []
    total, size, unread = 0.0, 0, 0
    groups = run.observations("surprisal").sort("position").partition_by("item_id", maintain_order=True)
    for rows in groups:
        text = run.texts[rows["item_id"][0]]
        encoded = plain.encode(text)
        if most <= 0 or not plain.fits(encoded):
            unread += 1
            continue
        most -= 1
        scored = plain.score_all(encoded.ids)
        at = rows["position"].to_numpy()
        ids += zip(rows["subword_id"], np.array(encoded.ids)[at].tolist(), strict=True)
        nats += zip(rows["nats"], scored.nats[at].tolist(), strict=True)
        ranks += zip(rows["rank"], scored.rank[at].tolist(), strict=True)
        total += float(np.nansum(scored.nats))
        size += len(text.encode())
    yield compare("id of a subword", *zip(*ids, strict=True), tolerance=0)
    yield compare("nats of a subword", *zip(*nats, strict=True))
    yield compare("rank of a subword", *zip(*ranks, strict=True), tolerance=0, share=0.002)
    if not unread:
        page = run.scores.filter(
            (pl.col("lens") == "surprisal")
            & (pl.col("metric") == "bits_per_byte")
            & (pl.col("slice") == "all")
        )
        yield compare("bits per byte of the page", page["value"][:1], [total / np.log(2) / size])
