"""A vocabulary as answers: which ids spell an answer where, and which surfaces several models share.

Byte-level and SentencePiece vocabularies write a leading blank into the piece: after a blank both forms are
right, inside a word only the one without. WordPiece marks what goes on instead (``##x``): a piece that begins
a level has to be unmarked, any other one marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sonde.alignment import surfaces as surfaces_of
from sonde.base.errors import InputError
from sonde.models import ModelSpec, load_tokenizer

_GOES_ON = "##"
_MARKED = 0.02
"""Share of marked pieces from which on a vocabulary is taken for WordPiece; it has a fifth or more."""


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The surfaces of a vocabulary without their marks.

    Attributes:
        texts: For each id what it spells, without leading blank or mark; empty for ids that spell nothing.
        ids: For each text its ids.
        blank: Ids with a leading blank.
        goes_on: Ids with the mark of what goes on.
        wordpiece: Whether the vocabulary marks what goes on.
    """

    texts: tuple[str, ...]
    ids: dict[str, tuple[int, ...]]
    blank: frozenset[int]
    goes_on: frozenset[int]
    wordpiece: bool

    def right(self, answer: str, *, word_start: bool, initial: bool) -> tuple[int, ...]:
        """The ids that are right for an answer.

        Args:
            answer: The characters asked for.
            word_start: Whether a blank, or nothing, stands before them.
            initial: Whether they begin a level of the name.
        """
        found = self.ids.get(answer, ())
        if self.wordpiece:
            return tuple(number for number in found if (number in self.goes_on) != initial)
        return found if word_start else tuple(number for number in found if number not in self.blank)


@lru_cache(maxsize=4)
def _read(surfaces: tuple[str, ...]) -> Vocabulary:
    marked = sum(surface.startswith(_GOES_ON) and surface != _GOES_ON for surface in surfaces)
    wordpiece = marked > _MARKED * len(surfaces)
    texts: list[str] = []
    ids: dict[str, list[int]] = {}
    blank: set[int] = set()
    goes_on: set[int] = set()
    for number, surface in enumerate(surfaces):
        text = surface
        if wordpiece and surface.startswith(_GOES_ON):
            text = surface.removeprefix(_GOES_ON)
            goes_on.add(number)
        elif surface[:1].isspace():
            text = surface.lstrip()
            blank.add(number)
        texts.append(text)
        if text:
            ids.setdefault(text, []).append(number)
    held = {text: tuple(numbers) for text, numbers in ids.items()}
    return Vocabulary(tuple(texts), held, frozenset(blank), frozenset(goes_on), wordpiece)


def vocabulary_of(surfaces: Sequence[str]) -> Vocabulary:
    """The vocabulary with these surfaces, read once."""
    return _read(tuple(surfaces))


def own_vocabulary(model: str) -> Vocabulary:
    """The vocabulary of a model by name; no weight is read."""
    return vocabulary_of(surfaces_of(load_tokenizer(_spec(model))))


def unified(models: Iterable[str]) -> frozenset[str]:
    """Surfaces that the vocabularies of all models hold, special tokens left out.

    Raises:
        InputError: They share none.
    """
    named = list(models)
    held: frozenset[str] | None = None
    for model in named:
        tokenizer = load_tokenizer(_spec(model))
        special = {str(token) for token in tokenizer.all_special_tokens}
        mine = frozenset(own_vocabulary(model).ids) - special
        held = mine if held is None else held & mine
    if not held:
        raise InputError(
            f"the vocabularies of {', '.join(named) or 'no model'} share no piece; compare models whose "
            "tokenizers spell text in the same script"
        )
    return held


def segmented(model: str, levels: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The pieces that a model's tokenizer makes of each level alone, without blanks and marks."""
    tokenizer = load_tokenizer(_spec(model))
    vocabulary = own_vocabulary(model)
    encoded = tokenizer(list(levels), add_special_tokens=False)["input_ids"] if levels else []
    return {
        level: tuple(text for number in ids if (text := vocabulary.texts[number]))
        for level, ids in zip(levels, encoded, strict=True)
    }


def _spec(model: str) -> ModelSpec:
    name, _, revision = model.strip().partition("@")
    return ModelSpec(name=name, revision=revision)
