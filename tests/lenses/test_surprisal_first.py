"""What begins a text is in no slice: a model that reads from left to right has nothing of the text there."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import polars as pl
import pytest
from tests.lenses.test_surprisal_tables import random_observations
from tests.slices import with_slices

import sonde
from sonde.lenses.engine.observations import BatchSums
from sonde.lenses.surprisal.score import collect_sums
from sonde.report.run_tables import RunData
from sonde.report.sections.surprisal import (
    distribution,
    frequency_loss,
    kinds,
    worst_best_constructs,
    worst_best_subwords,
    worst_best_tags,
)
from sonde.report.sections.surprisal._scores import read_first_subwords
from sonde.results.schema import FIRST_PART, dimension_value

ROWS = random_observations(0)
GROUPINGS = sorted({*collect_sums(BatchSums((ROWS.lazy(),))).slices} - {"all"})
"""What the lens groups subwords by, as it says itself; names and calls are beside them."""

SEVERAL = {"ancestor": ("ancestors", "/"), "user_tag": ("user_tag", "|")}


def grouped(rows: pl.DataFrame, grouping: str) -> pl.DataFrame:
    """Means by group straight from the observations: ``slice, n, nats``."""
    if grouping in SEVERAL:
        column, mark = SEVERAL[grouping]
        rows = rows.with_columns(slice=pl.col(column).str.split(mark)).explode("slice")
    elif grouping == "subword":
        rows = rows.with_columns(slice=pl.format("{}#{}", "subword", "subword_id"))
    else:
        rows = rows.with_columns(slice=grouping)
    named = rows.filter(pl.col("slice") != "").group_by("slice")
    return named.agg(n=pl.len().cast(pl.Int64), nats=pl.col("nats").cast(pl.Float64).mean()).sort("slice")


def scored(scores: pl.DataFrame, grouping: str, metric: str = "nats") -> pl.DataFrame:
    rows = scores.filter(
        (pl.col("metric") == metric)
        & (pl.col("dimensions").list.len() == 1)
        & dimension_value(grouping).is_not_null()
        & (pl.col("task") == "")
    )
    return rows.select(slice=dimension_value(grouping), n="n", nats="value").sort("slice")


def must_be_alike(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    assert found.select("slice", "n").equals(expected.select("slice", "n"))
    assert found.height and float((found["nats"] - expected["nats"]).abs().max()) < 1e-6  # type: ignore[arg-type]


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_no_group_holds_what_begins_a_text(study, grouping: str) -> None:
    later = ROWS.filter(pl.col("position") > 0)
    assert 0 < later.height < ROWS.height
    must_be_alike(scored(study(options={"min_count": 1}).score(ROWS), grouping), grouped(later, grouping))


@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("objective", ["pll", "infill"])
def test_to_a_model_that_sees_both_sides_it_is_a_subword_as_any_other(
    study, grouping: str, objective: str
) -> None:
    scores = study(options={"min_count": 1, "objective": objective}).score(ROWS)
    must_be_alike(scored(scores, grouping), grouped(ROWS, grouping))
    assert scores.filter(dimension_value(FIRST_PART[0]) == FIRST_PART[1]).is_empty()


@pytest.mark.parametrize("grouping", sorted({*GROUPINGS} - {"subword"}))
def test_published_tables_hold_it(study, grouping: str) -> None:
    quirk = study(options={"min_count": 1}, quirks=frozenset({"perplexed.first_in_tables"}))
    must_be_alike(scored(quirk.score(ROWS), grouping), grouped(ROWS, grouping))
    paper = study(options={"min_count": 1}, mode="paper").score(ROWS)
    must_be_alike(scored(paper, grouping), grouped(ROWS, grouping))


def test_calls_and_names_hold_it_neither(study) -> None:
    scores = study(options={"min_count": 1}).score(ROWS)
    later = ROWS.filter((pl.col("position") > 0) & (pl.col("origin") != ""))
    origins = scores.filter(
        (pl.col("task") == "call_origin")
        & (pl.col("dimensions").list.len() == 1)
        & pl.col("weighting").is_null()
    ).select(slice=dimension_value("origin"), n="n", nats="value")
    must_be_alike(origins.sort("slice"), grouped(later, "origin"))
    # A name that begins a text, in two pieces: the second has the first before it, the name has nothing.
    pieces = ["long", "_name", "(", "long", "_name", ")"]
    rows = study().observe("long_name(long_name)", [8.0, 4.0, 1.0, 2.0, 1.0, 1.0], pieces)
    scores = study(options={"min_count": 1}).score(rows)
    assert study.value(scores, "name=long_name", "nats_per_token") == 3.0
    assert study.value(scores, "kind=identifier", "nats") == pytest.approx((4 + 2 + 1) / 3)
    assert study.value(scores, "kind=identifier", "nats_per_token") == 3.0
    assert study.value(scores, "text=first", "nats") == 8.0


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("x = 1\n", ["x", " =", " 1", "\n"]),
        ("# a b\nx = 1\n", ["#", " a", " b", "\n", "x", " =", " 1", "\n"]),
        ("\n\nx = 1\n", ["\n\n", "x", " =", " 1", "\n"]),
        ("f(1)\n", ["f(", "1", ")", "\n"]),
    ],
    ids=["a name", "a comment", "blanks", "two tokens in a piece"],
)
def test_one_subword_a_text_is_apart_and_no_token_is_charged_in_part(
    study, text: str, pieces: list[str]
) -> None:
    nats = [float(2**place) for place in range(len(pieces))]
    rows = study().observe(text, nats, pieces)
    scores = study(options={"min_count": 1}).score(rows)
    assert study.value(scores, "text=first", "nats") == 1.0
    kinds = scored(scores, "kind")
    assert kinds["n"].sum() == len(pieces) - 1
    assert (kinds["n"] * kinds["nats"]).sum() == pytest.approx(sum(nats[1:]))
    # Of a token that begins there no part is counted where whole tokens are; the text is counted whole.
    begun = rows["token"][0] + rows["merged"][0] if rows["token"][0] >= 0 else 0
    per_token = scored(scores, "kind", "nats_per_token")
    later = rows.filter(pl.col("token") >= begun)
    assert (per_token["n"] * per_token["nats"]).sum() == pytest.approx(later["nats"].sum())
    assert study.value(scores, "all", "nats") == pytest.approx(sum(nats) / len(nats))
    assert per_token["n"].sum() == later["token"].n_unique()


def test_where_the_beginning_has_no_score_nothing_is_apart(study) -> None:
    # Without a start token nothing predicts it; the next subword has it before it.
    rows = study().observe("x = 1\n", [float("nan"), 2.0, 3.0, 4.0])
    scores = study(options={"min_count": 1}).score(rows)
    assert scores.filter(dimension_value("text") == "first").is_empty()
    assert scored(scores, "kind")["n"].sum() == 3


def test_a_later_window_has_text_before_it_and_is_not_apart(study) -> None:
    pieces, context = ["x", " =", " 1", "\n", "y", " =", " 2"], [0, 1, 2, 3, 1, 2, 3]
    rows = study().observe("x = 1\ny = 2", pieces=pieces, context=context)
    scores = study(options={"min_count": 1}).score(rows)
    assert study.value(scores, "subword=y#5", "nats") == 5.0
    assert scores.filter((dimension_value("text") == "first") & (pl.col("metric") == "nats"))["n"].item() == 1


def test_behind_a_file_the_same_subwords_are_apart(study) -> None:
    behind = {"file_nats": "nats", "file_rank": "rank", "file_entropy": "entropy"}
    rows = ROWS.with_columns(
        *(pl.col(own).alias(name) for name, own in behind.items()),
        file_context=pl.col("context") + 7,
        file_top_nats=pl.col("top_nats").list.first(),
    ).with_columns(pl.col("file_nats") / 2)
    scores = study(options={"min_count": 1, "before": "both"}).score(rows)
    for grouping in GROUPINGS:
        named = scores.filter(
            (pl.col("metric") == "nats") & (pl.col("dimensions").list.len() == 2) & (pl.col("task") == "")
        )
        named = named.filter(dimension_value(grouping).is_not_null()).with_columns(
            before=dimension_value("before")
        )
        for before, factor in (("file", 0.5), ("file-none", -0.5)):
            found = named.filter(pl.col("before") == before)
            found = found.select(slice=dimension_value(grouping), n="n", nats=pl.col("value") / factor).sort(
                "slice"
            )
            must_be_alike(found, grouped(ROWS.filter(pl.col("position") > 0), grouping))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the bundled decoder over a few functions, with windows shorter than they are."""
    base = tmp_path_factory.mktemp("first")
    for name in "abc":
        (base / "code" / name).mkdir(parents=True)
        body = "".join(
            f"def {name}{at}(value, other):\n    # sums {at}\n    total = value + other * {at}\n"
            f"    return [math.floor(total) for _ in range({at})]\n\n\n"
            for at in range(8)
        )
        (base / "code" / name / "code.py").write_text(f"import math\n\n\n{body}")
    sonde.run(
        models=["sonde/mini-decoder"],
        lenses=["surprisal"],
        corpora=[f"local:{base / 'code'}"],
        languages=["python"],
        output=base / "run",
        options={"surprisal": {"min_count": 1}},
        context=16,
    )
    return base / "run"


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_in_a_run_no_row_that_is_ranked_holds_a_position_0(folder: Path, grouping: str) -> None:
    rows = pl.concat(pl.read_parquet(path) for path in sorted((folder / "observations").rglob("*.parquet")))
    assert rows.filter(pl.col("position") == 0).height == rows["item_id"].n_unique() > 5
    assert rows.filter(pl.col("context") < pl.col("position")).height > 100, "later windows"
    scores = with_slices(pl.read_parquet(folder / "scores.parquet"))
    found = scored(scores, grouping)
    if grouping == "user_tag":
        assert found.is_empty()
        return
    must_be_alike(found, grouped(rows.filter(pl.col("position") > 0), grouping))
    overall = scores.filter((pl.col("slice") == "all") & (pl.col("metric") == "bits"))
    assert overall["n"].item() == rows.height
    if grouping == "tag":
        begins = rows.filter(pl.col("position") == 0)["tag"].unique()
        assert begins.to_list() == ["function_definition -> def"] and begins[0] not in found["slice"]


@pytest.mark.parametrize("section", [worst_best_constructs, worst_best_tags, worst_best_subwords, kinds])
def test_sections_that_rank_say_what_is_in_no_row(folder: Path, section: ModuleType) -> None:
    run = RunData(folder)
    figure = section.plot.draw(run)
    number = with_slices(pl.read_parquet(folder / "scores.parquet")).filter(
        (pl.col("slice") == "text=first") & (pl.col("metric") == "bits")
    )
    (note,) = [note for note in figure.notes if "begins a text" in note]
    assert f"; the mean of {number['n'].item()} is {number['value'].item():.2f} " in note


def test_frequencies_and_quantiles_keep_it_apart_too(folder: Path) -> None:
    run = RunData(folder)
    (model,) = run.models
    texts = read_first_subwords(run)["n"].item()
    read = distribution._count_by_bin(run, model)  # pyright: ignore[reportPrivateUsage]
    assert read.filter(pl.col("kind") == "begins a text")["n"].sum() == texts
    entries = frequency_loss._entries(run, model)  # pyright: ignore[reportPrivateUsage]
    assert entries["count"].sum() == read["n"].sum() - texts
