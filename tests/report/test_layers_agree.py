"""Page, terminal, card and files for papers name the same layers for every task of one run."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.lenses.test_probe import functions, observed, score
from tests.report.synthetic import write_run

from sonde.report import PLOTS, RunData, write_report
from sonde.report.card import build_card, format_entry, render_markdown
from sonde.report.export import write_table
from sonde.report.headlines import answer_by_lens, describe_scores
from sonde.report.text import task_label
from sonde.results.extremes import list_layers
from sonde.results.layers import LayerSummary, summarise_layers
from sonde.store.run_folder import RunDirectory

EXAMPLES, LAYERS, WIDTH = 400, 6, 8
PLANTED: dict[str, tuple[int, ...]] = {"idn": (4,), "ktx": (1, 2), "csc": (0, 1, 2, 3, 4, 5)}
"""Tasks and the layers that hold them, alike well."""

COIN, FEW = "vcu", "mxn"
"""Labels by coin; a task that a layer holds, over too few clusters."""


def scored(layers: int = LAYERS, moved: int = 0, **options: Any) -> pl.DataFrame:
    """Scores of the lens on states that hold what is planted, in so many layers, each moved up by some."""
    rng = np.random.default_rng(5)
    states = rng.normal(size=(EXAMPLES, LAYERS, WIDTH)).astype(np.float32)
    labels: dict[str, pl.DataFrame] = {}
    for place, (task, held) in enumerate(({**PLANTED, FEW: (3,)}).items()):
        gold = rng.integers(0, 2, EXAMPLES)
        signal = 1.3 * (2 * gold - 1) + rng.normal(size=EXAMPLES)
        for layer in held:
            states[:, (layer + moved) % LAYERS, place] = signal
        named = [("no", "yes")[label] for label in gold]
        labels[task] = functions(named, clusters=8 if task == FEW else 40)
    coins = [("no", "yes")[label] for label in rng.integers(0, 2, EXAMPLES)]
    labels[COIN] = functions(coins)
    names = labels[COIN]["item_id"].to_list()
    return score(labels, observed(names, states[:, :layers]), **options)


def two_models() -> pl.DataFrame:
    other = scored(moved=1, folds=5, controls=True)
    return pl.concat([scored(folds=5, controls=True), other.with_columns(model=pl.lit("other"))])


RUNS: dict[str, Callable[[], pl.DataFrame]] = {
    "two models": two_models,
    "one layer": lambda: scored(layers=1, folds=5, controls=True),
    "without controls": lambda: scored(folds=5),
    "without folds": lambda: scored(folds=1, controls=True),
    "as published": lambda: scored(quirks=frozenset({"inspect.adam_protocol"}), controls=True),
    "one task": lambda: scored(folds=5, controls=True).filter(pl.col("task") == "ktx"),
}


@pytest.fixture(scope="module", params=RUNS)
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = RUNS[request.param]()
    models = dict.fromkeys(table["model"].unique(maintain_order=True).to_list(), 1.0)
    folder = write_run(tmp_path_factory.mktemp("runs") / "probe", [], models)
    table.write_parquet(RunDirectory(folder).scores)
    return folder


def accounts(root: Path) -> list[LayerSummary]:
    found = summarise_layers(pl.read_parquet(RunDirectory(root).scores))
    assert found
    return found


def table_of(root: Path, name: str) -> pl.DataFrame:
    figure = PLOTS.load(name).draw(RunData(root))
    assert figure is not None and figure.table is not None
    return figure.table.frame()


def mine(table: pl.DataFrame, account: LayerSummary) -> pl.DataFrame:
    model, task, _ = account.key
    return table.filter(pl.col("Model") == model, pl.col("Task") == task_label(task))


def numbers(text: str) -> set[int]:
    """The layers that a text names, ranges taken apart."""
    found: set[int] = set()
    for first, last in re.findall(r"\b(\d+)(?: to (\d+))?\b", text):
        found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.slow
def test_the_terminal_says_the_account_of_every_task(root: Path) -> None:
    lines = list(describe_scores(RunData(root).every_row))
    for account in accounts(root):
        model, task, language = account.key
        (line,) = [line for line in lines if line.startswith(f"{task} ({language}), {model}: ")]
        assert line.endswith(f"; {account.describe()}")
        assert f" at layer {account.chosen}, chosen on validation" in line


def test_the_card_says_the_account_of_every_task(root: Path) -> None:
    card = build_card(RunData(root))
    held = {(one.number.model, one.number.task, one.number.language): one for one in card.headlines}
    written = json.loads(card.json_text())["headlines"]
    rows = render_markdown(card).splitlines()
    for account in accounts(root):
        entry = held[account.key]
        assert entry.layers is not None
        assert entry.number.layer == entry.layers.chosen == account.chosen
        assert (entry.layers.status, entry.layers.text) == (account.status, account.describe())
        assert tuple(entry.layers.not_worse) == (account.tied or ())
        assert format_entry(entry).endswith(f"; {account.describe()}")
        assert [one["layers"]["text"] for one in written].count(account.describe()) >= 1
        model, task, _ = account.key
        cells = [row.split(" | ") for row in rows if f" | {task} | " in row and model in row]
        assert [row[-1] for row in cells if row[-1].endswith(f"; {account.describe()} |")]
        # What is concluded of the number and what is said of layers is one thing.
        says = {"above": {"encoded"}, "slight": {"slight", "elsewhere"}, "open": {"open"}, "alone": {"alone"}}
        assert account.status in says.get(entry.conclusion, {"absent", "elsewhere"}), entry.verdict


def test_the_tables_and_their_files_say_the_account_of_every_task(root: Path, tmp_path: Path) -> None:
    for name in ("probe_accuracy", "probe_layers"):
        figure = PLOTS.load(name).draw(RunData(root))
        assert figure is not None and figure.table is not None
        csv, tex = write_table(tmp_path / name, figure.table)
        table, lines = pl.read_csv(csv), tex.read_text(encoding="utf-8").splitlines()
        for account in accounts(root):
            own = mine(table, account)
            assert own["Encoded"].unique().to_list() == [account.describe()]
            cells = [line.split(" & ") for line in lines if account.describe() in line]
            assert [row for row in cells if row[0] == task_label(account.key[1])]


def test_every_layer_is_a_row_with_interval_size_and_control(root: Path) -> None:
    table = table_of(root, "probe_layers")
    scores = pl.read_parquet(RunDirectory(root).scores)
    every = pl.col("dimensions").list.len() == 0
    for account in accounts(root):
        model, task, _ = account.key
        own = mine(table, account)
        own_scores = scores.filter(
            every,
            pl.col("metric") == "accuracy",
            pl.col("split") == "test",
            pl.col("control").is_null(),
            model=model,
            task=task,
        )
        assert own["Layer"].to_list() == own_scores["layer"].to_list()
        assert own["Accuracy, %"].to_list() == pytest.approx((100 * own_scores["value"]).to_list())
        assert own["95 % interval low"].to_list() == pytest.approx((100 * own_scores["ci_low"]).to_list())
        assert own["Examples"].to_list() == own_scores["n"].to_list()
        named = own.filter(pl.col("Surely less accurate") == "")["Layer"].to_list()
        assert tuple(named) == account.tied
        assert own.filter(pl.col("Chosen") == "yes")["Layer"].to_list() == [account.chosen]
        if account.gain is not None:
            assert own["Best surface"].unique().to_list() == [account.gain["control"].replace("_", " ")]
            gains = (own["Accuracy, %"] - own["Surface, %"]).to_list()
            assert own["Gain, points"].to_list() == pytest.approx(gains)


def layer_rows(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of the data of a chart and of its layers, each table of data once."""
    views = [spec, *spec.get("layer", ())]
    tables = {id(view["data"]["values"]): view["data"]["values"] for view in views if "data" in view}
    unique = {json.dumps(rows): rows for rows in tables.values()}
    return [row for rows in unique.values() for row in rows]


def test_the_section_of_layers_and_its_chart_name_the_same_layers(root: Path) -> None:
    figure = PLOTS.load("probe_layers").draw(RunData(root))
    assert figure is not None
    maps = [chart for chart in figure.charts if not chart.name.startswith("probe-layer-lines-")]
    records = {chart.name: chart.spec["data"]["values"] for chart in maps}
    curves = {
        chart.name.removeprefix("probe-layer-lines-"): layer_rows(chart.spec)
        for chart in figure.charts
        if chart not in maps
    }
    lines = figure.answer.splitlines()
    tasks = {account.key[1] for account in accounts(root)}
    several = len({account.key[0] for account in accounts(root)}) > 1
    assert set(curves) == tasks
    # One map of all tasks for each model, if there are enough of them to be set side by side.
    assert len(records) == (len(lines) if len(tasks) >= 3 else 0)
    for account in accounts(root):
        model, task, _ = account.key
        (line,) = [line for line in lines if not several or line.startswith(f"{model}: ")]
        clauses = line.removeprefix(f"{model}: ").rstrip(".").split("; ")
        (clause,) = [clause for clause in clauses if re.search(rf"\b{task_label(task)}\b", clause)]
        (told,) = re.findall(rf"\b{task_label(task)}(?: \((layers? [^)]*)\))?(?:,|$)", clause)
        assert numbers(told) == set(account.named)
        assert clause.lower().startswith("encoded") == bool(account.named)
        curve = [row for row in curves[task] if row.get("shown") == model]
        assert [row["accuracy"] for row in curve] == [layer.accuracy["value"] for layer in account.layers]
        assert [row["low"] for row in curve] == [layer.accuracy["ci_low"] for layer in account.layers]
        baselines = {row["baseline"] for row in curves[task] if "baseline" in row}
        assert baselines == (set() if account.control is None else {account.control["value"]})
        named = [part for name, part in records.items() if not several or name.endswith(f"-{model}")]
        for own in (curve, *named):
            dots = {
                row["layer"]: row["mark"] for row in own if row["name"] == task_label(task) and row["mark"]
            }
            assert set(dots) == set(account.named)
            if account.chosen in account.named:
                assert [layer for layer, mark in dots.items() if mark == "●"] == [account.chosen]
    text = html.unescape(write_report(root).read_text(encoding="utf-8"))
    for said in (*lines, *(account.describe() for account in accounts(root))):
        assert said in text


def test_the_first_screen_and_the_section_of_accuracies_count_what_the_account_says(root: Path) -> None:
    run = RunData(root)
    found = answer_by_lens(run)
    section = PLOTS.load("probe_accuracy").draw(run)
    assert section is not None
    for one, line in zip(found, section.answer.splitlines(), strict=True):
        own = [account for account in accounts(root) if account.key[0] == one.row["model"]]
        encoded = [task_label(account.key[1]) for account in own if account.status == "encoded"]
        claim, _, _ = one.verdict.partition(". Middle task, ")
        assert ("can be read from the states" in claim) == bool(encoded)
        if len(encoded) == 1:
            assert encoded[0] in claim.partition(" can be read")[0] and "the same holds" not in claim
        elif encoded:
            assert f"({len(encoded)} of {len(own)} tasks)" in claim
        elif len(own) > 1:
            assert f"beat the best control in 0 of {len(own)} tasks" in claim
        (told,) = re.findall(r"above every surface baseline: ([^.;]*)[.;]", line, flags=re.IGNORECASE)
        assert {*told.split(", ")} == {*(encoded or ["none"])}


def test_what_is_planted_is_what_is_named(root: Path, request: pytest.FixtureRequest) -> None:
    """With folds and controls: each task at its layers, none of labels by coin, nothing of few clusters."""
    name = request.node.callspec.params["root"]
    found = {account.key[:2]: account for account in accounts(root)}
    if name == "two models":
        for model, moved in (("m", 0), ("other", 1)):
            for task, held in PLANTED.items():
                account = found[model, task]
                planted = {(layer + moved) % LAYERS for layer in held}
                assert account.status == "encoded" and set(account.named) == planted, account.describe()
                assert account.describe().startswith(f"encoded: {list_layers([account.chosen])}")
            assert found[model, COIN].describe() == "not encoded beyond its controls"
    if name in ("two models", "one layer"):
        assert found["m", FEW].describe() == "too little data to say whether it is encoded"
    if name == "without folds":
        assert {account.status for account in found.values()} == {"open"}
    if name == "without controls":
        statuses = {task: account.status for (_, task), account in found.items()}
        assert statuses == {**dict.fromkeys((*PLANTED, COIN), "alone"), FEW: "open"}
