"""Two models that read the same rows against their own logits, from plain transformers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from sonde.base.errors import CaptureError, InputError
from sonde.capture import CaptureSettings, Pass, Plain, Prepared, TokenScores, prepare, reference
from sonde.capture.fidelity import ComparedSubwords, Fidelity
from sonde.capture.forward import observe
from sonde.capture.reference import compare_logits, load_reference
from sonde.corpora import Selection, select
from sonde.models import LoadedModel, ModelSpec, derive_checkpoint, load_model
from sonde.models.engine.model_names import bundled_folder

BASE = "sonde/mini-decoder"


@pytest.fixture(scope="module")
def rounded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return derive_checkpoint(BASE, tmp_path_factory.mktemp("weights") / "int8", "int8")


@pytest.fixture(autouse=True)
def free_reference() -> Iterator[None]:
    yield
    reference._references.clear()


def compare_plainly(logits: torch.Tensor, base: torch.Tensor, gold: torch.Tensor) -> dict[str, np.ndarray]:
    """Return the columns of `ComparedSubwords` by their definitions, in double precision."""
    model_nats, base_nats = (-side.double().log_softmax(-1) for side in (logits, base))
    return {
        "kl": ((-base_nats).exp() * (model_nats - base_nats)).sum(-1).numpy(),
        "kl_reverse": ((-model_nats).exp() * (base_nats - model_nats)).sum(-1).numpy(),
        "nats": model_nats.gather(-1, gold[:, None])[:, 0].numpy(),
        "base_nats": base_nats.gather(-1, gold[:, None])[:, 0].numpy(),
        "choice": logits.argmax(-1).numpy(),
        "base_choice": base.argmax(-1).numpy(),
    }


def compare_by_model(loaded: LoadedModel, base: Any, item: Prepared) -> dict[str, np.ndarray]:
    ids = torch.from_numpy(np.asarray(item.alignment.subwords.ids, np.int64))
    tokens = torch.cat([torch.tensor([loaded.special.bos]), ids])[None]
    with torch.inference_mode():
        sides = [model(input_ids=tokens).logits[0, :-1] for model in (loaded.model, base)]
    return compare_plainly(*sides, ids)


def check_equal(answer: ComparedSubwords, expected: dict[str, np.ndarray]) -> None:
    assert answer.scored.all()
    for name, values in expected.items():
        tolerance = 0 if "choice" in name else 2e-5
        np.testing.assert_allclose(getattr(answer, name), values, rtol=1e-3, atol=tolerance, err_msg=name)


def test_numbers_are_those_of_two_plain_models(rounded: Path) -> None:
    loaded = load_model(ModelSpec(name=str(rounded), device="cpu", dtype="float32"))
    spec = ModelSpec(name=BASE, device="cpu", dtype="float32")
    base = AutoModelForCausalLM.from_pretrained(bundled_folder(BASE), dtype=torch.float32).eval()
    items = prepare(loaded, select("stdlib", Selection(languages=("python",), limit=12)).items)
    items = [item for item in items if len(item.alignment.subwords) < loaded.capabilities.context]
    assert len(items) >= 6
    captures = list(observe(loaded, items, [Pass(Plain(), (Fidelity(spec), TokenScores(1)))]))
    flips = 0
    for item, capture in zip(items, captures, strict=True):
        answer = capture.extra["fidelity"]
        check_equal(answer, compare_by_model(loaded, base, item))
        assert capture.scores is not None
        np.testing.assert_allclose(answer.nats, capture.scores.nats, atol=2e-5)
        flips += int((answer.choice != answer.base_choice).sum())
    # A pair of models that never differ would show nothing.
    assert flips
    assert load_reference(spec) is load_reference(spec)


def test_a_model_beside_itself_differs_by_nothing() -> None:
    loaded = load_model(ModelSpec(name=BASE, device="cpu", dtype="float32"))
    items = prepare(loaded, select("stdlib", Selection(languages=("python",), limit=3)).items)
    for capture in observe(loaded, items, [Pass(Plain(), (Fidelity(loaded.spec),))]):
        answer = capture.extra["fidelity"]
        assert not answer.kl.any()
        assert not answer.kl_reverse.any()
        assert np.array_equal(answer.nats, answer.base_nats)


@pytest.mark.parametrize("limits", [{"alone": True}, {"takes_padding": False}])
def test_a_base_that_takes_no_padding_reads_rows_of_one_length(
    tiny: Callable[[str], LoadedModel],
    prepare: Callable[[str], Prepared],
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, bool],
) -> None:
    loaded, base = tiny("llama"), dataclasses.replace(tiny("gpt2"), **limits)
    monkeypatch.setattr(reference, "load_reference", lambda spec: base)
    items = [prepare(text) for text in ("x = 1; y = 2", "y = 2", "z = 3", "for x in y: pass", "ab")]
    request = Fidelity(ModelSpec(name="base"))
    captures = list(observe(loaded, items, [Pass(Plain(), (request,))]))
    for item, capture in zip(items, captures, strict=True):
        check_equal(capture.extra["fidelity"], compare_by_model(loaded, base.model, item))


def test_windows_of_a_long_text_are_compared_like_scores(
    tiny: Callable[[str], LoadedModel],
    prepare: Callable[[str], Prepared],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded, base = tiny("llama"), tiny("gpt2")
    monkeypatch.setattr(reference, "load_reference", lambda spec: base)
    item, settings = prepare("x = 1; " * 20), CaptureSettings(context=48)
    (capture,) = observe(
        loaded, [item], [Pass(Plain(), (Fidelity(base.spec), TokenScores(1)))], settings=settings
    )
    (of_base,) = observe(base, [item], [Pass(Plain(), (TokenScores(1),))], settings=settings)
    answer = capture.extra["fidelity"]
    assert capture.scores is not None
    assert of_base.scores is not None
    np.testing.assert_allclose(answer.nats, capture.scores.nats, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(answer.base_nats, of_base.scores.nats, rtol=1e-4, atol=1e-5)


def test_switched_off_entries_count_nothing() -> None:
    torch.manual_seed(0)
    logits, base = torch.randn(5, 300), torch.randn(5, 300)
    logits[:, 7] = base[:, 7] = -torch.inf
    gold = torch.arange(10, 15)
    expected = compare_plainly(logits[:, logits[0] > -torch.inf], base[:, base[0] > -torch.inf], gold - 1)
    compared = compare_logits(logits, base, gold)
    for name in ("kl", "kl_reverse", "nats", "base_nats"):
        np.testing.assert_allclose(getattr(compared, name), expected[name], rtol=1e-4, atol=1e-6)


def test_what_cannot_be_compared_is_refused_in_one_line(
    tiny: Callable[[str], LoadedModel],
    prepare: Callable[[str], Prepared],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded, base = tiny("llama"), tiny("gpt2")

    def read(**capabilities: int) -> None:
        other = dataclasses.replace(base, capabilities=dataclasses.replace(base.capabilities, **capabilities))
        monkeypatch.setattr(reference, "load_reference", lambda spec: other)
        list(observe(loaded, [prepare("x = 1; y = 2")], [Pass(Plain(), (Fidelity(base.spec),))]))

    with pytest.raises(InputError, match=r"has 260 logits and its base .* 261; name two models of one voc"):
        read(vocab=261)
    with pytest.raises(CaptureError, match=r"its 12 tokens do not fit into the base .* which takes 8; give"):
        read(context=8)
    first, second = (Fidelity(ModelSpec(name=name)) for name in "ab")
    with pytest.raises(InputError, match="one base at a time"):
        first.merge(second)
    assert first.merge(first) is first
