"""Data sets over the same programs in other words: the same examples, all accounted for."""

from __future__ import annotations

import argparse
import inspect
import shlex
import textwrap
import tokenize
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Item, Selection, select
from sonde.corpora.engine.parallel import ONE, ParallelMap
from sonde.languages import get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.tasks import Dataset, LabelRequest, PoolTransform, build, build_pairs, transform_dataset

TASKS = (
    "early_return",
    "block_depth",
    "data_dependency",
    "sri",
    "jbl",
    "variable_misuse",
    "misuse_repair",
    "wrong_operator",
)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> tuple[Item, ...]:
    folder = tmp_path_factory.mktemp("modules")
    for module in (argparse, shlex, textwrap, tokenize, inspect):
        (folder / f"{module.__name__}.py").write_text(inspect.getsource(module), encoding="utf-8")
    return select(f"local:{folder}", Selection()).items


@cache
def question(task: str) -> LabelRequest:
    return LabelRequest(task, 0, "corrected", frozenset(), {})


def both(
    task: str, pool: tuple[Item, ...], transform: str, spread: ParallelMap = ONE
) -> tuple[Dataset, Dataset]:
    made = build(task, pool, size=60, language="python")
    words = PoolTransform(transform, "python", 0, pool)
    return made, transform_dataset(made, pool, words, question(task), spread)


def texts(made: Dataset, pool: tuple[Item, ...]) -> dict[str, str]:
    return {item.item_id: item.text for item in (*pool, *made.inputs)}


@pytest.mark.parametrize("task", TASKS)
def test_examples_are_those_of_the_code_as_written(task: str, pool: tuple[Item, ...]) -> None:
    made, changed = both(task, pool, "rename")
    same = made.examples.join(changed.examples, on="example_id", suffix="_there", validate="1:1")
    assert 0.6 * made.examples.height < same.height == changed.examples.height
    for name in ("split", "cluster", "label", "matched", "given_split"):
        assert same[name].equals(same[f"{name}_there"]), name
    before, after = texts(made, pool), texts(changed, ())
    originals = {item.item_id: item.original for item in changed.inputs}
    for row in same.iter_rows(named=True):
        text, there = before[row["item_id"]], after[row["item_id_there"]]
        assert originals[row["item_id_there"]] == row["item_id"]
        assert text != there
        assert row["characters_there"] == len(there)
        assert row["tokens"] == row["tokens_there"]
        if (row["start"], row["end"]) == (0, len(text)):
            assert (row["start_there"], row["end_there"]) == (0, len(there))
        else:
            word, other = text[row["start"] : row["end"]], there[row["start_there"] : row["end_there"]]
            assert (
                word == other or (word.isidentifier() and other.startswith("v")) or row["start"] == row["end"]
            )
    report = changed.report["transform"]
    assert report["kept"] == changed.examples.height
    assert sum(report.values()) == made.examples.height


def test_functions_are_kept_or_left_out_with_their_changed_copies(pool: tuple[Item, ...]) -> None:
    for task in ("variable_misuse", "wrong_operator"):
        _, changed = both(task, pool, "shuffle")
        counted = changed.examples.group_by("source_id").agg(pl.len(), pl.col("label").n_unique())
        assert set(counted["len"]) == {2}
        assert set(counted["label"]) == {2}


def test_a_pointer_points_at_the_same_variables(pool: tuple[Item, ...]) -> None:
    made, changed = both("misuse_repair", pool, "rename")
    same = made.examples.join(changed.examples, on="example_id", suffix="_there").filter(pl.col("end") > 0)
    before, after = texts(made, pool), texts(changed, ())
    bugs = get_facet("python", "misuse", BugSites)
    for row in same.iter_rows(named=True):
        text, there = before[row["item_id"]], after[row["item_id_there"]]
        for name in ("", "other_"):
            start, end = (row[f"{name}{one}_there"] for one in ("start", "end"))
            numbers = [
                [(one.start, one.end) for one in bugs.variables(held).places] for held in (text, there)
            ]
            assert numbers[0].index((row[f"{name}start"], row[f"{name}end"])) == numbers[1].index(
                (start, end)
            )


def test_words_beside_a_function_stay(tmp_path: Path) -> None:
    words = ["makes", "takes", "gives", "finds", "turns", "holds", "reads", "sends", "loses", "keeps"]
    for number, verb in enumerate(words * 6):
        text = f'def f{number}(first, second):\n    """This one {verb} first {number}."""\n    # why\n'
        (tmp_path / f"m{number}.py").write_text(f"{text}    return first * {number} + second\n")
    pool = select(f"local:{tmp_path}", Selection()).items
    for transform in ("rename", "docstrings"):
        made, changed = both("function_docstring", pool, transform)
        same = made.examples.join(changed.examples, on="example_id", suffix="_there")
        assert same.height > 30
        before, after = texts(made, pool), texts(changed, ())
        for row in same.iter_rows(named=True):
            text, there = before[row["item_id"]], after[row["item_id_there"]]
            assert (
                text[row["other_start"] : row["other_end"]]
                == there[row["other_start_there"] : row["other_end_there"]]
            )
            function = there[: row["end_there"]]
            assert "first" not in function if transform == "rename" else "# why" not in function
            assert '"""' not in function


def test_names_that_mislead_depend_on_the_pool_alone(pool: tuple[Item, ...]) -> None:
    made = build("early_return", pool, size=60, language="python")
    other = build("sri", pool, size=60, language="python")
    alone = PoolTransform("mislead", "python", 0, pool)
    after = PoolTransform("mislead", "python", 0, pool[::-1])
    transform_dataset(other, pool, after, question("sri"), ONE)
    found = [transform_dataset(made, pool, one, question("early_return"), ONE) for one in (alone, after)]
    assert found[0].examples.equals(found[1].examples)
    assert [one.text for one in found[0].inputs] == [one.text for one in found[1].inputs]


def test_minimal_pairs_keep_their_names_and_are_measured_anew(pool: tuple[Item, ...]) -> None:
    words = PoolTransform("rename", "python", 0, pool)
    made, changed = (
        build_pairs("variable_misuse", pool, size=40, language="python", transform=one)
        for one in (None, words)
    )
    same = made.examples.join(changed.examples, on="example_id", suffix="_there", validate="1:1")
    assert 20 < same.height == changed.examples.height
    assert changed.examples["source_id"].n_unique() == changed.examples.height / 2
    before, after = texts(made, pool), texts(changed, ())
    renamed = 0
    for row in same.iter_rows(named=True):
        assert row["original"] == row["original_there"]
        place = after[row["item_id_there"]][row["start_there"] : row["end_there"]]
        written = before[row["item_id"]][row["start"] : row["end"]]
        assert place == written or place.startswith("v")
        renamed += place != written
        assert row["distance"] == row["distance_there"]
        # Functions are counted as they are shown: of renamed ones most names are known.
        assert row["frequency_there"] >= 0
    assert renamed > same.height / 2
    assert same["frequency_there"].sum() > same["frequency"].sum()
    assert changed.report["transform"]["kept"] == changed.examples.height / 2


def test_a_class_that_is_gone_and_what_is_no_code_are_refused(pool: tuple[Item, ...]) -> None:
    made = build("sri", pool, size=60, language="python")
    words = PoolTransform("swap", "python", 0, pool)
    with pytest.raises(InputError, match="'swap' leaves no example of class"):
        transform_dataset(made, pool, words, question("sri"), ONE)
    with pytest.raises(UsageError, match="changes code"):
        PoolTransform("rename", "text", 0, ())


def test_processes_change_nothing(pool: tuple[Item, ...]) -> None:
    made = build("early_return", pool, size=60, language="python")
    found = [
        transform_dataset(
            made, pool, PoolTransform("layout", "python", 0, pool), question("early_return"), spread
        )
        for spread in (ONE, ParallelMap(workers=2, worth=10))
    ]
    assert found[0].examples.equals(found[1].examples)
