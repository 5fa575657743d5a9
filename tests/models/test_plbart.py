"""PLBART's SentencePiece model is read with character offsets, cut as SentencePiece cuts."""

import json
import re
import struct

import pytest

from sonde.base.errors import InputError
from sonde.models import ModelSpec, describe_model, describe_special, load_model, load_tokenizer

from .published import save_published

TEXTS = ["def add(first, second):\n    return first + second\n", "return  adder ", "second", "add é add", ""]
MERGES = [
    "re",
    "tu",
    "rn",
    "ret",
    "turn",
    "return",
    "\u2581return",
    "ad",
    "add",
    "\u2581add",
    "de",
    "\u2581de",
]
MERGES += [
    "nd",
    "se",
    "co",
    "sec",
    "ond",
    "cond",
    "second",
    "\u2581f",
    "fi",
    "rst",
    "st",
    "first",
    "er",
    "rs",
]
CHARACTERS = sorted(set("".join(MERGES)) | set("\u2581(),:+"))
PIECES = ["<unk>", "<s>", "</s>", *MERGES, *CHARACTERS]


def varint(number):
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def field(number, raw):
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def model(pieces=PIECES):
    """The file: a message a piece (text, score, kind), then what trained it."""
    written = b""
    for place, piece in enumerate(pieces):
        score = varint(2 << 3 | 5) + struct.pack("<f", -float(place))
        written += field(1, field(1, piece.encode()) + score + varint(3 << 3) + varint(1))
    return written + field(2, varint(3 << 3) + varint(2))


def slowly(text):
    """SentencePiece's rule: of neighbours that make a piece those with the best score, leftmost first."""
    blanked = "\u2581" + re.sub(" {2,}", " ", text.strip()).replace(" ", "\u2581")
    found = []
    for word in re.findall("\u2581[^\u2581]*", blanked if text.strip() else ""):
        symbols = list(word)
        while True:
            pairs = [symbols[at] + symbols[at + 1] for at in range(len(symbols) - 1)]
            places = [(PIECES.index(pair), at) for at, pair in enumerate(pairs) if pair in PIECES]
            if not places:
                break
            at = min(places)[1]
            symbols[at : at + 2] = [pairs[at]]
        found += symbols
    return found


@pytest.fixture
def folder(tmp_path):
    save_published("uclanlp/plbart-base", tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (tmp_path / "model" / name).unlink(missing_ok=True)
    (tmp_path / "model" / "sentencepiece.bpe.model").write_bytes(model())
    return tmp_path / "model"


def test_texts_are_cut_as_sentencepiece_cuts_them(folder):
    tokenizer = load_tokenizer(ModelSpec(name=str(folder)))
    for text in (text.replace("\n", " ") for text in TEXTS):
        expected = [piece if piece in PIECES else "<unk>" for piece in slowly(text)]
        assert tokenizer.tokenize(text) == expected
        encoding = tokenizer(text, return_offsets_mapping=True)
        assert encoding["input_ids"][-1] == tokenizer.convert_tokens_to_ids("</s>")
        for piece, (first, last) in zip(expected, encoding["offset_mapping"], strict=False):
            # The blank that is put before a text has the place of its first character.
            assert piece in ("<unk>", "\u2581") or text[first:last].strip() == piece.strip("\u2581")


def test_ids_are_in_the_order_of_fairseq(folder):
    tokenizer = load_tokenizer(ModelSpec(name=str(folder)))
    size = len(PIECES)
    ids = tokenizer.convert_tokens_to_ids
    assert [ids(token) for token in ("<s>", "<pad>", "</s>", "<unk>")] == [0, 1, 2, 3]
    assert [ids(piece) for piece in PIECES[3:]] == list(range(4, size + 1))
    assert [ids(code) for code in ("__java__", "__python__", "__en_XX__")] == [size + 1, size + 2, size + 3]
    assert tokenizer.mask_token_id == size + 4 and len(tokenizer) == size + 5


def test_a_model_with_its_pieces_alone_loads_and_fills_gaps(folder):
    loaded = load_model(ModelSpec(name=str(folder), device="cpu"))
    assert loaded.family == "bart" and loaded.capabilities.masks
    assert loaded.special.suffix == (2,) and loaded.special.gap is not None


def test_a_model_of_many_languages_names_one_behind_a_text(folder):
    settings = {"language_codes": "multi", "src_lang": "python", "tokenizer_class": "PLBartTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert describe_special(ModelSpec(name=str(folder))).suffix == (2, len(PIECES) + 2)
    assert not describe_model(ModelSpec(name=str(folder))).masks


@pytest.mark.parametrize("settings", [{"language_codes": "cobol"}, {"src_lang": "cobol"}])
def test_unknown_languages_are_refused(settings, folder):
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match="'cobol' is unknown; known: "):
        load_tokenizer(ModelSpec(name=str(folder)))
