"""The page about plots is true: what it prints is a plot."""

import re
import shutil
from pathlib import Path

import pytest

from sonde.report import PLOTS, Plot, build_report

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "plot.md"


def test_the_plot_that_the_page_prints_is_drawn(
    run_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    path = tmp_path / "kind_counts.py"
    path.write_text(block, encoding="utf-8")
    plot = PLOTS.load(str(path))
    assert isinstance(plot, Plot)
    monkeypatch.setitem(PLOTS._loaded, "kind_counts", plot)
    names = PLOTS.names()
    monkeypatch.setattr(PLOTS, "names", lambda: (*names, "kind_counts"))
    folder = tmp_path / "run"
    shutil.copytree(run_directory, folder)
    page = build_report(folder).read_text(encoding="utf-8")
    assert "How many subwords of each kind" in page
    assert "Most subwords are of the kind" in page
    assert '"kind-counts"' in page
