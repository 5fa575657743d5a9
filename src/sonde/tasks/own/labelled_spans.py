"""LABELLED_SPANS: your own labels of spans of text, from a table."""

from __future__ import annotations

from sonde.tasks.engine.user_labels import UserLabels


class UserSpanLabels(UserLabels):
    """The labels that `labelled:FILE` brings.

    What a span says is its type, as of tokens. Where the table names no group, spans that say the same stay
    in one split.
    """

    name = "labelled_spans"
    target = "span"


task = UserSpanLabels()
