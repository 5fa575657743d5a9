"""Corpora by name: ``scheme:argument`` to files, and files to items (one per function or per file)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.base.registry import Registry
from sonde.corpora.engine.content_cache import spans_index
from sonde.corpora.engine.corpus import (
    DatedSource,
    Given,
    Item,
    LabelledSource,
    SkipCounter,
    Source,
    SourceFile,
    Tag,
    find_day_range,
    item_id,
)
from sonde.corpora.engine.parallel import ONE, ParallelMap
from sonde.corpora.engine.source_files import is_unicode
from sonde.corpora.engine.tables import LINE_SUFFIXES, TABLE_SUFFIXES
from sonde.languages import LANGUAGES, Function

CORPORA: Registry[Source] = Registry(
    "sonde.corpora.sources", "corpus", "source", protocols=(Source,), group="sonde.corpora"
)


def check_corpus(corpus: str) -> Source:
    """Return the source that reads a corpus; nothing is read.

    Raises:
        UnknownNameError: No source has this name; the nearest is named.
        UsageError: A folder or table given without its scheme, or a name that is not Unicode.
    """
    if not is_unicode(corpus):
        raise UsageError(f"corpus {corpus!a}: its name is not Unicode; rename the folder or file")
    name = corpus.partition(":")[0]
    is_table = corpus.lower().endswith(TABLE_SUFFIXES)
    # A name may be longer than any path, for which pathlib would raise an error.
    is_path = (is_table and name == corpus) or (not name.endswith(".py") and os.path.exists(corpus))  # noqa: PTH110
    if name not in CORPORA.names() and is_path:
        remedy = f"for a folder or file write local:{corpus}"
        if is_table:
            remedy = f"for a table of labels write labelled:{corpus}"
        if corpus.lower().endswith(LINE_SUFFIXES):
            remedy += f", for code without labels jsonl:{corpus}"
        raise UsageError(f"unknown corpus {corpus!r}; {remedy}")
    return CORPORA.load(name)


def check_corpora(corpora: Sequence[str]) -> None:
    """Check several corpora that are read together; nothing is read.

    The functions of a corpus that is named twice would count twice, in every sample size and every label.

    Raises:
        UsageError: Two names mean the same corpus, or see `check_corpus`.
    """
    names_by_location: dict[tuple[str, str], str] = {}
    for corpus in corpora:
        check_corpus(corpus)
        scheme, _, argument = corpus.partition(":")
        location = argument if "\0" in argument else os.path.realpath(expand_home(argument))
        if (scheme, location) in names_by_location:
            first = names_by_location[scheme, location]
            alias_note = "" if first == corpus else f", the other time as {first!r}"
            raise UsageError(f"corpus {corpus!r} is named twice{alias_note}; name each corpus once")
        names_by_location[scheme, location] = corpus


def tasks_from_corpora(corpora: Sequence[str]) -> tuple[str, ...]:
    """Return the default tasks of corpora that bring labels; empty if no corpus does.

    Raises:
        UsageError: Some corpora bring labels and some do not, so that no task fits all.
        SondeError: See `check_corpus` and `LabelledSource.tasks`.
    """
    tasks: dict[str, None] = {}
    label_free: list[str] = []
    for corpus in corpora:
        source = check_corpus(corpus)
        if isinstance(source, LabelledSource):
            tasks |= dict.fromkeys(source.tasks(corpus.partition(":")[2]))
        else:
            label_free.append(corpus)
    if tasks and label_free:
        raise UsageError(
            f"corpus {label_free[0]!r} brings no labels, and another corpus of the run does; read them in "
            "two runs, or name tasks"
        )
    return tuple(tasks)


def read_files(
    corpus: str, languages: tuple[str, ...], intake: SkipCounter, *, with_dates: bool = False
) -> Iterator[SourceFile]:
    """Yield the files of a corpus in the source's order, each path once.

    Args:
        corpus: The corpus as named on the command line, such as ``local:src``.
        languages: Public names; empty means all that the corpus holds.
        intake: Counts what is skipped, a path seen before as ``duplicate path``, and as ``name is not
            Unicode`` what has half a character in its path, cluster, labels or the like.
        with_dates: Also find out when the files were written, see `SourceFile.dates`.

    Raises:
        UnknownNameError: No source or language has this name; the nearest is named.
        UsageError: A folder given without its scheme.
        InputError: The argument names nothing that can be read, or it is not known when it was written.
    """
    source, argument = check_corpus(corpus), corpus.partition(":")[2]
    paths: set[str] = set()
    for file in (_require_dated_source(source, corpus).dated_files if with_dates else source.files)(
        argument, languages, intake
    ):
        if file.path in paths:
            intake.note("duplicate path", file.path)
            continue
        paths.add(file.path)
        if not all(map(is_unicode, _names(file))):
            intake.note("name is not Unicode", ascii(file.path))
            continue
        yield file


def _require_dated_source(source: Source, corpus: str) -> DatedSource:
    """Return the source if it knows when its files were written.

    Raises:
        InputError: It does not know.
    """
    if isinstance(source, DatedSource):
        return source
    raise InputError(
        f"corpus {corpus!r}: the dates of its code are unknown; git:PATH has them by line, "
        "pypi:NAME==VERSION and npm:NAME@VERSION by release, and jsonl:FILE if its lines have a "
        "date"
    )


def _names(file: SourceFile) -> Iterator[str]:
    """Yield all metadata of a file that is written to tables, reports and the terminal."""
    yield from (file.path, file.cluster, file.repository, file.licence, file.version, file.name)
    yield file.identifier
    yield from (tag.label for tag in file.tags)
    yield from (label.label for label in file.given)


def read_items(
    corpus: str,
    intake: SkipCounter,
    *,
    unit: str = "function",
    languages: tuple[str, ...] = (),
    parallel: ParallelMap = ONE,
) -> Iterator[Item]:
    """Yield every item of a corpus in the corpus's order: not sampled, capped, filtered or de-duplicated.

    Args:
        corpus: The corpus as named on the command line.
        intake: Counts what is skipped.
        unit: ``"function"`` or ``"file"``.
        languages: Public names; empty means all that the corpus holds.
        parallel: Processes that find functions; their number does not change the items.

    Raises:
        SondeError: See `read_files`.
    """
    with spans_index(corpus, languages) as index:
        files = read_files(corpus, languages, intake)
        for file in index.prefetch(files, parallel) if unit == "function" else files:
            yield from extract_items(file, unit, intake, index.functions)
            if unit == "function":
                index.count_incomplete(file, intake)


def _functions(file: SourceFile) -> Sequence[Function]:
    return LANGUAGES.load(file.language).functions(file.text)


def extract_items(
    file: SourceFile,
    unit: str,
    intake: SkipCounter,
    functions: Callable[[SourceFile], Sequence[Function]] = _functions,
) -> Iterator[Item]:
    """Yield the items of one file, in text order.

    A file that already is a single function stays whole, comments before it included; if files are
    requested, it is left out and counted as ``single function``.

    Args:
        file: The file.
        unit: ``"function"`` or ``"file"``.
        intake: Counts what is left out.
        functions: Returns the functions of a file.
    """
    if file.unit == "function" and unit == "file":
        intake.note("single function", file.path)
    elif file.unit == "function":
        spans = functions(file)
        first = spans[0] if spans else Function(0, 0, "", "")
        name = file.name or first.qualified_name or file.identifier
        whole = Function(0, len(file.text), name, name, first.docstring)
        yield _item(file, "function", whole, file.line)
    elif unit == "file":
        name = PurePosixPath(file.path).name
        yield _item(file, "file", Function(0, len(file.text), name, name))
    else:
        line, position = 1, 0
        end = "\n" if "\n" in file.text else "\r"
        for function in functions(file):
            line, position = line + file.text.count(end, position, function.start), function.start
            yield _item(file, "function", function, line)


def _item(file: SourceFile, unit: str, span: Function, line: int = 1) -> Item:
    start, end = span.start, span.end
    text = span.slice_from(file.text)
    # The identity stays that of the file's own characters, by which models say what they were trained on.
    own_id = item_id(file.text[start:end], file.language, unit)
    oldest, newest = find_day_range(file.dates, start, end) if file.dates else ("", "")
    is_whole_file = end - start == len(file.text)
    identifier = file.identifier if is_whole_file or not file.identifier else f"{file.identifier}:{start}"
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
        identifier=identifier or own_id,
        tags=tuple(
            Tag(span.to_function_position(tag.start), span.to_function_position(tag.end), tag.label)
            for tag in file.tags
            if start <= tag.start and tag.end <= end
        ),
        given=tuple(_shift_label(label, span) for label in file.given if _lies_in_span(label, start, end)),
        split=file.split,
        oldest=oldest,
        newest=newest,
        line=line,
    )


def _lies_in_span(label: Given, start: int, end: int) -> bool:
    is_other_inside = label.other_start < 0 or (start <= label.other_start and label.other_end <= end)
    return start <= label.start and label.end <= end and is_other_inside


def _shift_label(label: Given, span: Function) -> Given:
    other_span = (label.other_start, label.other_end)
    if label.other_start >= 0:
        other_span = span.to_function_position(label.other_start), span.to_function_position(label.other_end)
    return dataclasses.replace(
        label,
        start=span.to_function_position(label.start),
        end=span.to_function_position(label.end),
        other_start=other_span[0],
        other_end=other_span[1],
    )
