"""Chosen rows of the attention matrices, computed beside a forward that never stores a whole matrix.

Transformers calls a registered attention function with the queries, keys and mask of each layer. Ours
returns what PyTorch's fused attention returns and, for the query rows asked for, computes the softmax on the
side. Models that do not use the interface are run with eager attention; each layer's weights are read and let
go before the next layer makes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

from sonde.base.errors import CaptureError
from sonde.models import LoadedModel

_NAME = "sonde_rows"
_CROSS = ("encoder_attn", "encdecattention", "cross")


class Reader(Protocol):
    """Takes chosen rows of one side of a model, layer after layer.

    Attributes:
        side: ``"encoder"``, ``"decoder"`` or ``"cross"`` (from decoder to encoder).
        columns: Query columns wanted of each row of the batch, padded with any valid column.
    """

    side: str
    columns: Int[Tensor, "batch row"]

    def read(self, rows: Float[Tensor, "batch head row token"]) -> None:
        """Take the rows of the next layer."""
        ...


class RowReader:
    """Keeps rows as they are.

    Args:
        side: Which side.
        columns: Query columns wanted of each row of the batch, padded with any valid column.
    """

    def __init__(self, side: str, columns: Int[Tensor, "batch row"]) -> None:
        self.side = side
        self.columns = columns
        self.layers: list[Float[Tensor, "batch head row token"]] = []

    def read(self, rows: Float[Tensor, "batch head row token"]) -> None:
        """Keep the rows of the next layer."""
        self.layers.append(rows)


class Recorder:
    """Gives each reader its rows of every attention layer during one forward.

    Args:
        readers: What reads.
        side_of: From a module to the side of the model that it belongs to.
    """

    def __init__(self, readers: Sequence[Reader], side_of: Callable[[Any], str]) -> None:
        self._readers = readers
        self._side_of = side_of
        self.layers = 0

    def record(
        self,
        module: Any,
        query: Float[Tensor, "batch head token d_head"],
        key: Float[Tensor, "batch key_head key d_head"],
        mask: Tensor | None,
        scaling: float | None,
        is_causal: bool,
        position_bias: Tensor | None,
    ) -> None:
        """Compute the rows of one layer."""
        self.layers += 1
        side = self._side_of(module)
        for reader in self._readers:
            if reader.side == side:
                rows = attention_rows(query, key, mask, reader.columns, scaling, is_causal, position_bias)
                reader.read(rows)

    def take(self, module: Any, matrix: Float[Tensor, "batch head token key"]) -> None:
        """Pick the rows from a whole matrix, as eager attention makes them."""
        self.layers += 1
        side = self._side_of(module)
        for reader in self._readers:
            if reader.side == side:
                reader.read(pick_rows(matrix, reader.columns).float())


_recorder: ContextVar[Recorder | None] = ContextVar("sonde_attention_recorder", default=None)


def attention_rows(
    query: Float[Tensor, "batch head token d_head"],
    key: Float[Tensor, "batch key_head key d_head"],
    mask: Tensor | None,
    columns: Int[Tensor, "batch row"],
    scaling: float | None = None,
    is_causal: bool = False,
    position_bias: Tensor | None = None,
) -> Float[Tensor, "batch head row key"]:
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
def recording(loaded: LoadedModel) -> Generator[Callable[[Sequence[Reader]], Any]]:
    """Switch a model to an attention that can be read, and back afterwards.

    Yields:
        A function from readers to a context in which one forward is recorded.

    Raises:
        CaptureError: The model gives no attention.
    """
    how = loaded.capabilities.attention
    if how not in ("interface", "eager"):
        raise CaptureError(f"model {loaded.spec.name!r} gives no attention rows; ask for states instead")
    AttentionInterface.register(_NAME, _attend)
    AttentionMaskInterface.register(_NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    side_of = _sides(loaded)
    hooks: list[Any] = []
    previous = loaded.model.config._attn_implementation
    loaded.model.set_attn_implementation(_NAME if how == "interface" else "eager")
    try:
        if how == "eager":
            hooks += [module.register_forward_hook(_take) for module in _attention_modules(loaded.model)]
        yield lambda readers: _record(Recorder(readers, side_of))
    finally:
        for hook in hooks:
            hook.remove()
        loaded.model.set_attn_implementation(previous)


@contextmanager
def _record(recorder: Recorder) -> Generator[Recorder]:
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


def _sides(loaded: LoadedModel) -> Callable[[Any], str]:
    """From a module to its side; in models with two sides the module's place in the model tells."""
    kind = loaded.capabilities.kind
    if kind != "encoder-decoder":
        return lambda _: kind
    places = {id(module): name for name, module in loaded.model.named_modules()}

    def side(module: Any) -> str:
        parts = places[id(module)].lower().split(".")
        if "decoder" not in parts:
            return "encoder"
        return "cross" if any(part.startswith(_CROSS) for part in parts) else "decoder"

    return side


def _attention_modules(model: Any) -> list[Any]:
    return [module for module in model.modules() if "attention" in type(module).__name__.lower()]


def _take(module: Any, arguments: Any, output: Any) -> Any:
    """Forward hook: record the weights that eager attention hands up, and let go of them at once."""
    recorder = _recorder.get()
    if recorder is None or not isinstance(output, tuple):
        return None
    places = [at for at, part in enumerate(output[1:], 1) if isinstance(part, Tensor) and part.ndim == 4]
    if len(places) != 1:
        return None
    (at,) = places
    recorder.take(module, output[at])
    return (*output[:at], None, *output[at + 1 :])
