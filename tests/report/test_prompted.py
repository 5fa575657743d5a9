"""The section of listed answers on scores written by hand."""

from pathlib import Path

from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report.synthetic import dims, write_run

from sonde.report.run_tables import RunData
from sonde.report.section import PLOTS
from sonde.results.schema import Dimensions
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory

PLOT = PLOTS.load("prompted")


def score(
    where: Dimensions, metric: str, value: float, k: int | None = None, matching: str = "generative"
) -> Score:
    return Score(
        model="org/m", lens="prompting", task="api_prompts", language="python", metric=metric,
        dimensions=where, value=value, n=50, n_clusters=20, ci_low=value - 0.1, ci_high=value + 0.1,
        matching=matching, k=k,
    )  # fmt: skip


def test_lists_and_refusals_are_told(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [], {"org/m": 1.0})
    assert PLOT.draw(RunData(folder)) is None
    found = [
        score((), "p_at_k", 0.25, 20), score((), "share_refused", 0.4), score((), "share_unread", 0.1),
        score((), "p_at_k", 0.5, 20, "generative_lenient"),
        score(dims(template="call"), "p_at_k", 0.3, 20), score(dims(template="call"), "p_at_k", 0.1, 1),
        score(dims(template="call"), "listed", 12.5),
        score(dims(template="call", mode="full"), "p_at_k", 0.9, 20),
    ]  # fmt: skip
    scores_to_frame(found).write_parquet(RunDirectory(folder).scores)
    figure = PLOT.draw(RunData(folder))
    assert figure is not None and figure.table is not None
    listed = "m lists the answer in 25.0 [15.0, 35.0] % of 50 cloze queries in Python"
    assert figure.answer == (
        f"{listed} (50.0 [40.0, 60.0] % where lists are read leniently); it refuses 40.0 [30.0, 50.0] %; of "
        "10.0 [0.0, 20.0] % of the replies nothing can be read."
    )
    assert figure.lead.startswith("m, asked in words, lists the right answer in 25.0 [15.0, 35.0] %")
    cells = [[cell.text for cell in row[:5]] for row in figure.table.cells()]
    assert ["m", "calls", "as published", "right among the first 1, %", "10.0"] in cells
    assert ["m", "calls and imports", "as published", "refused, %", "40.0"] in cells
    assert ["m", "calls", "as published", "answers listed", "12.50"] in cells
    assert not any("90.0" in row for row in cells)
    for chart in figure.charts:
        validate_jsonschema({**chart.spec, "$schema": "s"}, load_schema())
