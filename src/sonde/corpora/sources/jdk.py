"""The class library of a Java Development Kit, from its src.zip.

``jdk`` looks for an installed kit, and ``jdk:/path/to/src.zip`` names the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sonde.base.errors import InputError
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.releases import read_library
from sonde.corpora.engine.source_files import suffix_table

SYNONYMS = ("java standard library",)

_JVM_FOLDER = Path("/usr/lib/jvm")


_LICENCE = "GPL-2.0 WITH Classpath-exception-2.0"


def _candidates(argument: str) -> list[Path]:
    if argument:
        location = Path(argument)
        return [location, location / "lib" / "src.zip", location / "src.zip"]
    home = os.environ.get("JAVA_HOME")
    at_home = [Path(home) / "lib" / "src.zip", Path(home) / "src.zip"] if home else []
    return at_home + sorted(_JVM_FOLDER.glob("*/lib/src.zip"))


def _find(argument: str) -> Path:
    for path in _candidates(argument):
        if path.is_file():
            return path
    locations = argument or f"JAVA_HOME and {_JVM_FOLDER}/*/lib/src.zip"
    raise InputError(
        f"corpus 'jdk': no src.zip at {locations}; install one (apt-get install openjdk-17-source) "
        "or name it as jdk:/path/to/src.zip"
    )


def _version(archive: Path) -> str:
    for folder in (archive.parent, archive.parent.parent):
        release = folder / "release"
        if release.is_file():
            match = re.search(r'^JAVA_VERSION="([^"]*)"', release.read_text("utf-8", "replace"), re.MULTILINE)
            return match[1] if match else ""
    return ""


class JavaLibrary:
    """`jdk[:PATH]`: cluster and repository are the package, such as ``java.util.concurrent``.

    PATH is a ``src.zip`` or the home of a development kit. Without it, JAVA_HOME is looked at and then
    the first of ``/usr/lib/jvm/*/lib/src.zip`` in sorted order. Files outside any package, such as the
    modules' own descriptions, are left out.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield the archive's files, read in place: nothing is unpacked.

        Raises:
            InputError: There is no ``src.zip``, or it is damaged.
        """
        archive = _find(argument)
        return read_library(
            archive,
            suffix_table(languages),
            intake,
            corpus="jdk",
            licence=_LICENCE,
            version=_version(archive),
        )


source = JavaLibrary()
