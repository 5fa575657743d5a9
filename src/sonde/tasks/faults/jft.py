"""JFT: are all of the tokens shuffled?"""

from sonde.tasks.engine.faults import Shuffle


class JumbledFully(Shuffle):
    """Code as written, or with all of its tokens shuffled among themselves; see `Shuffle`."""

    name = "jft"
    share = 1.0


task = JumbledFully()
