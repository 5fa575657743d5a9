"""CuBERT's JSON lines: a function, its label and how it was made; subtokens with masks for repair.

`sonde.papers.cubert.subtokens` explains the escapes in which subtokens are written. A line is written with
whole subtokens, each of which is a complete program token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sonde.corpora import Item
from sonde.experiments.formats import LabelledItem
from sonde.languages import get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.program_tokens import ProgramLexer
from sonde.languages.engine.treesitter import find_summary_line
from sonde.papers.cubert.subtokens import mask_program
from sonde.tasks import Task
from sonde.tasks.bugs.exception_type import HOLE
from sonde.tasks.bugs.function_docstring import first_line
from sonde.tasks.engine.bugs import AS_WRITTEN, find_pointers

_DATASET = "dataset/sonde"


_PUBLISHED_PREFIX = "dataset/"


class CubertFormat:
    """A line a labelled function, with the published fields.

    - Classification: ``function``, ``label``, ``info``.
    - `function_docstring`: ``function``, ``docstring`` (without quotes), ``label``, ``info``.
    - `misuse_repair`: ``function`` (subtokens), ``target_mask``, ``error_location_mask``, ``candidate_mask``,
      ``provenance``. The subtokens are whole program tokens: no vocabulary is asked for.
    """

    tasks: tuple[str, ...] = (
        *("variable_misuse", "wrong_operator", "swapped_operand", "function_docstring", "exception_type"),
        "misuse_repair",
    )
    whole = False

    def write(self, task: Task, entries: Sequence[LabelledItem]) -> str:
        """Write one line per row that has a label.

        Raises:
            UsageError: A function is in a language without program tokens.
        """
        rows = (
            _LINES.get(task.name, _format_classification)(entry.item, row)
            for entry in entries
            for row in entry.rows
            if row["label"] is not None
        )
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _format_classification(item: Item, row: Mapping[str, Any]) -> dict[str, Any]:
    return {"function": item.text, "label": row["label"], "info": _format_info(item)}


def _format_exception(item: Item, row: Mapping[str, Any]) -> dict[str, Any]:
    text, start, end = item.text, row["start"], row["end"]
    return {
        "function": text[:start] + HOLE + text[end:],
        "label": row["label"],
        "info": _format_info(item).removesuffix(f"/{AS_WRITTEN}"),
    }


def _format_documentation(item: Item, row: Mapping[str, Any]) -> dict[str, Any]:
    if row.get("other_start") is None:
        function = get_facet(item.language, "bugs", BugSites).remove_documentation(item.text).rstrip()
        words = find_summary_line(item.docstring) or first_line(item)
    else:
        function = item.text[row["start"] : row["end"]]
        words = item.text[row["other_start"] : row["other_end"]]
    return {"function": function, "docstring": words, "label": row["label"], "info": _format_info(item)}


def _format_repair(item: Item, row: Mapping[str, Any]) -> dict[str, Any]:
    has_repair = row.get("other_start") is not None
    error = (row["start"], row["end"]) if has_repair else None
    repair = (row["other_start"], row["other_end"]) if has_repair else None
    pointers = find_pointers(item.text, item.language, error, repair)
    lines = mask_program(
        get_facet(item.language, "program", ProgramLexer),
        item.text,
        error=pointers.error,
        targets=pointers.targets,
        candidates=pointers.candidates,
    )
    info = _format_info(item)
    if pointers.error is not None and 1 in lines.error and 1 in lines.targets and "VarMisuse " in info:
        indices = f"{lines.error.index(1)}/{lines.targets.index(1)}"
        info = info.replace("VarMisuse ", f"VarMisuse@{indices} ")
    return {
        "function": lines.subtokens,
        "target_mask": lines.targets,
        "error_location_mask": lines.error,
        "candidate_mask": lines.candidates,
        "provenance": info,
    }


_LINES = {
    "exception_type": _format_exception,
    "function_docstring": _format_documentation,
    "misuse_repair": _format_repair,
}


def _format_info(item: Item) -> str:
    """Describe where a function is from and what was done to it; published words stay as they are."""
    name, _, edit = item.name.partition("/")
    if item.identifier.startswith(_PUBLISHED_PREFIX):
        if not edit:
            return item.identifier
        return f"{item.identifier.rpartition(':')[0].removesuffix(f'/{AS_WRITTEN}')}/{edit}"
    return f"{_DATASET} {item.repository}/{item.path} {name}/{edit or AS_WRITTEN}"


form = CubertFormat()
