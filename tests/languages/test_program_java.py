"""Program tokens of Java against javalang's own tokenizer."""

import itertools
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import ProgramLexer, tokenize, untokenize

javalang = pytest.importorskip("javalang", reason="javalang, whose tokens these are, is not installed")
JV = get_facet("java", "program", ProgramLexer)
KINDS = {
    "Keyword": "KEYWORD",
    "Modifier": "KEYWORD",
    "Separator": "PUNCTUATION",
    "Operator": "PUNCTUATION",
    "Annotation": "IDENTIFIER",
    "Identifier": "IDENTIFIER",
    "BasicType": "IDENTIFIER",
    "Boolean": "STRING",
    "String": "STRING",
    "Null": "STRING",
}
WORDS = [
    *("int", "class", "static", "final", "null", "true", "aB", "x_1", "é", "$y", "package", "double", "this"),
    *('"a\\n"', "'c'", '"', "1", "0x1F", "1.5e3", ".5f", "07", "0b11", "1_0L", "@", ">>>=", "->", "::"),
    *("...", ".", ";", "(", ")", "{", "}", "#", "`", "\\", "\n", "\r\n", "\t", "  ", "/*c*/", "//d\n", "//"),
]
CODE = st.lists(st.sampled_from(WORDS) | st.sampled_from(string.printable), max_size=20).map(" ".join)
TIGHT = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


def by_javalang(text: str) -> list[tuple[str, str]] | None:
    """Kinds and spellings of what is no blank and no comment; None where javalang refuses the text."""
    try:
        # The blank is for javalang, which stumbles over a text that ends in 0.
        found = list(javalang.tokenizer.tokenize(f"{text} "))
    except (javalang.tokenizer.LexerError, TypeError):
        return None
    return [(KINDS.get(type(one).__name__, "NUMBER"), one.value) for one in found]


@settings(max_examples=400, deadline=None)
@given(CODE | TIGHT)
def test_kinds_and_spellings_are_those_of_javalang(text: str) -> None:
    expected = by_javalang(text)
    found = JV.lexemes(text)
    if expected is None:
        assert any(one.kind == "ERROR" for one in found)
    else:
        hidden = ("COMMENT", "WHITESPACE", "NEWLINE", "EOS")
        assert [(one.kind, one.surface) for one in found if one.kind not in hidden] == expected


@settings(max_examples=200, deadline=None)
@given(CODE | TIGHT)
def test_tokens_meet_and_come_back(text: str) -> None:
    found = JV.lexemes(text)
    if found[-1].surface == "":
        for one, following in itertools.pairwise(found):
            assert one.end == following.start
        pieces = tokenize(JV, text)
        assert tokenize(JV, untokenize(JV, pieces)) == pieces
