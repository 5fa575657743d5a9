"""Python's own tokenizer must agree on keywords, names, numbers, comments and strings, place by place."""

from __future__ import annotations

import io
import keyword
import sysconfig
import tokenize
from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import pytest

from sonde.languages import LANGUAGES, TOKEN_KINDS

PYTHON = LANGUAGES.load("python")
STDLIB = Path(sysconfig.get_path("stdlib"))
FILES = [
    "abc.py",
    "ast.py",
    "bisect.py",
    "calendar.py",
    "dataclasses.py",
    "_pydecimal.py",
    "enum.py",
    "fractions.py",
    "functools.py",
    "heapq.py",
    "inspect.py",
    "string.py",
    "textwrap.py",
    "typing.py",
    "asyncio/queues.py",
    "email/header.py",
    "json/decoder.py",
    "xml/dom/minidom.py",
]

# Words that the grammar takes as keywords where Python's tokenizer says name, and the other way about.
SOFT = {"match", "case", "type", "_", "print", "exec"}
FSTRING_START = getattr(tokenize, "FSTRING_START", None)
FSTRING_END = getattr(tokenize, "FSTRING_END", None)
KINDS = {
    tokenize.NUMBER: "number",
    tokenize.COMMENT: "comment",
    tokenize.STRING: "string",
    tokenize.OP: "operator",
    FSTRING_END: "string",
}
VALUES = {"True", "False", "None"}


@pytest.mark.parametrize("name", FILES)
def test_words_numbers_comments_and_strings_agree_with_tokenize(name: str) -> None:
    path = STDLIB / name
    if not path.is_file():
        pytest.skip(f"this interpreter's standard library has no {name}")
    text = path.read_text(encoding="utf-8")
    begins = [0, *accumulate(map(len, io.StringIO(text, newline="")))]
    theirs: dict[str, set[tuple[int, int]]] = {
        kind: set() for kind in ("keyword", "identifier", "number", "comment", "value", "string", "operator")
    }
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        start = begins[token.start[0] - 1] + token.start[1]
        end = begins[token.end[0] - 1] + token.end[1]
        # From 3.12 on an f-string comes in parts; before, and here, it is one string.
        if token.type == FSTRING_START:
            opened.append(start)
        elif token.type == FSTRING_END:
            start = opened.pop()
        kind = KINDS.get(token.type)
        if token.type == tokenize.NAME:
            kind = "identifier"
            if token.string in VALUES:
                kind = "value"
            elif keyword.iskeyword(token.string):
                kind = "keyword"
        if kind is not None and not opened:
            theirs[kind].add((start, end))

    tree = PYTHON.parse(text)
    tokens = PYTHON.tokens(tree)
    ours: dict[str, set[tuple[int, int]]] = {kind: set() for kind in theirs}
    strings = sorted(theirs["string"])
    for start, end, number, role in zip(
        tokens.start.tolist(), tokens.end.tolist(), tokens.kind.tolist(), tokens.role, strict=True
    ):
        kind = TOKEN_KINDS[number]
        around = strings[max(bisect_right(strings, (start, len(text))) - 1, 0)]
        if around[0] <= start and end <= around[1]:
            continue
        if kind == "keyword" and text[start:end] in SOFT:
            kind = "identifier"
        elif kind == "literal":
            kind = {"number": "number", "boolean": "value", "none": "value", "ellipsis": "operator"}[role]
        elif kind == "punctuation":
            kind = "operator"
        elif kind == "layout":
            assert text[start:end].strip() == "\\"
            continue
        ours[kind].add((start, end))
    theirs.pop("string"), ours.pop("string")
    assert ours == theirs
    spans = [
        (construct.start, construct.end)
        for construct in PYTHON.constructs(tree)
        if construct.label == "string"
    ]
    # A string inside an f-string is a string here and part of the whole for the tokenizer of 3.11.
    assert set(strings) <= set(spans)
    assert all(any(a <= start and end <= b for a, b in strings) for start, end in set(spans) - set(strings))
