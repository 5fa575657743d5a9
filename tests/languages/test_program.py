"""Program tokens against the published facts and written cases, and programs made of them again."""

import pytest
from tests.languages.program_cases import JAVA, PYTHON, D, E, N

from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import (
    ProgramLexer,
    TokenFormat,
    join_pieces,
    split_identifier,
    split_text,
    tokenize,
    untokenize,
)

PY = get_facet("python", "program", ProgramLexer)
JV = get_facet("java", "program", ProgramLexer)
NOTHING: frozenset[str] = frozenset()
MISMATCHED = "\nclass A(object):\n  def f():\n    pass\n def b():\n   pass"

FACTS: list[tuple[str, ProgramLexer, str, TokenFormat, list[str]]] = [
    (
        "1",
        PY,
        '"this is a string"',
        TokenFormat(),
        ['"^', "this^", " ^", "is^", " ^", "a^", " ^", "string^", '"', E],
    ),
    ("2", PY, '"""this\nis"""', TokenFormat(), ['"""^', "this^", "___NLCHAR___^", "is^", '"""', E]),
    ("3", PY, "a_b_c", TokenFormat(), ["a_^", "b_^", "c", E]),
    ("4", PY, "a = b\n#comment\nc = d", TokenFormat(), ["a", "=", "b", N, "___NL___", "c", "=", "d", E]),
    ("5", PY, "# Comment.", TokenFormat(skipped=NOTHING), ["#^", " ^", "Comment^", ".", "___NL___", E]),
    ("6", PY, "a\n\tb", TokenFormat(), ["a", N, "___INDENT___\t", "b", D, E]),
    (
        "7",
        PY,
        "async f():\n\tawait g()",
        TokenFormat(),
        ["async", "f", "(", ")", ":", N, "___INDENT___\t", "await", "g", "(", ")", D, E],
    ),
    ("8", PY, '"""ABC', TokenFormat(), ["___ERROR___", E]),
    ("9", PY, MISMATCHED, TokenFormat(), ["___ERROR___", E]),
    ("10", PY, "ReServed == bad_mojo", TokenFormat(), ["Re^", "Served", "==", "bad_^", "mojo", E]),
    (
        "11",
        PY,
        "ReServed == bad_mojo",
        TokenFormat(reserved_words=frozenset(("ReServed", "bad_mojo"))),
        ["ReServed", "==", "bad_mojo", E],
    ),
    (
        "12",
        PY,
        'bad_mojo == "bad_mojo"',
        TokenFormat(reserved_words=frozenset(("bad_mojo",))),
        ["bad_mojo", "==", '"^', "bad^", "_^", "mojo^", '"', E],
    ),
    ("15", PY, "", TokenFormat(), [E]),
    (
        "21",
        JV,
        "package com.aye.bee.cee;",
        TokenFormat(),
        ["package", " ", "com", ".", "aye", ".", "bee", ".", "cee", ";", ""],
    ),
    (
        "22",
        JV,
        "public   class CamelCase {",
        TokenFormat(),
        ["public", "   ", "class", " ", "Camel^", "Case", " ", "{", ""],
    ),
    ("24", JV, "/* comment */", TokenFormat(), ["/*^", " ^", "comment^", " ^", "*/", ""]),
]


@pytest.mark.parametrize(
    ("program", "text", "conditions", "pieces"),
    [fact[1:] for fact in FACTS],
    ids=[fact[0] for fact in FACTS],
)
def test_facts_of_the_published_tokenizer(
    program: ProgramLexer, text: str, conditions: TokenFormat, pieces: list[str]
) -> None:
    assert tokenize(program, text, conditions) == pieces


def test_places_of_tokens() -> None:
    assert [(one.start, one.end) for one in PY.lexemes("")] == [((0, 0), (0, 0))]
    found = [(one.surface, one.kind, one.start, one.end) for one in PY.lexemes("def f(\n): pass")]
    assert found == [
        ("def", "KEYWORD", (0, 0), (0, 3)),
        ("f", "IDENTIFIER", (0, 4), (0, 5)),
        ("(", "PUNCTUATION", (0, 5), (0, 6)),
        ("___NL___", "PUNCTUATION", (0, 6), (1, 0)),
        (")", "PUNCTUATION", (1, 0), (1, 1)),
        (":", "PUNCTUATION", (1, 1), (1, 2)),
        ("pass", "KEYWORD", (1, 3), (1, 7)),
        (E, "EOS", (2, 0), (2, 0)),
    ]
    assert [(one.kind, one.start) for one in JV.lexemes("TokenA#TokenB")] == [
        ("IDENTIFIER", (0, 0)),
        ("ERROR", (0, 6)),
        ("IDENTIFIER", (0, 7)),
        ("EOS", (0, 13)),
    ]
    blank = [(one.kind, one.start, one.end) for one in JV.lexemes("/* a\n\n*/ B  \n \n  C")]
    assert blank == [
        ("COMMENT", (0, 0), (2, 2)),
        ("WHITESPACE", (2, 2), (2, 3)),
        ("IDENTIFIER", (2, 3), (2, 4)),
        ("NEWLINE", (2, 4), (3, 0)),
        ("NEWLINE", (3, 0), (4, 0)),
        ("WHITESPACE", (4, 0), (4, 2)),
        ("IDENTIFIER", (4, 2), (4, 3)),
        ("EOS", (4, 3), (4, 3)),
    ]


@pytest.mark.parametrize(
    ("identifier", "pieces"),
    [
        ("CHECK__snABCke__caSSe5_8A3__", "CHECK__ sn AB Cke__ ca S Se5_ 8 A3__"),
        ("__THE_CHECK_EQ__", "__ THE_ CHECK_ EQ__"),
        ("ᾩT𝕁E", "ᾩ T𝕁E"),
        ("aᾩb", "a ᾩb"),
        ("ABCᾩ", "ABC ᾩ"),
        ("___", "___"),
        ("$this_$0", "$this_ $0"),
    ],
)
def test_identifiers_are_split_at_underscores_and_case(identifier: str, pieces: str) -> None:
    assert list(split_identifier(identifier)) == pieces.split()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("12345  \n\n678", ["12345", "  ", "\n", "\n", "678"]),
        (" " * 41 + "a", [" " * 20, " " * 20, " ", "a"]),
        (" \t \t", [" ", "\t", " ", "\t"]),
        ("a²b", ["a", "²", "b"]),
        ("", []),
    ],
)
def test_text_is_split_at_classes_of_characters(text: str, pieces: list[str]) -> None:
    assert split_text(text) == pieces


@pytest.mark.parametrize(("text", "pieces"), PYTHON, ids=[repr(text) for text, _ in PYTHON])
def test_python_cases(text: str, pieces: list[str]) -> None:
    assert tokenize(PY, text) == pieces
    if pieces[0] != "___ERROR___":
        assert tokenize(PY, untokenize(PY, pieces)) == pieces


@pytest.mark.parametrize(("text", "pieces"), JAVA, ids=[repr(text) for text, _ in JAVA])
def test_java_cases(text: str, pieces: list[str]) -> None:
    assert tokenize(JV, text) == pieces
    if pieces[0] != "___ERROR___":
        assert tokenize(JV, untokenize(JV, pieces)) == pieces


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ('f_b_d = "blah blah"', 'f_b_d ="blah blah"'),
        ("def f():\n  for i in B:\n         pass", "def f ():\n  for i in B :\n         pass "),
        ('def f(a,\nb):\n  a = "\\n"', 'def f (a ,\nb ):\n  a ="\\n"'),
        ("def f():\n  # My comment\n  pass", "def f ():\n\n  pass "),
        ('"""blah"""', '"""blah"""'),
        ("async def f():\n  await g()", "async def f ():\n  await g ()"),
        ("from . .. import a; b < -1", "from .. .import a ;b <-1 "),
        ("x = 'a' 'b'", "x ='a' 'b'"),
    ],
)
def test_programs_made_of_tokens(text: str, again: str) -> None:
    assert untokenize(PY, tokenize(PY, text)) == again


def test_pieces_that_make_no_program_are_refused() -> None:
    assert join_pieces(["___NLCHAR___^", "a"]) == ["\na"]
    for pieces in ([], ["other"], ["a", ""], ["a", "", E], ["a^", E], ["a^b", E], ["a\n", E]):
        with pytest.raises(ValueError, match=r"program token|piece"):
            untokenize(PY, pieces)
    assert untokenize(JV, ["a", ""]) == "a"
