"""The sections of the probe lens on scores written by hand."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report.synthetic import dims, rewrite_summary, write_run

from sonde.report import PLOTS, RunData, write_report
from sonde.report.card import build_card, format_entry, render_markdown
from sonde.report.export import write_table
from sonde.report.section import Figure
from sonde.report.text import sort_by_family, task_family
from sonde.results.layers import LAYER_DIFFERENCE, LAYER_GAIN
from sonde.results.scores import Score, scores_to_frame
from sonde.results.text_format import Sparkline
from sonde.store.run_folder import RunDirectory

MODELS = {"org/base": 1.0, "org/good": 1.0, "org/poor": 1.0}
ACCURACY = {
    "org/base": {"ktx": 0.50, "cpx": 0.20, "sri": 0.60},
    "org/good": {"ktx": 0.75, "cpx": 0.30, "sri": 0.60},
    "org/poor": {"ktx": 0.40, "cpx": 0.28, "sri": 0.50},
}
BEST_LAYER = {"ktx": 0, "cpx": 2, "sri": 4}
STRUCTURE = ("uuas", "distance_spearman", "depth_spearman")
TREES = ("tree_f1", "tree_precision", "tree_recall", "bracket_f1")
NAMES = sorted(name for name in PLOTS.names() if name.startswith("probe_"))


def row(model: str, task: str, metric: str, value: float, **more: Any) -> Score:
    ends = {"ci_low": value - 0.05, "ci_high": value + 0.05, "ci_method": "clustered jackknife"}
    fields: dict[str, Any] = {
        "pooling": "span" if task == "ktx" else "mean", "split": "test", "language": "python",
        "n": 200, "n_clusters": 30, "l2": 0.1, "method": "linear", **ends,
    }  # fmt: skip
    fields |= more
    return Score(model=model, lens="probe", task=task, metric=metric, value=value, **fields)


def scores_of(model: str, half: float = 0.004) -> list[Score]:
    """Scores of a model, whose accuracies by layer have intervals of this half width."""
    found: list[Score] = []
    for task, accuracy in ACCURACY[model].items():
        best = BEST_LAYER[task]
        found.append(row(model, task, "coverage", 1.0, split="all", n=1000))
        for layer in range(5):
            value = accuracy - 0.02 * abs(layer - best)
            ends = {"ci_low": value - half, "ci_high": value + half}
            found.append(row(model, task, "accuracy", value, layer=layer, **ends))
            found.append(row(model, task, "accuracy", 0.9, layer=layer, split="valid"))
            apart = {"ci_low": value - accuracy - half, "ci_high": value - accuracy + half}
            if layer != best:
                found.append(row(model, task, LAYER_DIFFERENCE, value - accuracy, layer=layer, **apart))
            over = {"control": "length", "ci_low": value - 0.3 - half, "ci_high": value - 0.3 + half}
            found.append(row(model, task, LAYER_GAIN, value - 0.3, layer=layer, **over))
        found.append(row(model, task, "accuracy", accuracy, layer=best, dimensions=dims(selection="best")))
        found.append(
            row(model, task, "accuracy", 0.99, layer=best, dimensions=dims(selection="best"), method="mlp")
        )
        found.append(
            row(model, task, "accuracy", 0.99, layer=best, dimensions=dims(selection="best"), pooling="last")
        )
        for control, value in (("majority", 0.1), ("length", 0.3)):
            found.append(
                row(model, task, "accuracy", value, dimensions=dims(selection="best"), control=control)
            )
        found.append(
            row(
                model,
                task,
                "gain",
                accuracy - 0.3,
                dimensions=dims(selection="best"),
                control="length",
                layer=best,
            )
        )
        for seed in (1, 2):
            where = {
                "dimensions": dims(selection="best", share="0.25"),
                "control": "random_weights",
                "seed": seed,
            }
            found.append(row(model, task, "accuracy", 0.2 + 0.1 * seed, **where))
        where = {"dimensions": dims(selection="best", share="0.25"), "control": "random_weights"}
        found.append(row(model, task, "gain", 0.12, **where))
        found.append(row(model, task, "accuracy", accuracy / 2, dimensions=dims(size="100"), k=100))
        for gold in "ABC" if task == "cpx" else "AB":
            for said in "ABC" if task == "cpx" else "AB":
                share = 0.6 if gold == said else 0.4 if said == "A" else 0.0
                found.append(row(model, task, "confusion", share, dimensions=dims(gold=gold, predicted=said)))
    found.append(
        row(model, "ktx", "selectivity", 0.2, dimensions=dims(selection="best"), control="control_task")
    )
    found.append(row(model, "cpx", "spearman", 0.8, dimensions=dims(selection="best")))
    for layer, value in enumerate((1.5, 1.0, 1.0, 1.0, 1.0)):
        found.append(row(model, "ktx", "compression", value, layer=layer, split="train"))
        found += [row(model, "syntax_tree", metric, 0.2 + 0.05 * layer, layer=layer) for metric in STRUCTURE]
    for metric in STRUCTURE:
        found.append(row(model, "syntax_tree", metric, 0.4, layer=4, dimensions=dims(selection="best")))
        found += [
            row(model, "syntax_tree", metric, 0.3, dimensions=dims(selection="best"), control=control)
            for control in ("neighbours", "random_weights")
        ]
    for metric in TREES:
        best = {"layer": 3, "dimensions": dims(selection="best", rank="32"), "seeds": 5}
        for rank in ("8", "32"):
            found += [
                row(model, "whole_trees", metric, 0.3 + 0.1 * layer, layer=layer, dimensions=dims(rank=rank))
                for layer in range(4)
            ]
        found.append(row(model, "whole_trees", metric, 0.6, **best))
        for control, value in (("token_pairs", 0.5), ("right_branching", 0.1), ("gold_tree", 0.95)):
            at = dims(selection="best")
            found.append(row(model, "whole_trees", metric, value, dimensions=at, control=control))
        found.append(row(model, "whole_trees", f"{metric}_gain", 0.1, control="token_pairs", **best))
        share = {"layer": 2, "dimensions": dims(selection="best", rank="32", share="0.1")}
        found.append(row(model, "whole_trees", metric, 0.4, **share))
        found.append(row(model, "whole_trees", metric, 0.3, control="random_weights", seed=1, **share))
    found.append(row(model, "cpx", "spearman", 0.3, dimensions=dims(selection="best", length="removed")))
    reason = "task 'npt': class '9' has no example in split 'valid'"
    found.append(row(model, "npt", "left_out", 0.0, dimensions=dims(reason=reason), n=0, n_clusters=0))
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models with probes only."""
    folder = write_run(tmp_path_factory.mktemp("runs") / "probe", [], MODELS)
    scores = scores_to_frame(score for model in MODELS for score in scores_of(model))
    scores.write_parquet(RunDirectory(folder).scores)
    rewrite_summary(
        folder, arguments={"models": list(MODELS), "options": {"probe": {"baseline": "org/base"}}}
    )
    return folder


def drawn(root: Path, name: str) -> Figure:
    figure = PLOTS.load(name).draw(RunData(root))
    assert figure is not None
    return figure


def column(figure: Figure, *names: str) -> list[tuple[str, ...]]:
    assert figure.table is not None
    places = [figure.table.titles.index(name) for name in names]
    return [tuple(cells[place].text for place in places) for cells in figure.table.cells()]


@pytest.mark.slow
def test_the_page_holds_every_section_and_its_charts_are_valid(root: Path) -> None:
    page = write_report(root, figures=True).read_text(encoding="utf-8")
    assert all(f'<section id="{name}"' in page for name in NAMES) and len(NAMES) == 9
    charts = [chart for name in NAMES for chart in drawn(root, name).charts]
    assert len({chart.name for chart in charts}) == len(charts) >= 12
    for chart in charts:
        validate_jsonschema(dict(chart.spec), load_schema())
        assert (root / "figures" / f"{chart.name}.svg").is_file()


def test_accuracy_is_that_of_the_headlines_pooling_beside_its_controls(root: Path) -> None:
    figure = drawn(root, "probe_accuracy")
    columns = ("Task", "Model", "Layer", "Accuracy, %", "Best surface", "Gain, points", "Random weights, %")
    assert ("KTX", "good", "0", "75.0", "length", "45.0", "35.0") in column(figure, *columns)
    assert ("KTX", "20.0") in column(figure, "Task", "Selectivity, points")
    assert ("KTX", "good", "last 99.0") in column(figure, "Task", "Model", "Other poolings, %")
    assert ("KTX", "good", "99.0", "1.5") in column(figure, "Task", "Model", "Hidden layer, %", "Compression")
    assert figure.lead == (
        "Probes of base are more accurate than every surface baseline in 2 of 3 tasks probed; less in 1."
    )
    assert "Base: above every surface baseline: KTX, SRI; below one: CPX." in figure.answer
    assert [note for note in figure.notes if "class '9'" in note] == [
        "Left out: task 'npt': class '9' has no example in split 'valid'."
    ]


def test_what_lacks_a_verdict_is_counted_and_folds_are_said(tmp_path: Path) -> None:
    """Of six tasks one stands firm; five rest on four effective clusters each."""
    model, found = "org/base", []
    for at, task in enumerate(("cpx", "csc", "mxn", "npt", "ocu", "vcu")):
        worth = {"n_clusters": 40, "effective_clusters": 35.0 if not at else 4.2}
        crossed = {"k": 5, "fold_layers": (2, 2, 3, 2, 1)}
        best = {"dimensions": dims(selection="best"), "layer": 2, **worth, **crossed}
        found.append(row(model, task, "accuracy", 0.6, **best))
        found.append(
            row(model, task, "accuracy", 0.3, dimensions=dims(selection="best"), control="length", **worth)
        )
        found.append(row(model, task, "gain", 0.3, control="length", **best))
    folder = write_run(tmp_path / "probe", [], {model: 1.0})
    scores_to_frame(found).write_parquet(RunDirectory(folder).scores)
    figure = drawn(folder, "probe_accuracy")
    assert figure.lead == (
        "Probes of base are more accurate than every surface baseline in 1 of 6 tasks probed; "
        "too little data in 5."
    )
    assert (
        "too little data (4.2 effective clusters, a verdict needs 10): CSC 30.0 [25.0, 35.0]" in figure.answer
    )
    assert (
        "Cross-fitted over 5 folds" in figure.notes[0] and "4.2 to 35 effective clusters" in figure.notes[0]
    )
    assert column(figure, "Task", "Layer")[0] == ("CPX", "2 (2 2 3 2 1)")


@pytest.mark.parametrize(
    ("difference", "half", "effective", "outcome"),
    [
        (-0.05, 0.02, 40.0, "less from the states"),
        (0.05, 0.02, 40.0, "more from the states"),
        (0.005, 0.001, 40.0, "differs, by less than matters"),
        (-0.02, 0.05, 40.0, "no difference found"),
        (-0.05, 0.02, 4.0, "too little data"),
    ],
)
@pytest.mark.parametrize("task", ["idn", "ktx", "next_use"])
def test_page_and_card_say_what_the_word_and_its_neighbours_tell(
    tmp_path: Path, task: str, difference: float, half: float, effective: float, outcome: str
) -> None:
    model, best = "org/base", {"dimensions": dims(selection="best"), "effective_clusters": effective}
    found = [row(model, task, "accuracy", 0.92, layer=2, pooling="span", **best)]
    found.append(row(model, task, "accuracy", 0.58, control="surface", pooling="span", **best))
    found.append(row(model, task, "gain", 0.34, control="surface", layer=2, pooling="span", **best))
    folder = write_run(tmp_path / "probe", [], {model: 1.0})
    scores_to_frame(found).write_parquet(RunDirectory(folder).scores)
    (alone,) = build_card(RunData(folder)).headlines
    assert alone.local_cues is None and alone.beside == ""
    plain = drawn(folder, "probe_accuracy")
    assert plain.table is not None and "Word and neighbours, %" not in plain.table.titles

    cues = {"control": "local_cues", "pooling": "span", **best}
    found.append(row(model, task, "accuracy", 0.92 - difference, **cues))
    ends = {"ci_low": difference - half, "ci_high": difference + half, "ci_method": "Fisher's z"}
    found.append(row(model, task, "cues_gain", difference, layer=2, of_metric="accuracy", **cues, **ends))
    scores_to_frame(found).write_parquet(RunDirectory(folder).scores)
    told = f"{92 - 100 * difference:.1f}"
    said = f"read from the states with 92.0 %, from the word and its neighbours with {told} "
    figure = drawn(folder, "probe_accuracy")
    (note,) = [note for note in figure.notes if "neighbours" in note]
    name = plain.table.cells()[0][0].text
    assert note.startswith(f"{name} is {said}") and f"%: {outcome}, " in note
    values = column(figure, "Word and neighbours, %", "Told")
    assert values == [(told, outcome)]
    # What the run answers stays: the card's verdict, and the lead and answer of the section.
    (held,) = build_card(RunData(folder)).headlines
    assert (held.conclusion, held.verdict, held.control) == (alone.conclusion, alone.verdict, alone.control)
    assert (figure.lead, figure.answer) == (plain.lead, plain.answer)
    assert held.local_cues is not None and held.cues_difference is not None
    assert (held.local_cues.control, held.cues_difference.value) == ("local_cues", difference)
    assert held.beside.startswith(said) and f"%: {outcome}, " in held.beside
    assert f"{alone.verdict}; {said}" in render_markdown(build_card(RunData(folder)))
    assert held.beside in format_entry(held)


def test_models_are_ranked_against_a_baseline_as_in_the_paper(root: Path) -> None:
    rows = column(drawn(root, "probe_models"), "Of", "Model", "KTX", "CPX", "SRI")
    assert ("accuracy, %", "good", "75.0", "30.0", "60.0") in rows
    assert ("highest, %", "", "75.0", "30.0", "60.0") in rows
    assert ("rank", "base", "2", "3", "1") in rows and ("rank", "good", "1", "1", "1") in rows
    # (0.75 - 0.5) / (1 - 0.5) and (0.3 - 0.2) / 0.8; poor is below the baseline but in CPX.
    assert ("over the baseline, %", "good", "50.0", "12.5", "0.0") in rows
    assert ("over the baseline, %", "poor", "–", "10.0", "–") in rows
    assert not any(of == "over the baseline, %" and model == "base" for of, model, *_ in rows)
    # Without the baseline: the deviation of 75 and 40.
    assert next(row for row in rows if row[0] == "spread, points")[2] == "24.7"
    answer = drawn(root, "probe_models").answer
    # Of CPX 0.30 and 0.28, of SRI twice 0.60: neither is told apart by intervals of 5 points.
    assert answer == (
        "Of 3 models, surely ahead of all others are good in 1 of 3 tasks; in 2 none is "
        "surely ahead (11.1 points or more would have been found)."
    )


def test_layers_are_told_by_their_account_and_every_one_is_a_row_of_the_table(root: Path) -> None:
    figure = drawn(root, "probe_layers")
    said = "encoded early: KTX (layer 0); encoded late: SRI (layer 4); not encoded beyond its controls: CPX."
    assert (figure.answer or "").splitlines() == [f"{name}: {said}" for name in ("base", "good", "poor")]
    maps, lines = figure.charts[:3], figure.charts[3:]
    assert [chart.name for chart in maps] == [f"probe-layers-org_{name}" for name in ("base", "good", "poor")]
    assert [chart.name for chart in lines] == [f"probe-layer-lines-{name}" for name in ("cpx", "sri", "ktx")]
    assert figure.table is not None
    table = figure.table.frame()
    assert table.height == 3 * 3 * 5
    base = table.filter(pl.col("Task") == "SRI", pl.col("Model") == "base").sort("Layer")
    assert base["Accuracy, %"].to_list() == pytest.approx([52, 54, 56, 58, 60])
    assert base["95 % interval low"].to_list() == pytest.approx([51.6, 53.6, 55.6, 57.6, 59.6])
    assert base["Gain, points"].to_list() == pytest.approx([22, 24, 26, 28, 30])
    assert base["Against the chosen, points"].to_list()[:4] == pytest.approx([-8, -6, -4, -2])
    assert base["Chosen"].to_list() == ["", "", "", "", "yes"]
    assert base["Surely less accurate"].to_list() == ["yes"] * 4 + [""]
    assert base.select("Best surface", "Surface, %", "Examples").unique().rows() == [("length", 30.0, 200)]
    assert set(base["Encoded"]) == {
        "encoded: layer 4, every other layer is surely less accurate (late third)"
    }


def test_a_band_is_drawn_only_of_a_baseline_that_all_models_have(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "probe", [], MODELS)
    scores = scores_to_frame(score for model in MODELS for score in scores_of(model))

    def count_baselines() -> list[int]:
        scores.write_parquet(RunDirectory(folder).scores)
        charts = [chart for chart in drawn(folder, "probe_layers").charts if "lines" in chart.name]
        return [json.dumps(chart.spec).count('"best baseline"') for chart in charts]

    assert all(count_baselines())
    is_other = (
        (pl.col("model") == "org/good")
        & (pl.col("task") == "sri")
        & (pl.col("metric") == "accuracy")
        & (pl.col("control") == "length")
    )
    scores = scores.with_columns(value=pl.when(is_other).then(0.31).otherwise("value"))
    assert [bool(count) for count in count_baselines()] == [True, False, True]


def test_the_name_of_a_task_leads_a_chart_into_no_other_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "probe", [], {"org/base": 1.0})
    scores = scores_to_frame(scores_of("org/base"))
    task = pl.col("task").replace("ktx", "x/../../y")
    scores.with_columns(task=task).write_parquet(RunDirectory(folder).scores)
    names = [chart.name for chart in drawn(folder, "probe_layers").charts]
    assert "probe-layer-lines-x_.._.._y" in names and not any("/" in name for name in names)
    pairs = [
        Score(
            model="org/base", lens="surprisal", task="x/../../y", language="python", metric="preferred",
            value=0.5, ci_low=0.4, ci_high=0.6, n=90, n_clusters=20, dimensions=dims(**part),
        )
        for part in ({}, {"operator": "=="}, {"operator": "!="})
    ]  # fmt: skip
    scores_to_frame(pairs).write_parquet(RunDirectory(folder).scores)
    names = [chart.name for chart in drawn(folder, "minimal_pairs").charts]
    assert names == ["minimal-pairs", "minimal-pairs-x_.._.._y-python-operator"]


def test_what_is_not_encoded_has_no_dots_and_one_colour(root: Path) -> None:
    records = drawn(root, "probe_layers").charts[0].spec["data"]["values"]
    for name, dots in (("KTX", {0: "●"}), ("SRI", {4: "●"}), ("CPX", {})):
        own = [record for record in records if record["name"] == name]
        assert {record["layer"]: record["mark"] for record in own if record["mark"]} == dots
        assert (len({record["value"] for record in own}) == 1) == (not dots)


def test_layers_that_are_not_surely_worse_are_named_with_the_chosen_one(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "probe", [], {"org/base": 1.0})
    for half, said in (
        (
            0.022,
            "Encoded early: KTX (layer 0 of 0 to 1); encoded in more than one third: SRI (layer 4 of 3 to 4)",
        ),
        (
            0.05,
            "Encoded in more than one third: SRI (layer 4 of 1 to 4), KTX (layer 0 of 0 to 3)",
        ),
    ):
        scores_to_frame(scores_of("org/base", half)).write_parquet(RunDirectory(folder).scores)
        figure = drawn(folder, "probe_layers")
        assert figure.answer == f"{said}; not encoded beyond its controls: CPX."
    marks = {
        record["layer"]: record["mark"]
        for record in figure.charts[0].spec["data"]["values"]
        if record["name"] == "SRI"
    }
    assert marks == {0: "", 1: "○", 2: "○", 3: "○", 4: "●"}


def test_ranks_of_layers_are_averaged_over_models_and_over_tasks(root: Path) -> None:
    figure = drawn(root, "probe_ranks")
    titles = ("Of", "Averaged over", "Ranks by layer", "Layers", "Layer 0", "Layer 4")
    assert ("KTX", "models", "█▆▅▃▁", "4", "5.0", "1.0") in column(figure, *titles)


def test_controls_say_what_length_explains(root: Path) -> None:
    figure = drawn(root, "probe_controls")
    assert figure.answer.splitlines()[0] == (
        "base: the rank correlation of CPX is 0.80 [0.75, 0.85] with length and 0.30 [0.25, 0.35] without."
    )
    assert {chart.name for chart in figure.charts} == {
        "probe-gain", "probe-random", "probe-selectivity", "probe-numbers",
        "probe-numbers-without-length",
    }  # fmt: skip


def test_sizes_end_with_all_examples(root: Path) -> None:
    rows = column(drawn(root, "probe_sizes"), "Task", "Model", "Examples", "Accuracy, %")
    assert [row for row in rows if row[:2] == ("CPX", "good")] == [
        ("CPX", "good", "100", "15.0"), ("CPX", "good", "1,000", "30.0"),
    ]  # fmt: skip


def test_matrices_are_for_three_classes_or_more(root: Path) -> None:
    figure = drawn(root, "probe_confusion")
    assert [chart.name for chart in figure.charts] == [
        f"probe-confusion-cpx-org_{m}" for m in ("base", "good", "poor")
    ]
    assert ("CPX", "B", "60.0 [55.0, 65.0]", "A 40.0 [35.0, 45.0]") in column(
        figure, "Task", "Class", "Right, %", "Wrongly predicted as, %"
    )


def test_trees_are_shown_beside_neighbours(root: Path) -> None:
    figure = drawn(root, "probe_structure")
    assert ("good", "links found (UUAS), %", "40.0", "30.0", "30.0") in column(
        figure, "Model", "Measure", "Chosen layer's", "Neighbours", "Random weights"
    )
    assert figure.answer.splitlines()[0].endswith(
        "layer 4, chosen on validation, holds 40.0 [35.0, 45.0] % of the tree's links, more than "
        "a chain of neighbours with 30.0 [25.0, 35.0] %."
    )


def test_whole_trees_are_shown_beside_what_words_and_untrained_weights_give(root: Path) -> None:
    figure = drawn(root, "probe_trees")
    wanted = ("good", "F1 of constituents", "32", "60.0", "50.0", "95.0", "30.0", "40.0")
    titles = (
        "Model",
        "Measure",
        "Rank",
        *(f"{title}, %" for title in ("Chosen layer's", "Token pairs", "Ceiling", "Random weights")),
    )
    assert wanted in column(figure, *titles, "The model there, %")
    assert (
        "trees from layer 3, chosen on validation, have an F1 of 60.0 [55.0, 65.0] %, more than token pairs "
        "with 50.0 [45.0, 55.0] % (difference 10.0 [5.0, 15.0] points)." in figure.answer
    )
    ranks = {value["series"] for value in figure.charts[0].spec["data"]["values"]}
    assert ranks == {"8", "32"}


def test_families_and_sparklines() -> None:
    assert sort_by_family(["cpx", "mine", "len", "sri", "ktx"]) == ["cpx", "len", "sri", "ktx", "mine"]
    assert [task_family(task) for task in ("rea", "vcu", "mine")] == ["faults", "complexity", "other"]
    assert Sparkline().text([1.0, 2.0, 3.0, 2.0]) == "▁▅█▅"


def test_every_table_is_a_file_for_spreadsheets_and_one_for_papers(tmp_path: Path, root: Path) -> None:
    for name in NAMES:
        made = drawn(root, name).table
        assert made is not None
        paths = write_table(tmp_path / name, made)
        assert [path.suffix for path in paths] == [".csv", ".tex"]
        assert (
            len(list(csv.reader(paths[0].read_text(encoding="utf-8").splitlines()))) == len(made.cells()) + 1
        )
        assert json.dumps(paths[1].read_text(encoding="utf-8")).count("toprule") == 1
