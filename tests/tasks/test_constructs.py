from __future__ import annotations

from sonde.corpora import Item
from sonde.languages import CONSTRUCT_LABELS
from sonde.tasks import LABEL_SCHEMA, TASKS


def test_constructs_are_spans_of_the_item() -> None:
    text = "def f(a):\n    while a > 1:\n        a = g(a)\n"
    item = Item("id", text, "python", "function", "f.py", "f", 0, "c", "r")
    task = TASKS.load("constructs")
    table = task.label([item], {})["id"]
    assert dict(table.schema) == dict(LABEL_SCHEMA)
    rows = table.select("start", "end", "label").iter_rows()
    found = {(label, text[start:end]) for start, end, label in rows}
    assert {("condition", "a > 1"), ("call", "g(a)"), ("assignment", "a = g(a)")} <= found
    assert {label for label, _ in found} <= set(CONSTRUCT_LABELS) == set(task.labels)
