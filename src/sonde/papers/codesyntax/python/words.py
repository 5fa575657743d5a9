"""Words of the nodes of `ast` in CodeSyntax's Python labeller: exact, and as published with quirks.

CodeSyntax finds a node's words by counting: it tokenizes the text up to the node, and then the node's own
text, and takes as many words as agree with the whole text's. That mostly finds the words at the node's
characters; if it does not, a quirk says so. The counting itself is done only where the outcome cannot be told
without it, so that labelling is linear.

Here are also the brackets around a node's words (`BracketTrimmer`), words that are no code (`is_layout`) and
the place where a text begins (`find_code_start`).
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence, Set
from functools import cached_property

from sonde.languages.engine.text import EncodedText
from sonde.papers.python_tokens import ScannedWords, count_matches, measure_indent, scan_words
from sonde.papers.quirks import describe_quirks

OPENING = frozenset("([{")


CLOSING = frozenset(")]}")


def is_layout(word: str) -> bool:
    """Whether a word is no code: empty, an indent, a newline or a comment."""
    return not word or word.isspace() or word[0] == "#"


class BracketTrimmer:
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


def find_code_start(text: str) -> int:
    r"""Where a text parses from: the definition of a decorated method, the beginning of anything else.

    >>> find_code_start("@property\n    def f(self):\n        return 1\n")
    14
    >>> find_code_start("@property\ndef f(self):\n    return 1\n")
    0
    """
    if not text.startswith("@"):
        return 0
    found = _DEFINITION.search(text)
    return found.end(1) if found is not None and found[1] else 0


BYTE_COLUMNS = "codesyntax.byte_columns"


EMPTY_ENDS = "codesyntax.empty_ends"


FIRST_LINE = "codesyntax.first_line"


GLUED = "codesyntax.glued"


HANDLER_ORELSE = "codesyntax.handler_orelse"


LAYOUT_ENDS = "codesyntax.layout_ends"


MARGIN = "codesyntax.margin"


NEWLINE_ALONE = "codesyntax.newline_alone"


RETOKENIZED = "codesyntax.retokenized"


UNFILTERED_ELSE = "codesyntax.unfiltered_else"


QUIRKS: Mapping[str, str] = describe_quirks(__name__)


# Stands for the node when the text before it is tokenized; no word of a program.
_MARK = "_EndOfLineSymbol_"


# Words of a node that are compared first: mostly the first one tells, and nodes hold others.
_FEW = 16


class AstWordFinder:
    """Finds the words of nodes.

    Args:
        text: The text that was parsed.
        words: Its words.
        quirks: Quirks that are on.
        newlines: Whether a dependent takes in the newline behind it.
    """

    def __init__(self, text: str, words: ScannedWords, quirks: Set[str], *, newlines: bool) -> None:
        self._text = text
        self._words = words
        self._quirks = quirks
        self._newlines = newlines
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._source = EncodedText.of(text)
        self._line_bytes = [0, *(found.end() for found in re.finditer(b"\n", self._source.data))]
        self._at = {start: place for place, start in enumerate(words.start) if words.surface[place]}
        self._ends: dict[tuple[int, int], int] = {}
        self._brackets = BracketTrimmer(words.surface, layout=LAYOUT_ENDS in quirks)

    def first(self, node: ast.AST) -> int:
        """Index of a node's first word, opening brackets left out unless they hold nothing."""
        return self._brackets.behind(self._begin(node))

    def last_without_newline(self, node: ast.AST) -> int:
        """Index of a node's last word, never of the newline behind it."""
        return self._brackets.before(self._finish(node))

    def last(self, node: ast.AST) -> int:
        """Index of a node's last word, closing brackets left out."""
        key = (self._start(node), self._end(node))
        if key not in self._ends:
            self._ends[key] = self._brackets.before(self._finish(node), newlines=self._newlines)
        return self._ends[key]

    def word(self, place: int) -> str:
        """A word by its index."""
        return self._words.surface[place]

    def _start(self, node: ast.AST) -> int:
        return self._character(node.lineno, node.col_offset)  # pyright: ignore[reportAttributeAccessIssue]

    def _end(self, node: ast.AST) -> int:
        return self._character(node.end_lineno, node.end_col_offset)  # pyright: ignore[reportAttributeAccessIssue]

    def _character(self, line: int, column: int) -> int:
        return self._source.to_character(self._line_bytes[line - 1] + column)

    def _begin(self, node: ast.AST) -> int:
        """Index of the word at a node's start, by the quirks about starts."""
        line: int = node.lineno  # pyright: ignore[reportAttributeAccessIssue]
        column: int = node.col_offset  # pyright: ignore[reportAttributeAccessIssue]
        if line == 1 and FIRST_LINE in self._quirks:
            return 0
        start = self._start(node)
        if BYTE_COLUMNS in self._quirks and start != self._lines[line - 1] + column:
            return self._count_matches(min(self._lines[line - 1] + column, self._line_end(line)))
        place = self._place(start)
        # The mark becomes one word with a name before it: f(x for x in y), return[a].
        before = self._text[start - 1 : start]
        return place - 1 if GLUED in self._quirks and (before.isalnum() or before == "_") else place

    def _count_matches(self, position: int) -> int:
        """How many words agree with those of the text up to a position behind the first word of its line.

        All do that end before; the last one that begins before is read again, up to the position.
        """
        words = self._words
        place = bisect_left(words.start, position) - 1
        while words.kind[place] in ("NEWLINE", "NL"):
            place -= 1
        stretch = self._text[words.start[place] : position] + _MARK
        own = scan_words(stretch, depth=words.depth[place], fresh=False)
        return place + count_matches(words.surface, own.surface, place)

    def _place(self, start: int) -> int:
        """Index of the word that begins at a character, else of the one around it."""
        found = self._at.get(start)
        return bisect_right(self._words.start, start) - 1 if found is None else found

    def _finish(self, node: ast.AST) -> int:
        """Index of the last word of a node, by the quirks about ends."""
        start, end = self._start(node), self._end(node)
        begin, exact = self._begin(node), self._place(start)
        last = bisect_left(self._words.start, end, lo=exact) - 1
        at_the_end = self._closing_words.start <= last + 1 < len(self._words.surface)
        if begin != exact or (at_the_end and EMPTY_ENDS in self._quirks):
            return begin + self._counted(begin, start, end) - 1
        if RETOKENIZED in self._quirks and self._words.depth[begin] > 0:
            return self._first_lines(begin, last)
        return last

    @cached_property
    def _closing_words(self) -> range:
        """The empty words that end a text without a newline."""
        surface = self._words.surface
        count = len(surface)
        while count and not surface[count - 1]:
            count -= 1
        unended = count > 0 and not surface[count - 1].endswith("\n")
        return range(count if unended else len(surface), len(surface))

    def _counted(self, begin: int, start: int, end: int) -> int:
        """How many words from ``begin`` on agree with those of a stretch of text tokenized by itself."""
        margin = self._margin(start)
        stretch, most = margin + self._text[start:end], _FEW
        while True:
            own = scan_words(stretch, most=most).surface
            count = count_matches(self._words.surface, own[1:] if margin else own, begin)
            if len(own) < most or count + bool(margin) < len(own):
                return count
            most *= 4

    def _first_lines(self, first: int, last: int) -> int:
        """Where words inside brackets stop to agree with the same words without the brackets around.

        A line that begins in another column than the first one then counts as indented or dedented.
        """
        surface, depth = self._words.surface, self._words.depth
        around = depth[first]
        column = measure_indent(self._margin(self._words.start[first]))
        broken = False
        for place in range(first, last + 1):
            if depth[place] != around:
                continue
            word = surface[place]
            if word in ("\n", "\r\n"):
                broken = True
            elif broken and word[0] != "#":
                start = self._words.start[place]
                if measure_indent(self._text[self._line_start(start) : start]) != column:
                    return place - 1
                broken = False
        return last

    def _margin(self, position: int) -> str:
        """What stands before a position in its line, if that is blank."""
        before = self._text[self._line_start(position) : position]
        return before if before.isspace() else ""

    def _line_start(self, position: int) -> int:
        return self._lines[bisect_right(self._lines, position) - 1]

    def _line_end(self, line: int) -> int:
        return self._lines[line] - 1 if line < len(self._lines) else len(self._text)
