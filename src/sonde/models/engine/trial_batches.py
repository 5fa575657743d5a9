"""Small trial batches that check a model's rounding, padding and number of usable positions.

The number of positions that a model has is read off the tables that it looks its positions up in
(`table_positions`). A configuration says how many rows such a table has, and not how many of them a text can
use: RoBERTa and similar models, MPNet, data2vec or Nystromformer begin after a padding id or an offset. So a
few subwords are read at several lengths: each table of the model's own whose used part grows with the text is
a table of positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils._python_dispatch import TorchDispatchMode

from sonde.base.errors import InputError
from sonde.models.engine.family import FAMILIES, LoadedModel

_LENGTHS = (13, 8)


def rounding_tolerance(loaded_model: LoadedModel) -> float:
    """Return the largest difference that is rounding; half precision rounds each batch shape differently.

    So do 8 bits, where a number that is a little larger may be rounded to another step.
    """
    return 1e-3 if loaded_model.model.dtype == torch.float32 and not loaded_model.alone else 5e-2


@torch.inference_mode()
def takes_padding(loaded_model: LoadedModel) -> bool:
    """Return whether a row reads the same beside a longer one, which it is padded to.

    Raises:
        InputError: A decoder's states depend on what stands behind them, so that it is none.
    """
    long, short = make_rows(loaded_model, _LENGTHS)
    if loaded_model.capabilities.kind == "decoder":
        # What follows is to matter as little as padding. Both rows have one shape and stand in one batch: in
        # half precision a deep model rounds a row alone otherwise than a row among others.
        changed_row = [*long[: len(short)], *short[len(short) - (len(long) - len(short)) :]]
        states = forward_rows(loaded_model, [long, changed_row])[0].last_hidden_state[:, : len(short)]
        if bool(torch.isfinite(states).all()) and largest_change(states[1], states[0]) > rounding_tolerance(
            loaded_model
        ):
            raise InputError(
                f"model {loaded_model.spec.name!r}: {type(loaded_model.model).__name__} sees the "
                "text after a subword, so its losses are not left-to-right losses; name a causal "
                "or a masked model"
            )
        return True
    short_states = forward_rows(loaded_model, [short])[0].last_hidden_state[0]
    if not bool(torch.isfinite(short_states).all()):
        return True
    batch_states = forward_rows(loaded_model, [long, short])[0].last_hidden_state[:, : len(short)]
    return all(
        largest_change(states, short_states) <= rounding_tolerance(loaded_model)
        for states in batch_states[1:]
    )


def largest_change(states: Tensor, usual: Tensor) -> float:
    """Return the largest change of a state, as a share of the largest state; infinite for NaN."""
    difference, magnitude = float((states.float() - usual.float()).abs().max()), float(usual.abs().max())
    return difference / max(1.0, magnitude) if difference < float("inf") else float("inf")


def make_rows(loaded_model: LoadedModel, lengths: Sequence[int]) -> list[list[int]]:
    """Make rows of different ordinary ids, with the special ids around a text.

    Args:
        loaded_model: The model.
        lengths: How many ids each row has between the special ones; fewer where the model takes fewer.
    """
    special, capabilities = loaded_model.special, loaded_model.capabilities
    prefix = [*special.prefix]
    if capabilities.kind == "decoder" and special.bos is not None:
        prefix = [special.bos]
    special_ids = {*prefix, *special.suffix, special.pad, special.mask}
    candidates = torch.linspace(0, capabilities.vocab - 1, 4 * sum(lengths)).long().tolist()
    usual = [token for token in dict.fromkeys(candidates) if token not in special_ids] or [special.pad]
    room = capabilities.context - len(prefix) - len(special.suffix) - 1
    rows: list[list[int]] = []
    for length in lengths:
        size = max(1, min(length, room))
        content = [usual[index * 37 % len(usual)] for index in range(len(rows), len(rows) + size)]
        rows.append([*prefix, *content, *special.suffix])
    return rows


def forward_rows(loaded_model: LoadedModel, rows: Sequence[list[int]], **arguments: bool) -> list[Any]:
    """Run a model on padded rows; an encoder-decoder returns the outputs of both sides."""
    kind, device = loaded_model.capabilities.kind, loaded_model.device
    ids = _pad_rows(rows, loaded_model.special.pad, device)
    body, _ = FAMILIES.load(loaded_model.family).body_and_head(loaded_model.model)
    if kind == "decoder":
        return [body(input_ids=ids, use_cache=False, **arguments)]
    mask = _pad_rows([[1] * len(row) for row in rows], 0, device)
    if kind == "encoder":
        return [body(input_ids=ids, attention_mask=mask, **arguments)]
    read = loaded_model.model.get_encoder()(input_ids=ids, attention_mask=mask, **arguments)
    decoder_output = loaded_model.model.get_decoder()(
        input_ids=ids,
        encoder_hidden_states=read.last_hidden_state,
        encoder_attention_mask=mask,
        use_cache=False,
        **arguments,
    )
    return [read, decoder_output]


def _pad_rows(rows: Sequence[list[int]], fill: int, device: torch.device) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=fill).to(device)


_PROBED_LENGTHS = (24, 36, 48)
"""Subwords that are read: more than relative positions have buckets for single distances."""


_Table = tuple[int, int, int]
"""Storage of a tensor, an axis of it and its size."""


def table_positions(loaded_model: LoadedModel) -> int | None:
    """Return the length of the longest row that fits all position tables, or None without tables.

    Args:
        loaded_model: The model; of one with two sides both are read.
    """
    special = loaded_model.special
    usual = next(
        token
        for token in range(loaded_model.capabilities.vocab)
        if token not in {*special.prefix, *special.suffix, special.pad, special.mask, special.bos}
    )
    max_length = min(loaded_model.capabilities.context // 2, _PROBED_LENGTHS[-1])
    lengths = sorted({length * max_length // _PROBED_LENGTHS[-1] for length in _PROBED_LENGTHS})
    if len(lengths) < len(_PROBED_LENGTHS) or lengths[0] < 1:
        return None
    used: list[dict[_Table, int]] = []
    for length in lengths:
        with torch.no_grad(), _Watch(loaded_model.model) as watch:
            forward_rows(loaded_model, [[usual] * length])
        used.append(watch.used)
    limits: list[int] = []
    for table in used[0].keys() & used[1].keys() & used[2].keys():
        offsets = {indices[table] - length for indices, length in zip(used, lengths, strict=True)}
        if len(offsets) == 1:
            limits.append(table[2] - offsets.pop())
    return min(limits, default=None)


class _Watch(TorchDispatchMode):
    """Notes how far into each tensor of a model's own it is looked.

    Args:
        model: The model.

    Attributes:
        used: The largest index plus one, by tensor and axis.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._own = {tensor.untyped_storage().data_ptr() for tensor in _tensors(model)}
        self.used: dict[_Table, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operation, and note what it looks up."""
        for table, axis, last in _lookups(func, args):
            storage = table.untyped_storage().data_ptr()
            if storage in self._own:
                key = (storage, axis, table.shape[axis])
                self.used[key] = max(self.used.get(key, 0), last)
        return func(*args, **(kwargs or {}))


def _tensors(model: Any) -> Iterator[Tensor]:
    """Yield parameters, buffers, and tensors that are plain attributes of modules."""
    for module in model.modules():
        values = (*module._parameters.values(), *module._buffers.values(), *vars(module).values())
        yield from (value for value in values if isinstance(value, Tensor) and value.device.type != "meta")


def _lookups(func: Any, args: tuple[Any, ...]) -> Iterator[tuple[Tensor, int, int]]:
    """Yield the table, the axis, and the largest index plus one of each look-up of an operation."""
    aten = torch.ops.aten
    if func is aten.embedding.default:
        yield args[0], 0, _last(args[1])
    elif func in (aten.index_select.default, aten.gather.default):
        yield args[0], args[1] % args[0].ndim, _last(args[2])
    elif func is aten.index.Tensor:
        for axis, index in enumerate(args[1]):
            if isinstance(index, Tensor) and index.dtype not in (torch.bool, torch.uint8):
                yield args[0], axis, _last(index)
    elif func is aten.slice.Tensor and len(args) > 3 and args[3] is not None:
        axis = args[1] % args[0].ndim
        yield args[0], axis, min(args[3], args[0].shape[axis])


def _last(index: Tensor) -> int:
    return int(index.max()) + 1 if index.numel() else 0
