"""All five lenses over both bundled models in one run: what the page says is what the tables hold."""

from __future__ import annotations

import html
import inspect
import json
import re
import textwrap
from pathlib import Path

import polars as pl
import pytest

from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
from sonde.experiments.tables import ITEMS_SCHEMA
from sonde.lenses.attention import errors
from sonde.lenses.attention import observe as attention
from sonde.lenses.cloze.observe import ANSWERS_SCHEMA
from sonde.lenses.finetune.rows import ROWS_SCHEMA
from sonde.lenses.probe.observe import STATES_SCHEMA
from sonde.report import RunData, build_report, first_screen
from sonde.results.observations import OBSERVATIONS_SCHEMA
from sonde.results.scores import SCORES_SCHEMA, read_scores
from sonde.results.verdict import verdict_allowed
from sonde.store.rundir import slug
from sonde.tasks import EXAMPLE_SCHEMA, LABEL_SCHEMA
from sonde.tasks._cloze_columns import QUERY_SCHEMA
from sonde.tasks._relation_rows import RELATION_SCHEMA
from sonde.tasks.call_origin import CALL_SCHEMA

LENSES = ("surprisal", "probe", "attention", "cloze", "finetune")
DECODER, ENCODER = "sonde/mini-decoder", "sonde/mini-encoder"
SCHEMA_1 = Path(__file__).parents[1] / "results/schema1.parquet"
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
            "cloze": {"candidates": 3, "scope": "all", "templates": "import"},
            "finetune": {"epochs": 1, "length": 64, "cut": "keep"},
        },
    )
    run(experiment, Execution(output=root / "run"))
    build_report(root / "run")
    return root / "run"


@pytest.fixture(scope="module")
def scores(made: Path) -> pl.DataFrame:
    return pl.read_parquet(made / "scores.parquet")


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


ARM = {"method": pl.String, "task": pl.String, "seed": pl.Int32, "variant": pl.String}
"""Columns that the run adds to what a training answers."""

ITEM = {"item_id": pl.String}

WRITTEN = {
    "scores.parquet": SCORES_SCHEMA,
    "items.parquet": ITEMS_SCHEMA,
    "inputs.parquet": ITEMS_SCHEMA,
    "labels/task=argument_names": LABEL_SCHEMA | ITEM,
    "labels/task=call_origin": CALL_SCHEMA | ITEM,
    "labels/task=syntax_relations": RELATION_SCHEMA | ITEM,
    "labels/task=api_cloze": QUERY_SCHEMA,
    "labels/task=jft": EXAMPLE_SCHEMA,
    "labels/task=wrong_operator": EXAMPLE_SCHEMA,
    "observations/lens=surprisal": OBSERVATIONS_SCHEMA,
    "observations/lens=probe": STATES_SCHEMA,
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
    (listed,) = re.findall(r"`libraries/model=M/names\.csv` has a line a query: `([^`]+)`", page)
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
    for row in known.filter(pl.col("metric").is_in(list(DIFFERENCES))).iter_rows(named=True):
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
    assert ("It allows no verdict" in text) == (not verdict_allowed(row))


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
    answers = first_screen(RunData(made))
    assert {answer.lens for answer in answers} == set(LENSES)
    key = ["lens", "model", "language", "task", "metric", "k", "value", "ci_low", "ci_high", "n"]
    for answer in answers:
        for row in filter(None, (answer.row, answer.control, answer.gain)):
            same = [pl.col(name).eq_missing(row[name]) for name in key]
            assert scores.filter(*same, pl.col("control").eq_missing(row["control"])).height
        assert answer.verdict in html.unescape(top)
        for shown in (answer.figure(answer.row), f"{answer.row['n']:,}", answer.clusters):
            assert shown in top
        scored = answer.gain or answer.row
        assert answer.kind == "open" or verdict_allowed(scored)


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


def test_slices_are_those_that_the_first_schema_had(scores: pl.DataFrame) -> None:
    """Rows of the same run, as the version before wrote them; what hangs on the code is left out."""
    written = read_scores(SCHEMA_1).filter(pl.col("model").is_in([DECODER, ENCODER]))
    assert set(written["lens"]) == set(LENSES)
    fixed = [
        {"text"}, {"selection"}, {"selection", "share"}, {"distance"}, {"average"}, {"epoch"}, {"seed"},
        {"reachable"}, {"template"}, {"template", "mode"}, {"template", "frame"}, set(),
    ]  # fmt: skip
    names = pl.col("dimensions").list.eval(pl.element().struct.field("name"))
    keys = ["lens", "task", "metric", "slice", "method", "matching", "aggregation"]
    before = written.with_columns(names=names).filter(
        pl.col("names").map_elements(lambda held: set(held) in fixed, pl.Boolean)
    )
    assert set(before["lens"]) == set(LENSES)
    lacking = before.join(scores, on=[*keys, "control"], how="anti", nulls_equal=True)
    assert lacking.is_empty(), lacking.select(keys)
