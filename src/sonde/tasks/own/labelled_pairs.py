"""LABELLED_PAIRS: your own labels of pairs of texts, from a table."""

from __future__ import annotations

from sonde.tasks.engine.user_labels import UserLabels


class UserPairLabels(UserLabels):
    """The labels that `labelled:FILE` brings.

    The model reads both texts in sequence, and each is pooled over its own characters. Probes read both
    states, their product and their absolute difference.
    """

    name = "labelled_pairs"
    target = "pair"


task = UserPairLabels()
