"""Sections of the page by name: every chart is altair's, and what cannot be shown is said."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import altair as alt
import pytest

import sonde
from sonde.base.errors import InputError, UnknownNameError
from sonde.report import RunData, build_section
from tests.report.conftest import run_directory as run_directory
from tests.report.conftest import sources as sources


@pytest.mark.parametrize("name", ["calibration", "worst_best_tags", "explorer"])
def test_a_section_of_the_page_is_had_by_name(run_directory: Path, name: str) -> None:
    plotted = sonde.Run(run_directory).plot(name)
    (on_page,) = [one for one in [build_section(RunData(run_directory), name)] if one]
    assert plotted.title == on_page.plot.title
    for chart, held in zip(plotted.charts, on_page.figure.charts, strict=True):
        made = chart.to_dict(validate=False)
        assert made["title"].strip() == held.title
        assert made["width"]
        assert {"mark", "layer"} & made.keys() == {"mark", "layer"} & held.spec.keys()


def test_what_a_run_has_nothing_to_show_for_is_said(run_directory: Path) -> None:
    with pytest.raises(InputError, match=r"'probe_layers': .* has no data for it \(lens 'probe'\)"):
        sonde.Run(run_directory).plot("probe_layers")


def test_charts_are_altairs_and_can_be_combined(run_directory: Path) -> None:
    first, second = sonde.Run(run_directory).plot("worst_best_subwords").charts
    assert isinstance(first, alt.LayerChart)
    beside = (first | second.properties(width=200)).to_dict()
    assert [one["width"] for one in beside["hconcat"]] == [first.width, 200]


@pytest.mark.parametrize("name", ["kinds", "word_clouds"])
def test_a_section_is_drawn_without_a_browser(run_directory: Path, name: str) -> None:
    plotted = sonde.Run(run_directory).plot(name)
    assert plotted.svgs
    for svg in plotted.svgs:
        assert ElementTree.fromstring(svg).tag.endswith("svg")
    html = plotted._repr_html_()
    assert html.count("data:image/svg+xml") == len(plotted.svgs)
    assert plotted.title in html and repr(plotted) == f"<{name}: {plotted.title}>"


def test_a_table_has_the_numbers_of_the_page(run_directory: Path) -> None:
    plotted = sonde.Run(run_directory).plot("worst_best_constructs")
    held, table = plotted.section.figure.table, plotted.table
    assert held is not None and table is not None
    assert table.equals(held.frame())
    assert table["Subwords"].dtype.is_integer() and table["95 % interval low"].dtype.is_float()


def test_an_unknown_plot_is_named(run_directory: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'calibration'"):
        sonde.Run(run_directory).plot("calibraton")
