from pathlib import Path

import pytest

from sonde.base.errors import UsageError
from sonde.corpora import Item, SkipCounter, item_id, read_files
from sonde.experiments.formats import FORMATS, FileFormat, LabelledItem
from sonde.tasks.engine.task import TASKS


def item(text: str, language: str = "java") -> Item:
    identity = item_id(text, language, "function")
    return Item(identity, text, language, "function", "p", "f", 0, "c", "r")


def row(label: str | None, start: int, end: int) -> dict[str, object]:
    return {"start": start, "end": end, "label": label, "value": None}


def test_tokens_joined_by_blanks_without_comments(tmp_path: Path) -> None:
    form = FORMATS.load("inspect")
    assert isinstance(form, FileFormat)
    text = 'int f(int x) { // one\n\tString s = "a\tb";\n  return x+1; /* two */ }'
    entries = [
        LabelledItem(item(text), (row("ORIG", 0, len(text)),), "train"),
        LabelledItem(item("int g() { return f(1); }"), (row("FAULT", 0, 5),), "test"),
    ]
    written = form.write(TASKS.load("sri"), entries)
    assert written == (
        'tr\tORIG\tint f ( int x ) { String s = "a b" ; return x + 1 ; }\n'
        "te\tFAULT\tint g ( ) { return f ( 1 ) ; }\n"
    )
    path = tmp_path / "SRI_ORIG_1k.txt"
    path.write_text(written, encoding="utf-8", newline="")
    intake = SkipCounter()
    found = list(read_files(f"inspect:{path}", (), intake))
    assert [(one.given[0].task, one.given[0].split, one.given[0].label) for one in found] == [
        ("sri", "train", "ORIG"),
        ("sri", "test", "FAULT"),
    ]
    assert not intake.counts


def test_token_tasks_hold_the_token_alone() -> None:
    text = "def f(x):\n    return x\n"
    entry = LabelledItem(item(text, "python"), (row("IDV", 6, 7), row("IDM", 4, 5)), "valid")
    assert FORMATS.load("inspect").write(TASKS.load("idn"), [entry]) == "va\tIDV\tx\nva\tIDM\tf\n"


def test_raw_labels_keep_a_line_each() -> None:
    entry = LabelledItem(item("x = 1\n", "python"), (row(None, 0, 6),))
    assert FORMATS.load("inspect").write(TASKS.load("len"), [entry]) == "tr\t\tx = 1\n"


def test_pairs_are_refused() -> None:
    pair = next(task for name in TASKS.names() if (task := TASKS.load(name)).target == "pair")
    with pytest.raises(UsageError, match="labels pairs of tokens"):
        FORMATS.load("inspect").write(pair, [])
