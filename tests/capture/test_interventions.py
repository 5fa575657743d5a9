"""Changes on the way: compared with hooks placed manually on models with eager attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sonde.base.errors import InputError
from sonde.capture.forward import observe, observe_lenses
from sonde.capture.interventions import Affine, Change, Put
from sonde.capture.requests import (
    Changed,
    HeadOutputs,
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
from sonde.models import Gap, LoadedModel

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

BOS, SEP, MASK, PAD = 256, 257, 258, 259
D_MODEL, D_HEAD = 32, 8

LAYERS = {
    "llama": "model.layers.{}",
    "mistral": "model.layers.{}",
    "gpt2": "transformer.h.{}",
    "neox": "gpt_neox.layers.{}",
    "bigcode": "transformer.h.{}",
    "codegen": "transformer.h.{}",
    "gemma2": "model.layers.{}",
    "falcon": "transformer.h.{}",
    "bert": "bert.encoder.layer.{}",
    "roberta": "roberta.encoder.layer.{}",
    "modernbert": "model.layers.{}",
    "deberta": "deberta.encoder.layer.{}",
}
"""Modules by name, written down here anew: what the families say is not asked."""

FINAL = {
    "llama": "model.norm",
    "mistral": "model.norm",
    "gpt2": "transformer.ln_f",
    "neox": "gpt_neox.final_layer_norm",
    "bigcode": "transformer.ln_f",
    "codegen": "transformer.ln_f",
    "gemma2": "model.norm",
    "falcon": "transformer.ln_f",
    "modernbert": "model.final_norm",
}

HEADS = {
    "llama": "self_attn.o_proj",
    "mistral": "self_attn.o_proj",
    "gpt2": "attn.c_proj",
    "neox": "attention.dense",
    "bigcode": "attn.c_proj",
    "codegen": "attn.out_proj",
    "gemma2": "self_attn.o_proj",
    "falcon": "self_attention.dense",
    "bert": "attention.output.dense",
    "roberta": "attention.output.dense",
    "modernbert": "attn.Wo",
    "deberta": "attention.output.dense",
}
DECODERS = ("llama", "mistral", "gpt2", "neox", "bigcode", "codegen", "gemma2", "falcon")
ENCODERS = ("bert", "roberta", "modernbert", "deberta")

TEXTS = ("def f(a, b):\n    return a + b\n", "x = 12", "while x < y:\n    x += 1")


def affine(seed: int, width: int = D_MODEL, rank: int = 2) -> Affine:
    drawn = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(drawn.normal(size=(width, rank)))
    return Affine(
        basis.astype(np.float32), basis.T.astype(np.float32), drawn.normal(size=width).astype(np.float32)
    )


def apply(what: Affine, states: np.ndarray) -> np.ndarray:
    return states - ((states - what.centre) @ what.down) @ what.up


def of_item(change: Change, item: str, states: torch.Tensor, columns: Sequence[int]) -> torch.Tensor:
    """The same by the formula; columns: the model's column of each subword."""
    positions = range(len(columns)) if change.positions is None else change.positions[item]
    changed = states.clone()
    width = slice(None)
    for number, position in enumerate(positions):
        at = columns[position]
        if change.site == "heads":
            width = torch.cat([torch.arange(head * D_HEAD, (head + 1) * D_HEAD) for head in change.heads])
        old = states[0, at, width]
        if isinstance(change.what, Affine):
            down, up, centre = (
                torch.tensor(a) for a in (change.what.down, change.what.up, change.what.centre)
            )
            changed[0, at, width] = old - ((old - centre) @ down) @ up
        else:
            index = 0 if change.what.index is None else int(change.what.index[item][number])
            changed[0, at, width] = torch.tensor(change.what.values[index])
    return changed


@torch.no_grad()
def by_hand(
    loaded: LoadedModel, name: str, ids: Sequence[int], columns: Sequence[int], item: str, changes: Any
) -> Any:
    """An eager forward of one row with hooks on modules that this file names."""
    model = loaded.model
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    modules = dict(model.named_modules())
    layers = len([key for key in modules if key.rsplit(".", 1)[0] + ".{}" == LAYERS[name]])
    hooks = []
    for change in changes:

        def swap(states: torch.Tensor, change: Change = change) -> torch.Tensor:
            return of_item(change, item, states, columns)

        if change.site == "heads":
            module = modules[f"{LAYERS[name].format(change.layer)}.{HEADS[name]}"]
            hooks.append(module.register_forward_pre_hook(lambda _, given, f=swap: (f(given[0]), *given[1:])))
        elif change.layer == 0:
            module = modules[LAYERS[name].format(0)]
            hooks.append(module.register_forward_pre_hook(lambda _, given, f=swap: (f(given[0]), *given[1:])))
        else:
            module = modules[LAYERS[name].format(change.layer - 1)]
            if change.layer == layers and name in FINAL:
                module = modules[FINAL[name]]
            hooks.append(
                module.register_forward_hook(
                    lambda _, __, out, f=swap: (f(out[0]), *out[1:]) if isinstance(out, tuple) else f(out)
                )
            )
    try:
        output = model(torch.tensor([list(ids)]))
    finally:
        for hook in hooks:
            hook.remove()
        model.set_attn_implementation(before)
    return output.logits[0].log_softmax(-1)


def scores_of(capture: ItemCapture) -> ScoredSubwords:
    assert capture.scores is not None
    return capture.scores


def some_changes(items: Sequence[Prepared], layers: int) -> dict[str, tuple[Change, ...]]:
    """Maps, patches and ablations at every layer, some of them at once."""
    drawn = np.random.default_rng(7)
    found: dict[str, tuple[Change, ...]] = {}
    for layer in range(layers + 1):
        found[f"map {layer}"] = (Change(layer, affine(layer)),)
        positions = {one.item.item_id: (0, len(one.alignment.subwords) - 1) for one in items[:2]}
        index = {item: np.array([2, 0]) for item in positions}
        values = drawn.normal(size=(3, D_MODEL)).astype(np.float32)
        found[f"patch {layer}"] = (Change(layer, Put(values, index), positions=positions),)
    for layer in range(layers):
        zero = np.zeros((1, 2 * D_HEAD), np.float32)
        found[f"zero {layer}"] = (Change(layer, Put(zero), "heads", (2, 0)),)
        values = drawn.normal(size=(4, D_HEAD)).astype(np.float32)
        each = {one.item.item_id: drawn.integers(0, 4, len(one.alignment.subwords)) for one in items}
        found[f"resample {layer}"] = (Change(layer, Put(values, each), "heads", (3,)),)
    found["both"] = (*found["zero 0"], *found[f"map {layers}"], *found["map 1"])
    return found


@pytest.mark.parametrize("name", DECODERS)
def test_decoders_equal_plain_hooks(name: str, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny(name)
    items = [prepare(text) for text in TEXTS]
    asked = some_changes(items, loaded.capabilities.layers)
    passes = [
        Pass(Plain(), (TokenScores(2),)),
        *(Pass(Changed(Plain(), changes, key), (TokenScores(2),)) for key, changes in asked.items()),
    ]
    found: dict[tuple[str, str], ItemCapture] = {}
    for observed in observe_lenses(loaded, items, {"": passes}):
        for capture in observed.captures[""]:
            found[capture.item_id, capture.change] = capture
    moved = 0
    for one in items:
        item, ids = one.item.item_id, one.alignment.subwords.ids.tolist()
        for key, changes in asked.items():
            if not all(change.concerns(item) for change in changes):
                assert (item, key) not in found
                continue
            logs = by_hand(loaded, name, [BOS, *ids], [at + 1 for at in range(len(ids))], item, changes)
            gold = -logs[torch.arange(len(ids)), torch.tensor(ids)]
            np.testing.assert_allclose(scores_of(found[item, key]).nats, gold, atol=1e-5, err_msg=key)
            moved += not np.allclose(scores_of(found[item, ""]).nats, gold, atol=1e-3)
        logs = by_hand(loaded, name, [BOS, *ids], [], item, ())
        gold = -logs[torch.arange(len(ids)), torch.tensor(ids)]
        np.testing.assert_allclose(scores_of(found[item, ""]).nats, gold, atol=1e-5)
    assert moved > len(items) * loaded.capabilities.layers


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_equal_plain_hooks_under_masks(name: str, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny(name)
    items = [prepare(text) for text in TEXTS]
    asked = some_changes(items, loaded.capabilities.layers)
    masks = Masked({one.item.item_id: ((1,), (2, 3)) for one in items})
    passes = [Pass(Changed(masks, changes, key), (TokenScores(2),)) for key, changes in asked.items()]
    found: dict[tuple[str, str], list[ItemCapture]] = {}
    for capture in observe(loaded, items, passes):
        found.setdefault((capture.item_id, capture.change), []).append(capture)
    for one in items:
        item, ids = one.item.item_id, one.alignment.subwords.ids.tolist()
        for key, changes in asked.items():
            if not all(change.concerns(item) for change in changes):
                continue
            for masked, capture in zip(((1,), (2, 3)), found[item, key], strict=True):
                seen = [MASK if at in masked else one for at, one in enumerate(ids)]
                row = [BOS, *seen, SEP]
                logs = by_hand(loaded, name, row, [at + 1 for at in range(len(ids))], item, changes)
                gold = [-float(logs[at + 1, ids[at]]) for at in masked]
                np.testing.assert_allclose(
                    scores_of(capture).nats[list(masked)], gold, atol=1e-5, err_msg=key
                )


SIDES = {
    "bart": {
        "encoder": ("model.encoder.layers.{}", "self_attn.out_proj", ""),
        "decoder": ("model.decoder.layers.{}", "self_attn.out_proj", ""),
        "cross": ("model.decoder.layers.{}", "encoder_attn.out_proj", ""),
    },
    "t5": {
        "encoder": ("encoder.block.{}", "layer.0.SelfAttention.o", "encoder.final_layer_norm"),
        "decoder": ("decoder.block.{}", "layer.0.SelfAttention.o", "decoder.final_layer_norm"),
        "cross": ("decoder.block.{}", "layer.1.EncDecAttention.o", ""),
    },
}
GAPS = {
    "bart": Gap(sign=MASK, before=(SEP, BOS), repeats=True),
    "t5": Gap(sign=MASK, before=(PAD, MASK), repeats=False),
}


@torch.no_grad()
def filled_by_hand(
    loaded: LoadedModel, name: str, one: Prepared, gap: tuple[int, int], change: Change | None
) -> torch.Tensor:
    """Log-probabilities that an eager encoder-decoder gives to the subwords of a gap."""
    ids = one.alignment.subwords.ids.tolist()
    first, stop = gap
    how, special = GAPS[name], loaded.special
    row = [*special.prefix, *ids[:first], how.sign, *ids[stop:], *special.suffix]
    repeated = ids[:first] if how.repeats else []
    written = [*how.before, *repeated, *ids[first : stop - 1]]
    start = len(special.prefix)
    modules = dict(loaded.model.named_modules())
    hooks = []
    if change is not None:
        layer, heads, final = SIDES[name][change.side]
        if change.side == "encoder":
            columns = {at: start + at for at in range(first)}
            columns |= {at: start + at - (stop - first - 1) for at in range(stop, len(ids))}
        else:
            begin = 0 if how.repeats else first
            columns = {at: len(how.before) + at - begin for at in range(begin, stop - 1)}

        def swap(states: torch.Tensor) -> torch.Tensor:
            assert change is not None
            own = (
                change
                if change.positions is not None
                else replace(change, positions={one.item.item_id: tuple(columns)})
            )
            if isinstance(own.what, Put) and own.what.index is not None:
                index = {one.item.item_id: own.what.index[one.item.item_id][list(columns)]}
                own = replace(own, what=Put(own.what.values, index))
            return of_item(own, one.item.item_id, states, [columns.get(at, -1) for at in range(len(ids))])

        if change.site == "heads":
            module = modules[f"{layer.format(change.layer)}.{heads}"]
            hooks.append(module.register_forward_pre_hook(lambda _, given: (swap(given[0]), *given[1:])))
        elif change.layer == 0:
            module = modules[layer.format(0)]
            hooks.append(module.register_forward_pre_hook(lambda _, given: (swap(given[0]), *given[1:])))
        else:
            module = modules[layer.format(change.layer - 1)]
            if change.layer == 2 and final:
                module = modules[final]
            hooks.append(
                module.register_forward_hook(
                    lambda _, __, out: (swap(out[0]), *out[1:]) if isinstance(out, tuple) else swap(out)
                )
            )
    loaded.model.set_attn_implementation("eager")
    try:
        output = loaded.model(input_ids=torch.tensor([row]), decoder_input_ids=torch.tensor([written]))
    finally:
        for hook in hooks:
            hook.remove()
        loaded.model.set_attn_implementation("sdpa")
    last = output.logits[0, -(stop - first) :].log_softmax(-1)
    return last[torch.arange(stop - first), torch.tensor(ids[first:stop])]


@pytest.mark.parametrize("name", SIDES)
def test_both_sides_of_encoder_decoders_equal_plain_hooks(name: str, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny(name)
    loaded = replace(loaded, special=replace(loaded.special, gap=GAPS[name]))
    items = [prepare(text) for text in TEXTS]
    drawn = np.random.default_rng(3)
    each = {one.item.item_id: drawn.integers(0, 4, len(one.alignment.subwords)) for one in items}
    values = drawn.normal(size=(4, D_HEAD)).astype(np.float32)
    asked: dict[str, Change] = {}
    for side in ("encoder", "decoder"):
        for layer in range(3):
            asked[f"{side} {layer}"] = Change(layer, affine(layer), side=side)
    for side in SIDES[name]:
        for layer in range(2):
            asked[f"{side} heads {layer}"] = Change(layer, Put(values, each), "heads", (1,), side=side)
    gap = (1, 4)
    masks = Masked({one.item.item_id: (tuple(range(*gap)),) for one in items})
    passes = [Pass(masks, (TokenScores(1),))]
    passes += [Pass(Changed(masks, (change,), key), (TokenScores(1),)) for key, change in asked.items()]
    found = {(one.item_id, one.change): one for one in observe(loaded, items, passes)}
    moved = 0
    for one in items:
        before = filled_by_hand(loaded, name, one, gap, None)
        for key, change in {"": None, **asked}.items():
            logs = filled_by_hand(loaded, name, one, gap, change)
            nats = scores_of(found[one.item.item_id, key]).nats[1:4]
            np.testing.assert_allclose(nats, -logs, atol=1e-5, err_msg=key)
            moved += not np.allclose(before, logs, atol=1e-4)
    # The last states of a decoder that reads no further and its attention to a changed text count too.
    assert moved > 2 * len(asked)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "modernbert", "t5"])
def test_states_and_heads_behind_a_change_are_read(name: str, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny(name)
    items = [prepare(text) for text in TEXTS]
    spans = {
        one.item.item_id: tuple((at, at + 1) for at in range(len(one.alignment.subwords))) for one in items
    }
    reads = (HiddenStates(pooling=("spans",), spans=spans), HeadOutputs(spans))
    what, zero = affine(5), Put(np.zeros((1, D_HEAD), np.float32))
    passes = [
        Pass(Plain(), reads),
        Pass(Changed(Plain(), (Change(1, what),), "map"), reads),
        Pass(Changed(Plain(), (Change(1, zero, "heads", (2,)),), "zero"), reads),
    ]
    found = {(one.item_id, one.change): one for one in observe(loaded, items, passes)}
    for one in items:
        plain, mapped, ablated = (found[one.item.item_id, key] for key in ("", "map", "zero"))
        assert plain.heads is not None and mapped.heads is not None and ablated.heads is not None
        np.testing.assert_allclose(mapped.states["spans"][0], plain.states["spans"][0], atol=1e-6)
        np.testing.assert_allclose(
            mapped.states["spans"][1], apply(what, plain.states["spans"][1]), atol=1e-5
        )
        assert not np.allclose(mapped.states["spans"][2], plain.states["spans"][2], atol=1e-3)
        np.testing.assert_allclose(mapped.heads[0], plain.heads[0], atol=1e-6)
        assert not np.allclose(mapped.heads[1], plain.heads[1], atol=1e-3)
        assert plain.heads.shape[1:] == (len(one.alignment.subwords), 4, D_HEAD)
        np.testing.assert_array_equal(ablated.heads[1][:, 2], 0.0)
        np.testing.assert_allclose(ablated.heads[1][:, [0, 1, 3]], plain.heads[1][:, [0, 1, 3]], atol=1e-6)


def test_windows_and_batches_change_no_number(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("llama")
    items = [prepare(text) for text in (*TEXTS, "for i in range(10):\n    print(i)\n" * 3)]
    drawn = np.random.default_rng(1)
    each = {one.item.item_id: drawn.integers(0, 4, len(one.alignment.subwords)) for one in items}
    put = Put(drawn.normal(size=(4, D_HEAD)).astype(np.float32), each)
    passes = [
        Pass(Changed(Plain(), (Change(2, affine(1)),), "map"), (TokenScores(1),)),
        Pass(Changed(Plain(), (Change(0, put, "heads", (1,)),), "put"), (TokenScores(1),)),
    ]
    tables = []
    for budget in (16, 1024):
        settings = CaptureSettings(token_budget=budget, context=48)
        tables.append([scores_of(one).nats for one in observe(loaded, items, passes, settings=settings)])
    for one, other in zip(*tables, strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_what_cannot_be_changed_is_refused(tiny: Tiny, prepare: Prepare) -> None:
    loaded, items = tiny("llama"), [prepare(TEXTS[0])]
    wide = Put(np.zeros((1, D_HEAD), np.float32))
    item = items[0].item.item_id
    for change, said in (
        (Change(4, affine(0)), "no layer 4; it has 0 to 3"),
        (Change(3, wide, "heads", (0,)), "no attention layer 3"),
        (Change(0, wide, "heads", (4,)), "no head 4"),
        (Change(0, wide), "states of layer 0 are 32 wide"),
        (Change(0, affine(0), side="cross"), "no side 'cross'"),
        (Change(0, affine(0), positions={item: (99,)}), "changed position 99 is outside"),
        (Change(0, Put(np.zeros((1, D_MODEL)), {item: np.array([0])})), "1 values are named for"),
    ):
        with pytest.raises(InputError, match=said):
            list(observe(loaded, items, [Pass(Changed(Plain(), (change,), "c"), (TokenScores(1),))]))


def test_equal_changes_of_two_lenses_share_a_forward(tiny: Tiny, prepare: Prepare) -> None:
    loaded, items = tiny("gpt2"), [prepare(text) for text in TEXTS]
    asked = [Pass(Changed(Plain(), (Change(1, affine(2)),), key), (TokenScores(1),)) for key in ("a", "b")]
    other = Pass(Changed(Plain(), (Change(1, affine(3)),), "a"), (TokenScores(1),))
    observed = list(observe_lenses(loaded, items, {"one": asked[:1], "two": [asked[1], other]}))
    assert [(one.inputs, one.shared) for one in observed] == [(2, 1)] * len(items)
    for one in observed:
        assert [capture.change for capture in one.captures["two"]] == ["b", "a"]
        first, second = one.captures["one"][0], one.captures["two"][0]
        np.testing.assert_array_equal(scores_of(first).nats, scores_of(second).nats)


@pytest.mark.parametrize(("name", "attention"), [("llama", "self_attn"), ("bert", "attention")])
def test_layers_below_a_change_are_read_once(name: str, attention: str, tiny: Tiny, prepare: Prepare) -> None:
    loaded, items = tiny(name), [prepare(text) for text in TEXTS]
    layers = loaded.capabilities.layers
    passes = [
        Pass(Changed(Plain(), (Change(layer, affine(seed)),), f"{layer} {seed}"), (HiddenStates(),))
        for layer in range(1, layers + 1)
        for seed in range(8)
    ]
    list(observe(loaded, items, passes[:1]))  # the trial that is made once
    modules, ran = dict(loaded.model.named_modules()), dict.fromkeys(range(layers), 0)
    hooks = []
    for layer in range(layers):

        def count(_: Any, given: tuple[Any, ...], named: dict[str, Any], layer: int = layer) -> None:
            ran[layer] += len(given[0] if given else named["hidden_states"])

        module = modules[f"{LAYERS[name].format(layer)}.{attention}"]
        hooks.append(module.register_forward_pre_hook(count, with_kwargs=True))
    found = list(observe(loaded, items, passes))
    for hook in hooks:
        hook.remove()
    # Once as they are, and then each of the layers above its change.
    assert ran == {layer: len(items) * (1 + 8 * layer) for layer in range(layers)}
    assert sum(ran.values()) / (len(items) * len(passes) * layers) <= 0.6
    assert not any("forward" in vars(module) for module in modules.values())
    assert len(found) == len(items) * len(passes)
