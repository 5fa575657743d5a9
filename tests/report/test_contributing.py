"""The page about plots is true: what it prints is a plot."""

import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sonde
from sonde.cli.commands import app
from sonde.report import PLOTS, Plot

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "plot.md"


def test_the_plot_that_the_page_prints_is_drawn(
    run_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    path = tmp_path / "kind_bits.py"
    path.write_text(block, encoding="utf-8")
    assert isinstance(PLOTS.load(str(path)), Plot)
    monkeypatch.setenv("SONDE_OUTSIDE", "{}")
    monkeypatch.setattr(PLOTS, "_loaded", dict(PLOTS._loaded))
    folder = tmp_path / "run"
    shutil.copytree(run_directory, folder)
    ended = CliRunner().invoke(app, ["report", str(folder), "--plot", str(path)])
    assert ended.exit_code == 0, ended.output
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "How many bits each kind takes" in page
    assert "The scored subwords are of" in page
    assert '"kind-bits"' in page
    assert sonde.Run(folder).plot(str(path)).table is not None
