"""Bytes and characters."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sonde.languages import LANGUAGES, TOKEN_KINDS
from sonde.languages.engine.text import EncodedText, whitespace_mask


@given(st.text(st.characters(exclude_categories=())))
def test_every_character_begins_where_its_bytes_begin(text: str) -> None:
    source = EncodedText.of(text)
    offset = 0
    for position, character in enumerate(text):
        assert source.to_character(offset) == position
        offset += len(character.encode("utf-8", "surrogatepass"))
    assert offset == len(source.data) and source.to_character(offset) == len(text)
    offsets = np.arange(len(source.data) + 1)
    assert source.characters(offsets).tolist() == [source.to_character(each) for each in offsets.tolist()]
    assert source.slice(0, offset) == text
    source.data.decode("utf-8")


@given(st.text(st.characters(exclude_categories=())))
def test_blanks_are_what_python_calls_space_and_what_has_no_width(text: str) -> None:
    assert whitespace_mask(text).tolist() == [each.isspace() or each in "\u200b\u2060\ufeff" for each in text]


def test_plain_text_has_words_numbers_and_signs() -> None:
    language = LANGUAGES.load("text")
    text = "Don't pay 3,500.25 — naïve 🎉!"
    tokens = language.tokens(language.parse(text))
    found = [
        (text[start:end], TOKEN_KINDS[kind])
        for start, end, kind in zip(tokens.start, tokens.end, tokens.kind, strict=True)
    ]
    assert found == [
        ("Don't", "identifier"),
        ("pay", "identifier"),
        ("3,500.25", "literal"),
        ("—", "punctuation"),
        ("naïve", "identifier"),
        ("🎉", "punctuation"),
        ("!", "punctuation"),
    ]
    assert language.functions(text) == language.definitions(text) == language.calls(text) == ()
