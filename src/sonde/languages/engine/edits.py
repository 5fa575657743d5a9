"""Editable spans of code: tokens that may replace one another, statements, and what a compiler rejects.

A language's ``edits.scm`` captures, in one run:

- ``@name`` names that may replace one another;
- ``@type`` primitive types (or, if a language has none, the names of its builtin types);
- ``@relational`` and ``@assignment`` operators;
- ``@statement`` statements of a block, ``@body`` blocks of statements;
- ``@bound`` names that a statement assigns;
- ``@accessor`` functions that only return or set one field;
- ``@refused`` code that the language rejects though its grammar does not, such as a reserved word as a name;
- ``@jump``, ``@loose.KIND``, ``@around.KIND`` and ``@barrier``, see `find_objections`;
- ``@no.type`` (or another of these names) exceptions from a capture.

Without the query only tokens and names are available. ``edits.toml`` sorts the keywords into categories and
lists in ``[confused]`` which operator is mistaken for which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import tree_sitter

from sonde.languages.engine.grammar import node_text
from sonde.languages.engine.names import Locals, Scope, unbound
from sonde.languages.engine.text import EncodedText, Kept
from sonde.languages.engine.treesitter import TreeSitterLanguage

REFUSED, TWICE, UNDECLARED, UNREACHED, LOOSE = "refused", "twice", "undeclared", "unreached", "loose"


OBJECTIONS = (REFUSED, TWICE, UNDECLARED, UNREACHED, LOOSE)
"""Kinds of objections: the compiler rejects the text; a scope binds a name twice; a name is used where its
declaration is not visible; a statement follows a jump; a ``break`` or the like is in no loop.
"""


Objection = tuple[str, str]
"""One of `OBJECTIONS`, and the name or word that it is about; empty if there is none."""


Captured = Mapping[str, Sequence[tree_sitter.Node]]


_LOOSE, _AROUND = "loose.", "around."


def find_objections(
    language: TreeSitterLanguage,
    text: str,
    captured: Captured,
    *,
    once: Set[str],
    shadows: bool,
    ordered: bool,
) -> Iterator[Objection]:
    """Yield the objections of a compiler to a text that parses.

    Args:
        language: The language.
        text: The text.
        captures: The captures of ``edits.scm`` in it.
        unique_kinds: Kinds of definitions that a scope may hold only once per name.
        shadows: Whether an inner scope may redefine the name.
        declared_first: Whether a name is visible only after its definition.
    """
    if not language.compiles(text):
        yield REFUSED, ""
    reading, held = language.reading(text), language.locals(text)
    declared = {reading.text(node) for node, _ in held.definitions}
    for name in free_names(held, ordered=ordered):
        if name in declared:
            yield UNDECLARED, name
    yield from ((TWICE, name) for name in _bound_again(held, once, shadows=shadows))
    yield from ((UNREACHED, "") for _ in _unreached(captured))
    yield from ((LOOSE, kind) for kind in _loose(captured))


def free_names(held: Locals, *, ordered: bool) -> Iterator[str]:
    """Yield every use of a name that refers to no definition of the text."""
    free = unbound(held, ordered=ordered) - {node.start_byte for node, _ in held.definitions}
    yield from (node_text(node) for node, _ in held.references if node.start_byte in free)


def _bound_again(held: Locals, once: Set[str], *, shadows: bool) -> Iterator[str]:
    bound: Counter[tuple[int, str]] = Counter()
    for node, kind in held.definitions:
        if kind not in once:
            continue
        scope, name = held.scopes.at(node.start_byte), node_text(node)
        if any(bound[seen.number, name] for seen in ([scope] if shadows else _within_function(scope))):
            yield name
        bound[scope.number, name] += 1


def _within_function(scope: Scope) -> Iterator[Scope]:
    """Yield the scope and its outer scopes, up to that of the function."""
    yield scope
    while scope.kind != "function" and scope.parent is not None:
        scope = scope.parent
        yield scope


def _unreached(captured: Captured) -> Iterator[tree_sitter.Node]:
    """Yield the statements that directly follow a jump in their block."""
    jumps = {node.id for node in captured.get("jump", ())}
    for node in captured.get("statement", ()):
        before = node.prev_named_sibling
        while before is not None and before.is_extra:
            before = before.prev_named_sibling
        if before is not None and before.id in jumps:
            yield node


def _loose(captured: Captured) -> Iterator[str]:
    barriers = {node.id for node in captured.get("barrier", ())}
    for capture, nodes in captured.items():
        if not capture.startswith(_LOOSE):
            continue
        kind = capture.removeprefix(_LOOSE)
        around = {node.id for node in captured.get(_AROUND + kind, ())}
        for node in nodes:
            above = node.parent
            while above is not None and above.id not in around and above.id not in barriers:
                above = above.parent
            if above is None or above.id not in around:
                yield kind


# Callers request several kinds of spans of the same text in turn.
_KEPT = 8


_WITHOUT, _NAME, _REFUSED = "no.", "name", "refused"


_HEAD = frozenset(("=", ":", "async", "function", "*"))
"""Tokens that may separate the name of a function from its parameters."""


class TextPlace(NamedTuple):
    """A span of a text: ``start`` and ``end`` in characters, its text (``surface``), and its category."""

    start: int
    end: int
    surface: str
    category: str = ""


@dataclass(frozen=True, slots=True)
class Confusion:
    """Operators that are mistaken for each other: those of ``given`` become those of ``taken``."""

    given: str
    taken: str


@runtime_checkable
class Edits(Protocol):
    """The facet ``edits`` of a language. All results are in text order."""

    @property
    def version(self) -> str:
        """Return the version, which is raised whenever a result changes."""
        ...

    @property
    def keywords(self) -> Mapping[str, tuple[str, ...]]:
        """Map each category of interchangeable keywords to its keywords."""
        ...

    @property
    def confusion(self) -> Confusion:
        """Return the operators that users mistake for one another, such that the code still parses."""
        ...

    @property
    def reserved(self) -> frozenset[str]:
        """Return the keywords and builtin names, which no new name may take."""
        ...

    def tokens(self, text: str) -> tuple[TextPlace, ...]:
        """Return code tokens without comments; a string is one token. The category is the grammar's kind."""
        ...

    def keyword_places(self, text: str) -> tuple[TextPlace, ...]:
        """Return the keywords with their categories."""
        ...

    def places(self, text: str, what: str) -> tuple[TextPlace, ...]:
        """Return the spans of a capture of ``edits.scm``; the category is the capture."""
        ...

    def blocks(self, text: str) -> tuple[tuple[TextPlace, ...], ...]:
        """Return the statements of each block, blocks ordered by their first statement."""
        ...

    def parses(self, text: str) -> bool:
        """Return whether a text parses without an error."""
        ...

    def objections(self, text: str) -> Counter[Objection]:
        """Count the objections of a compiler to a text that parses."""
        ...

    def undefined(self, text: str) -> frozenset[str]:
        """Return the names without a definition, if a compiler requires one of each variable."""
        ...

    def head(self, text: str) -> int:
        """Return the length of the first function's head: up to its parameters, or the end of its name."""
        ...

    def is_accessor(self, text: str) -> bool:
        """Return whether a function is a mere getter or setter."""
        ...


class QueryEdits:
    """`Edits` by a folder's ``edits.scm`` and ``edits.toml``.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._language = language
        self._raw = language.table("edits")
        self._captured = Kept(self._capture)
        self._cut = Kept(self._cut_all)
        self._placed = lru_cache(maxsize=_KEPT)(self._place_all)

    @property
    def version(self) -> str:
        """Return the version, which is raised whenever a result changes."""
        return str(self._raw.get("version", 1))

    @cached_property
    def keywords(self) -> Mapping[str, tuple[str, ...]]:
        """Map each category to its keywords."""
        return {category: tuple(words) for category, words in self._raw.get("keywords", {}).items()}

    @cached_property
    def confusion(self) -> Confusion:
        """Return the operators that are mistaken for one another."""
        return Confusion(**self._raw["confused"])

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Return the keywords and builtin names."""
        words = {word for category in self.keywords.values() for word in category}
        return frozenset(words) | self._language.builtins

    def tokens(self, text: str) -> tuple[TextPlace, ...]:
        """Return code tokens without comments; a string is one token."""
        return self._cut(text)

    def keyword_places(self, text: str) -> tuple[TextPlace, ...]:
        """Return the keywords with their categories, without names that are spelt like a keyword."""
        known, names = self._category, self._names
        return tuple(
            TextPlace(token.start, token.end, token.surface, known[token.surface])
            for token in self.tokens(text)
            if token.surface in known and token.category not in names
        )

    def places(self, text: str, what: str) -> tuple[TextPlace, ...]:
        """Return the spans of a capture of ``edits.scm``; by default all identifiers are names."""
        return self._placed(text, what)

    def blocks(self, text: str) -> tuple[tuple[TextPlace, ...], ...]:
        """Return the statements of each block."""
        source = self._language.syntax(text)[0]
        found: dict[int, list[TextPlace]] = {}
        for node in self._captured(text).get("statement", ()):
            around = node.parent
            if around is not None and node.type not in self._comments:
                found.setdefault(around.id, []).append(_place(node, source, "statement"))
        return tuple(sorted(map(_ordered, found.values()), key=_first))

    def parses(self, text: str) -> bool:
        """Return whether a text parses without an error."""
        if self._language.syntax(text)[1].root_node.has_error:
            return False
        return _REFUSED not in self._known or not self.places(text, _REFUSED)

    def objections(self, text: str) -> Counter[Objection]:
        """Count the objections of a compiler to a text that parses."""
        return Counter(
            find_objections(
                self._language,
                text,
                self._captured(text),
                once=self._once,
                shadows=bool(self._raw.get("shadows", True)),
                ordered=self._ordered,
            )
        )

    def undefined(self, text: str) -> frozenset[str]:
        """Return the names without a definition, if a compiler requires one of each variable."""
        if "variable" not in self._once:
            return frozenset()
        return frozenset(free_names(self._language.locals(text), ordered=self._ordered))

    def head(self, text: str) -> int:
        """Return the length of the first function's head: up to its parameters, or the end of its name.

        In ``f = function (x)`` the keyword of the head follows the name.
        """
        name = next((one for one in self._language.definitions(text) if one.kind != "class"), None)
        if name is None:
            return 0
        end = name.end
        for token in self.tokens(text):
            if token.start >= end:
                if token.surface not in _HEAD:
                    break
                end = token.end
        return end

    def is_accessor(self, text: str) -> bool:
        """Return whether a function is a mere getter or setter."""
        return "accessor" in self._captured(text)

    @cached_property
    def _once(self) -> frozenset[str]:
        return frozenset(self._raw.get("bound_once", ()))

    @property
    def _ordered(self) -> bool:
        return bool(self._raw.get("defined_first", self._language.settings.declared_first))

    @cached_property
    def _category(self) -> Mapping[str, str]:
        return {word: category for category, words in self.keywords.items() for word in words}

    @cached_property
    def _known(self) -> frozenset[str]:
        """Return the capture names of the query."""
        query = self._language.grammar.query("edits")
        return frozenset(query.capture_name(index) for index in range(query.capture_count))

    @cached_property
    def _names(self) -> frozenset[str]:
        return self._language.settings.tokens.identifiers

    @cached_property
    def _comments(self) -> frozenset[str]:
        return self._language.settings.tokens.comments

    def _capture(self, text: str) -> Mapping[str, list[tree_sitter.Node]]:
        return dict(self._language.grammar.captures("edits", self._language.syntax(text)[1].root_node))

    def _place_all(self, text: str, what: str) -> tuple[TextPlace, ...]:
        source, captured = self._language.syntax(text)[0], self._captured(text)
        if what == _NAME and _NAME not in self._known:
            return tuple(
                TextPlace(one.start, one.end, one.surface, _NAME)
                for one in self.tokens(text)
                if one.category in self._names
            )
        out = {node.start_byte for node in captured.get(_WITHOUT + what, ())}
        nodes = (node for node in captured.get(what, ()) if node.start_byte not in out)
        return _ordered(_place(node, source, what) for node in nodes)

    def _cut_all(self, text: str) -> tuple[TextPlace, ...]:
        # Faults are only put into code that parses on its own: no wrapper is tried.
        found = self._language.leaves_of(self._language.whole(text), without=self._comments)
        return tuple([TextPlace(start, end, surface, kind) for kind, _, start, end, surface in found])


def _place(node: tree_sitter.Node, source: EncodedText, category: str) -> TextPlace:
    start, end = source.at(node.start_byte), source.at(node.end_byte)
    return TextPlace(start, end, source.text[start:end], category)


def _ordered(places: Iterable[TextPlace]) -> tuple[TextPlace, ...]:
    return tuple(sorted(set(places), key=lambda place: (place.start, -place.end)))


def _first(block: tuple[TextPlace, ...]) -> int:
    return block[0].start


def facet(language: TreeSitterLanguage) -> QueryEdits:
    """Return the facet ``edits`` of a language; its query and table add kinds of spans."""
    return QueryEdits(language)
