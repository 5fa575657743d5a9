"""Examples of fine-tuning on a run written by hand: what is marked and drawn, and that code is escaped."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.synthetic import write_run

from sonde.report import PLOTS, RunData, write_report
from sonde.report.sections.finetune import MARKS, build_examples, cut_excerpt, split_segments
from sonde.store.run_folder import RunDirectory, slug

MODEL = "org/one"
HOSTILE = "def f(a, b):\n    '''</pre><script>alert(1)</script>'''\n    return a < b\n"


def answer(number: int, task: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "example", "baseline": "", "example_id": f"e{number}", "item_id": f"i{number}",
        "split": "test", "cluster": "c", "label": "Variable misuse", "predicted": "Correct",
        "classes": ["Correct", "Variable misuse"], "probability": [0.6, 0.4], "correct": False,
        "located": None, "repaired": None, "buggy": None, "truncated": False, "pointed_start": None,
        "pointed_end": None, "repair_start": None, "repair_end": None, "method": "pretrained", "task": task,
        "seed": 0, "variant": "", "words": None, "starts": None, "weights": None, **more,
    }  # fmt: skip


def label(number: int, start: int, end: int, **more: Any) -> dict[str, Any]:
    fields = {"other_start": None, "other_end": None, "source_id": "source"}
    return {"example_id": f"e{number}", "item_id": f"i{number}", "start": start, "end": end, **fields, **more}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_run(tmp_path_factory.mktemp("runs") / "examples", [], {MODEL: 1.0})
    clean = HOSTILE
    buggy = HOSTILE.replace("a < b", "a < a")
    at = buggy.index("a < a")
    texts = {"source": clean, "i1": buggy, "i2": clean, "i3": buggy}
    items = [
        {
            "item_id": name,
            "path": "pkg/mod.py",
            "name": "f/`b` -> `a`" if text == buggy else "f",
            "text": text,
        }
        for name, text in texts.items()
    ]
    names = {"corpus": "", "identifier": "", "language": "python", "cluster": "c"}
    frame = pl.DataFrame([{**item, **names, "characters": len(item["text"])} for item in items])
    frame.head(1).write_parquet(RunDirectory(root).items)
    frame.tail(3).write_parquet(RunDirectory(root).inputs)
    weights = np.zeros((4, 4), np.float16)
    weights[:, 2] = 0.5
    drawn = {"words": ["<s>", "a", "<", "\n"], "starts": [-1, 0, 2, 3], "weights": weights.tobytes()}
    tables = {
        "variable_misuse": [answer(1, "variable_misuse"), answer(2, "variable_misuse", correct=True)],
        "misuse_repair": [
            answer(
                3, "misuse_repair", classes=["nothing", "something"], predicted="something", located=False,
                repaired=False, buggy=True, pointed_start=at, pointed_end=at + 1,
                repair_start=6, repair_end=7,
            ),
            answer(3, "misuse_repair", kind="attention", **drawn),
        ],
    }  # fmt: skip
    labels = {
        "variable_misuse": [label(1, 0, len(buggy)), label(2, 0, len(clean))],
        "misuse_repair": [label(3, at + 4, at + 5, other_start=9, other_end=10)],
    }
    for task, rows in tables.items():
        path = root / f"observations/lens=finetune/model={slug(MODEL)}/{task}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows, infer_schema_length=None, schema_overrides=_TYPES).write_parquet(path)
        path = root / f"labels/task={task}/python-0.parquet"
        path.parent.mkdir(parents=True)
        pl.DataFrame(
            labels[task], schema_overrides={"other_start": pl.Int32, "other_end": pl.Int32}
        ).write_parquet(path)
    return root


_TYPES = {
    **dict.fromkeys(("pointed_start", "pointed_end", "repair_start", "repair_end"), pl.Int32),
    **dict.fromkeys(("located", "repaired", "buggy"), pl.Boolean),
    "words": pl.List(pl.String),
    "starts": pl.List(pl.Int32),
    "weights": pl.Binary,
}


def marked(run: RunData, table: str) -> dict[str, str]:
    rows = run.table("finetune", run.models[0])
    assert rows is not None
    (row,) = rows.filter((pl.col("example_id") == table) & (pl.col("kind") == "example")).collect().to_dicts()
    (one,) = build_examples(run, [{**row, "confidence": 0.6}])
    return {marks: text for text, marks in one["segments"] if marks}


def test_an_error_is_marked_where_the_text_differs_from_what_it_was_made_from(folder: Path) -> None:
    assert marked(RunData(folder), "e1") == {"error": "a"}
    assert marked(RunData(folder), "e2") == {}


def test_a_pointer_shows_where_it_points_and_where_it_should(folder: Path) -> None:
    found = marked(RunData(folder), "e3")
    assert found == {"chosen": "a", "repair": "b", "pointed": "a", "error": "a"}
    figure = PLOTS.load("finetune_examples").draw(RunData(folder))
    assert figure is not None and figure.embed is not None
    groups = {group["title"]: group for group in figure.embed.context["groups"]}
    assert groups["Misuse repair"]["examples"][0]["found"] == "error looked for elsewhere"
    assert groups["Variable misuse"]["counts"] == "1 of 2 wrong"
    assert [one["right"] for one in groups["Variable misuse"]["examples"]] == [False, True]


def test_the_page_shows_code_as_text(folder: Path) -> None:
    page = write_report(folder).read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    shown_code = re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)
    assert unescape(re.sub(r"</?mark[^>]*>", "", shown_code[0])) == HOSTILE.replace("a < b", "a < a")
    assert '<section id="finetune_examples"' in page and '<section id="finetune_attention"' in page


def test_attention_is_drawn_without_blanks(folder: Path) -> None:
    figure = PLOTS.load("finetune_attention").draw(RunData(folder))
    assert figure is not None and figure.table is not None
    (drawing,) = figure.drawings
    fields = [
        element for element in ElementTree.fromstring(drawing.svg).iter() if element.tag.endswith("title")
    ]
    assert [field.text for field in fields] == [f"“{word}” to “<”: 50 %" for word in ("<s>", "a", "<")]
    assert figure.table.cells()[0][1].text == "“<” 50 %, “<s>” 0 %, “a” 0 %"
    assert "wrongly taken for Correct" in drawing.title


def test_long_functions_are_cut_to_the_lines_around_what_is_marked() -> None:
    text = "".join(f"line {number}\n" for number in range(100))
    at = text.index("line 50\n")
    found = list(cut_excerpt(text, [(at, at + 4, "error")]))
    assert [piece for piece, marks in found if marks == "gap"] == ["… 41 lines …", "… 43 lines …"]
    kept = "".join(piece for piece, marks in found if marks != "gap").splitlines()
    assert kept == [f"line {number}" for number in (0, 1, 2, *range(44, 57))]
    assert [(piece, marks) for piece, marks in found if marks == "error"] == [("line", "error")]
    assert "".join(piece for piece, _ in cut_excerpt(text[:40], [(0, 3, "error")])) == text[:40]


@given(
    st.text(max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.sampled_from(MARKS)), max_size=5),
    st.integers(0, 10),
    st.integers(10, 40),
)
def test_segments_are_the_text_with_every_character_marked_as_asked(
    text: str, spans: list[tuple[int, int, str]], first: int, last: int
) -> None:
    first = min(first, len(text))
    found = list(split_segments(text, spans, first, last))
    assert "".join(piece for piece, _ in found) == text[first:last]
    at = first
    for piece, marks in found:
        for place in range(at, at + len(piece)):
            assert set(marks.split()) == {mark for start, end, mark in spans if start <= place < end}
        at += len(piece)
