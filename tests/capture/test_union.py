from __future__ import annotations

import numpy as np
import pytest

from sonde.base.errors import InputError
from sonde.capture.merge_requests import MergedCapture, merge_passes
from sonde.capture.requests import (
    AttentionRows,
    HiddenStates,
    InputRows,
    InputStates,
    Masked,
    Pass,
    Plain,
    TokenScores,
)


def test_equal_inputs_are_forwarded_once() -> None:
    union = merge_passes(
        {
            "a": [Pass(Plain(), (TokenScores(3),))],
            "b": [Pass(Plain(), (TokenScores(7), HiddenStates((1,))))],
            "c": [Pass(Masked({"x": ((2, 0), (1,))}), (TokenScores(),))],
            "d": [Pass(Masked({"x": ((0, 2),)}), (TokenScores(1),))],
        },
        ["x", "y"],
    )
    found = [(one.item, one.shape.masked) for one in union.inputs]
    assert found == [(0, ()), (1, ()), (0, (0, 2)), (0, (1,))]
    assert union.inputs[0].wanted.get(TokenScores) == TokenScores(7)
    assert sum(len(parts) for items in union.parts.values() for parts in items) == 7
    assert [part.variant for part in union.parts["c"][0]] == [1, 2]
    assert union.parts["c"][1] == ()


def test_each_lens_gets_its_layers_spans_and_rows_in_its_own_order() -> None:
    union = merge_passes(
        {
            "a": [
                Pass(Plain(), (HiddenStates((3, 1), ("spans",), {"x": ((4, 5), (0, 2))}),)),
            ],
            "b": [
                Pass(Plain(), (HiddenStates((2,), ("mean", "spans"), {"x": ((0, 2),)}),)),
                Pass(Plain(), (AttentionRows({"x": (5, 1)}, (1,)),)),
            ],
            "c": [Pass(Plain(), (AttentionRows({"x": (2,)}),))],
        },
        ["x"],
    )
    wanted = union.inputs[0].wanted
    assert wanted.get(InputStates) == InputStates(("spans", "mean"), (3, 1, 2), ((4, 5), (0, 2)))
    assert wanted.get(InputRows) == InputRows((5, 1, 2), None)
    layers = np.array((3, 1, 2), dtype=np.float32)[:, None, None]
    spans = np.array((4, 0), dtype=np.float32)[None, :, None]
    rows = np.broadcast_to(
        np.arange(3)[:, None, None, None] * 10 + np.array((5, 1, 2))[None, None, :, None], (3, 2, 3, 6)
    )
    states = {"spans": layers * 10 + spans, "mean": layers[:, 0] * 10}
    capture = MergedCapture("x", {InputStates: states, InputRows: rows})
    back = union.split_by_lens(0, {0: capture})
    assert back["a"][0].states["spans"][..., 0].tolist() == [[34, 30], [14, 10]]
    assert back["b"][0].states["spans"][..., 0].tolist() == [[20]]
    assert back["b"][0].states["mean"].tolist() == [[20]]
    assert back["b"][0].rows is not None
    assert back["b"][0].rows[:, 0, :, 0].tolist() == [[15, 11]]
    assert back["c"][0].rows is not None
    assert back["c"][0].rows[:, 0, :, 0].tolist() == [[2], [12], [22]]
    assert back["c"][0].states == {}


def test_nothing_asked_is_nothing_forwarded() -> None:
    assert merge_passes({"a": [Pass(Plain(), (AttentionRows({"x": ()}),))]}, ["x"]).inputs == ()


def test_an_unknown_pooling_is_named() -> None:
    with pytest.raises(InputError, match="'max' does not exist"):
        merge_passes({"a": [Pass(Plain(), (HiddenStates(None, ("max",)),))]}, ["x"])
