"""CodeSyntax's labels of Java: relations of Eclipse's tree of an old level, on javalang's tokens.

`iterate_spans` finds the edges of the tree, `find_spans` gives Java's relations in characters, and
`WordFinder` finds the words that an edge joins. `lex_text` gives the tokens that CodeSyntax counts in.

The authors find a word by lexing the text again up to a position, and a span by lexing it alone, and count
how many words agree with those of the whole text. This result is looked up here; the authors' method is only
repeated for a position in the middle of a word.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sonde.languages.engine.relations import Delimiters, Edge, RelationGraph, Words, build_words
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.papers.codesyntax.java.tree import JAVA_1_3 as OLD_JAVA
from sonde.papers.codesyntax.java.tree import Node, OlderJava, read_tree
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
    """Every relation of a tree, the dependent after the head, in the order of a walk from the root."""
    waiting: list[tuple[Node, Node | None]] = [(root, None)]
    while waiting:
        node, parent = waiting.pop()
        if parent is not None:
            yield from _build_spans("children:parent->child", parent.start, (node.start, node.end))
        of = _RULES.get(node.kind)
        if of is not None:
            for relation, head, dependent in of(node):
                if head is not None and dependent is not None:
                    yield from _build_spans(relation, head, dependent)
        waiting.extend((child, node) for _, child in reversed(node.parts) if child.kind != "Else")


Range = tuple[int, int]


RelationRanges = Iterator[tuple[str, int | None, Range | None]]


def _build_spans(relation: str, head: int, dependent: Range) -> Iterator[Span]:
    if head < dependent[0]:
        yield Span(relation, head, *dependent)


def _merge_range(nodes: list[Node]) -> Range | None:
    return (nodes[0].start, nodes[-1].end) if nodes else None


def _range_start(found: Range | None) -> int | None:
    return found[0] if found else None


def _if_relations(node: Node) -> RelationRanges:
    test, body = _merge_range(node.all("condition")), _merge_range(node.all("consequence"))
    orelse = _merge_range(node.all("alternative"))
    yield "If:if->else", node.start, _merge_range(node.all("else"))
    yield "If:if->test", node.start, test
    yield "If:if->body", node.start, body
    yield "If:test->body", _range_start(test), body
    yield "If:test->orelse", _range_start(test), orelse
    yield "If:body->orelse", _range_start(body), orelse


def _call_relations(node: Node) -> RelationRanges:
    name = _merge_range(node.all("name"))
    yield "Call:func->args", _range_start(name), _merge_range(node.all("arguments"))
    yield "Attribute:value->attr", _range_start(_merge_range(node.all("object"))), name


def _assign_relations(node: Node) -> RelationRanges:
    yield (
        "Assign:target->value",
        _range_start(_merge_range(node.all("left"))),
        _merge_range(node.all("right")),
    )


def _while_relations(node: Node) -> RelationRanges:
    test, body = _merge_range(node.all("condition")), _merge_range(node.all("body"))
    yield "While:while->test", node.start, test
    yield "While:while->body", node.start, body
    yield "While:test->body", _range_start(test), body


def _for_relations(node: Node) -> RelationRanges:
    initializers, test = _merge_range(node.all("init")), _merge_range(node.all("condition"))
    updaters, body = _merge_range(node.all("update")), _merge_range(node.all("body"))
    yield "For:for->body", node.start, body
    yield "For:for->test", node.start, test
    yield "For:for->initializers", node.start, initializers
    yield "For:for->updaters", node.start, updaters
    yield "For:initializers->test", _range_start(initializers), test
    yield "For:test->updaters", _range_start(test), updaters
    yield "For:test->body", _range_start(test), body
    yield "For:initializers->updaters", _range_start(initializers), updaters
    yield "For:initializers->body", _range_start(initializers), body
    yield "For:updaters->body", _range_start(updaters), body


def _try_relations(node: Node) -> RelationRanges:
    body, final = _merge_range(node.all("body")), _merge_range(node.all("finally"))
    handlers = _merge_range([part for _, part in node.parts if part.kind == "CatchClause"])
    yield "Try:body->finalbody", _range_start(body), final
    yield "Try:handler->finalbody", _range_start(handlers), final
    yield "Try:body->handler", _range_start(body), handlers


def _conditional_relations(node: Node) -> RelationRanges:
    test, body = _merge_range(node.all("condition")), _merge_range(node.all("consequence"))
    orelse = _merge_range(node.all("alternative"))
    yield "IfExp:test->body", _range_start(test), body
    yield "IfExp:test->orelse", _range_start(test), orelse
    yield "IfExp:body->orelse", _range_start(body), orelse


def _do_relations(node: Node) -> RelationRanges:
    body, test = _merge_range(node.all("body")), _merge_range(node.all("condition"))
    yield "Do:body->test", _range_start(body), test
    yield "Do:do->body", node.start, body
    yield "Do:do->test", node.start, test


def _switch_relations(node: Node) -> RelationRanges:
    expression, statements = _merge_range(node.all("condition")), _merge_range(node.all("body"))
    # A switch without cases aborted the authors' run.
    if statements is not None:
        yield "Switch:expr->statement", _range_start(expression), statements
        yield "Switch:switch->expr", node.start, expression
        yield "Switch:switch->statement", node.start, statements


def _subscript_relations(node: Node) -> RelationRanges:
    yield (
        "Subscript:value->slice",
        _range_start(_merge_range(node.all("array"))),
        _merge_range(node.all("index")),
    )


def _label_relations(node: Node) -> RelationRanges:
    yield "LabeledStatement:label->body", node.start, _merge_range(node.all("body"))


def _instance_relations(node: Node) -> RelationRanges:
    kind = node.parts[1][1] if len(node.parts) > 1 else None
    yield "InstanceofExpr:expr->type", node.start, (kind.start, kind.end) if kind else None


def _infix_relations(node: Node) -> RelationRanges:
    yield (
        "InfixExpr:left->right",
        _range_start(_merge_range(node.all("left"))),
        _merge_range(node.all("right")),
    )


_RULES = {
    "IfStatement": _if_relations,
    "MethodInvocation": _call_relations,
    "Assignment": _assign_relations,
    "WhileStatement": _while_relations,
    "ForStatement": _for_relations,
    "TryStatement": _try_relations,
    "ConditionalExpression": _conditional_relations,
    "DoStatement": _do_relations,
    "SwitchStatement": _switch_relations,
    "SwitchExpression": _switch_relations,
    "ArrayAccess": _subscript_relations,
    "LabeledStatement": _label_relations,
    "InstanceofExpression": _instance_relations,
    "InfixExpression": _infix_relations,
}


_OPENING = frozenset("([{")


_CLOSING = frozenset(")]}")


# What the authors write after the text before a position, so that no word of it is taken for whole.
_SENTINEL = "_EndOfLineSymbol_"


def add_newlines(text: str, words: list[Word]) -> list[Word]:
    r"""The words with one ``\n`` for each line that ends between two of them, those in comments included."""
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
    """

    text: str
    words: list[Word]
    newlines: bool
    closing: frozenset[str]
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
        """The head word, and the first and the last word of the dependent; None where there is no edge."""
        try:
            head_at, first_at = self._before(span.head), self._before(span.start)
            beyond = first_at + self._inside(first_at, span.start, span.end)
        except LexerError:
            return None
        head, first = self._first(head_at), self._first(first_at)
        if head is None or first is None or not 0 < head < first:
            return None
        last = self._last(beyond, first)
        return None if last is None or last < first else (head, first, last)

    def edges(self, found: Iterable[Span]) -> tuple[Edge, ...]:
        """The edges of spans, without those that join no words."""
        placed = ((span.relation, self.find(span)) for span in found)
        return tuple(Edge(relation, *places) for relation, places in placed if places)

    def _before(self, position: int) -> int:
        """How many words stand before a position."""
        count = bisect_right(self._ends, position)
        if count < len(self.words) and self._starts[count] < position:
            return self._count_matches(0, self.text[:position] + _SENTINEL)
        return count

    def _inside(self, first: int, start: int, end: int) -> int:
        """How many words, from the first one on, a span holds."""
        if first >= len(self.words):
            return 0
        if self._starts[first] == start and self.words[first].value != "\n":
            beyond = bisect_right(self._ends, end)
            if beyond > first and self._ends[beyond - 1] == end and self.words[beyond - 1].value != "\n":
                return beyond - first
        return self._count_matches(first, self.text[start:end])

    def _count_matches(self, first: int, text: str) -> int:
        """How many words of another text are those from the first one on."""
        others = lex(text)
        if self.newlines:
            others = add_newlines(text, others)
        for count, other in enumerate(others):
            if first + count == len(self.words) or self.words[first + count].value != other.value:
                return count
        return len(others)

    def _first(self, at: int) -> int | None:
        """The word that a span begins with: the first behind its opening brackets."""
        found = self._behind[min(at, len(self.words))]
        if found > at and (found == len(self.words) or self.words[found].value in self.closing):
            return at
        return found if found < len(self.words) else None

    def _opens(self, at: int) -> bool:
        value = self.words[at].value
        return value in _OPENING or value == "\n"

    def _last(self, beyond: int, first: int) -> int | None:
        """The word that a span ends with: the last before its closing brackets."""
        if self.newlines and beyond < len(self.words) and self.words[beyond].value == "\n":
            return beyond
        return self._before_closing[beyond - 1] if beyond else -1


def get_closing_tokens(semicolons: bool) -> frozenset[str]:
    """What is trimmed from the end of a dependent: closing brackets, and semicolons that may not end one."""
    return _CLOSING if semicolons else _CLOSING | {";"}


# A piece of a class is parsed inside of one, since the grammar takes no constructor alone.
_BEFORE, _AFTER = "public class A {\n", "\n}"


def find_spans(
    language: TreeSitterLanguage, text: str, older: OlderJava | None = None, *, files: bool = True
) -> list[Span] | None:
    """Relations in characters of a text; None where it does not parse.

    Args:
        language: Java.
        text: A member of a class, or a whole file.
        older: An older Java that the tree is to be of.
        files: Whether a text that is no member of a class may be a whole file.
    """
    before = _BEFORE
    source, root = language.syntax(f"{before}{text}{_AFTER}")
    if root.has_error and files:
        before = ""
        source, root = language.syntax(text)
    if root.has_error:
        return None
    begin = len(before)
    return [
        Span(span.relation, span.head - begin, span.start - begin, span.end - begin)
        for span in iterate_spans(read_tree(source, root, older))
        if span.head >= begin
    ]


def lex_text(text: str, delimiters: Delimiters, *, text_blocks: bool = True) -> list[Word]:
    """The tokens of a text, newlines among them where a dependent may end in one.

    Raises:
        LexerError: It holds what no token of Java is.
    """
    words = lex(text, text_blocks=text_blocks)
    return add_newlines(text, words) if delimiters.newlines else words


def to_words(words: list[Word]) -> Words:
    """Tokens as columns."""
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
        """The tokens of a text; none where it cannot be lexed."""
        try:
            return to_words(_lex(text, delimiters, quirks))
        except LexerError:
            return to_words([])

    def relate(self, text: str, delimiters: Delimiters, quirks: Set[str]) -> RelationGraph:
        """The tokens of a text and the edges between them, with some quirks on."""
        try:
            words = _lex(text, delimiters, quirks)
        except LexerError as error:
            return RelationGraph(to_words([]), problem=f"no words: {error}")
        found = self._spans(text, quirks)
        if found is None:
            return RelationGraph(to_words(words), problem="does not parse")
        finder = PublishedWordFinder(
            text,
            words,
            delimiters.newlines,
            get_closing_tokens(delimiters.semicolons),
            glued=GLUED in quirks,
            drops_empty=EMPTY_BRACKETS in quirks,
        )
        return RelationGraph(to_words(words), finder.edges(found))

    def _spans(self, text: str, quirks: Set[str]) -> list[Span] | None:
        """Relations in characters, or what is taken for them; None where the text does not parse."""
        shifted = SHIFTED_OFFSETS in quirks
        parsed = _strip_blank_edges(text) if shifted else text
        older = OLD_JAVA if JAVA_1_3 in quirks else None
        # The authors read members of classes alone.
        found = find_spans(self._language, parsed, older, files=quirks != QUIRKS.keys())
        if found is None or not shifted or max(parsed, default="") <= "\uffff":
            return found
        units = [0]
        for character in parsed:
            units.append(units[-1] + (2 if character > "\uffff" else 1))
        return [Span(name, units[head], units[start], units[end]) for name, head, start, end in found]


@dataclass(slots=True)
class PublishedWordFinder(WordFinder):
    """Finds the words of spans with the oddities of the published labeller.

    Attributes:
        glued: Take a word that touches a span from the left for the span's first.
        drops_empty: Drop edges whose head or dependent is empty but for brackets, or ends in empty ones.
    """

    glued: bool = False
    drops_empty: bool = False

    def _before(self, position: int) -> int:
        count = WordFinder._before(self, position)
        touches = self.glued and count and self._ends[count - 1] == position
        return count - 1 if touches and begins_name(self.words[count - 1].value[0]) else count

    def _first(self, at: int) -> int | None:
        found = WordFinder._first(self, at)
        empty = found == at and self._behind[min(at, len(self.words))] > at
        return None if self.drops_empty and empty else found

    def _last(self, beyond: int, first: int) -> int | None:
        found = WordFinder._last(self, beyond, first)
        if not self.drops_empty or found is None or found in (beyond, beyond - 1):
            return found
        return None if self._opens(found) else found


def _strip_blank_edges(text: str) -> str:
    """A text as the authors' program reads it: without empty first lines and the last line's end."""
    lines = _LINE_END.split(text)
    if lines[-1] == "":
        lines.pop()
    first = next((place for place, line in enumerate(lines) if line), len(lines))
    return "\n".join(lines[first:])


def _lex(text: str, delimiters: Delimiters, quirks: Set[str]) -> list[Word]:
    return lex_text(text, delimiters, text_blocks=JAVALANG_STRINGS not in quirks)


def facet(language: TreeSitterLanguage) -> PublishedJavaEdges:
    """The facet of the language."""
    return PublishedJavaEdges(language)
