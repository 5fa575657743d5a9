"""Five lenses over both bundled models in one run: what the page says is what the tables hold."""

from __future__ import annotations

import html
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.lenses.attention import errors
from sonde.lenses.attention import observe as attention
from sonde.lenses.cloze.observe import ANSWERS_SCHEMA
from sonde.lenses.engine.item_tables import ITEMS_SCHEMA
from sonde.lenses.finetune.data import ROWS_SCHEMA
from sonde.lenses.probe.data import STATES_SCHEMA
from sonde.report import RunData, answer_by_lens, write_report
from sonde.report.explorer import ExplorerLimits, build_explorer_data
from sonde.report.text import task_label
from sonde.results.schema import ANSWERS, OBSERVATIONS_SCHEMA, scan_files
from sonde.results.scores import SCORES_SCHEMA
from sonde.stats.verdict import allows_verdict
from sonde.store.run_folder import slug
from sonde.tasks import EXAMPLE_SCHEMA
from sonde.tasks.calls.call_origin import CALL_SCHEMA
from sonde.tasks.engine.cloze_queries import QUERY_SCHEMA
from sonde.tasks.syntax.syntax_relations import RELATION_SCHEMA
from tests.report.words import count_unfolded_words
from tests.slices import with_slices

LENSES = ("surprisal", "probe", "attention", "cloze", "finetune")
DECODER, ENCODER = "sonde/mini-decoder", "sonde/mini-encoder"
ITEMS = 30
BOUNDED = {
    "accuracy",
    "top1",
    "top5",
    "mrr",
    "p_at_k",
    "coverage",
    "uuas",
    "first_hit",
    "any_hit",
    "truncated",
}
DIFFERENCES = {"gain", "first_hit_gain", "p_at_k_gain", "selectivity"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run: a repository of a few modules of the standard library."""
    root = tmp_path_factory.mktemp("five")
    for module in (textwrap, inspect, json, html, re):
        folder = root / "code" / module.__name__
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(inspect.getsource(module), encoding="utf-8")
    experiment = Experiment(
        models=(DECODER, ENCODER),
        lenses=LENSES,
        tasks=("len", "jft", "api_cloze", "wrong_operator"),
        corpora=(f"local:{root / 'code'}",),
        selection=Selection(limit=ITEMS),
        include_seen=True,
        options={
            "cloze": {"candidates": 3, "scope": "all", "templates": "import,call"},
            "finetune": {"epochs": 1, "length": 64, "cut": "keep"},
        },
    )
    run(experiment, Execution(output=root / "run"))
    write_report(root / "run")
    return root / "run"


@pytest.fixture(scope="module")
def scores(made: Path) -> pl.DataFrame:
    return with_slices(pl.read_parquet(made / "scores.parquet"))


@pytest.fixture(scope="module")
def text(made: Path) -> str:
    page = (made / "report.html").read_text(encoding="utf-8")
    bare = re.sub(r"<script.*?</script>|<style.*?</style>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", bare)).split())


pytestmark = pytest.mark.slow


def test_every_lens_has_scores_of_every_model_that_it_can_read(scores: pl.DataFrame, made: Path) -> None:
    assert set(scores["lens"]) == set(LENSES)
    assert set(scores.filter(lens="surprisal")["model"]) == {DECODER}
    for lens in ("probe", "attention", "cloze", "finetune"):
        assert set(scores.filter(lens=lens)["model"]) == {DECODER, ENCODER}, lens
    refused = json.loads((made / "run.json").read_text())["refused"]
    assert any(ENCODER in json.dumps(one) and "surprisal" in json.dumps(one) for one in refused)


def test_a_report_of_three_lenses_has_at_most_eight_thousand_words(made: Path) -> None:
    page = (made / "report.html").read_text(encoding="utf-8")
    # A report of these three alone has shorter parts about the run as a whole, never longer ones.
    words = count_unfolded_words(page, without=("cloze", "finetune"))
    assert 2_000 < words <= 8_000
    assert words < count_unfolded_words(page)


ARM = {"method": pl.String, "task": pl.String, "seed": pl.Int32, "variant": pl.String}
"""Columns that the run adds to what a training answers."""

ITEM = {"item_id": pl.String}

WRITTEN = {
    "scores.parquet": SCORES_SCHEMA,
    "items.parquet": ITEMS_SCHEMA,
    "inputs.parquet": ITEMS_SCHEMA,
    "labels/task=call_origin": CALL_SCHEMA | ITEM,
    "labels/task=syntax_relations": RELATION_SCHEMA | ITEM,
    "labels/task=api_cloze": QUERY_SCHEMA,
    "labels/task=jft": EXAMPLE_SCHEMA,
    "labels/task=wrong_operator": EXAMPLE_SCHEMA,
    "observations/lens=surprisal": OBSERVATIONS_SCHEMA,
    "observations/lens=probe": STATES_SCHEMA,
    "answers/lens=probe": ANSWERS,
    "observations/lens=attention": attention.OBSERVATIONS,
    "observations/lens=attention.1": errors.OBSERVATIONS,
    "observations/lens=cloze": ANSWERS_SCHEMA,
    "observations/lens=finetune": ROWS_SCHEMA | ARM,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_files_have_the_columns_that_the_page_lists(made: Path, name: str) -> None:
    paths = [made / name] if name.endswith(".parquet") else list((made / name).rglob("*.parquet"))
    assert paths
    for path in paths:
        schema = ITEMS_SCHEMA if path.name.endswith(".inputs.parquet") else WRITTEN[name]
        assert pl.read_parquet_schema(path) == dict(schema), path


def test_every_folder_of_tables_is_on_the_page(made: Path) -> None:
    folders = {
        f"{one.parent.name}/{one.name}"
        for one in made.glob("*/*=*")
        if one.parent.name != "scores" and any(one.rglob("*.parquet"))
    }
    assert folders == {name for name in WRITTEN if "=" in name}


def test_the_names_of_libraries_have_the_columns_that_the_page_lists(made: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"`libraries/model=M/names\.csv` has one line per query: `([^`]+)`", page)
    files = sorted(made.glob("libraries/*/names.csv"))
    assert len(files) == 2
    for file in files:
        assert pl.read_csv(file).columns == listed.split(", ")


def test_no_interval_leaves_its_bounds(scores: pl.DataFrame) -> None:
    known = scores.filter(pl.col("ci_low").is_not_null())
    assert (known["ci_low"] <= known["value"] + 1e-9).all()
    assert (known["value"] <= known["ci_high"] + 1e-9).all()
    for row in known.filter(pl.col("metric").is_in(list(BOUNDED))).iter_rows(named=True):
        assert 0 <= row["ci_low"] < row["ci_high"] <= 1, row
    # A gain is in the unit of its metric, and characters are no share.
    shares = known.filter(pl.col("of_metric").ne_missing("accepted_characters"))
    for row in shares.filter(pl.col("metric").is_in(list(DIFFERENCES))).iter_rows(named=True):
        assert -1 <= row["ci_low"] < row["ci_high"] <= 1, row


def test_the_title_is_the_overall_score_and_counts_what_was_read(
    scores: pl.DataFrame, text: str, made: Path
) -> None:
    row = scores.filter(lens="surprisal", metric="bits_per_byte", slice="all").row(0, named=True)
    observed = pl.scan_parquet(
        made / "observations" / "lens=surprisal" / f"model={slug(DECODER)}" / "*.parquet"
    )
    items = observed.select(pl.col("item_id").n_unique()).collect().item()
    assert items <= ITEMS
    assert f"at {row['value']:.2f} bits per byte" in text
    assert f"over {items} items" in text
    if row["ci_low"] is not None:
        assert f"[{row['ci_low']:.2f}, {row['ci_high']:.2f}]" in text
    assert (" bits per byte; too little data † ." in text) == (not allows_verdict(row))


def test_every_lens_says_something_at_the_top(text: str) -> None:
    for words in (
        "bits per byte",
        "probed in mini-decoder",
        "the best heads find",
        "right name",
        "fine-tuned",
    ):
        assert words in text, words


def test_the_first_screen_agrees_with_the_scores(scores: pl.DataFrame, text: str, made: Path) -> None:
    top = text.partition('<h2 id="measured">')[0]
    answers = answer_by_lens(RunData(made))
    assert {answer.lens for answer in answers} == set(LENSES)
    key = ["lens", "model", "language", "task", "metric", "k", "value", "ci_low", "ci_high", "n"]
    for answer in answers:
        for row in filter(None, (answer.row, answer.control, answer.gain)):
            same = [pl.col(name).eq_missing(row[name]) for name in key]
            assert scores.filter(*same, pl.col("control").eq_missing(row["control"])).height
        # A mark is an element of its own, so that a blank follows it here.
        marked = re.sub("([†‡§¶])", r"\1 ", answer.marked_verdict)
        assert " ".join(marked.split()) in html.unescape(top)
        for shown in (answer.unit.value(answer.row), f"{answer.row['n']:,}", answer.clusters):
            assert shown in top
        scored = answer.gain or answer.row
        assert answer.kind == "open" or allows_verdict(scored)


def test_tables_hold_the_numbers_of_the_scores(scores: pl.DataFrame, text: str) -> None:
    best = scores.filter(lens="probe", metric="accuracy", slice="best", split="test").filter(
        pl.col("control").is_null()
    )
    heads = scores.filter(lens="attention", metric="first_hit", slice="all", k=1).filter(
        pl.col("control").is_null()
    )
    names = scores.filter(
        pl.col("control").is_null() & (pl.col("aggregation") == "sum"),
        lens="cloze",
        metric="p_at_k",
        slice="template=import",
        k=1,
        matching="candidates",
    )
    for rows in (best, heads, names):
        assert rows.height
        for value in rows["value"]:
            assert f"{100 * value:.1f}" in text


@pytest.fixture(scope="module")
def explored(made: Path) -> dict[str, Any]:
    """The data of the token explorer, what each lens found by its name."""
    data = build_explorer_data(RunData(made), ExplorerLimits())
    assert data is not None
    return {**data, "lenses": {one["lens"]: one for one in data["findings"]}}


def _table(folder: Path) -> pl.DataFrame:
    return scan_files([one for one in folder.glob("*.parquet") if ".inputs." not in one.name]).collect()


def _rows(explored: dict[str, Any], lens: str, model: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a lens found, by function and with its columns named."""
    one, strings = explored["lenses"][lens], explored["strings"]
    names = ["start", "end", *one["columns"]]
    for item, rows in zip(explored["items"], one["rows"][slug(model)], strict=True):
        for row in rows:
            named = dict(zip(names, row, strict=True))
            yield item["id"], named | {name: strings[named[name]] for name in one["texts"]}


def test_the_explorer_shows_what_every_reading_lens_found(explored: dict[str, Any]) -> None:
    assert set(explored["lenses"]) == {"surprisal", "probe", "attention", "cloze"}
    assert [model["slug"] for model in explored["models"]] == [slug(DECODER), slug(ENCODER)]


@pytest.mark.parametrize("model", [DECODER, ENCODER])
def test_the_explorer_shows_where_the_best_heads_lead(
    explored: dict[str, Any], made: Path, model: str
) -> None:
    table = _table(made / "observations/lens=attention.1" / f"model={slug(model)}")
    edges = table.filter(pl.col("words").is_null())
    columns = ("item_id", "relation", "asked_start", "picked_start", "expected_start", "hit", "layer", "head")
    held = set(edges.select(columns).iter_rows())
    shown = [
        (item, row["group"], row["start"], row["picked_start"], row["expected_start"], bool(row["hit"]))
        for item, row in _rows(explored, "attention", model)
    ]
    assert len(shown) > 100 and set(shown) <= {row[:6] for row in held}
    # Of a head whose attention is kept, the word attended to most is the one that it picks.
    heads = table.filter(pl.col("words").is_not_null())
    assert heads["item_id"].n_unique() > 3
    found = 0
    for row in heads.iter_rows(named=True):
        place = next((at for at, one in enumerate(explored["items"]) if one["id"] == row["item_id"]), None)
        if place is None:
            continue
        kept = explored["lenses"]["attention"]["weights"][slug(model)][place]
        lines = dict(kept[f"head {row['layer']}.{row['head']}"])
        size = len(row["words"])
        weights = np.frombuffer(row["weights"], np.float16).reshape(size, size)
        # Empty words, which end a block, begin where the next one does and are not shown.
        place_of = {start: at for at, start in enumerate(row["starts"]) if row["words"][at]}
        for start, word in place_of.items():
            for first, _, share in lines.get(start, ()):
                assert abs(share - 100 * float(weights[word, place_of[first]])) < 0.06
                found += 1
    assert found > 100


@pytest.mark.parametrize("model", [DECODER, ENCODER])
def test_answers_of_probes_are_those_that_were_scored(
    explored: dict[str, Any], made: Path, scores: pl.DataFrame, model: str
) -> None:
    answers = _table(made / "answers/lens=probe" / f"model={slug(model)}")
    accuracy = scores.filter(
        pl.col("control").is_null(), lens="probe", model=model, metric="accuracy", slice="best", split="test"
    )
    assert answers["task"].n_unique() == 2
    for (task,), mine in answers.partition_by("task", as_dict=True).items():
        right = mine.select((pl.col("said") == pl.col("label")).mean()).item()
        # Kept of the first pooling of several.
        values = accuracy.filter(task=task, n=mine.height)["value"].to_list()
        assert pytest.approx(right) in values
    strings = explored["strings"]
    lists = explored["lenses"]["probe"]["whole"][slug(model)]
    shown = {
        (item["id"], strings[task], strings[said], strings[right], bool(hit))
        for item, rows in zip(explored["items"], lists, strict=True)
        for task, said, right, hit in rows
    }
    whole = answers.filter("whole")
    held = {
        (row["item_id"], task_label(row["task"]), row["said"], row["label"], row["said"] == row["label"])
        for row in whole.iter_rows(named=True)
    }
    assert len(shown) > 5 and shown <= held


def test_the_explorer_shows_answers_at_calls_that_were_asked(explored: dict[str, Any], made: Path) -> None:
    texts = {item["id"]: item["text"] for item in explored["items"]}
    shown = list(_rows(explored, "cloze", ENCODER))
    assert shown
    queries = _table(made / "labels/task=api_cloze").filter(template="call", mode="whole")
    asked = set(queries["answer"])
    for item, row in shown:
        name = texts[item][row["start"] : row["end"]]
        assert name == row["right"] and name in asked
        assert bool(row["hit"]) == (row["rank"] == 1)
        # A tie counts against the right answer, which may then stand first.
        assert not row["hit"] or row["said"] == row["right"]
