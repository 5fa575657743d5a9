"""Pads as PERPLEXED counts them: scored like subwords, under the pad's own string."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sonde.capture.requests import ItemCapture, Prepared
from sonde.lenses.surprisal.pools import alternatives
from sonde.results.observations import FILE_COLUMNS, OBSERVATIONS_SCHEMA


def pad_rows(prepared: Prepared, capture: ItemCapture, surfaces: Sequence[str]) -> pl.DataFrame:
    """Rows of the pads behind one item, in `OBSERVATIONS_SCHEMA`; they stand for no character.

    Like their original, they have no tag, and count in every mean over all subwords.

    Args:
        prepared: The item.
        capture: Its variant with `sonde.capture.requests.Plain.padded`.
        surfaces: Readable surface of each vocabulary id.
    """
    scores, item, before = capture.scores, prepared.item, len(prepared.alignment.subwords)
    assert scores is not None
    assert capture.pad is not None
    size = len(scores.nats)
    given = {
        "item_id": [item.item_id] * size,
        "file": [item.path] * size,
        "cluster": [item.cluster] * size,
        "language": [item.language] * size,
        "position": np.arange(before, before + size),
        "start": np.full(size, len(item.text)),
        "end": np.full(size, len(item.text)),
        "subword": [surfaces[capture.pad]] * size,
        "subword_id": np.full(size, capture.pad),
        "nats": scores.nats,
        "rank": scores.rank,
        "entropy": scores.entropy,
        "context": np.full(size, before),
        **{name: np.zeros(size) for name in ("bytes", "text_characters", "text_bytes", "covered")},
        **{name: [None] * size for name in FILE_COLUMNS},
        "kind": ["pad"] * size,
        "merged": np.zeros(size),
        "token": np.full(size, -1),
    }
    empty = [""] * size
    series = [
        pl.Series(name, given.get(name, empty), dtype=dtype)
        for name, dtype in OBSERVATIONS_SCHEMA.items()
        if name not in ("top", "top_nats")
    ]
    return pl.DataFrame([*series, *alternatives(scores.top_ids, scores.top_nats, surfaces)])
