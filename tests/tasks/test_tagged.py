"""Tasks about tokens: spans, imports of the file, and labels that an item brings."""

from __future__ import annotations

from sonde.corpora import Given, Item, SourceFile
from sonde.languages.engine.tagging import AST_CLASSES, IDN_CLASSES, KTX_CLASSES
from sonde.tasks import LABEL_SCHEMA, Repository, index_imports
from sonde.tasks.engine.task import TASKS, resolve_task

PYTHON = SourceFile(
    "a.py", "import os, re as r\n\ndef f(os_):\n    return os.walk(r.x, os_)\n", "python", "c", "one"
)
JAVA = SourceFile(
    "A.java",
    "import java.io.File;\nclass A { void f() { java.util.Objects.hash(java); } }\n",
    "java",
    "c",
    "two",
)


def item(file: SourceFile, start: str, *given: Given) -> Item:
    offset = file.text.index(start)
    text = file.text[offset:].rstrip()
    return Item(
        "id", text, file.language, "function", file.path, "f", offset, "c", file.repository, given=given
    )


def spans(
    task: str, one: Item, known: dict[str, Repository], mode: str = "corrected"
) -> list[tuple[str, str]]:
    table = resolve_task(TASKS.load(task), mode).label([one], known)["id"]
    assert dict(table.schema) == dict(LABEL_SCHEMA)
    return [
        (one.text[start:end], label)
        for start, end, label in table.select("start", "end", "label").iter_rows()
    ]


def test_packages_come_from_the_imports_of_the_file() -> None:
    known = index_imports([PYTHON, JAVA])
    found = spans("idn", item(PYTHON, "def"), known)
    assert found == [
        *(("f", "IDM"), ("os_", "IDV"), ("os", "IDP"), ("walk", "IDM"), ("r", "IDP"), ("x", "IDV")),
        ("os_", "IDV"),
    ]
    found = spans("idn", item(JAVA, "void"), known)
    assert found[:4] == [("f", "IDM"), ("java", "IDP"), ("util", "IDP"), ("Objects", "IDC")]


def test_without_the_file_nothing_is_a_package() -> None:
    assert "IDP" not in {label for _, label in spans("idn", item(PYTHON, "def"), {})}


def test_import_statements_are_read_beside_the_functions() -> None:
    known = index_imports([PYTHON, JAVA])
    one, same = item(PYTHON, "def"), item(PYTHON, "return")
    pairs = list(TASKS.load("idn").extra_items([one, same, item(JAVA, "void")], known))  # type: ignore[attr-defined]
    assert [(source.path, derived.text) for source, derived in pairs] == [
        ("a.py", "import os, re as r"),
        ("A.java", "import java.io.File;"),
    ]
    (_, derived), _ = pairs
    table = TASKS.load("idn").label([derived], known)[derived.item_id]
    assert set(table["label"]) == {"IDP"}
    assert derived.item_id != one.item_id
    assert not list(TASKS.load("ktx").extra_items([one], known))  # type: ignore[attr-defined]


def test_classes_of_tokens_are_those_of_the_task() -> None:
    known = index_imports([PYTHON, JAVA])
    for task, classes in (("ktx", KTX_CLASSES), ("idn", IDN_CLASSES), ("ast", AST_CLASSES)):
        assert TASKS.load(task).labels == classes
        assert {label for _, label in spans(task, item(JAVA, "void"), known)} <= set(classes)
    assert ("return", "KFC") in spans("ktx", item(PYTHON, "def"), known)
    assert ("def", "KMD") in spans("ast", item(PYTHON, "def"), known)


def test_paper_mode_reads_the_text_of_a_token_alone() -> None:
    file = SourceFile("B.java", "boolean f() { return a instanceof B; }", "java", "c", "r")
    assert ("instanceof", "ORE") in spans("ktx", item(file, "boolean"), {})
    assert ("instanceof", "KFC") in spans("ktx", item(file, "boolean"), {}, "paper")


def test_labels_that_the_item_brings_are_taken_as_they_are() -> None:
    file = SourceFile("c.java", "chargeCode", "java", "c", "r")
    brought = (Given("IDN", "IDP", 0, 10), Given("KTX", "SYM", 0, 10))
    assert spans("idn", item(file, "charge", *brought), {}) == [("chargeCode", "IDP")]


def test_block_depth_counts_the_blocks_around_each_token() -> None:
    text = "def f(a):\n    if a:\n        while a:\n            a -= 1\n    return a\n"
    one = Item("id", text, "python", "function", "a.py", "f", 0, "c", "one")
    depths = {text[:start].count("\n"): label for start, label in starts("block_depth", one)}
    assert depths == {0: "0", 1: "1", 2: "2", 3: "3", 4: "1"}
    text = (
        "int f(int a) { if (a > 0) { for (;;) { while (a > 1) { do { a--; } while (a > 2); } } } return a; }"
    )
    one = Item("id", text, "java", "function", "A.java", "f", 0, "c", "one")
    found = dict(starts("block_depth", one))
    assert [found[text.index(word)] for word in ("int", "if", "for", "while", "do", "a--", "return")] == (
        ["0", "1", "2", "3", "4+", "4+", "1"]
    )


def starts(task: str, one: Item) -> list[tuple[int, str]]:
    table = TASKS.load(task).label([one], {})["id"]
    return [(start, label) for start, label in table.select("start", "label").iter_rows()]
