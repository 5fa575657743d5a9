"""Reading source files out of archives in place: nothing is unpacked, so no name can escape a folder."""

from __future__ import annotations

import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from typing import IO, cast

from sonde.corpora._bounded import MAX_METADATA, Meter, Unpacked
from sonde.corpora._corpus import Intake
from sonde.corpora._decode import MAX_BYTES, decode
from sonde.corpora._distribution import inside
from sonde.corpora._walk import language_of

_DAMAGED = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, EOFError)

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
        InputError: It unpacks to more than any code does.
    """
    meter = Meter(str(archive), archive.stat().st_size)
    with zipfile.ZipFile(archive) as opened:
        members = {info.filename: info for info in opened.infolist()}
        meter.spend(0, len(members))
        for path in sorted(inside(iter(members))):
            language = language_of(path, table)
            if language is None or not keep(path):
                continue
            info = members[path]
            if stat.S_ISLNK(info.external_attr >> 16):
                intake.note("symbolic link", path)
                continue
            if info.file_size > MAX_BYTES:
                intake.note("too large", path)
                continue
            try:
                with opened.open(info) as stream:
                    # A header may say less than there is.
                    raw = meter.read(stream, MAX_BYTES)
            except (RuntimeError, NotImplementedError, *_DAMAGED):
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
        InputError: It unpacks to more than any code does.
    """
    found: dict[str, Member] = {}
    with _opened(archive) as (opened, meter):
        for info in opened:
            meter.spend(0, 1)
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
            if info.size > MAX_BYTES:
                intake.note("too large", info.name)
                continue
            text = decode(stream.read(MAX_BYTES + 1), info.name, intake)
            if text is not None:
                found[info.name] = (info.name, text, language)
    for path in sorted(found):
        yield found[path]


def read_metadata(archive: Path) -> Message:
    """The core metadata of a wheel or a source distribution, see `read_described`."""
    return BytesParser().parsebytes(read_described(archive, ("METADATA", "PKG-INFO")))


def read_described(archive: Path, names: tuple[str, ...]) -> bytes:
    """What an archive says of itself, in a file right below its outermost folder; empty where it has none.

    Args:
        archive: The archive.
        names: What the file may be called.

    Raises:
        zipfile.BadZipFile, tarfile.TarError: The archive is damaged.
        InputError: The file is no description, by its size.
    """

    def describes(path: str) -> bool:
        pure = PurePosixPath(path)
        return len(pure.parts) == 2 and pure.name in names

    raw = b""
    if zipfile.is_zipfile(archive):
        meter = Meter(str(archive), archive.stat().st_size)
        with zipfile.ZipFile(archive) as opened:
            found = [name for name in opened.namelist() if describes(name)]
            if found:
                name = min(found, key=len)
                try:
                    with opened.open(name) as stream:
                        raw = meter.whole(stream, MAX_METADATA, name, opened.getinfo(name).file_size)
                except (*_DAMAGED, RuntimeError, NotImplementedError) as error:
                    raise zipfile.BadZipFile(f"{name}: {error}") from None
    else:
        shortest = ""
        with _opened(archive) as (opened, meter):
            for info in opened:
                meter.spend(0, 1)
                better = not shortest or len(info.name) < len(shortest)
                if info.isreg() and describes(info.name) and better:
                    stream = opened.extractfile(info)
                    assert stream is not None
                    raw, shortest = meter.whole(stream, MAX_METADATA, info.name), info.name
    return raw


@contextmanager
def _opened(archive: Path) -> Generator[tuple[tarfile.TarFile, Meter]]:
    """A tar archive read from front to back, every unpacked byte of it counted.

    Raises:
        tarfile.TarError: The archive is damaged.
    """
    try:
        # Of a stream no more is asked than to be read.
        with (
            Unpacked(archive) as unpacked,
            tarfile.open(fileobj=cast(IO[bytes], unpacked), mode="r|") as opened,
        ):
            yield opened, unpacked.meter
    except (*_DAMAGED, ValueError, OverflowError) as error:
        raise tarfile.ReadError(str(error)) from error
