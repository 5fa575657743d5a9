"""Three small lenses through the protocol: one pools states, one reads rows, one masks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl
import pytest

from sonde.capture.forward import observe, observe_lenses
from sonde.capture.requests import (
    AttentionRows,
    HiddenStates,
    ItemCapture,
    Masked,
    Pass,
    Plain,
    Prepared,
    TokenScores,
)
from sonde.corpora import Item
from sonde.lenses import CapturedItem, LensSettings, ReadingLens, ScoringContext
from sonde.models import Capabilities, LoadedModel
from sonde.results.scores import Score

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]


class SmallLens(ReadingLens):
    """What the three have in common: one stage, no labels, no scores of their own."""

    name = "small"
    version = "1"
    quirks: Mapping[str, str] = {}
    options: Mapping[str, str] = {}
    tasks: tuple[str, ...] = ()

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        return None

    def asks(self, items: Sequence[Item]) -> tuple[Pass, ...]:
        raise NotImplementedError

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        return self.asks([one.item for one in prepared])

    def row(self, capture: ItemCapture) -> dict[str, object]:
        raise NotImplementedError

    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        return pl.DataFrame(
            [
                {"item_id": one.item_id, "variant": one.variant, **self.row(one)}
                for seen in observed
                for one in seen.captures
            ]
        )

    def score(self, scoring: ScoringContext) -> list[Score]:
        return []


class Pools(SmallLens):
    def asks(self, items: Sequence[Item]) -> tuple[Pass, ...]:
        return (Pass(Plain(), (HiddenStates((0, 2)),)),)

    def row(self, capture: ItemCapture) -> dict[str, object]:
        return {"norm": float(np.linalg.norm(capture.states["mean"][1]))}


class Reads(SmallLens):
    def asks(self, items: Sequence[Item]) -> tuple[Pass, ...]:
        return (Pass(Plain(), (AttentionRows({item.item_id: (0, 1) for item in items}),)),)

    def row(self, capture: ItemCapture) -> dict[str, object]:
        assert capture.rows is not None
        return {"best": int(capture.rows[0, 0, 1].argmax())}


class Masks(SmallLens):
    def asks(self, items: Sequence[Item]) -> tuple[Pass, ...]:
        return (Pass(Masked({item.item_id: ((0,), (1,)) for item in items}), (TokenScores(),)),)

    def row(self, capture: ItemCapture) -> dict[str, object]:
        assert capture.scores is not None
        return {"nats": float(np.nansum(capture.scores.nats)), "scored": int(capture.scores.scored.sum())}


def test_three_lenses_share_the_forward_of_equal_inputs(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("bert")
    items = [prepare(text) for text in ("a = 1\n", "b += 'ö'", "xyz")]
    lenses = {"pools": Pools(), "reads": Reads(), "masks": Masks()}
    assert all(isinstance(lens, ReadingLens) for lens in lenses.values())
    settings = LensSettings()
    passes = {name: lens.input_requests(items, {}, settings) for name, lens in lenses.items()}
    forwarded: list[int] = []
    hook = loaded.model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: forwarded.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    together = list(observe_lenses(loaded, items, passes))
    hook.remove()
    # One plain input and two masked ones an item; the plain one is shared by two lenses.
    # The trial of its attention, four forwards before them, is not among them.
    assert sum(forwarded[4:]) == 3 * len(items)
    assert [(one.inputs, one.shared) for one in together] == [(3, 1)] * len(items)
    for name, lens in lenses.items():
        alone = list(observe(loaded, items, passes[name]))
        per_item = len(alone) // len(items)
        for place, observed in enumerate(together):
            own = alone[place * per_item : (place + 1) * per_item]
            shared = lens.observe(
                [CapturedItem(observed.prepared, observed.captures[name])], {}, settings, ()
            )
            separate = lens.observe([CapturedItem(observed.prepared, tuple(own))], {}, settings, ())
            assert shared["variant"].to_list() == ([1, 2] if name == "masks" else [0])
            for column in shared.columns:
                if shared[column].dtype == pl.Float64:
                    np.testing.assert_allclose(shared[column], separate[column], atol=1e-5)
                else:
                    assert shared[column].to_list() == separate[column].to_list()


def test_scores_and_states_of_a_decoder_share_one_forward(tiny: Tiny, prepare: Prepare) -> None:
    loaded = tiny("gpt2")
    item = prepare("return façade")
    passes = {
        "scores": [Pass(Plain(), (TokenScores(2),))],
        "states": [Pass(Plain(), (HiddenStates(),))],
        "rows": [Pass(Plain(), (AttentionRows({item.item.item_id: (3,)}),))],
    }
    (observed,) = observe_lenses(loaded, [item], passes)
    assert (observed.inputs, observed.shared) == (1, 2)
    (alone,) = observe(loaded, [item], passes["scores"])
    shared = observed.captures["scores"][0]
    assert shared.scores is not None and alone.scores is not None
    np.testing.assert_allclose(shared.scores.nats, alone.scores.nats, atol=1e-5)
    assert shared.states == {} and shared.rows is None
    assert observed.captures["states"][0].scores is None


@pytest.mark.parametrize(
    "module", ["sonde.capture", "sonde.capture.requests", "sonde.capture.merge_requests"]
)
def test_stating_requests_needs_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_input_keeps_more_alternatives_than_are_asked_of_it(tiny: Tiny, prepare: Prepare) -> None:
    few, many = prepare("a = 1\n"), prepare("b += 'xyz'")
    asked = {
        lens: [Pass(Plain(), (TokenScores(top_k),), items=frozenset({one.item.item_id}))]
        for lens, top_k, one in (("few", 1, few), ("many", 9, many))
    }
    for seen, lens, top_k in zip(
        observe_lenses(tiny("gpt2"), [few, many], asked), asked, (1, 9), strict=True
    ):
        scores = seen.captures[lens][0].scores
        assert scores is not None and scores.top_ids.base is not None
        assert (scores.top_ids >= 0).any(axis=0).all()
        assert scores.top_ids.base.shape == (len(scores.nats), top_k)
