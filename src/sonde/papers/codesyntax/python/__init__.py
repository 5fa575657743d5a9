"""CodeSyntax's labels of Python: relations between nodes of `ast` and their words, quirk by quirk.

The rules are CodeSyntax's table of Python relations. Whatever is not listed there has no relation: annotated
assignments, ``async for`` and ``async with``, the ``else`` of a loop, ``except*``. Parameters, defaults,
decorators and annotations of functions are never looked at.

`ast` is the running interpreter's: a text in syntax that it does not know does not parse. Its reading of a
text that parses is the same on every Python that sonde runs on; the inside of f-strings, for which it
differs, is not looked at. On Python 3.9, which the README of the published code names, the names of an import
had no position and so were nobody's children; here they are.

CodeSyntax finds a node's words by counting: it tokenizes the text up to the node, and then the node's own
text, and takes as many words as agree with the whole text's. That mostly finds the words at the node's
characters; if it does not, a quirk says so. The counting itself is done only where the outcome cannot be told
without it, so that labelling is linear.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import Any, NamedTuple

from sonde.languages.engine.relations import (
    CHILD_RELATION,
    CLOSING_BRACKETS,
    LONE_RETURN,
    Edge,
    RelationGraph,
    RelationOptions,
    Words,
    build_words,
    has_lone_returns,
    is_layout,
    measure_column,
    trim_brackets,
)
from sonde.languages.engine.text import EncodedText
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.papers.python_tokens import ScannedWords, count_matches, scan_words
from sonde.papers.quirks import describe_quirks

_DEFINITION = re.compile(r"^([ \t]*)(?:class|def|async)\b", re.MULTILINE)


def find_code_start(text: str) -> int:
    r"""Return where a text parses from: the definition of a decorated method, else the beginning.

    >>> find_code_start("@property\n    def f(self):\n        return 1\n")
    14
    >>> find_code_start("@property\ndef f(self):\n    return 1\n")
    0
    """
    if not text.startswith("@"):
        return 0
    match = _DEFINITION.search(text)
    return match.end(1) if match is not None and match[1] else 0


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
_FIRST_WORD_COUNT = 16


class AstWordFinder:
    """Finds the words of nodes.

    Args:
        text: The text that was parsed.
        words: Its words.
        quirks: Quirks that are on.
        newlines: Whether a dependent includes the newline after it.
    """

    def __init__(self, text: str, words: ScannedWords, quirks: Set[str], *, newlines: bool) -> None:
        self._text = text
        self._words = words
        self._quirks = quirks
        self._newlines = newlines
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._source = EncodedText.of(text)
        self._line_bytes = [0, *(match.end() for match in re.finditer(b"\n", self._source.data))]
        self._index_by_start = {
            start: index for index, start in enumerate(words.start) if words.surface[index]
        }
        self._ends: dict[tuple[int, int], int] = {}
        code_indices = [
            index
            for index, word in enumerate(words.surface)
            # With the quirk, a newline or a comment next to a bracket is a node's word.
            if LAYOUT_ENDS in quirks or not is_layout(word)
        ]
        self._first_words, self._last_words = trim_brackets(words.surface, code_indices, CLOSING_BRACKETS)

    def first(self, node: ast.AST) -> int:
        """Index of a node's first word, opening brackets left out unless they hold nothing."""
        return self._first_words[self._begin(node)]

    def last_without_newline(self, node: ast.AST) -> int:
        """Index of a node's last word, never of the newline after it."""
        return self._last_words[self._finish(node)]

    def last(self, node: ast.AST) -> int:
        """Index of a node's last word, closing brackets left out."""
        key = (self._start(node), self._end(node))
        if key not in self._ends:
            index = self._finish(node)
            follows = self._newlines and self._words.surface[index + 1 : index + 2] == ["\n"]
            self._ends[key] = self._last_words[index + follows]
        return self._ends[key]

    def word(self, index: int) -> str:
        """Return a word by its index."""
        return self._words.surface[index]

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
        index = self._word_index(start)
        # The mark becomes one word with a name before it: f(x for x in y), return[a].
        previous_character = self._text[start - 1 : start]
        return (
            index - 1
            if GLUED in self._quirks and (previous_character.isalnum() or previous_character == "_")
            else index
        )

    def _count_matches(self, position: int) -> int:
        """Count the words that agree with those of the text up to a position in a later word of its line.

        All do that end before; the last one that begins before is read again, up to the position.
        """
        words = self._words
        index = bisect_left(words.start, position) - 1
        while words.kind[index] in ("NEWLINE", "NL"):
            index -= 1
        stretch = self._text[words.start[index] : position] + _MARK
        line_words = scan_words(stretch, depth=words.depth[index], starts_line=False)
        return index + count_matches(words.surface, line_words.surface, index)

    def _word_index(self, start: int) -> int:
        """Index of the word that begins at a character, else of the one around it."""
        index = self._index_by_start.get(start)
        return bisect_right(self._words.start, start) - 1 if index is None else index

    def _finish(self, node: ast.AST) -> int:
        """Index of the last word of a node, by the quirks about ends."""
        start, end = self._start(node), self._end(node)
        begin, exact = self._begin(node), self._word_index(start)
        last = bisect_left(self._words.start, end, lo=exact) - 1
        at_the_end = self._closing_words.start <= last + 1 < len(self._words.surface)
        if begin != exact or (at_the_end and EMPTY_ENDS in self._quirks):
            return begin + self._count_words(begin, start, end) - 1
        if RETOKENIZED in self._quirks and self._words.depth[begin] > 0:
            return self._first_lines(begin, last)
        return last

    @cached_property
    def _closing_words(self) -> range:
        """Return the empty words that end a text without a newline."""
        surface = self._words.surface
        count = len(surface)
        while count and not surface[count - 1]:
            count -= 1
        lacks_newline = count > 0 and not surface[count - 1].endswith("\n")
        return range(count if lacks_newline else len(surface), len(surface))

    def _count_words(self, begin: int, start: int, end: int) -> int:
        """Count the words from ``begin`` on that agree with those of a span tokenized by itself."""
        margin = self._margin(start)
        stretch, word_limit = margin + self._text[start:end], _FIRST_WORD_COUNT
        while True:
            span_words = scan_words(stretch, word_limit=word_limit).surface
            count = count_matches(self._words.surface, span_words[1:] if margin else span_words, begin)
            if len(span_words) < word_limit or count + bool(margin) < len(span_words):
                return count
            word_limit *= 4

    def _first_lines(self, first: int, last: int) -> int:
        """Return where words inside brackets stop agreeing with the same words without the brackets around.

        A line that begins in another column than the first one then counts as indented or dedented.
        """
        surface, depth = self._words.surface, self._words.depth
        outer_depth = depth[first]
        column = measure_column(self._margin(self._words.start[first]))
        is_line_start = False
        for index in range(first, last + 1):
            if depth[index] != outer_depth:
                continue
            word = surface[index]
            if word in ("\n", "\r\n"):
                is_line_start = True
            elif is_line_start and word[0] != "#":
                start = self._words.start[index]
                if measure_column(self._text[self._line_start(start) : start]) != column:
                    return index - 1
                is_line_start = False
        return last

    def _margin(self, position: int) -> str:
        """Return the text before a position in its line, if it is only spaces."""
        line_prefix = self._text[self._line_start(position) : position]
        return line_prefix if line_prefix.isspace() else ""

    def _line_start(self, position: int) -> int:
        return self._lines[bisect_right(self._lines, position) - 1]

    def _line_end(self, line: int) -> int:
        return self._lines[line] - 1 if line < len(self._lines) else len(self._text)


IF_ELSE = "If:if->else"


class RelationRule(NamedTuple):
    """A relation between nodes.

    Attributes:
        name: One of the relations of the language.
        head: The node whose first word is the head; its last word in `_LAST_WORD_HEADS`.
        first: Node in which the dependent begins.
        last: Node in which the dependent ends.
    """

    name: str
    head: ast.AST
    first: ast.AST
    last: ast.AST


_LAST_WORD_HEADS = frozenset(("Call:func->args", "Call:args->keywords", "Call:func->keywords"))


_ATTRIBUTE = "Attribute:value->attr"
"""The relation whose dependent is the last word of its node."""


def find_relations(node: ast.AST) -> Iterator[RelationRule]:
    """Yield the relations of a construct's own parts, without those to children and `IF_ELSE`."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                yield RelationRule("Dict:key->value", key, value, value)
    for name, head, dependent in _RELATIONS.get(type(node), ()):
        heads, dependents = _list_parts(node, head), _list_parts(node, dependent)
        if head == dependent:
            dependents = heads[1:2]
        if heads and dependents:
            yield RelationRule(name, heads[0], dependents[0], dependents[-1])


def _list_parts(node: ast.AST, field: str) -> list[ast.AST]:
    """Return the nodes in a field that have a position; the node itself for an empty field."""
    value: Any = getattr(node, field) if field else node
    parts: list[ast.AST] = []
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, ast.comprehension):
            parts += [part.target, part.iter]
        elif isinstance(part, ast.withitem):
            parts.append(part.context_expr)
        elif part is not None:
            parts.append(part)
    return parts


_RELATIONS: Mapping[type[ast.AST], Sequence[tuple[str, str, str]]] = {
    ast.If: (
        ("If:if->test", "", "test"),
        ("If:if->body", "", "body"),
        ("If:test->body", "test", "body"),
        ("If:test->orelse", "test", "orelse"),
        ("If:body->orelse", "body", "orelse"),
    ),
    ast.Call: (
        ("Call:func->args", "func", "args"),
        ("Call:args->keywords", "args", "keywords"),
        ("Call:func->keywords", "func", "keywords"),
    ),
    ast.Assign: (("Assign:target->value", "targets", "value"),),
    ast.AugAssign: (("AugAssign:target->value", "target", "value"),),
    ast.While: (
        ("While:while->test", "", "test"),
        ("While:while->body", "", "body"),
        ("While:test->body", "test", "body"),
    ),
    ast.For: (
        ("For:for->body", "", "body"),
        ("For:for->target", "", "target"),
        ("For:for->iter", "", "iter"),
        ("For:target->iter", "target", "iter"),
        ("For:target->body", "target", "body"),
        ("For:iter->body", "iter", "body"),
    ),
    ast.BinOp: (("BinOp:left->right", "left", "right"),),
    ast.BoolOp: (("BoolOp:value->value", "values", "values"),),
    ast.Compare: (("Compare:left->comparator", "left", "comparators"),),
    ast.Try: (
        ("Try:body->handler", "body", "handlers"),
        ("Try:handler->orelse", "handlers", "orelse"),
        ("Try:handler->finalbody", "handlers", "finalbody"),
        ("Try:body->orelse", "body", "orelse"),
        ("Try:body->finalbody", "body", "finalbody"),
    ),
    ast.IfExp: (
        ("IfExp:body->test", "body", "test"),
        ("IfExp:test->orelse", "test", "orelse"),
        ("IfExp:body->orelse", "body", "orelse"),
    ),
    ast.Attribute: ((_ATTRIBUTE, "value", ""),),
    ast.Subscript: (("Subscript:value->slice", "value", "slice"),),
    ast.Slice: (("Slice:lower->upper", "lower", "upper"),),
    ast.With: (("With:item->body", "items", "body"),),
    ast.ListComp: (("ListComp:elt->generator", "elt", "generators"),),
    ast.SetComp: (("SetComp:elt->generator", "elt", "generators"),),
    ast.GeneratorExp: (("GeneratorExp:elt->generator", "elt", "generators"),),
    ast.DictComp: (
        ("DictComp:key->value", "key", "value"),
        ("DictComp:key->generator", "key", "generators"),
        ("DictComp:value->generator", "value", "generators"),
    ),
    ast.comprehension: (("comprehension:target->iter", "target", "iter"),),
}
"""Relation, field of the head and field of the dependent, in the order of the published labels.

An empty field is the node itself. A field related to itself joins its first node to its second."""


def is_function(node: ast.AST) -> bool:
    """Return whether a node is a named function: only its body is read, and it is nobody's child."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def iterate_children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node that can hold relations, in the order of their fields.

    An f-string is one word, so nothing in it is related to anything.
    """
    if is_function(node):
        yield from node.body  # pyright: ignore[reportAttributeAccessIssue]
    elif type(node).__name__ not in ("JoinedStr", "TemplateStr"):
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, _WITHOUT_PLACE):
                yield child


_WITHOUT_PLACE = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.type_ignore)


def parse_module(text: str, quirks: Set[str]) -> ast.Module | None:
    """Parse a text; None if it does not parse.

    A decorated method cut out of its class begins in another column than its other lines; it is parsed with
    its margin put back.
    """
    tree = _parse_silently(text)
    begin = find_code_start(text)
    if tree is None and begin and MARGIN not in quirks:
        margin = text[text.rfind("\n", 0, begin) + 1 : begin]
        wrapper_tree = _parse_silently(f"if 1:\n{margin}{text}")
        if wrapper_tree is not None:
            ast.increment_lineno(wrapper_tree, -1)
            assert isinstance(wrapper_tree.body[0], ast.If)
            # Nobody looks at the decorators, the only nodes on the line that was moved.
            return ast.Module(wrapper_tree.body[0].body + wrapper_tree.body[1:], [])
    return tree


def _parse_silently(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def iterate_edges(tree: ast.Module, word_finder: AstWordFinder, quirks: Set[str]) -> Iterator[Edge]:
    """Yield the edges of a tree, each node's own before its children's."""
    stack: list[tuple[ast.AST | None, ast.AST]] = [(None, tree)]
    while stack:
        parent, node = stack.pop()
        has_position = hasattr(node, "lineno") and not is_function(node)
        if parent is not None and has_position:
            head, first = word_finder.first(parent), word_finder.first(node)
            if 0 < head < first <= (last := word_finder.last(node)):
                yield Edge(CHILD_RELATION, head, first, last)
        if isinstance(node, ast.If) and node.orelse:
            yield from _else_edges(node, word_finder, quirks)
        for relation in find_relations(node):
            edge = _build_edge(relation, word_finder, quirks)
            if 0 < edge.head < edge.first <= edge.last:
                yield edge
        next_parent = node if has_position else None
        stack.extend((next_parent, child) for child in reversed(list(iterate_children(node))))


def _build_edge(relation: RelationRule, word_finder: AstWordFinder, quirks: Set[str]) -> Edge:
    final = relation.last
    if relation.name == "Try:handler->orelse" and HANDLER_ORELSE in quirks:
        final = relation.first
    find_head = word_finder.last if relation.name in _LAST_WORD_HEADS else word_finder.first
    head, last = find_head(relation.head), word_finder.last(final)
    if relation.name != _ATTRIBUTE:
        first = word_finder.first(relation.first)
    else:
        first = last if NEWLINE_ALONE in quirks else word_finder.last_without_newline(final)
    return Edge(relation.name, head, first, last)


def _else_edges(node: ast.If, word_finder: AstWordFinder, quirks: Set[str]) -> Iterator[Edge]:
    """Yield the edge from ``if`` to the first ``else`` or ``elif`` between the body and what follows it."""
    head = word_finder.first(node)
    for index in range(word_finder.last(node.body[-1]) + 1, word_finder.first(node.orelse[0]) + 1):
        if word_finder.word(index) in ("else", "elif"):
            if head > 0 or UNFILTERED_ELSE in quirks:
                yield Edge(IF_ELSE, head, index, index)
            return


class PublishedPythonEdges:
    """The facet ``published_edges`` of Python."""

    quirks: Mapping[str, str] = QUIRKS

    def words(self, text: str, options: RelationOptions) -> Words:
        """Return the words of a text, which no quirk changes."""
        return _to_words(scan_words(text))

    def relate(self, text: str, options: RelationOptions) -> RelationGraph:
        """Return the words of a text and the relations between them, with some quirks on."""
        scanned_words = scan_words(text)
        words = _to_words(scanned_words)
        if has_lone_returns(text):
            return RelationGraph(words, problem=LONE_RETURN)
        tree = parse_module(text, options.quirks)
        if tree is None or not scanned_words.is_complete:
            return RelationGraph(words, problem="does not parse")
        word_finder = AstWordFinder(text, scanned_words, options.quirks, newlines=options.newlines)
        return RelationGraph(words, tuple(iterate_edges(tree, word_finder, options.quirks)))


def _to_words(scanned_words: ScannedWords) -> Words:
    return build_words(zip(scanned_words.surface, scanned_words.start, scanned_words.end, strict=True))


def facet(language: TreeSitterLanguage) -> PublishedPythonEdges:
    """Return the facet of the language."""
    return PublishedPythonEdges()
