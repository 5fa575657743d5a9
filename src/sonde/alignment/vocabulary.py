"""A vocabulary as texts: what each id spells, and which ids spell a text at a place.

Byte-level and SentencePiece vocabularies write a leading blank into the piece: after a blank both forms are
right, inside a word only the one without. WordPiece marks what goes on instead (``##x``): a piece that begins
a word has to be unmarked, any other one marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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
            initial: Whether their piece begins a word for the tokenizer.
        """
        found = self.ids.get(answer, ())
        if self.wordpiece:
            return tuple(number for number in found if (number in self.goes_on) != initial)
        return found if word_start else tuple(number for number in found if number not in self.blank)


def vocabulary_of(surfaces: Sequence[str]) -> Vocabulary:
    """The vocabulary with these surfaces, read once."""
    return _read(tuple(surfaces))


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
