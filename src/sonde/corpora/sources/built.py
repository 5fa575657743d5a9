"""A corpus made by `sonde corpus build`, whole or one of its splits.

``built:DIR`` reads the whole corpus, and ``built:DIR@train`` one split of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.files import expand_home
from sonde.corpora.engine.build import check_split
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.manifest import SPLITS, from_line, read_manifest
from sonde.corpora.engine.source_files import numbered_lines
from sonde.languages import LANGUAGES


class BuiltCorpus:
    """`built:DIR`, or one split as `built:DIR@train`.

    Clusters, repositories, licences, tags and labels are those of the corpora that it was built from.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield the files split by split, in each by path.

        Raises:
            InputError: DIR holds no built corpus, or it is not as it was built.
            UnknownNameError: A split or language that does not exist.
            UsageError: DIR is missing.
        """
        if not argument:
            raise UsageError("corpus 'built' needs a folder; name it as built:DIR or built:DIR@train")
        for name in languages:
            LANGUAGES.load(name)
        folder, splits = _parse_argument(argument)
        manifest = read_manifest(folder)
        # Looked at before the first file is given, so that nothing is measured on half a corpus.
        files = {name: check_split(folder, name, manifest) for name in splits}
        for name, file in files.items():
            yield from _read(file, name, languages)


def _parse_argument(argument: str) -> tuple[Path, tuple[str, ...]]:
    """Parse the folder and the splits; the name of a folder may contain an ``@``."""
    full_path = expand_home(argument)
    folder, separator, name = argument.rpartition("@")
    if not separator or full_path.is_dir() or "/" in name:
        return full_path, SPLITS
    if name not in SPLITS:
        raise UnknownNameError(f"split of corpus 'built:{folder}'", name, SPLITS)
    return expand_home(folder), (name,)


def _read(file: Path, split: str, languages: tuple[str, ...]) -> Iterator[SourceFile]:
    with file.open("rb") as lines:
        for number, line in numbered_lines(lines, f"built:{file.parent}"):
            try:
                source_file = from_line(line, split)
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"corpus 'built:{file.parent}': {file.name}, line {number}: {error}"
                ) from None
            if not languages or source_file.language in languages:
                yield source_file


source = BuiltCorpus()
