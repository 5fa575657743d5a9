"""Tiny tokenizers of every kind, learned on the spot, and texts that try them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    'def foo(self, x):\n    return self.bar(x) + ["a", "b"]\n',
    "class Bar(object):\n\tvalue = None\n\n    def bar(self):\n        print('Hello world!')\n",
    "for i in range(10):\n    if i == 3 and not done:\n        continue\n",
    "import os, sys  # naïve café\nx = {'é': 1, 'ü': 2}\n",
]
SPECIALS = ["<s>", "</s>", "<unk>", "<mask>"]
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def _wrap(tokenizer: Tokenizer, unk: str = "<unk>") -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token=unk, bos_token="<s>", eos_token="</s>", mask_token="<mask>"
    )


def _byte_level(*, prefix: bool = False, normalizer: object = None) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=ALPHABET, special_tokens=SPECIALS, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrap(tokenizer)


def _merged_byte_level() -> PreTrainedTokenizerFast:
    """Without word borders, so that pieces run over several code tokens and over blanks."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=ALPHABET, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrap(tokenizer)


def _word_piece(*, lowercase: bool) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrap(tokenizer, "[UNK]")


def _unigram(*, like_t5: bool) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.Unigram())
    metaspace = pre_tokenizers.Metaspace()
    if like_t5:
        spaces = normalizers.Replace(Regex(" {2,}"), " ")
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), spaces])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    else:
        tokenizer.pre_tokenizer = metaspace
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return _wrap(tokenizer)


def _byte_fallback() -> PreTrainedTokenizerFast:
    """Llama 2: spaces become ``▁``, unknown characters their bytes."""
    pieces = [
        "<unk>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "\u2581",
        *"abcdefgh(),:=",
        "de",
        "def",
        "\u2581def",
    ]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    merges = [("d", "e"), ("de", "f"), ("\u2581", "def")]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    return _wrap(tokenizer)


KINDS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "byte_level": _byte_level,
    "byte_level_prefix_space": lambda: _byte_level(prefix=True),
    "byte_level_nfc": lambda: _byte_level(normalizer=normalizers.NFC()),
    "byte_level_without_words": _merged_byte_level,
    "word_piece_cased": lambda: _word_piece(lowercase=False),
    "word_piece_uncased": lambda: _word_piece(lowercase=True),
    "unigram": lambda: _unigram(like_t5=False),
    "unigram_like_t5": lambda: _unigram(like_t5=True),
    "byte_fallback": _byte_fallback,
}
LOSSLESS = {"byte_level", "byte_level_prefix_space", "byte_level_without_words"}


@pytest.fixture(scope="session")
def tokenizers() -> Callable[[str], PreTrainedTokenizerFast]:
    made: dict[str, PreTrainedTokenizerFast] = {}

    def get(kind: str) -> PreTrainedTokenizerFast:
        if kind not in made:
            made[kind] = KINDS[kind]()
        return made[kind]

    return get


_SCRAPS = [
    *(
        "def f(x):",
        "print(",
        "):\n",
        " [",
        "'a'",
        "#",
        "\\\n",
        "self.value",
        "    ",
        "\t",
        "\r\n",
        "\n",
        " ",
        "\u00a0",
    ),
    *(
        "é",
        "e\u0301",
        "\u0301",
        "ﬁ",
        "İ",
        "ß",
        "中文",
        "שלום",
        "مرحبا",
        "\u200f",
        "\u200d",
        "\ufeff",
        "\0",
        "\u2028",
    ),
    *(
        "👩\u200d👩\u200d👧",
        "🤷🏽\u200d♀️",
        "🇩🇪",
        "\U0010ffff",
        "\u2581",
        "<s>",
        "</s>",
        "<mask>",
        "<0xE2>",
        "##ing",
        "[UNK]",
    ),
]
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.lists(
        st.one_of(st.sampled_from(_SCRAPS), st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
        max_size=20,
    ).map("".join),
)
CODE = st.lists(
    st.sampled_from(
        [
            *(
                "def f(a, b=1):\n",
                "    return a\n",
                "x = [1, 'é']\n",
                "class C(B):\n",
                "    pass\n",
                "print(f'{x!r} y')\n",
            ),
            *(
                "    def m(self): return self.x\n",
                "if x:\n",
                "\tx += 1\n",
                "# ünï\n",
                "'''doc\n é'''\n",
                "a.b(c)(d)\n",
                ")",
            ),
        ]
    ),
    max_size=10,
).map("".join)
