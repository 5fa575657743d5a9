"""A lens from outside, without code of the report: page, terminal and notebook from its scores alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema

from sonde.api.results import Run
from sonde.report import RunData, Section, build_section, write_report
from sonde.report.generic import DIMENSIONS, MAX_VALUES, TABLE_ROWS
from sonde.report.headlines import describe_scores
from sonde.results.scores import Score, read_scores, scores_to_frame

LENS = "my_lens"
HOSTILE = [
    "</script><img src=x>",
    "if",
    "constructor",
    "a;b=c",
    "\x1b[31mred\x00",
    "\ud7ff\u202e",
    "",
    "x" * 500,
]


def row(value: float = 0.5, *dimensions: tuple[str, str], **more: Any) -> Score:
    fields: dict[str, Any] = {
        "model": "org/one", "lens": LENS, "metric": "depth_of_loops", "language": "python", "n": 500,
        "n_clusters": 40, "ci_low": value - 0.1, "ci_high": value + 0.1, "ci_method": "clustered jackknife",
    }  # fmt: skip
    return Score(value=value, dimensions=dimensions, **(fields | more))


def run_of(root: Path, scores: Sequence[Score]) -> Path:
    """A finished run that has nothing but scores."""
    root.mkdir(exist_ok=True)
    models = [{"name": name} for name in dict.fromkeys(score.model for score in scores)]
    summary = {"models": models, "corpus": [{"name": "local:src", "language": "python"}]}
    (root / "run.json").write_text(json.dumps(summary), encoding="utf-8")
    scores_to_frame(scores).write_parquet(root / "scores.parquet")
    return root


def page_of(root: Path, scores: Sequence[Score]) -> str:
    """The page; every chart and drawing of it could be drawn."""
    failed: list[str] = []
    page = write_report(run_of(root, scores), failed.append, figures=True)
    assert failed == []
    return page.read_text(encoding="utf-8")


def section_of(root: Path, lens: str = LENS) -> Section:
    section = build_section(RunData(root), f"numbers_{lens}")
    assert section is not None
    for chart in section.figure.charts:
        validate_jsonschema({**chart.spec, "width": 400}, load_schema())
    return section


def values_of(section: Section) -> list[dict[str, Any]]:
    return list(section.figure.charts[0].spec["data"]["values"])


WITH_CONTROL = [
    row(3.21, ci_low=3.05, ci_high=3.4),
    row(5.1, ci_low=4.9, ci_high=5.3, control="random_weights"),
    *(row(3.0 + place, ("depth", str(place))) for place in (10, 9, 2)),
    row(4.5, ("depth", "2"), control="random_weights"),
]
SENTENCE = (
    "depth of loops is 3.21 [3.05, 3.40], over 500 observations from 40 clusters; "
    "control random weights 5.10 [4.90, 5.30]; a verdict is allowed"
)


def test_page_terminal_and_notebook_say_the_same_sentence(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run", WITH_CONTROL)
    top = page.partition('<h2 id="measured">')[0]
    assert "<h1>Depth of loops of one on Python: 3.21</h1>" in top
    assert f"one on Python: {SENTENCE}." in top
    assert "This run holds no score yet" not in page
    assert list(describe_scores(read_scores(tmp_path / "run" / "scores.parquet"))) == [
        "", "my lens:", f"  org/one on Python: {SENTENCE}",
    ]  # fmt: skip
    shown = Run(tmp_path / "run")._repr_html_()
    assert SENTENCE in shown
    assert "data:image/svg+xml" in shown


def test_every_number_stands_in_the_table_beside_its_control(tmp_path: Path) -> None:
    section = section_of(run_of(tmp_path / "run", WITH_CONTROL))
    table = section.figure.table
    assert table is not None
    assert table.titles == [
        "Metric",
        "Depth",
        "Value",
        "95 % interval",
        "Observations",
        "Clusters",
        "Control",
    ]
    texts = table.texts()
    assert len(texts) == 4
    assert texts[0][1:] == ["", "3.21", "[3.05, 3.40]", "500", "40", "random weights 5.10 [4.90, 5.30]"]
    assert texts[1][-1] == ""
    assert texts[3][-1] == "random weights 4.50 [4.40, 4.60]"
    # Values that are numbers are in their order, and the control is a mark.
    layers = section.figure.charts[0].spec["layer"]
    assert section.figure.charts[0].title == "Depth of loops by depth"
    by_rank = {one["rank_0"]: one for one in values_of(section)}
    assert [by_rank[place]["name"] for place in range(3)] == ["2", "9", "10"]
    assert by_rank[0]["control"] == 4.5
    assert {layer["mark"]["type"] for layer in layers} == {"rule", "tick", "point"}


def test_without_controls_there_is_no_column_for_them(tmp_path: Path) -> None:
    root = run_of(tmp_path / "run", [row(), row(0.7, ("tag", "a")), row(0.2, ("tag", "b"))])
    table = section_of(root).figure.table
    assert table is not None
    assert "Control" not in table.titles
    assert "control" not in next(iter(list(describe_scores(read_scores(root / "scores.parquet")))[2:]))


def test_the_metric_with_an_interval_and_a_control_speaks(tmp_path: Path) -> None:
    scores = [
        row(90.0, metric="items", ci_low=None, ci_high=None),
        row(0.2, metric="plain"),
        row(1200.0, metric="told", ci_low=1100.0, ci_high=1300.0),
        row(1500.0, metric="told", ci_low=1400.0, ci_high=1600.0, control="offset"),
        row(0.00321, metric="tiny", ci_low=0.003, ci_high=0.004),
    ]
    page = page_of(tmp_path / "run", scores)
    assert "<h1>Told of one on Python: 1,200</h1>" in page
    # Each number has the decimals of its size.
    assert "0.00321" in page and "[0.00300, 0.00400]" in page
    # What is over everything speaks before what is over a part, whether or not a control is beside it.
    parts = [row(0.9, ("tag", "a")), row(0.1, ("tag", "a"), control="chance")]
    assert "of one on Python: 0.500</h1>" in page_of(tmp_path / "parts", [*parts, row(0.5)])


def test_hundreds_of_values_are_cut_and_it_is_said(tmp_path: Path) -> None:
    many = [row(place / 400, ("name", f"v{place}"), n=1000 - place) for place in range(400)]
    page = page_of(tmp_path / "run", [row(), *many])
    section = section_of(tmp_path / "run")
    assert {one["name"] for one in values_of(section)} == {f"v{place}" for place in range(MAX_VALUES)}
    assert f"The chart shows the {MAX_VALUES} values with the most observations, of 400." in page


def test_more_rows_and_dimensions_than_a_page_holds(tmp_path: Path) -> None:
    wide = row(0.1, *((f"d{place}", "x") for place in range(DIMENSIONS + 2)))
    scores = [wide, *(row(0.5, ("name", str(place))) for place in range(TABLE_ROWS + 5))]
    table = section_of(run_of(tmp_path / "run", scores)).figure.table
    assert table is not None
    assert len(table.rows) == TABLE_ROWS
    assert table.summary.startswith(f"The first {TABLE_ROWS:,} of {TABLE_ROWS + 6:,} numbers")
    assert "Further dimensions" in table.titles


def test_models_and_languages_have_an_answer_each(tmp_path: Path) -> None:
    scores = [
        row(value, *by, model=model, language=language)
        for model, value in (("org/one", 0.3), ("org/two", 0.6))
        for language in ("python", "java")
        for by in ((), (("tag", "a"),), (("tag", "b"),))
    ]
    page = page_of(tmp_path / "run", scores)
    top = page.partition('<h2 id="measured">')[0]
    assert "<h1>Depth of loops of 2 models on 2 languages</h1>" in top
    for who in ("one on Python", "two on Java"):
        assert f"<li>{who}: depth of loops is" in top
    assert "no paired test" in top
    section = section_of(tmp_path / "run")
    assert {one["model"] for one in values_of(section)} == {"one", "two"}
    assert all("\u00b7" in one["name"] for one in values_of(section))


def test_layers_are_an_axis_and_no_best_one_is_chosen(tmp_path: Path) -> None:
    scores = [
        row(0.2 + layer / 10, layer=layer, control=control)
        for layer in range(5)
        for control in (None, "random_weights")
    ]
    page = page_of(tmp_path / "run", scores)
    said = (
        "has 5 values, over 500 observations each. Of the 5 values, layer 4 (0.600 [0.500, 0.700]), layer 3 "
        "(0.500 [0.400, 0.600]) and layer 2 (0.400 [0.300, 0.500]) cannot be told apart at the top; layer 0 "
    )
    assert said in page
    spec = section_of(tmp_path / "run").figure.charts[0].spec
    assert spec["layer"][1]["mark"]["type"] == "line"
    heads = [row(0.1 * head + 0.2 * layer, layer=layer, head=head) for layer in range(3) for head in range(3)]
    page_of(tmp_path / "heads", heads)
    named = {one["name"] for one in values_of(section_of(tmp_path / "heads"))}
    assert "layer 2, head 1" in named


def test_a_control_without_layers_stands_beside_every_layer(tmp_path: Path) -> None:
    scores = [*(row(0.2 + layer / 10, layer=layer) for layer in range(3)), row(0.15, control="majority")]
    root = run_of(tmp_path / "run", scores)
    assert [one["control"] for one in values_of(section_of(root))] == [0.15] * 3
    assert "control majority 0.150 [0.050, 0.250]" in next(
        iter(list(describe_scores(read_scores(root / "scores.parquet")))[2:])
    )


def test_text_that_attacks_page_and_terminal(tmp_path: Path) -> None:
    scores = [row(place / 10, ("t<b>", text)) for place, text in enumerate(HOSTILE)]
    scores += [row(0.5, metric='m"</script>', control="<i>x")]
    page = page_of(tmp_path / "run", [*scores, row(0.4, metric='m"</script>')])
    assert "<img src=x>" not in page and "<i>x" not in page and "t<b>" not in page
    assert "\x1b" not in page
    lines = "\n".join(describe_scores(read_scores(tmp_path / "run" / "scores.parquet")))
    assert lines.replace("\n", "").isprintable()


@pytest.mark.parametrize("lens", ["numbers", "my lens</b>", "..", "ünï"])
def test_names_of_lenses_that_are_odd(tmp_path: Path, lens: str) -> None:
    page = page_of(tmp_path / "run", [row(lens=lens), row(0.6, ("a", "1"), lens=lens)])
    assert "my lens</b>" not in page
    assert list((tmp_path / "run").rglob("*.csv"))
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


def test_rows_that_allow_no_verdict(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run", [row(n_clusters=2), row(0.2, ("a", "1"), ci_low=None, ci_high=None)])
    mark = '<abbr title="too little data for a verdict: fewer than 10 effective clusters">†</abbr>'
    assert f"from 2 clusters; too little data {mark}" in page
    assert page.count("Too little data for a verdict: † fewer than 10 effective clusters.") == 1
    assert "None rests on enough independent code" in page


def test_many_controls_are_counted_and_controls_alone_are_no_finding(tmp_path: Path) -> None:
    controls = [row(place / 10, control=f"kind_{place}") for place in range(6)]
    page = page_of(tmp_path / "many", [row(), *controls])
    assert "control kind 3 0.300 [0.200, 0.400] and 2 further controls in the table; a verdict" in page
    page = page_of(tmp_path / "alone", controls)
    assert "My lens: every number" in page and "of kind 5" in page
    assert list(describe_scores(read_scores(tmp_path / "alone" / "scores.parquet"))) == []


def test_one_row_is_a_page(tmp_path: Path) -> None:
    page = page_of(tmp_path / "run", [row()])
    assert "<h1>Depth of loops of one on Python: 0.500</h1>" in page
    assert [one["name"] for one in values_of(section_of(tmp_path / "run"))] == ["everything"]


def test_what_is_no_number_is_left_out_and_said_where_nothing_else_is_there(tmp_path: Path) -> None:
    nan, endless = float("nan"), float("inf")
    page = page_of(tmp_path / "some", [row(nan), row(endless), row(0.5, ("a", "1"), ci_low=nan)])
    assert "0.500" in page
    page = page_of(tmp_path / "none", [row(nan)])
    assert "Lens my lens scored, and none of its rows holds a number" in page
    assert list(describe_scores(read_scores(tmp_path / "none" / "scores.parquet"))) == []


def test_a_lens_of_sondes_own_has_the_same_where_its_sections_show_nothing(tmp_path: Path) -> None:
    page = page_of(
        tmp_path / "run", [row(lens="probe", metric="odd"), row(lens="attention", metric="strange")]
    )
    assert "Probe: every number" in page and "Attention: every number" in page
    lines = list(describe_scores(read_scores(tmp_path / "run" / "scores.parquet")))
    assert "attention:" in lines
