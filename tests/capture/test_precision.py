"""Models in half precision: what decides a rank, an entropy or a row is computed in float32."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.capture.conftest import MAKERS

from sonde.capture.attention_backend import (
    attention_rows,
    describe_backend,
    use_float32,
    use_readable_attention,
)
from sonde.capture.forward import observe
from sonde.capture.requests import Masked, Pass, Plain, Prepared, TokenScores
from sonde.models import LoadedModel
from sonde.models.engine import lm_head as heads
from sonde.models.engine.trial_batches import forward_rows, make_rows

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

BOS, SEP, MASK = 256, 257, 258
TEXT = "def f(a, b):\n    return a + b\n"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_ranks_are_those_of_a_projection_in_float32(
    name: str, dtype: torch.dtype, tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Several parts of the vocabulary.
    monkeypatch.setattr(heads, "_ROWS", 37)
    loaded = tiny(name)
    loaded.model.to(dtype)
    item = prepare(TEXT)
    ids = item.alignment.subwords.ids.tolist()
    decoder = loaded.capabilities.kind == "decoder"
    variant = Plain() if decoder else Masked({item.item.item_id: ((4,),)})
    captures = observe(loaded, [item], [Pass(variant, (TokenScores(1),))])
    (scores,) = [one.scores for one in captures if one.scores]
    read = [BOS, *ids] if decoder else [BOS, *ids[:4], MASK, *ids[5:], SEP]
    with torch.no_grad():
        states = loaded.model.base_model(torch.tensor([read])).last_hidden_state[0]
        # The head of a copy that is float64 as a whole.
        wide = copy.deepcopy(loaded.model).double()
        head = wide.cls if name == "bert" else wide.get_output_embeddings()
        logs = head(states.double())[: -1 if decoder else None].log_softmax(-1)
    logs = logs if decoder else logs[5:6]
    gold = torch.tensor(ids if decoder else ids[4:5])
    expected = logs.gather(1, gold[:, None])
    held = scores.scored
    np.testing.assert_allclose(scores.nats[held], -expected[:, 0], atol=2e-5)
    np.testing.assert_array_equal(scores.rank[held], (logs >= expected - 1e-4).sum(1))
    np.testing.assert_allclose(scores.entropy[held], -(logs.exp() * logs).sum(1), atol=2e-5)


def test_a_head_in_float32_stays_as_it_is(tiny: Tiny) -> None:
    head = heads.build_head(tiny("llama").model, "model")
    assert head.to_float32() is head


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rows_in_half_precision_neither_tie_nor_overflow(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    # Unscaled products of this size, as T5 multiplies them, leave the range of float16.
    query, key = (torch.randn(1, 2, 40, 64).mul(60).to(dtype) for _ in range(2))
    rows = attention_rows(query, key, None, torch.arange(40)[None], scaling=1e-4)
    exact = (query.double() @ key.double().transpose(2, 3) * 1e-4).softmax(-1)
    np.testing.assert_allclose(rows, exact, atol=1e-6)
    assert len(rows.unique()) > 0.98 * rows.numel()


def test_a_model_in_half_precision_is_read_and_says_so(tiny: Tiny) -> None:
    loaded = tiny("gpt_oss")
    loaded.model.to(torch.bfloat16)
    with use_readable_attention(loaded):
        pass
    found = describe_backend(loaded)
    assert (found["weights"], found["attention"]) == ("bfloat16", "own")
    assert 0 < float(found["difference"]) < 0.05


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_model_is_widened_for_a_while_and_is_afterwards_what_it_was(
    name: str, dtype: torch.dtype, tiny: Tiny
) -> None:
    loaded = tiny(name)
    loaded.model.to(dtype)
    before = {key: value.clone() for key, value in loaded.model.state_dict().items()}
    wide = dataclasses.replace(loaded, model=copy.deepcopy(loaded.model).float())
    rows = make_rows(loaded, (24,))
    with torch.inference_mode(), use_float32(loaded.model):
        states = [one.last_hidden_state for one in forward_rows(loaded, rows)]
        expected = [one.last_hidden_state for one in forward_rows(wide, rows)]
    for one, other in zip(states, expected, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    after = loaded.model.state_dict()
    for key, value in before.items():
        assert after[key].dtype == value.dtype
        assert torch.equal(after[key], value), key


def test_a_deep_model_in_half_precision_is_read_though_rounding_moves_its_rows(tiny: Tiny) -> None:
    loaded = tiny("llama")
    # Large weights, as trained ones are: what half precision rounds grows from layer to layer.
    with torch.no_grad():
        for name, weight in loaded.model.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                weight.mul_(40)
    loaded.model.to(torch.bfloat16)
    with use_readable_attention(loaded):
        pass
    found = describe_backend(loaded)
    assert float(found["difference"]) < 1e-3
    assert float(found["rounding"]) > 0.05
