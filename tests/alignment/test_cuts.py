"""Subwords that no piece of goes over a cut."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from sonde.alignment import Subwords, align, encode, encode_batch
from sonde.languages import LANGUAGES
from sonde.models import ModelSpec, load_tokenizer
from tests.alignment.conftest import KINDS, LOSSLESS, TEXTS
from tests.counting import grows_by

EXAMPLES = ["from numpy import zeros_like", "import a as é\né.zeros(", "x", "np.r_(", "f(  _b )"]

NAMES = st.from_regex(r"[a-z]{1,5}(_[a-z]{1,4})?|[A-Z][a-z]{1,4}", fullmatch=True)
STATEMENTS = st.builds(
    lambda before, module, name, after: (before + module, name, after),
    st.sampled_from(["import ", "from ", "", "# example\n", "x = ", "\n    ", "self.", "import os, "]),
    st.sampled_from(["", "os.", "foo import ", "bar."]),
    NAMES,
    st.sampled_from(["(", "", " as x", " import os", ".foo("]),
)


@pytest.fixture(scope="module")
def tokenizer() -> object:
    return load_tokenizer(ModelSpec(name="sonde/mini-encoder"))


def straddling(found: Subwords, cuts: Sequence[int]) -> list[str]:
    """Pieces with text before and after a cut, one space before it left aside."""
    spans = zip(found.surface, found.start.tolist(), found.end.tolist(), strict=True)
    return [
        surface
        for surface, start, end in spans
        for cut in cuts
        if start < cut < end and found.text[start:cut] != " "
    ]


@pytest.mark.parametrize("text", EXAMPLES)
def test_no_piece_crosses_a_cut(tokenizer: object, text: str) -> None:
    rng = np.random.default_rng(0)
    python = LANGUAGES.load("python")
    tree = python.parse(text)
    for _ in range(40):
        cuts = tuple(sorted(rng.choice(len(text) + 1, size=min(2, len(text)), replace=False).tolist()))
        found = encode(tokenizer, text, cuts)
        assert not straddling(found, cuts)
        assert found.lossless
        align(found, tree, python.tokens(tree))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_texts_that_are_encoded_together_are_encoded_as_each_alone(kind: str) -> None:
    tokenizer = KINDS[kind]()
    # More than the tokenizer gets at once, with a surrogate that it cannot take, and nothing at all.
    texts = [*(f"x_{number} = {text}" for number in range(8) for text in EXAMPLES), "", "a \ud800 b"]
    asked = [(text, (2, 5) if number % 3 else ()) for number, text in enumerate(texts)]
    together = list(encode_batch(tokenizer, iter(asked)))
    assert len(together) == len(asked)
    for (text, cuts), found in zip(asked, together, strict=True):
        alone = encode(tokenizer, text, cuts)
        assert (found.text, found.surface, found.lossless) == (text, alone.surface, alone.lossless)
        for column in ("ids", "start", "end", "bytes"):
            np.testing.assert_array_equal(getattr(found, column), getattr(alone, column))


def test_without_cuts_nothing_changes(tokenizer: object) -> None:
    for text in EXAMPLES:
        assert encode(tokenizer, text, ()).ids.tolist() == encode(tokenizer, text).ids.tolist()


def fast(model: object, pre_tokenizer: object, unk: str | None = None) -> PreTrainedTokenizerFast:
    made = Tokenizer(model)  # type: ignore[arg-type]
    made.pre_tokenizer = pre_tokenizer  # type: ignore[assignment]
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token=unk)


def byte_level(merges: Sequence[tuple[str, str]]) -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = dict.fromkeys([*letters, *(a + b for a, b in merges)])
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    return fast(models.BPE(vocabulary, list(merges)), pre_tokenizers.ByteLevel(add_prefix_space=False))


def test_a_space_before_an_answer_is_part_of_its_piece_where_that_is_how_it_is_written() -> None:
    # " gat" is one piece, and without the space there are two: the common case of a frequent word.
    small = byte_level([("\u0120", "g"), ("a", "t"), ("\u0120g", "at")])
    assert encode(small, "a gat(", (2, 5)).surface == ("a", " gat", "(")
    # And where only the form without a space is one piece, the text is still said as it stands.
    other = byte_level([("g", "a"), ("ga", "t")])
    assert encode(other, "a gat(", (2, 5)).surface == ("a", " ", "gat", "(")


def test_a_line_break_before_an_answer_is_not_left_out() -> None:
    small = byte_level([("g", "a"), ("ga", "t")])
    assert encode(small, "# e\ngat(", (4, 7)).surface == ("#", " ", "e", "\n", "gat", "(")


def test_wordpiece_marks_what_goes_on_behind_a_cut() -> None:
    letters = ["al", "##ta", "##ir", "##t", "##r", "altair", "from", "import", ".", "##x", "[UNK]"]
    vocabulary = {piece: number for number, piece in enumerate(letters)}
    cased = fast(models.WordPiece(vocabulary, unk_token="[UNK]"), pre_tokenizers.BertPreTokenizer(), "[UNK]")
    text = "from altair import altair"
    assert encode(cased, text).surface == ("from", "altair", "import", "altair")
    assert encode(cased, text, (5, 7)).surface == ("from", "al", "##ta", "##ir", "import", "altair")
    assert encode(cased, text, (7, 9)).surface == ("from", "al", "##ta", "##ir", "import", "altair")
    assert encode(cased, text, (7, 8)).surface[1:4] == ("al", "##t", "[UNK]")


def test_a_metaspace_is_put_before_no_part_of_a_word() -> None:
    pieces = ["\u2581altair", "\u2581", "\u2581al", "ta", "ir", "a", "l", "t", "i", "r", "<unk>"]
    scores = [(piece, -float(number)) for number, piece in enumerate(pieces)]
    unigram = fast(models.Unigram(scores, unk_id=10), pre_tokenizers.Metaspace(), "<unk>")
    assert encode(unigram, "altair altair").surface == (" altair", " altair")
    assert encode(unigram, "altair altair", (9, 11)).surface == (" altair", " al", "ta", "ir")
    found = encode(unigram, "altair", (0, 2))
    assert found.surface == (" al", "ta", "ir")
    assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == [(0, 2), (2, 4), (4, 6)]


def test_what_is_unknown_behind_a_blank_put_before_a_word_is_not_lost() -> None:
    pieces = ["\u2581import", "\u2581", "an", "a", "n", "(", "<unk>"]
    scores = [(piece, -float(number)) for number, piece in enumerate(pieces)]
    before = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    found = encode(fast(models.Unigram(scores, unk_id=6), before, "<unk>"), "import Aan(", (9, 10))
    assert found.surface == (" import", " ", "<unk>", "a", "n", "(") and found.unknown == 1
    assert found.start.tolist() == [0, 7, 7, 8, 9, 10]


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(deadline=None, max_examples=150)
@given(parts=STATEMENTS, inside=st.integers(0, 3))
def test_a_cut_statement_says_its_text_in_the_tokenizers_own_pieces(
    tokenizers: Callable[[str], PreTrainedTokenizerFast], kind: str, parts: tuple[str, str, str], inside: int
) -> None:
    before, answer, after = parts
    text = before + answer + after
    start = len(before) + min(inside, len(answer) - 1)
    cuts = (start, len(before) + len(answer))
    whole, found = encode(tokenizers(kind), text), encode(tokenizers(kind), text, cuts)
    assert not straddling(found, cuts)
    if not straddling(whole, cuts):
        assert found.ids.tolist() == whole.ids.tolist()
    covered = {at for start, end in zip(found.start, found.end, strict=True) for at in range(start, end)}
    assert all(text[at].isspace() for at in set(range(len(text))) - covered)
    if kind in LOSSLESS:
        assert found.lossless
        assert "".join(found.surface).removeprefix(" ") == text.removeprefix(" ")
    elif not found.unknown and "<0x" not in "".join(found.surface):
        said = "".join(surface.removeprefix("##") for surface in found.surface)
        expected = text.lower() if "uncased" in kind else text
        assert "".join(said.split()) == "".join(expected.split())


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(deadline=None, max_examples=100)
@given(data=st.data(), text=TEXTS)
def test_any_text_cut_anywhere_is_still_spelled(
    tokenizers: Callable[[str], PreTrainedTokenizerFast], kind: str, data: st.DataObject, text: str
) -> None:
    cuts = tuple(sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=3))))
    found = encode(tokenizers(kind), text, cuts)
    assert (np.diff(found.start) >= 0).all()
    assert (found.end <= len(text)).all()
    if kind in LOSSLESS:
        assert found.lossless
        assert int(found.bytes.sum()) == len(text.encode())


def test_the_work_grows_with_the_text_and_its_cuts(tokenizer: object) -> None:
    def cut(size: int) -> Subwords:
        text = "x = zeros_like(y)\n" * size
        return encode(tokenizer, text, tuple(range(8, len(text), 18)))

    assert grows_by(cut) < 2.6
