"""JFT: are all of the tokens shuffled?"""

from __future__ import annotations

from random import Random

from sonde.tasks._jumble import shuffled
from sonde.tasks._mutation import ORIGINAL, REPLACED, Fault, Mutation, Stratum, Surroundings

_SHARE = 1.0


class JumbledFully(Mutation):
    """Code as written, or with all of its tokens shuffled among themselves.

    That a parser answers lies in the fault: a random order of tokens follows no grammar. A bag of tokens is
    blind: both sides hold the same tokens. The variants that parse shuffle larger pieces: ``jst``
    (statements) and ``jbk`` (blocks). INSPECT discarded this task, since all models solve it.
    """

    name = "jft"
    labels = (ORIGINAL, REPLACED)

    def stratum(self, text: str, around: Surroundings, draw: Random) -> Stratum | None:
        """Nothing to match: the tokens are the same."""
        return () if len({token.surface for token in around.edits.tokens(text)}) > 1 else None

    def fault(self, text: str, around: Surroundings, draw: Random) -> Fault | None:
        """Shuffle; None where that changes nothing."""
        changed = shuffled(text, around.edits.tokens(text), _SHARE, draw)
        return None if changed is None else Fault(changed, ())


task = JumbledFully()
