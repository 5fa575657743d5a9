"""CodeSyntax's labels of Java: relations of Eclipse's tree of an old level, on javalang's tokens.

`iterate_spans` finds the relations of the tree in characters, and `WordFinder` the words that they join.

The authors find a word by lexing the text again up to a position, and a span by lexing it alone, and count
how many words agree with those of the whole text. This result is looked up here; the authors' method is only
repeated for a position in the middle of a word.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sonde.languages.engine.relations import Delimiters, Edge, RelationGraph, Words, build_words
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.papers.codesyntax.java.tree import Node, read_tree
from sonde.papers.javalang_tokens import LexerError, Word, begins_name, lex
from sonde.papers.quirks import describe_quirks


class Span(NamedTuple):
    """A relation before its words are known: characters, ends exclusive.

    Attributes:
        relation: Its name.
        head: First character of the head.
        start: First character of the dependent.
        end: One past its last character.
    """

    relation: str
    head: int
    start: int
    end: int


def iterate_spans(root: Node) -> Iterator[Span]:
    """Yield every relation of a tree, the dependent after the head, in the order of a walk from the root."""
    waiting: list[tuple[Node, Node | None]] = [(root, None)]
    while waiting:
        node, parent = waiting.pop()
        related = [("children:parent->child", [parent], [node])] if parent is not None else []
        # A switch without cases aborted the authors' run.
        if node.kind not in _SWITCHES or node.find_parts("body"):
            related += [
                (relation, node.find_parts(head), node.find_parts(dependent))
                for relation, head, dependent in _RELATIONS.get(node.kind, ())
            ]
        for relation, heads, dependents in related:
            if heads and dependents and heads[0].start < dependents[0].start:
                yield Span(relation, heads[0].start, dependents[0].start, dependents[-1].end)
        waiting.extend((child, node) for _, child in reversed(node.parts) if child.kind != "Else")


_SWITCHES = ("SwitchStatement", "SwitchExpression")


_SWITCH_RELATIONS = (
    ("Switch:expr->statement", "condition", "body"),
    ("Switch:switch->expr", "", "condition"),
    ("Switch:switch->statement", "", "body"),
)


_RELATIONS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "IfStatement": (
        ("If:if->else", "", "else"),
        ("If:if->test", "", "condition"),
        ("If:if->body", "", "consequence"),
        ("If:test->body", "condition", "consequence"),
        ("If:test->orelse", "condition", "alternative"),
        ("If:body->orelse", "consequence", "alternative"),
    ),
    "MethodInvocation": (
        ("Call:func->args", "name", "arguments"),
        ("Attribute:value->attr", "object", "name"),
    ),
    "Assignment": (("Assign:target->value", "left", "right"),),
    "WhileStatement": (
        ("While:while->test", "", "condition"),
        ("While:while->body", "", "body"),
        ("While:test->body", "condition", "body"),
    ),
    "ForStatement": (
        ("For:for->body", "", "body"),
        ("For:for->test", "", "condition"),
        ("For:for->initializers", "", "init"),
        ("For:for->updaters", "", "update"),
        ("For:initializers->test", "init", "condition"),
        ("For:test->updaters", "condition", "update"),
        ("For:test->body", "condition", "body"),
        ("For:initializers->updaters", "init", "update"),
        ("For:initializers->body", "init", "body"),
        ("For:updaters->body", "update", "body"),
    ),
    "TryStatement": (
        ("Try:body->finalbody", "body", "finally"),
        ("Try:handler->finalbody", "CatchClause", "finally"),
        ("Try:body->handler", "body", "CatchClause"),
    ),
    "ConditionalExpression": (
        ("IfExp:test->body", "condition", "consequence"),
        ("IfExp:test->orelse", "condition", "alternative"),
        ("IfExp:body->orelse", "consequence", "alternative"),
    ),
    "DoStatement": (
        ("Do:body->test", "body", "condition"),
        ("Do:do->body", "", "body"),
        ("Do:do->test", "", "condition"),
    ),
    **dict.fromkeys(_SWITCHES, _SWITCH_RELATIONS),
    "ArrayAccess": (("Subscript:value->slice", "array", "index"),),
    "LabeledStatement": (("LabeledStatement:label->body", "", "body"),),
    "InstanceofExpression": (
        ("InstanceofExpr:expr->type", "", "right"),
        ("InstanceofExpr:expr->type", "", "pattern"),
    ),
    "InfixExpression": (("InfixExpr:left->right", "left", "right"),),
}
"""Relation, role of the head and role of the dependent (`Node.find_parts`), in the published order."""


_OPENING = frozenset("([{")


_CLOSING = frozenset(")]}")


# What the authors write after the text before a position, so that no word of it is taken for whole.
_SENTINEL = "_EndOfLineSymbol_"


def add_newlines(text: str, words: list[Word]) -> list[Word]:
    r"""Add one ``\n`` for each line that ends between two words, including those in comments."""
    found = words[:1]
    for before, word in pairwise(words):
        at = text.find("\n", before.end, word.start)
        while at >= 0:
            found.append(Word("\n", at, at + 1))
            at = text.find("\n", at + 1, word.start)
        found.append(word)
    return found


@dataclass(slots=True)
class WordFinder:
    """Finds the words of spans.

    Attributes:
        text: The text.
        words: Its words.
        newlines: Whether newlines are words, and end a dependent that stands directly before one.
        closing: Words that are trimmed from the end of a dependent.
        glued: Take a word that touches a span from the left for the span's first.
        drops_empty: Drop edges whose head or dependent is empty but for brackets, or ends in empty ones.
    """

    text: str
    words: list[Word]
    newlines: bool
    closing: frozenset[str]
    glued: bool
    drops_empty: bool
    _starts: list[int] = field(init=False)
    _ends: list[int] = field(init=False)
    _behind: list[int] = field(init=False)
    _before_closing: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = [word.start for word in self.words]
        self._ends = [word.end for word in self.words]
        # Nested brackets begin and end together: each run of them is gone through once.
        count = len(self.words)
        self._behind, self._before_closing = list(range(count + 1)), list(range(count))
        for at in range(count - 1, -1, -1):
            if self._opens(at):
                self._behind[at] = self._behind[at + 1]
        for at in range(1, count):
            if self.words[at].value in self.closing:
                self._before_closing[at] = self._before_closing[at - 1]

    def find(self, span: Span) -> tuple[int, int, int] | None:
        """Return the head word, and the first and last word of the dependent; None if there is no edge."""
        try:
            head_at, first_at = self._before(span.head), self._before(span.start)
            beyond = first_at + self._inside(first_at, span.start, span.end)
        except LexerError:
            return None
        head, first = self._first(head_at), self._first(first_at)
        if head is None or first is None or not 0 < head < first:
            return None
        last = self._last(beyond)
        return None if last is None or last < first else (head, first, last)

    def edges(self, found: Iterable[Span]) -> tuple[Edge, ...]:
        """Return the edges of spans, without those that join no words."""
        placed = ((span.relation, self.find(span)) for span in found)
        return tuple(Edge(relation, *places) for relation, places in placed if places)

    def _before(self, position: int) -> int:
        """Count the words before a position."""
        count = bisect_right(self._ends, position)
        if count < len(self.words) and self._starts[count] < position:
            count = self._count_matches(0, self.text[:position] + _SENTINEL)
        touches = self.glued and count and self._ends[count - 1] == position
        return count - 1 if touches and begins_name(self.words[count - 1].value[0]) else count

    def _inside(self, first: int, start: int, end: int) -> int:
        """Count the words of a span, from the first one on."""
        if first >= len(self.words):
            return 0
        if self._starts[first] == start and self.words[first].value != "\n":
            beyond = bisect_right(self._ends, end)
            if beyond > first and self._ends[beyond - 1] == end and self.words[beyond - 1].value != "\n":
                return beyond - first
        return self._count_matches(first, self.text[start:end])

    def _count_matches(self, first: int, text: str) -> int:
        """Count the words of another text that match those from the first one on."""
        others = lex(text)
        if self.newlines:
            others = add_newlines(text, others)
        for count, other in enumerate(others):
            if first + count == len(self.words) or self.words[first + count].value != other.value:
                return count
        return len(others)

    def _first(self, at: int) -> int | None:
        """Return the first word of a span after its opening brackets."""
        found = self._behind[min(at, len(self.words))]
        if found > at and (found == len(self.words) or self.words[found].value in self.closing):
            return None if self.drops_empty else at
        return found if found < len(self.words) else None

    def _opens(self, at: int) -> bool:
        value = self.words[at].value
        return value in _OPENING or value == "\n"

    def _last(self, beyond: int) -> int | None:
        """Return the last word of a span before its closing brackets."""
        if self.newlines and beyond < len(self.words) and self.words[beyond].value == "\n":
            return beyond
        last = self._before_closing[beyond - 1] if beyond else -1
        return None if self.drops_empty and last != beyond - 1 and self._opens(last) else last


# A piece of a class is parsed inside of one, since the grammar takes no constructor alone.
_BEFORE, _AFTER = "public class A {\n", "\n}"


def to_words(words: list[Word]) -> Words:
    """Convert tokens to columns."""
    return build_words(
        [word.value for word in words], [word.start for word in words], [word.end for word in words]
    )


EMPTY_BRACKETS = "codesyntax.empty_brackets"


GLUED = "codesyntax.glued"


JAVA_1_3 = "codesyntax.java_1_3"


JAVALANG_STRINGS = "codesyntax.javalang_strings"


SHIFTED_OFFSETS = "codesyntax.shifted_offsets"


QUIRKS: Mapping[str, str] = describe_quirks(__name__)


_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029\u0085]")


class PublishedJavaEdges:
    """The facet ``published_edges`` of Java.

    Args:
        language: Java.
    """

    quirks: Mapping[str, str] = QUIRKS

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language

    def words(self, text: str, delimiters: Delimiters, quirks: Set[str]) -> Words:
        """Return the tokens of a text; none if it cannot be lexed."""
        try:
            return to_words(_lex(text, delimiters, quirks))
        except LexerError:
            return to_words([])

    def relate(self, text: str, delimiters: Delimiters, quirks: Set[str]) -> RelationGraph:
        """Return the tokens of a text and the edges between them, with some quirks on."""
        try:
            words = _lex(text, delimiters, quirks)
        except LexerError as error:
            return RelationGraph(to_words([]), problem=f"no words: {error}")
        found = self._spans(text, quirks)
        if found is None:
            return RelationGraph(to_words(words), problem="does not parse")
        finder = WordFinder(
            text,
            words,
            delimiters.newlines,
            _CLOSING if delimiters.semicolons else _CLOSING | {";"},
            glued=GLUED in quirks,
            drops_empty=EMPTY_BRACKETS in quirks,
        )
        return RelationGraph(to_words(words), finder.edges(found))

    def _spans(self, text: str, quirks: Set[str]) -> list[Span] | None:
        """Return relations in characters, as the quirks shift them; None if the text does not parse."""
        shifted = SHIFTED_OFFSETS in quirks
        parsed = _strip_blank_edges(text) if shifted else text
        before = _BEFORE
        source, root = self._language.syntax(f"{before}{parsed}{_AFTER}")
        # The authors read members of classes alone.
        if root.has_error and quirks != QUIRKS.keys():
            before = ""
            source, root = self._language.syntax(parsed)
        if root.has_error:
            return None
        begin = len(before)
        found = [
            Span(name, head - begin, start - begin, end - begin)
            for name, head, start, end in iterate_spans(read_tree(source, root, old=JAVA_1_3 in quirks))
            if head >= begin
        ]
        if not shifted or max(parsed, default="") <= "\uffff":
            return found
        units = [0]
        for character in parsed:
            units.append(units[-1] + (2 if character > "\uffff" else 1))
        return [Span(name, units[head], units[start], units[end]) for name, head, start, end in found]


def _strip_blank_edges(text: str) -> str:
    """Strip empty first lines and the last line's end, as the authors' program does."""
    lines = _LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    first = next((place for place, line in enumerate(lines) if line), len(lines))
    return "\n".join(lines[first:])


def _lex(text: str, delimiters: Delimiters, quirks: Set[str]) -> list[Word]:
    """Lex a text, with newlines as tokens if a dependent may end in one.

    Raises:
        LexerError: It holds what no token of Java is.
    """
    words = lex(text, text_blocks=JAVALANG_STRINGS not in quirks)
    return add_newlines(text, words) if delimiters.newlines else words


def facet(language: TreeSitterLanguage) -> PublishedJavaEdges:
    """Return the facet of the language."""
    return PublishedJavaEdges(language)
