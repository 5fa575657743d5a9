"""Editable spans of code (exchangeable tokens, statements), and what a compiler rejects.

Builders of data sets query these spans. A language's ``edits.scm`` captures, in one run:

- ``@name`` names that may replace one another;
- ``@type`` primitive types (or, if a language has none, the names of its builtin types);
- ``@relational`` and ``@assignment`` operators;
- ``@statement`` statements of a block, ``@body`` blocks of statements;
- ``@bound`` names that a statement assigns;
- ``@accessor`` functions that only return or set one field;
- ``@refused`` code that the language rejects though its grammar does not, such as a reserved word as a name;
- ``@jump`` statements after which the rest of their block is unreachable;
- ``@loose.KIND`` statements that must lie inside one captured as ``@around.KIND``, with no ``@barrier``
  between the two: a ``break`` in a loop;
- ``@no.type`` (or another of these names) exceptions from a capture.

Without the query only tokens and names are available. ``edits.toml`` sorts the keywords into categories and
lists in ``[confused]`` which operator is mistaken for which.

`Edits.count_objections` counts what a compiler says against a text that its grammar accepts, as far as this
can be told from the function alone. For it, ``edits.toml`` sets

- ``bound_once``: the kinds of definitions that a scope may hold only once per name;
- ``shadows``: whether an inner scope may hold another definition of the name;
- ``defined_first``: whether names are visible only after their definition, in a language whose other names
  are visible before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import tree_sitter

from sonde.languages.engine.language import node_text
from sonde.languages.engine.names import Locals, Scope, find_unbound
from sonde.languages.engine.text import EncodedText, TextCache
from sonde.languages.engine.treesitter import TreeSitterLanguage

REFUSED_TEXT, DUPLICATE_NAME, UNDECLARED_NAME, UNREACHABLE_CODE, LOOSE_JUMP = (
    "refused",
    "twice",
    "undeclared",
    "unreached",
    "loose",
)


OBJECTIONS = (REFUSED_TEXT, DUPLICATE_NAME, UNDECLARED_NAME, UNREACHABLE_CODE, LOOSE_JUMP)
"""Kinds of objections: the compiler rejects the text; a scope binds a name twice; a name is used where its
declaration is not visible; a statement follows a jump; a ``break`` or the like is in no loop.
"""


Objection = tuple[str, str]
"""One of `OBJECTIONS`, and the name or word that it is about; empty if there is none."""


CapturedNodes = Mapping[str, Sequence[tree_sitter.Node]]


_LOOSE_PREFIX, _AROUND_PREFIX = "loose.", "around."


def find_free_names(bindings: Locals, *, declared_first: bool) -> Iterator[str]:
    """Yield every use of a name that refers to no definition of the text."""
    free_starts = find_unbound(bindings, declared_first=declared_first) - {
        node.start_byte for node, _ in bindings.definitions
    }
    yield from (node_text(node) for node, _ in bindings.references if node.start_byte in free_starts)


def _find_duplicates(bindings: Locals, unique_kinds: Set[str], *, shadows: bool) -> Iterator[str]:
    counts: Counter[tuple[int, str]] = Counter()
    for node, kind in bindings.definitions:
        if kind not in unique_kinds:
            continue
        scope, name = bindings.scopes.find_scope(node.start_byte), node_text(node)
        if any(
            counts[outer.number, name] for outer in ([scope] if shadows else _iterate_function_scopes(scope))
        ):
            yield name
        counts[scope.number, name] += 1


def _iterate_function_scopes(scope: Scope) -> Iterator[Scope]:
    """Yield the scope and its outer scopes, up to that of the function."""
    yield scope
    while scope.kind != "function" and scope.parent is not None:
        scope = scope.parent
        yield scope


def _find_unreachable(captures: CapturedNodes) -> Iterator[tree_sitter.Node]:
    """Yield the statements that directly follow a jump in their block."""
    jumps = {node.id for node in captures.get("jump", ())}
    for node in captures.get("statement", ()):
        previous = node.prev_named_sibling
        while previous is not None and previous.is_extra:
            previous = previous.prev_named_sibling
        if previous is not None and previous.id in jumps:
            yield node


def _find_loose_jumps(captures: CapturedNodes) -> Iterator[str]:
    barriers = {node.id for node in captures.get("barrier", ())}
    for capture, nodes in captures.items():
        if not capture.startswith(_LOOSE_PREFIX):
            continue
        kind = capture.removeprefix(_LOOSE_PREFIX)
        enclosing_ids = {node.id for node in captures.get(_AROUND_PREFIX + kind, ())}
        for node in nodes:
            parent = node.parent
            while parent is not None and parent.id not in enclosing_ids and parent.id not in barriers:
                parent = parent.parent
            if parent is None or parent.id not in enclosing_ids:
                yield kind


# Callers request several kinds of spans of the same text in turn.
_CACHE_SIZE = 8


_EXCEPT_PREFIX, _NAME_CAPTURE, _REFUSED_CAPTURE = "no.", "name", "refused"


_HEAD_TOKENS = frozenset(("=", ":", "async", "function", "*"))
"""Tokens that may separate the name of a function from its parameters."""


class TextSpan(NamedTuple):
    """A span of a text: ``start`` and ``end`` in characters, its text (``surface``), and its category."""

    start: int
    end: int
    surface: str
    category: str = ""


class Edits:
    """The facet ``edits`` of a language, by a folder's ``edits.scm`` and ``edits.toml``.

    All results are in text order.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self._raw = language.table("edits")
        self._rules = language.settings.tokens
        self._unique_kinds = frozenset(self._raw.get("bound_once", ()))
        self._declared_first = bool(self._raw.get("defined_first", language.settings.declared_first))
        self.keywords: Mapping[str, tuple[str, ...]] = {
            category: tuple(words) for category, words in self._raw.get("keywords", {}).items()
        }
        """Categories of interchangeable keywords."""
        self._categories = {word: category for category, words in self.keywords.items() for word in words}
        self.reserved_words = frozenset(self._categories) | language.builtins
        """Keywords and builtin names, which no new name may take."""
        self.confused: Mapping[str, str] = self._raw.get("confused", {})
        """Captures of operators that users mistake for one another: those of ``given`` become ``taken``."""
        self._captured = TextCache(partial(language.captures, "edits"))
        self.tokens: Callable[[str], tuple[TextSpan, ...]] = TextCache(self._list_tokens)
        """Return code tokens without comments; a string is one token. The category is the grammar's kind."""
        self.places: Callable[[str, str], tuple[TextSpan, ...]] = lru_cache(maxsize=_CACHE_SIZE)(
            self._find_spans
        )
        """Return the spans of a capture of ``edits.scm``; by default all identifiers are names."""

    def keyword_spans(self, text: str) -> tuple[TextSpan, ...]:
        """Return the keywords with their categories, without names that are spelt like a keyword."""
        return tuple(
            TextSpan(token.start, token.end, token.surface, self._categories[token.surface])
            for token in self.tokens(text)
            if token.surface in self._categories and token.category not in self._rules.identifiers
        )

    def blocks(self, text: str) -> tuple[tuple[TextSpan, ...], ...]:
        """Return the statements of each block, blocks ordered by their first statement."""
        source = self._language.syntax(text)[0]
        spans_by_block: dict[int, list[TextSpan]] = {}
        for node in self._captured(text).get("statement", ()):
            block = node.parent
            if block is not None and node.type not in self._rules.comments:
                spans_by_block.setdefault(block.id, []).append(_build_span(node, source, "statement"))
        return tuple(sorted(map(_sort_spans, spans_by_block.values()), key=lambda block: block[0].start))

    def parses(self, text: str) -> bool:
        """Return whether a text parses without an error."""
        if self._language.syntax(text)[1].has_error:
            return False
        return _REFUSED_CAPTURE not in self._capture_names or not self.places(text, _REFUSED_CAPTURE)

    def count_objections(self, text: str) -> Counter[Objection]:
        """Count the objections of a compiler to a text that parses."""
        return Counter(self._find_objections(text))

    def _find_objections(self, text: str) -> Iterator[Objection]:
        if not self._language.compiles(text):
            yield REFUSED_TEXT, ""
        parsed_text, bindings = self._language.reading(text), self._language.locals(text)
        captures, shadows = self._captured(text), bool(self._raw.get("shadows", True))
        declared_names = {parsed_text.text(node) for node, _ in bindings.definitions}
        for name in find_free_names(bindings, declared_first=self._declared_first):
            if name in declared_names:
                yield UNDECLARED_NAME, name
        for name in _find_duplicates(bindings, self._unique_kinds, shadows=shadows):
            yield DUPLICATE_NAME, name
        yield from ((UNREACHABLE_CODE, "") for _ in _find_unreachable(captures))
        yield from ((LOOSE_JUMP, kind) for kind in _find_loose_jumps(captures))

    def undefined_names(self, text: str) -> frozenset[str]:
        """Return the names without a definition, if a compiler requires one of each variable."""
        if "variable" not in self._unique_kinds:
            return frozenset()
        return frozenset(find_free_names(self._language.locals(text), declared_first=self._declared_first))

    def head(self, text: str) -> int:
        """Return the length of the first function's head: up to its parameters, or the end of its name.

        In ``f = function (x)`` the keyword of the head follows the name.
        """
        name = next(
            (definition for definition in self._language.definitions(text) if definition.kind != "class"),
            None,
        )
        if name is None:
            return 0
        end = name.end
        for token in self.tokens(text):
            if token.start >= end:
                if token.surface not in _HEAD_TOKENS:
                    break
                end = token.end
        return end

    def is_accessor(self, text: str) -> bool:
        """Return whether a function is a mere getter or setter."""
        return "accessor" in self._captured(text)

    @cached_property
    def _capture_names(self) -> frozenset[str]:
        """Return the capture names of the query."""
        query = self._language.grammar.query("edits")
        return frozenset(query.capture_name(index) for index in range(query.capture_count))

    def _find_spans(self, text: str, capture: str) -> tuple[TextSpan, ...]:
        source, captures = self._language.syntax(text)[0], self._captured(text)
        if capture == _NAME_CAPTURE and _NAME_CAPTURE not in self._capture_names:
            return tuple(
                TextSpan(token.start, token.end, token.surface, _NAME_CAPTURE)
                for token in self.tokens(text)
                if token.category in self._rules.identifiers
            )
        excluded_starts = {node.start_byte for node in captures.get(_EXCEPT_PREFIX + capture, ())}
        nodes = (node for node in captures.get(capture, ()) if node.start_byte not in excluded_starts)
        return _sort_spans(_build_span(node, source, capture) for node in nodes)

    def _list_tokens(self, text: str) -> tuple[TextSpan, ...]:
        # Faults are only put into code that parses on its own: no wrapper is tried.
        leaves = self._language.extract_leaves(
            self._language.parse_without_wrapper(text), exclude=self._rules.comments
        )
        return tuple([TextSpan(start, end, surface, kind) for kind, _, start, end, surface in leaves])


def _build_span(node: tree_sitter.Node, source: EncodedText, category: str) -> TextSpan:
    start, end = source.to_span(node.byte_range)
    return TextSpan(start, end, source.text[start:end], category)


def _sort_spans(spans: Iterable[TextSpan]) -> tuple[TextSpan, ...]:
    return tuple(sorted(set(spans), key=lambda span: (span.start, -span.end)))


def replace_spans(text: str, *changes: tuple[TextSpan, str]) -> str:
    """Replace spans of a text that do not overlap."""
    parts: list[str] = []
    position = 0
    for span, replacement in sorted(changes, key=lambda change: change[0].start):
        parts += [text[position : span.start], replacement]
        position = span.end
    return "".join([*parts, text[position:]])


facet = Edits
