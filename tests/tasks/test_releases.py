"""Names that appeared between two releases, from wheels and source archives on a local shelf."""

import zipfile
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import SourceFile
from sonde.tasks.apis.api_cloze import task
from sonde.tasks.engine.api_names import KEPT, NEW, names_by_release

CLIENT = """
import demo_shape
from demo_shape import circle as c
import json
demo_shape.area(1)
c(2)
json.loads("")
"""

FIRST = {
    "demo_shape/__init__.py": (
        "raise SystemExit('imported')\nfrom .plane import circle, area\nfrom ._inner import helper\nPI = 3\n"
    ),
    "demo_shape/plane.py": "def circle(): pass\ndef area(): pass\ndef _own(): pass\n",
    "demo_shape/plane.pyi": "def circle() -> None: ...\n",
    "demo_shape/_inner.py": "def helper(): pass\ndef other(): pass\n",
    "demo_shape/tests/test_x.py": "def test_it(): pass\n",
}
SECOND = {
    **FIRST,
    "demo_shape/__init__.py": (
        "__all__ = ['circle', 'area', 'helper', 'square', 'Solid']\n"
        "from .plane import circle, area\nfrom ._inner import helper\nfrom .solid import *\n"
        "try:\n    from .fast import square\nexcept ImportError:\n    def square(): pass\n"
    ),
    "demo_shape/solid.py": "class Solid: pass\nSIZE = 1\ndef volume(): pass\n",
}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache" / "sonde"))
    return folder


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def test_names_that_appeared_are_told_apart(shelf: Path) -> None:
    wheel(shelf, "demo_shape", "1.0", FIRST)
    wheel(shelf, "demo_shape", "2.0", SECOND)
    found = names_by_release("pypi:demo-shape==2.0", "pypi:demo-shape==1.0", "python")
    assert {name for name, side in found.items() if side == NEW} == {
        "demo_shape.square", "demo_shape.Solid", "demo_shape.solid.Solid", "demo_shape.solid.volume",
    }  # fmt: skip
    assert {name for name, side in found.items() if side == KEPT} == {
        "demo_shape.circle", "demo_shape.area", "demo_shape.helper",
        "demo_shape.plane.circle", "demo_shape.plane.area",
    }  # fmt: skip


def test_a_library_of_one_file_and_a_damaged_one(shelf: Path) -> None:
    """The second library: one module, once with a file that does not parse."""
    wheel(shelf, "demo_one", "1.0", {"demo_one.py": "def a(): pass\n"})
    wheel(
        shelf,
        "demo_one",
        "1.1",
        {"demo_one.py": "def a(): pass\nasync def b(): pass\nc = 1\n", "bad.py": "def ("},
    )
    found = names_by_release("pypi:demo-one==1.1", "pypi:demo-one==1.0", "python")
    assert found == {"demo_one.a": KEPT, "demo_one.b": NEW}


def test_queries_of_a_release_are_marked(shelf: Path) -> None:
    wheel(shelf, "demo_shape", "1.0", FIRST)
    wheel(shelf, "demo_shape", "2.0", SECOND)
    file = SourceFile(
        path="client/a.py", text=CLIENT, language="python", cluster="client", repository="client"
    )
    drawn = task.draw(
        [file],
        size=100,
        seed=0,
        language="python",
        options={
            "templates": "call,import", "release": "pypi:demo-shape==2.0",
            "earlier_release": "pypi:demo-shape==1.0",
        },
    )  # fmt: skip
    names = drawn.examples.unique("name")
    assert set(names["name"]) == set(
        names_by_release("pypi:demo-shape==2.0", "pypi:demo-shape==1.0", "python")
    )
    assert Counter(names["release"]) == drawn.report["release"] == {NEW: 4, KEPT: 5}
    # What the corpus calls keeps its counts; what it does not is asked about all the same.
    calls = dict(names.select("name", "calls").iter_rows())
    assert (calls["demo_shape.area"], calls["demo_shape.square"]) == (1, 0)
    users = dict(names.select("name", "users").iter_rows())
    assert (users["demo_shape.area"], users["demo_shape.square"]) == (["client"], [])


def test_a_release_needs_an_earlier_one(shelf: Path) -> None:
    with pytest.raises(UsageError, match="name two releases"):
        names_by_release("pypi:demo-shape==2.0", "", "python")
    with pytest.raises(UsageError, match="name two releases"):
        names_by_release("local:here", "pypi:demo-shape==1.0", "python")
    wheel(shelf, "demo_shape", "1.0", {"demo_shape.py": "x = 1\n"})
    with pytest.raises(InputError, match="no public function or class"):
        names_by_release("pypi:demo-shape==1.0", "pypi:demo-shape==1.0", "python")


def test_calls_are_also_asked_behind_the_imports_of_their_file() -> None:
    file = SourceFile(
        path="client/a.py", text=CLIENT, language="python", cluster="client", repository="client"
    )
    drawn = task.draw(
        [file], size=100, seed=0, language="python",
        options={"templates": "call,import", "scope": "all", "imports": 1.0, "frames": 0.0},
    )  # fmt: skip
    table = drawn.examples
    behind = table.filter(pl.col("frame") == "imports")
    alone = {row["query_id"]: row for row in table.filter(pl.col("frame") == "").iter_rows(named=True)}
    assert behind.height
    before = "import demo_shape\nfrom demo_shape import circle as c\nimport json\n"
    for row in behind.iter_rows(named=True):
        same = alone[row["base_id"]]
        assert row["template"] == "call"
        assert row["prefix"] == before + same["prefix"]
        assert (row["answer"], row["suffix"]) == (same["answer"], same["suffix"])
        assert row["visible"] == (row["answer"] in row["prefix"] or row["answer"] in row["suffix"])
