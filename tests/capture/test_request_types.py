"""A type of request of which nothing but this file knows: the norm of the last state at some positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pytest

from sonde.base.errors import InputError
from sonde.capture import CaptureSettings, HiddenStates, Pass, Plain, Prepared, TokenScores
from sonde.capture.forward import observe, observe_lenses
from sonde.capture.reducer import BatchReducer, ForwardStates, Reducer
from sonde.capture.requests import InputRequest, check_positions
from sonde.models import LoadedModel


@dataclass(frozen=True)
class Norms:
    positions: Mapping[str, tuple[int, ...]]

    def for_item(self, item: str) -> InputNorms | None:
        return InputNorms(self.positions[item]) if item in self.positions else None


@dataclass(frozen=True)
class InputNorms(InputRequest):
    answer = "norms"
    reducer = f"{__name__}:NormReducer"
    traits = frozenset({"text"})

    at: tuple[int, ...]

    def check_bounds(self, item: str, subwords: int) -> None:
        check_positions("norm", self.at, item, subwords)

    def select(self, answer: dict[int, float], request: Self) -> list[float]:
        return [answer[position] for position in request.at]


class NormReducer(Reducer[InputNorms]):
    kind = InputNorms


class NormBatch(BatchReducer[NormReducer]):
    def reduce(self, states: ForwardStates) -> None:
        self.norms = self.batch.download.add(states.last.float().norm(dim=-1))

    def store(self) -> None:
        for index, row in enumerate(self.batch.rows):
            for position in self.reducer.requests[row.source].at:
                if row.read_start <= position - row.origin < row.read_stop:
                    norm = float(self.norms.array[index, position - row.origin])
                    self.reducer.answers.setdefault(row.source, {})[position] = norm


NormReducer.batch_reducer = NormBatch


def test_a_new_type_is_merged_reduced_collected_and_selected(
    tiny: Callable[[str], LoadedModel], prepare: Callable[[str], Prepared]
) -> None:
    loaded = tiny("llama")
    long, short = prepare("x = 1; " * 20), prepare("y = 2")
    ids = [one.item.item_id for one in (long, short)]
    first, second = Norms({ids[0]: (3, 130)}), Norms({ids[0]: (9, 3), ids[1]: (0,)})
    passes = {
        "a": [Pass(Plain(), (first,))],
        "b": [Pass(Plain(), (second, TokenScores(1), HiddenStates((3,), ("spans",), {ids[0]: ((9, 10),)})))],
    }
    settings = CaptureSettings(context=48)
    of_long, of_short = observe_lenses(loaded, [long, short], passes, settings=settings)
    assert (of_long.inputs, of_long.shared) == (1, 1)
    (alone,) = observe(loaded, [long], [Pass(Plain(), (Norms({ids[0]: (3, 9, 130)}),))], settings=settings)
    expected = dict(zip((3, 9, 130), alone.extra["norms"], strict=True))
    assert of_long.captures["a"][0].extra["norms"] == pytest.approx([expected[3], expected[130]], rel=1e-5)
    both = of_long.captures["b"][0]
    assert both.extra["norms"] == pytest.approx([expected[9], expected[3]], rel=1e-5)
    assert both.extra["norms"][0] == pytest.approx(np.linalg.norm(both.states["spans"][0, 0]), rel=1e-5)
    assert both.scores is not None
    assert of_short.captures["a"] == ()
    assert len(of_short.captures["b"][0].extra["norms"]) == 1


def test_a_new_type_refuses_positions_by_itself(
    tiny: Callable[[str], LoadedModel], prepare: Callable[[str], Prepared]
) -> None:
    one = prepare("y = 2")
    with pytest.raises(InputError, match="norm 99 is outside"):
        list(observe(tiny("llama"), [one], [Pass(Plain(), (Norms({one.item.item_id: (99,)}),))]))
