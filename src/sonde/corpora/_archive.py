"""Reading source files out of archives in place: nothing is unpacked, so no name can escape a folder."""

from __future__ import annotations

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePosixPath

from sonde.corpora._corpus import Intake
from sonde.corpora._decode import MAX_BYTES, decode
from sonde.corpora._distribution import inside
from sonde.corpora._suffixes import language_of

Member = tuple[str, str, str]
"""Path, text, language."""


def read_zip(
    archive: Path, table: dict[str, str], intake: Intake, keep: Callable[[str], bool]
) -> Iterator[Member]:
    """Yield path, text and language of a zip archive's source files, sorted by path.

    Args:
        archive: The zip file or wheel.
        table: Suffix to language.
        intake: Counts what is skipped.
        keep: Tells by its path whether a member is wanted.

    Raises:
        zipfile.BadZipFile: The archive is damaged.
    """
    with zipfile.ZipFile(archive) as opened:
        members = {info.filename: info for info in opened.infolist()}
        for path in sorted(inside(iter(members))):
            language = language_of(path, table)
            if language is None or not keep(path):
                continue
            info = members[path]
            if stat.S_ISLNK(info.external_attr >> 16):
                intake.note("symbolic link", path)
                continue
            try:
                with opened.open(info) as stream:
                    # One byte more than is allowed: a header that lies about its size costs no memory.
                    raw = stream.read(MAX_BYTES + 1)
            except (RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile):
                intake.note("unreadable", path)
                continue
            text = decode(raw, path, intake)
            if text is not None:
                yield path, text, language


def read_tar(
    archive: Path, table: dict[str, str], intake: Intake, keep: Callable[[str], bool]
) -> Iterator[Member]:
    """Yield path, text and language of a tar archive's source files, sorted by path; see `read_zip`.

    Raises:
        tarfile.TarError: The archive is damaged.
    """
    found: dict[str, Member] = {}
    with tarfile.open(archive) as opened:
        for info in opened:
            language = language_of(info.name, table)
            if language is None or not keep(info.name) or not list(inside(iter((info.name,)))):
                continue
            if info.issym() or info.islnk():
                intake.note("symbolic link", info.name)
                continue
            stream = opened.extractfile(info)
            if stream is None:
                intake.note("not a regular file", info.name)
                continue
            text = decode(stream.read(MAX_BYTES + 1), info.name, intake)
            if text is not None:
                found[info.name] = (info.name, text, language)
    for path in sorted(found):
        yield found[path]


def read_metadata(archive: Path) -> Message:
    """The core metadata of a wheel or a source distribution; empty where the archive has none.

    Raises:
        zipfile.BadZipFile, tarfile.TarError: The archive is damaged.
    """
    raw = b""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            names = [name for name in opened.namelist() if _is_metadata(name)]
            raw = opened.read(min(names, key=len)) if names else b""
    else:
        with tarfile.open(archive) as opened:
            members = [info for info in opened if info.isreg() and _is_metadata(info.name)]
            stream = opened.extractfile(min(members, key=lambda info: len(info.name))) if members else None
            raw = stream.read() if stream is not None else b""
    return BytesParser().parsebytes(raw)


def _is_metadata(path: str) -> bool:
    pure = PurePosixPath(path)
    return len(pure.parts) == 2 and pure.name in ("METADATA", "PKG-INFO")
