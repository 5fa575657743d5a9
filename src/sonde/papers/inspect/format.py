"""INSPECT's TSV: a line an example of split (tr, va, te), label and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sonde.base.errors import UsageError
from sonde.corpora import Item
from sonde.experiments.formats import LabelledItem
from sonde.languages import get_facet
from sonde.languages.engine.edits import Edits
from sonde.tasks import Task

_SPLIT_CODES = {"train": "tr", "valid": "va", "test": "te", "": "tr"}
"""Raw labels are in no split; the file has no word for that, so that all of them are ``tr``."""


class InspectFormat:
    """Tokens joined by blanks, comments left out; of a task about tokens the token alone.

    A label that is null is an empty field: with ``--raw`` every item keeps its line.
    """

    tasks: tuple[str, ...] = ()
    whole = False

    def write(self, task: Task, entries: Sequence[LabelledItem]) -> str:
        """Write one line per label, in the order of the entries; neither text nor label has a tab or newline.

        Raises:
            UsageError: The task labels pairs, of which a text cannot say which are meant.
        """
        if task.target == "pair":
            raise UsageError(
                f"format 'inspect' has one text per label, but task {task.name!r} labels pairs of tokens; "
                f"leave out --format for JSON lines"
            )
        about_tokens = task.target == "span"
        return "".join(
            f"{_SPLIT_CODES[entry.split]}\t{row['label'] or ''}\t{_to_text(entry.item, row, about_tokens)}\n"
            for entry in entries
            for row in entry.rows
        )


def _to_text(item: Item, row: Mapping[str, Any], about_tokens: bool) -> str:
    """Return the token, or the code tokens of the item joined by blanks, as INSPECT shows code to models."""
    if about_tokens:
        return " ".join(item.text[row["start"] : row["end"]].split())
    tokens = get_facet(item.language, "edits", Edits).tokens(item.text)
    return " ".join(" ".join(token.surface.split()) for token in tokens)


form = InspectFormat()
