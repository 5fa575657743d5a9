"""Batches in parts that fit into memory: whole ones until one does not, and from then on smaller ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from sonde.base.errors import InputError
from sonde.base.files import write_atomic
from sonde.models._memory import if_it_fits
from sonde.training.finetuning.data import Encoded

Result = TypeVar("Result")

_FILE = "memory.json"


class Portions:
    """How many padded subwords are read at once, for all settings of a training.

    Args:
        device: Where the model is.
        folder: Of the training, so that it goes on after a kill with the same portions; None keeps nothing.
        at_once: Examples a portion at most; 0 for whole batches.
        fixed: Whether a portion that does not fit is an error, and none is read as two.

    Attributes:
        most: Padded subwords a portion; None while every batch has fitted.
        halved: How often a portion did not fit.
    """

    def __init__(
        self, device: torch.device, folder: Path | None = None, at_once: int = 0, *, fixed: bool = False
    ) -> None:
        self._device, self._path, self._at_once = device, folder and folder / _FILE, at_once
        self._fixed = fixed
        self.most: int | None = None
        self.halved = 0
        if self._path is not None and self._path.is_file():
            found = json.loads(self._path.read_text(encoding="utf-8"))
            self.most, self.halved = found["most"], found["halved"]

    def done(
        self,
        rows: Sequence[int],
        encoded: Sequence[Encoded],
        work: Callable[[Sequence[int]], Result],
        again: Callable[[], object] = lambda: None,
    ) -> list[tuple[Sequence[int], Result]]:
        """Each portion of a batch with what some work made of it.

        Args:
            rows: The batch.
            encoded: The examples that ``rows`` number.
            work: Takes some of the rows; gives something other than None.
            again: Takes back what was done for this batch, before it begins anew in smaller portions.

        Raises:
            InputError: One example alone does not fit.
        """
        while True:
            finished: list[tuple[Sequence[int], Result]] = []
            for some in self._cut(rows, encoded):
                found = if_it_fits(lambda some=some: work(some), self._device)
                if found is None:
                    again()
                    self._halve(some, encoded)
                    break
                finished.append((some, found))
            else:
                return finished

    def number(self, rows: int) -> int:
        """How many portions so many examples are read in, while every one fits."""
        return -(-rows // self._at_once) if self._at_once else 1

    def _cut(self, rows: Sequence[int], encoded: Sequence[Encoded]) -> list[Sequence[int]]:
        if 0 < self._at_once < len(rows):
            size = self._at_once
            parts = [rows[place : place + size] for place in range(0, len(rows), size)]
            return [some for part in parts for some in self._cut(part, encoded)]
        if self.most is None or len(rows) == 1 or _padded(rows, encoded) <= self.most:
            return [rows]
        half = (len(rows) + 1) // 2
        return [*self._cut(rows[:half], encoded), *self._cut(rows[half:], encoded)]

    def _halve(self, rows: Sequence[int], encoded: Sequence[Encoded]) -> None:
        if self._fixed:
            raise InputError(
                f"{len(rows)} examples at once do not fit into memory; with finetune.fsdp all processes read "
                "alike: give a smaller finetune.at_once"
            )
        if len(rows) == 1:
            raise InputError(
                f"one example of {len(encoded[rows[0]].ids)} subwords alone does not fit into memory; give a "
                "smaller finetune.length, or a device with more memory"
            )
        self.most = _padded(rows[: (len(rows) + 1) // 2], encoded)
        self.halved += 1
        if self._path is not None:
            write_atomic(self._path, json.dumps({"most": self.most, "halved": self.halved}))


def _padded(rows: Sequence[int], encoded: Sequence[Encoded]) -> int:
    return len(rows) * max(len(encoded[row].ids) for row in rows)
