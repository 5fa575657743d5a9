"""Words of nodes: the brackets around them, what is no code, and where a text begins."""

from __future__ import annotations

import re
from collections.abc import Sequence

OPENING = frozenset("([{")
CLOSING = frozenset(")]}")


def is_layout(word: str) -> bool:
    """Whether a word is no code: empty, an indent, a newline or a comment."""
    return not word or word.isspace() or word[0] == "#"


class Brackets:
    """Finds the words of nodes inside the brackets around them.

    Nested brackets begin and end together, so what was found for one is kept for those around it.

    Args:
        words: The words.
        layout: Whether a newline or a comment beside a bracket is a node's word (quirk ``layout_ends``).
    """

    def __init__(self, words: Sequence[str], *, layout: bool = False) -> None:
        self._words = words
        self._layout = layout
        self._behind: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def behind(self, place: int) -> int:
        """The first word of a node that is no opening bracket, unless the brackets hold nothing.

        Args:
            place: Where the node begins.
        """
        words, found, passed = self._words, self._behind, list[int]()
        while place not in found:
            inner = place
            if words[place] in OPENING:
                inner = place + 1
                while not self._layout and is_layout(words[inner]):
                    inner += 1
            if inner == place or words[inner] in CLOSING:
                found[place] = place
            else:
                passed.append(place)
                place = inner
        found.update(dict.fromkeys(passed, found[place]))
        return found[place]

    def before(self, place: int, *, newlines: bool = False) -> int:
        """The last word of a node that is no closing bracket.

        Args:
            place: Where the node ends.
            newlines: Whether a newline directly behind the node is its last word.
        """
        words, found, passed = self._words, self._before, list[int]()
        if newlines and place + 1 < len(words) and words[place + 1] == "\n":
            place += 1
        while place not in found and words[place] in CLOSING:
            passed.append(place)
            place -= 1
            while not self._layout and is_layout(words[place]):
                place -= 1
        last = found.setdefault(place, place)
        found.update(dict.fromkeys(passed, last))
        return last


_DEFINITION = re.compile(r"^([ \t]*)(?:class|def|async)\b", re.MULTILINE)


def margin_begin(text: str) -> int:
    r"""Where a text parses from: the definition of a decorated method, the beginning of anything else.

    >>> margin_begin("@property\n    def f(self):\n        return 1\n")
    14
    >>> margin_begin("@property\ndef f(self):\n    return 1\n")
    0
    """
    if not text.startswith("@"):
        return 0
    found = _DEFINITION.search(text)
    return found.end(1) if found is not None and found[1] else 0
