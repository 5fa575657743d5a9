"""JMB: are half of the tokens shuffled?"""

from sonde.tasks.engine.faults import Shuffle


class JumbledHalf(Shuffle):
    """Code as written, or with half of its tokens shuffled among themselves; see `Shuffle`."""

    name = "jmb"
    share = 0.5


task = JumbledHalf()
