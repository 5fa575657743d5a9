"""What a compiler says against a text that its grammar takes, where that can be told of a function alone.

A language's ``edits.scm`` captures, beside places of edits:

- ``@jump`` statements behind which nothing of their block is reached;
- ``@loose.KIND`` statements that have to stand inside one that ``@around.KIND`` captures, with no
  ``@barrier`` between them: a ``break`` in a loop.

``edits.toml`` says in ``bound_once`` which kinds of definitions a scope holds once a name, whether a scope
inside may hold another (``shadows``), and whether they are seen behind their definition only
(``defined_first``), where the language's other names are seen before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

import tree_sitter

from sonde.languages._grammar import node_text
from sonde.languages._locals import Locals, Scope, unbound
from sonde.languages._treesitter import TreeSitterLanguage

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
