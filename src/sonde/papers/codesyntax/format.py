"""CodeSyntax's JSON: a list of samples with code, tokens and relations between tokens by index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sonde.experiments.formats import LabelledItem
from sonde.languages.engine.relations import RelationOptions
from sonde.tasks import Task
from sonde.tasks.syntax.syntax_relations import TASK, relation_words


class CodeSyntaxFormat:
    """``{"code", "tokens", "id", "relns"}`` an item; an edge is ``[head, first, last token]``.

    An item whose code does not parse has no relations, as in the published file.
    """

    tasks: tuple[str, ...] = (TASK,)
    whole = True

    def write(self, task: Task, entries: Sequence[LabelledItem]) -> str:
        """Write a JSON list with one sample per line; rows of one item in several entries are joined."""
        entries_by_item: dict[tuple[str, str], list[LabelledItem]] = {}
        for entry in entries:
            entries_by_item.setdefault((entry.item.identifier, entry.item.item_id), []).append(entry)
        samples = (_build_sample(group) for group in entries_by_item.values())
        return "[\n" + ",\n".join(json.dumps(sample, ensure_ascii=False) for sample in samples) + "\n]\n"


def _build_sample(entries: Sequence[LabelledItem]) -> dict[str, Any]:
    item = entries[0].item
    rows = [row for entry in entries for row in entry.rows]
    words = relation_words(item, RelationOptions(newlines=any(row["newlines"] for row in rows)))
    relations: dict[str, list[list[int]]] = {}
    for row in rows:
        if row["label"] is not None:
            edge = [row["head_word"], row["dep_first"], row["dep_last"]]
            relations.setdefault(row["label"], []).append(edge)
    identity = item.identifier or item.item_id
    return {
        "code": item.text,
        "tokens": list(words.surface),
        "id": int(identity) if identity.isdecimal() else identity,
        "relns": relations,
    }


form = CodeSyntaxFormat()
