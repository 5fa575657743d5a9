"""CuBERT's files: read with their labels, and written as they were."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.label_files import write_label_file

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Item, Selection, SkipCounter, read_files, read_items
from sonde.experiments.label_files import LabelOptions
from sonde.papers.cubert.subtokens import escape_piece, join_subtokens, unescape_subtoken
from sonde.tasks import build
from sonde.tasks.engine.bugs import find_pointers

INFO = "dataset/ETHPy150Open alice/thing/src/a_b.py Box.get"
CODE = "def get(self, key):\n  return self.items[key] + self.rest"
MISUSED = "def get(self, key):\n  return key.items[key] + self.rest"


def line(label: str, what: str, **more: Any) -> dict[str, Any]:
    return {"function": CODE, "label": label, "info": f"{INFO}/{what}", **more}


# A vocabulary may take pieces apart: `getValue` is `get^` and `Value`, which is two subtokens here.
REPAIR = {
    "function": [
        *("[CLS]_", "def_", "get^_", "Val", "ue_", "(_", "self_", ",_", "key_", ")_", ":_"),
        *(
            "\\u\\u\\uNEWLINE\\u\\u\\u_",
            "\\u\\u\\uINDENT\\u\\u\\u  _",
            "return_",
            "key_",
            "._",
            "item\\u^_",
            "s_",
        ),
        *("\\u\\u\\uDEDENT\\u\\u\\u_", "[SEP]_"),
    ],
    "target_mask": [0, 0, 0, 0, 0, 0, 1, *[0] * 13],
    "error_location_mask": [*[0] * 14, 1, *[0] * 5],
    "candidate_mask": [1, *[0] * 5, 1, 0, 1, *[0] * 5, 1, *[0] * 5],
    "provenance": f"{INFO}/VarMisuse@14/6 `key`->`self`",
}

LINES: dict[str, list[dict[str, Any]]] = {
    "variable_misuse": [
        line("Correct", "original"),
        {**line("Variable misuse", "VarMisuse `self`->`key`"), "function": MISUSED},
    ],
    "wrong_operator": [line("Correct", "original"), line("Wrong binary operator", "`-`-> `+`")],
    "swapped_operand": [line("Correct", "original"), line("Swapped operands", "swapped operands of `-`")],
    "function_docstring": [
        line("Correct", "original", docstring="Get it."),
        line("Incorrect", "docstring of x", docstring="Drop\tit."),
    ],
    "exception_type": [
        {**line("KeyError", ""), "function": "def f():\n  try: g()\n  except __HOLE__: pass", "info": INFO}
    ],
    "misuse_repair": [REPAIR],
}


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return f"cubert:{path}"


@pytest.mark.parametrize("name", LINES)
def test_lines_come_back_as_they_were(name: str, tmp_path: Path) -> None:
    corpus = write(tmp_path / "a.jsonl", LINES[name])
    out = tmp_path / "b.jsonl"
    write_label_file(LabelOptions(task=name, corpora=(corpus,), raw=True, form="cubert"), out)
    again = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    if name == "misuse_repair":
        # Written without a vocabulary, a subtoken is a whole piece; the masks move with them.
        assert again[0]["function"][3] == "Value_"
        assert again[0]["error_location_mask"].index(1) == 13
        assert [place for place, flag in enumerate(again[0]["candidate_mask"]) if flag] == [0, 5, 7, 13]
        assert again[0]["target_mask"].index(1) == 5
    else:
        assert again == LINES[name]


@pytest.mark.parametrize("name", LINES)
def test_an_example_is_an_item_with_its_label(name: str, tmp_path: Path) -> None:
    items = list(read_items(write(tmp_path / "a.jsonl", LINES[name]), SkipCounter()))
    assert [item.given[0].label for item in items] == [
        row.get("label", "Variable misuse") for row in LINES[name]
    ]
    for item in items:
        assert item.given[0].task == name
        assert (item.repository, item.cluster) == ("alice/thing", "alice/thing")
        assert item.path.startswith("alice/thing/src/a_b.py#")
        assert item.unit == "function"


def test_pairs_holes_and_pointers_are_characters(tmp_path: Path) -> None:
    def read(name: str) -> Item:
        return list(read_items(write(tmp_path / "a.jsonl", LINES[name]), SkipCounter()))[-1]

    item = read("function_docstring")
    (given,) = item.given
    assert item.text[given.start : given.end] == CODE
    assert item.text[given.other_start : given.other_end] == "Drop\tit."
    item = read("exception_type")
    (given,) = item.given
    assert item.text[given.start : given.end] == "__HOLE__"
    item = read("misuse_repair")
    (given,) = item.given
    assert item.text == "def getValue (self ,key ):\n  return key .item_s "
    assert item.text[given.start : given.end] == "key"
    assert item.text[given.other_start : given.other_end] == "self"
    where = find_pointers(item.text, "python", (given.start, given.end), (given.other_start, given.other_end))
    assert where.targets == ((given.other_start, given.other_end),)
    assert [item.text[start:end] for start, end in where.candidates] == ["self", "key", "key"]


def test_a_folder_says_which_split(tmp_path: Path) -> None:
    for part, split in (("train", "train"), ("dev", "valid"), ("eval", "test")):
        rows = [{**row, "function": f"{row['function']}\n  # {part}"} for row in LINES["variable_misuse"]]
        write(tmp_path / f"{part}.jsontxt-00000-of-00001", rows)
        assert split
    corpus = f"cubert:{tmp_path}"
    found = [file.given[0].split for file in read_files(corpus, (), SkipCounter())]
    assert found == ["train"] * 2 + ["valid"] * 2 + ["test"] * 2
    items = list(read_items(corpus, SkipCounter()))
    made = build("variable_misuse", items, size=30, language="python")
    assert Counter(made.examples["split"]) == {"train": 2, "valid": 2, "test": 2}
    assert made.examples.filter(label="Variable misuse")["start"].to_list() == [0, 0, 0]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("variable_misuse", 40),
        ("wrong_operator", 40),
        ("swapped_operand", 20),
        ("function_docstring", 40),
        ("misuse_repair", 40),
    ],
)
def test_a_data_set_of_a_corpus_is_written_and_read(name: str, rows: int, tmp_path: Path) -> None:
    out, again = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    selection = Selection(limit=rows, languages=("python",), near_duplicates=False)
    wanted = LabelOptions(
        task=name, corpora=(f"local:{package(tmp_path)}",), selection=selection, form="cubert"
    )
    assert write_label_file(wanted, out) == rows
    write_label_file(LabelOptions(task=name, corpora=(f"cubert:{out}",), raw=True, form="cubert"), again)
    assert again.read_text(encoding="utf-8") == out.read_text(encoding="utf-8")
    found = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    infos = [row.get("info", row.get("provenance")) for row in found]
    assert all(info.startswith("dataset/") for info in infos)
    assert sum(info.endswith("/original") for info in infos) == rows / 2


def package(folder: Path) -> Path:
    """Code of which half of the functions have everything that a bug can be put into."""
    code = folder / "code"
    for number in range(8):
        (code / f"p{number}").mkdir(parents=True)
        bodies = [
            f"def f{number}_{index}(a{index}, b):\n"
            f'    """Say {number * 10 + index}."""\n'
            f"    c = a{index} - b\n"
            f"    return c if c < {index + number} else None\n"
            for index in range(8)
        ]
        (code / f"p{number}" / "m.py").write_text("\n\n".join(bodies), encoding="utf-8")
    return code


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["{"], "line 1: not JSON"),
        (["[1]"], "line 1: not a JSON object"),
        ([json.dumps(line("Correct", "original"))], "has examples of none"),
        (
            [json.dumps(row) for name in ("wrong_operator", "swapped_operand") for row in LINES[name]],
            "wrong_op",
        ),
        ([json.dumps({**LINES["variable_misuse"][1], "info": 3})], "line 1: 'info' is not a string"),
        ([json.dumps({"label": "Variable misuse"})], "line 1: no 'function'"),
        ([json.dumps({**REPAIR, "target_mask": [1]})], "'target_mask' is not a list of 20 numbers"),
        ([json.dumps({**REPAIR, "error_location_mask": [0] * 20})], "marks 0 places, not 1"),
        ([json.dumps({**REPAIR, "error_location_mask": [0, 0, 0, 0, 1, *[0] * 15]})], "begins no word"),
        ([json.dumps({**REPAIR, "function": [*REPAIR["function"][:-1], "x"]})], "end within a token"),
    ],
)
def test_malformed_files_are_refused_in_one_line(rows: list[str], told: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        list(read_files(f"cubert:{path}", (), SkipCounter()))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_files(f"cubert:{tmp_path / 'none'}", (), SkipCounter()))
    with pytest.raises(InputError, match="no file named train"):
        list(read_files(f"cubert:{tmp_path}", (), SkipCounter()))
    with pytest.raises(UsageError, match="cubert:PATH"):
        list(read_files("cubert:", (), SkipCounter()))


@pytest.mark.parametrize("piece", ["a_^", "\\", "\\u", "___NEWLINE___", "é", "\\10;", "", "_"])
def test_escapes_are_undone(piece: str) -> None:
    assert unescape_subtoken(escape_piece(piece)) == piece
    assert "_" not in escape_piece(piece)[:-1]
    if piece:
        assert join_subtokens(["[CLS]_", escape_piece(piece), "[SEP]_"]).pieces == (piece, "___EOS___")
