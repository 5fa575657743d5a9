"""Patching and attribution patching, against hooks by hand on eager models and a model whose way is known."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

from sonde.base.errors import InputError
from sonde.capture.forward import observe, observe_lenses
from sonde.capture.interventions import DIRECTIONS, PatchCell, PatchedItem, Patches, TextPair
from sonde.capture.requests import Pass, Plain, Prepared, TokenScores
from sonde.models import LoadedModel

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

BOS, SEP, MASK, PAD = 256, 257, 258, 259

CLEAN = "a=1;b=2;c=b+a;d=b*a"
CORRUPT = "b=1;a=2;c=a+b;d=a*a"
"""The last ``a`` stays as it is, and everything before it is exchanged."""

PAIR = TextPair(
    CORRUPT,
    "a=1;b=2;c=b+a;d=b*b",
    (18, 19),
    {"rival": ((4, 5), (10, 11), (16, 17)), "uses": ((12, 13),), "definition": ((0, 1),)},
)
CELLS = {
    "place": ("place",),
    "definition": ("definition",),
    "names": ("rival", "uses", "definition"),
    "other": ("other",),
}
POSITIONS = {
    "decoder": {"place": [17], "definition": [0], "names": [0, 4, 10, 12, 16]},
    "encoder": {"place": [18], "definition": [0], "names": [0, 4, 10, 12, 16]},
}


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One piece a byte, its id the byte's value, as `prepare` has it."""
    vocabulary = {letter: byte for byte, letter in bytes_to_unicode().items()}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return PreTrainedTokenizerFast(tokenizer_object=made)


def every(layers: int) -> tuple[PatchCell, ...]:
    return tuple(
        PatchCell(direction, layer, cell)
        for direction in DIRECTIONS
        for layer in range(layers)
        for cell in CELLS
    )


def patched(
    loaded: LoadedModel, item: Prepared, pairs: Sequence[TextPair], cells: Sequence[PatchCell], drawn: int = 0
) -> PatchedItem:
    loaded = replace(loaded, tokenizer=byte_tokenizer())
    asked = Patches({item.item.item_id: tuple(pairs)}, CELLS, tuple(cells), drawn)
    (captured,) = observe(loaded, [item], [Pass(Plain(), (asked,))])
    assert captured.patches is not None
    return captured.patches


class ByHand:
    """The same model in float64 with plain hooks: states behind every layer, kept or put in place."""

    def __init__(self, loaded: LoadedModel, layers: Sequence[str], final: str) -> None:
        self.model = copy.deepcopy(loaded.model).double()
        self.model.set_attn_implementation("eager")
        self.decoder = loaded.capabilities.kind == "decoder"
        modules = [self.model.get_submodule(name) for name in layers]
        self.places = [modules[0], *modules[:-1], self.model.get_submodule(final) if final else modules[-1]]

    def ids(self, text: str) -> list[int]:
        """What is read, up to the place for a decoder and behind a mask for an encoder."""
        found = [*text.encode()]
        return [BOS, *found[:18]] if self.decoder else [BOS, *found[:18], MASK, SEP]

    @torch.no_grad()
    def margin(
        self, text: str, change: Callable[[int, Tensor], Tensor] = lambda _, states: states
    ) -> tuple[float, list[Tensor]]:
        """Logit of ``a`` less that of ``b`` at the place, and the states, which a function may change."""
        kept: list[Tensor] = []

        def first(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            kept.append(given[0])
            return (change(0, given[0]), *given[1:])

        def hook(layer: int) -> Callable[..., Any]:
            def behind(_: Any, __: Any, output: Any) -> Any:
                states = output if isinstance(output, Tensor) else output[0]
                kept.append(states)
                new = change(layer, states)
                return new if isinstance(output, Tensor) else (new, *output[1:])

            return behind

        with ExitStack() as stack:
            stack.callback(self.places[0].register_forward_pre_hook(first).remove)
            for layer, module in enumerate(self.places[1:], 1):
                stack.callback(module.register_forward_hook(hook(layer)).remove)
            ids = self.ids(text)
            logits = self.model(input_ids=torch.tensor([ids])).logits[0, -1 if self.decoder else -2]
        return float(logits[ord("a")] - logits[ord("b")]), kept

    def effect(self, taker: str, giver: str, layer: int, positions: Sequence[int], share: float) -> float:
        """By how much a margin changes when states are moved by a share of the way to the other text's."""
        base, _ = self.margin(taker)
        _, states = self.margin(giver)

        def change(at: int, old: Tensor) -> Tensor:
            if at != layer:
                return old
            new = old.clone()
            columns = [position + 1 for position in positions]
            new[0, columns] += share * (states[layer][0, columns] - old[0, columns])
            return new

        return self.margin(taker, change)[0] - base


MODELS = {
    "llama": ([f"model.layers.{at}" for at in range(3)], "model.norm"),
    "gpt2": ([f"transformer.h.{at}" for at in range(3)], "transformer.ln_f"),
    "gemma2": ([f"model.layers.{at}" for at in range(2)], "model.norm"),
    "bert": ([f"bert.encoder.layer.{at}" for at in range(3)], ""),
}


@pytest.mark.parametrize("name", MODELS)
def test_cells_are_patched_and_attributed_as_by_hand(name: str, tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny(name)
    layers, final = MODELS[name]
    found = patched(loaded, prepare(CLEAN), [PAIR], every(len(layers) + 1))
    assert (found.tried, found.aligned) == (1, 1)
    pair = found.pair
    assert pair is not None
    hand = ByHand(loaded, layers, final)
    positions = POSITIONS[loaded.capabilities.kind]
    clean, corrupt = hand.margin(CLEAN)[0], hand.margin(CORRUPT)[0]
    np.testing.assert_allclose([pair.clean, pair.corrupt], [clean, corrupt], atol=1e-4)
    held = positions["place"] + positions["names"]
    positions["other"] = [at for at in range(18) if at not in held]
    for direction, (taker, giver) in enumerate(((CORRUPT, CLEAN), (CLEAN, CORRUPT))):
        for layer in range(len(layers) + 1):
            for at, cell in enumerate(CELLS):
                whole = hand.effect(taker, giver, layer, positions[cell], 1.0)
                np.testing.assert_allclose(pair.patched[direction, layer, at], whole, atol=1e-4)
                # Some norms compute in float32 even so, which a smaller step would drown in.
                ahead, back = (hand.effect(taker, giver, layer, positions[cell], 0.01 * s) for s in (1, -1))
                slope = (ahead - back) / 0.02
                np.testing.assert_allclose(pair.attributed[direction, layer, at], slope, rtol=2e-3, atol=2e-3)
    # The texts differ in names alone, and behind the last layer the place alone answers.
    np.testing.assert_allclose(pair.patched[0, 0, 2], clean - corrupt, atol=1e-4)
    np.testing.assert_allclose(pair.patched[0, -1, 0], clean - corrupt, atol=1e-4)


def test_a_planted_way_is_found(prepare: Prepare, tiny: Tiny) -> None:
    """Only the second layer looks at other positions, and it sees no further than eight subwords back."""
    torch.manual_seed(0)
    config = transformers.MistralConfig(
        vocab_size=260, pad_token_id=PAD, bos_token_id=BOS, eos_token_id=SEP, hidden_size=32,
        intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=64, sliding_window=8,
    )  # fmt: skip
    model: Any = transformers.MistralForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4.0)
        for layer in (0, 2):
            model.model.layers[layer].self_attn.o_proj.weight.zero_()
    loaded = replace(tiny("mistral"), model=model)
    pair = patched(loaded, prepare(CLEAN), [PAIR], every(4)).pair
    assert pair is not None
    total = pair.clean - pair.corrupt
    assert abs(total) > 1e-2
    # The two names are read until the second layer, and the place holds the answer behind it.
    names, place = [*CELLS].index("names"), [*CELLS].index("place")
    np.testing.assert_allclose(pair.patched[0, :, names] / total, [1, 1, 0, 0], atol=1e-4)
    np.testing.assert_allclose(pair.patched[0, :, place] / total, [0, 0, 1, 1], atol=1e-4)
    np.testing.assert_allclose(pair.patched[1, :, names] / total, [-1, -1, 0, 0], atol=1e-4)
    # The definition stands 18 subwords before the place, where no layer looks.
    for told in (pair.patched, pair.attributed):
        np.testing.assert_allclose(told[:, :, [*CELLS].index("definition")], 0.0, atol=1e-5)


def test_pairs_that_are_not_cut_alike_are_counted(tiny: Tiny, prepare: Prepare) -> None:
    longer = TextPair(
        "bb=1;a=2;c=a", "a=1;bb=2;c=bb", (11, 12), {"definition": ((0, 1),), "rival": ((4, 6),)}
    )
    loaded, item = tiny("llama"), prepare("a=1;bb=2;c=a")
    found = patched(loaded, item, [longer], every(4))
    assert (found.tried, found.aligned, found.pair) == (1, 0, None)
    # What is said to be exchanged has to be.
    same = replace(PAIR, corrupt=CLEAN)
    assert patched(loaded, prepare(CLEAN), [same], every(4)).aligned == 0
    # The first pair that fits is taken.
    both = patched(loaded, prepare(CLEAN), [same, PAIR], every(4))
    assert (both.tried, both.aligned) == (2, 1)


def test_cells_are_drawn_at_random_and_others_are_left(tiny: Tiny, prepare: Prepare) -> None:
    loaded, item = tiny("llama"), prepare(CLEAN)
    one, two = (patched(loaded, item, [PAIR], [], drawn=5).pair for _ in range(2))
    assert one is not None
    assert two is not None
    assert 0 < one.drawn.sum() <= 5
    np.testing.assert_array_equal(one.drawn, two.drawn)
    assert np.isfinite(one.patched[one.drawn]).all()
    assert np.isfinite(one.patched).sum() <= 5
    # None of the last layer, where attribution is right by itself.
    assert not one.drawn[:, -1].any()
    named = patched(loaded, item, [PAIR], [PatchCell("noising", 2, "place")]).pair
    assert named is not None
    assert np.argwhere(np.isfinite(named.patched)).tolist() == [[1, 2, 0]]
    assert not named.drawn.any()


def test_other_requests_stay_as_they_are(tiny: Tiny, prepare: Prepare) -> None:
    loaded = replace(tiny("llama"), tokenizer=byte_tokenizer())
    item, other = prepare(CLEAN), prepare("x = 1\n")
    asked = Patches({item.item.item_id: (PAIR,)}, CELLS)
    scores = [Pass(Plain(), (TokenScores(1),))]
    found = [
        *observe_lenses(loaded, [item, other], {"patch": [Pass(Plain(), (asked,))], "surprisal": scores})
    ]
    assert [len(one.captures["patch"]) for one in found] == [1, 0]
    assert [len(one.captures["surprisal"]) for one in found] == [1, 1]
    assert found[0].captures["patch"][0].scores is None


def test_what_cannot_be_patched_is_refused(tiny: Tiny, prepare: Prepare) -> None:
    with pytest.raises(InputError, match="neither a decoder nor a masked model"):
        patched(tiny("t5"), prepare(CLEAN), [PAIR], [])
