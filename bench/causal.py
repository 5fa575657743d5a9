"""Cost of an intervention: forward passes with a mapped state, compared with plain ones.

The same inputs are forwarded bare, changed from the start, and read on from the layer of the change; rounds
are interleaved and the median of paired ratios is reported. Layer compute is counted: how many rows layers
read, of all that they would read in full forwards.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import transformers

from sonde.capture.forward import observe
from sonde.capture.hooks import ModelHooks
from sonde.capture.interventions import Affine, Change
from sonde.capture.requests import Changed, HiddenStates, Pass, Plain, Prepared, prepare
from sonde.corpora import SkipCounter, read_items
from sonde.models import LoadedModel, ModelSpec, load_model, load_tokenizer

_BUNDLED = "sonde/mini-decoder"
_ROUNDS, _RANK, _DRAWS = 3, 4, 4


def run() -> Iterator[dict[str, Any]]:
    """Measure the bundled decoder and one of 12 layers of 768 with random weights."""
    with tempfile.TemporaryDirectory() as folder:
        large = _large(Path(folder) / "large")
        for name, model, items in (("bundled decoder", _BUNDLED, 32), ("12x768", str(large), 4)):
            loaded = load_model(ModelSpec(name=model, device="cpu"))
            prepared = _prepared(loaded, items)
            for what, value, unit, target in _figures(loaded, prepared):
                yield {"name": f"{what}, {name}", "value": value, "unit": unit, "target": target}


def _large(folder: Path) -> Path:
    """Build a decoder of GPT-2's size that reads the bundled vocabulary."""
    transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder)
    load_tokenizer(ModelSpec(name=_BUNDLED)).save_pretrained(folder)
    return folder


def _prepared(loaded: LoadedModel, count: int) -> list[Prepared]:
    some = (
        item
        for item in read_items("stdlib", SkipCounter(), languages=("python",))
        if 200 < len(item.text) < 800
    )
    return prepare(loaded, [item for item, _ in zip(some, range(count), strict=False)])


def _figures(loaded: LoadedModel, prepared: list[Prepared]) -> Iterator[tuple[str, float, str, float | None]]:
    """Ratios of changed forwards to bare ones, and the share of the layers that run."""
    layers, width = loaded.capabilities.layers, loaded.capabilities.d_model
    drawn = np.random.default_rng(0)

    def passes(places: list[int]) -> list[Pass]:
        """Request a change of each place and draw, and the last states: nothing else is computed."""
        return [
            Pass(Changed(Plain(), (Change(layer, _map(drawn, width)),), f"{layer} {draw}"), (read,))
            for layer in places
            for draw in range(_DRAWS)
        ]

    read = HiddenStates(layers=(layers,), pooling=("mean",))
    every, first = passes(list(range(1, layers + 1))), passes([0])
    plain = [Pass(Plain(), (read,))]
    ran = _Counted(loaded)
    bare: list[float] = []
    changed: list[float] = []
    resumed: list[float] = []
    for _ in range(_ROUNDS):
        bare.append(_seconds(lambda: list(observe(loaded, prepared, plain))))
        changed.append(_seconds(lambda: list(observe(loaded, prepared, first))) / len(first))
        with ran:
            resumed.append(_seconds(lambda: list(observe(loaded, prepared, every))) / len(every))
    yield "changed at the embeddings / unchanged", _ratio(changed, bare), "x", None
    yield "changed at every layer in turn / unchanged", _ratio(resumed, bare), "x", None
    full = _ROUNDS * layers * len(every) * len(prepared)
    yield "layers that run / layers of full forwards, every layer in turn", ran.rows / full, "x", 0.6


class _Counted:
    """Counts the rows that layers read, at the projections of their heads.

    Args:
        loaded: The model.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self._modules = ModelHooks(loaded).projections("")
        self._hooks: list[Any] = []
        self.rows = 0

    def __enter__(self) -> None:
        def count(_: Any, given: tuple[Any, ...]) -> None:
            self.rows += len(given[0])

        self._hooks = [module.register_forward_pre_hook(count) for module in self._modules]

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()


def _map(drawn: np.random.Generator, width: int) -> Affine:
    basis, _ = np.linalg.qr(drawn.normal(size=(width, _RANK)))
    return Affine(basis.astype(np.float32), basis.T.astype(np.float32), np.zeros(width, np.float32))


def _seconds(work: Any) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _ratio(ours: list[float], bare: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, bare, strict=True))
