"""Places and edits of a text, carried over to the same program in other words.

Code tokens are what both texts have in common: of most transforms each token of the one is that of the other
with the same number, of the others the stretches that stand in both. What lies on no such tokens is not
carried over.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cached_property

from sonde.languages._edits import Edits, TextPlace
from sonde.languages._facets import facet_of
from sonde.languages._text import in_common
from sonde.languages._transforms import (
    COMMENTS,
    DOCSTRINGS,
    IN_ORDER,
    LAYOUT,
    ChangedText,
    Transforms,
    renamed_token,
)
from sonde.languages._treesitter import TreeSitterLanguage


class Carried:
    """A text beside the same program in other words.

    Args:
        language: The language of both.
        text: The text.
        change: What a transform made of it.
        transform: Its name.
    """

    def __init__(self, language: TreeSitterLanguage, text: str, change: ChangedText, transform: str) -> None:
        self._edits = facet_of(language.name, "edits", Edits)
        self._rules = Transforms(language)
        self._text, self._change, self._transform = text, change, transform

    def place(self, start: int, end: int) -> tuple[int, int] | None:
        """Where a stretch of whole code tokens stands in the changed text.

        Returns:
            First character and one past the last; None where it does not begin and end with a code token, or
            where its tokens do not stand together there.
        """
        first = next((at for at, token in enumerate(self._before) if token.start == start), None)
        last = next((at for at, token in enumerate(self._before) if token.end == end), None)
        there = None if first is None or last is None else self._numbers_of(first, last)
        return None if there is None else (self._after[there[0]].start, self._after[there[1]].end)

    def edited(self, text: str) -> str | None:
        """The changed text with the edit that makes another text of this one.

        Args:
            text: The text with one stretch of it edited; it need not parse.

        Returns:
            None where the edit is not one of code tokens, or cannot be made in the changed text.
        """
        if self._transform in (LAYOUT, COMMENTS):
            # These look at nothing but lines and comments, wherever an edit is.
            changed = self._rules.change(text, self._transform).text
            same = _surfaces(self._edits.tokens(changed)) == _surfaces(self._edits.tokens(text))
            return changed if same else None
        before, after = self._before, self._edits.tokens(text)
        ahead, behind = _in_common(self._text, before, text, after)
        there = self._numbers_of(max(ahead - 1, 0), min(len(before) - behind, len(before) - 1))
        if there is None:
            return None
        # From the token before the edit to the one behind it, so that what lies between tokens goes along.
        left, first = (self._after[there[0]].end, after[ahead - 1].end) if ahead else (0, 0)
        right, last = len(self._change.text), len(text)
        if behind:
            right, last = self._after[there[1]].start, after[len(after) - behind].start
        stretch = self._renamed(text, first, last, after[ahead : len(after) - behind])
        if stretch is None:
            return None
        changed = self._change.text[:left] + stretch + self._change.text[right:]
        return self._rules.uncommented(changed) if self._transform == DOCSTRINGS else changed

    def _renamed(self, text: str, start: int, end: int, tokens: Sequence[TextPlace]) -> str | None:
        """A stretch of a text, its variables called as in the changed one; None where a token holds one."""
        parts: list[str] = []
        for token in tokens:
            word = renamed_token(text, token, self._change.names)
            if word is None:
                return None
            parts += [text[start : token.start], word]
            start = token.end
        return "".join([*parts, text[start:end]])

    @cached_property
    def _before(self) -> tuple[TextPlace, ...]:
        return self._edits.tokens(self._text)

    @cached_property
    def _after(self) -> tuple[TextPlace, ...]:
        return self._edits.tokens(self._change.text)

    @cached_property
    def _numbers(self) -> dict[int, int]:
        """From the number of a token to that of the same token in the changed text."""
        if self._transform in IN_ORDER:
            return dict(enumerate(range(len(self._after)))) if len(self._before) == len(self._after) else {}
        found = SequenceMatcher(None, _surfaces(self._before), _surfaces(self._after), autojunk=False)
        return {
            block.a + at: block.b + at for block in found.get_matching_blocks() for at in range(block.size)
        }

    def _numbers_of(self, first: int, last: int) -> tuple[int, int] | None:
        """First and last of some tokens in the changed text; None where they do not stand together there."""
        there = [self._numbers.get(number) for number in range(first, last + 1)]
        if not there or there[0] is None or there != list(range(there[0], there[0] + len(there))):
            return None
        return there[0], there[0] + len(there) - 1


def _surfaces(tokens: Sequence[TextPlace]) -> list[str]:
    return [token.surface for token in tokens]


def _in_common(
    text: str, tokens: Sequence[TextPlace], other: str, others: Sequence[TextPlace]
) -> tuple[int, int]:
    """How many tokens two texts have in common at their beginnings and at their ends, gaps included."""
    same = in_common(text, other)
    most, ahead, behind = min(len(tokens), len(others)), 0, 0
    while ahead < most and tokens[ahead].end <= same and tokens[ahead] == others[ahead]:
        ahead += 1
    same = in_common(text[::-1], other[::-1])
    apart = len(other) - len(text)
    while ahead + behind < most and tokens[-1 - behind].start >= len(text) - same:
        one, two = tokens[-1 - behind], others[-1 - behind]
        if (one.start + apart, one.end + apart) != (two.start, two.end):
            break
        behind += 1
    return ahead, behind
