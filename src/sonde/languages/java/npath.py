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

from sonde.languages.engine.metrics import (
    BranchRegion,
    CapturedNodes,
    ExecutionPaths,
    OperatorWeights,
    count_branch_paths,
    count_row_paths,
)

_LOOPS = frozenset({"for_statement", "enhanced_for_statement", "while_statement", "do_statement"})
SWITCH_GROUPS = frozenset({"switch_block_statement_group", "switch_rule"})
_UNARY = frozenset({"ternary_expression", "return_statement"})


class JavaPaths(ExecutionPaths):
    """The facet ``npath`` of Java: checkstyle's NPath of a method."""

    ternary = "ternary_expression"

    def set_value(self, region: BranchRegion, weights: OperatorWeights, captures: CapturedNodes) -> None:
        """Set the value of one region."""
        node, kind = region.node, region.node.type
        start, end = node.start_byte, node.end_byte
        if kind in _UNARY:
            is_hidden = any(
                outer.node.type in _UNARY or is_in_header(outer.node, node) for outer in region.ancestors()
            )
            weight = max(weights.sum_weights(start, end), 1)
            region.value = 0 if is_hidden else count_row_paths(region.parts) + weight
        elif kind == "if_statement":
            alternative = node.child_by_field_name("alternative")
            then_end = end if alternative is None else alternative.start_byte
            then_parts = [part for part in region.parts if part.node.start_byte < then_end]
            region.value = (
                max(count_row_paths(then_parts), 1)
                + count_branch_paths(region, alternative)
                + weights.sum_weights(*_find_header(node))
            )
        elif kind in _LOOPS:
            region.value = (
                max(count_row_paths(region.parts), 1) + 1 + weights.sum_weights(*_find_header(node))
            )
        elif kind == "switch_expression":
            region.value = (
                max(sum(part.value for part in region.parts if part.node.type in SWITCH_GROUPS), 1) + 1
            )
            region.value += weights.sum_weights(*_find_header(node))
        elif kind in SWITCH_GROUPS:
            labels, default = count_labels(node)
            # A group's value is added by its switch, never multiplied.
            region.value = max(count_row_paths(region.parts, int(default)), 1) - 1 + labels
        elif kind == "catch_clause":
            region.value = count_row_paths(region.parts) + 1
        else:
            _set_try_value(region)


def _set_try_value(region: BranchRegion) -> None:
    finally_clauses = [child for child in region.node.named_children if child.type == "finally_clause"]
    catches = [part for part in region.parts if part.node.type == "catch_clause"]
    last = region.select_parts(*finally_clauses)
    body = [part for part in region.parts if part not in catches and part not in last]
    value = count_row_paths(body) + sum(part.value for part in catches)
    region.value, region.addend = count_row_paths(last, value) + 1, 1


def _find_header(node: tree_sitter.Node) -> tuple[int, int]:
    """Return the byte span of a statement's header: its condition, or the code before its body."""
    condition = node.child_by_field_name("condition")
    body = node.child_by_field_name("body")
    if condition is not None and node.type != "for_statement":
        return condition.start_byte, condition.end_byte
    return node.start_byte, node.end_byte if body is None else body.start_byte


def is_in_header(statement: tree_sitter.Node, node: tree_sitter.Node) -> bool:
    """Return whether a node lies in the header of a statement."""
    if statement.type not in _LOOPS and statement.type not in ("if_statement", "switch_expression"):
        return False
    start, end = _find_header(statement)
    return start <= node.start_byte and node.end_byte <= end


def count_labels(group: tree_sitter.Node) -> tuple[int, bool]:
    """Count the labels of a switch group, and return whether it is the default.

    ``case 1, 2:`` is one label before a colon and two before an arrow (checkstyle).
    """
    count, default = 0, False
    for label in group.named_children:
        if label.type == "switch_label":
            values = [child for child in label.named_children if child.type != "guard"]
            default = default or not values
            count += len(values) if group.type == "switch_rule" else bool(values)
    return count, default


facet = JavaPaths
