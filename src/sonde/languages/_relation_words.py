"""The words that relations are counted in: tokens of the grammar, in some languages newlines and indents too.

A language whose blocks are told by their margins (``layout`` in `relations.toml`) has the words of Python's
`tokenize`: every newline and comment, each indent, and empty words where blocks, a last line without a
newline and the text end. In others newlines are words only where somebody asks for them, one for each line
that ends between two tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sonde.languages._leaves import Leaf

OPENING, CLOSING = frozenset("([{"), frozenset(")]}")

Word = tuple[str, int, int]
"""A word with its first character and one past its last."""


def single(listed: Sequence[Leaf], several: frozenset[str]) -> Sequence[Leaf]:
    """The tokens, those that are several words (``several`` in `relations.toml`) a character each."""
    if not several or several.isdisjoint(leaf.text for leaf in listed):
        return listed
    found: list[Leaf] = []
    for leaf in listed:
        if leaf.text not in several:
            found.append(leaf)
        else:
            signs = enumerate(leaf.text, leaf.start)
            found += (leaf._replace(start=at, end=at + 1, text=sign) for at, sign in signs)
    return found


def plain(listed: Sequence[Leaf]) -> list[Word]:
    """The tokens alone."""
    return [(text, start, end) for _, _, start, end, text in listed]


def with_newlines(text: str, listed: Sequence[Leaf]) -> list[Word]:
    r"""The tokens with one ``\n`` for each line that ends between two of them, those in comments included."""
    found: list[Word] = []
    before = len(text)
    for leaf in listed:
        found += (("\n", at, at + 1) for at in _line_ends(text, before, leaf.start))
        found.append((leaf.text, leaf.start, leaf.end))
        before = leaf.end
    return found


def with_layout(text: str, listed: Sequence[Leaf]) -> list[Word]:
    """The tokens, comments among them, with the layout between them.

    Args:
        text: The text.
        listed: Its tokens and comments, a comment being what begins with ``#``.
    """
    found: list[Word] = []
    indents = [0]
    depth, fresh, before = 0, True, 0
    for _, _, start, stop, word in listed:
        if text.find("\n", before, start) >= 0:
            for begin, end in _newlines(text, before, start):
                found.append((text[begin:end], begin, end))
                fresh = fresh or depth == 0
        before = stop
        if fresh and word[0] != "#":
            fresh = False
            found += _margin(text, start, indents)
        found.append((word, start, stop))
        if word in OPENING:
            depth += 1
        elif word in CLOSING:
            depth -= 1
    found += ((text[begin:end], begin, end) for begin, end in _newlines(text, before, len(text)))
    last = text[text.rfind("\n") + 1 :].strip(" \f\t")
    # `tokenize` takes a last line of a string that looks like a comment for one.
    commented = bool(last) and last[0] == "#" and listed[-1].text[0] != "#"
    unended = bool(last) and last[-1] != "\r" and not commented
    return found + [("", len(text), len(text))] * (unended + len(indents))


def is_layout(word: str, *, comments: bool) -> bool:
    """Whether a word is no code: empty, an indent, a newline, or a comment where they are words."""
    return not word or word.isspace() or (comments and word[0] == "#")


def _line_ends(text: str, start: int, end: int) -> Iterator[int]:
    at = text.find("\n", start, end)
    while at >= 0:
        yield at
        at = text.find("\n", at + 1, end)


def _newlines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where lines end between two tokens, but for those that a backslash continues."""
    for at in _line_ends(text, start, end):
        begin = at - 1 if at > start and text[at - 1] == "\r" else at
        if begin == start or text[begin - 1] != "\\":
            yield begin, at + 1


def _margin(text: str, start: int, indents: list[int]) -> Iterator[Word]:
    """The words that a line begins with: one for a block that it opens, empty ones for those it closes."""
    margin = text[text.rfind("\n", 0, start) + 1 : start]
    column = _column(margin)
    if column > indents[-1]:
        indents.append(column)
        yield margin, start - len(margin), start
    while column < indents[-1]:
        indents.pop()
        yield "", start, start


def _column(margin: str) -> int:
    """The column that a line begins in: tabs go to the next multiple of eight, form feeds back to zero."""
    column = 0
    for character in margin:
        column = {" ": column + 1, "\t": (column // 8 + 1) * 8}.get(character, 0)
    return column
