"""Releases from a registry on this machine; their files are in Python, which every sonde reads."""

import base64
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.corpora.test_pypi import served

from sonde.base.errors import InputError, UsageError
from sonde.corpora import SkipCounter, SourceFile, read_files

CODE = "def f(a):\n    return a\n"
FILES = {
    "package/package.json": json.dumps({"license": "MIT", "scripts": {"install": "touch /tmp/ran"}}),
    "package/lib/main.py": CODE,
    "package/index.py": CODE * 2,
    "package/test/check.py": CODE,
    "package/lib/main.test.py": CODE,
    "package/node_modules/other/a.py": CODE,
    "package/dist/all.py": CODE,
    "package/lib/all.min.py": CODE,
    "package/lib/table.py": "x = '" + "a" * 2_000 + "'\n",
    "package/lib/compiled.py": CODE + "//# sourceMappingURL=compiled.js.map\n",
    "package/../../escaped.py": CODE,
    "/package/absolute.py": CODE,
}


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A registry of one package and one in a scope, which the user's npmrc names."""
    root = tmp_path / "registry"
    root.mkdir()
    for name in [key for key in os.environ if key.lower().startswith("npm_config")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache" / "sonde"))
    monkeypatch.setenv("NPM_CONFIG_USERCONFIG", str(tmp_path / "npmrc"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(root) as address:
        (tmp_path / "npmrc").write_text(f"; mine\nfund=false\nregistry = {address}/\n")
        yield root


def pack(files: dict[str, str], link: str = "package/lib/link.py") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for path, text in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(text)
            opened.addfile(info, io.BytesIO(text.encode()))
        info = tarfile.TarInfo(link)
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        opened.addfile(info)
    return packed.getvalue()


def publish(
    root: Path, name: str = "demo", version: str = "1.0.0", files: dict[str, str] = FILES, **other: Any
) -> None:
    raw = pack(files)
    digest = base64.b64encode(hashlib.sha512(raw).digest()).decode()
    (root / "files").mkdir(exist_ok=True)
    (root / "files" / f"{version}.tgz").write_bytes(raw)
    listed = {"tarball": f"/files/{version}.tgz", "integrity": f"sha1-AAAA sha512-{digest}"} | other
    told = {"versions": {version: {"dist": listed}}, "time": {version: "2024-03-25T23:30:00.000-02:00"}}
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(json.dumps(told))


def listing(corpus: str, *, dated: bool = False) -> tuple[list[SourceFile], SkipCounter]:
    intake = SkipCounter()
    return list(read_files(corpus, ("python",), intake, with_dates=dated)), intake


def test_what_was_written_for_a_package(registry: Path, tmp_path: Path) -> None:
    publish(registry)
    files, intake = listing("npm:demo@1.0.0")
    assert [file.path for file in files] == ["index.py", "lib/main.py"]
    assert {(file.cluster, file.repository, file.licence, file.version) for file in files} == {
        ("demo", "demo", "MIT", "1.0.0")
    }
    assert intake.counts == {
        "another package inside": 1,
        "generated: its path says so": 2,
        "generated: a line of more than 1,000 characters": 1,
        "generated: its last line names its source": 1,
        "symbolic link": 1,
    }
    assert not list(tmp_path.rglob("*.py"))


def test_before_it_is_fetched_its_size_is_told_once(registry: Path) -> None:
    publish(registry)
    told: list[str] = []
    intake = SkipCounter(tell=told.append)
    for _ in range(2):
        list(read_files("npm:demo@1.0.0", ("python",), intake))
    size = (registry / "files" / "1.0.0.tgz").stat().st_size
    assert told == [f"downloading demo-1.0.0.tgz, {size} bytes"]


def test_it_is_fetched_once_and_dated_by_the_registry(registry: Path) -> None:
    publish(registry)
    first = listing("npm:demo@1.0.0", dated=True)[0]
    assert {file.dates for file in first} == {((0, "2024-03-26"),)}
    (registry / "demo").unlink()
    assert listing("npm:demo@1.0.0", dated=True)[0] == first
    publish(registry, version="2.0.0")
    told = json.loads((registry / "demo").read_text())
    (registry / "demo").write_text(json.dumps(told | {"time": {}}))
    with pytest.raises(InputError, match=r"'npm:demo@2\.0\.0': the index does not say when"):
        listing("npm:demo@2.0.0", dated=True)


def test_a_scope_with_a_registry_of_its_own(
    registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(registry, "@my/demo", "1.0.0-rc.1")
    both = "npm:@my/demo@1.0.0-rc.1"
    (file, _), _ = listing(both)
    assert (file.cluster, file.version) == ("@my/demo", "1.0.0-rc.1")
    publish(registry, "@my/demo", "2.0.0")
    address = (tmp_path / "npmrc").read_text().split()[-1]
    (tmp_path / "npmrc").write_text("registry=http://127.0.0.1:9\n@my:registry=${MY_REGISTRY}\n")
    monkeypatch.setenv("MY_REGISTRY", address)
    paths = [file.path for file in listing(f"{both},@my/demo@2.0.0")[0]]
    assert paths == [
        f"@my/demo-{version}/{path}"
        for version in ("1.0.0-rc.1", "2.0.0")
        for path in ("index.py", "lib/main.py")
    ]


def test_the_environment_names_the_registry(
    registry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(registry)
    address = (tmp_path / "npmrc").read_text().split()[-1]
    (tmp_path / "npmrc").write_text("registry=http://127.0.0.1:9/\n")
    with pytest.raises(InputError, match=r"cannot be reached: .*npm's registry") as caught:
        listing("npm:demo@1.0.0")
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("npm_config_registry", address)
    assert len(listing("npm:demo@1.0.0")[0]) == 2


@pytest.mark.parametrize(
    ("told", "licence"),
    [
        ({"license": {"type": "ISC", "url": "x"}}, "ISC"),
        ({"licenses": [{"type": "MIT"}, {"type": "GPL-2.0"}]}, "MIT OR GPL-2.0"),
        ({}, ""),
        ([1], ""),
    ],
)
def test_licences_as_package_json_had_them(registry: Path, told: Any, licence: str) -> None:
    publish(registry, files={"package/package.json": json.dumps(told), "package/a.py": CODE})
    assert listing("npm:demo@1.0.0")[0][0].licence == licence


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"integrity": "sha512-" + base64.b64encode(bytes(64)).decode()}, r"not the one .*\(sha512 differs"),
        ({"integrity": "sha1-AAAA"}, "promises no sha512"),
        ({"integrity": "sha512-!"}, "promises no sha512"),
        ({"integrity": "sha512-"}, "promises no sha512"),
        ({"integrity": "sha512-AAAA"}, "promises no sha512"),
        ({"integrity": None}, "promises no sha512"),
        ({"tarball": 3}, "no such release"),
        ({"tarball": "file:///etc/passwd"}, "only http and https"),
        ({"tarball": "/none.tgz"}, "cannot be reached: File not found"),
    ],
)
def test_what_is_not_the_registrys_is_not_read(registry: Path, other: dict[str, Any], said: str) -> None:
    publish(registry, **other)
    with pytest.raises(InputError, match=said) as caught:
        listing("npm:demo@1.0.0")
    assert "\n" not in str(caught.value)


def test_what_is_not_there_or_damaged(registry: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="/demo cannot be reached: File not found"):
        listing("npm:demo@1.0.0")
    (registry / "demo").write_text("<html>")
    with pytest.raises(InputError, match="does not answer with JSON; check npm's registry"):
        listing("npm:demo@1.0.0")
    publish(registry)
    with pytest.raises(InputError, match="no such release; `npm view demo versions`"):
        listing("npm:demo@3.0.0")
    listing("npm:demo@1.0.0")
    (kept,) = (tmp_path / "cache").rglob("*.tgz")
    kept.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"is damaged: .*; delete it"):
        listing("npm:demo@1.0.0")


@pytest.mark.parametrize(
    "argument", ["", "demo", "demo@latest", "@my@1.0.0", "../x@1.0.0", "a/b@1", "demo@1/.."]
)
def test_the_argument_is_a_name_and_a_version(argument: str) -> None:
    with pytest.raises(UsageError, match=r"npm:NAME@VERSION, such as npm:express@4\.19\.2"):
        listing(f"npm:{argument}")
