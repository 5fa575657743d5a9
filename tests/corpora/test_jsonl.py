import json
from pathlib import Path
from typing import Any

import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Selection, SkipCounter, Tag, read_files, select


def write(path: Path, *rows: Any) -> str:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return f"jsonl:{path}"


def test_items_with_tags_on_any_text(tmp_path: Path) -> None:
    corpus = write(
        tmp_path / "a.jsonl",
        {"id": "s1", "code": "Dogs bark.", "language": "text", "tags": [[0, 4, "NOUN"], [5, 9, "VERB"]]},
        b"",
        {"id": 2, "code": "def f():\r\n    pass", "language": "python", "repository": "r", "licence": "MIT"},
    )
    first, second = sorted(select(corpus, Selection()).items, key=lambda item: item.path, reverse=True)
    assert (first.identifier, first.text, first.unit) == ("s1", "Dogs bark.", "function")
    assert first.tags == (Tag(0, 4, "NOUN"), Tag(5, 9, "VERB"))
    assert (second.identifier, second.name, second.text) == ("2", "f", "def f():\r\n    pass")
    assert (second.cluster, second.repository, second.licence) == ("r", "r", "MIT")


def test_a_row_may_be_a_file_of_functions(tmp_path: Path) -> None:
    code = "def f():\n    pass\n\n\ndef g():\n    pass\n"
    corpus = write(
        tmp_path / "a.jsonl", {"id": "m", "code": code, "language": "python", "unit": "file", "path": "m.py"}
    )
    items = select(corpus, Selection(near_duplicates=False)).items
    assert {(item.name, item.path) for item in items} == {("f", "m.py#m"), ("g", "m.py#m")}


def test_languages_are_chosen_by_name(tmp_path: Path) -> None:
    rows = [{"id": language, "code": "x", "language": language} for language in ("text", "python", "java")]
    files = read_files(write(tmp_path / "a.jsonl", *rows), ("java",), SkipCounter())
    assert [file.identifier for file in files] == ["java"]


GOOD = {"id": "a", "code": "abc", "language": "text"}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"id": "\xff"}', "not UTF-8"),
        ({"code": "x", "language": "text"}, "no 'id'"),
        ({"id": "b", "language": "text"}, "no 'code'"),
        ({"id": "b", "code": 1, "language": "text"}, "'code' is not a string"),
        (GOOD | {"id": "b", "language": "pyhton"}, "did you mean 'python'"),
        (GOOD | {"id": "b", "unit": "class"}, "'unit' is 'class'"),
        (GOOD | {"id": "b", "tags": [[0, 4, "N"]]}, "outside the 3 characters"),
        (GOOD | {"id": "b", "tags": [[2, 2, "N"]]}, "outside the 3 characters"),
        (GOOD | {"id": "b", "tags": [[-1, 2, "N"]]}, "outside the 3 characters"),
        (GOOD | {"id": "b", "tags": [[0, 1]]}, "is not [start, end"),
        (GOOD | {"id": "b", "tags": [[0, True, "N"]]}, "is not [start, end"),
        (GOOD | {"id": "b", "tags": {"N": 1}}, "'tags' is not a list"),
        (GOOD, "id 'a' is that of line 1"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, row: Any, reason: str) -> None:
    with pytest.raises(InputError) as caught:
        select(write(tmp_path / "a.jsonl", GOOD, row), Selection())
    assert f"line 2: {reason}" in str(caught.value) or f"{reason}" in str(caught.value)
    assert "line 2: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_bad_lines_are_counted_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2: .*line 6: .*and 2 more lines"):
        select(write(tmp_path / "a.jsonl", GOOD, *[b"{"] * 7), Selection())


def test_code_that_cannot_be_studied_is_counted(tmp_path: Path) -> None:
    corpus = write(
        tmp_path / "a.jsonl",
        GOOD,
        GOOD | {"id": "nul", "code": "a\0b"},
        b'{"id": "half", "code": "\\ud800", "language": "text"}',
        GOOD | {"id": "long", "code": "x" * 200_000},
    )
    chosen = select(corpus, Selection())
    assert [item.identifier for item in chosen.items] == ["a"]
    assert chosen.intake.counts == {"NUL bytes": 1, "not decodable": 1, "very long line": 1}


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        select(f"jsonl:{tmp_path}/none.jsonl", Selection())
    with pytest.raises(UsageError, match="jsonl:FILE"):
        select("jsonl", Selection())
