"""Queries in the subwords of a model: which are asked, and how."""

import dataclasses

import polars as pl
import pytest
from tests.lenses.conftest import item_of, prepared_of
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sonde.alignment import encode
from sonde.alignment.vocabulary import get_vocabulary
from sonde.capture.requests import Prepared
from sonde.lenses.cloze.observe import (
    ONE_PIECE,
    OTHER_SPELLING,
    SEVERAL_PIECES,
    UNSPELLABLE,
    ClozeQuery,
    build_query_requests,
    distinct_inputs,
    queries_by_item,
)
from sonde.lenses.engine.observations import word_masks


def prepared(text: str, pieces: list[str]) -> Prepared:
    return prepared_of(item_of(text), pieces)


def query(text: str, answer: str) -> ClozeQuery:
    start = text.index(answer)
    return ClozeQuery(
        answer, answer, start, start + len(answer), not text[:start] or text[start - 1].isspace()
    )


IMPORT = "from numpy import zeros_like"
PIECES = ["from", " num", "py", " import", " zeros", "_", "like"]


@pytest.mark.parametrize(
    ("answer", "status", "variants"),
    [
        ("num", ONE_PIECE, ((1,),)),
        ("py", ONE_PIECE, ((2,),)),
        ("numpy", SEVERAL_PIECES, ((1, 2), (2,))),
        ("zeros_like", SEVERAL_PIECES, ((4, 5, 6), (5, 6), (6,))),
        ("zer", UNSPELLABLE, ()),
        ("umpy", UNSPELLABLE, ()),
    ],
)
def test_an_answer_is_asked_for_by_its_pieces(
    answer: str, status: str, variants: tuple[tuple[int, ...], ...]
) -> None:
    (ask,) = build_query_requests(prepared(IMPORT, PIECES), [query(IMPORT, answer)])
    assert (ask.status, ask.variants) == (status, variants)


def test_an_answer_that_ends_inside_a_piece_is_not_asked() -> None:
    (ask,) = build_query_requests(prepared("np.r_(", ["np", ".", "r", "_("]), [query("np.r_(", "r_")])
    assert ask.status == UNSPELLABLE


def test_inputs_are_asked_for_once() -> None:
    asks = build_query_requests(
        prepared(IMPORT, PIECES), [query(IMPORT, one) for one in ("py", "numpy", "like")]
    )
    assert distinct_inputs(asks, writes=False) == ((2,), (1, 2), (6,))
    assert distinct_inputs(asks, writes=True) == ((2,), (1, 2), (6,))


def test_a_word_hides_its_rest() -> None:
    one = prepared("f(numpy, x)", ["f", "(", "num", "p", "y", ",", " x", ")"])
    assert word_masks(one.alignment) == ((0,), (1,), (2, 3, 4), (3, 4), (4,), (5,), (6,), (7,))


def test_queries_know_what_stands_before_them() -> None:
    row = {"item_id": "i", "query_id": "q", "answer": "b", "start": 7, "end": 8}
    table = pl.DataFrame([{**row, "prefix": "import "}, {**row, "prefix": "mport a"}])
    first, second = queries_by_item(table)["i"]
    assert first.word_start
    assert not second.word_start


WORD_PIECES = ["al", "##ta", "##ir", "_", "a", "import", "from", ".", "x", "[UNK]"]


UNCASED = {
    "lower case": normalizers.Lowercase(),
    "as BERT": normalizers.BertNormalizer(lowercase=True),
    "no accents": normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    ),
}


def word_piece(text: str, cuts: tuple[int, int], uncased: str = "lower case") -> Prepared:
    """A text in the pieces of a vocabulary that marks what goes on and knows no capital letters."""
    made = Tokenizer(models.WordPiece({piece: at for at, piece in enumerate(WORD_PIECES)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = UNCASED[uncased], pre_tokenizers.BertPreTokenizer()
    fast = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")
    one = prepared(text, [text])
    return dataclasses.replace(
        one, alignment=dataclasses.replace(one.alignment, subwords=encode(fast, text, cuts))
    )


def test_the_piece_says_whether_it_begins_a_word() -> None:
    def asked(start: int, end: int) -> tuple[str, bool]:
        text = "altair_a"
        answer = ClozeQuery("q", text[start:end], start, end, word_start=False)
        (ask,) = build_query_requests(word_piece(text, (start, end)), [answer])
        return ask.status, ask.initial

    assert [asked(0, 2), asked(2, 4), asked(7, 8)] == [
        (ONE_PIECE, True),
        (ONE_PIECE, False),
        (ONE_PIECE, True),
    ]
    assert asked(2, 6) == (SEVERAL_PIECES, False)


@pytest.mark.parametrize("uncased", UNCASED)
def test_what_a_tokenizer_cannot_spell_or_spells_otherwise_is_not_asked(uncased: str) -> None:
    text = "from a import X.q"
    for answer, status in (("a", ONE_PIECE), ("X", OTHER_SPELLING), ("q", UNSPELLABLE)):
        start = text.index(answer)
        (ask,) = build_query_requests(word_piece(text, (start, start + 1), uncased), [query(text, answer)])
        assert (ask.status, bool(ask.variants)) == (status, status == ONE_PIECE)


def test_after_a_blank_both_forms_are_right() -> None:
    surfaces = ("rand", " rand", "ran", "d", ".")
    vocabulary = get_vocabulary(surfaces)
    assert vocabulary.right("rand", word_start=True, initial=True) == (0, 1)
    assert vocabulary.right("rand", word_start=False, initial=True) == (0,)
    assert vocabulary.right("random", word_start=True, initial=True) == ()


def test_wordpiece_marks_what_goes_on() -> None:
    surfaces = ("rand", "##rand", "##om", "om", "##s", ".")
    vocabulary = get_vocabulary(surfaces)
    assert vocabulary.wordpiece
    assert vocabulary.right("om", word_start=False, initial=False) == (2,)
    assert vocabulary.right("rand", word_start=False, initial=True) == (0,)
