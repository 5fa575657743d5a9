"""CuBERT's misuse repair: where is a variable misused, and which variable belongs there?"""

from __future__ import annotations

from sonde.languages.engine.bug_sites import BugSites
from sonde.tasks.engine.bugs import CORRECT, MISUSE, BugExample, BugTask, RandomChoice, make_misuse

SYNONYMS = ("program repair", "bug localisation", "bug localization", "bug fix")


class MisuseRepair(BugTask):
    """The functions of `variable_misuse`, with the misused variable and one place of the right one.

    Where nothing is misused, the labelled stretch is empty. `sonde.tasks.engine.bugs.find_pointers` gives all
    places.
    """

    name = "misuse_repair"
    facet = "misuse"
    labels = (CORRECT, MISUSE)
    version = "3"
    repeats = "variable_misuse"

    def variants(self, text: str, bugs: BugSites, choice: RandomChoice) -> tuple[BugExample, ...]:
        """Put in a misuse; see `BugTask.variants`."""
        misuse = make_misuse(text, bugs, choice)
        if misuse is None:
            return ()
        occurrences = bugs.variables(misuse.text).places
        repair = next(occurrence for occurrence in occurrences if occurrence.surface == misuse.right)
        buggy = BugExample(
            MISUSE,
            misuse.text,
            f"VarMisuse `{misuse.wrong}`->`{misuse.right}`",
            misuse.start,
            misuse.end,
            repair.start,
            repair.end,
        )
        return BugExample(CORRECT, text, end=0), buggy


task = MisuseRepair()
