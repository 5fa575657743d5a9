"""Chosen rows of the attention matrices, computed beside a forward that never stores a whole matrix.

Transformers calls a registered attention function with the queries, keys and mask of each layer. Ours
returns what PyTorch's fused attention returns and, for the query rows asked for, computes the softmax on the
side. Models that do not use the interface are run with eager attention, layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

from sonde.base.errors import CaptureError
from sonde.models import LoadedModel

_NAME = "sonde_rows"


class RowRecorder:
    """Collects the rows of every self-attention layer during one forward.

    Args:
        columns: Query columns wanted of each row of the batch, padded with any valid column.
    """

    def __init__(self, columns: Int[Tensor, "batch row"]) -> None:
        self._columns = columns
        self.layers: list[Float[Tensor, "batch head row token"]] = []

    def record(
        self,
        module: Any,
        query: Float[Tensor, "batch head token d_head"],
        key: Float[Tensor, "batch key_head token d_head"],
        mask: Tensor | None,
        scaling: float | None,
        is_causal: bool,
        position_bias: Tensor | None,
    ) -> None:
        """Compute the rows of one layer; cross-attention is left alone."""
        if is_cross_attention(module, query, key):
            return
        self.layers.append(attention_rows(query, key, mask, self._columns, scaling, is_causal, position_bias))

    def take(self, matrices: tuple[Float[Tensor, "batch head token token"], ...]) -> None:
        """Pick the rows from whole matrices, as eager attention returns them."""
        self.layers += [pick_rows(matrix, self._columns).float() for matrix in matrices]


_recorder: ContextVar[RowRecorder | None] = ContextVar("sonde_row_recorder", default=None)


def is_cross_attention(module: Any, query: Tensor, key: Tensor) -> bool:
    """Whether a call looks from one sequence at another."""
    return query.shape[2] != key.shape[2] or bool(getattr(module, "is_cross_attention", False))


def attention_rows(
    query: Float[Tensor, "batch head token d_head"],
    key: Float[Tensor, "batch key_head token d_head"],
    mask: Tensor | None,
    columns: Int[Tensor, "batch row"],
    scaling: float | None = None,
    is_causal: bool = False,
    position_bias: Tensor | None = None,
) -> Float[Tensor, "batch head row token"]:
    """Softmax probabilities of chosen query rows.

    Args:
        query: Queries.
        key: Keys; fewer heads than the queries where heads share them.
        mask: None, bool (True = may attend) or additive; axes that are 1 are broadcast.
        columns: The query columns of each row of the batch.
        scaling: Factor of the scores; None means one over the root of ``d_head``.
        is_causal: Whether a missing mask means the triangle.
        position_bias: Added to the scores (T5).
    """
    groups = query.shape[1] // key.shape[1]
    keys = key.repeat_interleave(groups, dim=1) if groups > 1 else key
    factor = query.shape[-1] ** -0.5 if scaling is None else scaling
    scores = (pick_rows(query, columns) @ keys.transpose(2, 3)).float() * factor
    if position_bias is not None:
        scores = scores + pick_rows(position_bias.expand(len(query), -1, -1, -1), columns)
    if mask is None:
        if is_causal:
            later = torch.arange(keys.shape[2], device=columns.device) > columns[:, None, :, None]
            scores = scores.masked_fill(later, -torch.inf)
    else:
        rows = pick_rows(mask.expand(len(query), -1, -1, -1), columns)
        scores = scores.masked_fill(~rows, -torch.inf) if rows.dtype == torch.bool else scores + rows
    return scores.softmax(-1)


def pick_rows(
    matrix: Float[Tensor, "batch head token axis"], columns: Int[Tensor, "batch row"]
) -> Float[Tensor, "batch head row axis"]:
    """Take other query rows from each row of the batch."""
    index = columns[:, None, :, None].expand(-1, matrix.shape[1], -1, matrix.shape[3])
    return matrix.gather(2, index)


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The registered function: fused attention, with the rows of the running recorder on the side."""
    recorder = _recorder.get()
    if recorder is not None:
        triangle = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        recorder.record(module, query, key, attention_mask, scaling, triangle, position_bias)
    return sdpa_attention_forward(
        module,
        query,
        key,
        value,
        attention_mask,
        dropout=dropout,
        scaling=scaling,
        is_causal=is_causal,
        position_bias=position_bias,
        **kwargs,
    )


@contextmanager
def recording(loaded: LoadedModel) -> Generator[Callable[[Tensor], Any]]:
    """Switch a model to an attention that can be read, and back afterwards.

    Yields:
        A function from query columns to a context in which one forward is recorded.

    Raises:
        CaptureError: The model gives no attention.
    """
    how = loaded.capabilities.attention
    if how not in ("interface", "eager"):
        raise CaptureError(f"model {loaded.spec.name!r} gives no attention rows; ask for states instead")
    AttentionInterface.register(_NAME, _attend)
    AttentionMaskInterface.register(_NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    previous = loaded.model.config._attn_implementation
    loaded.model.set_attn_implementation(_NAME if how == "interface" else "eager")
    try:
        yield _record
    finally:
        loaded.model.set_attn_implementation(previous)


@contextmanager
def _record(columns: Int[Tensor, "batch row"]) -> Generator[RowRecorder]:
    recorder = RowRecorder(columns)
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)
