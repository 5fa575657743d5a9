"""From a table of 600 labelled functions to a page, to scikit-learn, to files, and to other functions."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors import safe_open
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import sonde
from sonde.api.predictions import FORMS
from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.cli.commands import app
from sonde.corpora import Selection, select

ROWS = 600
L2 = 0.01


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Functions of the standard library: as many that raise an error as others, by module, with splits."""
    items = select("stdlib", Selection(limit=3_000, min_chars=80, max_chars=600)).items
    chosen = [
        item
        for raises in (True, False)
        for item in [one for one in items if ("raise " in one.text) == raises][: ROWS // 2]
    ]
    modules = sorted({item.cluster for item in chosen})
    split = {name: ("train", "train", "valid", "test")[place % 4] for place, name in enumerate(modules)}
    path = tmp_path_factory.mktemp("own") / "raises.csv"
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["id", "code", "label", "part", "group"])
        for number, one in enumerate(chosen):
            label = "raises" if "raise " in one.text else "plain"
            writer.writerow([number, one.text, label, split[one.cluster], one.cluster])
        writer.writerow([ROWS, "def unlabelled(): pass", "", "train", "none"])
    assert len(chosen) == ROWS
    return path


def command(*words: str) -> str:
    answer = CliRunner().invoke(app, list(words))
    assert answer.exit_code == 0, answer.output or answer.exception
    return answer.output


@pytest.fixture(scope="module")
def crossed(table: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> sonde.Run:
    """One command: groups are dealt to folds, since the column that holds a split has another name."""
    output = tmp_path_factory.mktemp("runs") / "crossed"
    said = command(
        "run", "-c", f"labelled:{table}", "-l", "probe", "-m", str(encoder), "-o", str(output), "--features",
        "--include-seen", "--option", f"probe.l2={L2}", "--option", "probe.curves=false",
    )  # fmt: skip
    assert "labelled (python)" in said
    assert f"labelled:{table}: {ROWS} of {ROWS + 1} rows used; not used: 1 no label (line " in said
    assert "; columns not read: 'part'\n" in said
    assert f"labelled: {ROWS} examples, each tested once: n = {ROWS}" in said
    assert f"(n = {ROWS} examples, " in said
    assert "features: " in said
    return sonde.Run(output)


@pytest.fixture(scope="module")
def split(table: Path, encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> sonde.Run:
    """A run by the splits that the table names."""
    return sonde.run(
        models=encoder,
        lenses="probe",
        corpora=f"labelled:{table}?split=part",
        output=tmp_path_factory.mktemp("runs") / "split",
        options={"probe": {"controls": False, "curves": False}},
        include_seen=True,
        workers=1,
    )


def accuracies(run: sonde.Run) -> pl.DataFrame:
    """Accuracy of the linear probe of each layer."""
    return run.scores.filter(
        (pl.col("metric") == "accuracy")
        & (pl.col("split") == "test")
        & (pl.col("method") == "linear")
        & (pl.col("pooling") == "mean")
        & pl.col("control").is_null()
        & (pl.col("dimensions").list.len() == 0)
    ).sort("layer")


def regression(
    states: np.ndarray, labels: np.ndarray, train: np.ndarray, l2: float
) -> tuple[StandardScaler, LogisticRegression]:
    """What anybody would write: standardised, C by the number of examples and the penalty."""
    scaler = StandardScaler().fit(states[train])
    model = LogisticRegression(C=1 / (train.sum() * l2), max_iter=10_000, tol=1e-8)
    return scaler, model.fit(scaler.transform(states[train]), labels[train])


@pytest.mark.slow
def test_the_page_names_the_task_and_its_controls(crossed: sonde.Run) -> None:
    page = crossed.page.read_text(encoding="utf-8")
    for word in ("labelled", "raises", "bag_of_tokens", "random weights"):
        assert word in page
    controls = set(crossed.scores.filter(pl.col("task") == "labelled")["control"].drop_nulls())
    assert {"majority", "length", "bag_of_tokens", "parse_error", "random_weights"} <= controls


@pytest.mark.slow
def test_a_probe_tells_what_the_words_tell(crossed: sonde.Run) -> None:
    best = accuracies(crossed)["value"].max()
    assert isinstance(best, float)
    assert best > 0.6


def test_scikit_learn_on_the_states_of_folds_gives_the_same_accuracy(crossed: sonde.Run) -> None:
    for row in accuracies(crossed).iter_rows(named=True):
        states = crossed.states("labelled", row["layer"])
        labels, fold = (states.examples[name].to_numpy() for name in ("label", "fold"))
        number = int(fold.max()) + 1
        right = 0
        for tested in range(number):
            held = fold == tested
            scaler, model = regression(states.values, labels, ~held & (fold != (tested + 1) % number), L2)
            right += np.count_nonzero(model.predict(scaler.transform(states.values[held])) == labels[held])
        assert row["n"] == len(labels) == ROWS
        assert abs(right - round(row["value"] * ROWS)) <= 1


def test_scikit_learn_on_the_splits_of_the_table_gives_the_same_accuracy(split: sonde.Run) -> None:
    for row in accuracies(split).iter_rows(named=True):
        states = split.states("labelled", row["layer"])
        assert states.examples["fold"].is_null().all()
        labels, part = (states.examples[name].to_numpy() for name in ("label", "split"))
        test = np.asarray(part == "test")
        scaler, model = regression(states.values, labels, np.asarray(part == "train"), row["l2"])
        right = np.count_nonzero(model.predict(scaler.transform(states.values[test])) == labels[test])
        assert row["n"] == test.sum()
        assert abs(right - round(row["value"] * row["n"])) <= 1


def test_features_are_the_states(crossed: sonde.Run) -> None:
    (file,) = (crossed.directory / "features").rglob("*.safetensors")
    examples = pl.read_parquet(file.with_suffix(".examples.parquet"))
    with safe_open(file, "np") as held:
        about = held.metadata()
        names = list(held.keys())
        assert {name for name in names if name.startswith("layer.")} == {
            "layer.0",
            "layer.1",
            "layer.2",
        }
        for layer in range(3):
            states = crossed.states("labelled", layer)
            np.testing.assert_array_equal(held.get_tensor(f"layer.{layer}"), states.values)
            assert examples.equals(states.examples)
        classes, splits = (np.array(json.loads(about[name])) for name in ("classes", "splits"))
        assert classes[held.get_tensor("label")].tolist() == examples["label"].to_list()
        assert splits[held.get_tensor("split")].tolist() == examples["split"].to_list()
        assert held.get_tensor("fold").tolist() == examples["fold"].to_list()
        assert np.isnan(held.get_tensor("value")).all()
    assert (about["task"], about["pooling"]) == ("labelled", "mean")


def test_features_without_states_are_refused_before_the_run(table: Path, tmp_path: Path) -> None:
    answer = CliRunner().invoke(
        app, ["run", "-c", f"labelled:{table}", "-l", "surprisal", "--features", "-o", str(tmp_path / "none")]
    )
    assert isinstance(answer.exception, UsageError)
    assert not (tmp_path / "none").exists()


@pytest.fixture(scope="module")
def code(split: sonde.Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """Functions of the test part as one new file, and their examples."""
    tests = split.states("labelled", 1).examples.filter(split="test").head(12)
    texts = dict(split.items.select("item_id", "text").collect().iter_rows())
    path = tmp_path_factory.mktemp("new") / "new.py"
    # What was a method ends in a blank line of its own and is a function by itself.
    path.write_text("\n\n".join(f"{texts[item].rstrip()}\n" for item in tests["item_id"]), encoding="utf-8")
    return path, tests


def test_new_functions_get_what_the_tested_probe_says(
    split: sonde.Run, code: tuple[Path, pl.DataFrame]
) -> None:
    path, tests = code
    found = split.predict(path, layer=1)
    (probe,) = found.probes
    row = accuracies(split).row(1, named=True)
    assert (probe.layer, probe.probes) == (1, 1)
    assert probe.accuracy is not None
    assert probe.accuracy["value"] == row["value"]
    assert len(found.functions) == len(tests)
    states = split.states("labelled", 1)
    labels, part = (states.examples[name].to_numpy() for name in ("label", "split"))
    scaler, model = regression(states.values, labels, np.asarray(part == "train"), row["l2"])
    place = {name: number for number, name in enumerate(states.examples["item_id"])}
    for one, item in zip(found.functions, tests["item_id"], strict=True):
        chances = model.predict_proba(scaler.transform(states.values[[place[item]]]))[0]
        assert list(one.chances) == model.classes_.tolist()
        np.testing.assert_allclose(list(one.chances.values()), chances, atol=0.01)
        assert one.label == max(one.chances, key=lambda name: one.chances[name])


def test_the_probes_of_all_folds_speak_together(crossed: sonde.Run, code: tuple[Path, pl.DataFrame]) -> None:
    found = crossed.predict(code[0])
    assert found.probes[0].probes == 5
    assert found.probes[0].gain is not None
    assert all(sum(one.chances.values()) == pytest.approx(1) for one in found.functions)
    assert found == crossed.predict(code[0])


def test_predictions_in_three_formats(crossed: sonde.Run, code: tuple[Path, pl.DataFrame]) -> None:
    path, lines = code[0], code[0].read_text(encoding="utf-8").splitlines()
    found = crossed.predict(path)
    text = command("predict", str(crossed.directory), str(path))
    assert text == FORMS["text"](found)
    assert len(text.splitlines()) == len(found.functions) + 2
    assert "of 600 test functions" in text.splitlines()[-1]
    held = json.loads(command("predict", str(crossed.directory), str(path), "--format", "json"))
    assert held["probes"][0]["accuracy"]["ci_low"] < held["probes"][0]["accuracy"]["value"]
    log = json.loads(command("predict", str(crossed.directory), str(path), "--format", "sarif"))
    (one_run,) = log["runs"]
    rules = {rule["id"] for rule in one_run["tool"]["driver"]["rules"]}
    for one, plain, noted in zip(found.functions, held["functions"], one_run["results"], strict=True):
        assert "def " in "".join(lines[one.line - 1 : one.end_line])
        assert (plain["name"], plain["class"], plain["line"]) == (one.name, one.label, one.line)
        assert noted["ruleId"] in rules
        assert noted["locations"][0]["physicalLocation"]["region"] == {
            "startLine": one.line,
            "endLine": one.end_line,
        }


@pytest.mark.slow
def test_the_page_about_own_labels_runs_as_printed(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.read_csv(table).drop("part").sort("id").gather_every(5).write_csv(tmp_path / "functions.csv")
    (tmp_path / "new.py").write_text("def f(a):\n    raise ValueError(a)\n")
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "own-labels.md").read_text(encoding="utf-8")
    for kind, block in re.findall(r"```(bash|python)\n(.*?)```", page, flags=re.S):
        if kind == "python":
            exec(compile(block, "own-labels.md", "exec"), {})
        else:
            for line in block.splitlines():
                assert line.startswith("sonde ")
                command(*line.split()[1:])
    assert float(capsys.readouterr().out) > 0.5
    assert (tmp_path / "own.safetensors").is_file()


def test_what_cannot_be_predicted_says_why(crossed: sonde.Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "b.java").write_text("class A { int f() { return 1; } }\n")
    (tmp_path / "c.py").write_bytes(b"\0")
    files = [tmp_path / name for name in ("a.py", "b.java", "c.py")]
    found = crossed.predict(files)
    assert [(one.name, one.line) for one in found.functions] == [("a.py", 1)]
    assert len(found.skipped) == 2
    with pytest.raises(InputError, match=r"nothing to predict: .*c\.py: NUL bytes"):
        crossed.predict(files[1:])
    with pytest.raises(InputError, match="no such file"):
        crossed.predict(tmp_path / "none.py")
    with pytest.raises(UnknownNameError, match="did you mean 'labelled'"):
        crossed.predict(files, task="labeled")
    with pytest.raises(UsageError, match="layer = 9 is not one of 0"):
        crossed.predict(files, layer=9)


def test_a_run_without_probes_predicts_nothing(finished: sonde.Run, code: tuple[Path, pl.DataFrame]) -> None:
    with pytest.raises(InputError, match="no probes and no fine-tuned models; run the lens 'probe'"):
        finished.predict(code[0])
