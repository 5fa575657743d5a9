"""Erasure: LEACE written anew, fitted to states read anew, put in by a hook, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tests.recomputed.agreement import HALF, Agreement, compare
from tests.recomputed.plain_model import Encoded, Hook, PlainModel, Scored
from tests.recomputed.run_folder import RunFolder

FEWEST = 10
"""Functions of the training part that a class must have."""

Places = Mapping[str, list[tuple[int, int]]]


@dataclass(frozen=True, slots=True, eq=False)
class Eraser:
    """``x -> x - (x - centre) @ down @ up``."""

    down: Float[np.ndarray, "width rank"]
    up: Float[np.ndarray, "rank width"]
    centre: Float[np.ndarray, " width"]

    def __call__(self, states: Tensor) -> Tensor:
        """Map states."""
        down, up, centre = (
            torch.tensor(part, dtype=torch.float32) for part in (self.down, self.up, self.centre)
        )
        return states - (states - centre) @ down @ up


def fit_leace(
    states: Float[np.ndarray, "unit width"],
    labels: Int[np.ndarray, " unit"],
    weights: Float[np.ndarray, " unit"],
) -> Eraser:
    """Fit LEACE: ``W^+ P W``, P the projection onto ``W cov(x, z)`` (Belrose et al. 2023, theorem 4.3)."""
    share = weights / weights.sum()
    classes = np.eye(labels.max() + 1)[labels]
    centre = share @ states
    moved, told = states - centre, classes - share @ classes
    spread = (moved * share[:, None]).T @ moved
    values, vectors = np.linalg.eigh(spread)
    kept = values > values.max() * len(values) * np.finfo(np.float64).eps
    vectors, values = vectors[:, kept], values[kept]
    whiten, back = ((vectors * values**power) @ vectors.T for power in (-0.5, 0.5))
    left, strength, _ = np.linalg.svd(whiten @ (moved * share[:, None]).T @ told, full_matrices=False)
    basis = left[:, strength > 1e-6]
    return Eraser(whiten @ basis, basis.T @ back, centre)


def recompute(run: RunFolder, plain: PlainModel, most: int) -> Iterator[Agreement]:
    """Compare the effects of erasing each property of tokens at one layer."""
    rows = run.observations("causal.1")
    effects = rows.filter(
        (pl.col("what") == "effect") & (pl.col("method") == "erase") & (pl.col("kind") == "leace")
    )
    splits = run.fits().filter(pl.col("method") == "split")
    train = splits.filter(pl.col("kind") == "train")["subject"]
    tokens = run.observations("causal").filter(
        (pl.col("what") == "token") & pl.col("item_id").is_in(train.implode())
    )
    for task in effects["subject"].unique(maintain_order=True):
        labels = run.labels(task, "causal").filter(pl.col("label").is_not_null())
        if not plain.decoder or not labels.join(tokens, on=["item_id", "start", "end"], how="semi").height:
            continue
        layer = max(effects["layer"].to_list()) // 2
        eraser = _fit(run, plain, labels, tokens, layer)
        yield from _compare(run, plain, labels, effects.filter(pl.col("subject") == task), layer, eraser)


def _fit(run: RunFolder, plain: PlainModel, labels: pl.DataFrame, tokens: pl.DataFrame, layer: int) -> Eraser:
    """Fit to the subwords of the tokens that were looked at, each by one over the length of its token."""
    mine = labels.filter(pl.col("item_id").is_in(tokens["item_id"].implode()))
    kept = (
        mine.group_by("label").agg(pl.col("item_id").n_unique()).filter(pl.col("item_id") >= FEWEST)["label"]
    )
    keys = ["item_id", "start", "end"]
    mine = mine.filter(pl.col("label").is_in(kept.implode())).join(tokens, on=keys, how="semi").sort(keys)
    classes = sorted(kept)
    states, numbers, weights = [], [], []
    for part in mine.partition_by("item_id", maintain_order=True):
        encoded = plain.encode(run.texts[part["item_id"][0]])
        layers = plain.states(encoded.ids)[layer]
        for start, end, label in part.select("start", "end", "label").iter_rows():
            own = layers[encoded.sharing(start, end)]
            states.append(own)
            numbers += [classes.index(label)] * len(own)
            weights += [1 / len(own)] * len(own)
    return fit_leace(np.concatenate(states).astype(np.float64), np.array(numbers), np.array(weights))


def _compare(
    run: RunFolder, plain: PlainModel, labels: pl.DataFrame, effects: pl.DataFrame, layer: int, eraser: Eraser
) -> Iterator[Agreement]:
    stored: list[tuple[float, float]] = []
    own: list[tuple[float, float]] = []
    rows = effects.filter(pl.col("layer") == layer)
    for part in rows.partition_by("item_id", maintain_order=True):
        item = part["item_id"][0]
        encoded = plain.encode(run.texts[item])
        where = subwords_of(encoded, labels.filter(pl.col("item_id") == item))

        def erase(states: Tensor, where: Int[np.ndarray, " subword"] = where) -> Tensor:
            states[where] = eraser(states[where])
            return states

        after = plain.score(encoded.ids, [Hook(plain.residual(layer), erase)])
        stored.append((float(part["before"].sum()), float(part["after"].sum())))
        own.append((total(plain.score(encoded.ids)), total(after)))
    name = f"erasing {effects['subject'][0]} at layer {layer}: nats of a function"
    yield compare(f"{name} before", [one[0] for one in stored], [one[0] for one in own])
    yield compare(f"{name} after", [one[1] for one in stored], [one[1] for one in own], tolerance=HALF)


def subwords_of(encoded: Encoded, labels: pl.DataFrame) -> Int[np.ndarray, " subword"]:
    """Return the subwords of labelled tokens."""
    places = [encoded.sharing(start, end) for start, end in labels.select("start", "end").iter_rows()]
    return np.unique(np.concatenate(places))


def total(scored: Scored) -> float:
    """Return the nats of all subwords that were scored."""
    return float(np.nansum(scored.nats))
