"""Metrics of one function: counts that every language shares, recursive calls, and NPath.

A language's `metrics.scm` captures the nodes to count and its `metrics.toml` names the leaves. Captures:

- ``function``: a definition; one inside another is counted separately, as a function of its own;
- ``apart``: other code that is excluded with inner definitions (a class inside a function);
- ``body``: the code in which decisions are counted, see `Metrics.complexity`;
- ``decision``: a branching of the control flow, one each; ``decision.whole`` absorbs those inside it, and
  ``default``, the default cases of a switch, together count one less;
- ``structure.if``, ``.loop``, ``.switch``, ``.try``: code structures;
- ``block``: code one level deeper than its surroundings; ``block.else`` likewise, unless it is an if itself;
- ``ternary``, ``return``, ``boolean``: for NPath, see a language's `npath.py`, with one capture per
  statement.

Captures for recursive calls, see `count_recursion`:

- ``called``: a called name, bare or through the object itself, which makes no difference (Java, Ruby);
- ``called.bare``: a bare one, where this does not call methods (Python, Go, JavaScript, PHP);
- ``called.own``: one that is called through the object itself (``self.f()``);
- ``called.receiver``: one that is called through a variable, which must be the method's ``receiver``;
- ``called.unbound``: a name that is a call if it refers to no variable;
- ``method``: a function in a class, where no bare call reaches it;
- ``function.bare``, ``function.member``: names of a function that may stand outside it, by the kind of call
  that reaches them. Without these captures a function has the name of its ``name`` field.

NPath is the number of acyclic execution paths (Nejmeh 1988), computed bottom-up over the branching
statements. The values of statements in sequence multiply; the language determines the value of a single
statement. A value of 0 means "nothing yet", so that a language can tell an empty sequence from one with a
single path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar, NamedTuple

import tree_sitter

from sonde.languages.engine.language import get_facet
from sonde.languages.engine.text import TextCache
from sonde.languages.engine.tokens import Leaf, ParsedText, classify_word, nest_nodes
from sonde.languages.engine.treesitter import TreeSitterLanguage

_NON_VARIABLE_KINDS = ("method", "again", "deleted")
"""Kinds of definitions that bind no variable that a bare call could refer to."""


_CALL_CAPTURES = ("called", "called.bare", "called.own", "called.receiver", "called.unbound")


class _CallNames(NamedTuple):
    """Names of one function: those of bare calls, and those of calls through the object."""

    bare_names: frozenset[str]
    member: frozenset[str]


def count_recursion(
    language: TreeSitterLanguage,
    text: str,
    captures: CapturedNodes,
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
    parsed_text = language.reading(text)
    method = method and len(functions) == 1
    names = [_read_names(parsed_text, captures, function, functions, method=method) for function in functions]
    starts = [function.start_byte for function in functions]
    inner = [
        node
        for node in captures.get("function", [])
        if node.id not in {function.id for function in functions}
    ]
    count = 0
    for capture, callee in ((name, node) for name in _CALL_CAPTURES for node in captures.get(name, [])):
        index = bisect_right(starts, callee.start_byte) - 1
        if index < 0 or callee.end_byte > functions[index].end_byte:
            continue
        name, function_names = parsed_text.text(callee), names[index]
        if ignore_case:
            name, function_names = (
                name.lower(),
                _CallNames(*(frozenset(map(str.lower, group)) for group in function_names)),
            )
        if capture == "called.bare":
            matches = name in function_names.bare_names and not _is_local_name(
                language, text, functions[index], callee
            )
        elif capture == "called.unbound":
            matches = name in function_names.member and callee.start_byte in language.unbound(text)
        elif capture == "called.receiver":
            matches = name in function_names.member and _receives(
                parsed_text, captures, functions[index], callee
            )
        else:
            matches = name in (
                function_names.bare_names | function_names.member
                if capture == "called"
                else function_names.member
            )
        count += matches and not _has_namesake(parsed_text, inner, callee, name)
    return count


def _read_names(
    parsed_text: ParsedText,
    captures: CapturedNodes,
    function: tree_sitter.Node,
    functions: Sequence[tree_sitter.Node],
    *,
    method: bool,
) -> _CallNames:
    """Return the names of one of the outermost functions."""
    if "function.bare" not in captures and "function.member" not in captures:
        node = function.child_by_field_name("name")
        names = frozenset[str]() if node is None else frozenset({parsed_text.text(node)})
        method = method or any(node.id == function.id for node in captures.get("method", []))
        return _CallNames(frozenset() if method else names, names)
    ends = [outer.end_byte for outer in functions]
    body = function.child_by_field_name("body")
    limit = function.end_byte if body is None else body.start_byte
    bare_names, member_names = set[str](), set[str]()
    for capture, target in (("function.bare", bare_names), ("function.member", member_names)):
        for node in captures.get(capture, []):
            # A name lies in the header of its function or before it.
            index = bisect_right(ends, node.start_byte)
            if index == len(functions) or functions[index].id != function.id or node.start_byte >= limit:
                continue
            # A function assigned to a field is no variable, although it looks like one outside of its class.
            (member_names if method and node.start_byte < function.start_byte else target).add(
                parsed_text.text(node)
            )
    return _CallNames(frozenset(bare_names), frozenset(member_names))


def _is_local_name(
    language: TreeSitterLanguage, text: str, function: tree_sitter.Node, callee: tree_sitter.Node
) -> bool:
    """Return whether a name refers to a parameter, a variable or a function inside a function."""
    bindings, parsed_text = language.locals(text), language.reading(text)
    scopes, name, name_node = (
        bindings.evaluation_scopes,
        parsed_text.text(callee),
        function.child_by_field_name("name"),
    )
    visible_scopes = {
        scope.number for scope in scopes.visible_scopes(scopes.find_scope(callee.start_byte), name)
    }
    limit = callee.start_byte if language.settings.declared_first else function.end_byte
    return any(
        kind not in _NON_VARIABLE_KINDS
        and function.start_byte <= node.start_byte <= limit
        and node != name_node
        and parsed_text.text(node) == name
        and scopes.find_scope(node.start_byte).number in visible_scopes
        for node, kind in bindings.definitions
    )


def _receives(
    parsed_text: ParsedText, captures: CapturedNodes, function: tree_sitter.Node, callee: tree_sitter.Node
) -> bool:
    """Return whether a name is called through the receiver of its method."""
    receiver = callee.parent.named_children[0] if callee.parent else None
    return receiver is not None and any(
        parsed_text.text(node) == parsed_text.text(receiver)
        for node in captures.get("receiver", [])
        if function.start_byte <= node.start_byte < function.end_byte
    )


def _has_namesake(
    parsed_text: ParsedText, inner: Sequence[tree_sitter.Node], callee: tree_sitter.Node, name: str
) -> bool:
    """Return whether a call lies in a class inside the function that has a method of that name itself."""
    for function in inner:
        node, outer = function.child_by_field_name("name"), function.parent
        if node is None or outer is None or parsed_text.text(node) != name:
            continue
        if outer.start_byte <= callee.start_byte and callee.end_byte <= outer.end_byte:
            return True
    return False


CapturedNodes = Mapping[str, list[tree_sitter.Node]]


PATTERNS: tuple[str, ...] = ("nested_loop", "if_in_loop", "early_return", "recursion")


class Metrics:
    """The facet ``metrics`` of a language: measures of the text of one function, by its query and table.

    A language without the query has the facet ``tokens``, which is the same without what is captured.

    Args:
        language: The language.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self.language = language
        table = language.table("metrics")
        self._operators: Mapping[str, Mapping[str, str]] = table.get("operators", {})
        """For a parent kind, its leaves as operators: a sign, or empty for none.

        Other leaves are operators if the language's tokens say so.
        """
        self._names_ignore_case: bool = table.get("names_ignore_case", False)
        self.reading = language.reading
        self.leaves = language.leaves
        self.captured = TextCache(self._capture)

    def complexity(self, text: str) -> int:
        """Return the cyclomatic complexity: decisions plus one, without those of inner definitions."""
        return 1 + self.count_decisions(text)

    def count_decisions(self, text: str, *, everywhere: bool = False) -> int:
        """Count the branchings of the control flow; with ``everywhere`` also those of inner definitions."""
        captures = self.captured(text)
        nodes, whole_nodes = captures.get("decision", []), captures.get("decision.whole", [])
        if whole_nodes:
            cover, whole_ids = NodeCover(select_outermost(whole_nodes)), {node.id for node in whole_nodes}
            nodes = [node for node in nodes if node.id in whole_ids or not cover.holds(node)]
        nodes = nodes if everywhere else self.select_counted_nodes(text, nodes)
        default_ids = {node.id for node in captures.get("default", [])}
        choice_ids = {node.parent.id for node in nodes if node.id in default_ids and node.parent}
        return len(nodes) - len(choice_ids)

    def select_counted_nodes(self, text: str, nodes: list[tree_sitter.Node]) -> list[tree_sitter.Node]:
        """Select the nodes in the bodies of the outermost functions, outside of inner definitions."""
        captures = self.captured(text)
        functions = select_outermost(captures.get("function", []))
        bodies = [
            body
            for body in (function.child_by_field_name("body") for function in functions)
            if body is not None
        ]
        if not functions:
            return nodes
        body_cover = NodeCover(bodies)
        separate_cover = NodeCover(
            select_outermost(
                [
                    node
                    for name in ("function", "apart")
                    for node in captures.get(name, [])
                    if body_cover.holds(node)
                ]
            )
        )
        return [node for node in nodes if body_cover.holds(node) and not separate_cover.holds(node)]

    def nesting_depth(self, text: str) -> int:
        """Return the maximum nesting depth of blocks; the function's body is 1."""
        depths: list[int] = []
        for _, parent_index in nest_nodes(self.blocks(text)):
            depths.append(1 if parent_index < 0 else depths[parent_index] + 1)
        return max(depths, default=0)

    def depths(self, text: str) -> tuple[tuple[Leaf, int], ...]:
        """Return each of `leaves` with the number of enclosing blocks; the function's body is 1."""
        changes = [0] * (len(text) + 1)
        for node in self.blocks(text):
            start, end = self.reading(text).span(node)
            changes[start] += 1
            changes[end] -= 1
        depths = list(accumulate(changes))
        return tuple((leaf, depths[leaf.start]) for leaf in self.leaves(text))

    def blocks(self, text: str) -> list[tree_sitter.Node]:
        """Return the nodes one level deeper than their surroundings; ``else if`` adds no level."""
        captures = self.captured(text)
        ifs = {node.id for node in captures.get("structure.if", [])}
        return captures.get("block", []) + [
            node for node in captures.get("block.else", []) if node.id not in ifs
        ]

    def count_structures(self, text: str) -> Mapping[str, int]:
        """Count code structures by kind, everything in the text included."""
        captures = self.captured(text)
        return {kind: len(captures.get(f"structure.{kind}", [])) for kind in ("if", "loop", "switch", "try")}

    def operators(self, text: str) -> tuple[str, ...]:
        """Return every operator in text order, by its sign."""
        return tuple(sign for sign in map(self.operator, self.leaves(text)) if sign)

    def operator(self, leaf: Leaf) -> str:
        """Return the sign of a leaf as an operator; empty if it is none."""
        override = self._operators.get(leaf.parent, {}).get(leaf.kind)
        if override is not None:
            return override
        tokens = self.language.settings.tokens
        kind = tokens.parent_overrides.get(leaf.parent, {}).get(leaf.kind, "operator")
        return leaf.kind if leaf.kind in tokens.operators and kind == "operator" else ""

    def identifiers(self, text: str) -> tuple[str, ...]:
        """Return every identifier in text order, names of types and methods included."""
        rules = self.language.settings.tokens
        return tuple(
            leaf.text
            for leaf in self.leaves(text)
            if leaf.kind in rules.identifiers and not classify_word(leaf, rules)
        )

    def keywords(self, text: str) -> int:
        """Count reserved words."""
        rules = self.language.settings.tokens
        return sum(
            leaf.kind in rules.keywords or classify_word(leaf, rules) == "keyword"
            for leaf in self.leaves(text)
        )

    def depth(self, text: str) -> int:
        """Return the depth in named nodes of the only outermost function, or else of the full tree."""
        functions = select_outermost(self.captured(text).get("function", []))
        return measure_depth(functions[0] if len(functions) == 1 else self.reading(text).root)

    def patterns(self, text: str, *, method: bool = False) -> Mapping[str, int]:
        """Count each of `PATTERNS`: nested loops, ifs in a loop, returns before the end, recursive calls.

        Args:
            text: The text.
            method: Whether a text that is one function was extracted from a class.
        """
        captures = self.captured(text)
        loops, ifs = captures.get("structure.loop", []), captures.get("structure.if", [])
        functions = select_outermost(captures.get("function", []))
        returns = self.select_counted_nodes(text, captures.get("return", []))
        ends = {
            body.end_byte: body
            for body in (function.child_by_field_name("body") for function in functions)
            if body
        }
        last = {child.id for body in ends.values() if (child := find_last_statement(body)) is not None}
        return {
            "nested_loop": sum(any(strictly_covers(outer, loop) for outer in loops) for loop in loops),
            "if_in_loop": sum(
                any(strictly_covers(loop, conditional) for loop in loops) for conditional in ifs
            ),
            "early_return": sum(node.id not in last for node in returns),
            "recursion": count_recursion(
                self.language,
                text,
                captures,
                functions,
                method=method,
                ignore_case=self._names_ignore_case,
            ),
        }

    def _capture(self, text: str) -> CapturedNodes:
        parsed_text = self.reading(text)
        captures = self.language.grammar.captures("metrics", parsed_text.root)
        return {name: [node for node in nodes if parsed_text.contains(node)] for name, nodes in captures}


def select_outermost(nodes: list[tree_sitter.Node]) -> list[tree_sitter.Node]:
    """Return the nodes that lie in no other of them, in text order."""
    return [node for node, parent_index in nest_nodes(nodes) if parent_index < 0]


def covers(outer: tree_sitter.Node, node: tree_sitter.Node) -> bool:
    """Return whether ``outer`` covers ``node``, or is the same."""
    return outer.start_byte <= node.start_byte and node.end_byte <= outer.end_byte


def strictly_covers(outer: tree_sitter.Node, node: tree_sitter.Node) -> bool:
    """Return whether ``node`` lies strictly inside ``outer``."""
    return covers(outer, node) and outer.id != node.id


def measure_depth(root: tree_sitter.Node) -> int:
    """Return the depth of a tree in named nodes, the root included."""
    cursor = root.walk()
    depth, maximum = 1, 1
    while True:
        if cursor.goto_first_child():
            depth += cursor.node is not None and cursor.node.is_named
            maximum = max(maximum, depth)
            continue
        while True:
            named_count = cursor.node is not None and cursor.node.is_named
            if cursor.goto_next_sibling():
                depth += (cursor.node is not None and cursor.node.is_named) - named_count
                maximum = max(maximum, depth)
                break
            depth -= named_count
            if not cursor.goto_parent():
                return maximum


def find_last_statement(body: tree_sitter.Node) -> tree_sitter.Node | None:
    """Return the last direct statement of a body, skipping heredoc texts, which follow their statement."""
    ignored_suffixes = ("comment", "heredoc_body")
    statements = [child for child in body.named_children if not child.type.endswith(ignored_suffixes)]
    if len(statements) == 1 and statements[0].type == "statement_list":
        return find_last_statement(statements[0])
    return statements[-1] if statements else None


class NodeCover:
    """Disjoint nodes in text order, indexed to test whether one of them covers another node.

    Args:
        nodes: The nodes.
    """

    def __init__(self, nodes: list[tree_sitter.Node]) -> None:
        self._starts = [node.start_byte for node in nodes]
        self._nodes = nodes

    def holds(self, node: tree_sitter.Node) -> bool:
        """Return whether one of the nodes covers ``node``."""
        index = bisect_right(self._starts, node.start_byte) - 1
        return index >= 0 and covers(self._nodes[index], node)


class OperatorWeights:
    """Operators, weighted by the number of paths that each adds to its enclosing expression.

    Args:
        signs: Expressions of a logical operator, one path each.
        ternaries: Conditional expressions, two paths each.
    """

    def __init__(self, signs: list[tree_sitter.Node], ternaries: list[tree_sitter.Node]) -> None:
        self._weighted_spans = sorted(
            [(node.start_byte, node.end_byte, 1) for node in signs]
            + [(node.start_byte, node.end_byte, 2) for node in ternaries]
        )

    def sum_weights(self, start: int, end: int) -> int:
        """Sum the weights of the operators between two bytes."""
        first = bisect_left(self._weighted_spans, (start,))
        last = bisect_left(self._weighted_spans, (end,))
        return sum(weight for _, stop, weight in self._weighted_spans[first:last] if stop <= end)


@dataclass(slots=True, eq=False)
class BranchRegion:
    """A statement or expression that branches.

    Attributes:
        node: Its node.
        parts: The regions directly inside, in text order.
        parent: The enclosing region.
        value: The factor by which the paths of the preceding row are multiplied.
        addend: A term added to the preceding row first (0 in Nejmeh's rule).
    """

    node: tree_sitter.Node
    parts: list[BranchRegion] = field(default_factory=list)
    parent: BranchRegion | None = None
    value: int = 0
    addend: int = 0

    def select_parts(self, *nodes: tree_sitter.Node | None) -> list[BranchRegion]:
        """Return the direct parts that lie in any of the nodes, in text order."""
        return [
            part
            for part in self.parts
            if any(outer is not None and covers(outer, part.node) for outer in nodes)
        ]

    def ancestors(self) -> Iterator[BranchRegion]:
        """Yield the enclosing regions, innermost first."""
        region = self.parent
        while region is not None:
            yield region
            region = region.parent


def count_paths(nodes: list[tree_sitter.Node], rule: PathRule) -> int:
    """Count the paths through a sequence of statements.

    Args:
        nodes: All branching nodes.
        rule: The language's rule.
    """
    regions: list[BranchRegion] = []
    top: list[BranchRegion] = []
    for node, parent_index in nest_nodes(nodes):
        region = BranchRegion(node, parent=regions[parent_index] if parent_index >= 0 else None)
        (top if parent_index < 0 else regions[parent_index].parts).append(region)
        regions.append(region)
    # Inner regions follow outer ones, so deep nesting cannot overflow the interpreter's stack.
    for region in reversed(regions):
        rule(region)
    return max(count_row_paths(top), 1)


def count_row_paths(parts: list[BranchRegion], start: int = 0) -> int:
    """Return the value of statements in sequence, starting from ``start``; 0 if none counts."""
    value = start
    for part in parts:
        if part.value:
            value = part.value * (value + part.addend if part.addend else max(value, 1))
    return value


def count_branch_paths(region: BranchRegion, node: tree_sitter.Node | None) -> int:
    """Count the paths through one part of a region, at least one."""
    return max(count_row_paths(region.select_parts(node)), 1)


PathRule = Callable[[BranchRegion], None]
"""Sets ``value`` (and ``addend``) of a region whose parts are done."""


class ExecutionPaths(ABC):
    """The facet ``npath`` of a language, whose folder has the query of its metrics.

    Args:
        language: The language.

    Attributes:
        ternary: Kind of conditional expressions.
    """

    ternary: ClassVar[str]

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._metrics = get_facet(language.name, "metrics", Metrics)

    def count(self, text: str) -> int:
        """Count the acyclic execution paths through a function."""
        captures = self._metrics.captured(text)
        branches = self._metrics.select_counted_nodes(text, captures.get("path", []))
        ternaries = [node for node in branches if node.type == self.ternary]
        weights = OperatorWeights(captures.get("boolean", []), ternaries)
        return count_paths(branches, lambda region: self.set_value(region, weights, captures))

    @abstractmethod
    def set_value(self, region: BranchRegion, weights: OperatorWeights, captures: CapturedNodes) -> None:
        """Set the value of one region, by the language's rule.

        Args:
            region: The region, whose parts are done.
            weights: The operators of the function.
            captures: The captures of its ``metrics.scm``.
        """


facet = Metrics
