import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import SkipCounter, SourceFile, read_files

METADATA = (
    "Metadata-Version: 2.1\nName: Demo.Pkg\nVersion: 1.0\n"
    "Classifier: License :: OSI Approved :: MIT License\n"
)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip looks into, with the network out of reach."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache" / "sonde"))
    return folder


def make_wheel(folder: Path) -> None:
    with zipfile.ZipFile(folder / "demo_pkg-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("demo/__init__.py", "raise SystemExit('imported')\n")
        wheel.writestr("demo/tests/test_x.py", "x = 1\n")
        wheel.writestr("../evil.py", "x = 1\n")
        wheel.writestr("demo_pkg-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("demo_pkg-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("demo_pkg-1.0.dist-info/RECORD", "")


def make_sdist(folder: Path) -> Path:
    archive = folder / "demo_pkg-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        for path, text in {
            "demo_pkg-1.0/PKG-INFO": METADATA,
            "demo_pkg-1.0/setup.py": "raise SystemExit('built')\n",
            "demo_pkg-1.0/demo/__init__.py": "y = 1\n",
            "demo_pkg-1.0/../../evil.py": "x = 1\n",
            "/tmp/evil.py": "x = 1\n",
        }.items():
            info = tarfile.TarInfo(path)
            info.size = len(text)
            opened.addfile(info, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("demo_pkg-1.0/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        opened.addfile(link)
    return archive


def listing(corpus: str) -> tuple[list[SourceFile], SkipCounter]:
    intake = SkipCounter()
    return list(read_files(corpus, (), intake)), intake


def test_a_wheel_is_read_in_place(shelf: Path, tmp_path: Path) -> None:
    make_wheel(shelf)
    make_sdist(shelf)
    (file,) = listing("pypi:Demo.Pkg==1.0")[0]
    assert (file.path, file.cluster, file.repository) == ("demo/__init__.py", "demo-pkg", "demo-pkg")
    assert (file.licence, file.version) == ("MIT License", "1.0")
    assert not list(tmp_path.rglob("evil.py"))


def test_it_is_fetched_once(shelf: Path) -> None:
    make_wheel(shelf)
    first = listing("pypi:demo-pkg==1.0")[0]
    next(shelf.iterdir()).unlink()
    assert listing("pypi:demo-pkg==1.0")[0] == first


def test_a_source_archive_is_never_built(shelf: Path) -> None:
    make_sdist(shelf)
    files, intake = listing("pypi:demo-pkg==1.0")
    assert [file.path for file in files] == ["demo_pkg-1.0/demo/__init__.py", "demo_pkg-1.0/setup.py"]
    assert {file.licence for file in files} == {"MIT License"}
    assert intake.counts == {"symbolic link": 1}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Tests print nothing."""


@contextmanager
def served(root: Path) -> Generator[str]:
    """The address at which a folder is served, from this machine to itself."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=root)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def index(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An index on this machine, as PEP 503 has it."""
    root = tmp_path / "index"
    (root / "simple" / "demo-pkg").mkdir(parents=True)
    (root / "files").mkdir()
    with served(root) as address:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield root


@pytest.mark.parametrize("honest", [True, False])
def test_a_source_archive_from_an_index(index: Path, honest: bool) -> None:
    archive = make_sdist(index / "files")
    digest = hashlib.sha256(archive.read_bytes() if honest else b"other").hexdigest()
    page = index / "simple" / "demo-pkg" / "index.html"
    page.write_text(
        '<a href="../../files/demo_pkg-0.9.tar.gz">old</a>'
        f'<a href="../../files/demo_pkg-1.0.tar.gz#sha256={digest}">demo_pkg-1.0.tar.gz</a>'
    )
    if honest:
        assert len(listing("pypi:demo-pkg==1.0")[0]) == 2
    else:
        with pytest.raises(InputError, match="sha256 differs"):
            listing("pypi:demo-pkg==1.0")


def test_before_a_wheel_is_fetched_the_size_that_the_index_lists_is_told(
    index: Path,
) -> None:
    wheels = [
        {"filename": "demo_pkg-1.0-py3-none-any.whl", "size": 1_234_567},
        {"filename": "demo_pkg-1.0-cp311-cp311-win_amd64.whl", "size": 9_000_000},
        {"filename": "demo_pkg-0.9-py3-none-any.whl", "size": 8_000_000},
    ]
    page = index / "simple" / "demo-pkg" / "index.html"
    page.write_text(json.dumps({"files": wheels}))
    told: list[str] = []
    with pytest.raises(InputError, match="no such release"):
        list(read_files("pypi:demo-pkg==1.0", (), SkipCounter(tell=told.append)))
    assert told == ["downloading the wheel of demo-pkg 1.0, 1.2 MB"]
    page.write_text("<a>a page without sizes</a>")
    with pytest.raises(InputError, match="no such release"):
        list(read_files("pypi:demo-pkg==1.0", (), SkipCounter(tell=told.append)))
    assert told[1:] == ["downloading the wheel of demo-pkg 1.0, of unknown size"]


def test_what_is_not_there_or_damaged(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such release; pip says: .*demo-pkg==1.0") as caught:
        listing("pypi:demo-pkg==1.0")
    assert "\n" not in str(caught.value)
    (shelf / "demo_pkg-1.0.tar.gz").write_bytes(b"no archive")
    with pytest.raises(InputError, match="is damaged"):
        listing("pypi:demo-pkg==1.0")


def test_offline_is_one_line(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(InputError, match="cannot be reached"):
        listing("pypi:demo-pkg==1.0")


@pytest.mark.parametrize("argument", ["", "demo", "--index-url==x", "demo==1.0 other==2", "demo==-1"])
def test_the_argument_is_a_name_and_a_version(argument: str) -> None:
    with pytest.raises(UsageError, match="pypi:NAME==VERSION"):
        listing(f"pypi:{argument}")
