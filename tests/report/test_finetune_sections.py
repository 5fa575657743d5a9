"""The section of the fine-tuning lens on scores written by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from altair.utils.schemapi import validate_jsonschema
from altair.vegalite.v6.schema.core import load_schema
from tests.report.synthetic import dims, write_run

from sonde.report import PLOTS, RunData, write_report
from sonde.report.section import Figure
from sonde.results.scores import Score, scores_to_frame
from sonde.store.run_folder import RunDirectory

MODELS = {"org/one": 1.0}
SHARES = {
    "wrong_operator": {"accuracy": {None: 0.8, "scratch": 0.6, "bag_of_tokens": 0.55}},
    "swapped_operand": {"accuracy": {None: 0.5, "scratch": 0.7, "bag_of_tokens": 0.5}},
    "misuse_repair": {
        "accuracy": {None: 0.9, "scratch": 0.2},
        "classification": {None: 0.9, "scratch": 0.6, "bag_of_tokens": 0.5},
        "localisation_repair": {None: 0.42, "scratch": 0.4},
    },
}


def row(task: str, metric: str, value: float, **more: Any) -> Score:
    ends = {"ci_low": value - 0.05, "ci_high": value + 0.05, "ci_method": "clustered jackknife"}
    fields: dict[str, Any] = {"split": "test", "language": "python", "n": 400, "n_clusters": 30, **ends}
    return Score(model="org/one", lens="finetune", task=task, metric=metric, value=value, **(fields | more))


def scores(*, few: bool = False) -> list[Score]:
    found: list[Score] = []
    many: dict[str, Any] = {"n_clusters": 4, "effective_clusters": 3.0} if few else {}
    for task, metrics in SHARES.items():
        for metric, methods in metrics.items():
            for control, value in methods.items():
                found.append(row(task, metric, value, control=control))
                found.append(row(task, metric, 0.01, control=control, dimensions=dims(seed="1")))
                if control is not None:
                    difference = methods[None] - value
                    found.append(row(task, "gain", difference, control=control, of_metric=metric, **many))
        for epoch in (1, 2):
            at = {"k": epoch, "dimensions": dims(epoch=str(epoch)), "split": "valid"}
            found.append(row(task, "valid", 0.3 * epoch, **at))
            found.append(row(task, "valid", 0.2 * epoch, control="scratch", **at))
            found.append(row(task, "loss", 1 / epoch, **at))
        for control in (None, "scratch"):
            chosen = {"learning_rate": 2e-4, "batch": 32, "epochs": 2, "best_epoch": 2}
            for metric, value in {**chosen, "best_at_end": 1, "rate_at_edge": int(control is None)}.items():
                found.append(row(task, metric, value, split="valid", control=control))
        found.append(row(task, "truncated", 0.125))
    return found


def drawn(folder: Path, listed: list[Score]) -> Figure | None:
    root = write_run(folder, [], MODELS)
    scores_to_frame(listed).write_parquet(RunDirectory(root).scores)
    return PLOTS.load("finetune_summary").draw(RunData(root))


@pytest.fixture(scope="module")
def figure(tmp_path_factory: pytest.TempPathFactory) -> Figure:
    found = drawn(tmp_path_factory.mktemp("runs") / "finetune", scores())
    assert found is not None
    return found


def test_the_verdict_counts_tasks_beyond_the_interval(figure: Figure) -> None:
    """Of the pointer it is errors located and repaired that count, which here are level."""
    assert figure.lead == (
        "Pre-training helps beyond the interval in 1 of 3 fine-tuned tasks and hurts in 1; "
        "no difference found in 1 (7.1 points or more would have been found)."
    )


def test_every_arm_stands_beside_the_model_with_the_difference(figure: Figure) -> None:
    assert figure.table is not None
    cells = {tuple(cell.text for cell in line[:3]): line for line in figure.table.cells()}
    bag = cells["wrong operator", "right", "bag of tokens"]
    assert bag[3].text == "55.0"
    assert bag[6].text == "25.0"
    assert cells["wrong operator", "right", "pre-trained"][5].text == "–"
    assert len(cells) == 3 + 3 + 2 + 3 + 2
    assert "wrong operator, right: pre-trained minus from scratch 20.0 [15.0, 25.0] points." in figure.answer
    assert any(note.startswith("wrong operator: 12.5 % of the test examples") for note in figure.notes)


def with_seeds(seeds: int | None, shown: int) -> list[Score]:
    """Scores of one task trained from some seeds, of which some are shown one by one."""
    listed = [
        dataclasses.replace(one, seeds=seeds) if one.metric == "gain" else one
        for one in scores()
        if not one.dimensions and one.task == "wrong_operator"
    ]
    methods = [(0.5, 0.52), (0.64, 0.5), (0.51, 0.49), (0.5, 0.5), (0.5, 0.5)][:shown]
    for seed, (own, scratch) in enumerate(methods):
        for control, value in ((None, own), ("scratch", scratch), ("bag_of_tokens", 0.5)):
            at: dict[str, Any] = {"control": control, "seed": seed, "dimensions": dims(seed=str(seed))}
            listed.append(row("wrong_operator", "accuracy", value, **at))
            listed.append(
                row(
                    "wrong_operator",
                    "accuracy",
                    0.9,
                    **(at | {"dimensions": dims(length="64", seed=str(seed))}),
                )
            )
            same = 1.0 if (control, seed) == ("scratch", 1) else 0.7
            listed.append(row("wrong_operator", "commonest_answer", same, **at))
    return listed


def test_seeds_are_shown_one_by_one_with_what_the_intervals_hold(tmp_path: Path) -> None:
    head = "wrong operator, right, by seed: pre-trained 50.0, 64.0, 51.0 %; from scratch 52.0, 50.0, 49.0 %. "
    for seeds, shown, expected in (
        (
            3,
            3,
            head + "The intervals hold what varies between seeds and between clusters of code; below 5 "
            "seeds there is no verdict.",
        ),
        (None, 3, head + "The intervals are over clusters of code, not over seeds."),
        (
            1,
            0,
            "wrong operator: trained from one seed. The intervals cover clusters of code and not the "
            "variation between seeds, and there is no verdict below 5 seeds "
            "(--option finetune.seeds=5).",
        ),
    ):
        figure = drawn(tmp_path / f"run{seeds}", with_seeds(seeds, shown))
        assert figure is not None
        assert figure.notes[0] == expected
        allowed = seeds is None
        assert figure.lead.startswith(
            "Pre-training helps" if allowed else "Too little data on 1 fine-tuned task"
        )
        assert ("a verdict needs 5" in figure.lead) == (not allowed)
    figure = drawn(tmp_path / "many", with_seeds(5, 5))
    assert figure is not None
    assert figure.notes[0].endswith("between seeds and between clusters of code.")
    assert figure.lead.startswith("Pre-training helps beyond the interval in 1 of 1 fine-tuned task")
    assert any("this checkpoint, not about pre-training" in note for note in figure.notes)
    assert [note for note in figure.notes if "collapsed" in note] == [
        "wrong operator, from scratch, seed 1: 100.0 % of the answers are the same; this training collapsed."
    ]


def test_charts_are_valid_and_the_page_holds_them(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", [], MODELS)
    scores_to_frame(scores()).write_parquet(RunDirectory(root).scores)
    figure = PLOTS.load("finetune_summary").draw(RunData(root))
    assert figure is not None
    names = {chart.name for chart in figure.charts}
    assert names == {f"finetune-{name}" for name in ("accuracy", "classification", "localisation_repair")}
    course = PLOTS.load("finetune_course").draw(RunData(root))
    assert course is not None
    assert {chart.name for chart in course.charts} == {
        f"finetune-course-{task.replace('_', '-')}-{metric}"
        for task in SHARES
        for metric in ("valid", "loss")
    }
    for chart in (*figure.charts, *course.charts):
        validate_jsonschema(dict(chart.spec), load_schema())
    assert '<section id="finetune_summary"' in write_report(root).read_text(encoding="utf-8")


def test_too_few_clusters_give_no_verdict(tmp_path: Path) -> None:
    figure = drawn(tmp_path / "run", scores(few=True))
    assert figure is not None
    why = "3 effective clusters, a verdict needs 10"
    assert figure.lead.startswith(f"Too little data on 3 fine-tuned tasks ({why}): ")
    assert figure.lead.endswith(" points over scratch.")
    assert " points †." in figure.answer


def test_a_run_without_the_lens_has_no_section(tmp_path: Path) -> None:
    assert drawn(tmp_path / "run", []) is None
    run = RunData(tmp_path / "run")
    names = [name for name in PLOTS.names() if name.startswith("finetune_")]
    assert len(names) == 6
    assert all(PLOTS.load(name).draw(run) is None for name in names)


def test_what_was_chosen_stands_beside_what_was_tried(tmp_path: Path) -> None:
    tried = [
        row("wrong_operator", "valid", value, split="valid", dimensions=dims(setting=name))
        for name, value in {
            "rate 0.0002, batch 32, epochs 2": 0.6,
            "rate 0.001, batch 32, epochs 2": 0.55,
        }.items()
    ]
    root = write_run(tmp_path / "run", [], MODELS)
    scores_to_frame([*scores(), *tried]).write_parquet(RunDirectory(root).scores)
    figure = PLOTS.load("finetune_course").draw(RunData(root))
    assert figure is not None and figure.table is not None
    lines = {(line[0].text, line[2].text): [cell.text for cell in line] for line in figure.table.cells()}
    own = lines["wrong operator", "pre-trained"]
    assert own[5:] == ["0.0002", "32", "2", "2", "60.0"]
    assert own[3].endswith("rate 0.001, batch 32, epochs 2: 55.0")
    assert lines["wrong operator", "from scratch"][9] == "40.0"
    assert lines["wrong operator", "from scratch"][3] == "–"
    both = "wrong operator (pre-trained, 1 of 1); wrong operator (from scratch, 1 of 1)"
    assert "Best at the last epoch" in figure.notes[0] and both in figure.notes[0]
    assert "only rate" in figure.notes[1] and "from scratch" not in figure.notes[1]


def test_what_was_trained_enough_is_said_too(tmp_path: Path) -> None:
    listed = [
        dataclasses.replace(one, value=0.0) if one.metric in ("best_at_end", "rate_at_edge") else one
        for one in scores()
    ]
    root = write_run(tmp_path / "run", [], MODELS)
    scores_to_frame(listed).write_parquet(RunDirectory(root).scores)
    figure = PLOTS.load("finetune_course").draw(RunData(root))
    assert figure is not None
    assert figure.notes == [
        "Trained enough: no training was best at its last epoch or at the edge of its rates."
    ]


def swept() -> list[Score]:
    found: list[Score] = []
    for value, fraction in ((0.6, "0.33"), (0.7, "0.66"), (0.8, "1")):
        at: dict[str, Any] = {"dimensions": dims(epochs="2", fraction=fraction)}
        found.append(row("wrong_operator", "accuracy", value, **at))
        found.append(row("wrong_operator", "accuracy", 0.5, control="bag_of_tokens", **at))
        found.append(
            row("wrong_operator", "accuracy", value, dimensions=dims(epochs="2", fraction=fraction, seed="1"))
        )
        if fraction != "1":
            params = {"of_metric": "accuracy", "compared_to": "epochs=2;fraction=1"}
            found.append(row("wrong_operator", "change", value - 0.8, **params, **at))
    return found


def test_a_sweep_is_drawn_over_the_option_swept_last(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", [], MODELS)
    scores_to_frame(swept()).write_parquet(RunDirectory(root).scores)
    run = RunData(root)
    assert PLOTS.load("finetune_summary").draw(run) is None
    figure = PLOTS.load("finetune_sweep").draw(run)
    assert figure is not None and figure.table is not None
    assert figure.lead == (
        "Against epochs 2, fraction 1, of 2 trainings with other values 2 are worse and 0 better beyond the "
        "interval."
    )
    (chart,) = figure.charts
    validate_jsonschema(dict(chart.spec), load_schema())
    points = (
        chart.spec["data"]["values"] if "data" in chart.spec else chart.spec["layer"][0]["data"]["values"]
    )
    assert [(one["value_of"], one["value"]) for one in points if one["method"] == "pre-trained"] == [
        ("0.33", 0.6), ("0.66", 0.7), ("1", 0.8),
    ]  # fmt: skip
    cells = {(line[2].text, line[3].text): line for line in figure.table.cells()}
    assert cells["pre-trained", "epochs 2, fraction 0.33"][5].text == "−20.0 [−25.0, −15.0]"
    assert cells["pre-trained", "epochs 2, fraction 1"][5].text == "–"
    assert len(cells) == 6


def test_a_second_test_set_stands_beside_the_first(tmp_path: Path) -> None:
    listed = [
        row("misuse_repair", "accuracy", 0.9),
        row("misuse_repair", "accuracy", 0.8, split="external"),
    ]
    figure = drawn(tmp_path / "run", listed)
    assert figure is not None and figure.table is not None
    assert [line[0].text for line in figure.table.cells()] == [
        "misuse repair",
        "misuse repair, external test set",
    ]


def test_confusions_are_drawn_with_the_commonest_class_first(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", [], MODELS)
    shares = {
        ("KeyError", "KeyError"): 0.75, ("KeyError", "OSError"): 0.25, ("OSError", "OSError"): 1.0,
        ("TypeError", "OSError"): 1.0,
    }  # fmt: skip
    numbers = {"KeyError": 20, "OSError": 50, "TypeError": 10}
    listed = [
        row(
            "exception_type", "confusion", value, dimensions=dims(gold=gold, predicted=said),
            n=numbers[gold],
        )
        for (gold, said), value in shares.items()
    ]  # fmt: skip
    scores_to_frame(listed).write_parquet(RunDirectory(root).scores)
    figure = PLOTS.load("finetune_confusion").draw(RunData(root))
    assert figure is not None and figure.table is not None
    (chart,) = figure.charts
    validate_jsonschema(dict(chart.spec), load_schema())
    assert chart.spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == ["OSError", "KeyError", "TypeError"]
    told = [[cell.text for cell in line[1:5]] for line in figure.table.cells()]
    assert told == [
        ["OSError", "100.0 [95.0, 105.0]", "–", "50"],
        ["KeyError", "75.0 [70.0, 80.0]", "OSError 25.0 [20.0, 30.0]", "20"],
        ["TypeError", "0.0", "OSError 100.0 [95.0, 105.0]", "10"],
    ]
