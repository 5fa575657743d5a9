"""Errors in a user's task name the function that it was asked about, its file and its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sonde.base.errors import InputError
from sonde.corpora import Item
from sonde.corpora.engine.corpus import item_id
from sonde.tasks import LabelRequest, ParallelMap, label_items
from sonde.tasks.engine.spans import select_all_spans
from sonde.tasks.engine.task import TASKS

TASK = '''"""Whether a function loops."""

import polars as pl

from sonde.tasks import LABEL_SCHEMA


class Loops:
    name = "{name}"
    version = "1"
    target = "item"
    labels = ("no", "yes")
    needs_repository = False

    def label(self, items, repositories):
        tables = {{}}
        for item in items:
            row = {{"start": 0, "end": len(item.text), "label": "no", "value": None}}
            {line}
            tables[item.item_id] = pl.DataFrame([row], schema=dict(LABEL_SCHEMA))
        return tables


task = Loops()
'''
LABEL_LINE, CHANGED_LINE = 15, 19
TEXTS = ("def f(a):\n    return a\n", "def g(a):\n    while a:\n        a -= 1\n")
ITEMS = tuple(
    Item(item_id(text, "python", "function"), text, "python", "function", f"{text[4]}.py", text[4], line=7)
    for text in TEXTS
)


def write_task(folder: Path, name: str, line: str) -> Path:
    path = folder / f"{name}.py"
    path.write_text(TASK.format(name=name, line=line), encoding="utf-8")
    return path


def label(path: Path) -> dict[str, list[str]]:
    request = LabelRequest(str(path), 0, "corrected", frozenset(), {})
    return {item.name: table["label"].to_list() for item, table in label_items(request, ITEMS)}


def test_a_task_without_a_fault_labels(tmp_path: Path) -> None:
    path = write_task(tmp_path, "loops", "row['label'] = 'yes' if 'while' in item.text else None")
    assert label(path) == {"f": [None], "g": ["yes"]}


@pytest.mark.parametrize(
    ("name", "line", "reason", "number"),
    [
        ("undeclared", "row['label'] = 'maybe'",
         "row 1: label 'maybe' is not declared in `labels` ('no', 'yes')", 0),
        ("outside", "row['end'] += 9", "row 1: span 0 to 47 lies outside its 38 characters", 0),
        ("forgets", "continue", "`label` returned no table for it; return an empty table if nothing has a "
         "label", 0),
        ("columns", "tables[item.item_id] = pl.DataFrame([{'label': 'no'}]); continue",
         "its table lacks start, end, value (see sonde.tasks.LABEL_SCHEMA)", 0),
        ("records", "tables[item.item_id] = [row]; continue",
         "`label` returned list for it, not a polars DataFrame", 0),
        ("raises", "item.docstring[0]", "IndexError: string index out of range", CHANGED_LINE),
        ("library", "float(item.text[:0])",
         "ValueError: could not convert string to float: ''", CHANGED_LINE),
    ],
)  # fmt: skip
def test_a_fault_names_the_function_and_the_line(
    name: str, line: str, reason: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second function has the fault; in a batch, alone, and where a data set is drawn."""
    monkeypatch.chdir(tmp_path)
    path = write_task(tmp_path, name, f"if 'while' in item.text: {line}")
    message = f"task '{name}' on g.py g, line 7: {reason} ({name}.py, line {number or LABEL_LINE})"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        label(path)
    request = LabelRequest(str(path), 0, "corrected", frozenset(), {})
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        select_all_spans([request], ITEMS, ParallelMap())


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("import polarz\n\ntask = 1\n", "ModuleNotFoundError: No module named 'polarz'", 1),
        ("\n\ntask = Missing()\n", "NameError: name 'Missing' is not defined", 3),
        ("def f(:\n    pass\n", "SyntaxError: invalid syntax", 1),
        ("import json\n\njson.loads('')\n", "JSONDecodeError: Expecting value: line 1 column 1 (char 0)", 3),
    ],
)
def test_a_task_that_cannot_be_imported_names_the_line(
    text: str, reason: str, line: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faulty.py").write_text(text, encoding="utf-8")
    message = f"task './faulty.py': it cannot be imported: {reason} (faulty.py, line {line})"
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        TASKS.load("./faulty.py")
