"""Functions behind the text of their files: the same subwords, scored as by a plain forward over both."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from scipy import stats
from tests.experiments import conftest
from tests.experiments.conftest import CODE, save_decoder
from tests.slices import slice_of, with_slices

from sonde.alignment import encode
from sonde.base.errors import UsageError
from sonde.capture.forward import observe
from sonde.capture.requests import Pass, Plain, TokenScores, prepare
from sonde.corpora import Item, Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.lenses import LENSES, LensSettings
from sonde.lenses.engine.observations import BatchSums
from sonde.lenses.surprisal.file_context import replace_text_scores, score_changes
from sonde.lenses.surprisal.origin import OriginSummary
from sonde.lenses.surprisal.score import collect_sums
from sonde.models import ModelSpec, load_model
from sonde.report import RunData
from sonde.report.sections.surprisal import title
from sonde.results.schema import OBSERVATIONS_SCHEMA
from sonde.results.scores import Score

CONTEXT = 128
TEMPLATE = Score(model="m", lens="surprisal", metric="", value=0, n=0, n_clusters=0)
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
    prepared = prepare(loaded, [item])
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
    gold = logits[range(len(own)), own]
    # Of logits that are nearly the same, which one is ahead is a matter of rounding.
    best, worst = (1 + (logits > gold[:, None] + near).sum(-1).numpy() for near in (1e-4, -1e-4))
    assert ((best <= found.scores.rank) & (found.scores.rank < worst)).all()
    probabilities = logits.softmax(-1)
    entropy = -(probabilities * probabilities.log()).sum(-1)
    assert found.scores.entropy == pytest.approx(entropy.numpy(), abs=1e-4)


def test_a_text_that_fills_the_model_is_read_as_it_is_alone(folder: Path) -> None:
    loaded = load_model(ModelSpec(name=str(folder)))
    item = Item(
        item_id="i", text=CODE * 2, language="python", unit="function", path="a.py", name="f", offset=0,
        cluster="c", repository="r",
    )  # fmt: skip
    prepared = prepare(loaded, [item])
    passes = [Pass(Plain(), (TokenScores(),)), Pass(Plain(before={"i": "import x\n"}), (TokenScores(),))]
    alone, behind = observe(loaded, prepared, passes)
    assert alone.scores is not None and behind.scores is not None
    assert np.abs(alone.scores.nats - behind.scores.nats).max() < 1e-5
    assert alone.scores.context.tolist() == behind.scores.context.tolist()


def test_one_run_gives_both_with_the_paired_change(both: Path, project: Path) -> None:
    rows = pl.read_parquet(both / "observations/**/*.parquet")
    items = pl.read_parquet(both / "items.parquet")
    for item in items.iter_rows(named=True):
        text = next(
            project.rglob(f"**/{Path(item['path']).parent.name}/{Path(item['path']).name}")
        ).read_text()
        assert item["context"] == text[: item["offset"]]
    first = rows.filter(pl.col("item_id").is_in(items.filter(pl.col("offset") == 0)["item_id"].to_list()))
    assert (first["nats"] == first["file_nats"]).all() and first.height
    later = rows.join(first.select("item_id").unique(), on="item_id", how="anti")
    assert (later["file_context"] > later["context"]).all()
    header = title.top(RunData(both))
    assert header is not None and "each text alone; after the text of its file " in header.lines[0]
    table = with_slices(pl.read_parquet(both / "scores.parquet")).filter(pl.col("task") == "")
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


@pytest.fixture(scope="module")
def both(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_decoder(tmp_path_factory.mktemp("both") / "decoder", context=512)
    experiment = Experiment(
        models=(str(folder),),
        corpora=(f"local:{project}",),
        selection=Selection(limit=40, near_duplicates=False),
        options={"surprisal": {"before": "both", "min_count": 5}},
    )
    output = tmp_path_factory.mktemp("runs") / "both"
    run(experiment, Execution(output=output))
    return output


def scored(folder: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    table = with_slices(pl.read_parquet(folder / "scores.parquet"))
    return {
        (row["slice"], row["metric"], row["weighting"] or row["binning"] or row["unit"] or ""): row
        for row in table.iter_rows(named=True)
    }


def test_the_rows_of_a_run_hold_the_ranks_of_a_plain_forward_behind_the_file(
    both: Path, project: Path
) -> None:
    rows = pl.read_parquet(both / "observations/**/*.parquet")
    item = pl.read_parquet(both / "items.parquet").filter(pl.col("offset") > 0).row(0, named=True)
    spec = json.loads((both / "run.json").read_text())["models"][0]["name"]
    loaded = load_model(ModelSpec(name=spec))
    own = encode(loaded.tokenizer, item["text"]).ids.tolist()
    lead = encode(loaded.tokenizer, item["context"]).ids.tolist()[-(512 - 1 - len(own)) :]
    with torch.no_grad():
        logits = loaded.model(torch.tensor([[loaded.special.bos, *lead, *own]])).logits[0, len(lead) : -1]
    gold = logits[range(len(own)), own]
    best, worst = (1 + (logits > gold[:, None] + near).sum(-1).numpy() for near in (1e-4, -1e-4))
    found = rows.filter(pl.col("item_id") == item["item_id"]).sort("position")
    ranks = found["file_rank"].to_numpy()
    assert len(ranks) == len(own) and ((best <= ranks) & (ranks < worst)).all()
    assert (found["rank"] != found["file_rank"]).any()
    top = -logits.log_softmax(-1).max(-1).values.numpy()
    assert found["file_top_nats"].to_numpy() == pytest.approx(top, abs=1e-4)


def test_ranks_have_the_same_tables_behind_the_file_with_the_paired_change(both: Path) -> None:
    rows, found = pl.read_parquet(both / "observations/**/*.parquet"), scored(both)
    alone = {slice_ for slice_, metric, _ in found if metric == "top1" and not slice_.startswith("before")}
    for name in alone:
        inner = "" if name == "all" else f";{name}"
        assert (f"before=file{inner}", "top1", "") in found
        assert (f"before=file-none{inner}", "top1", "") in found
    for inner, held in (("", rows), (";kind=identifier", rows.filter(pl.col("kind") == "identifier"))):
        own, behind = ((held[name] == 1).cast(pl.Float64) for name in ("rank", "file_rank"))
        assert found[f"before=file{inner}", "top1", ""]["value"] == pytest.approx(behind.mean())
        change = found[f"before=file-none{inner}", "top1", ""]
        assert change["value"] == pytest.approx((behind - own).mean())
        assert -1 <= change["ci_low"] < change["value"] < change["ci_high"] <= 1
        assert change["ci_method"].startswith("paired") and change["p_value"] is not None
    for metric, value in (
        ("top5", lambda rank: (rank <= 5).cast(pl.Float64)),
        ("mrr", lambda rank: 1.0 / rank),
    ):
        difference = (value(rows["file_rank"]) - value(rows["rank"])).mean()
        assert found["before=file-none", metric, ""]["value"] == pytest.approx(difference)
    entropy = (rows["file_entropy"].cast(pl.Float64) - rows["entropy"].cast(pl.Float64)).mean()
    assert found["before=file-none", "entropy", ""]["value"] == pytest.approx(entropy, abs=1e-6)
    sure = (-rows["file_top_nats"].cast(pl.Float64)).exp()
    held = rows.filter((sure * 10).floor().cast(pl.Int64) == 0)
    bins = found["before=file;confidence=0-0.1", "accuracy", ""]
    assert (bins["n"], bins["value"]) == (held.height, pytest.approx((held["file_rank"] == 1).mean()))


def test_few_ranks_that_moved_leave_room_for_those_that_were_not_seen_to_move() -> None:
    """Where no subword of a slice moves, the change is not known to be exactly nothing."""
    sums = collect_sums(BatchSums((observed_twice(moved=0),)))
    after = collect_sums(BatchSums((replace_text_scores(observed_twice(moved=0)),)))
    found = {
        (slice_of(score.dimensions), score.metric): score
        for score in score_changes(sums, after, TEMPLATE, 5, OriginSummary(5))
    }
    still = found["before=file-none", "top1"]
    assert still.value == 0 and still.ci_low is not None and still.ci_low < -0.005
    moving = collect_sums(BatchSums((replace_text_scores(observed_twice(moved=30)),)))
    (all_,) = moving.slices["all"].filter(pl.col("slice") == "all").sum().iter_rows(named=True)
    assert all_["top1_apart"] == 30


def test_calls_have_their_rows_behind_the_file_with_the_paired_change(both: Path) -> None:
    rows, found = pl.read_parquet(both / "observations/**/*.parquet"), scored(both)
    alone = {key for key in found if found[key]["task"] == "call_origin" and key[0].startswith("origin=")}
    for name, metric, weighting in alone:
        assert found[f"before=file;{name}", metric, weighting]["task"] == "call_origin"
        assert found[f"before=file-none;{name}", metric, weighting]["task"] == "call_origin"
    for origin in ("internal", "builtin"):
        held = rows.filter(pl.col("origin") == origin).with_columns(
            change=pl.col("file_nats").cast(pl.Float64) - pl.col("nats").cast(pl.Float64)
        )
        assert held.height
        behind = found[f"before=file;origin={origin}", "nats", ""]
        assert behind["value"] == pytest.approx(held["file_nats"].cast(pl.Float64).mean())
        change = found[f"before=file-none;origin={origin}", "nats", ""]
        low, high = jackknifed(held)
        assert change["value"] == pytest.approx(held["change"].mean())
        # On either side as wide, and wider where the bootstrap-t asks for more.
        half = high - change["value"]
        assert low == pytest.approx(change["value"] - half)
        for end in (change["value"] - change["ci_low"], change["ci_high"] - change["value"]):
            assert half * (1 - 1e-9) <= end < 2.5 * half


def jackknifed(rows: pl.DataFrame) -> tuple[float, float]:
    """Mean of a column and its interval by leaving out clusters, written out for this test alone."""
    whole, clusters = rows["change"].mean(), rows["cluster"].unique().to_list()
    without = [rows.filter(pl.col("cluster") != name)["change"].mean() for name in clusters]
    sizes = np.array([rows.filter(pl.col("cluster") == name).height for name in clusters], float)
    variance = (len(clusters) - 1) / len(clusters) * sum((one - whole) ** 2 for one in without)
    half = stats.t.ppf(0.975, sizes.sum() ** 2 / (sizes**2).sum() - 1) * math.sqrt(variance)
    return whole - half, whole + half


def observed_twice(moved: int) -> pl.LazyFrame:
    """A row a subword of twelve files; of so many the rank behind the file is another."""
    size = 240
    given = {
        "item_id": [f"i{row // 20:02}" for row in range(size)],
        "cluster": [f"c{row // 20:02}" for row in range(size)],
        "language": ["python"] * size,
        "rank": [1 + row % 2 for row in range(size)],
        "file_rank": [1 + (row + (row < moved)) % 2 for row in range(size)],
        **{name: [0.5] * size for name in ("nats", "entropy", "file_nats", "file_entropy", "file_top_nats")},
        **{name: [1] * size for name in ("text_characters", "text_bytes", "covered", "merged")},
        "token": [row % 20 for row in range(size)],
        "top_nats": [[0.5]] * size,
    }
    return pl.LazyFrame(
        [pl.Series(name, given.get(name), dtype=dtype) if name in given
         else pl.Series(name, [""] * size if dtype == pl.String else [None] * size, dtype=dtype)
         for name, dtype in OBSERVATIONS_SCHEMA.items()]
    )  # fmt: skip


def test_paper_mode_reads_no_file() -> None:
    lens = LENSES.load("surprisal")
    with pytest.raises(UsageError, match="before = none"):
        lens.input_requests([], {}, LensSettings(mode="paper", options={"before": "both"}))
