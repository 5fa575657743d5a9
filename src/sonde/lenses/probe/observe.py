"""From examples to requests, and from captured states to rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.base.fingerprint import unit_hash
from sonde.capture.requests import HiddenStates, Pass, Plain, Prepared
from sonde.corpora import Item, item_id
from sonde.lenses._lens import Captured
from sonde.lenses._states import pack, subwords_of
from sonde.results.columns import Columns, schema_of

STATES_COLUMNS: Columns = {
    "item_id": (pl.String, "the input"),
    "start": (pl.Int32, "first of the characters that it stands for; -1 for the whole text"),
    "end": (pl.Int32, "their end, exclusive; -1 for the whole text"),
    "pooling": (
        pl.String,
        "`mean`, `last`, `summary` of the whole text; `span`: mean over a token's subwords",
    ),
    "states": (
        pl.Binary,
        "half precision, layer by layer, embeddings first, each layer divided by its scale",
    ),
    "scale": (pl.List(pl.Float32), "a power of two a layer"),
}
"""Columns of the probe lens's item table, one row a pooled vector of all layers."""

STATES_SCHEMA = schema_of(STATES_COLUMNS)

WHOLE = -1
SPAN = "span"
TOKEN_UNIT = "token"

IS_WHOLE = (pl.col("start") == 0) & (pl.col("end") == pl.col("characters")) & pl.col("other_start").is_null()
"""Whether an example is about the whole of its text."""

SHORTEST_TREE, LONGEST_TREE = 6, 64
"""Code tokens of the functions that structural probes look at."""

Place = tuple[int, int]


def isolated_items(items: Sequence[Item], labels: Mapping[str, pl.DataFrame]) -> list[Item]:
    """Every surface of a token task as a text of its own."""
    languages = {item.language for item in items}
    surfaces = {surface for table in labels.values() for surface in table["type"].to_list() if surface}
    return [
        Item(
            item_id=item_id(surface, language, TOKEN_UNIT),
            text=surface,
            language=language,
            unit=TOKEN_UNIT,
            name=surface,
            cluster=surface,
        )
        for language in sorted(languages)
        for surface in sorted(surfaces)
    ]


def ends_of(rows: pl.DataFrame) -> dict[str, tuple[bool, tuple[Place, ...]]]:
    """For each item, whether its whole text is asked for, and the spans that are.

    Args:
        rows: Examples; those that span their text ask for the whole of it.
    """
    spans = rows.filter(~IS_WHOLE)
    others = spans.filter(pl.col("other_start").is_not_null())
    places = pl.concat(
        [
            spans.select("item_id", "start", "end"),
            others.select("item_id", pl.col("other_start").alias("start"), pl.col("other_end").alias("end")),
        ]
    ).unique()
    found: dict[str, tuple[bool, tuple[Place, ...]]] = {}
    for name in rows.filter(IS_WHOLE)["item_id"].unique().to_list():
        found[name] = (True, ())
    for name, start, end in places.sort("item_id", "start", "end").iter_rows():
        is_whole, held = found.get(name, (False, ()))
        found[name] = is_whole, (*held, (start, end))
    return found


def examples_of(labels: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The places that any task asks for."""
    columns = ("item_id", "start", "end", "other_start", "other_end", "characters")
    return pl.concat([table.select(columns) for table in labels.values()])


def wanted_of(
    prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], structural: float
) -> dict[str, tuple[bool, tuple[Place, ...]]]:
    """`ends_of` for all tasks, and every code token of the functions that structural probes look at."""
    found = ends_of(examples_of(labels))
    for one in prepared:
        if structural and looked_at(one.item.item_id, one.item.unit, len(one.tokens), structural):
            is_whole, places = found.get(one.item.item_id, (False, ()))
            tokens = zip(one.tokens.start.tolist(), one.tokens.end.tolist(), strict=True)
            found[one.item.item_id] = is_whole, tuple(sorted({*places, *tokens}))
    return found


def looked_at(item: str, unit: str, tokens: int, share: float) -> bool:
    """Whether structural probes look at an item; long texts would outweigh all others."""
    short = SHORTEST_TREE <= tokens <= LONGEST_TREE
    return unit != TOKEN_UNIT and short and unit_hash("structural probe", item) < share


def requests(
    prepared: Sequence[Prepared],
    labels: Mapping[str, pl.DataFrame],
    pooling: tuple[str, ...],
    structural: float = 0.0,
) -> tuple[Pass, ...]:
    """One plain pass: whole texts by every pooling, and all spans that any task asks for."""
    wanted = wanted_of(prepared, labels, structural)
    spans: dict[str, tuple[tuple[int, int], ...]] = {}
    for one in prepared:
        _, places = wanted.get(one.item.item_id, (False, ()))
        if places:
            first, stop = subwords_of(places, one.alignment.subwords)
            spans[one.item.item_id] = tuple(zip(first.tolist(), stop.tolist(), strict=True))
    whole = HiddenStates(pooling=pooling)
    if not spans:
        return (Pass(Plain(), (whole,)),)
    return (Pass(Plain(), (whole, HiddenStates(pooling=("spans",), spans=spans))),)


def observe_items(
    observed: Sequence[Captured],
    labels: Mapping[str, pl.DataFrame],
    pooling: tuple[str, ...],
    structural: float = 0.0,
) -> pl.DataFrame:
    """The rows of a few items; a place that no subword belongs to has none.

    Raises:
        CaptureError: A state is infinite or NaN.
    """
    wanted = wanted_of([one.prepared for one in observed], labels, structural)
    rows: list[tuple[str, int, int, str]] = []
    vectors: list[Float[np.ndarray, "layer d_model"]] = []
    for one in observed:
        item = one.prepared.item
        if not one.captures or not len(one.prepared.alignment.subwords):
            continue
        states = one.captures[0].states
        is_whole, places = wanted.get(item.item_id, (item.unit == TOKEN_UNIT, ()))
        for name in pooling if is_whole else ():
            # A family without a summary token gives no such vector.
            if name in states and not np.isnan(states[name]).all():
                rows.append((item.item_id, WHOLE, WHOLE, name))
                vectors.append(states[name])
        if not places or "spans" not in states:
            # Of a text that is no subwords, no part has a state.
            continue
        first, stop = subwords_of(places, one.prepared.alignment.subwords)
        for index, (start, end) in enumerate(places):
            if stop[index] > first[index]:
                rows.append((item.item_id, start, end, SPAN))
                vectors.append(states["spans"][:, index])
    if not rows:
        return pl.DataFrame(schema=dict(STATES_SCHEMA))
    packed, scale = pack(np.stack(vectors), [row[0] for row in rows])
    names, starts, ends, kinds = zip(*rows, strict=True)
    columns = {"item_id": names, "start": starts, "end": ends, "pooling": kinds}
    return pl.DataFrame({**columns, "states": packed, "scale": scale.tolist()}, schema=dict(STATES_SCHEMA))
