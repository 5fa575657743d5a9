"""What the decoder of an encoder-decoder makes of what is left out of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sonde.capture.batches import pad
from sonde.capture.rows import Row


def written_states(
    body: Callable[..., Any], batch: Sequence[Row], padding: int, device: torch.device
) -> Float[Tensor, "batch token d_model"]:
    """Last states of the decoder over what it reads of each row.

    Args:
        body: Encoder and decoder together.
        batch: Rows that are written.
        padding: Id that fills shorter rows up, on the right, where no decoder looks back.
        device: Where the model is.
    """
    mask = pad([np.ones(len(row.tokens), dtype=np.int64) for row in batch], 0)
    written = [row.written for row in batch if row.written is not None]
    output = body(
        input_ids=torch.from_numpy(pad([row.tokens for row in batch], padding)).to(device),
        attention_mask=torch.from_numpy(mask).to(device),
        decoder_input_ids=torch.from_numpy(pad(written, padding)).to(device),
        use_cache=False,
    )
    return output.last_hidden_state
