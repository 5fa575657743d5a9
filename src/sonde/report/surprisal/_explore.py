"""Items for the token explorer: chosen, cut to size, and packed as plain JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.report._shared.run import ModelInfo, RunData
from sonde.report.surprisal._scores import BITS_PER_NAT, LENS, observed

_PIECES = [
    "item_id", "position", "start", "end", "subword", "nats", "rank", "entropy", "context", "kind", "tag",
    "construct", "merged", "top", "top_nats",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerLimits:
    """How much the page carries.

    Attributes:
        worst: Items with the most bits per byte.
        best: Items with the fewest.
        median: Items around the middle.
        by_hash: A seeded random sample of items, whatever they score.
        characters: Of each item, from its beginning.
        subwords: Fewest subwords of an item to be ranked; short items have extreme means.
        packed: Characters of JSON for all items together.
    """

    worst: int = 10
    best: int = 10
    median: int = 8
    by_hash: int = 12
    characters: int = 3000
    subwords: int = 30
    packed: int = 3_600_000


def choose(run: RunData, limits: ExplorerLimits) -> list[tuple[str, str]]:
    """Pairs of item id and why it was chosen; reasons alternate, so that a cut leaves some of each.

    Means over the models of the run, on items that all of them scored.
    """
    means = _item_means(run)
    ranked = means.filter(pl.col("subwords") >= limits.subwords)
    ranked = ranked if ranked.height else means
    order = ranked.sort(["bits_per_byte", "item_id"], descending=[True, False])["item_id"].to_list()
    middle = max(0, len(order) // 2 - limits.median // 2)
    by_hash = sorted(means["item_id"].to_list(), key=lambda item: unit_hash("explorer", item))
    wanted = {
        "worst": order[: limits.worst],
        "best": order[::-1][: limits.best],
        "median": order[middle : middle + limits.median],
        "random sample": by_hash,
    }
    taken: dict[str, str] = {}
    sizes = {
        "worst": limits.worst,
        "best": limits.best,
        "median": limits.median,
        "random sample": limits.by_hash,
    }
    for turn in range(len(by_hash)):
        for reason, items in wanted.items():
            held = sum(why == reason for why in taken.values())
            if turn < len(items) and items[turn] not in taken and held < sizes[reason]:
                taken[items[turn]] = reason
        if turn > 4 * sum(sizes.values()):
            break
    return list(taken.items())


def _item_means(run: RunData) -> pl.DataFrame:
    """By item: bits per byte, averaged over models, and its number of subwords."""
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
        return pl.DataFrame(schema={"item_id": pl.String, "bits_per_byte": pl.Float64, "subwords": pl.UInt32})
    joined = pl.concat([frame.filter(pl.col("bytes") > 0) for frame in frames])
    rate = (pl.col("nats") * BITS_PER_NAT / pl.col("bytes")).mean()
    return (
        joined.group_by("item_id")
        .agg(bits_per_byte=rate, subwords=pl.col("subwords").min(), models=pl.len())
        .filter(pl.col("models") == len(frames))
        .sort("item_id")
    )


def pack(run: RunData, chosen: Sequence[tuple[str, str]], limits: ExplorerLimits) -> dict[str, Any]:
    """The explorer's data: items in the order of their surprisal, with the pieces of every model.

    A piece is ``[start, end, bits, rank, entropy, context, merged, subword, tag, kind, construct, top]``;
    texts are indices into ``strings``, ``top`` alternates string index and probability in thousandths.
    """
    strings = _Strings()
    identifiers = [item for item, _ in chosen]
    texts = {row["item_id"]: row for row in run.items(identifiers).iter_rows(named=True)}
    # A model that the lens did not read has nothing to show.
    read = [model for model in run.models if run.table(LENS, model) is not None]
    pieces = {model.slug: _pieces(run, model, identifiers, limits) for model in read}
    packed: list[dict[str, Any]] = []
    size = 0
    for item, reason in chosen:
        row = texts.get(item)
        if row is None:
            continue
        entry = _entry(row, reason, limits)
        entry["pieces"] = {
            slug: [_piece(piece, strings) for piece in table.get(item, ())] for slug, table in pieces.items()
        }
        entry["rate"] = _rate(entry, pieces, item)
        cost = sum(_cost(rows) for rows in entry["pieces"].values()) + len(entry["text"])
        if packed and size + cost > limits.packed:
            continue
        size += cost
        packed.append(entry)
    packed.sort(key=lambda entry: -max(entry["rate"].values(), default=0.0))
    return {
        "models": [{"slug": model.slug, "label": model.label} for model in read],
        "items": packed,
        "strings": strings.values,
    }


class _Strings:
    """A table of texts, each held once."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._index: dict[str, int] = {}

    def __getitem__(self, text: str | None) -> int:
        text = text or ""
        if text not in self._index:
            self._index[text] = len(self.values)
            self.values.append(text)
        return self._index[text]


def _pieces(
    run: RunData, model: ModelInfo, identifiers: Sequence[str], limits: ExplorerLimits
) -> dict[str, list[dict[str, Any]]]:
    rows = (
        observed(run, model, _PIECES)
        .filter(pl.col("item_id").is_in(list(identifiers)) & (pl.col("start") < limits.characters))
        .collect(engine="streaming")
        .sort("item_id", "position")
    )
    return {key[0]: part.to_dicts() for key, part in rows.partition_by("item_id", as_dict=True).items()}


def _entry(row: Mapping[str, Any], reason: str, limits: ExplorerLimits) -> dict[str, Any]:
    text = row["text"] or ""
    return {
        "id": row["item_id"],
        "name": row["name"] or row["path"] or row["item_id"],
        "path": row["path"] or "",
        "language": row["language"] or "",
        "cluster": row["cluster"] or "",
        "why": reason,
        "text": text[: limits.characters],
        "cut": max(0, len(text) - limits.characters),
    }


def _piece(piece: Mapping[str, Any], strings: _Strings) -> list[Any]:
    top: list[int | float | None] = []
    for surface, nats in zip(piece["top"] or (), piece["top_nats"] or (), strict=False):
        top += [strings[surface], _rounded(1000 * math.exp(-nats), 1) if math.isfinite(nats) else None]
    return [
        piece["start"],
        piece["end"],
        _rounded(piece["nats"], 3, BITS_PER_NAT),
        piece["rank"],
        _rounded(piece["entropy"], 2, BITS_PER_NAT),
        piece["context"],
        piece["merged"],
        strings[piece["subword"]],
        strings[piece["tag"]],
        strings[piece["kind"]],
        strings[piece["construct"]],
        top,
    ]


def _rounded(value: float | None, digits: int, scale: float = 1.0) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value * scale, digits)


def _rate(entry: Mapping[str, Any], pieces: Mapping[str, Any], item: str) -> dict[str, float]:
    """Bits per byte of the part that is shown, by model."""
    size = len(entry["text"].encode("utf-8", "replace"))
    return {
        slug: round(sum(_finite(table[item])) * BITS_PER_NAT / size, 3)
        for slug, table in pieces.items()
        if size and item in table
    }


def _finite(rows: Sequence[Mapping[str, Any]]) -> Iterator[float]:
    return (row["nats"] for row in rows if row["nats"] is not None and math.isfinite(row["nats"]))


def _cost(rows: Sequence[Sequence[Any]]) -> int:
    """About how many characters of JSON some pieces take."""
    return sum(48 + 5 * len(row[-1]) for row in rows)
