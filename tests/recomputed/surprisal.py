"""Bits and ranks: every scored subword, and the bits per byte of the page; or of minimal pairs their sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tests.recomputed.agreement import Agreement, compare
from tests.recomputed.plain_model import PlainModel
from tests.recomputed.run_folder import RunFolder


def recompute(run: RunFolder, plain: PlainModel, most: int) -> Iterator[Agreement]:
    """Compare ids, nats and ranks of subwords, and the bits per byte where all items were read."""
    if "original" in run.observations("surprisal").columns:
        yield from _recompute_pairs(run, plain, most)
        return
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


def _recompute_pairs(run: RunFolder, plain: PlainModel, most: int) -> Iterator[Agreement]:
    """Compare the nats of texts of minimal pairs, and how many originals are likelier than their mutants."""
    rows = run.observations("surprisal").sort("source_id", "original")
    sums: list[tuple[float, float, float]] = []
    for row in rows.head(2 * min(most, rows.height)).iter_rows(named=True):
        encoded = plain.encode(run.texts[row["item_id"]])
        nats = plain.score_all(encoded.ids).nats
        at, behind = encoded.sharing(row["start"], row["end"]), np.flatnonzero(encoded.end > row["start"])
        sums.append(tuple(float(np.nansum(part)) for part in (nats[behind], nats[at], nats[: behind[0]])))
    names = {
        "nats": "from the place on",
        "place_nats": "of the place",
        "before_nats": "before the place",
    }
    for (name, words), again in zip(names.items(), zip(*sums, strict=True), strict=True):
        yield compare(f"nats of a text of a pair {words}", rows[name][: len(sums)], again)
    margins = np.array([one[0] for one in sums]).reshape(-1, 2) @ (1, -1)
    page = run.scores.filter(
        (pl.col("metric") == "preferred") & (pl.col("slice") == "all") & pl.col("control").is_null()
    )
    if len(sums) == rows.height:
        likelier = np.where(margins == 0, 0.5, margins > 0).mean()
        yield compare("originals likelier than their mutants", page["value"][:1], [likelier])
