"""The pointer head against the published formula, written out slowly; places and the limit."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.test_finetuning import encode_all, save

from sonde.models import load_model
from sonde.training.finetune.batches import Batch, collate
from sonde.training.finetune.data import EncodedExample, Sample, TaskData
from sonde.training.finetune.model import PointerHead, build_headed_model
from sonde.training.finetune.predict import predict_examples
from sonde.training.finetune.recipe import FinetuneRecipe
from sonde.training.finetune.tune import tune

RECIPE = FinetuneRecipe(length=12, dropout=0.0)


def example(size: int, candidates: list[int], location: int, repairs: list[int]) -> EncodedExample:
    part = np.ones(size, np.int64)
    return EncodedExample(
        np.full(size, 5), part, int(location != 0), tuple(candidates), location, tuple(repairs)
    )


def batch_of(*examples: EncodedExample) -> Batch:
    return collate(range(len(examples)), examples, 0, torch.device("cpu"))


EXAMPLES = (
    example(8, [0, 3, 5, 7], 5, [3, 7]),
    example(6, [0, 2, 4], 0, []),
    example(5, [0, 2], -1, [2]),
)


def logits_by_hand(head: PointerHead, states: torch.Tensor, row: int, place: int) -> np.ndarray:
    """tanh(Y Wy + c Wh) w of one place, with numpy."""
    whole = states[row, 0]
    here = whole if place == 0 else states[row, place - 1]
    wy, wh, w = (layer.weight.detach().double().numpy().T for layer in (head.states, head.whole, head.out))
    return np.tanh(here.double().numpy() @ wy + whole.double().numpy() @ wh) @ w


@pytest.mark.parametrize("masked_zero", [False, True])
def test_probabilities_are_those_of_the_formula(masked_zero: bool) -> None:
    torch.manual_seed(0)
    recipe = dataclasses.replace(RECIPE, masked_zero=masked_zero)
    head = PointerHead(16, "first", recipe).eval()
    states = torch.randn(3, 8, 16)
    found = head(states, batch_of(*EXAMPLES)).detach().exp().numpy()
    for row, one in enumerate(EXAMPLES):
        for pointer in range(2):
            weights = {
                place: math.exp(logits_by_hand(head, states, row, place)[pointer]) for place in one.candidates
            }
            masked = RECIPE.length + 1 - len(one.candidates) if masked_zero else 0
            total = sum(weights.values()) + masked * 1.0
            for place in range(9):
                expected = weights.get(place, 1.0 if masked_zero else 0.0) / total
                assert found[row, pointer, place] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("sum_of_logs", [False, True])
def test_the_loss_is_the_sum_over_places_or_the_logarithm_of_it(sum_of_logs: bool) -> None:
    torch.manual_seed(0)
    head = PointerHead(16, "first", dataclasses.replace(RECIPE, sum_of_logs=sum_of_logs)).eval()
    batch = batch_of(*EXAMPLES)
    logs = head(torch.randn(3, 8, 16), batch)
    p = logs.detach().exp().double().numpy()
    repair = math.log(p[0, 1, 3]) + math.log(p[0, 1, 7]) if sum_of_logs else math.log(p[0, 1, 3] + p[0, 1, 7])
    # The third example's error is beyond the limit: it is not in the loss, but in the mean.
    expected = -(math.log(p[0, 0, 5]) + repair + math.log(p[1, 0, 0])) / 3
    loss = head.loss(logs, batch)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    assert all(torch.isfinite(one.grad).all() for one in head.parameters() if one.grad is not None)


def test_masked_positions_may_win_only_as_published() -> None:
    """Candidates with negative logits lose against masked places, whose logit is 0 there."""
    head = PointerHead(4, "first", dataclasses.replace(RECIPE, masked_zero=True)).eval()
    corrected = PointerHead(4, "first", RECIPE).eval()
    for one in (head, corrected):
        torch.nn.init.constant_(one.states.weight, 1.0)
        torch.nn.init.constant_(one.whole.weight, 0.0)
        torch.nn.init.constant_(one.out.weight, -1.0)
    states, batch = torch.ones(3, 8, 4), batch_of(*EXAMPLES)
    published, ours = (one(states, batch).argmax(-1) for one in (head, corrected))
    for row, example in enumerate(EXAMPLES):
        assert not set(published[row].tolist()) & set(example.candidates)
        assert set(ours[row].tolist()) <= set(example.candidates)


def test_places_are_the_subwords_that_hold_the_first_characters(tmp_path: Path) -> None:
    loaded = load_model(save(tmp_path, "bert"))
    text = "f ( a , bb ) : a = bb"
    at = {"a": (4, 5), "bb": (8, 10), "a2": (15, 16), "bb2": (19, 21)}
    sample = Sample(
        "x", text, 1, candidates=tuple(at.values()), error=at["a2"], repairs=(at["bb"], at["bb2"])
    )
    for length, location, repairs, truncated in (
        (40, 9, (6, 11), False),
        (11, 9, (6,), False),
        (9, -1, (6,), True),
    ):
        (found,) = encode_all([sample], loaded, length)
        # Place 0 is nothing, place 1 the start token, and the words follow from place 2 on.
        assert (found.location, found.repairs, found.truncated) == (location, repairs, truncated)
        assert set(found.candidates) == {0, 4, 6, 9, 11} & set(range(length))
    (clean,) = encode_all([dataclasses.replace(sample, error=None, repairs=())], loaded, 9)
    assert (clean.location, clean.truncated) == (0, False)


def test_an_error_beyond_the_limit_is_a_failure_whatever_is_said(tmp_path: Path) -> None:
    spec = save(tmp_path, "bert")
    loaded = load_model(spec)
    text = "a b " * 20
    beyond = Sample("x", text, 1, candidates=((0, 1), (76, 77)), error=(76, 77), repairs=((0, 1),))
    clean = Sample("y", text, 0, candidates=((0, 1), (76, 77)))
    data = TaskData(("no", "yes"), [beyond, clean], [beyond], [clean])
    model = build_headed_model(loaded, data, RECIPE)
    encoded = encode_all([beyond, clean], loaded, 12)
    for bias in (-1.0, 1.0):
        # All say nothing is wrong, or none does: only the first of the candidates can win then.
        torch.nn.init.constant_(model.head.out.weight, bias)
        found = predict_examples(model, encoded, 0)
        assert found.located is not None
        assert not found.located[0] and not found.correct[0] and found.truncated[0]
        assert found.located[1] == (found.predicted[1] == 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "modernbert", "llama", "t5"])
@pytest.mark.parametrize("pair", [False, True])
def test_every_kind_of_model_takes_pointers_and_pairs(kind: str, pair: bool, tmp_path: Path) -> None:
    """A loss that falls over and over on the same few examples: head and body move as one."""
    spec = save(tmp_path / "model", kind)
    text = "f ( a , b ) = a + b"
    samples = [
        Sample(name, text, target, second=12)
        if pair
        else Sample(name, text, target, candidates=((4, 5), (8, 9), (14, 15)), error=error, repairs=repairs)
        for name, target, error, repairs in (("x", 0, None, ()), ("y", 1, (14, 15), ((8, 9),)))
    ]
    if pair:
        samples[1] = dataclasses.replace(samples[1], text=text.replace("+", "-"))
    else:
        samples[1] = dataclasses.replace(samples[1], text=text.replace("= a", "= b"))
    data = TaskData(("no", "yes"), samples * 4, samples, samples)
    recipe = FinetuneRecipe(length=24, epochs=40, batch=8, rates=(1e-2,), patience=40, dropout=0.0)
    tuned = tune(spec, data, recipe, tmp_path / "tuned")
    losses = [epoch.loss for epoch in tuned.courses[tuned.setting]]
    assert min(losses) < 0.1 * losses[0]
    assert tuned.test.correct.all()
    if pair:
        assert tuned.test.pointed is None
        return
    assert tuned.test.pointed is not None
    nothing, pointed = tuned.test.pointed.tolist()
    assert nothing[0] == [-1, -1]
    assert [samples[1].text[start:end].strip() for start, end in pointed] == ["b", "b"]
    assert pointed[0][1] == 15 and pointed[1][1] == 9


@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_each_subword_knows_its_characters(kind: str, tmp_path: Path) -> None:
    """The stretches of a text follow each other, blanks aside; what the model puts around it has none."""
    loaded = load_model(save(tmp_path, kind))
    text = "f ( a , b )\na + b"
    whole, pair, cut = encode_all(
        [Sample("w", text, 0), Sample("p", text, 0, second=12), Sample("c", text * 9, 0)], loaded, 24
    )
    for one in (whole, pair, cut):
        assert one.spans is not None
        assert len(one.spans) == len(one.ids)
        assert ((one.spans[:, 0] < 0) == (one.part == 0)).all()
        source = text * 9 if one is cut else text
        read = "".join(source[start:end] for start, end in one.spans.tolist() if start >= 0)
        wanted, got = ("".join(one.split()) for one in (source, read))
        assert wanted.startswith(got) and got
        assert (got == wanted) == (one is not cut)


def test_a_decoder_tells_an_error_in_the_last_subword_from_none(tmp_path: Path) -> None:
    """Its last state stands for the text: without one behind the text, both places would be the same."""
    spec = save(tmp_path, "llama")
    loaded = load_model(spec)
    text = "f ( a , b ) = a"
    places = ((4, 5), (8, 9), (14, 15))
    sample = Sample("x", text, 1, candidates=places, error=(14, 15), repairs=((8, 9),))
    data = TaskData(("no", "yes"), [sample, dataclasses.replace(sample, target=0)], [sample], [sample])
    (found,) = encode_all([sample], loaded, 24)
    assert found.ids[0] == found.ids[-1] == loaded.special.bos
    assert found.location == len(found.ids) - 1
    assert found.spans is not None
    assert found.spans[[0, -1]].tolist() == [[-1, -1], [-1, -1]]
    model = build_headed_model(loaded, data, dataclasses.replace(RECIPE, length=24)).eval()
    logs = model(batch_of(found)).detach()[0, 0]
    assert abs(float(logs[0] - logs[found.location])) > 1e-4
    (whole,) = encode_all([Sample("y", text, 1)], loaded, 24)
    assert whole.ids.tolist() == found.ids[:-1].tolist()
