"""Fidelity of a model beside its base: sums and scores against loops, the command line, and the ladder."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from gguf import GGMLQuantizationType
from tests.models.test_gguf import _model, _write
from tests.models.test_gguf import merged as merged
from tokenizers import Tokenizer
from typer.testing import CliRunner

import sonde
from sonde.api.compare import are_models
from sonde.base.errors import UsageError
from sonde.capture import prepare
from sonde.capture.fidelity import ComparedSubwords
from sonde.capture.requests import ItemCapture, Prepared
from sonde.cli.commands import app
from sonde.corpora import Selection, select
from sonde.lenses import LENSES, CapturedItem, LensSettings, ScoringContext
from sonde.lenses.fidelity.observe import LEAST_KL, bin_start, observe_items
from sonde.models import ModelSpec, derive_checkpoint, load_model, parse_spec
from sonde.models.engine.model_names import bundled_folder
from sonde.models.engine.sizes import measure_size
from sonde.report import RunData, write_report
from sonde.report.run_summary import describe_run
from sonde.results.fidelity import Ladder, build_ladder, describe_row, describe_smallest, explain_worse
from sonde.results.scores import Score, scores_to_frame

BASE = "sonde/mini-decoder"
SUMMED = ("kl", "kl_reverse", "nats", "base_nats")


@pytest.fixture(scope="module")
def prepared() -> list[Prepared]:
    loaded = load_model(ModelSpec(name=BASE, device="cpu", dtype="float32"))
    return prepare(loaded, select("stdlib", Selection(languages=("python",), limit=30)).items)


@pytest.fixture(scope="module")
def observed(prepared: Sequence[Prepared]) -> list[CapturedItem]:
    """Comparisons drawn at random, some subwords without one."""
    rng = np.random.default_rng(0)
    captured: list[CapturedItem] = []
    for item in prepared:
        size = len(item.alignment.subwords)
        ids = np.asarray(item.alignment.subwords.ids)
        right, base_right = rng.random((2, size)) < 0.5
        answer = ComparedSubwords(
            kl=rng.lognormal(-4, 1, size).astype(np.float32),
            kl_reverse=rng.lognormal(-4, 1, size).astype(np.float32),
            nats=rng.exponential(1, size).astype(np.float32),
            base_nats=rng.exponential(1, size).astype(np.float32),
            choice=np.where(right, ids, (ids + 1) % 100).astype(np.int32),
            base_choice=np.where(base_right, ids, (ids + 2) % 100).astype(np.int32),
            scored=np.arange(size) % 11 != 5,
        )
        capture = ItemCapture(item.item.item_id, extra={"fidelity": answer})
        captured.append(CapturedItem(item, (capture,)))
    return captured


@pytest.fixture(scope="module")
def table(observed: Sequence[CapturedItem]) -> pl.DataFrame:
    return observe_items(observed, [f"<{number}>" for number in range(50_000)])


def by_hand(observed: Sequence[CapturedItem], kept: Callable[[CapturedItem, int], bool]) -> dict[str, float]:
    """Add up the subwords that are kept, one by one."""
    sums = dict.fromkeys(("n", "same", "won", "lost", "squares", "distance", *SUMMED), 0.0)
    for captured in observed:
        answer = captured.captures[0].extra["fidelity"]
        ids = captured.prepared.alignment.subwords.ids
        for position in np.flatnonzero(answer.scored).tolist():
            if not kept(captured, position):
                continue
            nats, base_nats = float(answer.nats[position]), float(answer.base_nats[position])
            right, base_right = (
                side[position] == ids[position] for side in (answer.choice, answer.base_choice)
            )
            sums["n"] += 1
            sums["same"] += answer.choice[position] == answer.base_choice[position]
            sums["won"] += right and not base_right
            sums["lost"] += base_right and not right
            sums["squares"] += (math.exp(-nats) - math.exp(-base_nats)) ** 2
            sums["distance"] += abs(nats - base_nats)
            for name in SUMMED:
                sums[name] += float(getattr(answer, name)[position])
    return sums


@pytest.mark.parametrize(
    ("dimension", "slice_name", "kept"),
    [
        ("text", "all", lambda captured, position: True),
        ("text", "first", lambda captured, position: position == 0),
        ("kind", "identifier", lambda captured, position: _kind(captured, position) == "identifier"),
        ("position", "16-63", lambda captured, position: 16 <= position < 64),
        ("position", "256 and more", lambda captured, position: position >= 256),
    ],
    ids=("all", "first", "identifier", "16-63", "256 and more"),
)
def test_sums_are_those_of_a_loop(
    table: pl.DataFrame,
    observed: Sequence[CapturedItem],
    dimension: str,
    slice_name: str,
    kept: Callable[[CapturedItem, int], bool],
) -> None:
    rows = table.filter(pl.col("dimension") == dimension, pl.col("slice") == slice_name)
    expected = by_hand(observed, kept)
    assert expected["n"]
    for name, value in expected.items():
        assert rows[name].sum() == pytest.approx(value, rel=1e-6), name
    assert rows["bins"].list.len().sum() == expected["n"]


def _kind(captured: CapturedItem, position: int) -> str:
    return captured.prepared.alignment.kind[position] if position else ""


def test_parts_add_up_and_every_construct_is_there(table: pl.DataFrame) -> None:
    def total(*slices: str) -> float:
        return table.filter(pl.col("dimension") == "text", pl.col("slice").is_in(slices))["kl"].sum()

    assert total("code", "layout") == pytest.approx(total("all"), rel=1e-9)
    later = total("all") - total("first")
    assert table.filter(pl.col("dimension") == "position")["kl"].sum() == pytest.approx(later, rel=1e-9)
    assert {"call", "parameters"} <= set(table.filter(pl.col("dimension") == "construct")["slice"])


def test_bins_hold_their_divergences(observed: Sequence[CapturedItem], table: pl.DataFrame) -> None:
    item = observed[0]
    answer = item.captures[0].extra["fidelity"]
    row = table.filter(
        pl.col("item_id") == item.prepared.item.item_id,
        pl.col("dimension") == "text",
        pl.col("slice") == "all",
    ).row(0, named=True)
    bins = np.array(row["bins"])
    kl = np.sort(np.maximum(answer.kl[answer.scored].astype(np.float64), LEAST_KL))
    assert (bin_start(bins) <= kl * (1 + 1e-9)).all()
    assert (kl < bin_start(bins + 1) * (1 + 1e-9)).all()


def test_places_are_the_flips_and_the_farthest(observed: Sequence[CapturedItem], table: pl.DataFrame) -> None:
    for captured in observed:
        answer = captured.captures[0].extra["fidelity"]
        ids = np.asarray(captured.prepared.alignment.subwords.ids)
        flipped = ((answer.choice == ids) != (answer.base_choice == ids)) & answer.scored
        kl = np.where(answer.scored, answer.kl, -1)
        wanted = {
            *np.argsort(-kl)[:2].tolist(),
            *np.argsort(-np.where(flipped, kl, -1))[: min(6, flipped.sum())].tolist(),
        }
        rows = table.filter(
            pl.col("dimension") == "place", pl.col("item_id") == captured.prepared.item.item_id
        )
        assert sorted(rows["kl"].to_list()) == pytest.approx(sorted(float(kl[place]) for place in wanted))
        assert rows["base_choice"].str.starts_with("<").all()


def scored(table: pl.DataFrame) -> pl.DataFrame:
    lens = LENSES.load("fidelity")
    template = Score(model="m", lens="fidelity", metric="", value=math.nan, n=0, n_clusters=0)
    settings = LensSettings(options={"base": "b", "min_count": 20})
    scoring = ScoringContext(
        observations=table.lazy(), items=pl.DataFrame(), template=template, settings=settings
    )
    return scores_to_frame(lens.score(scoring))


def test_scores_are_ratios_of_the_sums(table: pl.DataFrame, observed: Sequence[CapturedItem]) -> None:
    sums = by_hand(observed, lambda captured, position: True)
    rows = scored(table).filter(pl.col("dimensions").list.len() == 0)
    values = dict(rows.select("metric", "value").iter_rows())
    expected = {
        "kl": sums["kl"] / sums["n"],
        "kl_reverse": sums["kl_reverse"] / sums["n"],
        "same_first": sums["same"] / sums["n"],
        "flips": (sums["won"] + sums["lost"]) / sums["n"],
        "top1_change": (sums["won"] - sums["lost"]) / sums["n"],
        "bits_change": (sums["nats"] - sums["base_nats"]) / sums["n"] / math.log(2),
        "bits_distance": sums["distance"] / sums["n"] / math.log(2),
        "rms_probability": math.sqrt(sums["squares"] / sums["n"]),
    }
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=1e-6), name
    kl = np.concatenate(
        [
            captured.captures[0].extra["fidelity"].kl[captured.captures[0].extra["fidelity"].scored]
            for captured in observed
        ]
    )
    assert values["kl_p99"] == pytest.approx(np.quantile(kl, 0.99), rel=0.03)
    assert rows.filter(pl.col("metric") == "kl")["n"].item() == sums["n"]
    assert set(rows["compared_to"]) == {"b"}
    assert rows.filter(pl.col("metric") != "left_out")["ci_low"].null_count() == 0


def ladder_row(model: str, **changes: Any) -> list[dict[str, Any]]:
    """Return rows of scores of one model: loss and right answers unchanged but for ``changes``."""
    common = {"n": 20_000, "n_clusters": 40, "effective_clusters": 30.0, "df": 29.0}
    values = {
        "kl": (0.01, 0.009, 0.011, "clustered jackknife, log"),
        "flips": (0.02, 0.018, 0.022, "Korn-Graubard"),
        "bits": (2.0, 1.9, 2.1, "clustered jackknife, log"),
        "base_bits": (2.0, 1.9, 2.1, "clustered jackknife, log"),
        "bits_distance": (0.1, 0.09, 0.11, "clustered jackknife, log"),
        "bits_per_byte_change": (0.001, 0.0, 0.002, "clustered jackknife"),
        "top1_change": (-0.001, -0.003, 0.001, "clustered jackknife, Fisher"),
        "bytes": (1e6, None, None, ""),
        "bits_per_weight": (8.0, None, None, ""),
        "base_bytes": (4e6, None, None, ""),
        "base_bits_per_weight": (32.0, None, None, ""),
        **changes,
    }
    template = Score(model=model, lens="fidelity", metric="", value=0.0, n=0, n_clusters=0, language="python")
    return scores_to_frame(
        dataclasses.replace(
            template,
            metric=name,
            value=value,
            ci_low=low,
            ci_high=high,
            ci_method=method,
            compared_to="b",
            **common,
        )
        for name, (value, low, high, method) in values.items()
    ).to_dicts()


def ladder(*models: list[dict[str, Any]]) -> Ladder:
    rows = [row for model in models for row in model]
    (built,) = build_ladder(pl.DataFrame(rows, schema=scores_to_frame([]).schema))
    return built


def test_the_smallest_that_is_not_worse_is_named() -> None:
    small = ladder_row(
        "small", bytes=(5e5, None, None, ""), bits_per_byte_change=(0.01, 0.008, 0.012, "clustered jackknife")
    )
    built = ladder(ladder_row("large", bytes=(2e6, None, None, "")), small, ladder_row("middle"))
    assert [row["model"] for row in built.rows] == ["small", "middle", "large", "b"]
    assert built.rows[-1]["bytes"] == 4e6
    assert describe_smallest(built).startswith(
        "The smallest that is not worse than its base is middle: its loss"
    )
    assert "loss +0.010 [+0.008, +0.012] bits per byte" in explain_worse(built.rows[0])


def test_too_little_data_is_not_called_no_difference() -> None:
    change = {"bits_per_byte_change": (0.001, -0.02, 0.022, "clustered jackknife")}
    enough, few = ladder_row("enough", **change), ladder_row("few", **change)
    for row in few:
        row["effective_clusters"] = 4.0
    built = ladder(enough, few)
    reasons = {row["model"]: explain_worse(row) for row in built.rows}
    assert reasons["enough"].startswith("loss +0.00 [−0.02, +0.02] bits per byte (no difference found: ")
    assert "too little data" not in reasons["enough"] and "no difference" not in reasons["few"]
    assert reasons["few"].count("(too little data: 4 effective clusters, a verdict needs 10)") == 2
    told = describe_smallest(built)
    assert told.startswith("Of no model is it known that it is not worse than its base: enough: loss")
    marked = {row["model"]: describe_row(row) for row in built.rows}
    assert marked["few"].count(" †") == 4 and "†" not in marked["enough"]


def test_a_model_without_a_finite_loss_is_in_no_ladder() -> None:
    rows = [*ladder_row("m"), *(row for row in ladder_row("lost") if row["metric"] not in ("bits", "kl"))]
    assert [row["model"] for row in ladder(rows).rows] == ["m", "b"]
    bare = pl.DataFrame([row for row in rows if row["metric"] != "bits"], schema=scores_to_frame([]).schema)
    assert list(build_ladder(bare)) == []


def test_no_number_has_a_signed_zero() -> None:
    told = describe_row(
        ladder(ladder_row("m", bits=(-0.0001, None, None, ""), bits_distance=(-0.0002, None, None, ""))).rows[
            0
        ]
    )
    assert "-0.000" not in told and "−0.000" not in told
    assert "loss 0.000 bits" in told and "absolute change 0.000" in told


def test_what_may_be_worse_is_not_called_fine() -> None:
    unsure = ladder_row("m", top1_change=(-0.002, -0.012, 0.008, "clustered jackknife, Fisher"))
    assert "right answers" in explain_worse(ladder(unsure).rows[0])
    few = ladder_row("m")
    for row in few:
        row["effective_clusters"] = 4.0
    assert describe_smallest(ladder(few)).startswith(
        "Too little data to tell whether m is worse than its base: loss "
    )
    better = ladder_row("m", bits_per_byte_change=(-0.1, -0.2, -0.05, "clustered jackknife"))
    assert not explain_worse(ladder(better).rows[0])


def test_sizes_are_those_of_the_files(tmp_path: Path, merged: Tokenizer) -> None:
    plain = ModelSpec(name=BASE)
    size = measure_size(plain)
    assert size is not None
    assert size.bits_per_weight in (16.0, 32.0)
    model = load_model(dataclasses.replace(plain, device="cpu", dtype="float32")).model
    assert size.weights == sum(parameter.numel() for parameter in model.parameters())
    quantised = measure_size(dataclasses.replace(plain, quantise="4bit"))
    assert quantised is not None
    assert quantised.bytes < size.bytes
    assert measure_size(ModelSpec(name="openai:gpt")) is None


def test_a_model_alone_or_of_another_vocabulary_is_refused(tmp_path: Path, merged: Tokenizer) -> None:
    arguments: dict[str, Any] = {
        "lens": "fidelity",
        "corpus": "stdlib",
        "limit": 3,
        "output": tmp_path / "run",
    }
    with pytest.raises(
        UsageError, match=r"compares models with a base, and 'sonde/mini-decoder' is the only one"
    ):
        sonde.run(BASE, **arguments)
    torch.manual_seed(0)
    file = tmp_path / "tiny.gguf"
    _write(file, _model("qwen2", merged.get_vocab_size()), merged)
    with pytest.raises(
        UsageError, match=r"predicts [\d,]+ subwords and the base 'sonde/mini-decoder' [\d,]+"
    ):
        sonde.run([BASE, str(file)], **arguments)
    with pytest.raises(UsageError, match="compares what decoders predict next, and this encoder has"):
        sonde.run("sonde/mini-encoder", **arguments)


def test_names_of_models_are_told_from_runs(tmp_path: Path) -> None:
    assert are_models([BASE, f"{BASE}?quantise=4bit"])
    assert not are_models(["runs/a", "runs/b"])
    with pytest.raises(UsageError, match="is a model and 'runs/b' is not"):
        are_models([BASE, "runs/b"])


def test_a_ladder_of_files_in_one_run(tmp_path: Path, merged: Tokenizer) -> None:
    """Quants of several kinds of one model, by path and as the folders that they are converted to."""
    model = _model("llama", merged.get_vocab_size())
    files: dict[str, Path] = {}
    for kind in ("F32", "F16", "Q8_0", "Q5_1", "Q4_0"):
        files[kind] = tmp_path / f"tiny.{kind}.gguf"
        _write(files[kind], model, merged, quantised=GGMLQuantizationType[kind])
    code = tmp_path / "code"
    code.mkdir()
    for number in range(12):
        body = "".join(f"    x{row} = first[{row}] + second.get({number})\n" for row in range(number + 2))
        (code / f"m{number}.py").write_text(f"def f{number}(first, second):\n{body}    return x0\n")
    base, *others = map(str, files.values())
    run = sonde.run(
        [base, *others],
        f"local:{code}",
        lenses=["fidelity", "surprisal"],
        options={"surprisal": {"pairs": "wrong_operator"}},
        output=tmp_path / "run",
    )
    overall = run.scores.filter(pl.col("dimensions").list.len() == 0, pl.col("lens") == "fidelity")
    kl = dict(overall.filter(pl.col("metric") == "kl").select("model", "value").iter_rows())
    assert list(kl) == others
    assert 0 < kl[others[0]] < kl[others[1]] < kl[others[2]] < kl[others[3]]
    (built,) = build_ladder(run.scores)
    assert [row["model"] for row in built.rows] == [*others[::-1], base]
    bits = [row["bits_per_weight"] for row in built.rows]
    assert bits == sorted(bits)
    assert all(row["pairs"] is not None for row in built.rows)
    lines = "\n".join(describe_run(RunData(run.directory)))
    assert "Fidelity on Python, compared with" in lines
    page = write_report(run.directory).read_text(encoding="utf-8")
    assert "Fidelity: which code changes" in page
    # The same by the folder that a file was converted to.
    spec = parse_spec(others[-1])
    folder = tmp_path / "converted"
    loaded = load_model(dataclasses.replace(spec, device="cpu"))
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    again = sonde.run([base, str(folder)], f"local:{code}", lens="fidelity", output=tmp_path / "again")
    for metric in ("kl", "kl_reverse", "flips", "bits", "base_bits"):
        first, second = (
            scores.filter(
                pl.col("model") == name, pl.col("metric") == metric, pl.col("dimensions").list.len() == 0
            )["value"].item()
            for scores, name in ((overall, others[-1]), (again.scores, str(folder)))
        )
        assert first == pytest.approx(second, rel=1e-9), metric


def test_the_command_line_reads_models_side_by_side(tmp_path: Path) -> None:
    rounded = derive_checkpoint(BASE, tmp_path / "int8", "int8")
    arguments = ["-c", "stdlib", "--limit", "12", "--json"]
    first = CliRunner().invoke(app, ["compare", BASE, str(rounded), *arguments, "-o", str(tmp_path / "a")])
    assert first.exit_code == 0, first.output
    second = CliRunner().invoke(
        app, ["run", "-m", BASE, "-m", str(rounded), "--fidelity", *arguments, "-o", str(tmp_path / "b")]
    )
    assert second.exit_code == 0, second.output
    scores = [sonde.Run(tmp_path / name).scores.drop("fingerprint") for name in "ab"]
    assert scores[0].equals(scores[1])
    assert set(scores[0]["lens"]) == {"fidelity"}
    assert set(scores[0]["model"]) == {str(rounded)}
    summary = json.loads((tmp_path / "a" / "run.json").read_text())
    assert summary["lenses"][0]["base"]["name"] == BASE
    refused = CliRunner().invoke(app, ["compare", str(tmp_path / "a"), "-c", "stdlib"])
    assert isinstance(refused.exception, UsageError) or "are for models" in refused.output
    assert bundled_folder(BASE)
