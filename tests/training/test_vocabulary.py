import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sonde.base.errors import InputError
from sonde.training.pretrain.vocabulary import (
    BOS,
    EOS,
    SPECIALS,
    learn_vocabulary,
    load_vocabulary,
    save_vocabulary,
    with_template,
)

CODE = [
    f"def name_{n}(self, value):\n    if value is not None:\n        return value ** 2 != {n}\n\n\n" * 3
    for n in range(20)
]
texts = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("\r\n\t  ():\"'é日🙂")))


@pytest.fixture(scope="module")
def vocabulary() -> Tokenizer:
    return learn_vocabulary(CODE, 295)


@pytest.fixture(scope="module")
def decoder(vocabulary: Tokenizer) -> PreTrainedTokenizerFast:
    return with_template(vocabulary, "decoder", 128)


def pieces(tokenizer: PreTrainedTokenizerFast, text: str) -> list[str]:
    encoded = tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
    return [text[start:end] for start, end in encoded["offset_mapping"]]


@settings(max_examples=300, deadline=None)
@given(texts)
def test_any_text_comes_back(decoder, text):
    assert decoder.decode(decoder(text)["input_ids"][1:]) == text


@settings(max_examples=200, deadline=None)
@given(texts)
def test_offsets_are_characters_and_cover_the_text(decoder, text):
    encoded = decoder(text, return_offsets_mapping=True, add_special_tokens=False)
    covered = set()
    for start, end in encoded["offset_mapping"]:
        assert 0 <= start < end <= len(text)
        covered.update(range(start, end))
    assert covered == set(range(len(text)))


def test_nothing_reaches_over_the_edge_of_a_code_token(decoder):
    text = 'def f(a):\n        if a["b"] ** 2 != 10:\n\treturn """x"""\r\n'
    found = pieces(decoder, text)
    assert "".join(found) == text
    for joined in ("):", '["', '"]', "10", ":\n", " (", '"""x'):
        assert not any(joined in piece for piece in found), joined


def test_indentation_and_operators_are_one_piece(decoder):
    found = pieces(decoder, CODE[0])
    assert "\n        " in found
    assert " **" in found
    assert " !=" in found


def test_special_pieces_in_a_text_are_its_characters(decoder):
    ids = decoder("a <|eos|> b <|mask|>")["input_ids"]
    assert [i for i in ids if i < len(SPECIALS)] == [SPECIALS.index(BOS)]


def test_templates(vocabulary):
    decoder, encoder = (with_template(vocabulary, role, 128) for role in ("decoder", "encoder"))
    plain = decoder("x = 1", add_special_tokens=False)["input_ids"]
    bos, eos = SPECIALS.index(BOS), SPECIALS.index(EOS)
    assert decoder("x = 1")["input_ids"] == [bos, *plain]
    assert encoder("x = 1")["input_ids"] == [bos, *plain, eos]
    pair = encoder("x = 1", "x = 1", return_token_type_ids=True)
    assert pair["input_ids"] == [bos, *plain, eos, *plain, eos]
    assert pair["token_type_ids"] == [0] * (len(plain) + 2) + [1] * (len(plain) + 1)
    assert (encoder.cls_token_id, encoder.sep_token_id) == (bos, eos)
    with pytest.raises(InputError, match="decoder"):
        with_template(vocabulary, "translator", 128)


def test_what_is_saved_loads_as_the_same(vocabulary, tmp_path: Path):
    with_template(vocabulary, "decoder", 128).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(loaded, PreTrainedTokenizerFast)
    text = "  def é():\n    pass <|bos|> 日"
    assert loaded.decode(loaded(text)["input_ids"][1:]) == text
    assert loaded.model_max_length == 128
    save_vocabulary(vocabulary, tmp_path / "bare.json")
    assert load_vocabulary(tmp_path / "bare.json").get_vocab() == vocabulary.get_vocab()


def test_learning_does_not_depend_on_order():
    first, second = learn_vocabulary(CODE, 295), learn_vocabulary(CODE[::-1], 295)
    assert json.loads(first.to_str())["model"] == json.loads(second.to_str())["model"]


@pytest.mark.parametrize("size", [100, 8192])
def test_sizes_that_cannot_be(size):
    with pytest.raises(InputError, match=str(size)):
        learn_vocabulary(CODE, size)
