"""Small batches that a model is tried on before its numbers are trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sonde.base.errors import InputError
from sonde.models._family import LoadedModel

_LENGTHS = (13, 8)


def near(loaded: LoadedModel) -> float:
    """Largest difference that is rounding; in half precision other shapes of a batch round otherwise.

    So do 8 bits, where a number that is a little larger may be rounded to another step.
    """
    return 1e-3 if loaded.model.dtype == torch.float32 and not loaded.alone else 5e-2


@torch.inference_mode()
def takes_padding(loaded: LoadedModel) -> bool:
    """Whether a row reads the same beside a longer one, which it is padded to.

    Raises:
        InputError: A decoder's states depend on what stands behind them, so that it is none.
    """
    long, short = some_rows(loaded, _LENGTHS)
    decoder = loaded.capabilities.kind == "decoder"
    if decoder:
        # What follows in the longer row is to matter as little as padding.
        short = long[: len(short)]
    alone = forward_rows(loaded, [short])[0].last_hidden_state[0]
    if not bool(torch.isfinite(alone).all()):
        return True
    together = forward_rows(loaded, [long, short])[0].last_hidden_state[:, : len(short)]
    takes = all(moved(one, alone) <= near(loaded) for one in together[0 if decoder else 1 :])
    if decoder and not takes:
        raise InputError(
            f"model {loaded.spec.name!r}: {type(loaded.model).__name__} sees what stands behind a subword, "
            "so its losses are not those of a model that reads from left to right; name a causal or a masked "
            "model"
        )
    return takes


def moved(states: Tensor, usual: Tensor) -> float:
    """Largest change of a state, as a share of the largest; infinite where a number is none."""
    apart, most = float((states.float() - usual.float()).abs().max()), float(usual.abs().max())
    return apart / max(1.0, most) if apart < float("inf") else float("inf")


def some_rows(loaded: LoadedModel, lengths: Sequence[int]) -> list[list[int]]:
    """Rows of different ids of the vocabulary, none of them special but those around a text.

    Args:
        loaded: The model.
        lengths: How many ids each row has between the special ones; fewer where the model takes fewer.
    """
    special, capabilities = loaded.special, loaded.capabilities
    prefix = [*special.prefix]
    if capabilities.kind == "decoder" and special.bos is not None:
        prefix = [special.bos]
    apart = {*prefix, *special.suffix, special.pad, special.mask}
    spread = torch.linspace(0, capabilities.vocab - 1, 4 * sum(lengths)).long().tolist()
    usual = [one for one in dict.fromkeys(spread) if one not in apart] or [special.pad]
    room = capabilities.context - len(prefix) - len(special.suffix) - 1
    rows: list[list[int]] = []
    for length in lengths:
        size = max(1, min(length, room))
        own = [usual[at * 37 % len(usual)] for at in range(len(rows), len(rows) + size)]
        rows.append([*prefix, *own, *special.suffix])
    return rows


def forward_rows(loaded: LoadedModel, rows: Sequence[list[int]], **more: bool) -> list[Any]:
    """What a model returns for some rows, padded as everywhere else; of an encoder-decoder for both sides."""
    from sonde.models import FAMILIES

    kind, device = loaded.capabilities.kind, loaded.device
    ids = _padded(rows, loaded.special.pad, device)
    body, _ = FAMILIES.load(loaded.family).body_and_head(loaded.model)
    if kind == "decoder":
        return [body(input_ids=ids, use_cache=False, **more)]
    mask = _padded([[1] * len(row) for row in rows], 0, device)
    if kind == "encoder":
        return [body(input_ids=ids, attention_mask=mask, **more)]
    read = loaded.model.get_encoder()(input_ids=ids, attention_mask=mask, **more)
    written = loaded.model.get_decoder()(
        input_ids=ids,
        encoder_hidden_states=read.last_hidden_state,
        encoder_attention_mask=mask,
        use_cache=False,
        **more,
    )
    return [read, written]


def _padded(rows: Sequence[list[int]], fill: int, device: torch.device) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=fill).to(device)
