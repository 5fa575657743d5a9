from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sonde.base.errors import CaptureError
from sonde.capture import attention_backend
from sonde.capture.attention_backend import FUSED, OUTPUTS, OWN, describe_backend
from sonde.capture.forward import observe
from sonde.capture.requests import AttentionRows, HiddenStates, Pass, Plain, Prepared
from sonde.capture.settings import CaptureSettings
from sonde.models import LoadedModel

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]


@torch.no_grad()
def eager(loaded: LoadedModel, ids: np.ndarray) -> np.ndarray:
    """Whole matrices of one unpadded item over its own subwords: (layer, head, query, key)."""
    model, special = loaded.model, loaded.special
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    # Falcon has no interface to be switched by, and looks at its configuration.
    model.config._attn_implementation = "eager"
    seq2seq = loaded.capabilities.kind == "encoder-decoder"
    prefix = special.prefix if special.bos is None else (special.bos,)
    tokens = torch.tensor([[*prefix, *ids, *special.suffix]])
    body = model.get_encoder() if seq2seq else model
    attentions = body(tokens, output_attentions=True).attentions
    model.set_attn_implementation(before)
    model.config._attn_implementation = before
    own = slice(len(prefix), len(prefix) + len(ids))
    return torch.stack([one[0] for one in attentions])[:, :, own, own].numpy()


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((name, FUSED) for name in ("llama", "mistral", "gpt2", "bigcode", "neox", "bert", "bart", "t5")),
        *((name, OWN) for name in ("gpt_oss", "gemma2")),
        *((name, OUTPUTS) for name in ("codegen", "falcon")),
    ],
)
@pytest.mark.parametrize("pad", [False, True])
def test_rows_equal_eager_attention(name: str, way: str, pad: bool, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny(name)
    texts = ["x = 'façade'\r\n", "return 1 + 2 * 3"] if pad else ["x = 'façade'\r\n"]
    items = [prepare(text) for text in texts]
    rows = {items[0].item.item_id: (7, 0, 13), items[-1].item.item_id: (3, 12)}
    before = loaded.model.config._attn_implementation
    captures = list(observe(loaded, items, [Pass(Plain(), (AttentionRows(rows),))]))
    assert loaded.model.config._attn_implementation == before
    trial = describe_backend(loaded)
    assert trial["attention"] == way and float(trial["difference"]) < 1e-5
    for item, capture in zip(items, captures, strict=True):
        expected = eager(loaded, item.alignment.subwords.ids)[:, :, rows[item.item.item_id]]
        assert capture.rows is not None
        assert capture.rows.shape == expected.shape
        np.testing.assert_allclose(capture.rows, expected, atol=1e-6)


def test_recording_leaves_states_as_they_are(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("bart")
    item = prepare("a = [1]")
    states = HiddenStates(None, ("last",))
    (alone,) = observe(loaded, [item], [Pass(Plain(), (states,))])
    rows = AttentionRows({item.item.item_id: (0,)})
    (both,) = observe(loaded, [item], [Pass(Plain(), (states, rows))])
    np.testing.assert_allclose(both.states["last"], alone.states["last"], atol=1e-5)


def test_rows_of_a_long_item_lie_in_its_window(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("llama")
    item = prepare("abcdefgh")
    asked = [Pass(Plain(), (AttentionRows({item.item.item_id: (1, 7)}, (2,)),))]
    (capture,) = observe(loaded, [item], asked, settings=CaptureSettings(context=4))
    assert capture.rows is not None
    # Position 7 is read from the window that begins at subword 4 or 5, without the first token.
    row = capture.rows[0, :, 1]
    first = int(np.flatnonzero(row.sum(0))[0])
    assert first > 3
    np.testing.assert_allclose(row.sum(1), 1.0, atol=1e-6)
    assert (capture.rows[0, :, 0, 2:] == 0).all()


def test_a_model_without_attention_is_refused(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("llama")
    loaded = replace(loaded, capabilities=replace(loaded.capabilities, attention="none"))
    item = prepare("abc")
    with pytest.raises(CaptureError, match="gives no attention rows"):
        list(observe(loaded, [item], [Pass(Plain(), (AttentionRows({item.item.item_id: (1,)}),))]))


def test_a_model_that_says_it_has_the_interface_and_does_not_use_it_is_read_all_the_same(
    tiny: Tiny, prepare: Prepare
) -> None:
    loaded = tiny("codegen")
    loaded = replace(loaded, capabilities=replace(loaded.capabilities, attention="interface"))
    item = prepare("abc")
    (capture,) = observe(loaded, [item], [Pass(Plain(), (AttentionRows({item.item.item_id: (2,)}),))])
    assert capture.rows is not None
    expected = eager(loaded, item.alignment.subwords.ids)[:, :, (2,)]
    np.testing.assert_allclose(capture.rows, expected, atol=1e-6)


def _asked(loaded: LoadedModel, prepare: Prepare) -> None:
    item = prepare("abc")
    list(observe(loaded, [item], [Pass(Plain(), (AttentionRows({item.item.item_id: (1,)}),))]))


def test_attention_in_blocks_is_refused_in_one_line(tiny: Tiny, prepare: Prepare) -> None:
    with pytest.raises(CaptureError, match="not by query and key; use its states") as refused:
        _asked(tiny("longformer"), prepare)
    assert "\n" not in str(refused.value)


def test_a_model_that_returns_no_attention_is_refused(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = tiny("llama")
    forward = loaded.model.base_model.forward

    def silent(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **{**kwargs, "output_attentions": False})

    monkeypatch.setattr(loaded.model.base_model, "forward", silent)
    with pytest.raises(CaptureError, match="returns none even with eager attention"):
        _asked(loaded, prepare)


def test_rows_that_differ_from_eager_attention_are_refused(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, rows = tiny("llama"), attention_backend.pick_rows
    # What is picked is wrong, whichever way it is picked.
    monkeypatch.setattr(attention_backend, "pick_rows", lambda matrix, columns: rows(matrix, columns) * 0.9)
    with pytest.raises(
        CaptureError, match=r"differs from eager attention by 0\.\d+; use its states"
    ) as refused:
        _asked(loaded, prepare)
    assert "\n" not in str(refused.value)
