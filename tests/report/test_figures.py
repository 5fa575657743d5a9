"""Charts and tables as files: all of them, or those that are named, and nothing unless asked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sonde.base.errors import UnknownNameError
from sonde.cli import app
from sonde.report import RunData, save_figures, write_report
from sonde.report.page import build_sections


@pytest.fixture
def bare(run_directory: Path, tmp_path: Path) -> Path:
    """The run of one model without its page and figures."""
    ignored = shutil.ignore_patterns("figures", "report.html")
    return shutil.copytree(run_directory, tmp_path / "run", ignore=ignored)


def test_a_page_alone_writes_no_figures(bare: Path) -> None:
    write_report(bare)
    assert not (bare / "figures").exists()


def test_a_named_section_comes_with_its_table_and_a_named_chart_alone(bare: Path) -> None:
    result = CliRunner().invoke(app, ["figures", str(bare), "calibration", "kind-shares"])
    assert result.exit_code == 0, result.output
    wanted = {f"calibration.{kind}" for kind in ("csv", "tex", "svg", "pdf", "png")}
    wanted |= {
        f"{name}.{kind}" for name in ("calibration-counts", "kind-shares") for kind in ("svg", "pdf", "png")
    }
    assert {path.name for path in (bare / "figures").iterdir()} == wanted
    assert {Path(line).name for line in result.output.split()} == wanted


@pytest.mark.slow
def test_without_names_everything_is_written(bare: Path) -> None:
    written = {path.name for path in save_figures(bare)}
    for section in build_sections(RunData(bare)):
        shown = (*section.figure.charts, *section.figure.drawings)
        assert {f"{one.name}.pdf" for one in shown} <= written
        assert section.figure.table is None or f"{section.name}.tex" in written


def test_a_name_of_nothing_is_one_line_with_the_nearest(bare: Path) -> None:
    message = r"^unknown section or chart of this run 'calibratio'; did you mean 'calibration'\?; known: "
    with pytest.raises(UnknownNameError, match=message):
        save_figures(bare, ["calibratio"])
