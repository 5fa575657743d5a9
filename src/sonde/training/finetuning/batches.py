"""Batches: examples of like length together, in an order that follows from the seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from sonde.base.fingerprint import derive_seed
from sonde.training.finetuning.data import Encoded

_TOGETHER = 32
"""Batches among which examples are sorted by length; fewer mix lengths better, more pad less."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some examples, padded to the right.

    Attributes:
        rows: Which examples.
        ids: Subwords.
        part: Which text each belongs to; -1 for padding.
        target: Classes.
        candidates: Where a pointer may point; the first place says that nothing is wrong.
        location: Place of the error, -1 beyond the limit.
        repairs: Places of the right variable.
    """

    rows: Int[np.ndarray, " example"]
    ids: Int[Tensor, "example token"]
    part: Int[Tensor, "example token"]
    target: Int[Tensor, " example"]
    candidates: Bool[Tensor, "example place"]
    location: Int[Tensor, " example"]
    repairs: Bool[Tensor, "example place"]


def collate(rows: Sequence[int], encoded: Sequence[Encoded], pad: int, device: torch.device) -> Batch:
    """Some examples as tensors."""
    chosen = [encoded[row] for row in rows]
    width = max(len(one.ids) for one in chosen)
    ids = np.full((len(chosen), width), pad, np.int64)
    part = np.full((len(chosen), width), -1, np.int64)
    candidates = np.zeros((len(chosen), width + 1), np.bool_)
    repairs = np.zeros((len(chosen), width + 1), np.bool_)
    for row, one in enumerate(chosen):
        ids[row, : len(one.ids)] = one.ids
        part[row, : len(one.ids)] = one.part
        candidates[row, list(one.candidates)] = True
        repairs[row, list(one.repairs)] = True
    return Batch(
        np.array(rows),
        torch.from_numpy(ids).to(device),
        torch.from_numpy(part).to(device),
        torch.tensor([one.target for one in chosen], device=device),
        torch.from_numpy(candidates).to(device),
        torch.tensor([one.location for one in chosen], device=device),
        torch.from_numpy(repairs).to(device),
    )


def order(encoded: Sequence[Encoded], batch: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches of an epoch: shuffled, sorted by length among neighbours, shuffled again."""
    rng = np.random.default_rng(derive_seed("order", seed, epoch))
    shuffled = rng.permutation(len(encoded))
    batches: list[list[int]] = []
    for start in range(0, len(shuffled), batch * _TOGETHER):
        some = sorted(
            shuffled[start : start + batch * _TOGETHER].tolist(), key=lambda row: _length(encoded, row)
        )
        batches += [some[place : place + batch] for place in range(0, len(some), batch)]
    return [batches[place] for place in rng.permutation(len(batches)).tolist()]


def by_length(encoded: Sequence[Encoded], batch: int) -> Iterator[list[int]]:
    """All examples, shortest first."""
    rows = sorted(range(len(encoded)), key=lambda row: _length(encoded, row))
    for start in range(0, len(rows), batch):
        yield rows[start : start + batch]


def _length(encoded: Sequence[Encoded], row: int) -> int:
    return len(encoded[row].ids)
