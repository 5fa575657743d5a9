from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sonde.base.errors import CaptureError, InputError
from sonde.capture.forward import observe, observe_lenses
from sonde.capture.requests import (
    AttentionRows,
    HiddenStates,
    ItemCapture,
    Masked,
    Pass,
    Plain,
    Prepared,
    ScoredSubwords,
    TokenScores,
)
from sonde.capture.settings import CaptureSettings
from sonde.models import LoadedModel

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

SCORES = [Pass(Plain(), (TokenScores(4),))]
BOS, SEP, MASK = 256, 257, 258


def scores_of(capture: ItemCapture) -> ScoredSubwords:
    assert capture.scores is not None
    return capture.scores


@torch.no_grad()
def plain_logs(model: Any, ids: Sequence[int]) -> torch.Tensor:
    """Log-probabilities of one unpadded sequence by eager attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    logits = model(torch.tensor([list(ids)])).logits[0]
    model.set_attn_implementation(before)
    return logits.log_softmax(-1)


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2", "bigcode", "neox", "codegen"])
def test_nats_equal_a_plain_forward(name: str, tiny: Tiny, prepare: Prepare, texts: tuple[str, ...]) -> None:
    loaded = tiny(name)
    items = [prepare(text) for text in texts]
    for item, capture in zip(items, observe(loaded, items, SCORES), strict=True):
        ids = item.alignment.subwords.ids
        assert capture.item_id == item.item.item_id
        logs = plain_logs(loaded.model, [BOS, *ids])[:-1]
        gold = logs[torch.arange(len(ids)), torch.tensor(ids).long()]
        found = scores_of(capture)
        np.testing.assert_allclose(found.nats, -gold, atol=1e-5)
        np.testing.assert_allclose(found.entropy, -(logs.exp() * logs).sum(1), atol=1e-5)
        np.testing.assert_array_equal(found.rank, (logs >= gold[:, None] - 1e-4).sum(1))
        np.testing.assert_array_equal(found.top_ids, logs.topk(4).indices)
        np.testing.assert_allclose(found.top_nats, -logs.topk(4).values, atol=1e-5)
        np.testing.assert_array_equal(found.context, np.arange(len(ids)))
        assert found.scored.all()


@pytest.mark.parametrize("added", [(), (BOS,)])
@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2", "bigcode", "neox", "gemma2", "codegen"])
def test_each_window_begins_with_the_start_token_that_the_tokenizer_adds(
    name: str, added: tuple[int, ...], tiny: Tiny, prepare: Prepare
) -> None:
    loaded = tiny(name)
    loaded = replace(loaded, special=replace(loaded.special, added=added))
    item = prepare("def f(a, b):\n    return a + b * a\n")
    ids = item.alignment.subwords.ids.tolist()
    settings = CaptureSettings(context=16, step=6)
    (capture,) = observe(loaded, [item], SCORES, settings=settings)
    sequence = [BOS, *ids]
    for target in range(len(ids)):
        # The first window that holds the subword before it.
        start = next(at for at in range(0, len(ids), 6) if target < at + 16 - (len(added) if at else 0))
        window = sequence[start : start + 16 - (len(added) if start else 0)]
        logs = plain_logs(loaded.model, [*(added if start else ()), *window])
        at = target - start + (len(added) if start else 0)
        assert scores_of(capture).nats[target] == pytest.approx(-logs[at, ids[target]].item(), abs=1e-4)


@pytest.mark.parametrize("budget", [1, 40, 10_000])
def test_batch_size_and_order_change_nothing(
    budget: int, tiny: Tiny, prepare: Prepare, texts: tuple[str, ...]
) -> None:
    loaded = tiny("llama")
    items = [prepare(text) for text in texts]
    settings = CaptureSettings(token_budget=budget, chunk=5)
    usual = list(observe(loaded, items, SCORES))
    other = list(observe(loaded, items[::-1], SCORES, settings=settings))[::-1]
    blocks = list(observe(loaded, items, SCORES, settings=CaptureSettings(block=2)))
    for one, *rest in zip(usual, other, blocks, strict=True):
        for two in rest:
            assert one.item_id == two.item_id
            np.testing.assert_allclose(scores_of(one).nats, scores_of(two).nats, atol=1e-5)
            np.testing.assert_allclose(scores_of(one).entropy, scores_of(two).entropy, atol=1e-5)
            np.testing.assert_array_equal(scores_of(one).rank, scores_of(two).rank)


@pytest.mark.parametrize("context", [1, 2, 7, 16])
def test_windows_equal_scoring_one_by_one_with_the_same_context(
    context: int, tiny: Tiny, prepare: Prepare
) -> None:
    loaded = tiny("llama")
    item = prepare("for i in range(10):\n    print(i)")
    (capture,) = observe(loaded, [item], SCORES, settings=CaptureSettings(context=context))
    ids = [int(one) for one in item.alignment.subwords.ids]
    found = scores_of(capture)
    assert found.scored.all()
    for position, gold in enumerate(ids):
        seen = int(found.context[position])
        before = ids[position - seen : position]
        before = [BOS, *before] if seen == position and len(before) < context else before
        nats = -plain_logs(loaded.model, before)[-1, gold]
        np.testing.assert_allclose(found.nats[position], nats, atol=1e-5)
        if position >= context:
            assert seen >= context / 2


def test_without_a_first_token_the_first_subword_is_not_scored(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("gpt2")
    loaded = replace(loaded, special=replace(loaded.special, bos=None, bos_source="none"))
    one, single, empty = observe(loaded, [prepare("abc"), prepare("x"), prepare("")], SCORES)
    assert scores_of(one).scored.tolist() == [False, True, True]
    assert np.isnan(scores_of(one).nats[0])
    logs = plain_logs(loaded.model, [97, 98, 99])
    np.testing.assert_allclose(scores_of(one).nats[1:], [-logs[0, 98], -logs[1, 99]], atol=1e-5)
    assert scores_of(single).scored.tolist() == [False]
    assert len(scores_of(empty).nats) == 0


def test_masked_scores_equal_a_plain_forward(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("bert")
    item = prepare("x = façade(1)")
    ids = [int(one) for one in item.alignment.subwords.ids]
    variants = ((2,), (9, 4, 5))
    asked = [Pass(Masked({item.item.item_id: variants}), (TokenScores(2),))]
    captures = list(observe(loaded, [item, prepare("other")], asked))
    assert [capture.variant for capture in captures] == [1, 2]
    for capture, masked in zip(captures, variants, strict=True):
        seen = [MASK if at in masked else one for at, one in enumerate(ids)]
        logs = plain_logs(loaded.model, [BOS, *seen, SEP])[1:-1]
        found = scores_of(capture)
        assert np.flatnonzero(found.scored).tolist() == sorted(masked)
        for at in masked:
            np.testing.assert_allclose(found.nats[at], -logs[at, ids[at]], atol=1e-5)
            assert found.context[at] == at


@pytest.mark.parametrize("name", ["gpt2", "bert", "bart", "t5"])
def test_states_equal_those_of_transformers_pooled_by_numpy(name: str, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny(name)
    items = [prepare("x = 'façade'\n"), prepare("return 1")]
    poolings = ("mean", "last", "spans") + (() if name == "gpt2" else ("summary",))
    spans = {items[0].item.item_id: ((3, 6), (0, 2))}
    asked = [Pass(Plain(), (HiddenStates(None, poolings, spans),))]
    special = loaded.special
    prefix = (special.bos,) if name == "gpt2" else special.prefix
    body = loaded.model.get_encoder() if name in ("bart", "t5") else loaded.model.base_model
    for item, capture in zip(items, observe(loaded, items, asked), strict=True):
        ids = item.alignment.subwords.ids
        tokens = torch.tensor([[*prefix, *ids, *special.suffix]])
        with torch.no_grad():
            layers = body(tokens, output_hidden_states=True).hidden_states
        states = np.stack([layer[0].numpy() for layer in layers])
        own = states[:, len(prefix) : len(prefix) + len(ids)]
        np.testing.assert_allclose(capture.states["mean"], own.mean(1), atol=1e-5)
        np.testing.assert_allclose(capture.states["last"], own[:, -1], atol=1e-5)
        expected = [own[:, start:stop].mean(1) for start, stop in spans.get(item.item.item_id, ())]
        assert capture.states["spans"].shape[1] == len(expected)
        for place, span in enumerate(expected):
            np.testing.assert_allclose(capture.states["spans"][:, place], span, atol=1e-5)
        if name != "gpt2":
            summary = states[:, 0] if prefix else states[:, -1]
            np.testing.assert_allclose(capture.states["summary"], summary, atol=1e-5)


def test_states_of_a_long_item_come_from_the_window_where_each_position_is_read(
    tiny: Tiny, prepare: Prepare
) -> None:
    loaded = tiny("bert")
    item = prepare("abcdef")
    asked = [Pass(Plain(), (HiddenStates((2,), ("mean", "last")),))]
    (capture,) = observe(loaded, [item], asked, settings=CaptureSettings(context=6))
    ids = item.alignment.subwords.ids
    parts = []
    for start, read in ((0, slice(1, 4)), (2, slice(2, 5))):
        with torch.no_grad():
            tokens = torch.tensor([[BOS, *ids[start : start + 4], SEP]])
            parts.append(loaded.model.base_model(tokens, output_hidden_states=True).hidden_states[2][0, read])
    states = torch.cat(parts).numpy()
    np.testing.assert_allclose(capture.states["mean"][0], states.mean(0), atol=1e-5)
    np.testing.assert_allclose(capture.states["last"][0], states[-1], atol=1e-5)


def test_memory_that_runs_out_halves_the_batch(
    tiny: Tiny, prepare: Prepare, texts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = tiny("llama")
    items = [prepare(text) for text in texts]
    expected = list(observe(loaded, items, SCORES))
    sizes: list[int] = []
    forward = loaded.model.base_model.forward

    def scarce(*args: Any, **kwargs: Any) -> Any:
        sizes.append(len(kwargs["input_ids"]))
        if sizes[-1] > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return forward(*args, **kwargs)

    monkeypatch.setattr(loaded.model.base_model, "forward", scarce)
    for one, two in zip(observe(loaded, items, SCORES), expected, strict=True):
        np.testing.assert_allclose(scores_of(one).nats, scores_of(two).nats, atol=1e-5)
    assert sizes[0] == len(items)
    assert [size for size in sizes if size <= 2] != []


def test_a_row_that_does_not_fit_alone_names_the_item(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = tiny("llama")

    def none_left(*args: Any, **kwargs: Any) -> Any:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(loaded.model.base_model, "forward", none_left)
    item = prepare("abc")
    with pytest.raises(CaptureError, match=item.item.item_id):
        list(observe(loaded, [item], SCORES))


def test_other_errors_are_not_taken_for_a_lack_of_memory(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = tiny("llama")

    def wrong(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(loaded.model.base_model, "forward", wrong)
    with pytest.raises(CaptureError, match=r"cannot read item .*: shapes cannot be multiplied"):
        list(observe(loaded, [prepare("abc")], SCORES))


@pytest.mark.parametrize("asked", [TokenScores(), HiddenStates((3,))])
def test_a_model_that_gives_nan_is_not_scored(asked: Any, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("llama")
    with torch.no_grad():
        loaded.model.model.layers[1].mlp.down_proj.weight[0, 0] = torch.nan
    item = prepare("abc")
    with pytest.raises(CaptureError, match=f"tiny-llama.*{item.item.item_id}.*float32.*damaged"):
        list(observe(loaded, [item], [Pass(Plain(), (asked,))]))


def test_missing_states_are_refused(tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tiny("bert")
    forward = loaded.model.base_model.forward

    def silent(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **{**kwargs, "output_hidden_states": False})

    monkeypatch.setattr(loaded.model.base_model, "forward", silent)
    with pytest.raises(CaptureError, match="no hidden states"):
        list(observe(loaded, [prepare("abc")], [Pass(Plain(), (HiddenStates(),))]))


def test_what_the_item_or_model_does_not_have_is_refused(tiny: Tiny, prepare: Prepare) -> None:
    item = prepare("abc")
    key = item.item.item_id
    cases: list[tuple[str, Pass, str]] = [
        ("llama", Pass(Plain(), (HiddenStates((9,)),)), "no layer 9; it has 0 to 3"),
        ("llama", Pass(Plain(), (AttentionRows({key: (7,)}),)), "row 7 is outside its 3"),
        ("llama", Pass(Plain(), (AttentionRows({key: (1,)}, (3,)),)), "no attention layer 3"),
        ("llama", Pass(Plain(), (HiddenStates((1,), ("spans",), {key: ((1, 4),)}),)), "span 1..4"),
        ("llama", Pass(Masked({key: ((1,),)}), (TokenScores(),)), "no infilling tokens"),
        ("bert", Pass(Masked({key: ((3,),)}), (TokenScores(),)), "masked position 3"),
        ("t5", Pass(Plain(), (TokenScores(),)), "encoder-decoder"),
    ]
    for name, asked, words in cases:
        with pytest.raises(InputError, match=words):
            list(observe(tiny(name), [item], [asked]))


def test_the_summary_of_a_model_without_a_summary_token_is_no_number(tiny: Tiny, prepare: Prepare) -> None:
    asked = [Pass(Plain(), (HiddenStates(None, ("summary", "mean")),))]
    (found,) = observe(tiny("llama"), [prepare("abc")], asked)
    assert np.isnan(found.states["summary"]).all()
    assert np.isfinite(found.states["mean"]).all()


def test_special_tokens_that_fill_the_context_are_refused(tiny: Tiny, prepare: Prepare) -> None:
    asked = [Pass(Plain(), (HiddenStates(),))]
    with pytest.raises(InputError, match="special tokens fill"):
        list(observe(tiny("bert"), [prepare("abc")], asked, settings=CaptureSettings(context=1)))


def test_an_empty_job_yields_nothing(tiny: Tiny) -> None:
    assert list(observe_lenses(tiny("llama"), [], {"a": SCORES})) == []
