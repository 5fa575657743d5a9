"""CuBERT's misuse repair: where is a variable misused, and which one is right there?"""

from __future__ import annotations

from sonde.languages.engine.bug_sites import Bugs
from sonde.tasks.engine.bugs import CORRECT, MISUSE, BugExample, BugTask, Choice, misuse


class MisuseRepair(BugTask):
    """The functions of `variable_misuse`, with the misused variable and one place of the right one.

    Where nothing is misused, the labelled stretch is empty. `sonde.tasks.engine.bugs.pointers` gives all
    places.
    """

    name = "misuse_repair"
    facet = "misuse"
    labels = (CORRECT, MISUSE)
    version = "3"
    repeats = "variable_misuse"

    def variants(self, text: str, bugs: Bugs, choice: Choice) -> tuple[BugExample, ...]:
        """See `BugTask.variants`."""
        found = misuse(text, bugs, choice)
        if found is None:
            return ()
        places = bugs.variables(found.text).places
        repair = next(place for place in places if place.surface == found.right)
        buggy = BugExample(
            MISUSE,
            found.text,
            f"VarMisuse `{found.wrong}`->`{found.right}`",
            found.start,
            found.end,
            repair.start,
            repair.end,
        )
        return BugExample(CORRECT, text, end=0), buggy


task = MisuseRepair()
