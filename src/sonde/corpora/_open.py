"""Corpora by name: ``scheme:argument`` to files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sonde.base.errors import InputError, UsageError
from sonde.base.files import expand_home
from sonde.base.registry import Registry
from sonde.corpora._corpus import DatedSource, Intake, LabelledSource, Source, SourceFile
from sonde.corpora._decode import is_unicode

CORPORA: Registry[Source] = Registry("sonde.corpora", "corpus", "source", protocols=(Source,))


def check_corpus(corpus: str) -> Source:
    """The source that a corpus is read by; nothing is read.

    Raises:
        UnknownNameError: No source has this name; the nearest is named.
        UsageError: A folder given without its scheme, or a name that is not Unicode.
    """
    if not is_unicode(corpus):
        raise UsageError(f"corpus {corpus!a}: its name is not Unicode; rename the folder or file")
    name = corpus.partition(":")[0]
    if name not in CORPORA.names() and not name.endswith(".py") and Path(corpus).exists():
        raise UsageError(f"unknown corpus {corpus!r}; for a folder or file write local:{corpus}")
    return CORPORA.load(name)


def check_corpora(corpora: Sequence[str]) -> None:
    """Check several corpora that are read together; nothing is read.

    The functions of a corpus that is named twice would count twice, in every sample size and every label.

    Raises:
        UsageError: Two names mean the same corpus, or see `check_corpus`.
    """
    seen: dict[tuple[str, str], str] = {}
    for corpus in corpora:
        check_corpus(corpus)
        scheme, _, argument = corpus.partition(":")
        place = argument if "\0" in argument else os.path.realpath(expand_home(argument))
        if (scheme, place) in seen:
            first = seen[scheme, place]
            other = "" if first == corpus else f", the other time as {first!r}"
            raise UsageError(f"corpus {corpus!r} is named twice{other}; name each corpus once")
        seen[scheme, place] = corpus


def brought_tasks(corpora: Sequence[str]) -> tuple[str, ...]:
    """The tasks that a run asks of corpora where it names none; empty where corpora bring no labels.

    Raises:
        UsageError: Some corpora bring labels and some do not, so that no task fits all.
        SondeError: See `check_corpus` and `LabelledSource.tasks`.
    """
    found: dict[str, None] = {}
    without: list[str] = []
    for corpus in corpora:
        source = check_corpus(corpus)
        if isinstance(source, LabelledSource):
            found |= dict.fromkeys(source.tasks(corpus.partition(":")[2]))
        else:
            without.append(corpus)
    if found and without:
        raise UsageError(
            f"corpus {without[0]!r} brings no labels, and another corpus of the run does; read them in "
            "two runs, or name tasks"
        )
    return tuple(found)


def read_files(
    corpus: str, languages: tuple[str, ...], intake: Intake, *, dated: bool = False
) -> Iterator[SourceFile]:
    """Yield the files of a corpus in the source's order, each path once.

    Args:
        corpus: The corpus as named on the command line, such as ``local:src``.
        languages: Public names; empty means all that the corpus holds.
        intake: Counts what is skipped, a path seen before as ``duplicate path``, and as ``name is not
            Unicode`` what has half a character in its path, cluster, labels or the like.
        dated: Also ask when the files were written, see `SourceFile.dates`.

    Raises:
        UnknownNameError: No source or language has this name; the nearest is named.
        UsageError: A folder given without its scheme.
        InputError: The argument names nothing that can be read, or it is not known when it was written.
    """
    source, argument = check_corpus(corpus), corpus.partition(":")[2]
    seen: set[str] = set()
    for file in (_dated(source, corpus).dated_files if dated else source.files)(argument, languages, intake):
        if file.path in seen:
            intake.note("duplicate path", file.path)
            continue
        seen.add(file.path)
        if not all(map(is_unicode, _names(file))):
            intake.note("name is not Unicode", ascii(file.path))
            continue
        yield file


def _dated(source: Source, corpus: str) -> DatedSource:
    """A source that knows when its files were written.

    Raises:
        InputError: It does not know.
    """
    if isinstance(source, DatedSource):
        return source
    raise InputError(
        f"corpus {corpus!r}: when its code was written is not known; git:PATH knows it by line, "
        "pypi:NAME==VERSION and npm:NAME@VERSION by release, and jsonl:FILE where its lines have a date"
    )


def _names(file: SourceFile) -> Iterator[str]:
    """Whatever a source says of a file beside its text: written to tables, pages and the terminal."""
    yield from (file.path, file.cluster, file.repository, file.licence, file.version, file.name)
    yield file.identifier
    yield from (tag.label for tag in file.tags)
    yield from (one.label for one in file.given)
