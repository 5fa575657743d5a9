"""A vocabulary on pieces of program tokens: lossless, true offsets, and how it lies to the exact tokens."""

import functools
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from sonde.alignment import align, encode
from sonde.base.errors import InputError
from sonde.corpora import SkipCounter, read_files
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.program_tokens import (
    JOINT,
    NEWLINE,
    ProgramLexer,
    build_program_tokens,
    join_pieces,
)
from sonde.training.pretrain.vocabulary import learn_vocabulary, with_template

PY = get_facet("python", "program", ProgramLexer)
JV = get_facet("java", "program", ProgramLexer)


@functools.cache
def texts() -> list[str]:
    return [file.text for file in read_files("stdlib", ("python",), SkipCounter())]


@functools.cache
def learned() -> Tokenizer:
    return learn_vocabulary(texts()[::12], 2000, "program")


@functools.cache
def fast(role: str = "encoder") -> PreTrainedTokenizerFast:
    return with_template(learned(), role, 128)


def cut(text: str) -> list[str]:
    """What no merge reaches over, in characters."""
    pieces = learned().pre_tokenizer.pre_tokenize_str(text)
    return [text[start:end] for _, (start, end) in pieces]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("getHTTPResponse_code2x", ["get", "HTTP", "Response_", "code2x"]),
        ("__init__", ["__", "init__"]),
        ("x = 0xFFL+1.5e-3j", ["x", " =", " 0xFFL", "+", "1.5e-3j"]),
        ("f(a)[1:]", ["f", "(", "a", ")", "[", "1", ":", "]"]),
        ("a **= -b", ["a", " **=", " -", "b"]),
        ("if a:\n    b\n\n\tc", ["if", " a", ":", "\n    ", "b", "\n\n\t", "c"]),
        ("abcdefghijklmnopqrstuvwxyz", ["abcdefghijklmno", "pqrstuvwxyz"]),
        ('"""a\'\'"""', ['"""', "a", "''", '"""']),
    ],
)
def test_pieces_follow_the_rules_of_program_tokens(text: str, pieces: list[str]) -> None:
    assert cut(text) == pieces


@pytest.mark.slow
def test_every_file_of_the_standard_library_comes_back() -> None:
    assert len(texts()) > 300
    for text in texts():
        assert learned().decode(learned().encode(text, add_special_tokens=False).ids) == text


@settings(max_examples=300, deadline=None)
@given(
    st.text() | st.lists(st.sampled_from(["_", "A", "a", "1", " ", "\n", "ᾩ", "é", "(", "="])).map("".join)
)
def test_any_text_comes_back_piece_by_piece(text: str) -> None:
    assert learned().decode(learned().encode(text, add_special_tokens=False).ids) == text
    assert "".join(cut(text)) == text
    subwords = encode(fast(), text)
    assert subwords.lossless
    assert int(subwords.bytes.sum()) == len(text.encode())


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the subwords of a text lie to its exact program tokens.

    Attributes:
        tokens: Program tokens that stand for characters.
        crossed: Edges of two program tokens that a subword reaches over.
        pieces: Edges of pieces inside program tokens.
        kept: Those of them that are edges of subwords.
        subwords: Subwords of the text.
    """

    tokens: int
    crossed: int
    pieces: int
    kept: int
    subwords: int


def agreement(tokenizer: Tokenizer, facet: ProgramLexer, text: str) -> Agreement:
    """Compare the subwords of a text with its program tokens, comments included.

    Args:
        tokenizer: What `learn_vocabulary` gave.
        facet: The facet ``program`` of the text's language.
        text: Code that the language's lexer accepts.
    """
    spans: list[tuple[int, int]] = tokenizer.encode(text, add_special_tokens=False).offsets
    # A blank before a word lies in the word's subword: its edge is where the word begins.
    inside = {at for start, end in spans for at in range(_first(text, start, end) + 1, end)}
    begins = {start for start, _ in spans} | {_first(text, start, end) for start, end in spans}
    tokens = crossed = pieces = kept = 0
    for token in build_program_tokens(facet, text):
        start, spelling = token.lexeme.offset, token.lexeme.surface
        if token.lexeme.kind == NEWLINE or not text.startswith(spelling, start) or not spelling:
            continue
        tokens += 1
        crossed += start in inside
        at = start
        for piece in token.pieces[:-1]:
            # What was spelled out is one character, the joint none.
            (plain,) = join_pieces([piece.removesuffix(JOINT)])
            at += len(plain)
            pieces += 1
            kept += at in begins
    return Agreement(tokens, crossed, pieces, kept, len(spans))


def _first(text: str, start: int, end: int) -> int:
    """The first character of a subword that is no blank."""
    return next((at for at in range(start, end) if not text[at].isspace()), start)


def test_subwords_do_not_reach_over_two_program_tokens() -> None:
    found = [agreement(learned(), PY, text) for text in texts()[::25]]
    tokens, crossed = sum(one.tokens for one in found), sum(one.crossed for one in found)
    pieces, kept = sum(one.pieces for one in found), sum(one.kept for one in found)
    assert tokens > 10_000
    assert crossed <= tokens / 10_000
    assert kept > 0.9 * pieces
    java = "class A<T extends List<List<T>>> { int maxSize_2 = f(a[i--], \"b c\", 'x') >= 0x1F ? 1 : 2; }"
    assert agreement(learned(), JV, java).crossed == 0


def test_what_agreement_counts() -> None:
    found = agreement(learned(), PY, 'ab_c = "d_e"')
    # Three tokens; a piece ends in `ab_`, and in the string at `"`, `d`, `_` and `e`.
    assert (found.tokens, found.crossed, found.pieces) == (3, 0, 5)
    # The string's rules are those of identifiers: `d_` is one piece, unless the vocabulary takes it apart.
    assert 4 <= found.kept <= 5


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_a_model_s_tokenizer_aligns_with_the_syntax(role: str) -> None:
    text = "def getValue(self, x_1):\n    # é\n    return f'{x_1}' + \"€\" * 2\n"
    language = LANGUAGES.load("python")
    tree = language.parse(text)
    # `align` itself holds every alignment to its invariants.
    aligned = align(encode(fast(role), text), tree, language.tokens(tree))
    assert aligned.coverage.covered == len(text)
    alone = aligned.last - aligned.first
    assert alone.max() == 1
    assert fast(role)(text, add_special_tokens=False)["input_ids"] == aligned.subwords.ids.tolist()


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="261 are needed"):
        learn_vocabulary(["a"], 100, "program")
    with pytest.raises(InputError, match="give only"):
        learn_vocabulary(["a b"], 5000, "program")
