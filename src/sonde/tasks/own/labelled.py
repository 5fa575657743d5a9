"""LABELLED: your own labels of whole texts, from a table."""

from __future__ import annotations

from sonde.tasks.engine.user_labels import UserLabels


class UserTextLabels(UserLabels):
    """The labels that `labelled:FILE` brings.

    Nothing is balanced: classes are as frequent as in the table, which the baseline ``majority`` shows. Where
    labels are numbers, classes are quartiles and the number stands beside them for regressions.
    """

    name = "labelled"
    target = "item"


task = UserTextLabels()
