"""Figures of names that attack what draws them: control characters, Vega's own words, long names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.report.synthetic import Source, write_run

from sonde.base.formatting import legible
from sonde.report import PLOTS, RunData, write_report
from sonde.report.export import write_figures
from sonde.report.section import Chart, Figure, SvgImage
from sonde.report.text import sanitise_figure
from sonde.results.schema import DIMENSIONS, has_dimension_names
from sonde.store.run_folder import RunDirectory

# Words and operators of Vega's expression language, which no name may be taken for.
VEGA = re.findall(
    r"\S+",
    r"""if datum event item group xy x y isArray isValid true false null undefined NaN Infinity PI typeof in
    new this function return var signal data indata scale invert bandwidth format test replace toString length
    constructor __proto__ parent width height padding hasOwnProperty || && === !== >>> ?: => , ; ` ${x} \ \\
    \u0000 \x1b /*x*/ // [0] datum.x datum['x'] if(1,2,3) '+' "+" %s %% ~s .2f <svg> ]]> &amp; --> {{x}}""",
)
NAMES = (
    *VEGA, "a\x1b[31mb", "\x00", "\x0c", "a\x7f\x80\x9f", "\ud800", "\udfff\ud83d", "\ufffe\uffff",
    "\U0010ffff", "\u202e\u200fabc\u2066", "\u2028\u2029", "x" * 5000, "\U0001d4b3" * 300, "'", '"', "''\"\"",
    "\\'", " ", "", "\n",
)  # fmt: skip


@pytest.fixture(scope="module")
def every(full_runs: list[RunData]) -> list[Chart | SvgImage]:
    """Every chart and drawing of every plot, as the plots hand them over: one of each plot and shape."""
    figures = [(name, PLOTS.load(name).draw(run)) for name in PLOTS.names() for run in full_runs]
    shapes: dict[tuple[str, str], Chart | SvgImage] = {}
    for name, figure in figures:
        for one in (*figure.charts, *figure.drawings[:1]) if figure else ():
            shapes.setdefault((name, shape_of(one.spec) if isinstance(one, Chart) else ""), one)
    return list(shapes.values())


def shape_of(value: Any, key: str = "") -> str:
    """A specification without its data and names: what remains is how they are drawn."""
    if isinstance(value, Mapping):
        parts = {
            part: shape_of(held, part)
            for part, held in value.items()
            if part not in ("data", "domain", "title")
        }
        return str(sorted(parts.items()))
    if isinstance(value, list):
        return str([] if key == "sort" else [shape_of(held) for held in value])
    return str(value) if key in ("field", "type", "mark", "aggregate") else ""


def renamed(value: Any, name: Callable[[str], str], key: str = "") -> Any:
    """A specification whose data, orders and domains hold other names; titles of axes stay."""
    if isinstance(value, Mapping):
        if key == "mark":
            return value
        return {k: renamed(v, name, k) for k, v in value.items()}
    if isinstance(value, list):
        # A list to sort by holds names, a word there says which way.
        return [renamed(one, name, "names" if key == "sort" else key) for one in value]
    return name(value) if isinstance(value, str) and key not in _GRAMMAR else value


_GRAMMAR = {
    "field", "sort", "title", "type", "style", "mark", "filter", "format", "align", "baseline", "op", "as",
    "groupby", "order", "for", "orient", "symbolType", "stack", "joinaggregate", "scale", "aggregate",
    "interpolate", "range",
}  # fmt: skip


def attacked(one: Chart | SvgImage, names: tuple[str, ...]) -> Chart | SvgImage:
    """The same figure with other names in it."""
    given: dict[str, str] = {}

    def name(text: str) -> str:
        return given.setdefault(text, names[len(given) % len(names)])

    if isinstance(one, SvgImage):
        svg = re.sub(r">([^<>]+)<", lambda found: f">{escape(name(found[1]))}<", one.svg)
        return dataclasses.replace(one, title=name(one.title), svg=svg)
    spec = {
        part: renamed(value, name, part) if part in ("data", "layer", "encoding", "title") else value
        for part, value in one.spec.items()
    }
    return dataclasses.replace(one, title=name(one.title), spec=spec)


def draw(one: Chart | SvgImage, folder: Path) -> list[str]:
    """What could not be drawn of it; a process that is aborted does not come back from here."""
    figure = sanitise_figure(Figure(charts=[one]) if isinstance(one, Chart) else Figure(drawings=[one]))
    _, failed = write_figures(folder, [*figure.charts, *figure.drawings])
    assert failed or (folder / f"{one.name}.png").read_bytes().startswith(b"\x89PNG")
    return failed


@pytest.mark.slow
def test_every_figure_of_every_plot_is_drawn_whatever_the_names(
    every: list[Chart | SvgImage], tmp_path: Path
) -> None:
    for place, one in enumerate(every):
        turn = place * 7 % len(NAMES)
        assert draw(attacked(one, (*NAMES[turn:], *NAMES[:turn])), tmp_path) == [], one.name


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), st.lists(st.sampled_from(NAMES) | st.text(max_size=60), min_size=1, max_size=8))
def test_figures_of_any_names(
    every: list[Chart | SvgImage], tmp_path: Path, data: st.DataObject, names: list[str]
) -> None:
    one = data.draw(st.sampled_from(every))
    assert draw(attacked(one, tuple(names)), tmp_path) == []


def test_no_name_stands_outside_of_data(every: list[Chart | SvgImage]) -> None:
    def orders(value: Any) -> Iterator[Any]:
        if isinstance(value, Mapping):
            yield from (
                value[key] for key in ("sort", "filter", "expr", "calculate", "labelExpr") if key in value
            )
            for one in value.values():
                yield from orders(one)
        elif isinstance(value, list):
            for one in value:
                yield from orders(one)

    for chart in every:
        if isinstance(chart, Chart):
            (made,) = sanitise_figure(Figure(charts=[attacked(chart, ("NAME",))])).charts  # type: ignore[list-item]
            assert "NAME" not in str(list(orders(made.spec)))


def test_ranks_give_the_order_that_the_names_gave(run_directory: Path, tmp_path: Path) -> None:
    figure = PLOTS.load("worst_best_tags").draw(RunData(run_directory))
    assert figure is not None
    for before, after in zip(figure.charts, sanitise_figure(figure).charts, strict=True):
        drawn: list[str] = []
        for chart in (before, after):
            assert write_figures(tmp_path, [chart])[1] == []
            drawn.append(re.sub(r"clip\d+", "clip", (tmp_path / f"{chart.name}.svg").read_text()))
        assert drawn[0] == drawn[1]


def test_a_run_of_hostile_code_ends_with_its_page(tmp_path: Path, sources: list[Source]) -> None:
    root = write_run(tmp_path / "run", sources[:40], {"sonde/mini-decoder": 1.0})
    scores = RunDirectory(root).scores
    table = pl.read_parquet(scores)
    shown = [name for name in NAMES if not re.search("[\ud800-\udfff]", name)]
    for name, mark in (("subword", "#7"), ("tag", ""), ("construct", "")):
        held = table.filter(has_dimension_names(name))["dimensions"].to_list()
        values = sorted({row[0]["value"] for row in held})
        new = {old: f"{one}{mark}" for old, one in zip(values, shown, strict=False)}
        renamed = [
            [
                {"name": name, "value": new.get(one["value"], one["value"])} if one["name"] == name else one
                for one in row
            ]
            for row in table["dimensions"].to_list()
        ]
        table = table.with_columns(pl.Series("dimensions", renamed, dtype=DIMENSIONS))
    table.write_parquet(scores)
    parts = list(root.rglob("observations/**/*.parquet"))
    for path in parts:
        rows = pl.read_parquet(path)
        hostile = pl.Series("word", [shown[place % len(shown)] for place in range(rows.height)])
        rows.with_columns(hostile, subword=hostile).write_parquet(path)
    failed: list[str] = []
    page = write_report(root, failed.append, figures=True)
    assert failed == []
    assert "\x1b" not in page.read_text(encoding="utf-8")


def test_a_figure_that_fails_costs_nothing_else(tmp_path: Path) -> None:
    fine = {"data": {"values": [{"a": 1}]}, "mark": "point", "encoding": {"x": {"field": "a"}}}
    broken = {**fine, "transform": [{"filter": "nothing_there(datum.a)"}]}
    charts = [Chart(name="broken", title="B", spec=broken), Chart(name="fine", title="F", spec=fine)]
    _, (line,) = write_figures(tmp_path, charts)
    assert line.startswith("figure 'broken' could not be drawn: ") and "\n" not in line
    assert {path.name for path in tmp_path.iterdir()} == {"fine.svg", "fine.pdf", "fine.png"}


@given(st.text())
def test_legible_text_keeps_its_length_and_what_can_be_shown(text: str) -> None:
    shown = legible(text)
    assert len(shown) == len(text) and legible(shown) == shown
    assert all(new == old for new, old in zip(shown, text, strict=True) if old.isprintable())
    shown.encode()
