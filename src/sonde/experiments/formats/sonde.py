"""JSON lines, one a label: sonde's own format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sonde.base.fingerprint import fingerprint
from sonde.experiments.formats import LabelledItem
from sonde.tasks import Task

_COLUMNS = ("start", "end", "label", "value")


class SondeForm:
    """``{"id", "path", "name", "line", "label", "value"}`` per row.

    ``path``, ``name`` and ``line`` say which function of which file the row is about; of a user's table
    ``line`` is that of the row. Spans add where they stand, data sets their split and text.
    """

    tasks: tuple[str, ...] = ()
    whole = False

    def write(self, task: Task, entries: Sequence[LabelledItem]) -> str:
        """Format one line per row of labels."""
        return to_json_lines(build_label_rows(task, entries))


def to_json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Format one object per line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def build_label_rows(task: Task, entries: Iterable[LabelledItem]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the lines."""
    for entry in entries:
        for row in entry.rows:
            line = _build_row(task, entry, row)
            item = entry.item
            line = {"id": line.pop("id"), "path": item.path, "name": item.name, "line": item.line, **line}
            yield {**line, "split": entry.split, "text": item.text} if entry.split else line


def _build_row(task: Task, entry: LabelledItem, row: Mapping[str, Any]) -> dict[str, Any]:
    item = entry.item
    line = {"id": item.identifier or item.item_id, "label": row["label"], "value": row["value"]}
    if task.target in ("item", "mutation"):
        return line
    span = fingerprint("span", item.item_id, task.name, task.version, row["start"], row["end"])
    extra = {name: row[name] for name in row if name not in _COLUMNS}
    return {**line, "span": span, "start": row["start"], "end": row["end"], **extra}


form = SondeForm()
