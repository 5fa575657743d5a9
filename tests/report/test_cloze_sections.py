"""The sections of the cloze lens on scores and answers written by hand."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report.synthetic import dims, write_run

from sonde.report import PLOTS, RunData
from sonde.report.section import Figure
from sonde.results.schema import Dimensions
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory, slug
from sonde.tasks.engine.cloze_queries import QUERY_SCHEMA, prompt_id

MODELS = {"org/base": 1.0, "org/other": 1.0}
NAMES = sorted(name for name in PLOTS.names() if name.startswith("cloze_"))


_PLAIN: dict[str, Any] = {"matching": None, "k": None}
_CAUSAL: dict[str, Any] = {**_PLAIN, "objective": "causal"}


def row(model: str, where: Dimensions, k: int, value: float, **more: Any) -> Score:
    fields: dict[str, Any] = {
        "language": "python", "n": 300, "n_clusters": 30, "matching": "single", "k": k,
        "ci_low": value - 0.05, "ci_high": value + 0.05, "ci_method": "clustered jackknife",
    }  # fmt: skip
    return Score(
        model=model,
        lens="cloze",
        task="api_cloze",
        metric="p_at_k",
        dimensions=where,
        value=value,
        **{**fields, **more},
    )


def scores_of(model: str, level: float) -> list[Score]:
    found = [
        row(model, dims(template=one), k, level + k / 100) for one in ("call", "import") for k in (1, 10, 50)
    ]
    found += [row(model, dims(template="call"), k, 0.01, control="majority") for k in (1, 10, 50)]
    found.append(row(model, dims(template="call"), 10, 0.99, matching="any"))
    for k in (1, 10):
        found.append(row(model, dims(template="alias"), k, 0.3 + k / 100))
        found.append(row(model, dims(template="adversarial"), k, 0.2 + k / 100))
        found.append(row(model, dims(template="alias-adversarial"), k, 0.02))
        for side, value in (("true", 0.5), ("false", 0.25), ("true-false", 0.25)):
            found.append(row(model, dims(template="call", seen=side), k, value + k / 100))
    for mode in ("full", "first"):
        found.append(row(model, dims(template="call", mode=mode), 10, level))
    found += [row(model, dims(template="call", visible=side), 10, 0.4) for side in ("true", "false")]
    found += [row(model, dims(template="call", library=f"lib{at}"), 10, at / 100) for at in range(30)]
    for side, value in (("with", 0.5), ("without", 0.4), ("with-without", 0.1)):
        found.append(row(model, dims(template="call", words=side), 10, value))
    for frame, value in (("plain", 0.1), ("assigned", 0.2), ("every", 0.15)):
        found.append(row(model, dims(template="call", frame=frame), 10, value))
    for matching, value in (("single", 0.3), ("id", 0.25), ("any", 0.45)):
        found.append(row(model, (), 10, value, matching=matching))
    for side, value in (("new", 0.1), ("kept", 0.4), ("new-kept", -0.3)):
        found.append(row(model, dims(release=side), 10, value))
    found.append(row(model, dims(release="new"), 10, 0.05, control="majority"))
    for side, value in (("with", 0.6), ("without", 0.4), ("with-without", 0.2)):
        found.append(row(model, dims(template="call", imports=side), 10, value))
    for library, value in (("numpy", 0.82), ("polars", 0.31)):
        for metric, where, share, control in (
            ("known_by_use", dims(library=library), value, None),
            ("known_by_use", dims(library=library), 0.04, "majority"),
            ("known_by_use", dims(library=library, decile="1"), 0.9, None),
            ("asked_by_use", dims(library=library), 0.7, None),
            ("names", dims(library=library), 40.0, None),
        ):
            found.append(
                dataclasses.replace(
                    row(model, where, 1, share), matching=None, k=None, metric=metric, control=control
                )
            )
    for metric, where, value, columns in (
        ("p_at_k_sd", dims(template="call"), 0.07, {"k": 10}),
        ("p_at_k_range", dims(template="call"), 0.1, {"k": 10}),
        ("greedy", dims(template="call", mode="whole"), 0.125, _PLAIN),
        ("aliases", dims(names="aliased"), 1.16, _PLAIN),
        ("share_several_aliases", dims(names="aliased"), 0.08, _PLAIN),
        ("answer_overlap", dims(template="call", seen="false"), 0.9759, _PLAIN),
        ("preferred", dims(pair="replacement"), level, {**_CAUSAL, "aggregation": "sum"}),
        ("preferred", dims(pair="replacement"), 0.9, {**_CAUSAL, "aggregation": "mean"}),
        ("preferred", dims(pair="fake_name", form="import"), 0.7, {**_CAUSAL, "aggregation": "sum"}),
        ("preferred", dims(pair="fake_name"), 0.6, {**_CAUSAL, "aggregation": "sum"}),
        ("margin", dims(pair="replacement"), -1.5, {**_CAUSAL, "aggregation": "sum"}),
        ("preferred", dims(template="clozetest", word="max"), 0.75, _PLAIN),
        ("preferred", dims(template="clozetest", word="min"), 0.25, _PLAIN),
    ):
        found.append(dataclasses.replace(row(model, where, 1, value), metric=metric, **columns))
    for word in ("max", "min"):
        at_random = row(model, dims(template="clozetest", word=word), 1, 0.5, control="chance")
        found.append(dataclasses.replace(at_random, metric="preferred", **_PLAIN))
    control = row(model, dims(pair="replacement"), 1, 0.55, control="length")
    found.append(dataclasses.replace(control, metric="preferred", **_CAUSAL))
    return found


def write(folder: Path, queries: list[dict[str, Any]], answers: list[dict[str, Any]]) -> None:
    """Queries and what every model answers to them."""
    plain = {
        "template": "call", "mode": "full", "suffix": "(", "level": 1, "levels": 2, "language": "python",
        "context": "", "frame": "", "candidates": [], "paths": [],
    }  # fmt: skip
    names = ["query_id", "prefix", "answer", "calls", *plain]
    schema = {name: QUERY_SCHEMA[name] for name in names}
    labels = folder / "labels" / "task=api_cloze"
    labels.mkdir(parents=True)
    rows = [{**plain, **one} for one in queries]
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(labels / "python-x.parquet")
    schema = {
        "item_id": pl.String, "query_id": pl.String, "rank": pl.Int32, "top": pl.List(pl.String),
        "top_nats": pl.List(pl.Float32), "nats": pl.Float64,
    }  # fmt: skip
    for model in MODELS:
        place = folder / "observations" / "lens=cloze" / f"model={slug(model)}"
        place.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(answers, schema=schema, orient="row").write_parquet(place / "a.parquet")


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    folder = write_run(tmp_path_factory.mktemp("runs") / "cloze", [], MODELS)
    scores = [score for at, model in enumerate(MODELS) for score in scores_of(model, 0.2 + 0.1 * at)]
    scores_to_frame(scores).write_parquet(RunDirectory(folder).scores)
    write(
        folder,
        [
            {"query_id": "q0", "prefix": "np.", "answer": "ones", "calls": 5},
            {"query_id": "q1", "prefix": "from a import ", "answer": "b", "suffix": "", "calls": 9}
            | {"template": "import"},
            {"query_id": "q2", "prefix": "os.", "answer": "path", "calls": 7},
            {"query_id": "q3", "prefix": "x = os.", "answer": "path", "calls": 7, "frame": "assigned"},
        ],
        [
            {"query_id": "q0", "rank": 3, "top": ["zeros", " x", "ones"], "top_nats": [0.6931472, 2.0, 3.0]},
            {"query_id": "q1", "rank": 2, "top": ["c"], "top_nats": [1.0]},
            {"query_id": "q2", "rank": 1, "top": ["path"], "top_nats": [0.1]},
            {"query_id": "q3", "rank": 1, "top": ["path"], "top_nats": [0.1]},
        ],
    )
    return RunData(folder)


def drawn(run: RunData, name: str) -> Figure:
    figure = PLOTS.load(name).draw(run)
    assert figure is not None
    return figure


@pytest.mark.parametrize("name", NAMES)
def test_charts_are_valid(run: RunData, name: str) -> None:
    for chart in drawn(run, name).charts:
        validate_jsonschema({**chart.spec, "$schema": "s"}, load_schema())


def cells_of(figure: Figure) -> list[list[str]]:
    assert figure.table is not None
    return [[cell.text for cell in line] for line in figure.table.cells()]


def test_curves_hold_the_model_and_its_controls(run: RunData) -> None:
    figure = drawn(run, "cloze_curves")
    assert figure.table is not None
    assert figure.table.titles[3:6] == ["P@1, %", "P@10, %", "P@50, %"]
    cells = cells_of(figure)
    base = next(line for line in cells if line[:3] == ["calls", "base", "model"])
    assert base[3:5] == ["21.0 ±5.0", "30.0 ±5.0"]
    assert ["calls", "base", "most frequent answers"] in [line[:3] for line in cells]
    assert figure.lead == (
        "In calls, where the right left-out subtoken is among the first 10 answers: of the 2 models, other "
        "(40.0 [35.0, 45.0] % of cases) is right most often."
    )
    assert (
        "base: right at once in calls 21.0 [16.0, 26.0] % (most frequent answers: 1.0 [−4.0, 6.0] %)"
        in figure.answer
    )


def test_aliases_stand_in_pairs(run: RunData) -> None:
    figure = drawn(run, "cloze_aliases")
    assert (
        "in more or fewer of the cloze queries than under a wrong one: "
        "2.0 [−3.0, 7.0] percentage points." in figure.answer
    )
    assert "1.16 of them on average, and 8.0 % have several (300 names in Python)" in figure.answer
    assert [line[:2] for line in cells_of(figure) if line[0] == "base"] == [
        ["base", "right alias"],
        ["base", "alias of another module"],
        ["base", "difference, paired"],
    ]
    assert [chart.name for chart in figure.charts] == ["cloze-alias", "cloze-alias-paired"]


def test_seen_libraries_stand_beside_unseen_ones(run: RunData) -> None:
    figure = drawn(run, "cloze_seen")
    base = [line for line in cells_of(figure) if line[1] == "base"]
    assert [line[2] for line in base] == ["seen", "unseen", "difference"]
    assert [line[4].partition(" ")[0] for line in base] == ["60.0", "35.0", "35.0"]
    assert (
        "base: of the 300 distinct answers to calls of unseen libraries, 97.6 [92.6, 102.6] % are"
        in figure.answer
    )


def test_ways_of_counting_stand_side_by_side(run: RunData) -> None:
    cells = [line[:5] for line in cells_of(drawn(run, "cloze_matching"))]
    assert ["base", "calls and imports", "any right answer", "P@10, %", "45.0"] in cells
    assert ["base", "calls", "any right answer", "P@10, %", "99.0"] in cells
    assert ["base", "calls, whole", "", "every subtoken first, %", "12.5"] in cells


def test_frames_and_words_are_told_with_their_spread(run: RunData) -> None:
    figure = drawn(run, "cloze_frames")
    cells = [line[:3] for line in cells_of(figure) if line[1] == "base"]
    assert ["calls", "base", "assigned"] in cells and ["calls", "base", "mean over all"] in cells
    assert ["calls", "base", "difference, paired"] in cells
    assert "a standard deviation of 7.0 [2.0, 12.0] and a range of 10.0" in figure.answer
    assert "base: after words, calls are answered among the first ten in 10.0 [5.0, 15.0]" in figure.answer
    assert {chart.name for chart in figure.charts} == {"cloze-frames-call", "cloze-words-call"}


def test_preferred_words_are_listed(run: RunData) -> None:
    figure = drawn(run, "cloze_words")
    said = "of the 2 words of ClozeTest, “max” (75.0 [70.0, 80.0] %) is preferred most often."
    assert figure.lead == f"base: {said} other: {said}"
    cells = [[line[0], *line[2:5]] for line in cells_of(figure)]
    assert ["base", "max", "50.0", "75.0"] in cells and ["other", "min", "50.0", "25.0"] in cells


def test_cuts_show_the_best_and_the_least_known_libraries(run: RunData) -> None:
    figure = drawn(run, "cloze_cuts")
    libraries = next(chart for chart in figure.charts if chart.name == "cloze-by-library")
    data = libraries.spec.get("data") or libraries.spec["layer"][0]["data"]
    names = {value["name"] for value in data["values"]}
    assert names == {f"lib{at}" for at in (*range(10), *range(20, 30))}
    cells = cells_of(figure)
    assert {line[2] for line in cells if line[1].startswith("Answer occurs")} == {"yes", "no"}
    assert {line[1] for line in cells} == {
        "Masked subtoken",
        "Library",
        "Answer occurs elsewhere in the statement",
    }
    assert sum(line[1] == "Library" for line in cells) == 60


def test_wrong_answers_come_first_and_the_most_called_before(run: RunData) -> None:
    figure = drawn(run, "cloze_answers")
    mine = [line for line in cells_of(figure) if line[0] == "base"]
    # The framed query repeats another and is not shown.
    assert [line[2] for line in mine] == ["from a import [?]", "np.[?](", "os.[?]("]
    assert mine[1][3:6] == ["ones", "zeros 0.50, ␣x 0.14, ones 0.05", "3"]
    assert figure.embed is not None
    queries = figure.embed.data["queries"]
    assert [one["rank"] for one in queries if one["model"] == 1] == [2, 3, 1]
    assert [right for _, _, right in queries[1]["top"]] == [False, False, True]
    assert figure.embed.context["models"] == ["base", "other"]


def test_candidates_are_shown_with_their_share(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "whole", [], MODELS)
    queries = [
        {"query_id": f"q{at}", "prefix": f"m{at}.", "answer": "f", "calls": 3, "candidates": ["f", "g", "h"]}
        for at in range(2)
    ]
    nats = {"m0.f(": 2.0, "m0.g(": 1.0, "m0.h(": 4.0, "m1.f(": 1.0, "m1.g(": 2.0}
    write(
        folder,
        queries,
        [{"item_id": prompt_id(text, "python"), "nats": value} for text, value in nats.items()],
    )
    figure = PLOTS.load("cloze_answers").draw(RunData(folder))
    assert figure is not None and figure.embed is not None
    # The second query lacks a statement.
    (one,) = (query for query in figure.embed.data["queries"] if query["model"] == 0)
    weights = [math.exp(-value) for value in (1.0, 2.0, 4.0)]
    assert [text for text, _, _ in one["top"]] == ["g", "f", "h"]
    assert [share for _, share, _ in one["top"]] == pytest.approx(
        [weight / sum(weights) for weight in weights], abs=1e-4
    )
    assert (one["rank"], one["competing"]) == (2, 3)
    assert [right for _, _, right in one["top"]] == [False, True, False]


def test_a_run_without_names_shows_nothing(tmp_path: Path) -> None:
    run = RunData(write_run(tmp_path / "empty", [], {"m": 1.0}))
    assert [PLOTS.load(name).draw(run) for name in NAMES] == [None] * len(NAMES)


def test_pairs_stand_beside_their_controls(run: RunData) -> None:
    figure = drawn(run, "cloze_margins")
    assert figure.table is not None
    cells = [[cell.text for cell in line[:5]] for line in figure.table.cells()]
    assert ["base", "replacement against deprecated", "all", "model", "20.0"] in cells
    assert ["base", "replacement against deprecated", "all", "shorter statement", "55.0"] in cells
    assert ["base", "name against a made-up one", "import", "model", "70.0"] in cells
    assert not any("90.0" in line for line in cells)
    assert "other prefers the replacement to the deprecated name in 30.0 [25.0, 35.0] %" in figure.answer


def test_a_run_ranked_among_what_models_share_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "shared", [], MODELS)
    scores = [row("org/base", dims(template="call"), k, 0.4, matching="unified") for k in (1, 10)]
    scores_to_frame(scores).write_parquet(RunDirectory(folder).scores)
    figure = PLOTS.load("cloze_curves").draw(RunData(folder))
    assert figure is not None
    assert [line[:4] for line in cells_of(figure)] == [["calls", "base", "model", "40.0 ±5.0"]]


def test_libraries_are_said_by_how_much_of_their_use_is_known(run: RunData) -> None:
    figure = drawn(run, "cloze_libraries")
    assert "numpy 82" in figure.answer and "polars 31" in figure.answer
    assert figure.table is not None
    first = figure.table.rows[0]
    assert (first["library"], first["asked"], first["names"]) == ("numpy", 0.7, 40)
    assert (first["tenths"], first["control_said"]) == ({"1": 0.9}, "most frequent answers 4.0 [−1.0, 9.0]")
    assert any("cloze.objective=answers includes them" in note for note in figure.notes)


def test_new_names_of_a_release_stand_beside_kept_ones(run: RunData) -> None:
    figure = drawn(run, "cloze_release")
    assert "in 30.0 [25.0, 35.0] percentage points fewer of the cloze queries" in figure.answer
    assert figure.table is not None
    assert {row["side"] for row in figure.table.rows} == {"new", "kept", "new-kept"}
    assert "after the imports of their file" in drawn(run, "cloze_frames").answer
