"""Products with fewer digits: only where asked for, only on an accelerator, and a precision of their own."""

from __future__ import annotations

import pytest
import torch

from sonde.base.errors import UsageError
from sonde.capture.attention_backend import describe_backend
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Pass, Plain, TokenScores, prepare
from sonde.corpora import Item
from sonde.models import ModelSpec, load_model, resolve_auto
from tests.posing import posing

NAME = "sonde/mini-decoder"


def test_a_processor_refuses_it() -> None:
    with pytest.raises(UsageError, match=r"tf32.*give float32"):
        resolve_auto(ModelSpec(name=NAME, device="cpu", dtype="tf32"))


def test_it_holds_while_the_model_reads_and_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    with posing():
        spec = resolve_auto(ModelSpec(name=NAME, device="cuda:0", dtype="tf32"))
        assert spec.dtype == "tf32"
        assert resolve_auto(ModelSpec(name=NAME, device="cuda:0", dtype="auto")).dtype == "float16"
        loaded = load_model(spec)
        seen: list[str] = []

        def note(*_: object) -> None:
            seen.append(torch.get_float32_matmul_precision())

        loaded.model.model.register_forward_hook(note)
        item = Item("id", "x = 1\n", "python", "function")
        asked = {"": [Pass(Plain(), (TokenScores(),))]}
        assert list(observe_lenses(loaded, prepare(loaded, [item]), asked))
        assert seen == ["high"]
        assert torch.get_float32_matmul_precision() == "highest"
        facts = describe_backend(loaded)
        assert (facts["weights"], facts["products"], facts["device"]) == ("float32", "tf32", "cuda:0")
