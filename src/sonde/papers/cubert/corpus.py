"""Functions with the labels of a CuBERT data set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.corpora import Item
from sonde.corpora.engine.corpus import Given, Intake, SourceFile
from sonde.corpora.engine.decode import is_usable, numbered_lines
from sonde.corpora.engine.tables import EntryError, Faults, files_by_split, not_json
from sonde.experiments.formats import Labelled
from sonde.languages import LANGUAGES, facet_of
from sonde.languages.engine.bug_sites import Bugs
from sonde.languages.engine.program_tokens import (
    EOS_SPELLING,
    FINETUNING,
    Program,
    ProgramToken,
    program_tokens,
    untokenize,
)
from sonde.languages.engine.treesitter import summary_line
from sonde.tasks import Task
from sonde.tasks.bugs.exception_type import HOLE
from sonde.tasks.bugs.function_docstring import first_line
from sonde.tasks.engine.bugs import AS_WRITTEN, pointers

BEGIN, END = "[CLS]_", "[SEP]_"


_ESCAPE = re.compile(r"\\u|\\\\|\\([0-9]+);")


@dataclass(frozen=True, slots=True)
class Subtokens:
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


def escaped(piece: str) -> str:
    r"""A piece of a program token as a whole subtoken.

    >>> escaped("a_^")
    'a\\u^_'
    """
    plain = piece.replace("\\", "\\\\").replace("_", "\\u").replace("\n", "\\10;")
    return f"{plain}_"


def unescaped(subtoken: str) -> str:
    """The piece that subtokens stand for that were put together."""

    def meant(found: re.Match[str]) -> str:
        if found[1] is not None:
            return chr(int(found[1]))
        return "_" if found[0] == "\\u" else "\\"

    return _ESCAPE.sub(meant, subtoken.removesuffix("_"))


def joined(subtokens: Sequence[str]) -> Subtokens:
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
        piece = unescaped(pending)
        if pending not in (BEGIN, END) and piece != EOS_SPELLING:
            pieces.append(piece)
            first.append(begin)
        pending = ""
    if pending:
        raise ValueError(f"subtokens end within a token: {pending!r}")
    return Subtokens((*pieces, EOS_SPELLING), tuple(first), len(subtokens))


def characters(facet: Program, text: str, whole: Subtokens) -> dict[int, tuple[int, int]]:
    """For each subtoken that begins a program token, the token's characters in the text made of them.

    Raises:
        ValueError: The text has other tokens.
    """
    tokens = _words(facet, text)
    if [piece for token in tokens for piece in token.pieces] != list(whole.pieces[:-1]):
        raise ValueError("the function read from its subtokens has other ones")
    places: dict[int, tuple[int, int]] = {}
    place = 0
    for token in tokens:
        offset = token.lexeme.offset
        places[whole.first[place]] = (offset, offset + len(token.lexeme.spelling))
        place += len(token.pieces)
    return places


def masked(
    facet: Program,
    text: str,
    *,
    error: tuple[int, int] | None,
    targets: Iterable[tuple[int, int]],
    candidates: Iterable[tuple[int, int]],
) -> MaskedProgram:
    """A function as subtokens, with the masks of places in characters; only first subtokens are marked."""
    subtokens, first = [BEGIN], dict[int, int]()
    for token in _words(facet, text):
        first[token.lexeme.offset] = len(subtokens)
        subtokens += map(escaped, token.pieces)
    subtokens.append(END)
    marked = _mask(len(subtokens), [error] if error else [], first)
    if error is None:
        marked[0] = 1
    possible = _mask(len(subtokens), candidates, first)
    possible[0] = 1
    return MaskedProgram(subtokens, marked, _mask(len(subtokens), targets, first), possible)


def _words(facet: Program, text: str) -> list[ProgramToken]:
    """The tokens of a function without its end."""
    return program_tokens(facet, text, FINETUNING)[:-1]


def _mask(size: int, places: Iterable[tuple[int, int]], first: Mapping[int, int]) -> list[int]:
    mask = [0] * size
    for start, _ in places:
        if start in first:
            mask[first[start]] = 1
    return mask


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


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of a file with where it stands."""

    row: Mapping[str, Any]
    number: int
    split: str


class Cubert:
    """`cubert:PATH`: a file of JSON lines, or a folder with ``train``, ``dev`` and ``eval`` files of them.

    In a folder the files say which split an example is in. Which task it is follows from the labels.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: Intake) -> Iterator[SourceFile]:
        """Yield one file an example, in the order of the files and lines.

        Raises:
            InputError: There is no such file, or lines hold no example: all of them are looked for, and the
                first few are named by file and number.
            UsageError: PATH is missing.
        """
        if not argument:
            raise UsageError("corpus 'cubert' needs a file or folder; name it as cubert:PATH")
        for name in languages:
            LANGUAGES.load(name)
        corpus = f"cubert:{argument}"
        bad = Faults(corpus, "lines")
        task = ""
        for path, split in files_by_split(corpus, expand_home(argument), "{}.json*"):
            lines = list(_lines(path, split, bad))
            task = _task([line.row for line in lines], task, corpus, path) if lines else task
            for line in lines:
                try:
                    file = _file(line, task, path)
                except EntryError as error:
                    bad.note(f"{path.name} line {line.number}", error)
                    continue
                wanted = not languages or file.language in languages
                if not bad and wanted and is_usable(file.text, file.path, intake):
                    yield file
        bad.refuse()


def _lines(path: Path, split: str, bad: Faults) -> Iterator[_Line]:
    with path.open("rb") as handle:
        for number, line in numbered_lines(handle, f"cubert:{path}"):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                bad.note(f"{path.name} line {number}", not_json(error))
                continue
            if isinstance(row, dict):
                yield _Line(row, number, split)
            else:
                bad.note(f"{path.name} line {number}", "not a JSON object")


def _task(rows: Sequence[Mapping[str, Any]], before: str, corpus: str, path: Path) -> str:
    """The task whose examples these are; that of the files before where they alone do not tell.

    Raises:
        InputError: They are of none, or of several.
    """
    found = {task for row in rows if (task := _told(row))} | ({before} - {""})
    if len(found) == 1:
        return found.pop()
    names = ", ".join(sorted(found)) or "none"
    raise InputError(f"corpus {corpus!r}: {path.name} holds examples of {names}; one task is needed")


def _told(row: Mapping[str, Any]) -> str:
    """The task that an example alone tells; empty where it has no bug and says nothing else."""
    if "target_mask" in row:
        return "misuse_repair"
    if "docstring" in row:
        return "function_docstring"
    if isinstance(row.get("function"), str) and _HOLE in row["function"]:
        return "exception_type"
    return _TASK_OF.get(str(row.get("label")), "")


def _file(line: _Line, task: str, path: Path) -> SourceFile:
    row = line.row
    if task == "misuse_repair":
        text, given = _repair(row, line.split)
        info = _string(row, "provenance")
    else:
        text, info, label = _string(row, "function"), _string(row, "info"), _string(row, "label")
        start, end, other_start, other_end = 0, len(text), -1, -1
        if task == "function_docstring":
            words = _string(row, "docstring")
            other_start, other_end = end + 1, end + 1 + len(words)
            text = f"{text}\n{words}"
        elif task == "exception_type":
            start = max(text.find(_HOLE), 0)
            end = start + len(_HOLE) if _HOLE in text else end
        given = Given(task, label, start, end, other_start, other_end, line.split)
    told = _INFO.match(info)
    repository = told["repository"] if told else info
    place = f"{repository}/{told['path']}" if told else info
    return SourceFile(
        path=f"{place}#{path.name}:{line.number}",
        text=text,
        language=_LANGUAGE,
        cluster=repository,
        repository=repository,
        unit="function",
        name=told["name"] if told else "",
        identifier=info,
        given=(given,),
    )


def _repair(row: Mapping[str, Any], split: str) -> tuple[str, Given]:
    """The function of a list of subtokens, with its masks as characters."""
    pieces = row.get("function")
    masks = [row.get(name) for name in ("error_location_mask", "target_mask", "candidate_mask")]
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise EntryError("'function' is not a list of subtokens")
    for name, mask in zip(("error_location_mask", "target_mask", "candidate_mask"), masks, strict=True):
        if not isinstance(mask, list) or len(mask) != len(pieces):
            raise EntryError(f"{name!r} is not a list of {len(pieces)} numbers")
    errors = [place for place, flag in enumerate(masks[0] or ()) if flag]
    targets = [place for place, flag in enumerate(masks[1] or ()) if flag]
    if len(errors) != 1:
        raise EntryError(f"'error_location_mask' marks {len(errors)} places, not 1")
    try:
        whole = joined(pieces)
        facet = facet_of(_LANGUAGE, "program", Program)
        text = untokenize(facet, whole.pieces)
        places = characters(facet, text, whole)
    except ValueError as error:
        raise EntryError(str(error)) from None
    if errors[0] == 0 or not targets:
        return text, Given("misuse_repair", "Correct", 0, 0, split=split)
    error, repair = _spot(places, errors[0], whole), _spot(places, targets[0], whole)
    return text, Given("misuse_repair", "Variable misuse", *error, *repair, split=split)


def _spot(places: Mapping[int, tuple[int, int]], place: int, whole: Subtokens) -> tuple[int, int]:
    if place not in places:
        raise EntryError(f"subtoken {place} of {whole.size} begins no word of the function")
    return places[place]


def _string(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str):
        raise EntryError(f"no {key!r}" if value is None else f"{key!r} is not a string")
    return value


source = Cubert()


_DATASET = "dataset/sonde"


_PUBLISHED = "dataset/"


class CubertForm:
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

    def write(self, task: Task, entries: Sequence[Labelled]) -> str:
        """One line a row that has a label.

        Raises:
            UsageError: A function is in a language without program tokens.
        """
        rows = (
            _LINES.get(task.name, _classified)(entry.item, row)
            for entry in entries
            for row in entry.rows
            if row["label"] is not None
        )
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _classified(item: Item, row: Mapping[str, Any]) -> dict[str, Any]:
    return {"function": item.text, "label": row["label"], "info": _info(item)}


def _exception(item: Item, row: Mapping[str, Any]) -> dict[str, Any]:
    text, start, end = item.text, row["start"], row["end"]
    return {
        "function": text[:start] + HOLE + text[end:],
        "label": row["label"],
        "info": _info(item).removesuffix(f"/{AS_WRITTEN}"),
    }


def _documented(item: Item, row: Mapping[str, Any]) -> dict[str, Any]:
    if row.get("other_start") is None:
        function = facet_of(item.language, "bugs", Bugs).undocumented(item.text).rstrip()
        words = summary_line(item.docstring) or first_line(item)
    else:
        function = item.text[row["start"] : row["end"]]
        words = item.text[row["other_start"] : row["other_end"]]
    return {"function": function, "docstring": words, "label": row["label"], "info": _info(item)}


def _repaired(item: Item, row: Mapping[str, Any]) -> dict[str, Any]:
    found = row.get("other_start") is not None
    error = (row["start"], row["end"]) if found else None
    repair = (row["other_start"], row["other_end"]) if found else None
    where = pointers(item.text, item.language, error, repair)
    lines = masked(
        facet_of(item.language, "program", Program),
        item.text,
        error=where.error,
        targets=where.targets,
        candidates=where.candidates,
    )
    info = _info(item)
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
    "exception_type": _exception,
    "function_docstring": _documented,
    "misuse_repair": _repaired,
}


def _info(item: Item) -> str:
    """Where a function is from and what was done to it; published words stay as they are."""
    name, _, edit = item.name.partition("/")
    if item.identifier.startswith(_PUBLISHED):
        if not edit:
            return item.identifier
        return f"{item.identifier.rpartition(':')[0].removesuffix(f'/{AS_WRITTEN}')}/{edit}"
    return f"{_DATASET} {item.repository}/{item.path} {name}/{edit or AS_WRITTEN}"


form = CubertForm()
