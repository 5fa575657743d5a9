"""The logit lens as a request, against plain eager forwards whose norm and head are written out by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from sonde.base.errors import InputError
from sonde.capture.forward import observe, observe_lenses
from sonde.capture.requests import ItemCapture, LayerScores, Masked, Pass, Plain, Prepared, TokenScores
from sonde.capture.settings import CaptureSettings
from sonde.models import Gap, LoadedModel
from sonde.models.engine.lm_head import last_steps

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

BOS, SEP, MASK, PAD, SENTINEL = 256, 257, 258, 259, 255
GAPS = {
    "t5": Gap(sign=SENTINEL, before=(PAD, SENTINEL), repeats=False),
    "bart": Gap(sign=MASK, before=(SEP, BOS), repeats=True),
}
TEXT = "def f(a, b):\n    return a + b\n"
AT = (1, 7, 12)


def _softcapped(logits: Tensor) -> Tensor:
    return 30.0 * torch.tanh(logits / 30.0)


READ: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "llama": lambda model, states: model.lm_head(model.model.norm(states)),
    "gpt2": lambda model, states: model.lm_head(model.transformer.ln_f(states)),
    "neox": lambda model, states: model.lm_head(model.gpt_neox.final_layer_norm(states)),
    "gemma2": lambda model, states: _softcapped(model.lm_head(model.model.norm(states))),
    "bert": lambda model, states: model.cls(states),
    "roberta": lambda model, states: model.lm_head(states),
    "modernbert": lambda model, states: model.decoder(model.head(model.model.final_norm(states))),
    # Tied embeddings scale the states before they are projected (T5, section 2.1 of its code).
    "t5": lambda model, states: model.lm_head(model.decoder.final_layer_norm(states) * 32**-0.5),
    "bart": lambda model, states: model.lm_head(states) + model.final_logits_bias[0],
}
"""From the states of any layer to logits: the model's own norm, once, and its own head."""


@pytest.fixture
def named(tiny: Tiny) -> Tiny:
    """Those of `tiny`, and two more encoders in the place of its BERT."""

    def load(name: str) -> LoadedModel:
        if name in GAPS:
            loaded = tiny(name)
            return replace(loaded, special=replace(loaded.special, gap=GAPS[name]))
        if name not in ("roberta", "modernbert"):
            return tiny(name)
        sizes = {"vocab_size": 260, "pad_token_id": 259, "bos_token_id": BOS, "eos_token_id": SEP}
        sizes |= {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4}
        torch.manual_seed(0)
        if name == "roberta":
            config = transformers.RobertaConfig(**sizes, num_hidden_layers=3, max_position_embeddings=330)
            model: Any = transformers.RobertaForMaskedLM(config)
        else:
            config = transformers.ModernBertConfig(
                **sizes, num_hidden_layers=3, max_position_embeddings=64, cls_token_id=BOS, sep_token_id=SEP
            )
            model = transformers.ModernBertForMaskedLM(config)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(4.0)
        return replace(tiny("bert"), model=model.eval(), family=name)

    return load


def _captured(loaded: LoadedModel, item: Prepared, *, context: int = 0) -> dict[int, ItemCapture]:
    """What is read off the layers at some subwords, by variant: all from one input, or masked one by one."""
    key = item.item.item_id
    alone = tuple((at,) for at in AT)
    variant = Plain() if loaded.capabilities.kind == "decoder" else Masked({key: alone})
    asked = [Pass(variant, (LayerScores({key: AT}),))]
    settings = CaptureSettings(context=context)
    return {one.variant: one for one in observe(loaded, [item], asked, settings=settings) if one.layers}


def _input(loaded: LoadedModel, ids: list[int], at: int) -> tuple[dict[str, Tensor], int]:
    """What the model reads to say what stands at a subword, and the column that says it."""
    kind, gap = loaded.capabilities.kind, loaded.special.gap
    if kind == "decoder":
        return {"input_ids": torch.tensor([[BOS, *ids]])}, at
    if kind == "encoder":
        return {"input_ids": torch.tensor([[BOS, *ids[:at], MASK, *ids[at + 1 :], SEP]])}, at + 1
    assert gap is not None
    special = loaded.special
    shown = [*special.prefix, *ids[:at], gap.sign, *ids[at + 1 :], *special.suffix]
    written = [*gap.before, *(ids[:at] if gap.repeats else [])]
    return {
        "input_ids": torch.tensor([shown]),
        "decoder_input_ids": torch.tensor([written]),
    }, len(written) - 1


@pytest.mark.parametrize("name", READ)
def test_layers_are_read_through_the_models_own_norm_and_head(
    name: str, named: Tiny, prepare: Prepare
) -> None:
    loaded = named(name)
    model = loaded.model
    item = prepare(TEXT)
    ids = item.alignment.subwords.ids.tolist()
    held = _captured(loaded, item)
    decoder = loaded.capabilities.kind == "decoder"
    assert len(held) == (1 if decoder else len(AT))
    for number, at in enumerate(AT):
        found = held[0 if decoder else number + 1].layers
        assert found is not None
        assert found.position.tolist() == ([*AT] if decoder else [at])
        given, column = _input(loaded, ids, at)
        whole, raw = _raw(model, given)
        with torch.no_grad():
            whole = whole[0, column].log_softmax(-1)
            read = [READ[name](model, states[0, column]).log_softmax(-1) for states in raw]
        place = found.position.tolist().index(at)
        assert len(found.nats) == len(read)
        for layer, logs in enumerate(read):
            np.testing.assert_allclose(-found.nats[layer, place], logs[ids[at]], atol=1e-4)
            assert found.rank[layer, place] == int((logs >= logs[ids[at]] - 1e-4).sum())
            assert found.top_id[layer, place] == int(logs.argmax())
        np.testing.assert_allclose(-found.nats[-1, place], whole[ids[at]], atol=1e-4)


@torch.no_grad()
def _raw(model: Any, given: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Logits, and the states of all layers as hooks see them: what a model returns may be normed already."""
    layers, raw = _layers(model), []
    hooks = [
        layers[0].register_forward_pre_hook(lambda _, args: raw.append(args[0])),
        *(layer.register_forward_hook(lambda _, args, out: raw.append(_first(out))) for layer in layers),
    ]
    logits = model(**given).logits
    for hook in hooks:
        hook.remove()
    return logits, raw


def _layers(model: Any) -> Any:
    """The layers of the side that predicts, by the names that transformers gives them."""
    for path in ("model.layers", "transformer.h", "gpt_neox.layers", "decoder.block", "model.decoder.layers"):
        try:
            return model.get_submodule(path)
        except AttributeError:
            continue
    return model.base_model.encoder.layer


def _first(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


@pytest.mark.parametrize(
    ("name", "steps"), [("llama", ["norm"]), ("bert", []), ("bart", []), ("t5", ["final_layer_norm"])]
)
def test_what_stands_behind_the_last_layer_is_found_and_never_twice(
    name: str, steps: list[str], tiny: Tiny
) -> None:
    loaded = tiny(name)
    found = last_steps(loaded)
    names = {module: path.rpartition(".")[2] for path, module in loaded.model.named_modules()}
    assert isinstance(found, torch.nn.Sequential)
    assert [names[module] for module in found] == steps


def test_a_step_that_is_no_module_is_refused(tiny: Tiny) -> None:
    loaded = tiny("llama")
    body = loaded.model.model
    plain = body.forward

    def scaled(*args: Any, **more: Any) -> Any:
        output = plain(*args, **more)
        output.last_hidden_state = output.last_hidden_state * 2.0
        return output

    body.forward = scaled
    with pytest.raises(InputError, match="no separate module"):
        last_steps(loaded)


def test_windows_and_other_lenses_change_nothing(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("llama")
    item, other = prepare(TEXT), prepare("x = [1, 2]\n")
    key = item.item.item_id
    passes = {
        "depth": [Pass(Plain(), (LayerScores({key: AT}),))],
        "surprisal": [Pass(Plain(), (TokenScores(2),))],
    }
    first, second = observe_lenses(loaded, [item, other], passes)
    (deep,), (scored,) = first.captures["depth"], first.captures["surprisal"]
    assert (first.inputs, first.shared) == (1, 1)
    assert deep.scores is None
    assert deep.layers is not None
    assert scored.layers is None
    assert scored.scores is not None
    np.testing.assert_allclose(deep.layers.nats[-1], scored.scores.nats[[*AT]], atol=1e-5)
    assert second.captures["depth"] == ()
    # A window of its own reads what lies further behind.
    cut = _captured(loaded, item, context=16)[0].layers
    assert cut is not None
    assert cut.position.tolist() == [*AT]
    np.testing.assert_allclose(cut.nats, deep.layers.nats, atol=1e-4)


def test_two_ids_are_held_against_each_other_at_every_layer(tiny: Tiny, prepare: Prepare) -> None:
    loaded, item = tiny("gemma2"), prepare(TEXT)
    key, ids = item.item.item_id, item.alignment.subwords.ids.tolist()
    other = ord("q")
    asked = {
        "margins": [Pass(Plain(), (LayerScores({key: (7, 12)}, {key: {12: other}}),))],
        "alone": [Pass(Plain(), (LayerScores({key: (12,)}),))],
    }
    (seen,) = observe_lenses(loaded, [item], asked)
    held, alone = seen.captures["margins"][0].layers, seen.captures["alone"][0].layers
    assert held is not None
    assert alone is not None
    given, column = _input(loaded, ids, 12)
    whole, raw = _raw(loaded.model, given)
    with torch.no_grad():
        logits = torch.stack([READ["gemma2"](loaded.model, states[0, column]) for states in raw])
    np.testing.assert_allclose(held.margin[:, 1], logits[:, ids[12]] - logits[:, other], atol=1e-4)
    np.testing.assert_allclose(
        held.margin[-1, 1], whole[0, column, ids[12]] - whole[0, column, other], atol=1e-4
    )
    assert np.isnan(held.margin[:, 0]).all()
    assert (held.position.tolist(), held.other.tolist()) == ([7, 12], [-1, other])
    assert (alone.position.tolist(), alone.other.tolist()) == ([12], [-1])
    np.testing.assert_allclose(alone.nats[:, 0], held.nats[:, 1], atol=1e-6)
    np.testing.assert_array_equal(alone.rank[:, 0], held.rank[:, 1])


def test_a_position_outside_the_item_is_refused(tiny: Tiny, prepare: Prepare) -> None:
    loaded, item = tiny("llama"), prepare("x = 1\n")
    wanted = LayerScores({item.item.item_id: (99,)})
    with pytest.raises(InputError, match="position 99 is outside"):
        list(observe(loaded, [item], [Pass(Plain(), (wanted,))]))
