"""Files to items: one item a function, or one a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from sonde.corpora._corpus import Given, Intake, Item, SourceFile, Tag, item_id
from sonde.corpora._dates import days_between
from sonde.corpora._open import read_files
from sonde.corpora._spans_index import spans_index
from sonde.corpora._spread import ONE, Spread
from sonde.languages import LANGUAGES, Function


def read_items(
    corpus: str,
    intake: Intake,
    *,
    unit: str = "function",
    languages: tuple[str, ...] = (),
    spread: Spread = ONE,
) -> Iterator[Item]:
    """Yield every item of a corpus in the corpus's order: not sampled, capped, filtered or de-duplicated.

    Args:
        corpus: The corpus as named on the command line.
        intake: Counts what is skipped.
        unit: ``"function"`` or ``"file"``.
        languages: Public names; empty means all that the corpus holds.
        spread: Processes that find functions; any number gives the same.

    Raises:
        SondeError: See `read_files`.
    """
    with spans_index(corpus, languages) as index:
        files = read_files(corpus, languages, intake)
        for file in index.ahead(files, spread) if unit == "function" else files:
            yield from items_of(file, unit, intake, index.functions)
            if unit == "function":
                index.note_lost(file, intake)


def _functions(file: SourceFile) -> Sequence[Function]:
    return LANGUAGES.load(file.language).functions(file.text)


def items_of(
    file: SourceFile,
    unit: str,
    intake: Intake,
    functions: Callable[[SourceFile], Sequence[Function]] = _functions,
) -> Iterator[Item]:
    """Yield the items of one file, in text order.

    A file that already is a single function stays whole, comments before it included; where files are
    asked for it is counted as ``single function`` and left out.

    Args:
        file: The file.
        unit: ``"function"`` or ``"file"``.
        intake: Counts what is left out.
        functions: Finds the functions of a file, or knows them.
    """
    if file.unit == "function" and unit == "file":
        intake.note("single function", file.path)
    elif file.unit == "function":
        found = functions(file)
        first = found[0] if found else Function(0, 0, "", "")
        name = file.name or first.qualified_name or file.identifier
        yield _item(file, "function", Function(0, len(file.text), name, name, first.docstring))
    elif unit == "file":
        name = PurePosixPath(file.path).name
        yield _item(file, "file", Function(0, len(file.text), name, name))
    else:
        line, counted = 1, 0
        end = "\n" if "\n" in file.text else "\r"
        for function in functions(file):
            line, counted = line + file.text.count(end, counted, function.start), function.start
            yield _item(file, "function", function, line)


def _item(file: SourceFile, unit: str, span: Function, line: int = 1) -> Item:
    start, end = span.start, span.end
    text = span.taken_from(file.text)
    # The identity stays that of the file's own characters, by which models say what they were trained on.
    own_id = item_id(file.text[start:end], file.language, unit)
    oldest, newest = days_between(file.dates, start, end) if file.dates else ("", "")
    whole = end - start == len(file.text)
    given = file.identifier if whole or not file.identifier else f"{file.identifier}:{start}"
    return Item(
        item_id=own_id,
        text=text,
        language=file.language,
        unit=unit,
        path=file.path,
        name=span.qualified_name,
        offset=start,
        cluster=file.cluster,
        repository=file.repository,
        licence=file.licence,
        docstring=span.docstring,
        identifier=given or own_id,
        tags=tuple(
            Tag(span.inside(tag.start), span.inside(tag.end), tag.label)
            for tag in file.tags
            if start <= tag.start and tag.end <= end
        ),
        given=tuple(_moved(label, span) for label in file.given if _inside(label, start, end)),
        split=file.split,
        oldest=oldest,
        newest=newest,
        line=line,
    )


def _inside(given: Given, start: int, end: int) -> bool:
    other = given.other_start < 0 or (start <= given.other_start and given.other_end <= end)
    return start <= given.start and given.end <= end and other


def _moved(given: Given, span: Function) -> Given:
    other = (given.other_start, given.other_end)
    if given.other_start >= 0:
        other = span.inside(given.other_start), span.inside(given.other_end)
    return dataclasses.replace(
        given,
        start=span.inside(given.start),
        end=span.inside(given.end),
        other_start=other[0],
        other_end=other[1],
    )
