"""NPath of a Java method after Nejmeh; cases that he does not define follow checkstyle's NPathComplexity.

- if: then + else (or 1) + operators of the condition; a loop: body + 1 + operators; a switch: its cases + 1 +
  operators, a case its body - 1 + its labels. Operators are ``&&`` and ``||``, one each, and ``?:``, two.
- ``?:`` outside of conditions: 2 + the operators in it; ``return``: the operators in it, or 1.
- try is not in Nejmeh. checkstyle's rule holds: (body + 1 + each catch + 1), times finally, times one more
  than the paths before it, where a row without any branching counts 0.
- Methods of classes inside the method are counted separately. checkstyle also forgets the statements before
  such a class, and does not see ``?:`` and ``return`` in the body of a do loop; here both count.
"""

from __future__ import annotations

import tree_sitter

from sonde.languages.engine.components import facet_of
from sonde.languages.engine.metrics import Branching, MetricsOf, OperatorPaths, branch, paths, row
from sonde.languages.engine.treesitter import TreeSitterLanguage

_LOOPS = frozenset({"for_statement", "enhanced_for_statement", "while_statement", "do_statement"})
GROUPS = frozenset({"switch_block_statement_group", "switch_rule"})
_UNARY = frozenset({"ternary_expression", "return_statement"})


class JavaPaths:
    """The facet ``npath`` of Java.

    Args:
        language: Java.
    """

    def __init__(self, language: TreeSitterLanguage) -> None:
        self._metrics = facet_of(language.name, "metrics", MetricsOf)

    def count(self, text: str) -> int:
        """Count the acyclic execution paths."""
        found = self._metrics.captured(text)
        own = self._metrics.own(text, found.get("path", []))
        ternaries = [node for node in own if node.type == "ternary_expression"]
        return paths(own, PathRule(found.get("boolean", []), ternaries).rule)


class PathRule:
    """checkstyle's NPath of one method.

    Args:
        signs: Expressions of ``&&`` or ``||``.
        ternaries: Conditional expressions.
    """

    def __init__(self, signs: list[tree_sitter.Node], ternaries: list[tree_sitter.Node]) -> None:
        self._weights = OperatorPaths(signs, ternaries)

    def rule(self, region: Branching) -> None:
        """Set the value of one region."""
        node, kind = region.node, region.node.type
        start, end = node.start_byte, node.end_byte
        if kind in _UNARY:
            hidden = any(above.node.type in _UNARY or in_header(above.node, node) for above in region.above())
            own = max(self._weights.between(start, end), 1)
            region.value = 0 if hidden else row(region.parts) + own
        elif kind == "if_statement":
            other = node.child_by_field_name("alternative")
            split = end if other is None else other.start_byte
            then = [part for part in region.parts if part.node.start_byte < split]
            region.value = max(row(then), 1) + branch(region, other) + self._header(node)
        elif kind in _LOOPS:
            region.value = max(row(region.parts), 1) + 1 + self._header(node)
        elif kind == "switch_expression":
            region.value = max(sum(part.value for part in region.parts if part.node.type in GROUPS), 1) + 1
            region.value += self._header(node)
        elif kind in GROUPS:
            labels, default = labels_of(node)
            # A group's value is added by its switch, never multiplied.
            region.value = max(row(region.parts, int(default)), 1) - 1 + labels
        elif kind == "catch_clause":
            region.value = row(region.parts) + 1
        else:
            self._try(region)

    def _header(self, node: tree_sitter.Node) -> int:
        """Count the operators in the header of a statement, by weight."""
        start, end = _header_of(node)
        return self._weights.between(start, end)

    def _try(self, region: Branching) -> None:
        closing = [child for child in region.node.named_children if child.type == "finally_clause"]
        catches = [part for part in region.parts if part.node.type == "catch_clause"]
        last = region.within(*closing)
        body = [part for part in region.parts if part not in catches and part not in last]
        value = row(body) + sum(part.value for part in catches)
        region.value, region.after = row(last, value) + 1, 1


def _header_of(node: tree_sitter.Node) -> tuple[int, int]:
    """Return the byte span of a statement's header: its condition, or the code before its body."""
    condition = node.child_by_field_name("condition")
    body = node.child_by_field_name("body")
    if condition is not None and node.type != "for_statement":
        return condition.start_byte, condition.end_byte
    return node.start_byte, node.end_byte if body is None else body.start_byte


def in_header(statement: tree_sitter.Node, node: tree_sitter.Node) -> bool:
    """Return whether a node lies in the header of a statement."""
    if statement.type not in _LOOPS and statement.type not in ("if_statement", "switch_expression"):
        return False
    start, end = _header_of(statement)
    return start <= node.start_byte and node.end_byte <= end


def labels_of(group: tree_sitter.Node) -> tuple[int, bool]:
    """Count the labels of a switch group, and return whether it is the default.

    ``case 1, 2:`` is one label before a colon and two before an arrow (checkstyle).
    """
    count, default = 0, False
    for label in group.named_children:
        if label.type == "switch_label":
            named = [child for child in label.named_children if child.type != "guard"]
            default = default or not named
            count += len(named) if group.type == "switch_rule" else bool(named)
    return count, default


def facet(language: TreeSitterLanguage) -> JavaPaths:
    """Return the facet ``npath``."""
    return JavaPaths(language)
