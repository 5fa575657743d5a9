"""One input that a model's own code fails on is left out; the others are as they would be without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sonde.base.errors import CaptureError
from sonde.capture.forward import observe, observe_lenses
from sonde.capture.requests import HiddenStates, Masked, Pass, Plain, Prepared, TokenScores
from sonde.models import LoadedModel
from sonde.models.engine.lm_head import FullHead

from .conftest import MAKERS

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

BAD = ord("~")


def failing(loaded: LoadedModel, patch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let a model fail on whatever holds one subword."""
    body = loaded.model.get_encoder() if loaded.capabilities.kind == "encoder-decoder" else None
    body = loaded.model.base_model if body is None else body
    forward = body.forward

    def picky(*args: Any, **kwargs: Any) -> Any:
        if (kwargs["input_ids"] == BAD).any():
            raise error
        return forward(*args, **kwargs)

    patch.setattr(body, "forward", picky)


@pytest.mark.parametrize("name", MAKERS)
def test_an_input_that_cannot_be_read_ends_nothing(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    items = [prepare(text) for text in ("a = 1\n", "~ = 2\n", "b += 'ö'", "xyz")]
    asked = {"states": [Pass(Plain(), (HiddenStates(),))]}
    loaded = tiny(name)
    whole = list(observe_lenses(loaded, items, asked))
    failing(loaded, monkeypatch, IndexError("index out of range in self"))
    found = list(observe_lenses(loaded, items, asked))
    assert [one.unread for one in found] == ["", "index out of range in self", "", ""]
    assert found[1].captures == {"states": ()}
    for before, after in zip(whole, found, strict=True):
        if not after.unread:
            mine, theirs = (one.captures["states"][0].states["mean"] for one in (after, before))
            np.testing.assert_allclose(mine, theirs, atol=1e-4)
    with pytest.raises(CaptureError, match=r"cannot read item .*index out of range"):
        list(observe(loaded, items, asked["states"]))


def test_masked_inputs_of_it_are_left_out_together(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [prepare(text) for text in ("ab~", "abc")]
    loaded = tiny("bert")
    failing(loaded, monkeypatch, RuntimeError("no"))
    masked = Masked({one.item.item_id: ((0,), (2,)) for one in items})
    bad, good = observe_lenses(loaded, items, {"scores": [Pass(masked, (TokenScores(),))]})
    # One of its two inputs hides what the model fails on; half an answer is none.
    assert bad.unread == "no" and bad.captures == {"scores": ()}
    assert len(good.captures["scores"]) == 2


def test_a_model_that_reads_nothing_is_refused(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = tiny("gpt2")
    failing(loaded, monkeypatch, IndexError("index out of range in self"))
    with pytest.raises(CaptureError, match="index out of range in self"):
        list(observe_lenses(loaded, [prepare("~ab")], {"": [Pass(Plain(), (TokenScores(),))]}))


def test_a_head_that_fails_ends_the_run(
    tiny: Tiny, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = tiny("gpt2")
    items = [prepare(text) for text in ("ab", "abc")]
    list(observe_lenses(loaded, items, {"": [Pass(Plain(), (TokenScores(),))]}))

    def fail(*_: Any) -> Any:
        raise IndexError("no such id")

    monkeypatch.setattr(FullHead, "__call__", fail)
    with pytest.raises(IndexError, match="no such id"):
        list(observe_lenses(loaded, items, {"": [Pass(Plain(), (TokenScores(),))]}))
