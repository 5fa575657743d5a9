import json
from pathlib import Path
from typing import Any

import pytest

from sonde.base.errors import InputError
from sonde.corpora import Selection, read_lock, select, write_lock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "code"
    for n in range(6):
        (root / f"p{n}").mkdir(parents=True)
        (root / f"p{n}" / "m.py").write_text(
            f"def first{n}():\n    return {n}\n\n\ndef second{n}():\n    return a{n}\n"
        )
    return root


def test_a_lock_runs_on_exactly_its_items(folder: Path, tmp_path: Path) -> None:
    chosen = select(f"local:{folder}", Selection(limit=7, seed=5))
    lock = tmp_path / "corpus.lock"
    write_lock(chosen, lock)
    assert read_lock(lock).selection == chosen.selection
    assert "return" not in lock.read_text()
    (folder / "p9.py").write_text("def later():\n    pass\n")
    again = select(f"local:{folder}", Selection(limit=1, unit="file"), lock)
    assert again.items == chosen.items
    assert again.selection == chosen.selection
    assert again.corpus_hash != chosen.corpus_hash


def test_changed_and_missing_files_are_named_and_counted(folder: Path, tmp_path: Path) -> None:
    lock = tmp_path / "corpus.lock"
    write_lock(select(f"local:{folder}", Selection()), lock)
    for n in range(4):
        (folder / f"p{n}" / "m.py").unlink()
    (folder / "p4" / "m.py").write_text("def first4():\n    return 4\n")
    with pytest.raises(InputError) as caught:
        select(f"local:{folder}", Selection(), lock)
    message = str(caught.value)
    assert "4 files missing (" in message
    assert ", ...)" in message
    assert "1 file changed (p4/m.py)" in message
    assert "\n" not in message


@pytest.mark.parametrize("content", ["", "{}\n", "[]\n", "not json\n", '{"format": "other"}\n'])
def test_what_is_no_lock_file(tmp_path: Path, content: str) -> None:
    lock = tmp_path / "corpus.lock"
    lock.write_text(content)
    with pytest.raises(InputError, match="line 1 cannot be read"):
        read_lock(lock)


def header(**changes: Any) -> str:
    head = {"format": "sonde corpus lock 1", "corpus": "local:x", "version": "1", "corpus_hash": "h"}
    return json.dumps({**head, "selection": {}, **changes}) + "\n"


ROW = {"path": "a.py", "offset": 0, "item_id": "i", "file": "h"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (header(corpus=3), "corpus = 3 is not a text"),
        (header(selection={"seed": 1.5}), "seed = 1.5 is not a whole number"),
        (header(selection={"limit": "many"}), "limit = 'many' is not a whole number"),
        (header(selection={"parses": "no"}), "parses = 'no' is not true or false"),
        (header(selection={"unit": "class"}), "unknown unit 'class'"),
        (header(selection={"colour": 1}), "colour"),
        (header(selection=[]), "line 1"),
        ("[" * 100_000, "line 1"),
        (header() + json.dumps({**ROW, "offset": "0"}) + "\n", "line 2 .*offset = '0' is not a whole number"),
        (header() + json.dumps({**ROW, "offset": float("nan")}) + "\n", "line 2 .*offset = nan"),
        (header() + json.dumps({**ROW, "path": None}) + "\n", "line 2 .*path = None is not a text"),
        (header() + json.dumps({**ROW, "item_id": ["i"]}) + "\n", "line 2 .*item_id"),
        (header() + "3\n", "line 2 cannot be read"),
    ],
)
def test_rubbish_is_one_line(tmp_path: Path, content: str, words: str) -> None:
    lock = tmp_path / "corpus.lock"
    lock.write_text(content)
    with pytest.raises(InputError, match=words) as caught:
        read_lock(lock)
    assert "\n" not in str(caught.value)


def test_a_damaged_row_is_named(folder: Path, tmp_path: Path) -> None:
    lock = tmp_path / "corpus.lock"
    write_lock(select(f"local:{folder}", Selection()), lock)
    lines = lock.read_text().splitlines()
    lines[3] = '{"path": "a.py"}'
    lock.write_text("\n".join(lines))
    with pytest.raises(InputError, match="line 4"):
        read_lock(lock)
    with pytest.raises(InputError, match="no such file"):
        read_lock(tmp_path / "none.lock")
