"""What encoder-decoders write into a gap, against transformers run by hand on one text at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from sonde.base.errors import InputError
from sonde.capture.forward import observe
from sonde.capture.requests import HiddenStates, Masked, Pass, Plain, Prepared, TokenScores
from sonde.capture.settings import CaptureSettings
from sonde.models import Gap, LoadedModel

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

BOS, SEP, MASK, PAD = 256, 257, 258, 259
SENTINEL = 255
GAPS = {
    "t5": Gap(sign=SENTINEL, before=(PAD, SENTINEL), repeats=False),
    "bart": Gap(sign=MASK, before=(SEP, BOS), repeats=True),
}


def gapped(tiny: Tiny, name: str) -> LoadedModel:
    loaded = tiny(name)
    return replace(loaded, special=replace(loaded.special, gap=GAPS[name]))


def target(name: str, ids: list[int], first: int, stop: int) -> tuple[list[int], int]:
    """All that the decoder is to write as the papers have it, and where the hidden subwords stand in it."""
    if name == "t5":
        return [SENTINEL, *ids[first:stop], SENTINEL - 1], 1
    return [BOS, *ids, SEP], 1 + first


@torch.no_grad()
def by_hand(model: Any, name: str, ids: list[int], first: int, stop: int) -> torch.Tensor:
    """Log-probabilities of each hidden subword's place, the model shifting the target by itself."""
    prefix = [] if name == "t5" else [BOS]
    sign = SENTINEL if name == "t5" else MASK
    labels, at = target(name, ids, first, stop)
    model.config.decoder_start_token_id = PAD if name == "t5" else SEP
    shown = torch.tensor([[*prefix, *ids[:first], sign, *ids[stop:], SEP]])
    logits = model(input_ids=shown, labels=torch.tensor([labels])).logits[0].double()
    return logits[at : at + stop - first].log_softmax(-1)


@pytest.mark.parametrize("name", ["t5", "bart"])
@pytest.mark.parametrize("budget", [0, 1, 4096])
def test_scores_equal_a_plain_forward(name: str, budget: int, tiny: Tiny, prepare: Prepare) -> None:
    loaded = gapped(tiny, name)
    items = [prepare("x = façade(1)"), prepare("return a"), prepare("y")]
    variants = {
        items[0].item.item_id: ((2,), (4, 5, 6), (0,)),
        items[1].item.item_id: ((5, 6, 7), (0, 1, 2, 3, 4, 5, 6, 7)),
        items[2].item.item_id: ((0,),),
    }
    asked = [Pass(Masked(variants), (TokenScores(3),))]
    captures = list(observe(loaded, items, asked, settings=CaptureSettings(token_budget=budget)))
    wanted = [(item, masked) for item in items for masked in variants[item.item.item_id]]
    for capture, (item, masked) in zip(captures, wanted, strict=True):
        ids = [int(one) for one in item.alignment.subwords.ids]
        logs = by_hand(loaded.model, name, ids, masked[0], masked[-1] + 1)
        scores = capture.scores
        assert scores is not None and capture.written
        assert tuple(np.flatnonzero(scores.scored).tolist()) == masked
        for row, at in zip(logs, masked, strict=True):
            assert scores.nats[at] == pytest.approx(-float(row[ids[at]]), abs=1e-4)
            assert scores.rank[at] == int((row >= row[ids[at]] - 1e-4).sum())
            assert scores.top_ids[at].tolist() == row.topk(3).indices.tolist()


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_long_text_is_read_around_the_gap(name: str, tiny: Tiny, prepare: Prepare) -> None:
    loaded = gapped(tiny, name)
    item = prepare("for i in range(10): print(i)")
    ids = [int(one) for one in item.alignment.subwords.ids]
    around = 1 if name == "t5" else 2
    room = 12 - around
    for first in range(len(ids) - 1):
        asked = [Pass(Masked({item.item.item_id: ((first, first + 1),)}), (TokenScores(1),))]
        (capture,) = observe(loaded, [item], asked, settings=CaptureSettings(context=12))
        begin = max(0, min(first - (room - 2) // 2, len(ids) - room))
        seen = ids[begin : begin + room]
        logs = by_hand(loaded.model, name, seen, first - begin, first - begin + 2)
        scores = capture.scores
        assert scores is not None
        for row, at in zip(logs, (first, first + 1), strict=True):
            assert scores.nats[at] == pytest.approx(-float(row[ids[at]]), abs=1e-4)
            assert scores.context[at] == at - begin


def test_what_cannot_be_asked_is_refused(tiny: Tiny, prepare: Prepare) -> None:
    item = prepare("abcdefgh")
    key = item.item.item_id
    scores, states = TokenScores(), HiddenStates()
    one, two = Masked({key: ((1,),)}), Masked({key: ((1, 3),)})
    every = Masked({key: (tuple(range(8)),)})
    t5, bart = gapped(tiny, "t5"), gapped(tiny, "bart")
    cases: list[tuple[LoadedModel, Pass, int, str]] = [
        (t5, Pass(Plain(), (scores,)), 0, "is an encoder-decoder, which scores gaps"),
        (tiny("t5"), Pass(one, (scores,)), 0, "no token for a gap"),
        (bart, Pass(two, (scores,)), 0, "1, 3 are not adjacent"),
        (bart, Pass(one, (scores, states)), 0, "without a gap"),
        (t5, Pass(every, (scores,)), 6, "8 subwords of gaps are more"),
    ]
    for loaded, asked, context, words in cases:
        with pytest.raises(InputError, match=words):
            list(observe(loaded, [item], [asked], settings=CaptureSettings(context=context)))


def test_each_kind_of_model_answers_its_own_passes(tiny: Tiny, prepare: Prepare) -> None:
    item = prepare("abc")
    asked = [
        Pass(Plain(), (TokenScores(1),), kinds=("decoder",)),
        Pass(Masked({item.item.item_id: ((0,), (1,))}), (TokenScores(1),), kinds=("encoder",)),
        Pass(Masked({item.item.item_id: ((0, 1),)}), (TokenScores(1),), kinds=("encoder-decoder",)),
    ]
    scored = {"llama": [(0, 1, 2)], "bert": [(0,), (1,)], "t5": [(0, 1)]}
    for name, expected in scored.items():
        loaded = gapped(tiny, name) if name == "t5" else tiny(name)
        found = [one.scores for one in observe(loaded, [item], asked)]
        assert [tuple(np.flatnonzero(one.scored).tolist()) for one in found if one is not None] == expected
