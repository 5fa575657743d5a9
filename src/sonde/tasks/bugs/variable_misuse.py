"""CuBERT's variable misuse: is one use of a variable replaced by another variable of the function?"""

from __future__ import annotations

from collections.abc import Iterator

from sonde.languages.engine.bug_sites import BugSites
from sonde.tasks.engine.bugs import CORRECT, MISUSE, BugExample, BugTask, Edit, RandomChoice, make_misuse

SYNONYMS = ("varmisuse", "wrong variable", "bug detection")


class VariableMisuse(BugTask):
    """A function as written, or with one use of a variable replaced by another that the function defines.

    Eligible are functions that define 2 to 50 variables and use one where another of them may be read.
    """

    name = "variable_misuse"
    facet = "misuse"
    labels = (CORRECT, MISUSE)
    version = "3"

    def variants(self, text: str, bugs: BugSites, choice: RandomChoice) -> tuple[BugExample, ...]:
        """Put in a misuse; see `BugTask.variants`."""
        misuse = make_misuse(text, bugs, choice)
        if misuse is None:
            return ()
        return BugExample(CORRECT, text), BugExample(
            MISUSE, misuse.text, f"VarMisuse `{misuse.right}`->`{misuse.wrong}`"
        )

    def repair_edits(self, text: str, bugs: BugSites) -> Iterator[Edit]:
        """Yield any other variable that may be read at a use; see `BugTask.repair_edits`."""
        for use in bugs.variables(text).uses:
            for name in bugs.replacements(text, use):
                yield Edit(use.start, use.end, name)


task = VariableMisuse()
