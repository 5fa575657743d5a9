"""The VarMisuse benchmark of GREAT: its tokens as code again, its labels, its splits, its faults."""

from __future__ import annotations

import ast
import io
import json
import tokenize
from pathlib import Path
from typing import Any

import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Item, SkipCounter, read_items
from sonde.corpora.sources.great import join_tokens

TOKENS = [
    "#NEWLINE#", "def set_item(", "self", ",", "key", ",", "value", "=", "None", ")", ":", "#NEWLINE#",
    "#INDENT#", "'Set it.\n\n        For good.\n        '", "#NEWLINE#",
    "payload", "=", "json", ".", "dumps", "(", "{", "#NEWLINE#", "#INDENT#", "key", ":", "value", ",",
    "#NEWLINE#", "#UNINDENT#", "}", ")", "#NEWLINE#",
    "if", "(", "not", "isinstance", "(", "key", ",", "str", ")", ")", ":", "#NEWLINE#", "#INDENT#",
    "return", "(", "value", ",", "-", "1", ")", "#NEWLINE#", "#UNINDENT#",
    "self", ".", "data", "[", "key", "]", "=", "payload", "#NEWLINE#", "return", "self", ".", "data",
]  # fmt: skip


def entry(tokens: list[str], *, bug: int = 0, targets: tuple[int, ...] = (), repository: str = "a/b") -> Any:
    return {
        "source_tokens": tokens,
        "has_bug": bug > 0,
        "bug_kind": int(bug > 0),
        "bug_kind_name": "VARIABLE_MISUSE" if bug else "NONE",
        "error_location": bug,
        "repair_targets": list(targets),
        "repair_candidates": [4, "key"],
        "provenances": [{"datasetProvenance": {"filepath": f"{repository}/x/y.py", "license": "mit"}}],
    }


def buggy() -> Any:
    """``key`` in the place of ``payload``, which is right there."""
    at = len(TOKENS) - 6
    assert TOKENS[at] == "payload"
    return entry([*TOKENS[:at], "key", *TOKENS[at + 1 :]], bug=at, targets=(15,))


def write(path: Path, *entries: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in entries), encoding="utf-8")
    return path


def read(place: Path) -> list[Item]:
    return list(read_items(f"great:{place}", SkipCounter()))


def test_tokens_are_code_again() -> None:
    """It parses, Python's own tokenizer gives the published tokens, and each is where it is said."""
    text, spans = join_tokens(TOKENS)
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef) and function.name == "set_item"
    blank = {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    own = [
        one.string for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in blank
    ]
    published = [token for token in TOKENS if not token.startswith("#")]
    published[0:1] = ["def", "set_item", "("]
    assert ast.literal_eval(own[12]) == "Set it.\n\n        For good.\n        "
    assert [*own[:12], *own[13:]] == [*published[:12], *published[13:]]
    for number, (start, end) in spans.items():
        assert text[start:end] == TOKENS[number] or TOKENS[number].startswith("'Set it.")


def test_an_example_brings_both_tasks(tmp_path: Path) -> None:
    clean, wrong = read(write(tmp_path / "eval.jsontxt", entry(TOKENS), buggy()))
    assert clean.text == join_tokens(TOKENS)[0]
    assert [(given.task, given.label) for given in clean.given] == [
        ("variable_misuse", "Correct"), ("misuse_repair", "Correct"),
    ]  # fmt: skip
    assert (clean.given[1].start, clean.given[1].end, clean.given[1].other_start) == (0, 0, -1)
    whole, repair = wrong.given
    assert (whole.start, whole.end, whole.label) == (0, len(wrong.text), "Variable misuse")
    assert wrong.text[repair.start : repair.end] == "key"
    assert wrong.text[: repair.start].endswith("self.data[key] = ")
    assert wrong.text[repair.other_start : repair.other_end] == "payload"
    assert clean.cluster == clean.repository == "a/b" and clean.path.startswith("a/b/x/y.py#")


def test_shards_say_their_split_and_a_list_is_read_too(tmp_path: Path) -> None:
    shards = {"train": "train", "dev": "valid", "eval": "test"}
    for name in shards:
        write(tmp_path / name / f"{name}__VARIABLE_MISUSE__SStuB.txt-00000-of-00300", entry(TOKENS), buggy())
    found = read(tmp_path)
    assert [given.split for item in found for given in item.given[:1]] == [
        split for split in shards.values() for _ in range(2)
    ]
    (tmp_path / "list.json").write_text(json.dumps([entry(TOKENS), buggy()]))
    assert [item.text for item in read(tmp_path / "list.json")] == [item.text for item in found[:2]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source_tokens": "def f("}, "entry 2: 'source_tokens' is not a list of strings"),
        ({"has_bug": 1}, "entry 2: 'has_bug' is not true or false"),
        ({"repair_targets": []}, "entry 2: 'repair_targets' is empty"),
        ({"error_location": 999}, "entry 2: token 999 is not in the code"),
        ({"error_location": 3}, "entry 2: token 3 is ',' and not a variable"),
    ],
)
def test_faults_are_named_by_entry(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        read(write(tmp_path / "eval.jsontxt", entry(TOKENS), buggy() | change))


def test_what_is_no_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text('{"source_tokens": [\n')
    for place, words in ((tmp_path / "bad.txt", "entry 1: not JSON"), (tmp_path / "no", "no such file")):
        with pytest.raises(InputError, match=words):
            read(place)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no file named train"):
        read(tmp_path / "empty")
    with pytest.raises(UsageError, match="name it as great:PATH"):
        list(read_items("great:", SkipCounter()))
