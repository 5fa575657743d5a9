"""Subwords that no piece of goes over a cut."""

import numpy as np
import pytest

from sonde.alignment import align, encode
from sonde.languages import LANGUAGES
from sonde.models import ModelSpec, load_tokenizer

TEXTS = ["from numpy import zeros_like", "import a as é\né.zeros(", "x", "np.r_(", "f(  _b )"]


@pytest.fixture(scope="module")
def tokenizer() -> object:
    return load_tokenizer(ModelSpec(name="sonde/mini-encoder"))


@pytest.mark.parametrize("text", TEXTS)
def test_no_piece_crosses_a_cut(tokenizer: object, text: str) -> None:
    rng = np.random.default_rng(0)
    python = LANGUAGES.load("python")
    tree = python.parse(text)
    for _ in range(40):
        cuts = tuple(sorted(rng.choice(len(text) + 1, size=min(2, len(text)), replace=False).tolist()))
        found = encode(tokenizer, text, cuts)
        for start, end in zip(found.start.tolist(), found.end.tolist(), strict=True):
            for cut in cuts:
                assert not start < cut < end or text[start:cut].isspace()
        covered = {at for start, end in zip(found.start, found.end, strict=True) for at in range(start, end)}
        assert all(text[at].isspace() for at in set(range(len(text))) - covered)
        align(found, tree, python.tokens(tree))


def test_without_cuts_nothing_changes(tokenizer: object) -> None:
    for text in TEXTS:
        assert encode(tokenizer, text, ()).ids.tolist() == encode(tokenizer, text).ids.tolist()


def test_stretches_are_encoded_by_themselves(tokenizer: object) -> None:
    found = encode(tokenizer, "from numpy import zeros_like", (18, 21))
    parts = ("from numpy import", " zer", "os_like")
    expected = [number for part in parts for number in encode(tokenizer, part).ids.tolist()]
    alone = [
        number for part in (parts[0], "zer", parts[2]) for number in encode(tokenizer, part).ids.tolist()
    ]
    assert found.ids.tolist() in (expected, alone)
    assert len(found) == min(len(expected), len(alone))
