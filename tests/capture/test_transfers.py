"""What an accelerator is waited for, counted on a device that poses as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from tests.posing import Device, posing

from sonde.capture.forward import observe
from sonde.capture.requests import (
    AttentionRows,
    HiddenStates,
    ItemCapture,
    Lookups,
    Masked,
    Pass,
    Plain,
    Prepared,
    RankRules,
    TokenScores,
    WordAttention,
    WordLookups,
)
from sonde.capture.runner import Runner
from sonde.capture.settings import CaptureSettings
from sonde.capture.tensors import Download, Upload
from sonde.models import LoadedModel

Tiny = Callable[[str], LoadedModel]
Prepare = Callable[[str], Prepared]

MOST_WAITS = 4
"""Times that the processor may wait for the device in a batch of one lens."""


@pytest.fixture
def device() -> Iterator[Device]:
    with posing() as one:
        yield one


def moved(loaded: LoadedModel) -> LoadedModel:
    return dataclasses.replace(loaded, model=loaded.model.to("cuda:0"))


def lookups(item: Prepared) -> WordLookups:
    at = np.arange(len(item.alignment.subwords) // 2)
    pairs = Lookups(at[1:], at[1:], at[:-1], at[:-1])
    heads: dict[str, tuple[tuple[int, int], ...]] = dict.fromkeys(
        ("encoder", "decoder", "cross"), ((1, 0), (0, 2))
    )
    return WordLookups(2 * at, 2 * at + 2, np.ones(len(at), bool), pairs, pairs, RankRules(picks=True), heads)


def asked(lens: str, items: list[Prepared]) -> Pass:
    ids = [one.item.item_id for one in items]
    match lens:
        case "scores":
            return Pass(Plain(), (TokenScores(3),))
        case "masked":
            return Pass(Masked(dict.fromkeys(ids, ((0,), (0, 2)))), (TokenScores(3),))
        case "states":
            spans = dict.fromkeys(ids, ((0, 2), (1, 3)))
            return Pass(Plain(), (HiddenStates(None, ("mean", "last", "spans"), spans),))
        case "rows":
            return Pass(Plain(), (AttentionRows(dict.fromkeys(ids, (0, 2))),))
        case _:
            return Pass(Plain(), (WordAttention({one.item.item_id: lookups(one) for one in items}),))


def arrays(capture: ItemCapture) -> list[np.ndarray]:
    found = [*capture.states.values()]
    if capture.scores is not None:
        found += [capture.scores.nats, capture.scores.entropy, capture.scores.top_nats, capture.scores.rank]
    if capture.rows is not None:
        found.append(capture.rows)
    for words in capture.words.values():
        found += [
            words.ranks,
            *(one for one in (words.picks, words.attention, words.sinks) if one is not None),
        ]
    return found


@pytest.mark.parametrize(
    ("name", "lens"),
    [
        *(("llama", lens) for lens in ("scores", "states", "rows", "words")),
        *(("gpt2", lens) for lens in ("scores", "states", "words")),
        *(("bert", lens) for lens in ("masked", "states", "rows", "words")),
        *(("bart", lens) for lens in ("states", "words")),
        ("t5", "words"),
        ("codegen", "words"),
    ],
)
def test_a_batch_waits_for_the_device_four_times_at_most(
    name: str, lens: str, tiny: Tiny, prepare: Prepare, texts: tuple[str, ...], device: Device
) -> None:
    items = [prepare(text) for text in texts if len(text) > 3]
    requests = [asked(lens, items)]
    usual = list(observe(tiny(name), items, requests))
    there = moved(tiny(name))
    settings = CaptureSettings(token_budget=60, share=False)
    # What a model is tried for when it is used for the first time is not of any batch.
    list(observe(there, items[:1], requests, settings=settings))
    batches = 0
    read = Runner._batch

    def counted(runner: Runner, batch: object, resumed: object) -> object:
        nonlocal batches
        batches += 1
        return read(runner, batch, resumed)  # type: ignore[arg-type]

    device.waits.clear()
    device.pinned = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "_batch", counted)
        found = list(observe(there, items, requests, settings=settings))
    assert batches > 1
    assert device.waited <= MOST_WAITS * batches, device.waits
    # GPT-2 itself looks for pads by a list of places, which it sends there.
    own = batches if name == "gpt2" else 0
    assert (device.pinned, device.waits["upload"], device.waits["download"]) == (batches, own, batches)
    for one, two in zip(found, usual, strict=True):
        assert one.item_id == two.item_id
        for mine, theirs in zip(arrays(one), arrays(two), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_arrays_of_every_type_survive_the_way_there_and_back(device: Device) -> None:
    kinds = ("bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64")
    given: list[np.ndarray] = [
        np.arange(3 * size).reshape(3, size).astype(kind) for size, kind in enumerate(kinds)
    ]
    given += [np.array(2.5, dtype=np.float32), np.zeros((0, 4), dtype=np.int64)]
    upload, download = Upload(torch.device("cuda", 0)), Download()
    sent = [upload.add(one) for one in given]
    upload.send()
    assert {str(one.tensor.device) for one in sent} == {"cuda:0"}
    fetched = download.add_all([one.tensor for one in sent])
    download.fetch()
    assert +device.waits == {"download": 1}
    for one, back in zip(given, fetched, strict=True):
        assert back.array.dtype == one.dtype
        np.testing.assert_array_equal(back.array, one)


def test_the_device_refuses_tensors_of_the_processor(device: Device) -> None:
    there = torch.ones(2, device="cuda:0")
    with pytest.raises(RuntimeError, match="same device"):
        there.add(torch.ones(2))
    with pytest.raises(TypeError, match="numpy"):
        there.numpy()
    assert (there + torch.tensor(1.0)).cpu().tolist() == [2.0, 2.0]
    assert bool((there > 0).all())
    assert +device.waits == {"download": 1, "__bool__": 1}
