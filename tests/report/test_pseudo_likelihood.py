"""The note on pseudo-log-likelihoods stands on the page of masked models alone."""

from pathlib import Path

import polars as pl
from tests.report.synthetic import Source, write_run

from sonde.report.run_tables import RunData
from sonde.report.section import PLOTS
from sonde.results.schema import has_dimensions
from sonde.store.run_folder import RunDirectory

PLOT = PLOTS.load("pseudo_likelihood")


def test_the_note_stands_where_scores_are_pseudo_log_likelihoods(
    tmp_path: Path, sources: list[Source]
) -> None:
    folder = write_run(tmp_path / "run", sources[:3], {"m": 1.0})
    assert PLOT.draw(RunData(folder)) is None
    path = RunDirectory(folder).scores
    scores = pl.read_parquet(path)
    scores.with_columns(objective=pl.lit("pll")).write_parquet(path)
    figure = PLOT.draw(RunData(folder))
    assert figure is not None
    whole = scores.filter(has_dimensions({}) & (pl.col("metric") == "bits"))
    assert f"m: {whole['n'][0]:,} subwords of Python" in figure.answer.replace("python", "Python")
    assert any("never with the surprisal of a decoder" in note for note in figure.notes)
