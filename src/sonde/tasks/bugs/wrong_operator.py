"""CuBERT's wrong operator: is one binary operator replaced by another of its kind?"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.languages.engine.bug_sites import BugSites, Operation
from sonde.tasks.engine.bugs import CORRECT, BugExample, BugTask, Edit, RandomChoice

WRONG = "Wrong binary operator"


class WrongOperator(BugTask):
    """A function as written, or with one operator replaced by another of the same row of table 7."""

    name = "wrong_operator"
    labels = (CORRECT, WRONG)

    def variants(self, text: str, bugs: BugSites, choice: RandomChoice) -> tuple[BugExample, ...]:
        """Replace one operator; see `BugTask.variants`."""
        for operation in choice.first(bugs.operations(text), subject="operation"):
            right = operation.operator.surface
            wrong = choice.pick(bugs.rows[right], subject="operator")
            changed_text = _edit(text, operation, wrong).made_in(text)
            if bugs.parses(changed_text) and _stands(bugs, changed_text, operation, wrong):
                return BugExample(CORRECT, text), BugExample(WRONG, changed_text, f"`{right}`-> `{wrong}`")
        return ()

    def repair_edits(self, text: str, bugs: BugSites) -> Iterator[Edit]:
        """Yield any other operator of the same row with which the text parses; see `BugTask.repair_edits`."""
        for operation in bugs.operations(text):
            for replacement in bugs.rows[operation.operator.surface]:
                edit = _edit(text, operation, replacement)
                changed_text = edit.made_in(text)
                if bugs.parses(changed_text) and _stands(bugs, changed_text, operation, replacement):
                    yield edit


def _edit(text: str, operation: Operation, wrong: str) -> Edit:
    """Replace the operator, with spaces around a word operator where it would touch a word."""
    start, end, _ = operation.operator
    if wrong[0].isalpha():
        wrong = wrong if text[:start][-1:].isspace() else f" {wrong}"
        wrong = wrong if text[end:][:1].isspace() else f"{wrong} "
    return Edit(start, end, wrong)


def _stands(bugs: BugSites, changed_text: str, operation: Operation, wrong: str) -> bool:
    first = operation.operator.start
    return any(
        first <= candidate.operator.start <= first + 1 and candidate.operator.surface == wrong
        for candidate in bugs.operations(changed_text)
    )


task = WrongOperator()
