"""Metrics of one function: the protocol, and the counts that every language shares.

A language's `metrics.scm` captures the nodes to count and its `metrics.toml` names the leaves. Captures:

- ``function``: a definition; one inside another is counted separately, as a function of its own;
- ``apart``: other code that is excluded with inner definitions (a class inside a function);
- ``body``: the code in which decisions are counted, see `QueryMetrics.complexity`;
- ``decision``: a branching of the control flow, one each; ``decision.whole`` absorbs those inside it, and
  ``default``, the default cases of a switch, together count one less;
- ``structure.if``, ``.loop``, ``.switch``, ``.try``: code structures;
- ``block``: code one level deeper than its surroundings; ``block.else`` likewise, unless it is an if itself;
- ``ternary``, ``return``, ``boolean``: for NPath, see a language's `npath.py`, with one capture per
  statement;
- ``called``, ``method`` and their kin: for recursive calls, see `count_recursion`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, Protocol, runtime_checkable

import tree_sitter

from sonde.languages.engine.text import Kept
from sonde.languages.engine.tokens import Leaf, ParsedText, nested, told_by_word
from sonde.languages.engine.treesitter import TreeSitterLanguage

_OTHER_KINDS = ("method", "again", "deleted")
"""Kinds of definitions that bind no variable that a bare call could refer to."""


class _Names(NamedTuple):
    """Names of one function: those of bare calls, and those of calls through the object."""

    bare: frozenset[str]
    member: frozenset[str]


def count_recursion(
    language: TreeSitterLanguage,
    text: str,
    captured: Captured,
    functions: Sequence[tree_sitter.Node],
    *,
    method: bool = False,
    ignore_case: bool = False,
) -> int:
    """Count the recursive calls of functions.

    Args:
        language: The language.
        text: The text.
        captures: The captures of its `metrics.scm`.
        functions: The outermost functions, in text order.
        method: Whether a text that is one function was extracted from a class.
        ignore_case: Whether names are case-insensitive.
    """
    reading = language.reading(text)
    method = method and len(functions) == 1
    names = [_names(reading, captured, function, functions, method=method) for function in functions]
    starts = [function.start_byte for function in functions]
    inner = [node for node in captured.get("function", []) if node.id not in {one.id for one in functions}]
    count = 0
    for capture, called in _calls(captured):
        index = bisect_right(starts, called.start_byte) - 1
        if index < 0 or called.end_byte > functions[index].end_byte:
            continue
        name, own = reading.text(called), names[index]
        if ignore_case:
            name, own = name.lower(), _Names(*(frozenset(map(str.lower, some)) for some in own))
        if capture == "called.bare":
            reached = name in own.bare and not _is_bound_inside(language, text, functions[index], called)
        elif capture == "called.unbound":
            reached = name in own.member and called.start_byte in language.unbound(text)
        elif capture == "called.receiver":
            reached = name in own.member and _receives(reading, captured, functions[index], called)
        else:
            reached = name in (own.bare | own.member if capture == "called" else own.member)
        count += reached and not _has_namesake(reading, inner, called, name)
    return count


def _calls(captured: Captured) -> Iterator[tuple[str, tree_sitter.Node]]:
    for capture in ("called", "called.bare", "called.own", "called.receiver", "called.unbound"):
        for node in captured.get(capture, []):
            yield capture, node


def _names(
    reading: ParsedText,
    captured: Captured,
    function: tree_sitter.Node,
    functions: Sequence[tree_sitter.Node],
    *,
    method: bool,
) -> _Names:
    """Return the names of one of the outermost functions."""
    if "function.bare" not in captured and "function.member" not in captured:
        node = function.child_by_field_name("name")
        named = frozenset[str]() if node is None else frozenset({reading.text(node)})
        method = method or any(node.id == function.id for node in captured.get("method", []))
        return _Names(frozenset() if method else named, named)
    ends = [one.end_byte for one in functions]
    body = function.child_by_field_name("body")
    beyond = function.end_byte if body is None else body.start_byte
    bare, member = set[str](), set[str]()
    for capture, found in (("function.bare", bare), ("function.member", member)):
        for node in captured.get(capture, []):
            # A name lies in the header of its function or before it.
            index = bisect_right(ends, node.start_byte)
            if index == len(functions) or functions[index].id != function.id or node.start_byte >= beyond:
                continue
            # A function assigned to a field is no variable, although it looks like one outside of its class.
            (member if method and node.start_byte < function.start_byte else found).add(reading.text(node))
    return _Names(frozenset(bare), frozenset(member))


def _is_bound_inside(
    language: TreeSitterLanguage, text: str, function: tree_sitter.Node, called: tree_sitter.Node
) -> bool:
    """Return whether a name refers to a parameter, a variable or a function inside a function."""
    found, reading = language.locals(text), language.reading(text)
    scopes, name, own = found.evaluated, reading.text(called), function.child_by_field_name("name")
    seen = {scope.number for scope in scopes.seen(scopes.at(called.start_byte), name)}
    last = called.start_byte if language.settings.declared_first else function.end_byte
    return any(
        kind not in _OTHER_KINDS
        and function.start_byte <= node.start_byte <= last
        and node != own
        and reading.text(node) == name
        and scopes.at(node.start_byte).number in seen
        for node, kind in found.definitions
    )


def _receives(
    reading: ParsedText, captured: Captured, function: tree_sitter.Node, called: tree_sitter.Node
) -> bool:
    """Return whether a name is called through the receiver of its method."""
    through = called.parent.named_children[0] if called.parent else None
    return through is not None and any(
        reading.text(node) == reading.text(through)
        for node in captured.get("receiver", [])
        if function.start_byte <= node.start_byte < function.end_byte
    )


def _has_namesake(
    reading: ParsedText, inner: Sequence[tree_sitter.Node], called: tree_sitter.Node, name: str
) -> bool:
    """Return whether a call lies in a class inside the function that has a method of that name itself."""
    for function in inner:
        node, around = function.child_by_field_name("name"), function.parent
        if node is None or around is None or reading.text(node) != name:
            continue
        if around.start_byte <= called.start_byte and called.end_byte <= around.end_byte:
            return True
    return False


Captured = Mapping[str, list[tree_sitter.Node]]


@runtime_checkable
class Metrics(Protocol):
    """The facet ``metrics`` of a language: measures of the text of one function."""

    def leaves(self, text: str) -> tuple[Leaf, ...]:
        """Return the tokens as a lexer lists them: no comments, no layout, a string is one token."""
        ...

    def complexity(self, text: str) -> int:
        """Return the cyclomatic complexity: decisions plus one."""
        ...

    def nesting(self, text: str) -> int:
        """Return the maximum nesting depth of blocks; the function's body is 1."""
        ...

    def depths(self, text: str) -> tuple[tuple[Leaf, int], ...]:
        """Return each of `leaves` with the number of enclosing blocks; the function's body is 1."""
        ...

    def structures(self, text: str) -> Mapping[str, int]:
        """Count code structures: ``if``, ``loop``, ``switch``, ``try``."""
        ...

    def operators(self, text: str) -> tuple[str, ...]:
        """Return every operator in text order, by its sign."""
        ...

    def identifiers(self, text: str) -> tuple[str, ...]:
        """Return every identifier in text order, names of types and methods included."""
        ...

    def keywords(self, text: str) -> int:
        """Count reserved words."""
        ...

    def depth(self, text: str) -> int:
        """Return the depth of the syntax tree, in nodes, from the function's own node to its deepest leaf."""
        ...

    def patterns(self, text: str, *, method: bool = False) -> Mapping[str, int]:
        """Count the occurrences of each of `PATTERNS`.

        Args:
            text: The text.
            method: Whether a text that is one function was extracted from a class.
        """
        ...


PATTERNS: tuple[str, ...] = ("nested_loop", "if_in_loop", "early_return", "recursion")


@dataclass(frozen=True, slots=True)
class MetricsFile:
    """The content of a `metrics.toml`.

    Attributes:
        operators: For a parent kind, its leaves as operators: a sign, or empty for none. Other leaves are
            operators if the language's tokens say so.
        names_ignore_case: Whether names of functions are case-insensitive.
    """

    operators: Mapping[str, Mapping[str, str]]
    names_ignore_case: bool = False


def read_table(language: TreeSitterLanguage) -> MetricsFile:
    """Read a language's `metrics.toml`."""
    raw = language.table("metrics")
    return MetricsFile(
        operators=raw.get("operators", {}), names_ignore_case=raw.get("names_ignore_case", False)
    )


class MetricsOf:
    """The `Metrics` of a language by its queries and table.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self.language = language
        self.table = read_table(language)
        self.reading = language.reading
        self.captured = Kept(self._capture)

    def leaves(self, text: str) -> tuple[Leaf, ...]:
        """Return the tokens as a lexer lists them."""
        return self.language.leaves(text)

    def complexity(self, text: str) -> int:
        """Return decisions plus one, without those of inner definitions."""
        return 1 + self.decisions(text)

    def decisions(self, text: str, *, everywhere: bool = False) -> int:
        """Count the branchings of the control flow; with ``everywhere`` also those of inner definitions."""
        captured = self.captured(text)
        found, whole = captured.get("decision", []), captured.get("decision.whole", [])
        if whole:
            taken, kept = Cover(outermost(whole)), {node.id for node in whole}
            found = [node for node in found if node.id in kept or not taken.holds(node)]
        found = found if everywhere else self.own(text, found)
        default = {node.id for node in captured.get("default", [])}
        around = {node.parent.id for node in found if node.id in default and node.parent}
        return len(found) - len(around)

    def own(self, text: str, nodes: list[tree_sitter.Node]) -> list[tree_sitter.Node]:
        """Select the nodes in the bodies of the outermost functions, outside of inner definitions."""
        found = self.captured(text)
        functions = outermost(found.get("function", []))
        bodies = [body for body in (one.child_by_field_name("body") for one in functions) if body is not None]
        if not functions:
            return nodes
        inside_bodies = Cover(bodies)
        apart = Cover(outermost([node for node in _apart(found) if inside_bodies.holds(node)]))
        return [node for node in nodes if inside_bodies.holds(node) and not apart.holds(node)]

    def nesting(self, text: str) -> int:
        """Return the depth of the deepest block."""
        depths: list[int] = []
        for _, above in nested(self.blocks(text)):
            depths.append(1 if above < 0 else depths[above] + 1)
        return max(depths, default=0)

    def depths(self, text: str) -> tuple[tuple[Leaf, int], ...]:
        """Return each token with the number of enclosing blocks."""
        deeper = [0] * (len(text) + 1)
        for node in self.blocks(text):
            start, end = self.reading(text).span(node)
            deeper[start] += 1
            deeper[end] -= 1
        depth = list(accumulate(deeper))
        return tuple((leaf, depth[leaf.start]) for leaf in self.leaves(text))

    def blocks(self, text: str) -> list[tree_sitter.Node]:
        """Return the nodes one level deeper than their surroundings; ``else if`` adds no level."""
        found = self.captured(text)
        ifs = {node.id for node in found.get("structure.if", [])}
        return found.get("block", []) + [node for node in found.get("block.else", []) if node.id not in ifs]

    def structures(self, text: str) -> Mapping[str, int]:
        """Count code structures by kind, everything in the text included."""
        found = self.captured(text)
        return {kind: len(found.get(f"structure.{kind}", [])) for kind in ("if", "loop", "switch", "try")}

    def operators(self, text: str) -> tuple[str, ...]:
        """Return every operator, by its sign."""
        return tuple(sign for sign in map(self.operator, self.leaves(text)) if sign)

    def operator(self, leaf: Leaf) -> str:
        """Return the sign of a leaf as an operator; empty if it is none."""
        special = self.table.operators.get(leaf.parent, {}).get(leaf.kind)
        if special is not None:
            return special
        tokens = self.language.settings.tokens
        kind = tokens.under.get(leaf.parent, {}).get(leaf.kind, "operator")
        return leaf.kind if leaf.kind in tokens.operators and kind == "operator" else ""

    def identifiers(self, text: str) -> tuple[str, ...]:
        """Return every identifier, names of types and methods included."""
        rules = self.language.settings.tokens
        return tuple(
            leaf.text
            for leaf in self.leaves(text)
            if leaf.kind in rules.identifiers and not told_by_word(leaf, rules)
        )

    def keywords(self, text: str) -> int:
        """Count reserved words."""
        rules = self.language.settings.tokens
        return sum(
            leaf.kind in rules.keywords or told_by_word(leaf, rules) == "keyword"
            for leaf in self.leaves(text)
        )

    def depth(self, text: str) -> int:
        """Return the depth in named nodes of the only outermost function, or else of the full tree."""
        functions = outermost(self.captured(text).get("function", []))
        return deepest(functions[0] if len(functions) == 1 else self.reading(text).root)

    def patterns(self, text: str, *, method: bool = False) -> Mapping[str, int]:
        """Count nested loops, ifs in a loop, returns before the end, and recursive calls."""
        found = self.captured(text)
        loops, ifs = found.get("structure.loop", []), found.get("structure.if", [])
        functions = outermost(found.get("function", []))
        returns = self.own(text, found.get("return", []))
        ends = {
            body.end_byte: body for body in (one.child_by_field_name("body") for one in functions) if body
        }
        last = {child.id for body in ends.values() if (child := last_statement(body)) is not None}
        return {
            "nested_loop": sum(any(inside(other, loop) for other in loops) for loop in loops),
            "if_in_loop": sum(any(inside(loop, one) for loop in loops) for one in ifs),
            "early_return": sum(node.id not in last for node in returns),
            "recursion": count_recursion(
                self.language,
                text,
                found,
                functions,
                method=method,
                ignore_case=self.table.names_ignore_case,
            ),
        }

    def _capture(self, text: str) -> Captured:
        reading = self.reading(text)
        found = self.language.grammar.captures("metrics", reading.root)
        return {name: [node for node in nodes if reading.inside(node)] for name, nodes in found}


def outermost(nodes: list[tree_sitter.Node]) -> list[tree_sitter.Node]:
    """Return the nodes that lie in no other of them, in text order."""
    return [node for node, above in nested(nodes) if above < 0]


def holds(outer: tree_sitter.Node, node: tree_sitter.Node) -> bool:
    """Return whether ``outer`` covers ``node``, or is the same."""
    return outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte


def inside(outer: tree_sitter.Node, node: tree_sitter.Node) -> bool:
    """Return whether ``node`` lies strictly inside ``outer``."""
    return holds(outer, node) and outer.id != node.id


def deepest(root: tree_sitter.Node) -> int:
    """Return the depth of a tree in named nodes, the root included."""
    cursor = root.walk()
    depth, most = 1, 1
    while True:
        if cursor.goto_first_child():
            depth += cursor.node is not None and cursor.node.is_named
            most = max(most, depth)
            continue
        while True:
            left = cursor.node is not None and cursor.node.is_named
            if cursor.goto_next_sibling():
                depth += (cursor.node is not None and cursor.node.is_named) - left
                most = max(most, depth)
                break
            depth -= left
            if not cursor.goto_parent():
                return most


def last_statement(body: tree_sitter.Node) -> tree_sitter.Node | None:
    """Return the last direct statement of a body, skipping heredoc texts, which follow their statement."""
    beside = ("comment", "heredoc_body")
    statements = [child for child in body.named_children if not child.type.endswith(beside)]
    if len(statements) == 1 and statements[0].type == "statement_list":
        return last_statement(statements[0])
    return statements[-1] if statements else None


class Cover:
    """Disjoint nodes in text order, indexed to test whether one of them covers another node.

    Args:
        nodes: The nodes.
    """

    def __init__(self, nodes: list[tree_sitter.Node]) -> None:
        self._starts = [node.start_byte for node in nodes]
        self._nodes = nodes

    def holds(self, node: tree_sitter.Node) -> bool:
        """Return whether one of the nodes covers ``node``."""
        place = bisect_right(self._starts, node.start_byte) - 1
        return place >= 0 and holds(self._nodes[place], node)


def _apart(found: Captured) -> list[tree_sitter.Node]:
    return [*found.get("function", []), *found.get("apart", [])]


def facet(language: TreeSitterLanguage) -> MetricsOf:
    """Return the facet ``metrics`` of a language whose folder has the query; of others, their ``tokens``."""
    return MetricsOf(language)


@runtime_checkable
class ExecutionPaths(Protocol):
    """The facet ``npath`` of a language."""

    def count(self, text: str) -> int:
        """Count the acyclic execution paths through a function."""
        ...


class OperatorPaths:
    """Operators, weighted by the number of paths that each adds to its enclosing expression.

    Args:
        signs: Expressions of a logical operator, one path each.
        ternaries: Conditional expressions, two paths each.
    """

    def __init__(self, signs: list[tree_sitter.Node], ternaries: list[tree_sitter.Node]) -> None:
        self._listed = sorted(
            [(node.start_byte, node.end_byte, 1) for node in signs]
            + [(node.start_byte, node.end_byte, 2) for node in ternaries]
        )

    def between(self, start: int, end: int) -> int:
        """Sum the weights of the operators between two bytes."""
        first = bisect_left(self._listed, (start,))
        last = bisect_left(self._listed, (end,))
        return sum(weight for _, stop, weight in self._listed[first:last] if stop <= end)


@dataclass(slots=True, eq=False)
class Branching:
    """A statement or expression that branches.

    Attributes:
        node: Its node.
        parts: The regions directly inside, in text order.
        parent: The enclosing region.
        value: The factor by which the paths of the preceding row are multiplied.
        addend: A term added to the preceding row first (0 in Nejmeh's rule).
    """

    node: tree_sitter.Node
    parts: list[Branching] = field(default_factory=list)
    around: Branching | None = None
    value: int = 0
    after: int = 0

    def within(self, *places: tree_sitter.Node | None) -> list[Branching]:
        """Return the direct parts that lie in any of the nodes, in text order."""
        return [
            part
            for part in self.parts
            if any(
                place is not None
                and place.start_byte <= part.node.start_byte
                and part.node.end_byte <= place.end_byte
                for place in places
            )
        ]

    def above(self) -> Iterator[Branching]:
        """Yield the enclosing regions, innermost first."""
        region = self.around
        while region is not None:
            yield region
            region = region.around


def paths(nodes: list[tree_sitter.Node], rule: Callable[[Branching], None]) -> int:
    """Count the paths through a sequence of statements.

    Args:
        nodes: All branching nodes.
        rule: Sets ``value`` (and ``addend``) of a region whose parts are done.
    """
    regions: list[Branching] = []
    top: list[Branching] = []
    for node, above in nested(nodes):
        region = Branching(node, around=regions[above] if above >= 0 else None)
        (top if above < 0 else regions[above].parts).append(region)
        regions.append(region)
    # Inner regions follow outer ones, so deep nesting cannot overflow the interpreter's stack.
    for region in reversed(regions):
        rule(region)
    return max(row(top), 1)


def row(parts: list[Branching], start: int = 0) -> int:
    """Return the value of statements in sequence, starting from ``start``; 0 if none counts."""
    value = start
    for part in parts:
        if part.value:
            value = part.value * (value + part.after if part.after else max(value, 1))
    return value


def branch(region: Branching, place: tree_sitter.Node | None) -> int:
    """Count the paths through one part of a region, at least one."""
    return max(row(region.within(place)), 1)


def ancestors(node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """Yield the ancestors of a node, innermost first."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent
