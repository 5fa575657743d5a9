"""Functions with a misused variable, as the VarMisuse benchmark of GREAT publishes them.

``great:PATH`` names a file or a folder of them.

Hellendoorn, Sutton, Singh, Maniatis and Bieber, "Global Relational Models of Source Code" (ICLR 2020): JSON
lines with the tokens of a Python function, whether it has a bug, where, and which tokens would be right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sonde.base.errors import UsageError
from sonde.base.files import expand_home
from sonde.corpora.engine.corpus import Given, SkipCounter, SourceFile
from sonde.corpora.engine.source_files import numbered_lines
from sonde.corpora.engine.tables import EntryError, Faults, files_by_split, json_list, not_json, read_entries

CORRECT, MISUSE = "Correct", "Variable misuse"
"""Labels, as CuBERT's tasks call them."""


_NEWLINE, _INDENT, _UNINDENT = "#NEWLINE#", "#INDENT#", "#UNINDENT#"


_LANGUAGE = "python"


_BLANK = "    "


_TIGHT_BEFORE = frozenset((",", ")", "]", "}", ":", ".", ";"))


_TIGHT_BEHIND = ("(", "[", "{", ".")


class Great:
    """`great:PATH`: a file of JSON lines (or one JSON list), or a folder with the shards of the benchmark.

    In a folder, or in its folders ``train``, ``dev`` and ``eval``, the names of the files say which split an
    example is in. Each example brings labels of the tasks `variable_misuse` and `misuse_repair`. The code is
    written anew from its tokens: with one blank between most of them and four for each level of indentation.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield one file per example, in the order of the files and lines.

        Raises:
            InputError: There is no such file, or entries are malformed: all of them are looked for, and the
                first few are named by file and number.
            UsageError: PATH is missing.
        """
        if not argument:
            raise UsageError("corpus 'great' needs a file or folder; name it as great:PATH")
        corpus = f"great:{argument}"
        faults = Faults(corpus, "entries")
        entries = (
            (f"{path.name} entry {number}", (entry, f"{path.name}:{number}", split))
            for path, split in files_by_split(corpus, expand_home(argument), "{}*", "{}/{}*")
            for number, entry in _entries(corpus, path, faults)
        )
        yield from read_entries(entries, lambda entry: _file(*entry), faults, languages, intake)


def _entries(corpus: str, path: Path, faults: Faults) -> Iterator[tuple[int, Any]]:
    """Yield the entries of a file with their numbers, from 1."""
    with path.open("rb") as handle:
        if handle.read(1) == b"[":
            yield from enumerate(json_list(corpus, path, "examples"), 1)
            return
        handle.seek(0)
        for number, line in numbered_lines(handle, corpus):
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                faults.note(f"{path.name} entry {number}", not_json(error))


def _file(entry: Any, identifier: str, split: str) -> SourceFile:
    if not isinstance(entry, dict):
        raise EntryError("not a JSON object")
    tokens, buggy = entry.get("source_tokens"), entry.get("has_bug")
    error, targets = entry.get("error_location"), entry.get("repair_targets")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise EntryError("'source_tokens' is not a list of strings")
    if not isinstance(buggy, bool):
        raise EntryError("'has_bug' is not true or false")
    text, spans = join_tokens(tokens)
    label, spots = CORRECT, ((0, 0), (-1, -1))
    if buggy:
        if not isinstance(targets, list) or not targets:
            raise EntryError("'repair_targets' is empty, and it has a bug")
        label, spots = MISUSE, (_spot(error, spans, text), _spot(targets[0], spans, text))
    provenance = _provenance(entry)
    return SourceFile(
        path=f"{provenance or 'great'}#{identifier}",
        text=text,
        language=_LANGUAGE,
        cluster="/".join(provenance.split("/")[:2]) or identifier,
        repository="/".join(provenance.split("/")[:2]) or identifier,
        unit="function",
        identifier=identifier,
        given=(
            Given("variable_misuse", label, 0, len(text), split=split),
            Given("misuse_repair", label, *spots[0], *spots[1], split=split),
        ),
    )


def join_tokens(tokens: list[str]) -> tuple[str, dict[int, tuple[int, int]]]:
    """Join an example's tokens to a text; return it and the span of each token by its number.

    A literal that goes over several lines is published in single quotes, which would not parse.
    """
    parts: list[str] = []
    spans: dict[int, tuple[int, int]] = {}
    level, size, previous = 0, 0, _NEWLINE
    for number, token in enumerate(tokens):
        if token in (_INDENT, _UNINDENT):
            level = max(0, level + (1 if token == _INDENT else -1))
            continue
        if token == _NEWLINE:
            piece = "\n" if parts else ""
        else:
            if "\n" in token and token[:1] in "'\"" and token[:3] != token[0] * 3:
                token = token[0] * 2 + token + token[-1] * 2
            piece = _gap(previous, token, level) + token
            spans[number] = (size + len(piece) - len(token), size + len(piece))
        parts.append(piece)
        size, previous = size + len(piece), token
    return "".join(parts).rstrip("\n") + "\n", spans


def _gap(previous: str, token: str, level: int) -> str:
    if previous == _NEWLINE:
        return _BLANK * level
    if token in _TIGHT_BEFORE or previous.endswith(_TIGHT_BEHIND):
        return ""
    is_call = token in ("(", "[") and (previous.isidentifier() or previous in (")", "]"))
    return "" if is_call and previous not in _KEYWORDS else " "


_KEYWORDS = frozenset(
    ("and", "as", "assert", "del", "elif", "else", "for", "if", "in", "is", "lambda", "not", "or", "print")
) | {"return", "while", "with", "yield", "raise", "from", "import", "except", "exec"}


def _spot(number: Any, spans: Mapping[int, tuple[int, int]], text: str) -> tuple[int, int]:
    """Return the span of a token that is a variable."""
    if not isinstance(number, int) or number not in spans:
        raise EntryError(f"token {number!r} is not in the code")
    start, end = spans[number]
    if not text[start:end].isidentifier():
        raise EntryError(f"token {number} is {text[start:end]!r} and not a variable")
    return start, end


def _provenance(entry: Mapping[str, Any]) -> str:
    """Return the origin of an example as ``owner/repository/path``; empty if unknown."""
    match entry.get("provenances"):
        case [{"datasetProvenance": {"filepath": str(path)}}, *_]:
            return path
        case _:
            return ""


source = Great()
