"""CuBERT's wrong operator: is one binary operator replaced by another of its kind?"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.languages.engine.bug_sites import BugSites, Operation
from sonde.tasks.engine.bugs import CORRECT, BugExample, BugTask, Edit, RandomChoice

SYNONYMS = ("operator misuse",)

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
            if edit := _replace_operator(text, operation, wrong, bugs):
                changed_text = edit.made_in(text)
                return BugExample(CORRECT, text), BugExample(WRONG, changed_text, f"`{right}`-> `{wrong}`")
        return ()

    def repair_edits(self, text: str, bugs: BugSites) -> Iterator[Edit]:
        """Yield any other operator of the same row with which the text parses; see `BugTask.repair_edits`."""
        for operation in bugs.operations(text):
            for replacement in bugs.rows[operation.operator.surface]:
                if edit := _replace_operator(text, operation, replacement, bugs):
                    yield edit


def _replace_operator(text: str, operation: Operation, surface: str, bugs: BugSites) -> Edit | None:
    """Replace the operator, with spaces around a word operator where it would touch a word.

    None if it is not read as that operator.
    """
    start, end, _ = operation.operator
    padded_surface = surface
    if surface[0].isalpha():
        padded_surface = padded_surface if text[:start][-1:].isspace() else f" {padded_surface}"
        padded_surface = padded_surface if text[end:][:1].isspace() else f"{padded_surface} "
    edit = Edit(start, end, padded_surface)
    changed_text = edit.made_in(text)
    is_read = bugs.parses(changed_text) and any(
        start <= candidate.operator.start <= start + 1 and candidate.operator.surface == surface
        for candidate in bugs.operations(changed_text)
    )
    return edit if is_read else None


task = WrongOperator()
