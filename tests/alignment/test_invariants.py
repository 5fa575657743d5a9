"""No text, whatever its Unicode, breaks the invariants, for any kind of tokenizer."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from sonde.alignment import align, encode
from sonde.languages import LANGUAGES

from .conftest import KINDS, LOSSLESS, TEXTS

TEXT = LANGUAGES.load("text")
SETTINGS = settings(
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_any_text_keeps_the_invariants(kind, tokenizers):
    tokenizer = tokenizers(kind)

    @SETTINGS
    @given(TEXTS)
    def holds(text):
        subwords = encode(tokenizer, text)
        tree = TEXT.parse(text)
        alignment = align(subwords, tree, TEXT.tokens(tree))
        spans = list(zip(subwords.start.tolist(), subwords.end.tolist(), strict=True))
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert sorted(start for start, _ in spans) == [start for start, _ in spans]
        assert sorted(end for _, end in spans) == [end for _, end in spans]
        seen = {place for start, end in spans for place in range(start, end)}
        assert alignment.coverage.covered == len(seen)
        assert subwords.bytes.sum() == sum(len(text[place].encode()) for place in seen)
        assert (subwords.bytes >= 0).all()
        if kind in LOSSLESS:
            assert len(seen) == len(text)
            assert subwords.bytes.sum() == len(text.encode())
            assert subwords.lossless
        assert ((alignment.last == alignment.first) == (alignment.node == -1)).all()

    holds()


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_a_plain_call(kind, tokenizers):
    tokenizer = tokenizers(kind)
    for text in ("def foo(self):\n\treturn [ 'é', \"👩\u200d👧\"]\r\n", "", " ", "\n\n  x", "E\u0301tat"):
        assert encode(tokenizer, text).ids.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("kind", ["byte_level", "word_piece_cased", "unigram"])
def test_special_tokens_in_a_text_are_text(kind, tokenizers):
    tokenizer = tokenizers(kind)
    assert not set(tokenizer.all_special_ids) - {tokenizer.unk_token_id} & set(
        encode(tokenizer, "x = '</s><mask>'").ids.tolist()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_lone_surrogates_read_as_the_replacement_character(kind, tokenizers):
    tokenizer = tokenizers(kind)
    odd, plain = encode(tokenizer, "a\ud800b \udc00"), encode(tokenizer, "a\ufffdb \ufffd")
    assert odd.ids.tolist() == plain.ids.tolist()
    for field in ("start", "end", "bytes"):
        assert np.array_equal(getattr(odd, field), getattr(plain, field))
