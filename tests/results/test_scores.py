"""The table of scores: typed dimensions, named columns, and files of the schema before."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.results.dimensions import dimension, dimensions_are, dimensions_named, in_words
from sonde.results.schema1 import slice_of
from sonde.results.scores import (
    SCHEMA_VERSION,
    SCORES_COLUMNS,
    SCORES_SCHEMA,
    Score,
    known_columns,
    read_scores,
    scores_frame,
    scores_from,
)

BEFORE = Path(__file__).with_name("schema1.parquet")
"""Rows of every kind that schema 1 had, written by the version that had it."""

TEXT = st.text(alphabet=st.sampled_from(list(";=#|ab Ġ→")), max_size=6)
NAMES = st.sampled_from(["tag", "origin", "subword", "user_tag", "selection", "epoch"])


def score(*dimensions: tuple[str, str], **more: Any) -> Score:
    fields: dict[str, Any] = {
        "model": "m",
        "lens": "surprisal",
        "metric": "bits",
        "value": 1.0,
        "n": 1,
        "n_clusters": 1,
    }
    return Score(**(fields | more), dimensions=dimensions)


def schema1(lens: str, slice_: str, *, metric: str = "bits", task: str = "", **params: Any) -> pl.DataFrame:
    """A table as schema 1 wrote it, of one row."""
    held = {"k": pl.Int64, "l2": pl.Float64, "name": pl.String, "other": pl.String}
    row = {
        "model": "m", "lens": lens, "metric": metric, "task": task, "slice": slice_, "value": 1.0, "n": 3,
        "n_clusters": 2, "params": {name: params.get(name) for name in held}, "schema_version": 1,
    }  # fmt: skip
    return pl.DataFrame([row], schema_overrides={"params": pl.Struct(held)})


@given(st.lists(st.tuples(NAMES, TEXT), max_size=3, unique_by=lambda one: one[0]), st.integers(0, 9))
def test_scores_come_back_from_their_table(dimensions: list[tuple[str, str]], k: int) -> None:
    made = [
        score(*dimensions, k=k, l2=0.5, method="linear", fold_layers=(k, 2)),
        score(objective="pll", n_relations=k, compared_to="offset", of_metric="accuracy", control="chance"),
    ]
    assert scores_from(scores_frame(made)) == made


@given(st.lists(st.tuples(NAMES, TEXT), max_size=3, unique_by=lambda one: one[0]))
def test_rows_are_chosen_by_their_dimensions_whatever_these_hold(dimensions: list[tuple[str, str]]) -> None:
    table = scores_frame([score(*dimensions)])
    held = dict(dimensions)
    for name in ("tag", "origin", "subword", "user_tag", "selection", "epoch"):
        assert table.select(dimension(name)).item() == held.get(name)
    assert table.select(dimensions_are(held), a=dimensions_named(*held)).row(0) == (True, True)
    assert table.select(dimensions_are({}), a=dimensions_named()).row(0) == (not held, not held)
    assert table.select(dimensions_named(*held, "kind")).row(0) == (False,)
    assert table.select(dimensions_are({name: f"{value}x" for name, value in held.items()})).item() == (
        not held
    )


def test_values_that_slices_ran_together_stay_apart() -> None:
    """Two labels of a user and a subword, which one text could not tell from two dimensions."""
    label = score(("user_tag", "a;tag=b"))
    nested = score(("user_tag", "a"), ("tag", "b"))
    assert label.slice == nested.slice == "user_tag=a;tag=b"
    table = scores_frame([label, nested, score(("subword", ";#31"))])
    assert table.select(a=dimension("user_tag"), b=dimension("tag")).rows() == [
        ("a;tag=b", None), ("a", "b"), (None, None),
    ]  # fmt: skip
    assert table.filter(dimension("subword") == ";#31").height == 1
    assert table.select(in_words())["dimensions"].to_list()[1] == "user_tag a, tag b"


@pytest.mark.parametrize(
    ("dimensions", "written"),
    [
        ((), "all"),
        ((("text", "layout"),), "layout"),
        ((("before", "file"), ("text", "code")), "before=file;code"),
        ((("origin", "internal"), ("tag", "call -> identifier")), "origin=internal;tag=call -> identifier"),
        ((("selection", "best"), ("length", "removed")), "best;without length"),
        ((("types", "seen"),), "types seen"),
        ((("relation", "If:if->body"), ("distance", "near")), "relation=If:if->body"),
        ((("distance", "near"),), "near"),
        ((("average", "edges"),), "edges"),
        ((("followed", "If:if->body"),), "head"),
        ((("fraction", "0.5"), ("epoch", "3")), "fraction=0.5;epoch"),
        ((("setting", "rate 0.1"),), "setting"),
        ((("reason", "too few; raise it"),), "too few; raise it"),
    ],
)
def test_the_slice_is_what_earlier_versions_wrote(
    dimensions: tuple[tuple[str, str], ...], written: str
) -> None:
    assert slice_of(dimensions) == written
    assert scores_frame([score(*dimensions)])["slice"].to_list() == [written]


@pytest.mark.parametrize(
    ("table", "dimensions", "columns"),
    [
        (schema1("surprisal", "subword=;#31"), {"subword": ";#31"}, {"objective": "causal"}),
        (schema1("surprisal", "user_tag=a;b=c", other="pll"), {"user_tag": "a;b=c"}, {"objective": "pll"}),
        (
            schema1("surprisal", "origin=internal;tag=a;b", metric="nats", task="call_origin", name="count"),
            {"origin": "internal", "tag": "a;b"},
            {"weighting": "count"},
        ),
        (
            schema1("surprisal", "all", metric="ece", name="equal_mass", k=10),
            {},
            {"binning": "equal_mass", "k": 10},
        ),
        (
            schema1("surprisal", "all", metric="spearman_frequency_corpus", name="tag", k=20),
            {},
            {"unit": "tag", "k": 20},
        ),
        (
            schema1("probe", "best", metric="accuracy", name="linear", l2=0.1, k=3, other="layers 2 3 2"),
            {"selection": "best"},
            {"method": "linear", "l2": 0.1, "k": 3, "fold_layers": [2, 3, 2]},
        ),
        (schema1("probe", "a;b is few", metric="left_out"), {"reason": "a;b is few"}, {}),
        (
            schema1("attention", "relation=If:if->body", metric="first_hit", name="+1", k=1),
            {"relation": "If:if->body"},
            {"chosen": "+1", "k": 1},
        ),
        (
            schema1("attention", "near", metric="first_hit_gain", name="7 relations", other="offset", k=1),
            {"distance": "near"},
            {"n_relations": 7, "compared_to": "offset", "chosen": None},
        ),
        (
            schema1("attention", "head", metric="first_hit", name="If:if->body", k=1),
            {"followed": "If:if->body"},
            {"chosen": None},
        ),
        (
            schema1("attention", "relation=r", metric="mean_offset", name="far"),
            {"relation": "r", "distance": "far"},
            {"chosen": None},
        ),
        (
            schema1("cloze", "template=call;library=a;b", task="api_cloze", name="single", k=10),
            {"template": "call", "library": "a;b"},
            {"matching": "single", "k": 10},
        ),
        (
            schema1("cloze", "pair=fake_name;form=call", task="api_fakes", name="causal", other="mean"),
            {"pair": "fake_name", "form": "call"},
            {"objective": "causal", "aggregation": "mean", "matching": None},
        ),
        (
            schema1("prompting", "template=call", name="generative"),
            {"template": "call"},
            {"matching": "generative"},
        ),
        (
            schema1("finetune", "fraction=0.5;gold=a;b;predicted=c;d", metric="confusion"),
            {"fraction": "0.5", "gold": "a;b", "predicted": "c;d"},
            {},
        ),
        (
            schema1("finetune", "fraction=0.5", metric="change", name="accuracy", other="fraction=1"),
            {"fraction": "0.5"},
            {"of_metric": "accuracy", "compared_to": "fraction=1"},
        ),
        (schema1("finetune", "epochs=2;epoch", metric="loss", k=2), {"epochs": "2", "epoch": "2"}, {"k": 2}),
        (
            schema1("finetune", "setting", metric="valid", name="rate 0.1, batch 8"),
            {"setting": "rate 0.1, batch 8"},
            {"of_metric": None},
        ),
        (
            schema1("their_lens", "colour=red;half", metric="share", name="fast", other="slow"),
            {"colour": "red", "part": "half"},
            {"method": "fast", "compared_to": "slow"},
        ),
    ],
)
def test_rows_of_schema_1_are_read_as_schema_2(
    table: pl.DataFrame, dimensions: dict[str, str], columns: dict[str, Any], tmp_path: Path
) -> None:
    table.write_parquet(tmp_path / "scores.parquet")
    read = read_scores(tmp_path / "scores.parquet")
    assert read.schema == pl.Schema(SCORES_SCHEMA)
    (row,) = read.to_dicts()
    assert [(one["name"], one["value"]) for one in row["dimensions"]] == list(dimensions.items())
    assert {name: row[name] for name in columns} == columns
    assert row["schema_version"] == SCHEMA_VERSION
    # What was written stays, and is what the dimensions give.
    assert row["slice"] == table["slice"].item() == slice_of(tuple(dimensions.items()))
    assert [one.slice for one in scores_from(read)] == [row["slice"]]


def test_a_file_of_schema_1_keeps_every_number_and_every_slice() -> None:
    written = pl.read_parquet(BEFORE)
    assert set(written["schema_version"]) == {1} and "params" in written.columns
    read = read_scores(BEFORE)
    same = [name for name in written.columns if name not in ("params", "schema_version")]
    assert read.select(same).equals(written.select(same))
    assert [one.slice for one in scores_from(read)] == written["slice"].to_list()
    # Each of the names that the struct held went into a column of its own, or a dimension.
    named = written.select(pl.col("params").struct.field("name").is_not_null()).to_series()
    into = [
        "method",
        "matching",
        "objective",
        "weighting",
        "binning",
        "unit",
        "chosen",
        "n_relations",
        "of_metric",
    ]
    dimensions = [dimension(name).is_not_null() for name in ("followed", "distance", "setting")]
    assert (
        read.filter(named)
        .select(pl.any_horizontal(*(pl.col(name).is_not_null() for name in into), *dimensions).all())
        .item()
    )
    assert scores_from(scores_frame(scores_from(read))) == scores_from(read)


def test_known_columns_of_a_table_of_today_are_the_table() -> None:
    table = scores_frame([score(("tag", "a")), score()])
    assert known_columns(table).equals(table)
    # A later column that a file lacks is null.
    assert known_columns(table.drop("p_value")).equals(table)


def test_every_column_but_the_dimensions_is_flat_in_pandas() -> None:
    table = scores_frame([score(("tag", "a"), k=3, method="linear"), score()]).to_pandas()
    assert table[(table.k == 3) & (table.method == "linear")].shape[0] == 1
    nested = {name for name, kind in SCORES_SCHEMA.items() if pl.Schema({name: kind})[name].is_nested()}
    assert nested == {"dimensions", "fold_layers"}


def test_the_documented_columns_are_those_of_the_schema() -> None:
    text = (Path(__file__).parents[2] / "docs/files.md").read_text(encoding="utf-8")
    part = text.partition("## `scores.parquet`")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (.+) \|$", part, re.MULTILINE)
    assert [(name, said) for name, _, said in listed] == [
        (name, said) for name, (_, said) in SCORES_COLUMNS.items()
    ]
