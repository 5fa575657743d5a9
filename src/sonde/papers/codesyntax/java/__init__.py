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
from typing import NamedTuple

from sonde.languages.engine.relations import (
    CLOSING_BRACKETS,
    OPENING_BRACKETS,
    Edge,
    RelationGraph,
    RelationOptions,
    Word,
    Words,
    add_newlines,
    build_words,
)
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.papers.codesyntax.java.tree import Node, read_tree
from sonde.papers.javalang_tokens import LexerError, begins_name, lex
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
    stack: list[tuple[Node, Node | None]] = [(root, None)]
    while stack:
        node, parent = stack.pop()
        relations = [("children:parent->child", [parent], [node])] if parent is not None else []
        # A switch without cases aborted the authors' run.
        if node.kind not in _SWITCHES or node.find_parts("body"):
            relations += [
                (relation, node.find_parts(head), node.find_parts(dependent))
                for relation, head, dependent in _RELATIONS.get(node.kind, ())
            ]
        for relation, heads, dependents in relations:
            if heads and dependents and heads[0].start < dependents[0].start:
                yield Span(relation, heads[0].start, dependents[0].start, dependents[-1].end)
        stack.extend((child, node) for _, child in reversed(node.parts) if child.kind != "Else")


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


# What the authors write after the text before a position, so that no word of it is taken for whole.
_SENTINEL = "_EndOfLineSymbol_"


@dataclass(slots=True)
class WordFinder:
    """Finds the words of spans.

    Attributes:
        text: The text.
        words: Its words.
        newlines: Whether newlines are words, and end a dependent that stands directly before one.
        closing_words: Words that are trimmed from the end of a dependent.
        takes_touching_word: Take a word that touches a span from the left for the span's first.
        drops_empty: Drop edges whose head or dependent is empty but for brackets, or ends in empty ones.
    """

    text: str
    words: list[Word]
    newlines: bool
    closing_words: frozenset[str]
    takes_touching_word: bool
    drops_empty: bool
    _starts: list[int] = field(init=False)
    _ends: list[int] = field(init=False)
    _content_starts: list[int] = field(init=False)
    _content_ends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = [word.start for word in self.words]
        self._ends = [word.end for word in self.words]
        # Nested brackets begin and end together: each run of them is gone through once.
        count = len(self.words)
        self._content_starts, self._content_ends = list(range(count + 1)), list(range(count))
        for index in range(count - 1, -1, -1):
            if self._opens(index):
                self._content_starts[index] = self._content_starts[index + 1]
        for index in range(1, count):
            if self.words[index].surface in self.closing_words:
                self._content_ends[index] = self._content_ends[index - 1]

    def find(self, span: Span) -> tuple[int, int, int] | None:
        """Return the head word, and the first and last word of the dependent; None if there is no edge."""
        try:
            head_at, first_at = self._word_index(span.head), self._word_index(span.start)
            stop = first_at + self._count_span_words(first_at, span.start, span.end)
        except LexerError:
            return None
        head, first = self._first(head_at), self._first(first_at)
        if head is None or first is None or not 0 < head < first:
            return None
        last = self._last(stop)
        return None if last is None or last < first else (head, first, last)

    def edges(self, spans: Iterable[Span]) -> tuple[Edge, ...]:
        """Return the edges of spans, without those that join no words."""
        candidates = ((span.relation, self.find(span)) for span in spans)
        return tuple(Edge(relation, *indices) for relation, indices in candidates if indices)

    def _word_index(self, position: int) -> int:
        """Count the words before a position."""
        count = bisect_right(self._ends, position)
        if count < len(self.words) and self._starts[count] < position:
            count = self._count_matches(0, self.text[:position] + _SENTINEL)
        touches = self.takes_touching_word and count and self._ends[count - 1] == position
        return count - 1 if touches and begins_name(self.words[count - 1].surface[0]) else count

    def _count_span_words(self, first: int, start: int, end: int) -> int:
        """Count the words of a span, from the first one on."""
        if first >= len(self.words):
            return 0
        if self._starts[first] == start and self.words[first].surface != "\n":
            stop = bisect_right(self._ends, end)
            if stop > first and self._ends[stop - 1] == end and self.words[stop - 1].surface != "\n":
                return stop - first
        return self._count_matches(first, self.text[start:end])

    def _count_matches(self, first: int, text: str) -> int:
        """Count the words of another text that match those from the first one on."""
        text_words = lex(text)
        if self.newlines:
            text_words = add_newlines(text, text_words)
        for count, word in enumerate(text_words):
            if first + count == len(self.words) or self.words[first + count].surface != word.surface:
                return count
        return len(text_words)

    def _first(self, index: int) -> int | None:
        """Return the first word of a span after its opening brackets."""
        first = self._content_starts[min(index, len(self.words))]
        if first > index and (first == len(self.words) or self.words[first].surface in self.closing_words):
            return None if self.drops_empty else index
        return first if first < len(self.words) else None

    def _opens(self, index: int) -> bool:
        value = self.words[index].surface
        return value in OPENING_BRACKETS or value == "\n"

    def _last(self, stop: int) -> int | None:
        """Return the last word of a span before its closing brackets."""
        if self.newlines and stop < len(self.words) and self.words[stop].surface == "\n":
            return stop
        last = self._content_ends[stop - 1] if stop else -1
        return None if self.drops_empty and last != stop - 1 and self._opens(last) else last


# A piece of a class is parsed inside of one, since the grammar takes no constructor alone.
_CLASS_HEAD, _CLASS_END = "public class A {\n", "\n}"


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

    def words(self, text: str, options: RelationOptions) -> Words:
        """Return the tokens of a text; none if it cannot be lexed."""
        try:
            return build_words(_lex(text, options))
        except LexerError:
            return build_words([])

    def relate(self, text: str, options: RelationOptions) -> RelationGraph:
        """Return the tokens of a text and the edges between them, with some quirks on."""
        try:
            words = _lex(text, options)
        except LexerError as error:
            return RelationGraph(build_words([]), problem=f"no words: {error}")
        spans = self._spans(text, options.quirks)
        if spans is None:
            return RelationGraph(build_words(words), problem="does not parse")
        finder = WordFinder(
            text,
            words,
            options.newlines,
            CLOSING_BRACKETS if options.semicolons else CLOSING_BRACKETS | {";"},
            takes_touching_word=GLUED in options.quirks,
            drops_empty=EMPTY_BRACKETS in options.quirks,
        )
        return RelationGraph(build_words(words), finder.edges(spans))

    def _spans(self, text: str, quirks: Set[str]) -> list[Span] | None:
        """Return relations in characters, as the quirks shift them; None if the text does not parse."""
        shifts_offsets = SHIFTED_OFFSETS in quirks
        source_text = _strip_blank_edges(text) if shifts_offsets else text
        class_head = _CLASS_HEAD
        source, root = self._language.syntax(f"{class_head}{source_text}{_CLASS_END}")
        # The authors read members of classes alone.
        if root.has_error and quirks != QUIRKS.keys():
            class_head = ""
            source, root = self._language.syntax(source_text)
        if root.has_error:
            return None
        begin = len(class_head)
        spans = [
            Span(name, head - begin, start - begin, end - begin)
            for name, head, start, end in iterate_spans(read_tree(source, root, old=JAVA_1_3 in quirks))
            if head >= begin
        ]
        if not shifts_offsets or max(source_text, default="") <= "\uffff":
            return spans
        units = [0]
        for character in source_text:
            units.append(units[-1] + (2 if character > "\uffff" else 1))
        return [Span(name, units[head], units[start], units[end]) for name, head, start, end in spans]


def _strip_blank_edges(text: str) -> str:
    """Strip empty first lines and the last line's end, as the authors' program does."""
    lines = _LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    first = next((index for index, line in enumerate(lines) if line), len(lines))
    return "\n".join(lines[first:])


def _lex(text: str, options: RelationOptions) -> list[Word]:
    """Lex a text, with newlines as tokens if a dependent may end in one.

    Raises:
        LexerError: It holds what no token of Java is.
    """
    words = lex(text, text_blocks=JAVALANG_STRINGS not in options.quirks)
    return add_newlines(text, words) if options.newlines else words


facet = PublishedJavaEdges
