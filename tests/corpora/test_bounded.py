"""Archives, rows and answers that are made to fill a machine."""

import gzip
import io
import json
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import SkipCounter, SourceFile, read_files
from sonde.corpora.engine import source_files
from sonde.corpora.engine.releases import read_metadata, read_tar, read_zip
from sonde.corpora.engine.source_files import suffix_table

TABLE = suffix_table(("python",))
INFO = "demo-1.0.dist-info/METADATA"


def names(read: object) -> list[str]:
    return [path for path, _, _ in read]  # type: ignore[attr-defined]


def wheel(path: Path, members: dict[str, int], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, size in members.items():
            with archive.open(name, "w") as member:
                for _ in range(size >> 20):
                    member.write(bytes(1 << 20))
                member.write(b"x = 1\n")
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_metadata_of_hundreds_of_megabytes_take_no_memory(tmp_path: Path, compression: int) -> None:
    archive = wheel(tmp_path / "demo.whl", {INFO: 100 << 20, "demo/a.py": 0}, compression)
    assert archive.stat().st_size < 1 << 20
    tracemalloc.start()
    with pytest.raises(InputError, match=r"METADATA is longer than 1,000,000 bytes"):
        read_metadata(archive)
    assert tracemalloc.get_traced_memory()[1] < 40 << 20
    tracemalloc.stop()


def test_a_bomb_among_the_sources_is_passed_over(tmp_path: Path) -> None:
    archive = wheel(tmp_path / "src.zip", {"demo/a.py": 0, "demo/bomb.py": 50 << 20})
    intake = SkipCounter()
    assert names(read_zip(archive, TABLE, intake, lambda path: True)) == ["demo/a.py"]
    assert intake.counts == {"too large": 1}


def test_an_archive_of_too_many_members_or_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = wheel(tmp_path / "src.zip", {f"m{n}.py": 1 << 20 for n in range(20)})
    monkeypatch.setattr(source_files, "_FREE_BYTES", 5_000_000)
    with pytest.raises(InputError, match=r"more than 5,000,000 bytes"):
        list(read_zip(archive, TABLE, SkipCounter(), lambda path: True))
    monkeypatch.setattr(source_files, "MAX_MEMBERS", 10)
    with pytest.raises(InputError, match="more than 10 members"):
        list(read_zip(archive, TABLE, SkipCounter(), lambda path: True))
    monkeypatch.setattr(source_files, "MAX_MEMBERS", 100)
    monkeypatch.setattr(source_files, "_MAX_SECONDS", -1)
    with pytest.raises(InputError, match="unpack it first"):
        list(read_zip(archive, TABLE, SkipCounter(), lambda path: True))


def tar(path: Path, size: int, said: int, kind: bytes = tarfile.REGTYPE) -> Path:
    info = tarfile.TarInfo("demo/a.py")
    info.size, info.type = said, kind
    with gzip.open(path, "wb") as packed:
        packed.write(info.tobuf())
        for _ in range(size >> 20):
            packed.write(bytes(1 << 20))
        packed.write(bytes(2048))
    return path


@pytest.mark.parametrize("said", [10**15, 8**11 - 1, 3_000_000])
def test_a_tar_whose_header_lies(tmp_path: Path, said: int) -> None:
    archive = tar(tmp_path / "a.tar.gz", 1 << 20, said)
    with pytest.raises(tarfile.TarError):
        list(read_tar(archive, TABLE, SkipCounter(), lambda path: True))


def test_a_tar_that_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "_FREE_BYTES", 5_000_000)
    for kind, name in ((tarfile.REGTYPE, "a"), (tarfile.XHDTYPE, "b"), (tarfile.GNUTYPE_LONGNAME, "c")):
        archive = tar(tmp_path / f"{name}.tar.gz", 9 << 20, 9 << 20, kind)
        for read in (
            lambda path: list(read_tar(path, TABLE, SkipCounter(), lambda path: True)),
            read_metadata,
        ):
            with pytest.raises((InputError, tarfile.TarError), match="bytes"):
                read(archive)


def test_tar_metadata_of_the_outermost_folder(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as opened:
        for name in ("longer-demo/PKG-INFO", "demo/PKG-INFO", "demo/a.py"):
            info = tarfile.TarInfo(name)
            text = f"Name: {name}\n".encode()
            info.size = len(text)
            opened.addfile(info, io.BytesIO(text))
    assert read_metadata(path)["Name"] == "demo/PKG-INFO"
    assert names(read_tar(path, TABLE, SkipCounter(), lambda path: True)) == ["demo/a.py"]


@pytest.mark.parametrize("scheme", ["jsonl", "cubert", "conllu"])
def test_a_line_without_an_end(tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "LONGEST_LINE", 10_000)
    path = tmp_path / "rows.jsonl"
    path.write_text("{" + "x" * 1_000_000)
    with pytest.raises(InputError, match="line 1 is longer than 10,000 bytes"):
        list(read_files(f"{scheme}:{path}", (), SkipCounter()))


@pytest.mark.parametrize("scheme", ["codesyntax", "codexglue", "inspect"])
def test_a_file_that_is_too_long_to_be_read_whole(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_files, "MAX_WHOLE", 1_000)
    path = tmp_path / "rows.json"
    path.write_text(" " * 2_000)
    with pytest.raises(InputError, match=r"rows\.json is longer than 1,000 bytes"):
        list(read_files(f"{scheme}:{path}", (), SkipCounter()))


@pytest.mark.parametrize("key", ["id", "cluster", "repository", "path", "licence", "name"])
def test_half_a_character_beside_the_code_is_named(tmp_path: Path, key: str) -> None:
    row = {"id": "a", "code": "def f(): pass", "language": "python", key: "x\ud800"}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match=rf"line 1: '{key}' .*half a character"):
        list(read_files(f"jsonl:{path}", (), SkipCounter()))
    row = {"id": "a", "code": "def f(): pass", "language": "python", "tags": [[0, 3, "\udcff"]]}
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match=r"line 1: tag .*half a character"):
        list(read_files(f"jsonl:{path}", (), SkipCounter()))


def test_half_a_character_from_any_other_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> list[SourceFile]:
            return [
                SourceFile("a.py", "x = 1", "python", "c\ud800", "r"),
                SourceFile("b.py", "x = 1", "python", "c", "r"),
            ]

    monkeypatch.setattr("sonde.corpora.engine.read.CORPORA.load", lambda name: Odd())
    intake = SkipCounter()
    assert [file.path for file in read_files("odd", (), intake)] == ["b.py"]
    assert intake.examples["name is not Unicode"] == ["'a.py'"]
    with pytest.raises(UsageError, match="its name is not Unicode"):
        list(read_files("local:x\udcff", (), SkipCounter()))
