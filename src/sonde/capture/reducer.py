"""Reducers: how each type of request takes its answers from the forward pass of a batch.

A `Reducer` lives as long as a block of inputs. It plans a `BatchReducer` for each batch of rows before the
forward pass, which takes its numbers on the device, and stores them when they were fetched. The answers of an
input are complete when all of its windows were read. All of it is done for whole batches: what is stored may
be arrays over all inputs of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from sonde.base.errors import CaptureError, explain_nan
from sonde.capture.attention_backend import AttentionReader
from sonde.capture.hooks import ModelHooks
from sonde.capture.merge_requests import InputVariant
from sonde.capture.requests import InputRequest, Prepared
from sonde.capture.tensors import Download, Upload
from sonde.capture.windows import Row
from sonde.models import LoadedModel
from sonde.models.engine.lm_head import FullHead

R = TypeVar("R", bound=InputRequest)
A = TypeVar("A")
Owner = TypeVar("Owner")


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The inputs of one model that are read together.

    Attributes:
        loaded: The model.
        prepared: The items.
        inputs: The distinct inputs.
        sizes: Positions of each input that can be scored: its subwords, or pads.
        head: From states to logits.
        chunk: States whose logits exist at the same time.
        hooks: Where states can be read and changed inside the model; None where no input needs that.
    """

    loaded: LoadedModel
    prepared: Sequence[Prepared]
    inputs: Sequence[InputVariant]
    sizes: Sequence[int]
    head: FullHead
    chunk: int
    hooks: ModelHooks | None

    def get_requests(self, kind: type[R]) -> dict[int, R]:
        """Return the requests of one type by index of the input."""
        requests = ((source, variant.wanted.get(kind)) for source, variant in enumerate(self.inputs))
        return {source: request for source, request in requests if request is not None}

    def get_item(self, row: Row) -> Prepared:
        """Return the item of a row."""
        return self.prepared[self.inputs[row.source].item]

    def describe_row(self, row: Row) -> str:
        """Return what messages call the item of a row."""
        item = self.get_item(row).item
        return f"model {self.loaded.spec.name!r}, item {item.item_id} ({item.path} {item.name})"

    def build_error(self, row: Row, message: str) -> CaptureError:
        """Build the error of numbers of a row that are not finite."""
        return CaptureError(f"{self.describe_row(row)}{message}; {explain_nan(self.loaded.model.dtype)}")


@dataclass(frozen=True, slots=True, eq=False)
class ForwardBatch:
    """Rows that are forwarded together.

    Attributes:
        rows: The rows.
        upload: Takes arrays to the device; it is sent after all reducers have planned.
        download: Takes tensors back; it is fetched after all of them have read.
        source: The state of each scored position where rows share prefixes; None where each has its own.
    """

    rows: Sequence[Row]
    upload: Upload
    download: Download
    source: Int[np.ndarray, " position"] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ForwardStates:
    """The states of a forward pass.

    Attributes:
        last: Last states as the LM head takes them; of rows that share prefixes those in use alone.
        layers: States of all layers, if a reducer needs them. The last of them is before the model's final
            norm in some models and after it in others.
    """

    last: Float[Tensor, "batch token d_model"] | Float[Tensor, "state d_model"]
    layers: Sequence[Tensor | None] | None = None


class BatchReducer(Generic[Owner]):
    """Takes the numbers of one type of request from one batch.

    Args:
        reducer: Where they are stored.
        batch: The rows.

    Attributes:
        readers: What reads attention during the forward pass.
        needs_layers: Whether the states of all layers are needed.
    """

    readers: Sequence[AttentionReader] = ()
    needs_layers: ClassVar[bool] = False

    def __init__(self, reducer: Owner, batch: ForwardBatch) -> None:
        self.reducer = reducer
        self.batch = batch

    def open_hooks(self) -> AbstractContextManager[Any]:
        """Return a context in which the model is forwarded."""
        return nullcontext()

    def reduce(self, states: ForwardStates) -> None:
        """Reduce on the device, and add what has to be fetched to the download.

        What the model's own code raises here leaves out the input that it fails on.

        Raises:
            InputError: Something is requested that the model does not have.
            CaptureError: The model did not return it.
        """
        raise NotImplementedError

    def project(self) -> None:
        """Project reduced states on the vocabulary, after all reducers have read the states of the layers.

        What the model's head raises here ends the run, since it does not depend on the input.
        """

    def store(self) -> None:
        """Store what was fetched.

        Raises:
            CaptureError: A number is not finite.
        """
        raise NotImplementedError


class Reducer(Generic[R]):
    """Answers one type of request for all inputs of a block; a subclass may answer several together.

    Args:
        block: The inputs.

    Attributes:
        kind: The type of request.
        batch_reducer: What takes its numbers from a batch.
        requests: The requests by index of the input.
        answers: Stored answers, or what they are made of, by index of the input.
    """

    kind: type[R]
    batch_reducer: Callable[[Any, ForwardBatch], BatchReducer[Any]]

    def __init__(self, block: Block) -> None:
        self.block = block
        self.requests = block.get_requests(self.kind)
        self.answers: dict[int, Any] = {}

    def plan(self, batch: ForwardBatch) -> BatchReducer[Any] | None:
        """Plan the part of a batch; None where it holds nothing of the type."""
        asks = any(row.source in self.requests for row in batch.rows)
        return type(self).batch_reducer(self, batch) if asks else None

    def get_answers(self, source: int) -> dict[type[InputRequest], Any]:
        """Return the answers of one input by type of request, after its last window."""
        return {self.kind: self.get_answer(source)}

    def get_answer(self, source: int) -> Any:
        """Return the answer of one input; None where there is none."""
        return self.answers.get(source)


class PositionTable(Generic[A]):
    """Answers with one row per position, for all inputs of a block one after the other.

    Args:
        requests: The inputs that ask, by index.
        block: The inputs.
        build: Builds empty answers of so many rows: a dataclass of arrays.
    """

    def __init__(self, requests: Mapping[int, Any], block: Block, build: Callable[[int], A]) -> None:
        ends = np.cumsum([0, *(block.sizes[source] for source in requests)]).tolist()
        self._spans = dict(zip(requests, pairwise(ends), strict=True))
        self._answers = build(ends[-1])
        self._names = [field.name for field in fields(self._answers)]  # type: ignore[arg-type]

    def store(self, rows: Sequence[Row], values: Mapping[str, np.ndarray]) -> None:
        """Store what was fetched of the scored positions of a batch, by name of the array."""
        known_rows = [row for row in rows if row.source in self._spans]
        if not known_rows:
            return
        index = np.concatenate([self._spans[row.source][0] + row.target for row in known_rows])
        selection: Any = slice(None)
        if len(known_rows) < len(rows):
            selection = np.repeat(
                [row.source in self._spans for row in rows], [len(row.target) for row in rows]
            )
        for name, array in values.items():
            answers: np.ndarray = getattr(self._answers, name)
            columns = (slice(min(answers.shape[1], array.shape[1])),) if array.ndim > 1 else ()
            answers[(index, *columns)] = array[(selection, *columns)]

    def get(self, source: int) -> A | None:
        """Return the answers of one input; None if it asks for none."""
        if source not in self._spans:
            return None
        rows = slice(*self._spans[source])
        return type(self._answers)(*(getattr(self._answers, name)[rows] for name in self._names))
