"""The standard library of this interpreter, without its tests, IDLE and lib2to3."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from sonde.base.errors import InputError, UsageError
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.source_files import (
    NOT_SOURCE,
    TEST_FOLDERS,
    find_language,
    read_text,
    suffix_table,
    walk,
)

SYNONYMS = ("python standard library",)

_LEFT_OUT = NOT_SOURCE | TEST_FOLDERS | {"lib2to3", "idlelib"}


def _skip(path: str) -> bool:
    return PurePosixPath(path).name in _LEFT_OUT


class StandardLibrary:
    """`stdlib`: cluster and repository are the top-level module or package."""

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield the library's files, read as text and never imported.

        Raises:
            InputError: This interpreter has no standard library on disk.
            UsageError: An argument was given.
        """
        if argument:
            raise UsageError(f"corpus 'stdlib' takes no argument, got {argument!r}; name it as `stdlib`")
        root = Path(sysconfig.get_paths()["stdlib"])
        if not root.is_dir():
            raise InputError(
                f"corpus 'stdlib': {root} is not a folder; use a Python that ships its library as files"
            )
        table = suffix_table(languages)
        for path in walk(root, intake, _skip):
            language = find_language(path, table)
            text = read_text(root / path, path, intake) if language else None
            if language is None or text is None:
                continue
            module = PurePosixPath(path).parts[0].removesuffix(PurePosixPath(path).suffix)
            yield SourceFile(
                path=path,
                text=text,
                language=language,
                cluster=module,
                repository=module,
                licence="PSF-2.0",
                version=platform.python_version(),
            )


source = StandardLibrary()
