"""Items from a file of JSON lines, with a user's tags on any text.

``jsonl:FILE`` reads one object per line: ``id``, ``code`` and ``language``, and optionally ``tags``
(``[[start, end, "NOUN"], ...]`` in characters of the code, end exclusive), ``path``, ``repository``,
``cluster``, ``licence``, ``name`` and ``date``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from sonde.base.errors import UnknownNameError, UsageError
from sonde.corpora.engine.corpus import SkipCounter, SourceFile, Tag, check_day
from sonde.corpora.engine.source_files import is_unicode, numbered_lines
from sonde.corpora.engine.tables import EntryError, Faults, named_file, not_json, read_entries
from sonde.languages import LANGUAGES

SYNONYMS = ("json lines",)

_OPTIONAL = ("unit", "path", "repository", "cluster", "licence", "name")


def _string(row: dict[str, Any], key: str, default: str | None = None) -> str:
    value = row.get(key, default)
    if value is None:
        raise EntryError(f"no {key!r}")
    if not isinstance(value, str):
        raise EntryError(f"{key!r} is not a string")
    if key != "code" and not is_unicode(value):
        raise EntryError(f"{key!r} {value[:60]!a} has half a character (a lone surrogate)")
    return value


def _tags(row: dict[str, Any], length: int) -> tuple[Tag, ...]:
    entries = row.get("tags") or []
    if not isinstance(entries, list):
        raise EntryError("'tags' is not a list")
    tags: list[Tag] = []
    for tag in entries:
        match tag:
            # True is an int to Python, but no position.
            case [int(start), int(end), str(label)] if label and bool not in (type(start), type(end)):
                pass
            case _:
                raise EntryError(f'tag {json.dumps(tag)[:60]} is not [start, end, "LABEL"]')
        if not is_unicode(label):
            raise EntryError(f"tag {json.dumps(tag)[:60]} has half a character (a lone surrogate)")
        if not 0 <= start < end <= length:
            raise EntryError(f"tag {json.dumps(tag)[:60]} is outside the {length} characters of its code")
        tags.append(Tag(start, end, label))
    return tuple(tags)


def _parse(line: bytes, *, language_names: tuple[str, ...], with_dates: bool) -> SourceFile:
    """Parse a line as a source file, with its day if ``with_dates`` is set.

    Raises:
        EntryError: The line does not hold an item.
    """
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise EntryError("not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise EntryError(not_json(error)) from None
    if not isinstance(row, dict):
        raise EntryError("not a JSON object")
    identifier = str(row["id"]) if isinstance(row.get("id"), int) else _string(row, "id")
    code, language = _string(row, "code"), _string(row, "language")
    if language not in language_names:
        raise EntryError(str(UnknownNameError("language", language, language_names)))
    values = {key: _string(row, key, "") for key in _OPTIONAL}
    if values["unit"] not in ("", "function", "file"):
        raise EntryError(f"'unit' is {values['unit']!r}, not 'function' or 'file'")
    return SourceFile(
        path=f"{values['path']}#{identifier}" if values["path"] else identifier,
        text=code,
        language=language,
        cluster=values["cluster"] or values["repository"] or identifier,
        repository=values["repository"] or identifier,
        licence=values["licence"],
        unit=values["unit"] or "function",
        name=values["name"],
        identifier=identifier,
        tags=_tags(row, len(code)),
        dates=((0, _day(row)),) if with_dates else (),
    )


def _day(row: dict[str, Any]) -> str:
    day = _string(row, "date")
    try:
        check_day("'date'", day)
    except UsageError as error:
        raise EntryError(str(error)) from None
    return day


class JsonLines:
    """`jsonl:FILE`, one object per line.

    ``{"id", "code", "language"}`` and, where known, ``tags`` (``[[start, end, "NOUN"], ...]``, in
    characters of ``code``, end exclusive), ``unit``, ``path``, ``repository``, ``cluster``, ``licence``
    and ``name``. Prose has the language ``text``. Without a repository each line is a cluster of its own.
    ``date`` (``2024-12-31``) is when the code was written, and only read where that is asked for.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield one file per line, in the file's order; its path is ``path#id``, or only the id.

        Raises:
            InputError: The file does not exist, or lines of it do not hold an item: all of them are looked
                for, and the first few are named by number.
            UsageError: FILE is missing.
        """
        return _lines(argument, languages, intake, with_dates=False)

    def dated_files(
        self, argument: str, languages: tuple[str, ...], intake: SkipCounter
    ) -> Iterator[SourceFile]:
        """Yield the same files, each dated by its ``date``.

        Raises:
            InputError: As `files`, or a line has no date.
            UsageError: As `files`.
        """
        return _lines(argument, languages, intake, with_dates=True)


def _lines(
    argument: str, languages: tuple[str, ...], intake: SkipCounter, *, with_dates: bool
) -> Iterator[SourceFile]:
    path = named_file("jsonl", argument)
    corpus = f"jsonl:{argument}"
    parse = partial(_parse, language_names=LANGUAGES.names(), with_dates=with_dates)
    with path.open("rb") as handle:
        entries = ((f"line {number}", line) for number, line in numbered_lines(handle, corpus))
        yield from read_entries(entries, parse, Faults(corpus, "lines"), languages, intake, id_name="id")


source = JsonLines()
