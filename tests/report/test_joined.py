"""Constructs over lenses: what is put into one row, what it is compared with, and what may be concluded."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report.synthetic import dims

import sonde
from sonde.base.errors import InputError
from sonde.report import RunData, build_section, save_figures, write_report
from sonde.results.scores import Score, scores_to_frame

BASE = Score(
    model="org/m", lens="", language="python", metric="", value=0.0, n=900, n_clusters=40,
    effective_clusters=30.0, split="test",
)  # fmt: skip


def about(lens: str, metric: str, value: float, half: float = 0.05, n: int = 900, **more: object) -> Score:
    ends = {"ci_low": value - half, "ci_high": value + half}
    return dataclasses.replace(BASE, lens=lens, metric=metric, value=value, n=n, **ends, **more)  # type: ignore[arg-type]


def bits(construct: str, value: float) -> Score:
    return about("surprisal", "bits", value, dimensions=dims(construct=construct))


def head(relation: str, value: float, ahead: float, n: int = 900) -> list[Score]:
    of = {"k": 1, "task": "syntax_relations", "side": "decoder", "dimensions": dims(relation=relation)}
    return [
        about("attention", "first_hit", value, n=n, **of),
        about("attention", "first_hit", value - ahead, n=n, control="offset", **of),
        about("attention", "first_hit_gain", ahead, n=n, compared_to="offset", **of),
    ]


def told(gold: str, predicted: str, value: float) -> Score:
    return about(
        "probe",
        "confusion",
        value,
        task="ktx",
        pooling="span",
        dimensions=dims(gold=gold, predicted=predicted),
    )


SCORES = [
    about("surprisal", "bits", 3.0),
    about("surprisal", "bits_per_byte", 1.0),
    bits("call", 5.0), bits("loop", 1.0), bits("assignment", 4.0), bits("string", 9.0),
    *head("Call:func->args", 0.8, 0.2),
    *head("For:for->body", 0.6, 0.2, n=50), *head("For:for->iter", 0.3, -0.2),
    *head("Assign:target->value", 0.7, 0.2),
    *head("children:parent->child", 0.7, 0.2, n=9999),
    told("KFC", "KFC", 0.9), told("KFC", "OAS", 0.1), told("OAS", "OAS", 0.8), told("OAS", "KFC", 0.2),
]  # fmt: skip


def run_of(root: Path, scores: Sequence[Score]) -> Path:
    models = [{"name": name} for name in dict.fromkeys(score.model for score in scores)]
    (root / "run.json").write_text(json.dumps({"models": models}), encoding="utf-8")
    scores_to_frame(scores).write_parquet(root / "scores.parquet")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return run_of(tmp_path, SCORES)


def test_a_row_is_a_construct_that_two_lenses_speak_of(root: Path) -> None:
    table = sonde.Run(root).joined
    # Strings are of surprisal alone; neighbours in the tree are of no construct; KFC is loops and branches.
    assert table["Construct"].to_list() == ["assignment", "call", "loop"]
    assert table["Surprisal, bits per subword"].to_list() == [4.0, 5.0, 1.0]
    assert table["Surprisal: against"].to_list() == [3.0, 3.0, 3.0]
    assert table["Surprisal: verdict"].to_list() == ["worse", "worse", "better"]
    assert table["Probe, tokens of a class told, %"].to_list() == pytest.approx([80.0, None, 90.0])
    # One in two classes.
    assert table["Probe: against, %"].to_list() == pytest.approx([50.0, None, 50.0])


def test_of_several_relations_the_one_with_most_edges_stands_there(root: Path) -> None:
    table = sonde.Run(root).joined
    # The better one has fewer edges.
    assert table["Best head: what"].to_list()[2] == "For:for->iter (1 of 2)"
    assert table["Best head, edges found, %"].to_list() == pytest.approx([70.0, 80.0, 30.0])
    assert table["Best head: verdict"].to_list() == ["better", "better", "worse"]
    assert table["Best head: n"].to_list() == [900, 900, 900]


def test_what_is_found_inside_while_the_model_is_unsure_is_said(root: Path) -> None:
    section = build_section(RunData(root), "joined")
    assert section is not None
    figure = section.figure
    assert figure.answer == (
        "m: of 3 constructs that have surprisal and best head or probe, 2 are found inside while the "
        "model is less sure than usual (assignment, call)."
    )
    notes = " ".join(figure.notes)
    assert (
        "m: surprisal and best head 3, surprisal and probe 2, best head and probe 2; with all 3: 2." in notes
    )
    assert "chosen on validation" in notes and "is no test" in section.plot.caption
    named = {record["construct"] for record in figure.charts[0].spec["data"]["values"]}
    assert named == {"assignment", "call", "loop"}
    for chart in figure.charts:
        validate_jsonschema(dict(chart.spec), load_schema())


def test_without_enough_clusters_nothing_is_found_inside(tmp_path: Path) -> None:
    few = [dataclasses.replace(score, effective_clusters=5.0) for score in SCORES]
    table = sonde.Run(run_of(tmp_path, few)).joined
    assert table["Inside, yet unsure"].null_count() == table.height
    assert set(table["Best head: verdict"]) == {"too little data"}


def test_page_and_figures_hold_it_and_one_lens_alone_has_none(root: Path, tmp_path: Path) -> None:
    page = write_report(root).read_text(encoding="utf-8")
    assert '<section id="joined"' in page and ">Constructs over lenses</h2>" in page
    assert {path.name for path in save_figures(root, ["joined"])} >= {"joined.csv", "joined-attention-m.svg"}
    alone = tmp_path / "alone"
    alone.mkdir()
    run_of(alone, [score for score in SCORES if score.lens == "attention"])
    with pytest.raises(InputError, match="has no data for it"):
        _ = sonde.Run(alone).joined
    assert '<section id="joined"' not in write_report(alone).read_text(encoding="utf-8")
