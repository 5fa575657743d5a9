"""SRK: is one keyword replaced by any other?"""

from __future__ import annotations

from sonde.tasks.engine.faults import KeywordSwitch


class SwitchRandomKeyword(KeywordSwitch):
    """Code as written, or with one keyword replaced by another of any category; it still parses.

    A keyword at random mostly leaves code that does not parse, so that a parser answers and no model is
    needed (71 % of the published faults); those are left out here.
    """

    name = "srk"
    same_category = False


task = SwitchRandomKeyword()
