"""Packages as a small dpkg of the test's own lists them."""

import zipfile
from pathlib import Path

import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import SkipCounter, SourceFile, read_files

CODE = "def f(a):\n    return a\n"
STATUS = """\
Package: demo-1.2-src
Status: install ok installed
Architecture: all
Version: 1.2-3
Description: files
 Package: not-this

Package: demo-src
Status: install ok installed
Architecture: all
Version: 2:1.2
Depends: demo-1.2-src (>= 1.2), gone | libdemo,libdemo (>= 1)

Package: libdemo
Status: hold ok installed
Architecture: amd64
Version: 0.9

Package: libdemo
Status: install ok installed
Architecture: arm64
Version: 0.8

Package: removed
Status: deinstall ok config-files
Architecture: all
Version: 1
"""
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: debian/*
License: GPL-2+

Files: *
Copyright: 2020 Somebody
License: BSD-2-clause or Demo
 Text of the licence.

License: GPL-2+
 Text.
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the packages are installed."""
    root, dpkg = tmp_path / "root", tmp_path / "dpkg"
    monkeypatch.setenv("DPKG_ROOT", str(root))
    monkeypatch.setenv("DPKG_ADMINDIR", str(dpkg))
    write(dpkg / "status", STATUS)
    demo = ["lib/util.py", "lib/net/http.py", "lib/net/http_test.py", "lib/testdata/x.py", "lib/notes.c"]
    for name, paths in {
        "demo-1.2-src": ["usr/share/demo/" + path for path in demo],
        "demo-src": ["usr/share/doc/demo-src/changelog.gz"],
        "libdemo:amd64": ["usr/lib/demo.py"],
        "libdemo:arm64": ["usr/lib/arm/demo.py"],
        "removed": ["etc/removed.py"],
    }.items():
        for path in paths:
            write(root / path, CODE)
        listed = [".", "usr", *paths, "../outside.py"]
        write(dpkg / "info" / f"{name}.list", "".join(f"/{path}\n" for path in listed))
    write(tmp_path / "outside.py", CODE)
    write(root / "usr/share/doc/demo-1.2-src/copyright", COPYRIGHT)
    write(root / "usr/share/doc/libdemo/copyright", "Files: *\nLicense: MIT\n\nnot as DEP 5 has it\n")
    return root


def listing(corpus: str, *languages: str) -> tuple[list[SourceFile], SkipCounter]:
    intake = SkipCounter()
    return list(read_files(corpus, languages, intake)), intake


def test_files_of_a_package_without_its_tests(root: Path) -> None:
    files, intake = listing("debian:demo-1.2-src")
    assert [(file.path, file.cluster) for file in files] == [
        ("usr/share/demo/lib/net/http.py", "usr/share/demo/lib/net"),
        ("usr/share/demo/lib/util.py", "usr/share/demo/lib"),
    ]
    assert {(file.repository, file.version, file.licence) for file in files} == {
        ("demo-1.2-src", "1.2-3", "BSD-2-clause or Demo")
    }
    assert not intake.counts


def test_links_and_what_is_gone_are_counted(root: Path) -> None:
    (root / "usr/share/demo/lib/net/http.py").unlink()
    (root / "usr/share/demo/lib/util.py").unlink()
    (root / "usr/share/demo/lib/util.py").symlink_to("/etc/passwd")
    files, intake = listing("debian:demo-1.2-src")
    assert not files
    assert intake.counts == {"symbolic link": 1, "unreadable": 1}


def test_a_package_without_sources_stands_for_those_it_depends_on(root: Path) -> None:
    files = listing("debian:demo-src")[0]
    assert {file.repository for file in files} == {"demo-1.2-src", "libdemo"}
    assert files == listing("debian:demo-1.2-src,libdemo")[0]
    # Another language's absence does not make it such a package.
    assert listing("debian:demo-1.2-src", "java")[0] == []


def test_one_of_two_architectures(root: Path) -> None:
    (file,) = listing("debian:libdemo")[0]
    assert (file.path, file.version, file.licence) == ("usr/lib/demo.py", "0.9", "")
    (file,) = listing("debian:libdemo:arm64")[0]
    assert (file.path, file.version) == ("usr/lib/arm/demo.py", "0.8")


def test_an_archive_of_sources_is_read_as_a_library(root: Path, tmp_path: Path) -> None:
    archive = root / "usr/lib/jvm/demo/lib/src.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("java.base/java/util/List.java", "interface List { int size(); }")
        packed.writestr("java.base/module-info.java", "module java.base {}")
        packed.writestr("../../Evil.java", "class Evil {}")
    listed = tmp_path / "dpkg/info/demo-src.list"
    listed.write_text("/usr/lib/jvm/demo/lib/src.zip\n")
    (file,) = listing("debian:demo-src")[0]
    assert (file.path, file.cluster, file.repository, file.version) == (
        "usr/lib/jvm/demo/lib/src.zip/java.base/java/util/List.java", "java.util", "java.util", "2:1.2",
    )  # fmt: skip
    archive.write_bytes(b"no zip")
    with pytest.raises(InputError, match=r"'debian:demo-src': .* cannot be read as a zip archive"):
        listing("debian:demo-src")
    archive.unlink()
    archive.symlink_to(tmp_path / "outside.py")
    assert listing("debian:demo-src")[1].counts == {"not a regular file": 1}


@pytest.mark.parametrize("name", ["removed", "not-this", "golang-9.9-src"])
def test_what_is_not_installed(root: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"package '{name}' is not installed; apt-get install {name}$"):
        listing(f"debian:{name}")


def test_a_machine_without_dpkg(root: Path, tmp_path: Path) -> None:
    (tmp_path / "dpkg/status").unlink()
    with pytest.raises(InputError, match="this machine has no Debian packages"):
        listing("debian:libdemo")


@pytest.mark.parametrize("argument", ["", "../x", "a/b", "libdemo, demo-src", "libdemo:", "Libdemo"])
def test_the_argument_is_a_package(root: Path, argument: str) -> None:
    with pytest.raises(UsageError, match="debian:PACKAGE, such as debian:libruby"):
        listing(f"debian:{argument}")
