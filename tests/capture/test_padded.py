"""Pads scored on request, against a plain forward over a padded batch."""

import numpy as np
import pytest
import torch
from tests.experiments.conftest import save_decoder

from sonde.base.errors import InputError
from sonde.capture.forward import observe
from sonde.capture.requests import Pass, Plain, TokenScores, prepare
from sonde.corpora import Item
from sonde.models import ModelSpec, load_model

CODE = "def f(a):\n    return a['é']\n"


def item(text: str) -> Item:
    return Item(
        item_id=text,
        text=text,
        language="python",
        unit="function",
        path="a.py",
        name="f",
        offset=0,
        cluster="c",
        repository="r",
    )


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory):
    return load_model(ModelSpec(name=str(save_decoder(tmp_path_factory.mktemp("pads") / "decoder"))))


def test_pads_equal_a_plain_forward_over_a_padded_input(loaded) -> None:
    prepared = prepare(loaded, [item(CODE), item("x = 1\n")])
    passes = [Pass(Plain(), (TokenScores(),)), Pass(Plain(padded=True), (TokenScores(top_k=2),))]
    found = list(observe(loaded, prepared, passes))
    assert [capture.variant for capture in found] == [0, 1, 0, 1]
    for one, capture in zip(prepared, found[1::2], strict=True):
        ids = [loaded.special.bos, *one.alignment.subwords.ids.tolist()]
        pads = loaded.capabilities.context - len(ids)
        mask = torch.tensor([[1] * len(ids) + [0] * pads])
        tokens = torch.tensor([[*ids, *[loaded.special.pad] * pads]])
        with torch.no_grad():
            logits = loaded.model(input_ids=tokens, attention_mask=mask).logits[0, len(ids) - 1 : -1]
        expected = -logits.double().log_softmax(-1)[:, loaded.special.pad]
        assert capture.pad == loaded.special.pad
        assert capture.scores is not None
        assert capture.scores.nats == pytest.approx(expected.numpy(), abs=1e-5)
        assert capture.scores.top_ids.shape == (pads, 2)


def test_the_plain_scores_are_what_they_are_without_pads(loaded) -> None:
    prepared = prepare(loaded, [item(CODE)])
    alone = next(observe(loaded, prepared, [Pass(Plain(), (TokenScores(),))]))
    beside = next(
        observe(
            loaded, prepared, [Pass(Plain(), (TokenScores(),)), Pass(Plain(padded=True), (TokenScores(),))]
        )
    )
    assert alone.scores is not None
    assert beside.scores is not None
    assert np.abs(alone.scores.nats - beside.scores.nats).max() < 1e-5


def test_an_item_that_fills_the_context_has_no_pads(loaded) -> None:
    prepared = prepare(loaded, [item("value = 1\n" * 40), item("")])
    for capture in observe(loaded, prepared, [Pass(Plain(padded=True), (TokenScores(),))]):
        assert capture.scores is not None
        assert len(capture.scores.nats) == 0


def test_only_decoders_are_asked_for_pads() -> None:
    encoder = load_model(ModelSpec(name="sonde/mini-encoder"))
    asked = [Pass(Plain(padded=True), (TokenScores(),))]
    with pytest.raises(InputError, match="only decoders score padding"):
        list(observe(encoder, prepare(encoder, [item(CODE)]), asked))
