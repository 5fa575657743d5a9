"""Where the functions of a corpus stand, and what its files define and import, kept between runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._kept import KeptAnswers, content_key, kept_path
from sonde.corpora._spread import AHEAD, ItemChunk, Spread, together
from sonde.languages import LANGUAGES, Definition, Function, facet_of, has_facet, parses
from sonde.languages._tagging import Tagging

_FUNCTIONS = "functions"
_IMPORTS = "imports"
_DEFINITIONS = "definitions"


LOST = "with a parse error, where functions may be missing"
"""The reason by which files are counted that are read all the same."""


@dataclass(frozen=True, slots=True)
class FileFunctions:
    """The functions of a file, and whether the grammar reads all of it.

    Attributes:
        functions: The functions.
        parses: False where functions may be missing: of one that stands in an error none is found.
    """

    functions: list[Function]
    parses: bool


class SpansIndex:
    """The functions of a corpus's files, as far as they were found before.

    Args:
        known: By language and content.
    """

    def __init__(self, known: KeptAnswers[FileFunctions]) -> None:
        self.known = known
        self.used: set[str] = set()
        self.imports: dict[str, str] = {}
        self.definitions: dict[str, list[Definition]] = {}

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
        return self._of(file).functions

    def note_lost(self, file: SourceFile, intake: Intake) -> None:
        """Count a file in which functions may be missing."""
        if file.unit == "file" and not self._of(file).parses:
            intake.note(LOST, file.path)

    def _of(self, file: SourceFile) -> FileFunctions:
        key = content_key(file)
        self.used.add(key)
        found = self.known.get(key)
        if found is None:
            (answer,) = _found(ItemChunk(0, None, (file,)))
            found = self._add(key, answer)
        return found

    def _add(self, key: str, answer: _Found) -> FileFunctions:
        found, self.definitions[key], imports = answer
        self.known[key] = found
        if imports is not None:
            self.imports[key] = imports
        return found


_Found = tuple[FileFunctions, list[Definition], str | None]
"""The functions of a file, what it defines, and what it imports."""


def _found(part: ItemChunk[None, SourceFile]) -> list[_Found]:
    """The functions of some files, and what tasks ask of the files later; runs in any process."""
    return [_of_file(file) for file in part.items]


def _of_file(file: SourceFile) -> _Found:
    language = LANGUAGES.load(file.language)
    functions, whole = list(language.functions(file.text)), parses(file.language, file.text)
    return FileFunctions(functions, whole), list(language.definitions(file.text)), _imports(file)


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
    index = SpansIndex(KeptAnswers(kept_path(_FUNCTIONS, corpus, sorted(languages)), _functions, _rows))
    yield index
    if index.known.grown:
        # What the corpus no longer holds goes.
        for key in index.known.keys() - index.used:
            del index.known[key]
        index.known.write()
        with kept_imports(corpus) as imports:
            imports.update(index.imports)
        with kept_definitions(corpus) as definitions:
            definitions.update(index.definitions)


@contextmanager
def kept_imports(corpus: str) -> Generator[MutableMapping[str, str]]:
    """The import statements of a corpus's files, by the key of their content; what is added is kept.

    Args:
        corpus: The corpus as named on the command line.
    """
    held = KeptAnswers(kept_path(_IMPORTS, corpus), str, str)
    yield held
    held.write()


@contextmanager
def kept_definitions(corpus: str) -> Generator[MutableMapping[str, list[Definition]]]:
    """What a corpus's files define, by the key of their content; what is added is kept.

    Args:
        corpus: The corpus as named on the command line.
    """
    held = KeptAnswers(kept_path(_DEFINITIONS, corpus), _definitions, _plain)
    yield held
    held.write()


def _plain(rows: Sequence[Function | Definition]) -> list[tuple[Any, ...]]:
    return [dataclasses.astuple(one) for one in rows]


def _definitions(rows: list[list[Any]]) -> list[Definition]:
    return [Definition(*row) for row in rows]


def _rows(found: FileFunctions) -> list[Any]:
    return [found.parses, _plain(found.functions)]


def _functions(kept: list[Any]) -> FileFunctions:
    parsed, rows = kept
    functions = [
        Function(start, end, name, qualified, docstring, tuple((first, last) for first, last in margins))
        for start, end, name, qualified, docstring, margins in rows
    ]
    return FileFunctions(functions, parsed)
