"""Ablation: a head's outputs replaced by those at places of the same kind, by a hook, and what it costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tests.recomputed.agreement import HALF, Agreement, compare
from tests.recomputed.attention import split_words
from tests.recomputed.erase import total
from tests.recomputed.plain_model import Encoded, Hook, PlainModel
from tests.recomputed.run_folder import RunFolder, hash_unit

KEPT = 32
"""Donors that are kept of a kind of place."""

MEAN = ""
"""The mark of the mean of all donors, for places whose kind no donor has."""


def recompute(run: RunFolder, plain: PlainModel, most: int) -> Iterator[Agreement]:
    """Compare the donors of one relation's head, and what putting them in costs at its dependents."""
    if not plain.decoder:
        return
    fits = run.fits().filter(
        (pl.col("method") == "ablate") & (pl.col("kind") == "heads") & ~pl.col("together")
    )
    effects = run.observations("causal.1").filter(
        (pl.col("what") == "effect") & (pl.col("method") == "ablate") & (pl.col("kind") == "heads")
    )
    if fits.is_empty() or effects.is_empty():
        return
    fit = fits.row(0, named=True)
    layer, (head,) = fit["layer"], fit["heads"]
    values = np.frombuffer(fit["values"], np.float32).reshape(fit["rank"], -1)
    own, marks = _donors(run, plain, layer, head, values.shape[1])
    name = f"head {layer}.{head} of {fit['subject']}"
    yield compare(f"{name}: a number of a donor", values, own, tolerance=HALF)
    yield compare(f"{name}: kind of a donor", np.ones(len(marks)), np.array(marks) == np.array(fit["marks"]))
    yield from _compare(
        run, plain, effects.filter(pl.col("subject") == fit["subject"]), layer, head, (own, marks), name
    )


def _donors(
    run: RunFolder, plain: PlainModel, layer: int, head: int, width: int
) -> tuple[Float[np.ndarray, "donor width"], list[str]]:
    """Return what the head gives at the places of the training part, the first of each kind, and a mean."""
    splits = run.fits().filter(pl.col("method") == "split", pl.col("kind") == "train")
    read = run.observations("causal").filter(
        (pl.col("what") == "head") & pl.col("item_id").is_in(splits["subject"].implode())
    )
    outputs: dict[tuple[str, int], np.ndarray] = {}
    for part in read.partition_by("item_id", maintain_order=True):
        item = part["item_id"][0]
        given = plain.head_outputs(plain.encode(run.texts[item]).ids)[
            layer, :, head * width : (head + 1) * width
        ]
        outputs |= {(item, at): given[at] for at in part["start"]}
    order = sorted(outputs, key=lambda place: hash_unit("kept", *place))
    kinds = dict(zip(read.select("item_id", "start").iter_rows(), read["kind"], strict=True))
    kept: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for place in order:
        kept[kinds[place]].append(place)
    chosen = {place for places in kept.values() for place in places[:KEPT]}
    held = [place for place in order if place in chosen]
    mean = np.mean(list(outputs.values()), axis=0)
    return np.stack([*(outputs[place] for place in held), mean]), [*(kinds[place] for place in held), MEAN]


def _compare(
    run: RunFolder,
    plain: PlainModel,
    effects: pl.DataFrame,
    layer: int,
    head: int,
    donors: tuple[Float[np.ndarray, "donor width"], list[str]],
    name: str,
) -> Iterator[Agreement]:
    kinds = run.observations("surprisal").sort("position") if run.has("surprisal") else None
    edges = run.labels("syntax_relations", "causal").filter(pl.col("label") == effects["subject"][0])
    stored: list[tuple[float, ...]] = []
    own: list[tuple[float, ...]] = []
    for part in effects.partition_by("item_id", maintain_order=True):
        item = part["item_id"][0]
        if kinds is None or kinds.filter(pl.col("item_id") == item).is_empty():
            continue
        encoded = plain.encode(run.texts[item])
        mine = kinds.filter(pl.col("item_id") == item)
        kind = dict(mine.select("position", "kind").iter_rows())
        index = _index(item, [kind.get(at, "") for at in range(len(encoded.ids))], donors[1])
        put = torch.tensor(donors[0][index])

        def replace(states: Tensor, put: Tensor = put) -> Tensor:
            width = put.shape[1]
            states[:, head * width : (head + 1) * width] = put
            return states

        before = plain.score(encoded.ids)
        after = plain.score(encoded.ids, [Hook(plain.projection(layer), replace)])
        here = _dependents(encoded, run.texts[item], edges.filter(pl.col("item_id") == item))
        own.append((total(before), total(after), before.nats[here].sum(), after.nats[here].sum()))
        told = part.filter(pl.col("group").is_in([effects["subject"][0], "elsewhere"]))
        dependents = told.filter(pl.col("group") != "elsewhere")
        stored.append(
            (told["before"].sum(), told["after"].sum(), dependents["before"].sum(), dependents["after"].sum())
        )
    for number, said in enumerate(
        ("a function before", "a function after", "dependents before", "dependents after")
    ):
        yield compare(
            f"{name} ablated: nats of {said}",
            [one[number] for one in stored],
            [one[number] for one in own],
            tolerance=HALF if number % 2 else 1e-4,
        )


def _index(item: str, kinds: list[str], marks: list[str]) -> Int[np.ndarray, " subword"]:
    """Return the donor of each subword: one of its kind by hash, else the mean."""
    held: defaultdict[str, list[int]] = defaultdict(list)
    for at, mark in enumerate(marks):
        held[mark].append(at)
    return np.array(
        [
            held[kind][int(hash_unit("resample", item, at) * len(held[kind]))]
            if kind in held
            else len(marks) - 1
            for at, kind in enumerate(kinds)
        ]
    )


def _dependents(encoded: Encoded, text: str, edges: pl.DataFrame) -> Int[np.ndarray, " subword"]:
    """Return the subwords of the first token of each dependent."""
    words = {word.start: word for word in split_words(text) if word.end > word.start}
    found = [encoded.sharing(*words[start]) for start in edges["other_start"]]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)
