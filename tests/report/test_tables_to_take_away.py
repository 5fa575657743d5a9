"""Tables for papers: models by metrics with intervals and differences, from the command line and as files."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.report.test_card import NUMBERS, gain, row, run_of
from typer.testing import CliRunner

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.cli import app
from sonde.comparison.differences import DIFFERENCES_COLUMNS
from sonde.report import RunData, build_table, list_tables, save_figures
from sonde.report.comparison_page import ComparisonData
from sonde.report.export import to_latex
from sonde.report.page import list_figures
from sonde.results.schema import to_schema
from sonde.results.scores import Score, read_scores, scores_to_frame
from sonde.results.text_format import Number

OTHER = {"model": "org/two"}
BARS = re.compile("[\u2580-\u259f]")


def surprisal(value: float, metric: str = "bits", **more: Any) -> Score:
    fields: dict[str, Any] = {
        "lens": "surprisal", "task": "", "metric": metric, "n_eff": None, "dimensions": (), "split": "all",
        "layer": None, "ci_method": "clustered jackknife, log",
    }  # fmt: skip
    return row(value, **(fields | more))


def by_construct(value: float, construct: str, metric: str = "bits", **more: Any) -> Score:
    return surprisal(value, metric, dimensions=(("construct", construct),), **more)


CONSTRUCTS = [
    *(by_construct(value, name) for name, value in (("loop", 2.5), ("call", 3.5))),
    *(by_construct(value, name, "nats") for name, value in (("loop", 1.7), ("call", 2.4))),
    by_construct(0.4, "loop", "top1", ci_method="Korn-Graubard"),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of(tmp_path / "run", [*NUMBERS, *CONSTRUCTS])


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """A run of two models, of which the second has its own numbers."""
    others = [row(0.6, **OTHER), row(0.5, control="bag_of_tokens", layer=None, **OTHER)]
    others += [gain(0.1, "bag_of_tokens", **OTHER), by_construct(2.0, "loop", **OTHER)]
    return run_of(tmp_path / "pair", [*NUMBERS, *CONSTRUCTS, *others])


def test_the_headlines_have_interval_control_and_difference_in_one_unit(run: Path) -> None:
    frame = build_table(RunData(run), "probe").frame()
    assert frame.columns == [
        "Task", "Model", "Accuracy, %", "95 % interval low", "95 % interval high", "Best control",
        "Control", "Difference to control, points", "95 % interval to control low",
        "95 % interval to control high", "Examples", "Clusters", "Effective clusters", "Verdict",
    ]  # fmt: skip
    first = frame.row(0, named=True)
    assert (first["Task"], first["Model"], first["Accuracy, %"]) == ("cpx", "one", 70.0)
    assert (first["95 % interval low"], first["95 % interval high"]) == (65.0, 75.0)
    assert (first["Control"], first["Difference to control, points"]) == (50.0, 20.0)
    assert first["Verdict"] == "better than its control"
    assert frame["Task"].to_list() == ["cpx", "jbl", "len"]


def test_several_lenses_say_their_metric_with_its_unit(run: Path) -> None:
    frame = build_table(RunData(run)).frame()
    metrics = dict(frame.select("Lens", "Metric").unique().iter_rows())
    assert metrics == {"probe": "Accuracy, %", "surprisal": "Bits per byte"}
    assert set(frame["n counts"]) == {"examples", "bytes"}


def test_a_dimension_gives_a_row_a_value_and_nats_are_not_told_again(run: Path) -> None:
    frame = build_table(RunData(run), "construct").frame()
    assert frame.select("Construct", "Metric", "Value").rows() == [
        ("loop", "Bits", 2.5), ("call", "Bits", 3.5), ("loop", "Top1, %", 40.0),
    ]  # fmt: skip
    assert build_table(RunData(run), "construct", "bits").frame()["Bits"].to_list() == [2.5, 3.5]
    assert build_table(RunData(run), "construct", "nats").frame()["Nats"].to_list() == [1.7, 2.4]


def test_nats_alone_are_shown_in_bits(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "nats", [by_construct(2.0, "loop", "nats")])
    assert build_table(RunData(folder), "construct").frame()["Bits"].to_list() == pytest.approx([2.885390082])


def test_layers_are_listed_with_what_was_tested(run: Path) -> None:
    frame = build_table(RunData(run), "layer", "accuracy").frame()
    assert frame["Layer"].to_list() == [0, 1, 2, 3, 4]
    assert frame["Accuracy, %"].to_list() == pytest.approx([0.0, 10.0, 20.0, 30.0, 40.0])


def test_several_models_stand_together_and_over_the_text_that_they_share(pair: Path) -> None:
    frame = build_table(RunData(pair), "construct", "bits").frame()
    assert frame.select("Construct", "Model").rows() == [("loop", "one"), ("loop", "two"), ("call", "one")]
    rows = read_scores(pair / "scores.parquet")
    shared = [
        by_construct(9.0, "loop", "nats_per_token"),
        by_construct(8.0, "loop", "nats_per_token", **OTHER),
    ]
    marked = scores_to_frame(shared).with_columns(
        dimensions=pl.Series(
            [[{"name": "shared", "value": "tokens"}, {"name": "construct", "value": "loop"}]] * 2
        )
    )
    pl.concat([rows, marked]).write_parquet(pair / "scores.parquet")
    table = build_table(RunData(pair), "construct")
    assert table.titles[:3] == ["Construct", "Model", "Bits per token"]
    assert table.frame().height == 2
    # A metric that only the text of each model has is still there by name.
    assert build_table(RunData(pair), "construct", "bits").frame().height == 3


def compared(model: str, rows: pl.DataFrame, **columns: Any) -> ComparisonData:
    """A comparison of the first model with another, of one difference of 0.1."""
    template = rows.row(0, named=True)
    values = {name: template.get(name) for name in DIFFERENCES_COLUMNS}
    values |= {"base": "org/one", "model": model, "difference": -0.1, "ci_low": -0.2, "ci_high": -0.05}
    return ComparisonData(differences=pl.DataFrame([values | columns], schema=to_schema(DIFFERENCES_COLUMNS)))


def test_compared_models_have_the_paired_difference_to_the_first(
    pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = read_scores(pair / "scores.parquet").filter(lens="probe", task="cpx", metric="accuracy")
    comparison = compared("org/two", rows, layer=0)
    monkeypatch.setattr("sonde.report.tables.read_run_comparison", lambda run: comparison)
    frame = build_table(RunData(pair), "probe").frame().filter(Task="cpx")
    title = "Difference to one, points"
    # The layer that was chosen on what both read may be another one.
    assert dict(frame.select("Model", title).iter_rows()) == {"one": None, "two": -10.0}
    assert frame.filter(Model="two")["95 % interval to one low"].item() == -20.0


def test_bits_per_byte_are_compared_by_those_per_character(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = [
        surprisal(value, metric, n=n, **more)
        for more in ({}, OTHER)
        for value, metric, n in ((1.0, "bits_per_byte", 1000), (2.0, "bits_per_character", 500))
    ]
    folder = run_of(tmp_path / "bytes", scores)
    rows = read_scores(folder / "scores.parquet").filter(metric="bits_per_character")
    comparison = compared("org/two", rows, dimensions=[{"name": "text", "value": "shared"}])
    monkeypatch.setattr("sonde.report.tables.read_run_comparison", lambda run: comparison)
    frame = build_table(RunData(folder), "surprisal").frame()
    # Half as many characters as bytes: a difference of 0.1 per character is 0.05 per byte.
    assert frame["Difference to one"].to_list() == [None, pytest.approx(-0.05)]


def test_an_unknown_name_or_metric_gets_the_list_and_the_nearest(run: Path) -> None:
    data = RunData(run)
    with pytest.raises(
        UnknownNameError, match=r"'constrct'; did you mean 'construct'\?; known: .*headlines, layer"
    ):
        build_table(data, "constrct")
    with pytest.raises(
        UnknownNameError,
        match=r"metric of table 'construct' 'bit'; did you mean 'bits'\?; known: bits, nats, top1",
    ):
        build_table(data, "construct", "bit")
    with pytest.raises(
        UnknownNameError, match=r"metric of table 'headlines' 'xyz'; known: accuracy, bits_per_byte"
    ):
        build_table(data, metric="xyz")
    with pytest.raises(UsageError, match="'surprisal_overall' is shown as in the report"):
        build_table(data, "surprisal_overall", "bits")


@pytest.mark.slow
def test_no_name_of_a_run_gives_an_empty_table(pair: Path, full_runs: list[RunData]) -> None:
    for data in (RunData(pair), *full_runs):
        for name in list_tables(data):
            assert build_table(data, name).frame().height, (data.directory.root, name)


def test_a_run_without_scores_is_said_to_have_none(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "none", [])
    with pytest.raises(InputError, match="has no scores to make a table of"):
        build_table(RunData(folder))


@pytest.mark.slow
def test_no_table_for_papers_has_bars_or_text_that_ends_a_row(full_runs: list[RunData]) -> None:
    names: set[str] = set()
    for data in full_runs:
        for figure in list_figures(data):
            if figure.figure.table is None:
                continue
            names.add(figure.name)
            latex = to_latex(figure.figure.table)
            assert latex.startswith("% Needs \\usepackage{booktabs}.\n")
            assert not BARS.search(latex), figure.name
            body = latex.partition("\\midrule\n")[2].partition("\\bottomrule")[0].splitlines()
            assert len(body) == len(figure.figure.table.records())
            assert all(line.endswith(r" \\") and not line.startswith(("[", "*")) for line in body)
    assert {"headlines", "probe_ranks", "probe_models", "surprisal_overall", "not_scored"} <= names


@pytest.mark.slow
def test_a_share_says_its_unit_in_the_heading(full_runs: list[RunData]) -> None:
    for data in full_runs:
        for figure in list_figures(data):
            table = figure.figure.table
            for column in [] if table is None else table.columns:
                if isinstance(column.format, Number) and column.format.scale == 100:
                    is_said = re.search("%|points|interval|Interval", column.title)
                    assert is_said, (figure.name, column.title)


def test_every_table_of_the_page_is_written(run: Path) -> None:
    written = {path.name for path in save_figures(run)}
    assert {"headlines.csv", "headlines.tex", "surprisal_overall.tex", "not_scored.csv"} <= written


def test_the_command_prints_text_latex_csv_and_json(run: Path, tmp_path: Path) -> None:
    def call(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["table", str(run), *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert call("probe").splitlines()[0].split()[:4] == ["Task", "Model", "Accuracy,", "%"]
    latex = call("construct", "--metric", "bits", "--latex").splitlines()
    assert latex[0] == "% Needs \\usepackage{booktabs}." and latex[2] == r"\toprule"
    assert latex[5].startswith(r"loop & one & 2.50 & [2.45, 2.55] & 500 & 40 & 35.5 &")
    rows = list(csv.DictReader(io.StringIO(call("construct", "--metric", "bits", "--csv"))))
    assert [one["Bits"] for one in rows] == ["2.5", "3.5"]
    assert json.loads(call("construct", "--metric", "bits", "--json"))["rows"][0]["Bits"] == 2.5
    assert "construct  (dimension)" in call("list")
    file = tmp_path / "table.tex"
    assert call("probe", "-o", str(file)).strip() == str(file)
    assert file.read_text(encoding="utf-8").startswith("% Needs")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--latex", "--csv"], "two forms of one table"),
        (["-o", "table.txt"], "name a .tex or .csv file"),
        (["constrct"], "did you mean 'construct'"),
    ],
)
def test_the_command_refuses_in_one_line(run: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["table", str(run), *arguments])
    assert isinstance(result.exception, UsageError) and message in str(result.exception)
