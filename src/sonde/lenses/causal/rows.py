"""The item tables of the lens: states of the first stage, effects and states of the second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.lenses._states import pack, unpack
from sonde.results.columns import Columns, schema_of

ROWS_COLUMNS: Columns = {
    "item_id": (pl.String, "the function"),
    "what": (
        pl.String,
        "`mean`: states of the whole function; `token`, `subword`: of a token, of a subword; `head`: what "
        "all heads give at a subword; `edge`: whether heads hit an edge of a relation; `effect`: what "
        "changed (second stage); `layer`: what a layer says through the model's head; `word`: a subword that "
        "was asked for, `state` its states; `pair`: two functions between which states are put; `cell`: what "
        "that did; `hit`: edges of a relation that its head hits, with something erased or nothing; `part`: "
        "states of one subword of a token; `place`: where a property is erased; "
        "`moved`: how far a map moves states (third stage)",
    ),
    "method": (pl.String, "which method asked; empty where nothing was changed"),
    "subject": (pl.String, "the property that is erased, or the relation whose heads are ablated"),
    "kind": (
        pl.String,
        "the change itself (`leace`, `heads`), or a control; of `head` rows where the subword stands",
    ),
    "layer": (pl.Int32, "where something was changed, 0 the embeddings; of heads, from 0; null for nothing"),
    "group": (
        pl.String,
        "of an effect: the construct of the subwords, or `keyword`; for heads what they are to a relation; "
        "of a `pair`: the variable that the one at its place is exchanged with",
    ),
    "n": (pl.Int32, "subwords scored; of a `hit`, edges of the relation"),
    "before": (pl.Float64, "their nats with nothing changed"),
    "after": (pl.Float64, "their nats with the change; of `moved` the sum of squared changes of `n` states"),
    "right_before": (pl.Int32, "of an `effect`: those that the model finds likeliest with nothing changed"),
    "right_after": (pl.Int32, "of an `effect`: those that it finds likeliest with the change"),
    "target": (pl.Float64, "of a `cell`: the margin of the text whose states are put"),
    "guess": (pl.Float64, "of a `cell`: by how much the margin changes by its gradient"),
    "hits": (
        pl.Int32,
        "subwords that a layer finds likeliest; of a `pair`, pairs that are cut alike; of a `hit`, edges",
    ),
    "settled": (pl.Int32, "subwords that a layer and all later ones find likeliest"),
    "start": (
        pl.Int32,
        "first character of a token, or of the place of a `pair`, or number of a subword; of `word`, `state` "
        "its id",
    ),
    "end": (pl.Int32, "its end, exclusive"),
    "first": (pl.Int32, "the first layer whose states the row holds"),
    "states": (pl.Binary, "half precision, layer by layer, each divided by its scale"),
    "scale": (pl.List(pl.Float32), "a power of two a layer"),
}
"""Columns of both stages' item tables; what does not apply is null."""

ROWS_SCHEMA = schema_of(ROWS_COLUMNS)


@dataclass(slots=True)
class Rows:
    """Rows that are put together."""

    plain: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    _held: list[tuple[dict[str, object], Float[np.ndarray, "layer width"]]] = field(
        default_factory=list[tuple[dict[str, object], Float[np.ndarray, "layer width"]]]
    )

    def add(self, **columns: object) -> None:
        """A row without states."""
        self.plain.append(columns)

    def add_states(self, states: Float[np.ndarray, "layer width"], **columns: object) -> None:
        """A row with states."""
        self._held.append((columns, states))

    def frame(self) -> pl.DataFrame:
        """All rows as a table.

        Raises:
            CaptureError: A state is infinite or NaN.
        """
        rows = [*self.plain]
        by_shape: dict[tuple[int, ...], list[tuple[dict[str, object], np.ndarray]]] = {}
        for columns, states in self._held:
            by_shape.setdefault(states.shape, []).append((columns, states))
        for held in by_shape.values():
            packed, scale = pack(
                np.stack([states for _, states in held]), [str(one["item_id"]) for one, _ in held]
            )
            rows += [
                {**columns, "states": states, "scale": own}
                for (columns, _), states, own in zip(held, packed, scale.tolist(), strict=True)
            ]
        return pl.DataFrame(rows, schema=dict(ROWS_SCHEMA), orient="row")


def states_of(rows: pl.DataFrame) -> Float[np.ndarray, "layer row width"]:
    """The states of rows that hold the same layers."""
    return unpack(rows["states"].to_list(), np.array(rows["scale"].to_list(), dtype=np.float32))


def only(observations: pl.LazyFrame, what: Sequence[str], **columns: str) -> pl.DataFrame:
    """Rows by what they are."""
    asked: Mapping[str, str] = columns
    kept = [pl.col(name) == value for name, value in asked.items()]
    return observations.filter(pl.col("what").is_in(list(what)), *kept).collect()
