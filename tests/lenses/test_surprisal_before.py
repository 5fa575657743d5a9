"""Functions behind the text of their files: the same subwords, scored as by a plain forward over both."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from tests.experiments import conftest
from tests.experiments.conftest import CODE, save_decoder

from sonde.alignment import encode
from sonde.base.errors import UsageError
from sonde.capture.forward import observe
from sonde.capture.requests import Pass, Plain, TokenScores
from sonde.corpora import Item, Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.observe import prepare
from sonde.experiments.run import run
from sonde.lenses import LENSES, LensSettings
from sonde.models import ModelSpec, load_model
from sonde.report import RunData
from sonde.report._header import headlines

CONTEXT = 128
project = conftest.project
TEXT = "def f(shape):\n    return shape.sides()\n"
BEFORE = {"short": "import shapes\n\n\n", "method": "class A:\n    ", "long": CODE * 3, "none": ""}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_decoder(tmp_path_factory.mktemp("before") / "decoder", context=CONTEXT)


@pytest.mark.parametrize("name", BEFORE)
def test_scores_are_those_of_a_plain_forward_over_both_texts(folder: Path, name: str) -> None:
    loaded, before = load_model(ModelSpec(name=str(folder))), BEFORE[name]
    item = Item(
        item_id="i", text=TEXT, language="python", unit="function", path="a.py", name="f", offset=len(before),
        cluster="c", repository="r",
    )  # fmt: skip
    prepared = prepare(loaded, [item], "python")
    (found,) = observe(loaded, prepared, [Pass(Plain(before={"i": before}), (TokenScores(),))])
    own = encode(loaded.tokenizer, TEXT).ids.tolist()
    lead = encode(loaded.tokenizer, before).ids.tolist()
    room = CONTEXT - 1 - len(own)
    assert (len(lead) > room) == (name == "long")
    lead = lead[-room:]
    ids = torch.tensor([[loaded.special.bos, *lead, *own]])
    with torch.no_grad():
        logits = loaded.model(ids).logits[0, len(lead) : -1].double()
    expected = -logits.log_softmax(-1)[range(len(own)), own]
    assert found.scores is not None
    assert found.scores.nats == pytest.approx(expected.numpy(), abs=1e-5)
    assert found.scores.context.tolist() == [len(lead) + place for place in range(len(own))]


def test_a_text_that_fills_the_model_is_read_as_it_is_alone(folder: Path) -> None:
    loaded = load_model(ModelSpec(name=str(folder)))
    item = Item(
        item_id="i", text=CODE * 2, language="python", unit="function", path="a.py", name="f", offset=0,
        cluster="c", repository="r",
    )  # fmt: skip
    prepared = prepare(loaded, [item], "python")
    passes = [Pass(Plain(), (TokenScores(),)), Pass(Plain(before={"i": "import x\n"}), (TokenScores(),))]
    alone, behind = observe(loaded, prepared, passes)
    assert alone.scores is not None and behind.scores is not None
    assert np.abs(alone.scores.nats - behind.scores.nats).max() < 1e-5
    assert alone.scores.context.tolist() == behind.scores.context.tolist()


def test_one_run_gives_both_with_the_paired_change(project: Path, tmp_path: Path) -> None:
    folder = save_decoder(tmp_path / "decoder", context=512)
    experiment = Experiment(
        models=(str(folder),),
        corpora=(f"local:{project}",),
        selection=Selection(limit=40, near_duplicates=False),
        options={"surprisal": {"before": "both", "min_count": 5}},
    )
    run(experiment, Execution(output=tmp_path / "run"))
    rows = pl.read_parquet(tmp_path / "run/observations/**/*.parquet")
    items = pl.read_parquet(tmp_path / "run/items.parquet")
    for item in items.iter_rows(named=True):
        text = next(
            project.rglob(f"**/{Path(item['path']).parent.name}/{Path(item['path']).name}")
        ).read_text()
        assert item["context"] == text[: item["offset"]]
    first = rows.filter(pl.col("item_id").is_in(items.filter(pl.col("offset") == 0)["item_id"].to_list()))
    assert (first["nats"] == first["file_nats"]).all() and first.height
    later = rows.join(first.select("item_id").unique(), on="item_id", how="anti")
    assert (later["file_context"] > later["context"]).all()
    (headline,) = headlines(RunData(tmp_path / "run"))
    assert headline.behind.startswith("behind the text of its file ")
    table = pl.read_parquet(tmp_path / "run/scores.parquet").filter(pl.col("task") == "")
    found = {(row["slice"], row["metric"]): row for row in table.iter_rows(named=True)}
    alone, behind = (rows[name].cast(pl.Float64).sum() / math.log(2) for name in ("nats", "file_nats"))
    size = rows["text_bytes"].sum()
    assert found["all", "bits_per_byte"]["value"] == pytest.approx(alone / size)
    assert found["before=file", "bits_per_byte"]["value"] == pytest.approx(behind / size)
    change = found["before=file-none", "bits_per_byte"]
    assert change["value"] == pytest.approx((behind - alone) / size)
    assert change["ci_low"] < change["value"] < change["ci_high"]
    assert {("before=file;code", "bits"), ("before=file-none;code", "bits")} <= set(found)
    kinds = rows.filter(pl.col("kind") == "identifier")
    difference = (kinds["file_nats"].cast(pl.Float64) - kinds["nats"].cast(pl.Float64)).mean()
    assert found["before=file-none;kind=identifier", "bits"]["value"] == pytest.approx(
        difference / math.log(2)
    )  # type: ignore[operator]


def test_paper_mode_reads_no_file() -> None:
    lens = LENSES.load("surprisal")
    with pytest.raises(UsageError, match="before = none"):
        lens.passes([], {}, LensSettings(mode="paper", options={"before": "both"}))
