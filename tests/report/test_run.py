from __future__ import annotations

import math
import shutil
from pathlib import Path

import polars as pl
from tests.report.synthetic import Source, rewrite_summary, write_run

from sonde.report import PLOTS
from sonde.report.header import format_rerun_command
from sonde.report.run_tables import RunData
from sonde.report.sections.surprisal import title
from sonde.report.sections.surprisal._scores import read_slices
from sonde.report.sections.surprisal.distribution import _count_by_bin, _quantiles
from sonde.report.sections.surprisal.frequency_loss import _entries
from sonde.report.sections.surprisal.kinds import _shares
from sonde.report.text import collapse_blanks, lacks_verdict
from sonde.results.schema import has_dimensions
from sonde.results.text_format import ClusterCount, interval, with_interval
from sonde.store.run_folder import RunDirectory


def observed(root: Path) -> pl.DataFrame:
    run = RunDirectory(root)
    return pl.read_parquet(root / run.observations("surprisal", "sonde/mini-decoder") / "part-0.parquet")


def test_models_are_found_without_run_json_saying(tmp_path: Path, sources: list[Source]) -> None:
    root = write_run(tmp_path / "run", sources[:2], {"a/same": 1.0, "b/same": 1.0})
    rewrite_summary(root, models=None)
    assert [(m.label, m.slug) for m in RunData(root).models] == [("a/same", "a_same"), ("b/same", "b_same")]


def test_scores_leave_out_controls_and_what_is_no_number(tmp_path: Path, sources: list[Source]) -> None:
    root = write_run(tmp_path / "run", sources[:3], {"m": 1.0})
    path = RunDirectory(root).scores
    frame = pl.read_parquet(path)
    control = frame.with_columns(control=pl.lit("n-gram"))
    nan = frame.with_columns(value=pl.lit(float("nan")))
    pl.concat([frame, control, nan]).write_parquet(path)
    rows = RunData(root).scores(lens="surprisal", metrics=["bits_per_byte"], where=has_dimensions({}))
    assert rows.height == 1 and math.isfinite(rows["value"][0])


def test_quantiles_against_all_values(run_directory: Path) -> None:
    run = RunData(run_directory)
    found = _quantiles(_count_by_bin(run, run.models[0]))
    bits = observed(run_directory)["nats"].cast(pl.Float64) / math.log(2)
    for name, level in (("p25", 0.25), ("p50", 0.5), ("p95", 0.95)):
        value = bits.quantile(level)
        assert value is not None and abs(found[name] - value) <= 0.1


def test_frequency_entries_against_a_loop(run_directory: Path) -> None:
    run = RunData(run_directory)
    entries = {row["subword_id"]: row for row in _entries(run, run.models[0]).iter_rows(named=True)}
    slow: dict[int, list[float]] = {}
    for row in observed(run_directory).filter(pl.col("position") > 0).iter_rows(named=True):
        slow.setdefault(row["subword_id"], []).append(row["nats"] / math.log(2))
    assert set(entries) == set(slow)
    for index, values in slow.items():
        assert entries[index]["count"] == len(values)
        assert math.isclose(entries[index]["bits"], sum(values) / len(values), rel_tol=1e-6)


def test_shares_sum_to_one(run_directory: Path) -> None:
    shares = _shares(read_slices(RunData(run_directory), "kind").rows)
    assert math.isclose(shares["text"].sum(), 1.0) and math.isclose(shares["surprise"].sum(), 1.0)


def test_numbers_as_shown() -> None:
    row = {"value": 0.0312, "ci_low": 0.02, "ci_high": None, "n_clusters": 12, "ci_method": "jackknife"}
    assert with_interval(row, 100, 1) == "3.1" and interval(row) == "–"
    assert with_interval({**row, "ci_high": 0.04}, 100, 1) == "3.1 [2.0, 4.0]"
    assert lacks_verdict(row), "without an interval nothing is decided"
    row |= {"ci_high": 0.04}
    assert not lacks_verdict(row) and lacks_verdict({**row, "n_clusters": 9})
    assert lacks_verdict({**row, "effective_clusters": 9.5})
    assert ClusterCount().text({**row, "effective_clusters": 9.5}) == "12 (worth 9.5), no verdict"
    assert collapse_blanks("␣␣␣␣␣␣x____________") == "␣×6x____________"


def test_command_to_repeat(run_directory: Path) -> None:
    command = format_rerun_command(RunData(run_directory))
    assert command.startswith(
        "sonde run -m sonde/mini-decoder -l surprisal -c stdlib --unit function --limit "
    )


def test_the_headline_counts_the_items_that_its_lens_read(run_directory: Path, tmp_path: Path) -> None:
    root = shutil.copytree(run_directory, tmp_path / "run")
    summary = RunData(root).summary
    read = pl.read_parquet(root / "observations/lens=surprisal/**/*.parquet")["item_id"].n_unique()
    # Another lens of the run drew items of its own from the same corpus.
    rewrite_summary(root, corpus=[{**entry, "items": entry["items"] + 468} for entry in summary["corpus"]])
    header = title.top(RunData(root))
    assert header is not None and f", over {read} items from " in header.lines[0]


def test_the_answer_on_frequency_rests_on_what_occurs_often(run_directory: Path, tmp_path: Path) -> None:
    root = shutil.copytree(run_directory, tmp_path / "run")
    scores = pl.read_parquet(root / "scores.parquet")
    often = (
        (pl.col("metric") == "spearman_frequency_corpus")
        & (pl.col("unit") == "subword")
        & (pl.col("k") == 20)
    )
    assert scores.filter(often).height == 1
    changed = scores.with_columns(value=pl.when(often).then(-0.078).otherwise("value"))
    changed.write_parquet(root / "scores.parquet")
    figure = PLOTS.load("frequency_loss").draw(RunData(root))
    assert figure is not None and figure.table is not None
    assert "among subwords that occur 20 times or more (Spearman −0.08" in figure.answer
    assert "; over all subwords " in figure.answer
    assert any(row[1].text == "subwords, at least 20 times" for row in figure.table.cells())
