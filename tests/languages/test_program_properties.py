"""Program tokens of the standard library: against `tokenize` itself, and there and back."""

import ast
import functools
import io
import sys
import tokenize as lexer
import warnings

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from sonde.base.fingerprint import unit_hash
from sonde.corpora import SkipCounter, read_files
from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import ProgramLexer, TokenFormat, tokenize, untokenize
from sonde.papers.python_tokens import scan_words

PY = get_facet("python", "program", ProgramLexer)
REFUSED = "___ERROR___"
ODD = ["'", '"', '"""', "\\", "\\\n", "\n", "  ", "$", "?", "!", "(", ")", "\r", "\f", "\t", "é", "²", "#"]


@functools.cache
def texts() -> list[str]:
    files = read_files("stdlib", ("python",), SkipCounter())
    return [file.text for file in files if unit_hash("program", file.path) < 0.1]


def edited(draw: st.DrawFn, odd: list[str]) -> str:
    text = draw(st.sampled_from(texts()))
    begin = draw(st.integers(0, len(text)))
    piece = text[begin : begin + draw(st.integers(0, 600))]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(piece)))
        piece = piece[:at] + draw(st.sampled_from(odd)) + piece[at:]
    return piece


EDITED = st.composite(edited)(ODD)
# A line that is continued into nothing, or into a comment, is written otherwise; code as it is has none.
UNCONTINUED = st.composite(edited)([one for one in ODD if "\\" not in one])


def by_tokenize(text: str) -> list[tuple[str, str]] | None:
    try:
        found = lexer.generate_tokens(io.StringIO(text).readline)
        return [(lexer.tok_name[one.type], one.string) for one in found]
    except (lexer.TokenError, IndentationError):
        return None


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="tokenize reads strings otherwise from 3.12 on")
@settings(max_examples=300, deadline=None)
@given(EDITED)
@example("x = 'a\\\nb\n c")
@example("x = 'a\\\nb\\\\\nc' d")
@example("x = 'a\\\nb")
def test_words_are_those_of_tokenize(text: str) -> None:
    text = text.rstrip()
    words = scan_words(text)
    found = list(zip(words.kind, words.surface, strict=True)) if words.is_complete else None
    expected = by_tokenize(text)
    # After a string that a backslash continues in vain, `tokenize` ends the next long string too early.
    if expected is None or not any(kind == "ERRORTOKEN" and "\n" in word for kind, word in expected):
        assert found == expected


@settings(max_examples=300, deadline=None)
@given(UNCONTINUED, st.booleans())
def test_tokens_of_edited_code_come_back(text: str, comments: bool) -> None:
    # A line that begins with a carriage return is one blank line to `tokenize`, whatever it holds.
    assume("\r" not in text.replace("\r\n", ""))
    conditions = TokenFormat(skipped=frozenset()) if comments else TokenFormat()
    pieces = tokenize(PY, text, conditions)
    # Before a line break a backslash that is a word of its own would continue the line.
    assume("\\" not in pieces)
    if pieces[0] != REFUSED:
        assert tokenize(PY, untokenize(PY, pieces), conditions) == pieces


@pytest.mark.slow
def test_programs_of_the_standard_library_come_back_with_the_same_tree() -> None:
    assert len(texts()) > 30
    for text in texts():
        pieces = tokenize(PY, text)
        again = untokenize(PY, pieces)
        assert tokenize(PY, again) == pieces
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert ast.dump(ast.parse(again)) == ast.dump(ast.parse(text))
