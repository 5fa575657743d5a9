"""The index of functions: the same items with it and without it, whatever has become of its files."""

import dataclasses
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sonde.cli.commands import app
from sonde.corpora import (
    ItemSet,
    Selection,
    SkipCounter,
    cached_definitions,
    cached_imports,
    read_files,
    read_items,
    select,
)
from sonde.corpora.engine import content_cache
from sonde.languages import LANGUAGES, Definition, Function, get_facet
from sonde.languages.engine.tagging import Tagger
from sonde.tasks import index_imports, repositories

TEXT = """
import os


class Shape:
    @property
    def sides(self):
        '''How many.'''
        return {n}


def area_{n}(x):
    return x * {n}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SONDE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    for n in range(12):
        (folder / f"m{n}.py").write_text(TEXT.format(n=n))
    return folder


class Counted:
    """How often a file was parsed for its functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        language = LANGUAGES.load("python")
        real = type(language).functions

        def functions(this: object, text: str) -> tuple[Function, ...]:
            self.calls += 1
            return real(this, text)  # type: ignore[arg-type]

        monkeypatch.setattr(type(language), "functions", functions)


def chosen(project: Path) -> ItemSet:
    return select(f"local:{project}", Selection(near_duplicates=False))


def the_index(project: Path) -> Path:
    (path,) = (project.parent / "cache" / "functions").iterdir()
    return path


def test_a_corpus_is_parsed_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    first = chosen(project)
    assert counted.calls == 12
    again = chosen(project)
    assert counted.calls == 12
    assert again.items == first.items and any(item.docstring for item in again.items)
    (project / "m3.py").write_text(TEXT.format(n=33))
    changed = chosen(project)
    assert counted.calls == 13
    assert {"area_33"} == {item.name for item in changed.items} - {item.name for item in first.items}
    before = the_index(project).read_bytes()
    assert len(list(read_items(f"local:{project}", SkipCounter()))) == 24
    assert counted.calls == 13 and the_index(project).read_bytes() == before


def packed(body: bytes) -> bytes:
    body = zlib.compress(body)
    return content_cache._digest(body) + body


def lines(raw: bytes) -> bytes:
    return zlib.decompress(raw[32:])


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: raw[:40],
        lambda raw: raw[:-1],
        lambda raw: raw[:50] + bytes([raw[50] ^ 1]) + raw[51:],
        lambda raw: b"x" * 32 + raw[32:],
        lambda raw: packed(b"[1]"),
        lambda raw: packed(b'{"a": [[1]]}'),
        lambda raw: packed(lines(raw).replace(b",[[", b",[[[")),
        lambda raw: packed(re.sub(rb"\t.*", b"\t[[1]]", lines(raw))),
        lambda raw: content_cache._digest(b"rubbish") + b"rubbish",
    ],
)
def test_a_damaged_index_is_as_none(project: Path, damage: object, monkeypatch: pytest.MonkeyPatch) -> None:
    first = chosen(project)
    path = the_index(project)
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    counted = Counted(monkeypatch)
    assert chosen(project).items == first.items
    assert counted.calls == 12
    chosen(project)
    assert counted.calls == 12


def test_an_index_of_other_rules_is_as_none(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen(project)
    counted = Counted(monkeypatch)
    monkeypatch.setattr(content_cache, "_rules", lambda: "other")
    chosen(project)
    assert counted.calls == 12


def test_a_cache_that_cannot_be_written_costs_nothing_else(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.parent / "file").write_text("")
    monkeypatch.setenv("SONDE_CACHE", str(project.parent / "file"))
    assert len(chosen(project).items) == 24


def test_runs_at_once_leave_a_whole_index(project: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: chosen(project), range(8)))
    assert all(one.items == found[0].items for one in found)
    assert len(content_cache._read(the_index(project))) == 12


def test_the_cache_keeps_its_size(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen(project)
    monkeypatch.setattr(content_cache, "_MOST_BYTES", the_index(project).stat().st_size + 10)
    select(f"local:{project}", dataclasses.replace(Selection(), languages=("python",)))
    assert len(list((project.parent / "cache" / "functions").iterdir())) == 1


def test_the_command_says_and_clears(project: Path) -> None:
    chosen(project)
    runner = CliRunner()
    told = runner.invoke(app, ["cache", "info"])
    assert str(project.parent / "cache") in told.output and "functions" in told.output
    assert runner.invoke(app, ["cache", "clear"]).exit_code == 0
    assert not (project.parent / "cache" / "functions").exists()


def test_what_files_import_is_found_with_their_functions_and_kept(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "m2.py").write_text("from a import b\n\n\ndef f():\n    import c\n    return b\n")
    corpus = f"local:{project}"
    expected = index_imports(read_files(corpus, (), SkipCounter()))
    assert {*expected["project"].imports.values()} == {"import os", "from a import b\nimport c"}
    chosen(project)

    def never(text: str) -> str:
        raise AssertionError(text)

    tagging = get_facet("python", "tagging", Tagger)
    monkeypatch.setattr(tagging, "imports", never)
    with cached_imports(corpus) as known:
        assert index_imports(read_files(corpus, (), SkipCounter()), cache=known) == expected


def test_imports_that_were_not_known_are_kept(project: Path) -> None:
    corpus = f"local:{project}"
    with cached_imports(corpus) as known:
        index_imports(read_files(corpus, (), SkipCounter()), cache=known)
    with cached_imports(corpus) as again:
        assert dict(again) == dict(known) and len(again) == 12
    next((project.parent / "cache" / "imports").iterdir()).write_bytes(b"rubbish")
    with cached_imports(corpus) as none:
        assert not none


def test_what_files_define_is_read_once_and_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = f"local:{project}"
    plain = repositories(read_files(corpus, (), SkipCounter()))
    assert set(plain["project"].definitions) >= {"Shape", "sides", "area_3"}
    chosen(project)
    defined: list[str] = []
    language = LANGUAGES.load("python")
    real = type(language).definitions

    def definitions(this: object, text: str) -> tuple[Definition, ...]:
        defined.append(text)
        return real(this, text)  # type: ignore[arg-type]

    monkeypatch.setattr(type(language), "definitions", definitions)
    with cached_definitions(corpus) as known:
        again = repositories(read_files(corpus, (), SkipCounter()), cache=known)
    assert not defined and again == plain
    (project / "m3.py").write_text(TEXT.format(n=33))
    for _ in range(2):
        with cached_definitions(corpus) as known:
            changed = repositories(read_files(corpus, (), SkipCounter()), cache=known)
        assert defined == [TEXT.format(n=33)]
        assert set(changed["project"].definitions) ^ set(plain["project"].definitions) == {
            "area_3",
            "area_33",
        }


def test_files_with_an_error_are_counted_whether_or_not_they_are_known(project: Path) -> None:
    (project / "broken.py").write_text("def f(x):\n    return x\n\ndef lost(x:\n  return 1\n")
    for _ in range(2):
        intake = chosen(project).intake
        assert intake.examples["with a parse error, where functions may be missing"] == ["broken.py"]
        raw = SkipCounter()
        names = [item.name for item in read_items(f"local:{project}", raw)]
        assert "f" in names and "lost" not in names
        assert raw.counts == {"with a parse error, where functions may be missing": 1}
