"""What erasing a property does to attention behind it: do heads still hit the relations that they follow?

Of each relation the head is asked that `sonde.lenses.causal.ablate` has chosen for it, where it lies behind
the layer of the erasure; beside a subspace as wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from sonde.capture.requests import ItemCapture, Prepared, WordAttention
from sonde.lenses._lens import Scoring
from sonde.lenses.causal.ablate import HEADS, edges_of, lookups_of
from sonde.lenses.causal.ablate import NAME as ABLATE
from sonde.lenses.causal.fits import CONTROL, Fits, FittedChange
from sonde.lenses.causal.rows import Rows
from sonde.results import Mean, Score, means

HIT = "hit"
"""What rows of it are."""

LOST, EXCESS = "hits_lost", "hits_excess"
"""Metrics: the share of edges that heads hit with nothing changed less that with something erased; and by how
much more that is than with a subspace as wide."""

RELATION = "relation"

FEWEST = 30
"""Edges of a relation below which nothing is said of it."""


def followed(fits: Fits) -> dict[str, tuple[int, int]]:
    """The layer and head that follow each relation."""
    return {
        one.subject: (one.layer, one.heads[0])
        for one in fits.of(ABLATE)
        if one.kind == HEADS and not one.together
    }


def request(
    fits: Fits, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> WordAttention | None:
    """The attention along the edges of relations that heads follow; None where there is nothing to ask."""
    heads, edges = followed(fits), edges_of(labels)
    found = {
        one.item.item_id: held[0]
        for one in prepared
        if one.item.item_id in fits.measured and (held := lookups_of(one, edges.get(one.item.item_id, ())))
    }
    return WordAttention(found) if heads and found else None


def lies_before(change: FittedChange, fits: Fits) -> bool:
    """Whether a head that follows a relation reads states behind a change."""
    return any(layer >= change.layer for layer, _ in followed(fits).values())


def add_hits(
    rows: Rows,
    item: str,
    relations: Sequence[str],
    captures: Sequence[ItemCapture],
    heads: Mapping[str, tuple[int, int]],
    change: FittedChange | None,
) -> None:
    """Add how many edges of each relation its head hits.

    Args:
        rows: Where to.
        item: The function.
        relations: Of each of its edges that was looked up.
        captures: Of the function with the change.
        heads: The layer and head that follow each relation.
        change: What was changed; None for nothing.
    """
    words = next((words for held in captures if (words := held.words)), {})
    side = words.get("encoder") or words.get("decoder")
    if side is None:
        return
    about: dict[str, object] = {}
    if change is not None:
        about = {
            "method": change.method, "subject": change.subject, "kind": change.kind, "layer": change.layer,
        }  # fmt: skip
    for relation, (layer, head) in heads.items():
        mine = [at for at, name in enumerate(relations) if name == relation]
        if mine and (change is None or layer >= change.layer):
            hits = int((side.ranks[layer, head, mine, 0] == 1).sum())
            rows.add(item_id=item, what=HIT, group=relation, n=len(mine), hits=hits, **about)


def score(
    scoring: Scoring, task: str, own: str, splits: Mapping[str, str], template: Score
) -> Iterator[Score]:
    """What is lost of the edges of all relations by layer, and of each relation at each layer, on test.

    Args:
        scoring: With the rows of `add_hits`.
        task: The property that is erased.
        own: The kind of its change.
        splits: Of the functions.
        template: What the scores share.
    """
    test = [item for item, side in splits.items() if side == "test"]
    rows = (
        scoring.observations.filter(
            (pl.col("what") == HIT) & pl.col("item_id").is_in(pl.Series(test, dtype=pl.String).implode())
        )
        .collect()
        .join(scoring.items.select("item_id", "cluster"), on="item_id")
    )
    plain = rows.filter(pl.col("method").is_null()).select("item_id", "group", before="hits")
    changed = rows.filter(pl.col("subject") == task).with_columns(kind=CONTROL)
    if plain.is_empty() or changed.is_empty():
        return
    keys = ["item_id", "cluster", "group", "layer", "n"]
    both = changed.pivot("kind", index=keys, values="hits").join(plain, on=["item_id", "group"])
    controls = [name for name in both.columns if name not in (*keys, "before", own)]
    asked = [_lost(own, None), *(_lost(name, name) for name in controls)]
    asked += [_mean(EXCESS, pl.col(name) - pl.col(own), name) for name in controls]
    yield from means(both, asked, template, columns=("layer",))
    yield from means(
        both, asked, template, by={RELATION: pl.col("group")}, columns=("layer",), minimum=FEWEST,
        counted=pl.col("n"),
    )  # fmt: skip


def _lost(kind: str, control: str | None) -> Mean:
    return _mean(LOST, pl.col("before") - pl.col(kind), control)


def _mean(metric: str, value: pl.Expr, control: str | None) -> Mean:
    return Mean(metric, value, "real", per=pl.col("n"), fields={"control": control})
