"""A base model that reads the rows of each batch beside the model, and what the two differ by.

Both bodies read a batch one after the other. Then the states of some positions are projected by both heads,
their logits are reduced to a few numbers, and the next positions follow: the logits of a batch never exist
as a whole. So memory holds the weights of two models and one batch.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.base.errors import CaptureError, InputError
from sonde.capture.fidelity import ComparedSubwords, Fidelity
from sonde.capture.reducer import BatchReducer, Block, ForwardBatch, ForwardStates, PositionTable, Reducer
from sonde.capture.requests import InputRequest
from sonde.capture.scoring import count_rows_together, top_logits
from sonde.capture.tensors import BatchTokens, PendingDownload, PendingUpload, gather_positions
from sonde.capture.windows import Row
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.models.engine.lm_head import body_and_head

_CPU_ROWS = 64
"""States whose logits are reduced at a time on a CPU, of both models, at most."""


_references: dict[ModelSpec, LoadedModel] = {}
"""The one base that this process holds."""


def load_reference(spec: ModelSpec) -> LoadedModel:
    """Load a base, or return the one that was loaded last; another one is let go first."""
    if spec not in _references:
        _references.clear()
        gc.collect()
        _references[spec] = load_model(spec)
    return _references[spec]


class ComparedPositions(NamedTuple):
    """The columns of `ComparedSubwords` at some positions, on the device."""

    kl: Float[Tensor, " position"]
    kl_reverse: Float[Tensor, " position"]
    nats: Float[Tensor, " position"]
    base_nats: Float[Tensor, " position"]
    choice: Int[Tensor, " position"]
    base_choice: Int[Tensor, " position"]


def compare_positions(
    states: Float[Tensor, "position d_model"],
    base_states: Float[Tensor, "position d_base"],
    head: Callable[[Tensor], Tensor],
    base_head: Callable[[Tensor], Tensor],
    gold: Int[Tensor, " position"],
    chunk: int,
) -> ComparedPositions:
    """Compare what two models predict at some positions.

    Args:
        states: Last hidden states of the model.
        base_states: Those of the base.
        head: From states of the model to logits over the vocabulary.
        base_head: The same of the base.
        gold: The id that stands after each position.
        chunk: States whose logits exist at the same time.
    """
    parts: list[ComparedPositions] = []
    number = max(1, -(-len(states) // chunk))
    # Even chunks, since a matrix of one to three rows is multiplied by other code, which rounds otherwise.
    for chunk_states, chunk_base, chunk_gold in zip(
        states.tensor_split(number), base_states.tensor_split(number), gold.tensor_split(number), strict=True
    ):
        parts += _compare_chunk(head(chunk_states), base_head(chunk_base), chunk_gold)
    return ComparedPositions(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


def _compare_chunk(
    logits: Float[Tensor, "some vocab"], base_logits: Float[Tensor, "some vocab"], gold: Int[Tensor, " some"]
) -> Iterator[ComparedPositions]:
    size = count_rows_together(logits, _CPU_ROWS)
    rows = zip(logits.split(size), base_logits.split(size), gold.split(size), strict=True)
    return (compare_logits(*parts) for parts in rows)


def compare_logits(
    logits: Float[Tensor, "position vocab"],
    base_logits: Float[Tensor, "position vocab"],
    gold: Int[Tensor, " position"],
) -> ComparedPositions:
    """Compare logits of two models; both are overwritten where they are float32 already.

    With ``y = logit - max`` and ``z = sum(exp(y))`` of either side, and ``d`` the difference of the ``y``,
    KL(base ‖ model) is ``log z - log z_base - sum(exp(y_base) d) / z_base``: no log-probabilities are made.
    """
    best, choice = top_logits(logits.float(), 1)
    base_best, base_choice = top_logits(base_logits.float(), 1)
    centred, base_centred = logits.float().sub_(best), base_logits.float().sub_(base_best)
    gold_value, base_gold_value = (side.gather(1, gold[:, None])[:, 0] for side in (centred, base_centred))
    apart = centred - base_centred
    weights, base_weights = centred.exp_(), base_centred.exp_()
    total, base_total = weights.sum(1), base_weights.sum(1)
    log_total, base_log_total = total.log(), base_total.log()
    shift = log_total - base_log_total
    mean, base_mean = (
        _average(side, apart) / side_total
        for side, side_total in ((weights, total), (base_weights, base_total))
    )
    return ComparedPositions(
        # Rounding may leave a divergence of nothing a hair below it.
        kl=(shift - base_mean).clamp_(min=0),
        kl_reverse=(mean - shift).clamp_(min=0),
        nats=log_total - gold_value,
        base_nats=base_log_total - base_gold_value,
        choice=choice[:, 0],
        base_choice=base_choice[:, 0],
    )


def _average(weights: Float[Tensor, "position vocab"], values: Float[Tensor, "position vocab"]) -> Tensor:
    """Return the weighted sums; an entry without weight counts nothing, whatever its value."""
    sums = torch.linalg.vecdot(weights, values)
    if bool(torch.isfinite(sums).all()):
        return sums
    return torch.linalg.vecdot(weights, values.masked_fill(weights == 0, 0.0))


class ReferenceReducer(Reducer[Fidelity]):
    """Compares the model with a base that reads the same rows.

    Raises:
        InputError: The vocabularies differ in size.
    """

    kind = Fidelity

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        (spec,) = {request.base for request in self.requests.values()}
        self.base = load_reference(dataclasses.replace(spec, device=block.loaded.spec.device))
        sizes = [side.capabilities.vocab for side in (block.loaded, self.base)]
        if sizes[0] != sizes[1]:
            raise InputError(
                f"model {block.loaded.spec.full_name!r} has {sizes[0]:,} logits and its base "
                f"{spec.full_name!r} {sizes[1]:,}; name two models of one vocabulary"
            )
        self.body, head = body_and_head(self.base)
        self.head = head.to_float32()
        self.table = PositionTable(self.requests, block, ComparedSubwords.empty)

    def plan(self, batch: ForwardBatch) -> BatchReducer[ReferenceReducer] | None:
        """Plan the comparison of a batch in which any position is scored.

        Raises:
            CaptureError: The base takes fewer positions than a row has.
        """
        asks = any(row.source in self.requests and len(row.query) for row in batch.rows)
        return _ReferenceBatch(self, batch) if asks else None

    def get_answers(self, source: int) -> dict[type[InputRequest], ComparedSubwords | None]:
        """Return the comparison of one input."""
        return {Fidelity: self.table.get(source)}


class _BaseRows(NamedTuple):
    """Rows that the base reads together.

    Attributes:
        tokens: What it reads.
        places: Row and column of each scored position.
    """

    tokens: BatchTokens
    places: tuple[PendingUpload, PendingUpload]


class _ReferenceBatch(BatchReducer[ReferenceReducer]):
    """Compares the scored positions of one batch."""

    def __init__(self, reducer: ReferenceReducer, batch: ForwardBatch) -> None:
        super().__init__(reducer, batch)
        base, upload = reducer.base, batch.upload
        longest = max(batch.rows, key=lambda row: row.size)
        if longest.size > base.capabilities.context:
            raise CaptureError(
                f"{reducer.block.describe_row(longest)}: its {longest.size:,} tokens do not fit into the "
                f"base {base.spec.full_name!r}, which takes {base.capabilities.context:,}; give a smaller "
                "--context"
            )
        groups = _group_rows(batch.rows, base)
        self._parts = [
            _BaseRows(
                BatchTokens([batch.rows[index] for index in group], "decoder", base.special.pad, upload),
                _add_places(batch, group),
            )
            for group in groups
        ]
        self._places = _add_places(batch, range(len(batch.rows)))
        sizes = np.array([len(row.query) for row in batch.rows])
        starts = np.cumsum(sizes) - sizes
        positions = [starts[index] + np.arange(sizes[index]) for group in groups for index in group]
        self._order = upload.add(np.argsort(np.concatenate(positions)))
        self._gold = upload.add(np.concatenate([row.gold for row in batch.rows]))
        self._columns: dict[str, PendingDownload] = {}

    def reduce(self, states: ForwardStates) -> None:
        """Keep the last states of the positions, and let the base read the rows."""
        self._last = gather_positions(states.last, self._places)
        parts = [
            gather_positions(self.reducer.body(**part.tokens.arguments()).last_hidden_state, part.places)
            for part in self._parts
        ]
        self._base_last = parts[0] if len(parts) == 1 else torch.cat(parts)[self._order.tensor]

    def project(self) -> None:
        """Compare the logits of both, and have the numbers fetched."""
        block = self.reducer.block
        compared = compare_positions(
            self._last,
            self._base_last,
            block.head,
            self.reducer.head,
            self._gold.tensor,
            # Two matrices of logits stand in the place of one.
            max(1, block.chunk // 2),
        )
        self._columns = {name: self.batch.download.add(column) for name, column in compared._asdict().items()}

    def store(self) -> None:
        """Store the numbers of all rows.

        Raises:
            CaptureError: A number is not finite.
        """
        rows = self.batch.rows
        columns = {name: download.array for name, download in self._columns.items()}
        finite = np.logical_and.reduce(
            [np.isfinite(columns[name]) for name in ("kl", "kl_reverse", "nats", "base_nats")]
        )
        if not finite.all():
            position = int(np.flatnonzero(~finite)[0])
            owners = [row for row in rows for _ in row.target]
            subword = np.concatenate([row.target for row in rows])[position]
            raise self.reducer.block.build_error(
                owners[position], f", subword {subword}: its divergence from the base is not finite"
            )
        self.reducer.table.store(rows, columns | {"scored": np.ones(len(finite), np.bool_)})


def _group_rows(rows: Sequence[Row], base: LoadedModel) -> list[list[int]]:
    """Group rows that the base may read together: all, or those of one length, or each alone."""
    if base.alone:
        return [[index] for index in range(len(rows))]
    by_length: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        by_length.setdefault(0 if base.takes_padding else row.size, []).append(index)
    return list(by_length.values())


def _add_places(batch: ForwardBatch, group: Sequence[int]) -> tuple[PendingUpload, PendingUpload]:
    rows = [batch.rows[index] for index in group]
    index = np.repeat(np.arange(len(rows)), [len(row.query) for row in rows])
    return batch.upload.add(index), batch.upload.add(np.concatenate([row.query for row in rows]))
