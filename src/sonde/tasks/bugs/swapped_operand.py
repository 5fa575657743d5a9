"""CuBERT's swapped operand: are the operands of one operator swapped that must not be?"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.languages.engine.bug_sites import BugSites, Operation
from sonde.tasks.engine.bugs import CORRECT, BugExample, BugTask, Edit, RandomChoice

SWAPPED = "Swapped operands"


class SwappedOperand(BugTask):
    """A function as written, or with the two operands of one operator in the place of each other.

    The whole expression stands on one line, and its operands differ. In `a - b - c`, `c - a - b` would not
    swap the operands of the second operator: what is read again has to have them swapped.
    """

    name = "swapped_operand"
    labels = (CORRECT, SWAPPED)

    def variants(self, text: str, bugs: BugSites, choice: RandomChoice) -> tuple[BugExample, ...]:
        """Swap the operands of one operator; see `BugTask.variants`."""
        eligible = [one for one in bugs.operations(text) if _eligible(one, text, bugs)]
        for operation in choice.first(eligible, about="operation"):
            changed = _edit(text, operation).made_in(text)
            if bugs.parses(changed) and _stands(bugs, changed, operation):
                edit = f"swapped operands of `{operation.operator.surface}`"
                return BugExample(CORRECT, text), BugExample(SWAPPED, changed, edit)
        return ()

    def repair_edits(self, text: str, bugs: BugSites) -> Iterator[Edit]:
        """Yield the swaps of the operands of any operator whose operands must not be swapped."""
        for operation in bugs.operations(text):
            if _eligible(operation, text, bugs):
                edit = _edit(text, operation)
                changed = edit.made_in(text)
                if bugs.parses(changed) and _stands(bugs, changed, operation):
                    yield edit


def _eligible(operation: Operation, text: str, bugs: BugSites) -> bool:
    return (
        operation.operator.surface in bugs.swappable
        and not operation.chained
        and "\n" not in text[operation.start : operation.end]
        and operation.left.surface != operation.right.surface
    )


def _edit(text: str, operation: Operation) -> Edit:
    """Swap the operands, with spaces around a word operator."""
    operator, left, right = operation.operator, operation.left, operation.right
    before, behind = text[left.end : operator.start], text[operator.end : right.start]
    if operator.surface[0].isalpha():
        before, behind = before or " ", behind or " "
    middle = before + text[operator.start : operator.end] + behind
    return Edit(left.start, right.end, right.surface + middle + left.surface)


def _stands(bugs: BugSites, changed: str, operation: Operation) -> bool:
    return any(
        other.start == operation.start
        and other.operator.surface == operation.operator.surface
        and other.left.surface == operation.right.surface
        and other.right.surface == operation.left.surface
        for other in bugs.operations(changed)
    )


task = SwappedOperand()
