"""A run that is opened: what it gives is what its files hold."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import sonde
from sonde.base.errors import InputError, UnknownNameError
from sonde.cli.progress import print_outcome
from sonde.experiments.progress import Outcome
from sonde.report import write_report
from sonde.store.run_folder import RunDirectory

from .conftest import LIMIT


@pytest.fixture
def copied(finished: sonde.Run, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished.directory, tmp_path / "copied"))


def test_scores_are_flat_and_as_they_were_written(finished: sonde.Run) -> None:
    held = pl.read_parquet(finished.directory / "scores.parquet")
    scores = finished.scores
    assert not any(isinstance(kind, pl.Struct) for kind in scores.schema.values())
    assert scores["value"].to_list() == held["value"].to_list()
    assert scores["k"].to_list() == held["k"].to_list()


def test_a_run_opens_again_from_its_folder(finished: sonde.Run) -> None:
    again = sonde.Run(str(finished.directory))
    assert again.scores.equals(finished.scores, null_equal=True)
    assert again.models == finished.models
    assert again.lenses == ("surprisal",)
    assert repr(again) == repr(finished)
    assert "\n" not in repr(again) and "surprisal of" in repr(again)


def test_scores_without_a_column_are_refused(copied: Path) -> None:
    path = copied / "scores.parquet"
    pl.read_parquet(path).drop("p_value", "n_eff").write_parquet(path)
    (copied / "receipts" / "scores.parquet.json").unlink()
    with pytest.raises(InputError, match=r"no column '\w+'; run the experiment again$"):
        sonde.read_scores(copied)


@pytest.mark.parametrize("opened", [sonde.Run, sonde.read_scores])
def test_where_there_is_no_run_is_one_line(opened: type, tmp_path: Path) -> None:
    (tmp_path / "scores.parquet").write_text("no parquet")
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"^[^\n]+$"):
            opened(place)


def test_observations_are_the_parts_with_their_model(finished: sonde.Run) -> None:
    table = finished.observations("surprisal").collect()
    files = sorted((finished.directory / "observations").rglob("*.parquet"))
    assert table.drop("model").equals(pl.concat([pl.read_parquet(file) for file in files]))
    assert set(table["model"]) == set(finished.models)
    (model,) = finished.models
    assert finished.observations("surprisal", model).collect().equals(table)
    items = finished.items.collect()
    assert set(table["item_id"]) == set(items["item_id"])
    assert len(items) == LIMIT


def test_a_lens_or_model_that_the_run_does_not_have_is_named(finished: sonde.Run) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'surprisal'"):
        finished.observations("suprisal")
    with pytest.raises(UnknownNameError, match="unknown model of this run 'other'"):
        finished.observations("surprisal", "other")
    with pytest.raises(InputError, match="no states; run the lens 'probe'"):
        finished.states("len", 1)


def test_the_page_is_built_again_when_the_run_has_changed_whatever_the_clock_says(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Path] = []

    def build(folder: Path) -> Path:
        built.append(folder)
        return write_report(folder)

    monkeypatch.setattr("sonde.api.results.write_report", build)
    run = sonde.Run(copied)
    assert built == []
    assert run.page == run.page == copied / "report.html"
    assert built == [copied]
    run.page.write_text("damaged")
    assert run.page.read_text(encoding="utf-8") != "damaged"
    assert built == [copied] * 2
    # The page is made by a clock a day ahead; then the run changes by one that was set back.
    for name, day in (("report.html", 86_400), ("run.json", -86_400)):
        when = (copied / name).stat().st_mtime + day
        if name == "run.json":
            held = RunDirectory(copied)
            held.write_summary(held.read_summary() | {"seed": 7})
        os.utime(copied / name, (when, when))
    assert run.page.is_file()
    assert built == [copied] * 3


def test_the_notebook_shows_the_lines_of_the_terminal(
    finished: sonde.Run, capsys: pytest.CaptureFixture[str]
) -> None:
    html = finished._repr_html_()
    print_outcome(Outcome(RunDirectory(finished.directory)), Path("page"))
    lines = [line for line in capsys.readouterr().out.splitlines() if "clusters" in line]
    assert len(lines) > 5
    for line in lines:
        assert line in html
    assert '<img alt="' in html and "data:image/svg+xml;base64," in html
    assert "http:" not in html and "https:" not in html


def test_the_notebook_runs_nothing_of_a_hostile_corpus(decoder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    (folder / "a.py").write_text("def f(value):\n    return value.strip() + str(value)\n")
    run = sonde.run(models=decoder, corpora=f"local:{folder}", output=tmp_path / "<script>run")
    html = run._repr_html_()
    assert "onerror=alert(1)&gt;" in html
    for hostile in ("<img src=x", "<script"):
        assert hostile not in html


def test_a_table_for_papers_is_a_frame_of_polars_and_of_pandas(finished: sonde.Run) -> None:
    table = finished.table("construct", metric="bits")
    assert table.columns[:3] == ["Construct", "Model", "Bits"]
    scores = finished.scores.filter(metric="bits").filter(pl.col("dimensions").list.len() == 1)
    names = pl.col("dimensions").list.first().struct.field("name")
    assert table["Bits"].to_list() == pytest.approx(scores.filter(names == "construct")["value"].to_list())
    assert list(table.to_pandas()["Construct"]) == table["Construct"].to_list()
    assert finished.table().height and finished.table("calibration").height
    with pytest.raises(UnknownNameError, match=r"did you mean 'construct'\?; known: "):
        finished.table("constructs")
    with pytest.raises(UnknownNameError, match=r"did you mean 'calibration'\?; known: "):
        finished.plot("calibratio")


def test_show_prints_headlines_or_is_the_page_in_a_notebook(
    finished: sonde.Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finished.show()
    printed = capsys.readouterr().out
    assert "bits per byte" in printed and printed.endswith(f"report: {finished.page}\n")
    shown: list[str] = []
    monkeypatch.setattr("sonde.api.results.Console", lambda: SimpleNamespace(is_jupyter=True))
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data["text/html"]))
    finished.show(height=600)
    assert capsys.readouterr().out == ""
    (html,) = shown
    assert html.startswith('<iframe srcdoc="') and 'sandbox="allow-scripts' in html and 'height="600"' in html
    assert "<script" not in html
