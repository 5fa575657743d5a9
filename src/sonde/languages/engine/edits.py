"""Places of a code where one thing may stand for another, and what builders of data sets ask of a function.

A language's ``edits.scm`` captures, in one run:

- ``@name`` names that may stand for one another;
- ``@type`` primitive types (where a language has none, the names of its builtin types);
- ``@relational`` and ``@assignment`` operators;
- ``@statement`` statements of a block, ``@body`` blocks of statements;
- ``@bound`` names that a statement gives a value;
- ``@accessor`` functions that do nothing but give or set one field;
- ``@refused`` what the language refuses though its grammar does not, such as a reserved word for a name;
- ``@jump``, ``@loose.KIND``, ``@around.KIND`` and ``@barrier``, see `_objections`;
- ``@no.type`` (or another of these names) what does not count as one after all.

Without the query, tokens and names are all that there is. ``edits.toml`` sorts the keywords into categories
and says in ``[confused]`` which operator is mistaken for which.
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
"""The text is refused as a whole; a scope binds a name twice; a name stands where its declaration is not
seen; a statement stands behind a jump; what leaves a loop stands in none."""


Objection = tuple[str, str]
"""One of `OBJECTIONS`, and the name or word that it is about; empty where there is none."""


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
    """Yield what stands against a text that parses.

    Args:
        language: The language.
        text: The text.
        captured: What ``edits.scm`` captures in it.
        once: Kinds of definitions of which a scope holds one a name.
        shadows: Whether a scope inside may hold another.
        ordered: Whether a name is seen behind its definition only.
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
    """Yield the names that stand where they mean nothing that the text defines, as often as they do."""
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
    """The scope and those around it, up to that of the function."""
    yield scope
    while scope.kind != "function" and scope.parent is not None:
        scope = scope.parent
        yield scope


def _unreached(captured: Captured) -> Iterator[tree_sitter.Node]:
    """Statements that stand in their block directly behind a jump."""
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


# Callers ask the same text for several kinds of places in turn.
_KEPT = 8


_WITHOUT, _NAME, _REFUSED = "no.", "name", "refused"


_HEAD = frozenset(("=", ":", "async", "function", "*"))
"""What may stand between the name of a function and its parameters."""


class TextPlace(NamedTuple):
    """A stretch of a text: ``start`` and ``end`` in characters, what stands there, and its category."""

    start: int
    end: int
    surface: str
    category: str = ""


@dataclass(frozen=True, slots=True)
class Confusion:
    """Which operators are mistaken for which: operators of ``given`` become operators of ``taken``."""

    given: str
    taken: str


@runtime_checkable
class Edits(Protocol):
    """The facet ``edits`` of a language. Every answer is in text order."""

    @property
    def version(self) -> str:
        """Raised when an answer changes."""
        ...

    @property
    def keywords(self) -> Mapping[str, tuple[str, ...]]:
        """Categories of keywords that may stand for one another, with all of their keywords."""
        ...

    @property
    def confusion(self) -> Confusion:
        """Which operators the language's users mistake for which, so that the code still parses."""
        ...

    @property
    def reserved(self) -> frozenset[str]:
        """Words that mean something already: keywords and builtin names."""
        ...

    def tokens(self, text: str) -> tuple[TextPlace, ...]:
        """Code tokens without comments; a string is one. The category is the grammar's kind."""
        ...

    def keyword_places(self, text: str) -> tuple[TextPlace, ...]:
        """Keywords with their categories."""
        ...

    def places(self, text: str, what: str) -> tuple[TextPlace, ...]:
        """What a capture of ``edits.scm`` names; the category is the capture."""
        ...

    def blocks(self, text: str) -> tuple[tuple[TextPlace, ...], ...]:
        """The statements of each block, blocks by their first statement."""
        ...

    def parses(self, text: str) -> bool:
        """Whether a text parses without an error."""
        ...

    def objections(self, text: str) -> Counter[Objection]:
        """What a compiler says against a text that parses, with how often."""
        ...

    def undefined(self, text: str) -> frozenset[str]:
        """Names without a definition, where a compiler asks for one of each variable."""
        ...

    def head(self, text: str) -> int:
        """Characters up to where the parameters of a text's first function begin, or its name ends."""
        ...

    def is_accessor(self, text: str) -> bool:
        """Whether a function is a mere getter or setter."""
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
        """Raised when an answer changes."""
        return str(self._raw.get("version", 1))

    @cached_property
    def keywords(self) -> Mapping[str, tuple[str, ...]]:
        """Categories of keywords with all of their keywords."""
        return {category: tuple(words) for category, words in self._raw.get("keywords", {}).items()}

    @cached_property
    def confusion(self) -> Confusion:
        """Which operators are mistaken for which."""
        return Confusion(**self._raw["confused"])

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Keywords and builtin names."""
        words = {word for category in self.keywords.values() for word in category}
        return frozenset(words) | self._language.builtins

    def tokens(self, text: str) -> tuple[TextPlace, ...]:
        """Code tokens without comments; a string is one."""
        return self._cut(text)

    def keyword_places(self, text: str) -> tuple[TextPlace, ...]:
        """Keywords with their categories; a name that is spelled like a keyword is none."""
        known, names = self._category, self._names
        return tuple(
            TextPlace(token.start, token.end, token.surface, known[token.surface])
            for token in self.tokens(text)
            if token.surface in known and token.category not in names
        )

    def places(self, text: str, what: str) -> tuple[TextPlace, ...]:
        """What a capture of ``edits.scm`` names; names are identifiers where a language has none."""
        return self._placed(text, what)

    def blocks(self, text: str) -> tuple[tuple[TextPlace, ...], ...]:
        """The statements of each block."""
        source = self._language.syntax(text)[0]
        found: dict[int, list[TextPlace]] = {}
        for node in self._captured(text).get("statement", ()):
            around = node.parent
            if around is not None and node.type not in self._comments:
                found.setdefault(around.id, []).append(_place(node, source, "statement"))
        return tuple(sorted(map(_ordered, found.values()), key=_first))

    def parses(self, text: str) -> bool:
        """Whether a text parses without an error."""
        if self._language.syntax(text)[1].root_node.has_error:
            return False
        return _REFUSED not in self._known or not self.places(text, _REFUSED)

    def objections(self, text: str) -> Counter[Objection]:
        """What a compiler says against a text that parses, with how often."""
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
        """Names without a definition, where a compiler asks for one of each variable."""
        if "variable" not in self._once:
            return frozenset()
        return frozenset(free_names(self._language.locals(text), ordered=self._ordered))

    def head(self, text: str) -> int:
        """Characters up to where the parameters of a text's first function begin, or its name ends.

        In ``f = function (x)`` the keyword of the head stands behind the name.
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
        """Whether a function is a mere getter or setter."""
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
        """What the query captures at all."""
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
        # A fault is put into code that parses as it is: no wrapper is looked for.
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
    """The facet ``edits`` of every language; its query and table add kinds of places."""
    return QueryEdits(language)
