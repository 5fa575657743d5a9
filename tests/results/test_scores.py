"""The table of scores: typed dimensions and named columns; files of another schema are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.errors import InputError
from sonde.results.schema import dimension_value, dimensions_text, has_dimension_names, has_dimensions
from sonde.results.scores import (
    SCHEMA_VERSION,
    SCORES_COLUMNS,
    SCORES_SCHEMA,
    Score,
    frame_to_scores,
    read_scores,
    scores_to_frame,
)

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


@given(st.lists(st.tuples(NAMES, TEXT), max_size=3, unique_by=lambda one: one[0]), st.integers(0, 9))
def test_scores_come_back_from_their_table(dimensions: list[tuple[str, str]], k: int) -> None:
    made = [
        score(*dimensions, k=k, l2=0.5, method="linear", fold_layers=(k, 2)),
        score(objective="pll", n_relations=k, compared_to="offset", of_metric="accuracy", control="chance"),
    ]
    assert frame_to_scores(scores_to_frame(made)) == made


@given(st.lists(st.tuples(NAMES, TEXT), max_size=3, unique_by=lambda one: one[0]))
def test_rows_are_chosen_by_their_dimensions_whatever_these_hold(dimensions: list[tuple[str, str]]) -> None:
    table = scores_to_frame([score(*dimensions)])
    held = dict(dimensions)
    for name in ("tag", "origin", "subword", "user_tag", "selection", "epoch"):
        assert table.select(dimension_value(name)).item() == held.get(name)
    assert table.select(has_dimensions(held), a=has_dimension_names(*held)).row(0) == (True, True)
    assert table.select(has_dimensions({}), a=has_dimension_names()).row(0) == (not held, not held)
    assert table.select(has_dimension_names(*held, "kind")).row(0) == (False,)
    assert table.select(has_dimensions({name: f"{value}x" for name, value in held.items()})).item() == (
        not held
    )


def test_values_that_look_like_two_dimensions_stay_apart() -> None:
    """Two labels of a user and a subword, whose values hold what separates dimensions as they are written."""
    label = score(("user_tag", "a;tag=b"))
    nested = score(("user_tag", "a"), ("tag", "b"))
    table = scores_to_frame([label, nested, score(("subword", ";#31"))])
    assert table.select(a=dimension_value("user_tag"), b=dimension_value("tag")).rows() == [
        ("a;tag=b", None), ("a", "b"), (None, None),
    ]  # fmt: skip
    assert table.filter(dimension_value("subword") == ";#31").height == 1
    assert table.select(dimensions_text())["dimensions"].to_list()[1] == "user_tag a, tag b"


def of_version(version: int) -> pl.Expr:
    return pl.lit(version, pl.Int32).alias("schema_version")


OLD, NEW = SCHEMA_VERSION - 1, SCHEMA_VERSION + 1
SPOILED: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], str]] = {
    "of another schema": (
        lambda table: table.with_columns(of_version(OLD)).drop("dimensions"),
        f"of schema version {OLD}, and sonde reads {SCHEMA_VERSION}; run the experiment again",
    ),
    "of two schemas": (
        lambda table: pl.concat([table, table.with_columns(of_version(NEW))]),
        f"of schema version {NEW}, and sonde reads {SCHEMA_VERSION}; run the experiment again",
    ),
    **{
        f"without {name}": (
            lambda table, name=name: table.drop(name),
            f"no column {name!r}; run the experiment again",
        )
        for name in SCORES_SCHEMA
    },
}


@pytest.mark.parametrize("way", SPOILED)
def test_a_table_of_another_schema_is_refused_in_one_line(way: str, tmp_path: Path) -> None:
    spoil, said = SPOILED[way]
    path = tmp_path / "scores.parquet"
    spoil(scores_to_frame([score(("tag", "a")), score()])).write_parquet(path)
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        read_scores(path)
    assert "\n" not in str(refused.value)


def test_a_table_that_was_written_is_the_table(tmp_path: Path) -> None:
    table = scores_to_frame([score(("tag", "a")), score()])
    table.with_columns(more=1).write_parquet(tmp_path / "scores.parquet")
    assert read_scores(tmp_path / "scores.parquet").equals(table)


def test_every_column_but_the_dimensions_is_flat_in_pandas() -> None:
    table = scores_to_frame([score(("tag", "a"), k=3, method="linear"), score()]).to_pandas()
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
