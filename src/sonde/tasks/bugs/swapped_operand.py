"""CuBERT's swapped operand: are the operands of one non-commutative operator swapped?"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.languages.engine.bug_sites import BugSites, Operation
from sonde.tasks.engine.bugs import CORRECT, BugExample, BugTask, Edit, RandomChoice

SYNONYMS = ("argument swap", "swapped operands")

SWAPPED_OPERANDS = "Swapped operands"


class SwappedOperand(BugTask):
    """A function as written, or with the two operands of one operator swapped.

    The whole expression stands on one line, and its operands differ. In `a - b - c`, `c - a - b` would not
    swap the operands of the second operator: what is read again has to have them swapped.
    """

    name = "swapped_operand"
    labels = (CORRECT, SWAPPED_OPERANDS)

    def variants(self, text: str, bugs: BugSites, choice: RandomChoice) -> tuple[BugExample, ...]:
        """Swap the operands of one operator; see `BugTask.variants`."""
        eligible = [operation for operation in bugs.operations(text) if _eligible(operation, text, bugs)]
        for operation in choice.first(eligible, subject="operation"):
            if swap := _swap(text, operation, bugs):
                edit = f"swapped operands of `{operation.operator.surface}`"
                return BugExample(CORRECT, text), BugExample(SWAPPED_OPERANDS, swap.made_in(text), edit)
        return ()

    def repair_edits(self, text: str, bugs: BugSites) -> Iterator[Edit]:
        """Yield the swaps of the operands of any operator whose operands must not be swapped."""
        for operation in bugs.operations(text):
            if _eligible(operation, text, bugs) and (swap := _swap(text, operation, bugs)):
                yield swap


def _eligible(operation: Operation, text: str, bugs: BugSites) -> bool:
    return (
        operation.operator.surface in bugs.swappable
        and not operation.chained
        and "\n" not in text[operation.start : operation.end]
        and operation.left.surface != operation.right.surface
    )


def _swap(text: str, operation: Operation, bugs: BugSites) -> Edit | None:
    """Swap the operands, with spaces around a word operator; None if they are not read as swapped."""
    operator, left, right = operation.operator, operation.left, operation.right
    left_gap, right_gap = text[left.end : operator.start], text[operator.end : right.start]
    if operator.surface[0].isalpha():
        left_gap, right_gap = left_gap or " ", right_gap or " "
    middle = left_gap + text[operator.start : operator.end] + right_gap
    edit = Edit(left.start, right.end, right.surface + middle + left.surface)
    changed_text = edit.made_in(text)
    is_swapped = bugs.parses(changed_text) and any(
        candidate.start == operation.start
        and candidate.operator.surface == operator.surface
        and candidate.left.surface == right.surface
        and candidate.right.surface == left.surface
        for candidate in bugs.operations(changed_text)
    )
    return edit if is_swapped else None


task = SwappedOperand()
