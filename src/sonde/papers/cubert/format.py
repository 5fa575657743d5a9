r"""CuBERT's JSON lines: a function, its label and how it was made; subtokens with masks for repair.

Subtokens are program tokens in the escapes of Tensor2Tensor. In a program token, ``_`` is written ``\u``,
``\`` is doubled, a character outside the vocabulary's alphabet is written by its number (``\10;``), and a
``_`` ends the token. A vocabulary may split a token into several subtokens, of which only the last ends in
``_``. A line is written without a vocabulary (`escape_piece`), so each subtoken is whole, a complete program
token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sonde.corpora import Item
from sonde.experiments.formats import LabelledItem
from sonde.languages import get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.program_tokens import (
    EOS_TOKEN,
    FINETUNING_FORMAT,
    ProgramLexer,
    ProgramToken,
    build_program_tokens,
)
from sonde.languages.engine.treesitter import find_summary_line
from sonde.tasks import Task
from sonde.tasks.bugs.exception_type import HOLE
from sonde.tasks.bugs.function_docstring import first_line
from sonde.tasks.engine.bugs import AS_WRITTEN, find_pointers

BEGIN, END = "[CLS]_", "[SEP]_"


_ESCAPE = re.compile(r"\\u|\\\\|\\([0-9]+);")


@dataclass(frozen=True, slots=True)
class JoinedSubtokens:
    """Subtokens of a function joined to program tokens.

    Attributes:
        pieces: The pieces, the end of the program included.
        first: For each piece but the end, the subtoken that it begins with.
        size: Number of subtokens.
    """

    pieces: tuple[str, ...]
    first: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class MaskedProgram:
    """A function as a list of subtokens with masks over it, of one length.

    Attributes:
        subtokens: They begin with `BEGIN`, which is a candidate and means that there is no bug.
        error: One 1, at the misused variable or at the beginning.
        targets: 1 at variables that are right there.
        candidates: 1 at the beginning and wherever a variable stands.
    """

    subtokens: list[str]
    error: list[int]
    targets: list[int]
    candidates: list[int]


def escape_piece(piece: str) -> str:
    r"""A piece of a program token as a whole subtoken.

    >>> escape_piece("a_^")
    'a\\u^_'
    """
    plain = piece.replace("\\", "\\\\").replace("_", "\\u").replace("\n", "\\10;")
    return f"{plain}_"


def unescape_subtoken(subtoken: str) -> str:
    """The piece that subtokens stand for that were put together."""

    def meant(found: re.Match[str]) -> str:
        if found[1] is not None:
            return chr(int(found[1]))
        return "_" if found[0] == "\\u" else "\\"

    return _ESCAPE.sub(meant, subtoken.removesuffix("_"))


def join_subtokens(subtokens: Sequence[str]) -> JoinedSubtokens:
    """Join subtokens to pieces; the marks of begin and end are left out, and the end of the program is added.

    Raises:
        ValueError: The last subtoken ends no piece.
    """
    pieces: list[str] = []
    first: list[int] = []
    pending, begin = "", 0
    for place, subtoken in enumerate(subtokens):
        begin = begin if pending else place
        pending += subtoken
        if not subtoken.endswith("_"):
            continue
        piece = unescape_subtoken(pending)
        if pending not in (BEGIN, END) and piece != EOS_TOKEN:
            pieces.append(piece)
            first.append(begin)
        pending = ""
    if pending:
        raise ValueError(f"subtokens end within a token: {pending!r}")
    return JoinedSubtokens((*pieces, EOS_TOKEN), tuple(first), len(subtokens))


def locate_subtokens(facet: ProgramLexer, text: str, whole: JoinedSubtokens) -> dict[int, tuple[int, int]]:
    """For each subtoken that begins a program token, the token's characters in the text made of them.

    Raises:
        ValueError: The text has other tokens.
    """
    tokens = _program_tokens(facet, text)
    if [piece for token in tokens for piece in token.pieces] != list(whole.pieces[:-1]):
        raise ValueError("the function read from its subtokens has other ones")
    places: dict[int, tuple[int, int]] = {}
    place = 0
    for token in tokens:
        offset = token.lexeme.offset
        places[whole.first[place]] = (offset, offset + len(token.lexeme.surface))
        place += len(token.pieces)
    return places


def mask_program(
    facet: ProgramLexer,
    text: str,
    *,
    error: tuple[int, int] | None,
    targets: Iterable[tuple[int, int]],
    candidates: Iterable[tuple[int, int]],
) -> MaskedProgram:
    """A function as subtokens, with the masks of places in characters; only first subtokens are marked."""
    subtokens, first = [BEGIN], dict[int, int]()
    for token in _program_tokens(facet, text):
        first[token.lexeme.offset] = len(subtokens)
        subtokens += map(escape_piece, token.pieces)
    subtokens.append(END)
    marked = _build_mask(len(subtokens), [error] if error else [], first)
    if error is None:
        marked[0] = 1
    possible = _build_mask(len(subtokens), candidates, first)
    possible[0] = 1
    return MaskedProgram(subtokens, marked, _build_mask(len(subtokens), targets, first), possible)


def _program_tokens(facet: ProgramLexer, text: str) -> list[ProgramToken]:
    """The tokens of a function without its end."""
    return build_program_tokens(facet, text, FINETUNING_FORMAT)[:-1]


def _build_mask(size: int, places: Iterable[tuple[int, int]], first: Mapping[int, int]) -> list[int]:
    mask = [0] * size
    for start, _ in places:
        if start in first:
            mask[first[start]] = 1
    return mask


_DATASET = "dataset/sonde"


_PUBLISHED = "dataset/"


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
        """One line a row that has a label.

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
    found = row.get("other_start") is not None
    error = (row["start"], row["end"]) if found else None
    repair = (row["other_start"], row["other_end"]) if found else None
    where = find_pointers(item.text, item.language, error, repair)
    lines = mask_program(
        get_facet(item.language, "program", ProgramLexer),
        item.text,
        error=where.error,
        targets=where.targets,
        candidates=where.candidates,
    )
    info = _format_info(item)
    if where.error is not None and 1 in lines.error and 1 in lines.targets and "VarMisuse " in info:
        places = f"{lines.error.index(1)}/{lines.targets.index(1)}"
        info = info.replace("VarMisuse ", f"VarMisuse@{places} ")
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
    """Where a function is from and what was done to it; published words stay as they are."""
    name, _, edit = item.name.partition("/")
    if item.identifier.startswith(_PUBLISHED):
        if not edit:
            return item.identifier
        return f"{item.identifier.rpartition(':')[0].removesuffix(f'/{AS_WRITTEN}')}/{edit}"
    return f"{_DATASET} {item.repository}/{item.path} {name}/{edit or AS_WRITTEN}"


form = CubertFormat()
