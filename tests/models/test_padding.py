"""A decoder is refused where what stands behind a subword changes it, and only there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sonde.base.errors import InputError
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.models.engine.family import FAMILIES
from sonde.models.engine.trial_batches import takes_padding

from .conftest import DECODERS


def change_states(loaded: LoadedModel, change: Callable[[Tensor], Tensor]) -> None:
    """Let a model's body give changed states."""

    def changed(_module: Any, _arguments: Any, output: Any) -> Any:
        output.last_hidden_state = change(output.last_hidden_state)
        return output

    body, _ = FAMILIES.load(loaded.family).body_and_head(loaded.model)
    body.register_forward_hook(changed)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_that_rounds_otherwise_in_other_batches_is_read(
    name: str, saved: Callable[[str], Path]
) -> None:
    loaded = load_model(ModelSpec(name=str(saved(name)), device="cpu"))
    # A deep model in half precision: one row alone takes other kernels than two, and rounds otherwise.
    change_states(loaded, lambda states: states * (1 + 0.2 * states.shape[0] + 0.01 * states.shape[1]))
    assert takes_padding(loaded)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_that_sees_what_follows_is_refused(name: str, saved: Callable[[str], Path]) -> None:
    loaded = load_model(ModelSpec(name=str(saved(name)), device="cpu"))
    change_states(loaded, lambda states: states + torch.roll(states, -1, dims=1))
    with pytest.raises(InputError, match="sees the text after a subword"):
        takes_padding(loaded)
