"""Pieces that a server names by their text, laid over the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.errors import InputError
from sonde.capture.server import locate_pieces


def spans(text: str, pieces: list[str]) -> list[tuple[int, int]]:
    found, _ = locate_pieces(text, pieces)
    assert int(found.bytes.sum()) <= len(text.encode())
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("a = b", ["a", " =", " b"], [(0, 1), (1, 3), (3, 5)]),
        # A start token before, and what the server wrote behind.
        ("a = b", ["<s>", "a", " =", " b", "\n"], [(0, 1), (1, 3), (3, 5)]),
        ("a b", ["", "▁a", "▁b"], [(0, 1), (1, 3)]),
        ("a\n b", ["Ġa", "Ċ", "Ġb"], [(0, 1), (1, 2), (2, 4)]),
        ("a  b", ["a", "b"], [(0, 1), (3, 4)]),
        ("x🙂y", ["x", "bytes:\\xf0\\x9f", "bytes:\\x99\\x82", "y"], [(0, 1), (1, 2), (1, 2), (2, 3)]),
        ("x 🙂y", ["x", "bytes: \\xf0\\x9f", "bytes:\\x99\\x82", "y"], [(0, 1), (1, 3), (1, 3), (3, 4)]),
        ("x🙂y", ["x", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "y"], [(0, 1), *[(1, 2)] * 4, (2, 3)]),
        ("x🙂🙂y", ["x", "\ufffd", "\ufffd", "\ufffd", "y"], [(0, 1), *[(1, 3)] * 3, (3, 4)]),
        ("x \ufffd", ["x", " \ufffd"], [(0, 1), (1, 3)]),
        ('"\\xe2"', ['"', "\\xe2", '"'], [(0, 1), (1, 5), (5, 6)]),
        ("é", ["Ã©"], [(0, 1)]),
    ],
)
def test_pieces_of_servers(text: str, pieces: list[str], expected: list[tuple[int, int]]) -> None:
    assert spans(text, pieces) == expected


def test_surfaces_and_numbers() -> None:
    found, places = locate_pieces("x🙂 x", ["<s>", "x", "<0xF0>", "bytes:\\x9f\\x99\\x82", "▁x"])
    assert found.surface == ("x", "<0xF0>", "<0x9F><0x99><0x82>", " x")
    assert places.tolist() == [1, 2, 3, 4]
    assert found.bytes.tolist() == [1, 1, 3, 2]
    again, _ = locate_pieces("x", ["x"])
    assert again.ids[0] == found.ids[0] != found.ids[-1]
    named, _ = locate_pieces("x x", ["x", " x"], [7, 9])
    assert named.ids.tolist() == [7, 9]


@pytest.mark.parametrize(
    ("text", "pieces", "words"),
    [
        ("a = b", ["a", " + ", "b"], "do not spell the text: ' \\+ ' where the text continues ' = b'"),
        ("a = b", ["a", " ="], "end before the text does, at ' b'"),
        ("a = b", ["token_id:5", "token_id:7"], "end before the text does"),
    ],
)
def test_pieces_that_are_not_those_of_the_text(text: str, pieces: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        locate_pieces(text, pieces)


@given(st.lists(st.text(min_size=1), max_size=12), st.booleans())
def test_whole_pieces_cover_the_text(pieces: list[str], start: bool) -> None:
    text = "".join(pieces)
    found, places = locate_pieces(text, ["<|start|>"] * (start and not text.startswith("<|")) + pieces)
    assert "".join(text[a:b] for a, b in zip(found.start, found.end, strict=True)) == text
    assert len(places) == len(pieces) and int(found.bytes.sum()) == len(text.encode("utf-8", "replace"))
