"""Options of the causal lens, its fitted interventions, and its item tables.

The first stage writes which interventions it fitted and which function serves which purpose, one table per
model and group in the folder of the run (`sonde.lenses.engine.lens.ScoringContext.stage_result`). Jobs of the
second stage carry its path and its fingerprint. The item tables (`ROWS_COLUMNS`) hold the states of the first
stage, and the effects and states of the second.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.base.fingerprint import unit_hash
from sonde.base.options import Count, OneOf, Options, option
from sonde.capture.interventions import Affine
from sonde.capture.requests import Prepared
from sonde.corpora import Item, split
from sonde.lenses.engine.lens import STAGE_RESULT_KEY, LensSettings, ScoringContext
from sonde.lenses.engine.observations import pack, unpack
from sonde.results.schema import Columns, scan_files, to_schema
from sonde.training.erasure import Eraser

LENS = "causal"


METHODS = ("erase", "ablate", "patch", "logit_lens")
"""Public names of the methods, a module of `sonde.lenses.causal` each."""


class CausalOptions(Options):
    """The options of the lens."""

    lens = LENS

    methods: tuple[Annotated[str, OneOf(METHODS)], ...] = option(
        METHODS,
        "erase: remove properties from the states; ablate: replace attention heads; patch: copy states "
        "between two versions of a function in which different variables are right; logit_lens: read each "
        "layer through the model's head",
    )
    draws: Count = option(
        5,
        "random heads that each effect of heads is compared with; use 20 for a paper. Erasure ignores "
        "this and uses the draws that a verdict needs",
    )
    items: Count = option(
        100,
        "maximum number of functions to measure effects on, from the test split and the validation split "
        "(which chooses the layers)",
    )
    patched_cells: Count = option(
        100,
        "cells (layer, role of a position, direction) to patch in every pair of functions: those with the "
        "largest attributed effect on the training split",
    )
    drawn_cells: Count = option(
        6, "further cells to patch at random in each pair, to compare attribution with patching"
    )
    tuned: bool = option(
        False,
        "with logit_lens, also read each layer through an affine map trained on the training split (tuned "
        "lens)",
    )


def read_options(settings: LensSettings) -> CausalOptions:
    """Read the options of the lens from its settings.

    Raises:
        UsageError: A value that cannot be used.
    """
    return CausalOptions.read(settings.options)


FRACTIONS = (0.5, 0.15, 0.35)
"""Shares of the functions that maps are fitted on, that is chosen on, and that numbers are reported on."""


SPLIT = "split"


MEASURED_RANK = 1
"""What rows of functions that effects are measured on have as `rank`."""


FITS_COLUMNS: Columns = {
    "method": (pl.String, "method of the change; `split` in rows of functions"),
    "subject": (pl.String, "the property, relation or cell; for `split`, the function"),
    "kind": (
        pl.String,
        "the change itself (`leace`, `heads`), a draw of a control, or the direction of a cell; for `split`, "
        "`train`, `valid` or `test`",
    ),
    "layer": (pl.Int32, "layer of the change, 0 for the embeddings; for heads, from 0"),
    "rank": (
        pl.Int32,
        "dimensions that a map erases, or number of rows of `values`; for `split`, 1 if effects are measured "
        "on the function",
    ),
    "heads": (pl.List(pl.Int32), "heads of the layer that are replaced"),
    "down": (pl.Binary, "`float32` (width, rank) of the map `x - ((x - centre) @ down) @ up`"),
    "up": (pl.Binary, "`float32` (rank, width)"),
    "centre": (pl.Binary, "`float32` (width)"),
    "values": (pl.Binary, "`float32` (rank, width): replacements for the heads; the last is the mean"),
    "marks": (pl.List(pl.String), "kind of place of each row of `values`; empty for the mean"),
    "together": (pl.Boolean, "whether all changes of its subject and kind are made at once"),
}
"""Columns of what a stage hands on."""


FITS_SCHEMA = to_schema(FITS_COLUMNS)


CONTROL = pl.col("kind").str.split(" ").list.first()
"""`FittedIntervention.control`, of rows."""


@dataclass(frozen=True, slots=True, eq=False)
class FittedIntervention:
    """An intervention that is measured.

    Attributes:
        method: What tries it.
        subject: The property or relation.
        kind: What it is of it: the change itself, or which control.
        layer: Where.
        heads: Of a layer, those that are replaced.
        eraser: An affine map.
        values: Of states that are put, one a row.
        marks: Of each of them, where it may be put.
        together: Whether all changes of its subject and kind are made at once.
    """

    method: str
    subject: str
    kind: str
    layer: int
    heads: tuple[int, ...] = ()
    eraser: Eraser | None = None
    values: Float[np.ndarray, "value width"] | None = None
    marks: tuple[str, ...] = ()
    together: bool = False

    @property
    def name(self) -> str:
        """Return the name that captures with the intervention have."""
        return "|".join((self.method, self.subject, self.kind, "" if self.together else str(self.layer)))

    @property
    def control(self) -> str:
        """Return the control that it is a draw of; of the intervention itself its kind."""
        return self.kind.partition(" ")[0]

    @property
    def affine(self) -> Affine:
        """Return the affine map."""
        assert self.eraser is not None
        eraser = self.eraser
        return Affine(*(part.astype(np.float32) for part in (eraser.down, eraser.up, eraser.centre)))

    def row(self) -> dict[str, object]:
        """Return the intervention as a row of the table."""
        eraser = self.eraser
        arrays = {} if eraser is None else {"down": eraser.down, "up": eraser.up, "centre": eraser.centre}
        if self.values is not None:
            arrays["values"] = self.values
        packed = {name: np.ascontiguousarray(array, np.float32).tobytes() for name, array in arrays.items()}
        return {
            "method": self.method,
            "subject": self.subject,
            "kind": self.kind,
            "layer": self.layer,
            "rank": len(self.values) if self.values is not None else eraser.rank if eraser else 0,
            "heads": list(self.heads),
            "marks": list(self.marks),
            "together": self.together,
            **packed,
        }


@dataclass(frozen=True, slots=True, eq=False)
class FittedInterventions:
    """Fitted interventions, with the splits of functions that they are fitted and measured on.

    Attributes:
        interventions: The interventions.
        splits: ``train``, ``valid`` or ``test`` of each function.
        measured_items: Functions that effects are measured on.
    """

    interventions: tuple[FittedIntervention, ...]
    splits: Mapping[str, str]
    measured_items: frozenset[str]

    @property
    def held_out_functions(self) -> frozenset[str]:
        """Return the functions that no map was fitted to."""
        return frozenset(item for item, side in self.splits.items() if side != "train")

    def for_method(self, method: str) -> list[FittedIntervention]:
        """Return the interventions of a method."""
        return [intervention for intervention in self.interventions if intervention.method == method]

    def frame(self) -> pl.DataFrame:
        """Return the table that the next stage reads."""
        rows = [intervention.row() for intervention in self.interventions]
        rows += [
            {"method": SPLIT, "subject": item, "kind": side, "rank": int(item in self.measured_items)}
            for item, side in self.splits.items()
        ]
        return pl.DataFrame(rows, schema=FITS_SCHEMA, orient="row")


def split_items(scoring: ScoringContext) -> tuple[dict[str, str], frozenset[str]]:
    """Split functions by whole clusters, and select those that effects are measured on."""
    items = [
        Item(item, "", language, "", cluster=cluster)
        for item, language, cluster in scoring.items.select("item_id", "language", "cluster").iter_rows()
    ]
    seen = set(scoring.items.filter("seen")["item_id"].to_list())
    splits = split([item for item in items if item.item_id not in seen], FRACTIONS, scoring.settings.seed)
    candidates = (item for item, side in splits.items() if side != "train")
    measured_items = sorted(candidates, key=lambda item: unit_hash("causal", item))
    return splits, frozenset(measured_items[: read_options(scoring.settings).items])


def sample_positions(
    salt: str, prepared_item: Prepared, count: int, positions: Iterable[int] | None = None
) -> tuple[int, ...]:
    """Sample some of the given subwords of a function, or of all, by hash; ascending."""
    candidates = range(len(prepared_item.alignment.subwords)) if positions is None else positions
    order = sorted(candidates, key=lambda position: unit_hash(salt, prepared_item.item.item_id, position))
    return tuple(sorted(order[:count]))


def read_fits(settings: LensSettings) -> FittedInterventions:
    """Read the interventions that the stage before fitted."""
    path = settings.stage_result
    assert path is not None, "the first stage hands a table on"
    return _read(path, str(settings.found[STAGE_RESULT_KEY]))


@functools.lru_cache(maxsize=2)
def _read(path: Path, _: str) -> FittedInterventions:
    table = scan_files(path).collect()
    sides = table.filter(pl.col("method") == SPLIT)
    fits = [_fit(row) for row in table.filter(pl.col("method") != SPLIT).iter_rows(named=True)]
    return FittedInterventions(
        tuple(fits),
        dict(sides.select("subject", "kind").iter_rows()),
        frozenset(sides.filter(pl.col("rank") == MEASURED_RANK)["subject"].to_list()),
    )


def _fit(row: Mapping[str, object]) -> FittedIntervention:
    arrays = {
        name: np.frombuffer(content, dtype=np.float32)
        for name in ("down", "up", "centre", "values")
        if isinstance(content := row[name], bytes)
    }
    rank = int(str(row["rank"]))
    eraser = None
    if "down" in arrays:
        centre = arrays["centre"]
        eraser = Eraser(
            arrays["down"].reshape(len(centre), rank), arrays["up"].reshape(rank, len(centre)), centre
        )
    values = arrays["values"].reshape(rank, -1) if "values" in arrays else None
    heads, marks = row["heads"], row["marks"]
    return FittedIntervention(
        method=str(row["method"]),
        subject=str(row["subject"]),
        kind=str(row["kind"]),
        layer=int(str(row["layer"])),
        heads=tuple(heads) if isinstance(heads, Sequence) else (),
        eraser=eraser,
        values=values,
        marks=tuple(marks) if isinstance(marks, Sequence) else (),
        together=bool(row["together"]),
    )


ROWS_COLUMNS: Columns = {
    "item_id": (pl.String, "the function"),
    "what": (
        pl.String,
        "`mean`: states of the whole function. `token`, `subword`: of a token, of a subword. `head`: what "
        "all heads give at a subword. `edge`: whether heads hit an edge of a relation. `effect`: what "
        "changed (second stage). `layer`: what a layer says through the model's head. `word`: a subword that "
        "was asked for, `state` its states. `pair`: two functions between which states are put. `cell`: what "
        "that did. `hit`: edges of a relation that its head hits, with something erased or nothing. `part`: "
        "states of one subword of a token. `place`: where a property is erased. "
        "`moved`: how far a map moves states (third stage)",
    ),
    "method": (pl.String, "method of the row; empty if nothing was changed"),
    "subject": (pl.String, "the property that is erased, or the relation whose heads are ablated"),
    "kind": (
        pl.String,
        "the change itself (`leace`, `heads`), or a control; for `head`, the position of the subword",
    ),
    "layer": (pl.Int32, "layer of the change, 0 for the embeddings; for heads, from 0; null for no change"),
    "group": (
        pl.String,
        "for an `effect`: the construct of the subwords, or `keyword`; for heads, their role in a relation; "
        "for a `pair`: the variable that is swapped in",
    ),
    "n": (pl.Int32, "subwords scored; for a `hit`, edges of the relation"),
    "before": (pl.Float64, "their nats without a change"),
    "after": (
        pl.Float64,
        "their nats with the change; for `moved`, the sum of squared changes of `n` states",
    ),
    "right_before": (
        pl.Int32,
        "for an `effect`: subwords that are the model's first choice without a change",
    ),
    "right_after": (pl.Int32, "for an `effect`: subwords that are its first choice with the change"),
    "target": (pl.Float64, "for a `cell`: the margin of the text whose states are copied"),
    "guess": (pl.Float64, "for a `cell`: the change of the margin as its gradient predicts it"),
    "hits": (
        pl.Int32,
        "subwords that are a layer's first choice; for a `pair`, pairs with equal tokenization; for a `hit`, "
        "edges",
    ),
    "settled": (pl.Int32, "subwords that are the first choice of a layer and all later ones"),
    "start": (
        pl.Int32,
        "first character of a token or of the place of a `pair`, or index of a subword; for `word` and "
        "`state`, its id",
    ),
    "end": (pl.Int32, "its end, exclusive"),
    "first": (pl.Int32, "first layer whose states are in the row"),
    "states": (pl.Binary, "states in half precision, layer by layer, each divided by its scale"),
    "scale": (pl.List(pl.Float32), "scale of each layer, a power of two"),
}
"""Columns of both stages' item tables; what does not apply is null."""


ROWS_SCHEMA = to_schema(ROWS_COLUMNS)


@dataclass(slots=True)
class RowBuilder:
    """Rows of an item table."""

    plain: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    _state_rows: list[tuple[dict[str, object], Float[np.ndarray, "layer width"]]] = field(
        default_factory=list[tuple[dict[str, object], Float[np.ndarray, "layer width"]]]
    )

    def add(self, **columns: object) -> None:
        """Add a row without states."""
        self.plain.append(columns)

    def add_states(self, states: Float[np.ndarray, "layer width"], **columns: object) -> None:
        """Add a row with states."""
        self._state_rows.append((columns, states))

    def frame(self) -> pl.DataFrame:
        """Return all rows as a table.

        Raises:
            CaptureError: A state is infinite or NaN.
        """
        rows = [*self.plain]
        by_shape: dict[tuple[int, ...], list[tuple[dict[str, object], np.ndarray]]] = {}
        for columns, states in self._state_rows:
            by_shape.setdefault(states.shape, []).append((columns, states))
        for group in by_shape.values():
            packed, scale = pack(
                np.stack([states for _, states in group]), [str(row["item_id"]) for row, _ in group]
            )
            rows += [
                {**columns, "states": states, "scale": row_scale}
                for (columns, _), states, row_scale in zip(group, packed, scale.tolist(), strict=True)
            ]
        return pl.DataFrame(rows, schema=dict(ROWS_SCHEMA), orient="row")


def unpack_states(rows: pl.DataFrame) -> Float[np.ndarray, "layer row width"]:
    """Return the states of rows that hold the same layers."""
    return unpack(rows["states"].to_list(), np.array(rows["scale"].to_list(), dtype=np.float32))
