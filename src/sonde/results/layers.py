"""Layers at which a task is encoded: one account for page, terminal, card and tables.

The layer is the one that validation chose. Tested examples say two things of it: whether it is beyond the
control that validation chose, and which layers are surely less accurate, both paired by example and clustered
(`sonde.stats.resampling.difference_by_seed`). What is said of several layers holds for all of them at once
(Bonferroni, `sonde.results.extremes.split_by_threshold`), so that the remaining set holds the truly best
layer in at least 95 of 100 samples, and labels without meaning are called encoded in at most 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from sonde.results.extremes import list_layers, split_by_threshold
from sonde.results.schema import SELECTION, has_dimension_names, has_dimensions
from sonde.results.text_format import Row
from sonde.stats.verdict import allows_verdict, classify_score, minimum_effect

LAYER_GAIN, LAYER_DIFFERENCE = "layer_gain", "layer_difference"
"""Metrics: the accuracy of a layer less that of the control, and less that of the layers that were chosen."""

Status = Literal["encoded", "elsewhere", "slight", "absent", "open", "alone"]

STATUSES: Mapping[Status, str] = {
    "encoded": "encoded",
    "elsewhere": "encoded, but not surely at the layer that validation chose",
    "slight": "beyond its controls by less than matters",
    "absent": "not encoded beyond its controls",
    "open": "too little data",
    "alone": "no control",
}
"""Conclusions about a task, in few words."""

THIRDS = ("early", "middle", "late")

_ACCURACY, _GAIN = "accuracy", "gain"
_KEY = ("model", "task", "language")
_FIRST_COLUMNS = ("corpus_hash", "pooling")
"""Of several the first is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerScore:
    """Test results of one layer.

    Attributes:
        layer: 0 the embeddings.
        accuracy: The score of its accuracy.
        gain: Its gain over the control, paired; None without a control.
        difference: Its difference from the chosen layers, paired; None for the chosen one, and where it was
            not scored.
    """

    layer: int
    accuracy: Row
    gain: Row | None
    difference: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSummary:
    """Layers at which one model encodes a task in a language.

    Attributes:
        accuracy: Score of the layer that validation chose (that each fold chose on its own part).
        control: Score of the control that validation chose; None without one.
        gain: Their paired difference; None without a control.
        status: Conclusion, a key of `STATUSES`.
        tied: The chosen layer and those that are not surely less accurate; None where they were not compared.
        layers_above: Where the chosen layer is not surely beyond the control, the layers that are.
        layers: Every layer, in order.
    """

    accuracy: Row
    control: Row | None
    gain: Row | None
    status: Status
    tied: tuple[int, ...] | None
    layers_above: tuple[int, ...]
    layers: tuple[LayerScore, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        """Return model, task and language."""
        return self.accuracy["model"], self.accuracy["task"], self.accuracy["language"]

    @property
    def chosen(self) -> int:
        """Return the layer that validation chose; with folds the most frequent choice."""
        return self.accuracy["layer"]

    @property
    def named(self) -> tuple[int, ...]:
        """Return the layers that may be said to hold the task; empty if it is not surely encoded."""
        if self.status == "elsewhere":
            return self.layers_above
        return self.tied or (self.chosen,) if self.status == "encoded" else ()

    @property
    def third(self) -> str:
        """Return the third of the depth that holds all `named` layers; empty if there is none."""
        if self.tied is None:
            return ""
        # A layer without a number still counts in the depth.
        depth = 1 + max([self.chosen, *(layer_score.layer for layer_score in self.layers)])
        thirds = {find_third(layer, depth) for layer in self.named}
        return thirds.pop() if len(thirds) == 1 and len(self.layers) >= len(THIRDS) else ""

    def describe(self) -> str:
        """Describe the conclusion in a clause, the same wherever it is read."""
        status, chosen = STATUSES[self.status], list_layers([self.chosen])
        if self.status in ("open", "alone"):
            return f"{status} to say whether it is encoded"
        if self.status == "absent":
            return status
        if self.status == "elsewhere":
            location = f"at the layer that validation chose ({chosen})"
            if self.accuracy["fold_layers"]:
                location = f"at the layers that validation chose in each fold (most often {chosen})"
            return f"encoded at {list_layers(self.layers_above)}, but not surely {location}"
        if self.status != "encoded":
            return f"{status}: {chosen}"
        third = f" ({self.third} third)" if self.third else ""
        return f"{status}: {chosen}{self._describe_other_layers()}{third}"

    def _describe_other_layers(self) -> str:
        if self.tied is None:
            return ""
        if len(self.layers) == 1:
            return ", the only one"
        ties = [layer for layer in self.tied if layer != self.chosen]
        if not ties:
            return ", every other layer is surely less accurate"
        if len(self.tied) == len(self.layers):
            return ", no other layer is surely less accurate"
        return f", {list_layers(ties)} {'is' if len(ties) == 1 else 'are'} not surely less accurate"


def find_third(layer: int, layers: int) -> str:
    """Return the third of the depth that a layer lies in.

    >>> find_third(0, 13), find_third(6, 13), find_third(12, 13)
    ('early', 'middle', 'late')
    """
    return THIRDS[3 * layer // layers]


def summarise_layers(scores: pl.DataFrame) -> list[LayerSummary]:
    """Summarise the layers of every model, task and language, in the order of the table.

    Args:
        scores: Rows of ``scores.parquet`` of a lens whose layers validation chooses by accuracy, those of
            controls included. Of several poolings, or corpora of a language, the first is meant.
    """
    rows = (
        scores.filter(
            pl.col("metric").is_in([_ACCURACY, _GAIN, LAYER_GAIN, LAYER_DIFFERENCE])
            & (pl.col("split") == "test")
            & pl.col("method").ne_missing("mlp")
        )
        .with_columns(_chosen=has_dimensions({SELECTION: "best"}), _every=has_dimension_names())
        .filter(pl.col("_chosen") | pl.col("_every"))
    )
    parts = rows.partition_by(_KEY, maintain_order=True)
    return [summary for part in parts if (summary := _summarise(part.to_dicts()))]


def _summarise(rows: Sequence[Row]) -> LayerSummary | None:
    accuracy = _first(rows, _ACCURACY, None)
    if accuracy is None or accuracy["layer"] is None:
        return None
    pooling_rows = [row for row in rows if all(row[name] == accuracy[name] for name in _FIRST_COLUMNS)]
    gain = next((row for row in pooling_rows if row["_chosen"] and row["metric"] == _GAIN), None)
    control = None if gain is None else _first(pooling_rows, _ACCURACY, gain["control"])
    model_rows = [row for row in pooling_rows if row["control"] is None]
    gains, differences = (_index_by_layer(pooling_rows, metric) for metric in (LAYER_GAIN, LAYER_DIFFERENCE))
    layers = tuple(
        LayerScore(layer=layer, accuracy=row, gain=gains.get(layer), difference=differences.get(layer))
        for layer, row in sorted(_index_by_layer(model_rows, _ACCURACY).items())
    )
    layers_above = _select_sure_layers(gains, is_above=True)
    status = _judge_status(accuracy, gain, layers_above)
    worse_layers = {*_select_sure_layers(differences, is_above=False)} - {accuracy["layer"]}
    is_known = bool(differences) or len(layers) == 1
    return LayerSummary(
        accuracy=accuracy,
        control=control,
        gain=gain,
        status=status,
        tied=tuple(layer_score.layer for layer_score in layers if layer_score.layer not in worse_layers)
        if is_known
        else None,
        layers_above=layers_above if status == "elsewhere" else (),
        layers=layers,
    )


def _first(rows: Sequence[Row], metric: str, control: str | None) -> Row | None:
    of_chosen = (row for row in rows if row["_chosen"] and row["metric"] == metric)
    return next((row for row in of_chosen if row["control"] == control), None)


def _index_by_layer(rows: Sequence[Row], metric: str) -> dict[int, Row]:
    return {row["layer"]: row for row in rows if row["_every"] and row["metric"] == metric}


def _select_sure_layers(differences: Mapping[int, Row], *, is_above: bool) -> tuple[int, ...]:
    """Select layers whose difference is surely above 0 and large enough to matter, or surely below 0."""
    rows = [row for row in differences.values() if allows_verdict(row)]
    higher, lower, _ = split_by_threshold(rows, 0.0)
    if not is_above:
        return tuple(row["layer"] for row in lower)
    return tuple(
        row["layer"]
        for row in higher
        if row["value"] >= minimum_effect(row["metric"], row["ci_method"] or "")
    )


def _judge_status(accuracy: Row, gain: Row | None, layers_above: Sequence[int]) -> Status:
    """Judge the gain of the chosen layer, then the gains of all others.

    Validation chose one layer before anything was tested, so that its gain is judged by its own interval. The
    others are looked at only where that one is not beyond, by intervals that hold for all of them.
    """
    if not allows_verdict(accuracy if gain is None else gain):
        return "open"
    if gain is None:
        return "alone"
    effect = classify_score(gain)
    if effect == "higher":
        return "encoded"
    if layers_above:
        return "elsewhere"
    return "slight" if effect == "slight" and gain["ci_low"] > 0 else "absent"
