from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import polars as pl
import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report.synthetic import HOSTILE, Source, rewrite_summary, write_run

from sonde.base.errors import InputError
from sonde.report import PLOTS, RunData, write_report
from sonde.report.page import build_sections
from sonde.report.section import Chart, EmbeddedView, Figure, SvgImage
from sonde.report.theme import to_embedded_json
from sonde.results.schema import has_dimensions
from sonde.results.scores import Score, scores_to_frame
from sonde.results.tables import Column, Table
from sonde.store.run_folder import RunDirectory


class Page(HTMLParser):
    """Tags with attributes, the text of each script by id, and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.text = ""
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._script = (dict(attrs).get("id") or "") if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data
        else:
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        self._script = None


@pytest.fixture(scope="session")
def page(report: Path) -> Page:
    return Page(report.read_text(encoding="utf-8"))


def test_headline_and_sections_are_there(page: Page, run_directory: Path) -> None:
    value = RunData(run_directory).scores(
        lens="surprisal", metrics=["bits_per_byte"], where=has_dimensions({})
    )["value"][0]
    assert f"mini-decoder reads Python from stdlib at {value:.2f} bits per byte" in page.text
    assert "Each function is read alone, without its file" in page.text.rpartition("What was measured")[0]
    ids = {attributes.get("id") for tag, attributes in page.tags if tag == "section"}
    of_surprisal = {name for name in PLOTS.names() if PLOTS.load(name).lens == "surprisal"}
    without = {
        "accepted",
        "user_tags",
        "pseudo_likelihood",
        "behind_file",
        "periods",
        "minimal_pairs",
        "missed_pairs",
    }
    assert ids - {None} == of_surprisal - without | {"explorer"}


def test_nothing_is_loaded_from_the_network(page: Page) -> None:
    loaded = [
        attributes[name]
        for _, attributes in page.tags
        for name in ("src", "href", "data", "action", "poster", "srcset")
        if attributes.get(name)
    ]
    assert all(urlparse(str(address)).scheme in ("", "data") for address in loaded)
    assert all(str(address).startswith(("#", "data:")) for address in loaded)
    policy = next(a["content"] for t, a in page.tags if t == "meta" and "http-equiv" in a)
    assert policy and "default-src 'none'" in policy and "connect-src" not in policy
    assert not re.search(r"\"\$schema\"", page.scripts["specs"])


def test_code_under_study_stays_text(page: Page) -> None:
    assert "</script><script>alert" not in page.scripts["data-explorer"]
    data = json.loads(page.scripts["data-explorer"])
    held = next(item for item in data["items"] if item["path"] == "hostile.py")
    assert held["text"] == HOSTILE
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in page.tags)
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    assert len(scripts) == 4 + 2 and "alert(1)" not in page.scripts[""]


def test_byte_pieces_of_one_character_share_a_span(page: Page) -> None:
    data = json.loads(page.scripts["data-explorer"])
    place = next(place for place, item in enumerate(data["items"]) if item["path"] == "hostile.py")
    (surprisal,) = data["findings"]
    spans = [(piece[0], piece[1]) for piece in surprisal["rows"]["sonde_mini-decoder"][place]]
    at = HOSTILE.index("𝒳")
    assert spans.count((at, at + 1)) == 2


def test_every_chart_has_its_files(page: Page, run_directory: Path) -> None:
    names = set(json.loads(page.scripts["specs"]))
    figures = run_directory / "figures"
    assert names and {path.stem for path in figures.glob("*.svg")} >= names
    for path in figures.glob("*.svg"):
        assert path.read_text(encoding="utf-8").startswith("<svg")
        assert "var(--" not in path.read_text(encoding="utf-8")
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert path.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


def test_charts_satisfy_the_schema(page: Page, run_directory: Path) -> None:
    charts = [chart for section in build_sections(RunData(run_directory)) for chart in section.figure.charts]
    assert {chart.name for chart in charts} == set(json.loads(page.scripts["specs"]))
    for chart in charts:
        validate_jsonschema(dict(chart.spec), load_schema())


def test_every_number_in_a_table_has_its_n(page: Page) -> None:
    assert page.text.count("95 % interval") >= 6
    assert "no verdict" in page.text


def test_page_is_small_enough(run_directory: Path, page: Page) -> None:
    assert (run_directory / "report.html").stat().st_size < 6_000_000


def test_two_models_stand_side_by_side(pair_directory: Path) -> None:
    page = Page(write_report(pair_directory).read_text(encoding="utf-8"))
    specs = json.loads(page.scripts["specs"])
    assert "yOffset" in json.dumps(specs["tag-worst"])
    assert "bits per code token" in json.dumps(specs["tag-worst"])
    assert {"subword-mini-decoder-worst", "subword-other model-worst"} <= set(specs)
    offered = [attributes["value"] for tag, attributes in page.tags if tag == "option"]
    assert offered == ["sonde_mini-decoder", "org_other_model"]


def test_page_of_a_bare_summary(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}", encoding="utf-8")
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "holds no score yet" in page.text and "specs" in page.scripts


def test_hostile_summary_is_escaped(tmp_path: Path, sources: list[Source]) -> None:
    root = write_run(tmp_path / "hostile", sources[:1], {"m": 1.0})
    rewrite_summary(root, name="<b>x</b>", quirks=["</script>"], mode="paper", timing={"<i>": float("nan")})
    page = Page(write_report(root).read_text(encoding="utf-8"))
    assert "<b>x</b>" in page.text and not any(tag in ("b", "i") for tag, _ in page.tags)
    assert "Paper mode" in page.text


def test_no_run_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run\.json is missing"):
        write_report(tmp_path)


def test_embedded_json_cannot_end_its_element() -> None:
    value = {"text": "</script><!--<script>&\u2028", "number": float("inf")}
    text = str(to_embedded_json(value))
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"text": value["text"], "number": None}


@pytest.fixture(scope="module")
def damaged_runs(tmp_path_factory: pytest.TempPathFactory, sources: list[Source]) -> list[RunData]:
    """Runs of one item, of no rows, of numbers that are none, and without files."""
    runs: list[RunDirectory] = []
    for case in ("one-item", "no-rows", "not-a-number", "no-files"):
        folder = tmp_path_factory.mktemp("damaged") / case
        runs.append(RunDirectory(write_run(folder, [] if case == "no-rows" else sources[-1:], {"m": 1.0})))
    *_, numberless, fileless = runs
    nan = pl.lit(float("nan"))
    observed = numberless.root / numberless.observations("surprisal", "m") / "part-0.parquet"
    pl.read_parquet(observed).with_columns(nats=nan.cast(pl.Float32)).write_parquet(observed)
    scores = pl.read_parquet(numberless.scores).with_columns(value=nan, ci_low=nan, ci_high=nan)
    scores.write_parquet(numberless.scores)
    shutil.rmtree(fileless.root / "observations")
    fileless.scores.unlink()
    fileless.items.unlink()
    return [RunData(run.root) for run in runs]


SENTENCE = "pseudo_likelihood"
"""The one section that is a sentence with its numbers, and nothing beside it."""


def list_drawn(figure: Figure | None) -> list[Any]:
    """Return the parts of a figure that hold data: charts and tables of rows, pictures, parts of the page."""
    if figure is None:
        return []
    charts = [chart for chart in figure.charts if re.search(r'"values": \[\{', json.dumps(chart.spec))]
    pictures = [drawing for drawing in figure.drawings if re.search(r"<(path|rect|text|circle)", drawing.svg)]
    tables = [figure.table] if figure.table is not None and figure.table.records() else []
    embedded = [figure.embed] if figure.embed and (figure.embed.data or figure.embed.context) else []
    return [*charts, *pictures, *tables, *embedded]


@pytest.mark.parametrize(
    "figure",
    [
        None,
        Figure(notes=["A limit."]),
        Figure(charts=[Chart(name="c", title="C", spec={"mark": "bar", "data": {"values": []}})]),
        Figure(drawings=[SvgImage(name="d", title="D", svg="<svg></svg>", description="")]),
        Figure(table=Table(summary="", columns=[Column(title="A", value="a")], rows=[])),
        Figure(embed=EmbeddedView(template="", data={})),
    ],
)
def test_a_figure_without_data_draws_nothing(figure: Figure | None) -> None:
    assert list_drawn(figure) == []


@pytest.mark.parametrize("plot", PLOTS.names())
def test_every_plot_survives(plot: str, damaged_runs: list[RunData], full_runs: list[RunData]) -> None:
    for run in damaged_runs:
        figure = PLOTS.load(plot).draw(run)
        assert figure is None or figure.charts or figure.drawings or figure.embed
    figures = [PLOTS.load(plot).draw(run) for run in full_runs]
    if plot == SENTENCE:
        assert any(figure and re.search(r"\d subwords of python", figure.answer) for figure in figures)
    else:
        assert any(list_drawn(figure) for figure in figures)


def test_reporting_does_not_import_torch(tmp_path: Path, sources: list[Source]) -> None:
    root = write_run(tmp_path / "run", sources[:2], {"m": 1.0})
    code = (
        "import sys; from pathlib import Path; from sonde.report import write_report;"
        "write_report(Path(sys.argv[1]));"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", code, str(root)], check=True, env={**os.environ})


def test_lenses_without_sections_have_their_numbers_and_no_run_is_said_to_be_empty(tmp_path: Path) -> None:
    row = Score(
        model="m", lens="mine", metric="depth", value=2.0, ci_low=1.5, ci_high=2.5, n=80, n_clusters=40
    )
    few = dataclasses.replace(row, lens="probe", task="cpx", metric="coverage", n_clusters=3)
    RunDirectory(tmp_path).write_summary({"models": [{"name": "m"}]})
    scores_to_frame([row, dataclasses.replace(row, n_clusters=4), few]).write_parquet(
        tmp_path / "scores.parquet"
    )
    page = Page(write_report(tmp_path).read_text(encoding="utf-8"))
    assert (
        "depth is 2.00 [1.50, 2.50], over 80 observations from 40 clusters; a verdict is allowed" in page.text
    )
    assert "1 of them rests on enough independent code" in page.text
    assert "from 3 clusters; too little data †" in page.text
    assert "Too little data for a verdict: † fewer than 10 effective clusters." in page.text
    assert "no score" not in page.text and "overall score" not in page.text
