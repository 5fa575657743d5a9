"""What the vocabularies of the models of a run share, and how each cuts the levels of names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from sonde.alignment import surfaces as surfaces_of
from sonde.alignment.vocabulary import Vocabulary, vocabulary_of
from sonde.base.errors import InputError
from sonde.base.files import FileStamp
from sonde.models import load_tokenizer, spec_of, tokenizer_stamps


def own_vocabulary(model: str) -> Vocabulary:
    """The vocabulary of a model by name; no weight is read."""
    return vocabulary_of(surfaces_of(load_tokenizer(spec_of(model.strip()))))


def unified(models: tuple[str, ...]) -> frozenset[str]:
    """Surfaces that the vocabularies of all models hold, special tokens left out.

    Raises:
        InputError: They share none.
    """
    return _unified(models, tuple(tokenizer_stamps(spec_of(model.strip())) for model in models))


@lru_cache(maxsize=4)
def _unified(models: tuple[str, ...], stamps: tuple[tuple[FileStamp, ...], ...]) -> frozenset[str]:
    held: frozenset[str] | None = None
    for model in models:
        tokenizer = load_tokenizer(spec_of(model.strip()))
        special = {str(token) for token in tokenizer.all_special_tokens}
        mine = frozenset(own_vocabulary(model).ids) - special
        held = mine if held is None else held & mine
    if not held:
        raise InputError(
            f"the vocabularies of {', '.join(models) or 'no model'} share no subtoken; compare models whose "
            "tokenizers spell text in the same script"
        )
    return held


def segmented(model: str, levels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The pieces that a model's tokenizer makes of each level alone, without blanks and marks."""
    tokenizer = load_tokenizer(spec_of(model.strip()))
    vocabulary = own_vocabulary(model)
    encoded = tokenizer(list(levels), add_special_tokens=False)["input_ids"] if levels else []
    return {
        level: tuple(text for number in ids if (text := vocabulary.texts[number]))
        for level, ids in zip(levels, encoded, strict=True)
    }
