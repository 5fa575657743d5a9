"""Batches of examples with similar length, in a seeded order, and micro-batches that fit memory.

The order follows from the seed only. Batches are read whole until one does not fit into memory, and from then
on in smaller parts (`MicroBatches`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from sonde.base.errors import InputError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import derive_seed
from sonde.models.engine.memory import if_it_fits
from sonde.training.finetune.data import EncodedExample

_BATCHES_PER_SORT = 32
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


def collate(
    rows: Sequence[int], encoded_examples: Sequence[EncodedExample], pad: int, device: torch.device
) -> Batch:
    """Collate examples into tensors."""
    examples = [encoded_examples[row] for row in rows]
    width = max(len(example.ids) for example in examples)
    ids = np.full((len(examples), width), pad, np.int64)
    part = np.full((len(examples), width), -1, np.int64)
    candidates = np.zeros((len(examples), width + 1), np.bool_)
    repairs = np.zeros((len(examples), width + 1), np.bool_)
    for row, example in enumerate(examples):
        ids[row, : len(example.ids)] = example.ids
        part[row, : len(example.ids)] = example.part
        candidates[row, list(example.candidates)] = True
        repairs[row, list(example.repairs)] = True
    return Batch(
        np.array(rows),
        torch.from_numpy(ids).to(device),
        torch.from_numpy(part).to(device),
        torch.tensor([example.target for example in examples], device=device),
        torch.from_numpy(candidates).to(device),
        torch.tensor([example.location for example in examples], device=device),
        torch.from_numpy(repairs).to(device),
    )


def order_batches(
    encoded_examples: Sequence[EncodedExample], batch: int, seed: int, epoch: int
) -> list[list[int]]:
    """Order the batches of an epoch: shuffled, sorted by length among neighbours, shuffled again."""
    rng = np.random.default_rng(derive_seed("order", seed, epoch))
    order = rng.permutation(len(encoded_examples))
    batches: list[list[int]] = []
    for start in range(0, len(order), batch * _BATCHES_PER_SORT):
        neighbours = sorted(
            order[start : start + batch * _BATCHES_PER_SORT].tolist(),
            key=lambda row: _example_length(encoded_examples, row),
        )
        batches += [neighbours[offset : offset + batch] for offset in range(0, len(neighbours), batch)]
    return [batches[index] for index in rng.permutation(len(batches)).tolist()]


def batch_by_length(encoded_examples: Sequence[EncodedExample], batch: int) -> Iterator[list[int]]:
    """Yield all examples in batches, shortest first."""
    rows = sorted(range(len(encoded_examples)), key=lambda row: _example_length(encoded_examples, row))
    for start in range(0, len(rows), batch):
        yield rows[start : start + batch]


def _example_length(encoded_examples: Sequence[EncodedExample], row: int) -> int:
    return len(encoded_examples[row].ids)


Result = TypeVar("Result")


_FILE = "memory.json"


class MicroBatches:
    """Limit on the padded subwords of a micro-batch, for all settings of a training.

    Args:
        device: Where the model is.
        folder: Of the training, so that it resumes after a kill with the same portions; None keeps nothing.
        at_once: Examples a portion at most; 0 for whole batches.
        is_fixed_size: Whether a portion that does not fit is an error, and none is read as two.

    Attributes:
        maximum: Padded subwords a portion; None while every batch has fitted.
        halved: How often a portion did not fit.
    """

    def __init__(
        self,
        device: torch.device,
        folder: Path | None = None,
        at_once: int = 0,
        *,
        is_fixed_size: bool = False,
    ) -> None:
        self._device, self._path, self._at_once = device, folder and folder / _FILE, at_once
        self._fixed = is_fixed_size
        self.maximum: int | None = None
        self.halved = 0
        if self._path is not None and self._path.is_file():
            state = json.loads(self._path.read_text(encoding="utf-8"))
            self.maximum, self.halved = state["most"], state["halved"]

    def done(
        self,
        rows: Sequence[int],
        encoded_examples: Sequence[EncodedExample],
        work: Callable[[Sequence[int]], Result],
        reset: Callable[[], object] = lambda: None,
    ) -> list[tuple[Sequence[int], Result]]:
        """Process each portion of a batch; return the portions with their results.

        Args:
            rows: The batch.
            encoded_examples: The examples that ``rows`` number.
            work: Takes some of the rows; gives something other than None.
            reset: Takes back what was done for this batch, before it begins anew in smaller portions.

        Raises:
            InputError: One example alone does not fit.
        """
        while True:
            results: list[tuple[Sequence[int], Result]] = []
            for portion in self._split(rows, encoded_examples):
                result = if_it_fits(lambda portion=portion: work(portion), self._device)
                if result is None:
                    reset()
                    self._halve(portion, encoded_examples)
                    break
                results.append((portion, result))
            else:
                return results

    def number(self, rows: int) -> int:
        """Return the number of portions for `rows` examples, while every one fits."""
        return -(-rows // self._at_once) if self._at_once else 1

    def _split(self, rows: Sequence[int], encoded_examples: Sequence[EncodedExample]) -> list[Sequence[int]]:
        if 0 < self._at_once < len(rows):
            size = self._at_once
            parts = [rows[start : start + size] for start in range(0, len(rows), size)]
            return [portion for part in parts for portion in self._split(part, encoded_examples)]
        if self.maximum is None or len(rows) == 1 or _padded_size(rows, encoded_examples) <= self.maximum:
            return [rows]
        middle = (len(rows) + 1) // 2
        return [*self._split(rows[:middle], encoded_examples), *self._split(rows[middle:], encoded_examples)]

    def _halve(self, rows: Sequence[int], encoded_examples: Sequence[EncodedExample]) -> None:
        if self._fixed:
            raise InputError(
                f"{len(rows)} examples at once do not fit into memory; with finetune.fsdp all processes read "
                "alike: give a smaller finetune.at_once"
            )
        if len(rows) == 1:
            raise InputError(
                f"a single example of {len(encoded_examples[rows[0]].ids)} subwords does not fit "
                "into memory; give a smaller finetune.length, or a device with more memory"
            )
        self.maximum = _padded_size(rows[: (len(rows) + 1) // 2], encoded_examples)
        self.halved += 1
        if self._path is not None:
            write_atomic(self._path, json.dumps({"most": self.maximum, "halved": self.halved}))


def _padded_size(rows: Sequence[int], encoded_examples: Sequence[EncodedExample]) -> int:
    return len(rows) * max(len(encoded_examples[row].ids) for row in rows)
