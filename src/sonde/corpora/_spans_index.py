"""Where the functions of a corpus stand and what its files import, kept from one run to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sonde.corpora._corpus import SourceFile
from sonde.corpora._kept import content_key, kept_path, read_kept, write_kept
from sonde.corpora._spread import AHEAD, ItemChunk, Spread, together
from sonde.languages import LANGUAGES, Function, facet_of, has_facet
from sonde.languages._tagging import Tagging

_FUNCTIONS = "functions"
_IMPORTS = "imports"


class SpansIndex:
    """The functions of a corpus's files, as far as they were found before.

    Args:
        known: By language and content.
    """

    def __init__(self, known: dict[str, list[Function]]) -> None:
        self.known = known
        self.used: dict[str, list[Function]] = {}
        self.imports: dict[str, str] = {}
        self.grown = False

    def ahead(self, files: Iterable[SourceFile], spread: Spread) -> Iterator[SourceFile]:
        """The files in their order, what is in each being found before by several processes.

        Args:
            files: The files; as many are held as these have in hand.
            spread: Processes that read; where it is this one alone, `functions` finds what it is asked for.
        """
        if spread.alone:
            yield from files
            return
        for some in together(files, times=AHEAD * spread.workers):
            missing = {key: file for file in some if (key := content_key(file)) not in self.known}
            answers = spread.of_files.over(_found, None, missing.values())
            for key, (_, found) in zip(missing, answers, strict=True):
                self._add(key, found)
            yield from some

    def functions(self, file: SourceFile) -> Sequence[Function]:
        """The functions of a file, found now where they are not known."""
        key = content_key(file)
        found = self.known.get(key)
        if found is None:
            (answer,) = _found(ItemChunk(0, None, (file,)))
            found = self._add(key, answer)
        self.used[key] = found
        return found

    def _add(self, key: str, found: tuple[list[Function], str | None]) -> list[Function]:
        self.known[key], imports = found
        self.grown = True
        if imports is not None:
            self.imports[key] = imports
        return self.known[key]


def _found(part: ItemChunk[None, SourceFile]) -> list[tuple[list[Function], str | None]]:
    """The functions of some files and what they import, which tasks ask for later; runs in any process."""
    return [(list(LANGUAGES.load(file.language).functions(file.text)), _imports(file)) for file in part.items]


def _imports(file: SourceFile) -> str | None:
    """The import statements of a file; None where the language has no account of them."""
    tagging = has_facet(file.language, "tagging")
    return facet_of(file.language, "tagging", Tagging).imports(file.text) if tagging else None


@contextmanager
def spans_index(corpus: str, languages: tuple[str, ...]) -> Generator[SpansIndex]:
    """The index of a corpus, written back when something was found that it did not hold.

    Args:
        corpus: The corpus as named on the command line.
        languages: Public names of the languages that are read; empty means all.
    """
    path = kept_path(_FUNCTIONS, corpus, sorted(languages))
    index = SpansIndex(_functions(read_kept(path)))
    yield index
    if index.grown:
        write_kept(
            path, {key: [dataclasses.astuple(one) for one in found] for key, found in index.used.items()}
        )
        with kept_imports(corpus) as known:
            known.update(index.imports)


@contextmanager
def kept_imports(corpus: str) -> Generator[dict[str, str]]:
    """The import statements of a corpus's files, by the key of their content; what is added is kept.

    Args:
        corpus: The corpus as named on the command line.
    """
    path = kept_path(_IMPORTS, corpus)
    known = {key: found for key, found in read_kept(path).items() if isinstance(found, str)}
    before = len(known)
    yield known
    if len(known) > before:
        write_kept(path, known)


def _functions(raw: dict[str, Any]) -> dict[str, list[Function]]:
    try:
        return {key: [_function(row) for row in rows] for key, rows in raw.items()}
    except (ValueError, TypeError):
        return {}


def _function(row: list[Any]) -> Function:
    start, end, name, qualified, docstring, margins = row
    return Function(start, end, name, qualified, docstring, tuple((first, last) for first, last in margins))
