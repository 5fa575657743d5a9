"""Patching: states of one text put into another by a hook, and where the answer goes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from jaxtyping import Int
from torch import Tensor

from tests.recomputed.agreement import NOISE, Agreement, compare
from tests.recomputed.plain_model import Change, Hook, PlainModel
from tests.recomputed.run_folder import RunFolder

CELLS = {
    "place": ("place",),
    "definition": ("definition",),
    "uses": ("uses",),
    "rival": ("rival",),
    "names": ("rival", "uses", "definition"),
    "other": ("other",),
}
"""The roles of the subwords of a cell (docs/files.md)."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A clean and a corrupt text in subwords, up to the place where the model answers.

    Attributes:
        clean, corrupt: Their subwords.
        right, other: The ids that are right in either text.
        roles: What each subword is to the place.
    """

    clean: tuple[int, ...]
    corrupt: tuple[int, ...]
    right: int
    other: int
    roles: list[str]


def make_pair(plain: PlainModel, text: str, place: tuple[int, int], other: str) -> Pair:
    """Exchange the variable at a place with another one everywhere else."""
    start, end = place
    right = text[start:end]
    names = [
        match.span()
        for match in re.finditer(rf"(?<!\w)(?:{re.escape(right)}|{re.escape(other)})(?!\w)", text)
    ]
    exchanged = {right: other, other: right}
    corrupt, position = "", 0
    for begin, stop in names:
        if begin != start:
            corrupt += text[position:begin] + exchanged[text[begin:stop]]
            position = stop
    corrupt += text[position:]
    clean, swapped = plain.encode(text), plain.encode(text[:start] + other + text[end:])
    target = next(at for at in range(len(clean.ids)) if clean.ids[at] != swapped.ids[at])
    roles = ["other"] * target
    definition = next(span for span in names if text[slice(*span)] == right)
    for role in ("rival", "uses", "definition"):
        for span in names:
            name = text[slice(*span)]
            own = "rival" if name == other else "definition" if span == definition else "uses"
            if own == role and span[0] != start:
                for at in clean.sharing(*span):
                    if at < target:
                        roles[at] = role
    roles[target - 1] = "place"
    return Pair(
        clean.ids[:target],
        plain.encode(corrupt).ids[:target],
        clean.ids[target],
        swapped.ids[target],
        roles,
    )


def recompute(run: RunFolder, plain: PlainModel, most: int) -> Iterator[Agreement]:
    """Compare the margins of the first pairs, and every cell that was patched in the first one."""
    if not plain.decoder:
        return
    rows = run.observations("causal.1").filter(pl.col("method") == "patch")
    pairs = rows.filter((pl.col("what") == "pair") & pl.col("start").is_not_null())
    cells = rows.filter((pl.col("what") == "cell") & pl.col("after").is_not_null())
    margins: list[tuple[float, float]] = []
    patched: list[tuple[float, float]] = []
    for row in pairs.iter_rows(named=True):
        pair = make_pair(plain, run.texts[row["item_id"]], (row["start"], row["end"]), row["group"])
        margins += [
            (row["before"], _margin(plain, pair, pair.clean)),
            (row["after"], _margin(plain, pair, pair.corrupt)),
        ]
        if patched:
            continue
        states = {name: plain.states(ids) for name, ids in (("clean", pair.clean), ("corrupt", pair.corrupt))}
        for cell in cells.filter(pl.col("item_id") == row["item_id"]).iter_rows(named=True):
            source, into = ("clean", pair.corrupt) if cell["kind"] == "denoising" else ("corrupt", pair.clean)
            where = np.array(
                [at for at, role in enumerate(pair.roles) if role in CELLS[cell["subject"]]], dtype=np.int64
            )
            put = torch.tensor(states[source][cell["layer"]][where])
            hook = Hook(plain.residual(cell["layer"]), _putting(put, where))
            patched.append((cell["after"], _margin(plain, pair, into, [hook])))
    if margins:
        yield compare("margin of a text of a pair", *zip(*margins, strict=True), tolerance=NOISE)
    if patched:
        yield compare("margin with a cell patched", *zip(*patched, strict=True), tolerance=NOISE)


def _putting(put: Tensor, where: Int[np.ndarray, " subword"]) -> Change:
    def change(states: Tensor) -> Tensor:
        states[where] = put
        return states

    return change


def _margin(plain: PlainModel, pair: Pair, ids: tuple[int, ...], hooks: list[Hook] | None = None) -> float:
    """Return the logit of the variable that is right in the clean text, less that of the other one."""
    logits = plain.read(ids, hooks or []).logits[0, -1]
    return float(logits[pair.right] - logits[pair.other])
