"""States of a run are those of a plain forward by transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

import sonde
from sonde.base.errors import UnknownNameError, UsageError

EXAMPLES = 60

SHORT = 400
"""Characters of a text that the model surely reads in one window."""


@pytest.fixture(scope="module")
def probed(encoder: Path, library: Path, tmp_path_factory: pytest.TempPathFactory) -> sonde.Run:
    """A run of the probe lens over a task of whole functions and one of tokens."""
    return sonde.run(
        models=encoder,
        lenses="probe",
        tasks=["jft", "idn"],
        corpora=f"local:{library}",
        limit=EXAMPLES,
        output=tmp_path_factory.mktemp("runs") / "probe",
        options={"probe": {"controls": False, "curves": False, "folds": 1}},
        include_seen=True,
        workers=1,
    )


def plain(encoder: Path, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Hidden states (layer, subword, d_model) of a text, and the characters of its subwords."""
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModel.from_pretrained(encoder).eval()
    read = tokenizer(text, return_tensors="pt", return_offsets_mapping=True, add_special_tokens=False)
    offsets = read.pop("offset_mapping")[0].numpy()
    with torch.no_grad():
        hidden = model(**read, output_hidden_states=True).hidden_states
    return torch.stack(hidden)[:, 0].numpy(), offsets


@pytest.mark.parametrize("layer", [0, 1, -1])
@pytest.mark.parametrize("task", ["jft", "idn"])
def test_states_are_those_of_a_plain_forward(probed: sonde.Run, encoder: Path, task: str, layer: int) -> None:
    states = probed.states(task, layer)
    assert states.values.shape == (len(states.examples), 32)
    assert set(states.examples["language"]) == {"python"}
    texts = dict(probed.items.select("item_id", "text").collect().iter_rows())
    short = [place for place, size in enumerate(states.examples["characters"]) if size < SHORT]
    assert len(short) > 3
    for place in short[:: len(short) // 3]:
        row = states.examples.row(place, named=True)
        hidden, offsets = plain(encoder, texts[row["item_id"]])
        inside = (offsets[:, 1] > row["start"]) & (offsets[:, 0] < row["end"])
        assert 0 < inside.sum() <= len(offsets)
        expected = hidden[layer, inside].mean(axis=0)
        np.testing.assert_allclose(states.values[place], expected, atol=2e-3 * np.abs(expected).max())


def test_examples_are_the_labelled_rows_of_the_data_set(probed: sonde.Run) -> None:
    states = probed.states("idn", 1)
    (file,) = (probed.directory / "labels" / "task=idn").glob("*[!s].parquet")
    held = pl.read_parquet(file)
    assert states.examples.select(held.columns).equals(held)
    assert states.pooling == "span"


def test_pooling_is_chosen_by_name(probed: sonde.Run) -> None:
    mean, last = probed.states("jft", 2), probed.states("jft", 2, pooling="last")
    assert (mean.pooling, last.pooling) == ("mean", "last")
    assert mean.values.shape == last.values.shape
    assert not np.allclose(mean.values, last.values)


def test_what_there_is_not_is_named(probed: sonde.Run) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'idn'"):
        probed.states("idnn", 1)
    with pytest.raises(UnknownNameError, match="did you mean 'mean'"):
        probed.states("jft", 1, pooling="meen")
    with pytest.raises(UsageError, match=r"layer = 3 is not one of 0 \(the embeddings\) to 2"):
        probed.states("jft", 3)
    with pytest.raises(UnknownNameError, match="unknown model of this run"):
        probed.states("jft", 1, model="other")
