"""JFT: are all of the tokens shuffled?"""

from sonde.tasks.engine.faults import Shuffle

SYNONYMS = ("shuffled code", "word order")


class JumbledFully(Shuffle):
    """Code as written, or with all of its tokens shuffled among themselves; see `Shuffle`."""

    name = "jft"
    share = 1.0


task = JumbledFully()
