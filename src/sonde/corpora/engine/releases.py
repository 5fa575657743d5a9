"""Released packages: requested releases, downloads, archives, metadata and upload days.

An archive is fetched once, kept in the cache (`sonde cache info`) and read in place: nothing of it is
unpacked, built, installed or run, so no member name can escape a folder.

Metadata gives the normalised name, licence and files of a distribution. Java libraries are read from archives
as development kits ship them. From an index of packages only its answers are read, and archives that are what
they claim to be.
"""

from __future__ import annotations

import dataclasses
import hashlib
import lzma
import re
import stat
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from typing import IO, ClassVar, cast
from urllib.parse import urlsplit

from sonde.base.errors import InputError, UsageError
from sonde.base.files import get_cache_folder, write_atomic
from sonde.base.formatting import format_bytes
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.source_files import (
    MAX_BYTES,
    MAX_METADATA,
    MAX_WHOLE,
    TEST_FOLDERS,
    LimitedStream,
    SizeLimit,
    decode,
    find_language,
    read_document,
    suffix_table,
)
from sonde.corpora.engine.tables import named_file

_LONGEST_LICENCE = 200


_CLASSIFIER = "License :: "


def parse_licence(metadata: Message) -> str:
    """Return the licence of core metadata: its expression (PEP 639), else its field, else its classifiers.

    A licence field that holds the whole text of a licence is passed over, since it names nothing.
    """
    expression = _field(metadata, "License-Expression")
    if expression:
        return expression
    licence = _field(metadata, "License")
    if licence and "\n" not in licence and len(licence) <= _LONGEST_LICENCE and licence != "UNKNOWN":
        return licence
    classifiers = [
        str(value) for value in metadata.get_all("Classifier") or () if value.startswith(_CLASSIFIER)
    ]
    return " OR ".join(classifier.rpartition(" :: ")[2] for classifier in classifiers)


def is_test(path: str) -> bool:
    """Return whether a file of a distribution is a test, by the names of its folders and its own."""
    pure = PurePosixPath(path)
    stem = pure.stem
    return (
        not TEST_FOLDERS.isdisjoint(pure.parts[:-1])
        or stem == "conftest"
        or stem.startswith("test_")
        or stem.endswith(("_test", ".test", ".spec"))
    )


def select_safe_paths(paths: Iterator[str]) -> Iterator[str]:
    """Yield the paths that stay inside the folder they are relative to."""
    for path in paths:
        pure = PurePosixPath(path)
        if not pure.is_absolute() and ".." not in pure.parts and "\\" not in path:
            yield path


def _field(metadata: Message, name: str) -> str:
    value = metadata.get(name)
    return str(value).strip() if value else ""


_DAMAGE_ERRORS = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, EOFError)


Member = tuple[str, str, str]
"""Path, text, language."""


def read_zip(
    archive: Path, table: dict[str, str], intake: SkipCounter, keep: Callable[[str], bool]
) -> Iterator[Member]:
    """Yield path, text and language of a zip archive's source files, sorted by path.

    Args:
        archive: The zip file or wheel.
        table: Suffix to language.
        intake: Counts what is skipped.
        keep: Tells by its path whether a member is kept.

    Raises:
        zipfile.BadZipFile: The archive is damaged.
        InputError: It unpacks to more than any code does.
    """
    meter = SizeLimit(str(archive), archive.stat().st_size)
    with zipfile.ZipFile(archive) as archive_file:
        members = {info.filename: info for info in archive_file.infolist()}
        meter.spend(0, len(members))
        for path in sorted(select_safe_paths(iter(members))):
            language = find_language(path, table)
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
                with archive_file.open(info) as stream:
                    # A header may say less than there is.
                    raw = meter.read(stream, MAX_BYTES)
            except (RuntimeError, NotImplementedError, *_DAMAGE_ERRORS):
                intake.note("unreadable", path)
                continue
            text = decode(raw, path, intake)
            if text is not None:
                yield path, text, language


def read_tar(
    archive: Path, table: dict[str, str], intake: SkipCounter, keep: Callable[[str], bool]
) -> Iterator[Member]:
    """Yield path, text and language of a tar archive's source files, sorted by path; see `read_zip`.

    Raises:
        tarfile.TarError: The archive is damaged.
        InputError: It unpacks to more than any code does.
    """
    members: dict[str, Member] = {}
    with _open_tar(archive) as (archive_file, meter):
        for info in archive_file:
            meter.spend(0, 1)
            language = find_language(info.name, table)
            if language is None or not keep(info.name) or not list(select_safe_paths(iter((info.name,)))):
                continue
            if info.issym() or info.islnk():
                intake.note("symbolic link", info.name)
                continue
            stream = archive_file.extractfile(info)
            if stream is None:
                intake.note("not a regular file", info.name)
                continue
            if info.size > MAX_BYTES:
                intake.note("too large", info.name)
                continue
            text = decode(stream.read(MAX_BYTES + 1), info.name, intake)
            if text is not None:
                members[info.name] = (info.name, text, language)
    for path in sorted(members):
        yield members[path]


def read_metadata(archive: Path) -> Message:
    """Read the core metadata of a wheel or a source distribution, see `read_metadata_file`."""
    return BytesParser().parsebytes(read_metadata_file(archive, ("METADATA", "PKG-INFO")))


def read_metadata_file(archive: Path, names: tuple[str, ...]) -> bytes:
    """Read an archive's description of itself, directly below its top folder; empty if it has none.

    Args:
        archive: The archive.
        names: Possible names of the file.

    Raises:
        zipfile.BadZipFile, tarfile.TarError: The archive is damaged.
        InputError: The file is no description, by its size.
    """

    def describes(path: str) -> bool:
        pure = PurePosixPath(path)
        return len(pure.parts) == 2 and pure.name in names

    raw = b""
    if zipfile.is_zipfile(archive):
        meter = SizeLimit(str(archive), archive.stat().st_size)
        with zipfile.ZipFile(archive) as archive_file:
            candidates = [name for name in archive_file.namelist() if describes(name)]
            if candidates:
                name = min(candidates, key=len)
                try:
                    with archive_file.open(name) as stream:
                        raw = meter.read_all(stream, MAX_METADATA, name, archive_file.getinfo(name).file_size)
                except (*_DAMAGE_ERRORS, RuntimeError, NotImplementedError) as error:
                    raise zipfile.BadZipFile(f"{name}: {error}") from None
    else:
        shortest = ""
        with _open_tar(archive) as (archive_file, meter):
            for info in archive_file:
                meter.spend(0, 1)
                is_shorter = not shortest or len(info.name) < len(shortest)
                if info.isreg() and describes(info.name) and is_shorter:
                    stream = archive_file.extractfile(info)
                    assert stream is not None
                    raw, shortest = meter.read_all(stream, MAX_METADATA, info.name), info.name
    return raw


@contextmanager
def _open_tar(archive: Path) -> Generator[tuple[tarfile.TarFile, SizeLimit]]:
    """Open a tar archive as a stream with a limit on the bytes that are unpacked.

    Raises:
        tarfile.TarError: The archive is damaged.
    """
    try:
        # Of a stream no more is asked than to be read.
        with (
            LimitedStream(archive) as stream,
            tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as archive_file,
        ):
            yield archive_file, stream.meter
    except (*_DAMAGE_ERRORS, ValueError, OverflowError) as error:
        raise tarfile.ReadError(str(error)) from error


_ARCHIVES = (".whl", ".tar.gz", ".tgz", ".zip", ".tar.bz2")


class ReleaseSource(ABC):
    """`SCHEME:RELEASE`: cluster and repository are the package, by its name.

    Several releases, of one package or of many, are one corpus where commas stand between them, or where
    ``SCHEME:FILE.txt`` names a file with one a line; their paths are then below ``NAME-VERSION/``.

    Attributes:
        scheme: Text before the colon, and folder of the cache.
        release: Pattern of a release; its groups are name and version.
        form: The pattern in words, for messages.
        example: A release that exists.
        setting: The setting that names the index, with its program.
    """

    scheme: ClassVar[str]
    release: ClassVar[re.Pattern[str]]
    form: ClassVar[str]
    example: ClassVar[str]
    setting: ClassVar[str]

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield the files of each release without its tests, sorted by path.

        Raises:
            InputError: There is no such release, it cannot be reached, or its archive is damaged.
            UsageError: The argument names no release.
        """
        releases = self._releases(argument)
        for name, version in releases:
            for file in self._files(name, version, languages, intake):
                if len(releases) > 1:
                    file = dataclasses.replace(file, path=f"{name}-{version}/{file.path}")
                yield file

    def dated_files(
        self, argument: str, languages: tuple[str, ...], intake: SkipCounter
    ) -> Iterator[SourceFile]:
        """Yield the same files, dated by their release in the index; they may be older.

        Raises:
            InputError: As `files`, or the index does not say when a release was uploaded.
            UsageError: As `files`.
        """
        days = {release: self._find_upload_day(*release) for release in self._releases(argument)}
        for file in self.files(argument, languages, intake):
            yield dataclasses.replace(file, dates=((0, days[file.repository, file.version]),))

    @abstractmethod
    def download(self, name: str, version: str, folder: Path, tell: Callable[[str], None]) -> None:
        """Fetch the archive of a release into a folder.

        Args:
            name: Normalised name.
            version: The version.
            folder: The folder.
            tell: Called with a line on its size before the download begins.

        Raises:
            InputError: There is no such release, it cannot be reached, or is not what the index promises.
        """

    @abstractmethod
    def upload_day(self, name: str, version: str) -> str:
        """Return the day of a release according to the index; empty if it gives none.

        Raises:
            InputError: The index cannot be reached.
        """

    @abstractmethod
    def licence(self, archive: Path) -> str:
        """Return the licence that an archive names; empty if it names none."""

    def normalise(self, name: str) -> str:
        """Return the name of a package as the index compares it."""
        return name

    def members(self, archive: Path, table: dict[str, str], intake: SkipCounter) -> Iterator[Member]:
        """Yield the source files of an archive."""
        read = read_zip if archive.suffix in (".whl", ".zip") else read_tar
        return read(archive, table, intake, lambda path: not is_test(path))

    def _releases(self, argument: str) -> list[tuple[str, str]]:
        """Return the names and versions of the requested releases.

        Raises:
            InputError: A file that cannot be read.
            UsageError: Something else than names and versions.
        """
        releases = argument.split(",")
        if argument.endswith(".txt"):
            raw = read_document(named_file(self.scheme, argument), f"{self.scheme}:{argument}")
            lines = (line.partition("#")[0].strip() for line in raw.decode("utf-8", "replace").splitlines())
            releases = [line for line in lines if line]
        matches = [self.release.fullmatch(text.strip()) for text in releases]
        if not matches or not all(matches):
            wrong = next((text for text, match in zip(releases, matches, strict=True) if match is None), "")
            raise UsageError(
                f"corpus '{self.scheme}:{argument}': {wrong!r} is not a release; name it as "
                f"{self.scheme}:{self.form}, such as {self.scheme}:{self.example}"
            )
        return list(dict.fromkeys((self.normalise(match[1]), match[2]) for match in matches if match))

    def _files(
        self, name: str, version: str, languages: tuple[str, ...], intake: SkipCounter
    ) -> Iterator[SourceFile]:
        archive = self._archive(name, version, intake.tell)
        try:
            licence = self.licence(archive)
            for path, text, language in self.members(archive, suffix_table(languages), intake):
                yield SourceFile(
                    path=path,
                    text=text,
                    language=language,
                    cluster=name,
                    repository=name,
                    licence=licence,
                    version=version,
                )
        except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
            raise InputError(
                f"{self._corpus(name, version)}: {archive} is damaged: {error}; delete it"
            ) from error

    def _archive(self, name: str, version: str, tell: Callable[[str], None]) -> Path:
        """Return the archive of a release, from the cache or downloaded into it."""
        folder = get_cache_folder(self.scheme) / name / version
        if not (archives := _list_archives(folder)):
            self.download(name, version, folder, tell)
            archives = _list_archives(folder)
        return archives[0]

    def _find_upload_day(self, name: str, version: str) -> str:
        """Return the day of a release, from the cache or the index.

        Raises:
            InputError: The index cannot be reached, or does not say.
        """
        cache_file = get_cache_folder(self.scheme) / name / version / "uploaded"
        if cache_file.is_file():
            return cache_file.read_text("utf-8")
        day = self.upload_day(name, version)
        if not day:
            raise InputError(
                f"{self._corpus(name, version)}: the index does not say when it was uploaded; ask one that "
                f"does ({self.setting}), such as the public one, or read its repository with git:PATH"
            )
        write_atomic(cache_file, day)
        return day

    def _corpus(self, name: str, version: str) -> str:
        """Format a release as a corpus, for messages."""
        return f"corpus '{self.scheme}:{self.form.replace('NAME', name).replace('VERSION', version)}'"


def _list_archives(folder: Path) -> list[Path]:
    """List the archives in a folder, the preferred one first."""
    archives = [path for path in folder.iterdir() if path.name.endswith(_ARCHIVES)] if folder.is_dir() else []
    return sorted(archives, key=lambda path: (path.suffix != ".whl", path.name))


_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Archive:
    """The location and digest of a release's archive.

    Attributes:
        name: Its file name.
        address: A path on this machine or an address on the web.
        setting: The setting that names the index, for the message.
        digest: The hexadecimal digest that the index promises; empty where it promises none.
        algorithm: What the digest was made by, as `hashlib` calls it.
    """

    name: str
    address: str
    setting: str
    digest: str = ""
    algorithm: str = "sha256"


def describe_download(name: str, size: int | None) -> str:
    """Return the line on a download that is about to begin.

    >>> describe_download("attrs-25.3.0.tar.gz", 812_000)
    'downloading attrs-25.3.0.tar.gz, 812 kB'
    >>> describe_download("attrs-25.3.0.tar.gz", None)
    'downloading attrs-25.3.0.tar.gz, of unknown size'
    """
    return f"downloading {name}, {'of unknown size' if size is None else format_bytes(size)}"


def download_archive(archive: Archive, folder: Path, tell: Callable[[str], None]) -> None:
    """Download an archive into a folder, as the file it is.

    Args:
        archive: The archive.
        folder: The folder.
        tell: Called with a line on its size before the download begins.

    Raises:
        InputError: It cannot be reached, or is not the file that the index promises.
        StoreError: The folder cannot be written.
    """
    local = Path(archive.address)
    raw = (
        read_document(local, archive.name)
        if local.is_file()
        else http_get(
            archive.address,
            archive.setting,
            tell_size=lambda size: tell(describe_download(archive.name, size)),
        )
    )
    if archive.digest and hashlib.new(archive.algorithm, raw).hexdigest() != archive.digest:
        raise InputError(
            f"{archive.address}: the file is not the one that the index lists ({archive.algorithm} differs)"
        )
    write_atomic(folder / Path(archive.name).name, raw)


def http_get(
    address: str,
    setting: str,
    *,
    accept: str = "*/*",
    tell_size: Callable[[int | None], None] = lambda size: None,
) -> bytes:
    """Return the body of an HTTP response.

    Args:
        address: The address.
        setting: The setting that names it, for the message.
        accept: The requested media type.
        tell_size: Called with the bytes of the body, if the answer says so, before they are read.

    Raises:
        InputError: It cannot be reached, or its answer is longer than any that is read.
    """
    if urlsplit(address).scheme not in ("https", "http"):
        raise InputError(f"{address}: only http and https addresses are fetched")
    try:
        request = urllib.request.Request(address, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            length = answer.headers.get("Content-Length") or ""
            tell_size(int(length) if length.isdecimal() else None)
            return SizeLimit(address).read_all(answer, MAX_WHOLE, "the answer")
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        raise InputError(f"{address} cannot be reached: {reason}; check the network or {setting}") from error


def find_package(path: str) -> str:
    """Return the package of a source file: ``java.util`` for ``java.base/java/util/List.java``.

    The first folder is a module where it has a dot; archives before Java 9 have no modules.
    """
    folders = PurePosixPath(path).parts[:-1]
    if folders and "." in folders[0]:
        folders = folders[1:]
    return ".".join(folders)


def read_library(
    archive: Path, table: dict[str, str], intake: SkipCounter, *, corpus: str, licence: str, version: str
) -> Iterator[SourceFile]:
    """Yield an archive's files, sorted by path; cluster and repository are the package.

    Files outside any package, such as the modules' own descriptions, are left out.

    Args:
        archive: The archive, read in place.
        table: Suffix to language.
        intake: Counts what is skipped.
        corpus: The corpus, for messages.
        licence: The licence of all of it.
        version: Its version.

    Raises:
        InputError: It is damaged.
    """
    try:
        for path, text, language in read_zip(archive, table, intake, lambda path: bool(find_package(path))):
            package = find_package(path)
            yield SourceFile(
                path=path,
                text=text,
                language=language,
                cluster=package,
                repository=package,
                licence=licence,
                version=version,
            )
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"corpus {corpus!r}: {archive} cannot be read as a zip archive: {error}") from error
