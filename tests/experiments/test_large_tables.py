"""Large tables of labels: what is drawn is what is drawn of all rows, and only that is held."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sonde.corpora import Selection, select
from sonde.experiments.datasets import select_pool
from sonde.tasks import build, plan_first_items
from tests.corpora.test_labelled import WRITERS

Row = dict[str, Any]
WORDS = ("alpha", "beta", "gamma", "delta", "total", "count", "index", "value", "name", "path")


def code(number: int) -> str:
    """A function unlike most others; some are nearly alike."""
    names = [f"{WORDS[(number // 10**at) % 10]}{number % (at + 7)}" for at in range(4)]
    lines = [f"    {one} = {two} + {number % 97}" for one, two in itertools.pairwise(names)]
    return "\n".join([f"def {names[0]}_{number}({', '.join(dict.fromkeys(names))}):", *lines, ""])


def classes(number: int) -> Iterator[Row]:
    yield {"code": code(number), "label": "ab"[number % 3 == 0]}


def numbers(number: int) -> Iterator[Row]:
    yield {"code": code(number), "label": number * 7919 % 10_007}


def pairs(number: int) -> Iterator[Row]:
    yield {"code": code(number), "label": "ab"[number % 3 == 0], "other": code(number + 1)}


def spans(number: int) -> Iterator[Row]:
    for label, start in (("name", 4), ("other", 20)):
        yield {"code": code(number), "label": label, "start": start, "end": start + 6 + number % 3}


def splits(number: int) -> Iterator[Row]:
    for row in classes(number):
        yield row | {"split": ("train", "test", "valid", "train", "")[number % 5]}


def grouped(number: int) -> Iterator[Row]:
    for row in classes(number):
        yield row | {"group": f"g{number % 90}" if number % 7 else ""}


def repeated(number: int) -> Iterator[Row]:
    """Ids and texts of earlier rows, other labels and no label."""
    for row in splits(number - number % 11 // 10):
        yield row | {
            "id": f"i{number - number % 13 // 12}",
            "label": "" if number % 17 == 3 else row["label"],
        }


KINDS: dict[str, tuple[Callable[[int], Iterator[Row]], str, str]] = {
    "classes": (classes, "labelled", ""),
    "numbers": (numbers, "labelled", ""),
    "pairs": (pairs, "labelled_pairs", "?text_b=other"),
    "spans": (spans, "labelled_spans", "?start=start&end=end"),
    "splits": (splits, "labelled", ""),
    "grouped": (grouped, "labelled", ""),
    "repeated": (repeated, "labelled", ""),
}


def written(folder: Path, kind: str, suffix: str, rows: int) -> tuple[str, str]:
    """A table of a kind as a corpus, and the task of its labels."""
    of, task, query = KINDS[kind]
    path = folder / f"{kind}.{suffix}"
    WRITERS[suffix](path, [row for number in range(rows) for row in of(number)])
    return f"labelled:{path}{query}", task


@pytest.mark.slow
@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_rows_by_hash_give_what_all_rows_give(tmp_path: Path, kind: str, suffix: str) -> None:
    corpus, task = written(tmp_path, kind, suffix, 900)
    wanted = select_pool(Selection(languages=("python",)))
    whole = select(corpus, wanted)
    for size in (60, 200):
        told: list[int] = []
        first = plan_first_items([task], size=size, seed=0)
        few = select(corpus, wanted, first=first, advance=told.append)
        expected = build(task, whole.items, size=size, language="python")
        found = build(task, few.items, size=size, language="python")
        assert found.examples.equals(expected.examples)
        texts = {item.item_id: item for item in whole.items}
        assert all(texts[item.item_id] == item for item in few.items)
        assert len(few.items) < len(whole.items)
        assert (few.corpus_hash, few.found) == (whole.corpus_hash, whole.found)
        assert few.found == len(few.items) + sum(few.left_out.values())
        assert sum(told) >= 900


def test_rows_that_repeat_each_other_are_read_until_there_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    rows = [row | {"group": f"g{number % 60}"} for number in range(400) for row in classes(number % 40)]
    for number, row in enumerate(rows):
        row["code"] += f"    return {number}\n"
    WRITERS["csv"](path, rows)
    wanted = select_pool(Selection(languages=("python",)))
    few = select(f"labelled:{path}", wanted, first=plan_first_items(["labelled"], size=30, seed=0))
    whole = select(f"labelled:{path}", wanted)
    assert len(few.items) > 60
    expected = build("labelled", whole.items, size=30, language="python")
    assert build("labelled", few.items, size=30, language="python").examples.equals(expected.examples)


CHILD = """
import sys
from sonde.base.process import measure_peak_memory
from sonde.corpora import Selection
from sonde.base.progress import NullProgress
from sonde.experiments.label_files import LabelOptions, write_label_files
from contextlib import contextmanager

class Counted(NullProgress):
    rows = 0

    @contextmanager
    def stage(self, title, total=None):
        def advance(count=1, /):
            self.rows += count
        yield advance

corpus, task, output = sys.argv[1:]
counted = Counted()
wanted = LabelOptions(task=task, corpora=(corpus,), selection=Selection(limit=40), progress=counted)
write_label_files(wanted, [task], output)
print(counted.rows, measure_peak_memory())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "suffix"), [("classes", "csv"), ("numbers", "jsonl"), ("pairs", "parquet"), ("spans", "csv")]
)
def test_a_large_table_takes_little_memory(tmp_path: Path, kind: str, suffix: str) -> None:
    corpus, task = written(tmp_path, kind, suffix, 200_000)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, corpus, task, str(tmp_path / "out.jsonl")],
        capture_output=True,
        text=True,
        check=True,
    )
    rows, peak = map(int, done.stdout.split())
    assert rows >= 200_000
    # A row group of Parquet is decoded as a whole.
    assert peak < (500_000_000 if suffix == "parquet" else 400_000_000), peak
