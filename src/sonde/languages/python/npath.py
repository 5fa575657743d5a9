"""NPath of a Python function after Nejmeh, by analogy for Python's own constructs.

- if: the sum over its branches, each with the operators of its condition, + 1 without an else;
  a loop: body + 1 (or its else) + operators of its condition; a match: its cases with the operators
  of their guards, + 1 if none matches everything. Operators are ``and`` and ``or``, one each, and
  the conditional expression, two.
- A conditional expression elsewhere: 2 + the operators in it; ``return``: the operators in it, or 1.
- try: (body, times its else, + each except) times finally. ``with`` is its body.
- Inner functions and classes are counted separately; comprehensions are expressions and have one path.
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
    covers,
)

_EXPRESSIONS = frozenset({"conditional_expression", "return_statement"})
_LOOPS = frozenset({"for_statement", "while_statement"})


class PythonPaths(ExecutionPaths):
    """The facet ``npath`` of Python."""

    ternary = "conditional_expression"

    def set_value(self, region: BranchRegion, weights: OperatorWeights, captures: CapturedNodes) -> None:
        """Set the value of one region."""

        def count_operators(operand: tree_sitter.Node | None) -> int:
            return 0 if operand is None else weights.sum_weights(*operand.byte_range)

        node, kind = region.node, region.node.type
        field = node.child_by_field_name
        if kind in _EXPRESSIONS:
            region.value = 0 if _counts_with_parent(region) else max(count_operators(node), 1)
        elif kind in ("if_statement", "elif_clause"):
            alternatives = node.children_by_field_name("alternative")
            region.value = count_branch_paths(region, field("consequence")) + count_operators(
                field("condition")
            )
            if kind == "if_statement":
                region.value += sum(
                    part.value
                    for part in region.parts
                    if part.node.type == "elif_clause" and part.node in alternatives
                )
                last = [clause for clause in alternatives if clause.type == "else_clause"]
                region.value += count_branch_paths(region, last[0]) if last else 1
        elif kind in _LOOPS:
            condition = field("condition") if kind == "while_statement" else field("right")
            region.value = count_branch_paths(region, field("body")) + count_branch_paths(
                region, field("alternative")
            )
            region.value += count_operators(condition)
        elif kind == "match_statement":
            cases = [part for part in region.parts if part.node.type == "case_clause"]
            is_exhaustive = any(part.node in captures.get("default", []) for part in cases)
            region.value = (
                sum(part.value for part in cases) + (not is_exhaustive) + count_operators(field("subject"))
            )
        elif kind == "case_clause":
            region.value = count_branch_paths(region, field("consequence")) + count_operators(field("guard"))
        elif kind == "except_clause":
            region.value = max(count_row_paths(region.parts), 1)
        else:
            kinds = {child.type: child for child in node.named_children}
            body = count_row_paths(region.select_parts(field("body"), kinds.get("else_clause")))
            handlers = sum(part.value for part in region.parts if part.node.type == "except_clause")
            region.value = (max(body, 1) + handlers) * count_branch_paths(region, kinds.get("finally_clause"))


def _counts_with_parent(region: BranchRegion) -> bool:
    """Return whether an expression counts with its parent, an expression or a statement's header."""
    for outer in region.ancestors():
        kind = outer.node.type
        if kind in _EXPRESSIONS:
            return True
        fields = ("condition", "guard", "subject") if kind not in _LOOPS else ("condition", "right")
        if any(
            node is not None and covers(node, region.node)
            for node in map(outer.node.child_by_field_name, fields)
        ):
            return True
    return False


facet = PythonPaths
