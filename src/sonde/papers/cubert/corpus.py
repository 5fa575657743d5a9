"""Functions with the labels of a CuBERT data set.

``cubert:PATH`` names a file of JSON lines as published, or a folder of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.corpora.engine.corpus import Given, SkipCounter, SourceFile
from sonde.corpora.engine.source_files import is_usable, numbered_lines
from sonde.corpora.engine.tables import EntryError, Faults, files_by_split, not_json
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.program_tokens import ProgramLexer, untokenize
from sonde.papers.cubert.subtokens import JoinedSubtokens, join_subtokens, locate_subtokens

# `dataset/ETHPy150Open OWNER/REPOSITORY/PATH.py FUNCTION/WHAT WAS DONE`
_INFO = re.compile(r"\S+ (?P<repository>[^/ ]+/[^/ ]+)/(?P<path>.+?\.\w+) (?P<name>[^ /]+)")


# Labels tell the tasks apart; only the sentence pair has a summary beside the function.
_TASK_OF: Mapping[str, str] = {
    "Variable misuse": "variable_misuse",
    "Wrong binary operator": "wrong_operator",
    "Swapped operands": "swapped_operand",
}


_HOLE = "__HOLE__"


_LANGUAGE = "python"


class CubertSource:
    """`cubert:PATH`: a file of JSON lines, or a folder with ``train``, ``dev`` and ``eval`` files of them.

    In a folder the files say which split an example is in. Which task it is follows from the labels.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield one file per example, in the order of the files and lines.

        Raises:
            InputError: There is no such file, or lines hold no example: all of them are looked for, and the
                first few are named by file and number.
            UsageError: PATH is missing.
        """
        if not argument:
            raise UsageError("corpus 'cubert' needs a file or folder; use cubert:PATH")
        for name in languages:
            LANGUAGES.load(name)
        corpus = f"cubert:{argument}"
        faults = Faults(corpus, "lines")
        task = ""
        for path, split in files_by_split(corpus, expand_home(argument), "{}.json*"):
            rows = dict(_read_rows(path, faults))
            task = _detect_task(rows.values(), task, corpus, path) if rows else task
            for number, row in rows.items():
                try:
                    file = _build_file(row, task, split, f"{path.name}:{number}")
                except EntryError as error:
                    faults.note(f"{path.name} line {number}", error)
                    continue
                has_language = not languages or file.language in languages
                if not faults and has_language and is_usable(file.text, file.path, intake):
                    yield file
        faults.refuse()


def _read_rows(path: Path, faults: Faults) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the lines of a file that hold an object, by number."""
    with path.open("rb") as handle:
        for number, line in numbered_lines(handle, f"cubert:{path}"):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                faults.note(f"{path.name} line {number}", not_json(error))
                continue
            if isinstance(row, dict):
                yield number, row
            else:
                faults.note(f"{path.name} line {number}", "not a JSON object")


def _detect_task(rows: Iterable[Mapping[str, Any]], previous_task: str, corpus: str, path: Path) -> str:
    """Detect the task of the examples; that of the files before if they alone do not tell.

    Raises:
        InputError: They are of none, or of several.
    """
    tasks = {task for row in rows if (task := _infer_task(row))} | ({previous_task} - {""})
    if len(tasks) == 1:
        return tasks.pop()
    names = ", ".join(sorted(tasks)) or "none"
    raise InputError(f"corpus {corpus!r}: {path.name} has examples of {names}; one task is needed")


def _infer_task(row: Mapping[str, Any]) -> str:
    """Infer the task from one example; empty if it has no bug and says nothing else."""
    if "target_mask" in row:
        return "misuse_repair"
    if "docstring" in row:
        return "function_docstring"
    if isinstance(row.get("function"), str) and _HOLE in row["function"]:
        return "exception_type"
    return _TASK_OF.get(str(row.get("label")), "")


def _build_file(row: Mapping[str, Any], task: str, split: str, line_name: str) -> SourceFile:
    if task == "misuse_repair":
        text, source_label = _parse_repair(row, split)
        info = _read_string(row, "provenance")
    else:
        text, info, label = (
            _read_string(row, "function"),
            _read_string(row, "info"),
            _read_string(row, "label"),
        )
        start, end, other_start, other_end = 0, len(text), -1, -1
        if task == "function_docstring":
            words = _read_string(row, "docstring")
            other_start, other_end = end + 1, end + 1 + len(words)
            text = f"{text}\n{words}"
        elif task == "exception_type":
            start = max(text.find(_HOLE), 0)
            end = start + len(_HOLE) if _HOLE in text else end
        source_label = Given(task, label, start, end, other_start, other_end, split)
    info_match = _INFO.match(info)
    repository = info_match["repository"] if info_match else info
    source_path = f"{repository}/{info_match['path']}" if info_match else info
    return SourceFile(
        path=f"{source_path}#{line_name}",
        text=text,
        language=_LANGUAGE,
        cluster=repository,
        repository=repository,
        unit="function",
        name=info_match["name"] if info_match else "",
        identifier=info,
        given=(source_label,),
    )


def _parse_repair(row: Mapping[str, Any], split: str) -> tuple[str, Given]:
    """Parse a list of subtokens into the function, with its masks as characters."""
    pieces = row.get("function")
    masks = [row.get(name) for name in ("error_location_mask", "target_mask", "candidate_mask")]
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise EntryError("'function' is not a list of subtokens")
    for name, mask in zip(("error_location_mask", "target_mask", "candidate_mask"), masks, strict=True):
        if not isinstance(mask, list) or len(mask) != len(pieces):
            raise EntryError(f"{name!r} is not a list of {len(pieces)} numbers")
    errors = [index for index, flag in enumerate(masks[0] or ()) if flag]
    targets = [index for index, flag in enumerate(masks[1] or ()) if flag]
    if len(errors) != 1:
        raise EntryError(f"'error_location_mask' marks {len(errors)} places, not 1")
    try:
        joined_subtokens = join_subtokens(pieces)
        facet = get_facet(_LANGUAGE, "program", ProgramLexer)
        text = untokenize(facet, joined_subtokens.pieces)
        spans = locate_subtokens(facet, text, joined_subtokens)
    except ValueError as error:
        raise EntryError(str(error)) from None
    if errors[0] == 0 or not targets:
        return text, Given("misuse_repair", "Correct", 0, 0, split=split)
    error, repair = (
        _locate_span(spans, errors[0], joined_subtokens),
        _locate_span(spans, targets[0], joined_subtokens),
    )
    return text, Given("misuse_repair", "Variable misuse", *error, *repair, split=split)


def _locate_span(
    spans: Mapping[int, tuple[int, int]], index: int, joined_subtokens: JoinedSubtokens
) -> tuple[int, int]:
    if index not in spans:
        raise EntryError(f"subtoken {index} of {joined_subtokens.size} begins no word of the function")
    return spans[index]


def _read_string(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise EntryError(f"no {key!r}" if value is None else f"{key!r} is not a string")
    return value


source = CubertSource()
