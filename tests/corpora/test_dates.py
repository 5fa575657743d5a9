"""When code was written: by line from git, by release from an index, and items on either side of a day."""

import json
import re
import zipfile
from pathlib import Path

import pytest
from tests.corpora import test_pypi
from tests.corpora.test_git import git

from sonde.base.errors import InputError, UsageError
from sonde.corpora import ItemSet, Selection, SkipCounter, SourceFile, read_files, select, write_lock

shelf, index = test_pypi.shelf, test_pypi.index
OLD, NEW = "2020-03-01", "2024-05-01"
HEAD = "class Store:\n    def {name}(self, key):\n"
BODY = "        {first} = self.rows[key] + {number}\n        return {first}.strip('{name}'), len({second})\n"


def function(name: str, number: int) -> str:
    text = HEAD + BODY
    return text.format(name=name, number=number, first=f"{name}_row", second=f"{name}_{number}s")


def commit(root: Path, day: str, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    git(root, "add", ".")
    git(root, "commit", "-qm", "x", date=f"{day}T12:00:00Z")


def repository(root: Path) -> Path:
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    return root


def dated(corpus: str) -> dict[str, SourceFile]:
    return {file.path: file for file in read_files(corpus, (), SkipCounter(), with_dates=True)}


def around(corpus: str, day: str = "2023-01-01", **options: object) -> ItemSet:
    return select(corpus, Selection(cut_off=day, **options))  # type: ignore[arg-type]


def test_git_knows_the_day_of_each_line(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    first, later = "def é():\r\n    return 'ü'\r\n", "\n\ndef b():\n    return 1\n"
    commit(root, OLD, {"pkg/a.py": first, "pkg/b.py": "x = 1\ny = 2\n"})
    commit(root, NEW, {"pkg/a.py": first + later, "pkg/b.py": "    x = 1\ny = 3\n"})
    files = dated(f"git:{root}")
    assert files["pkg/a.py"].dates == ((0, OLD), (len(first), NEW))
    # A new indentation is no change of a line.
    assert files["pkg/b.py"].dates == ((0, OLD), (len("    x = 1\n"), NEW))
    assert {path: file.dates for path, file in dated(f"git:{root}/pkg").items()} == {
        path: file.dates for path, file in files.items()
    }
    plain = list(read_files(f"git:{root}", (), SkipCounter()))
    assert [file.dates for file in plain] == [(), ()]


def test_a_history_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    commit(root, OLD, {"a.py": "x = 1\n"})
    commit(root, NEW, {"a.py": "x = 1\ny = 2\n"})
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{root}", "shallow")
    with pytest.raises(InputError, match="git fetch --unshallow"):
        dated(f"git:{tmp_path}/shallow")


def test_no_filter_of_the_repository_is_run(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    commit(root, OLD, {"a.py": "x = 1\n", ".gitattributes": "*.py diff=evil\n"})
    git(root, "config", "diff.evil.textconv", f"touch {tmp_path}/pwned; cat")
    assert dated(f"git:{root}")["a.py"].dates == ((0, OLD),)
    assert not (tmp_path / "pwned").exists()


def test_files_are_chosen_by_their_last_change(tmp_path: Path) -> None:
    root = repository(tmp_path / "project")
    commit(root, OLD, {"a.py": "x = 1\n", "b.py": "y = 1\n"})
    commit(root, NEW, {"b.py": "y = 2\n"})

    def held(query: str) -> list[str]:
        return [file.path for file in read_files(f"git:{root}?{query}", (), SkipCounter())]

    assert held("since=2024-01-01") == held(f"since={NEW}&until={NEW}") == ["b.py"]
    assert held("until=2024-01-01") == held(f"until={OLD}") == ["a.py"]
    assert held("since=2021-01-01&until=2022-01-01") == []
    with pytest.raises(UsageError, match="until='soon' is not a date"):
        held("until=soon")


def test_a_folder_of_repositories_is_one_corpus(tmp_path: Path) -> None:
    for name in ("one", "two"):
        commit(repository(tmp_path / "all" / name), OLD, {"a.py": f"{name} = 1\n"})
    (tmp_path / "all" / "none").mkdir()
    files = dated(f"git:{tmp_path}/all/*")
    assert {path: (file.repository, file.cluster) for path, file in files.items()} == {
        "one/a.py": ("one", "one/a"), "two/a.py": ("two", "two/a"),
    }  # fmt: skip
    with pytest.raises(InputError, match=re.escape("is a repository")):
        dated(f"git:{tmp_path}/all/none/*")


@pytest.fixture
def repositories(tmp_path: Path) -> str:
    """Three repositories: two with functions of both times, one with old ones alone."""
    for place, name in enumerate(("one", "two", "three")):
        root = repository(tmp_path / "all" / name)
        old = [function(f"{word}_{name}", place + 7) for word in ("read", "write", "drop")]
        new = [function(f"{word}_{name}", place + 70) for word in ("merge", "split")]
        commit(root, OLD, {f"m{i}.py": text for i, text in enumerate(old)})
        if name == "three":
            continue
        copied = old[0].replace(f"    def read_{name}", f"    async def read_{name}")
        commit(
            root,
            NEW,
            {
                "m1.py": old[1].replace("len(", "sum("),
                **{f"n{i}.py": text for i, text in enumerate(new)},
                "copied.py": f"# again\n{copied}",
                "same.py": old[2],
            },
        )
    return f"git:{tmp_path}/all/*"


def test_items_lie_wholly_on_one_side_of_a_day(repositories: str) -> None:
    chosen = around(repositories)
    found = sorted((item.cluster, item.period, Path(item.path).name) for item in chosen.items)
    assert found == sorted(
        (name, period, path)
        for name in ("one", "two")
        for period, path in (("after", "n0.py"), ("after", "n1.py"), ("before", "m0.py"), ("before", "m2.py"))
    )
    assert {(item.oldest, item.newest) for item in chosen.items} == {(OLD, OLD), (NEW, NEW)}
    assert chosen.left_out == {
        "changed on both sides of the cut-off date": 2,
        "near duplicate of an older one": 2,
        "exact duplicate": 2,
        "nothing on the other side of the cut-off date in its cluster": 3,
    }
    assert chosen.found == len(chosen.items) + sum(chosen.left_out.values())


def test_a_sample_has_as_many_of_both_times(repositories: str) -> None:
    periods = [item.period for item in around(repositories, limit=4).items]
    assert sorted(periods) == ["after", "after", "before", "before"]


def test_a_lock_file_keeps_both_times(repositories: str, tmp_path: Path) -> None:
    chosen, lock = around(repositories, limit=4), tmp_path / "items.lock"
    write_lock(chosen, lock)
    assert select(repositories, Selection(), lock).items == chosen.items
    with pytest.raises(UsageError, match="was written for cut-off 2023-01-01, not 2021-01-01"):
        select(repositories, Selection(cut_off="2021-01-01"), lock)


def test_a_day_outside_the_history_is_refused(repositories: str) -> None:
    with pytest.raises(InputError, match=f"written from {OLD} to {NEW}; name another date"):
        around(repositories, "2019-01-01")
    with pytest.raises(UsageError, match="cut_off = '2023' is not a date; write it as 2024-12-31"):
        Selection(cut_off="2023")


def test_a_folder_knows_no_dates(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    return 1\n")
    with pytest.raises(InputError, match="git:PATH has them by line"):
        around(f"local:{tmp_path}")


def answer(index: Path, page: str) -> None:
    """What the index says of the distribution, whose wheel is found in a folder."""
    (index / "simple" / "demo-pkg" / "index.html").write_text(page)


def test_a_release_is_as_old_as_its_first_upload(shelf: Path, index: Path) -> None:
    test_pypi.make_wheel(shelf)
    times = {
        "demo_pkg-1.0.tar.gz": "2022-02-03T23:30:00.5Z",
        "demo_pkg-1.0.0-py3-none-any.whl": "2022-02-05T00:00:00Z",
        "demo_pkg-0.9-py3-none-any.whl": "2019-02-05T00:00:00Z",
        "demo_pkg-notes.txt": "2018-02-05T00:00:00Z",
    }
    files = [{"filename": name, "upload-time": time} for name, time in times.items()]
    answer(index, json.dumps({"files": files}))
    (file,) = dated("pypi:demo-pkg==1.0").values()
    assert file.dates == ((0, "2022-02-03"),)
    # The day is kept beside the archive.
    answer(index, "")
    assert dated("pypi:demo-pkg==1.0")["demo/__init__.py"] == file


@pytest.mark.parametrize(
    "page",
    [
        '<a href="demo_pkg-1.0.tar.gz"></a>',
        '{"files": []}',
        '{"files": [{}]}',
        '{"files": [{"filename": 1}]}',
    ],
)
def test_an_index_without_times_is_refused(shelf: Path, index: Path, page: str) -> None:
    test_pypi.make_wheel(shelf)
    answer(index, page)
    with pytest.raises(InputError, match="does not say when it was uploaded"):
        dated("pypi:demo-pkg==1.0")


def test_without_an_index_no_day_is_known(shelf: Path) -> None:
    test_pypi.make_wheel(shelf)
    with pytest.raises(InputError, match="does not say when it was uploaded"):
        dated("pypi:demo-pkg==1.0")


def test_several_releases_are_one_corpus(shelf: Path, tmp_path: Path) -> None:
    test_pypi.make_wheel(shelf)
    older, newer = (shelf / f"demo_pkg-{version}-py3-none-any.whl" for version in ("1.0", "2.0"))
    named_anew = ((b"demo_pkg-1", b"demo_pkg-2"), (b"Pkg\nVersion: 1", b"Pkg\nVersion: 2"))
    with zipfile.ZipFile(older) as wheel, zipfile.ZipFile(newer, "w") as copy:
        for name in wheel.namelist():
            held = wheel.read(name)
            for old, new in named_anew:
                held = held.replace(old, new)
            copy.writestr(name.replace("1.0", "2.0"), held)
    (tmp_path / "names.txt").write_text("# two\ndemo-pkg==1.0\n\nDemo.Pkg==2.0  # newer\n")
    for named in ("pypi:demo-pkg==1.0, Demo.Pkg==2.0", f"pypi:{tmp_path}/names.txt"):
        files = list(read_files(named, (), SkipCounter()))
        assert [(file.path, file.version, file.repository) for file in files] == [
            ("demo-pkg-1.0/demo/__init__.py", "1.0", "demo-pkg"),
            ("demo-pkg-2.0/demo/__init__.py", "2.0", "demo-pkg"),
        ]
    with pytest.raises(UsageError, match="'' is not a release; name it as pypi:NAME==VERSION"):
        list(read_files("pypi:demo-pkg==1.0,", (), SkipCounter()))


def test_lines_of_json_have_a_date_of_their_own(tmp_path: Path) -> None:
    rows = [{"id": name, "code": "x = 1", "language": "python"} for name in ("a", "b")]
    dates = ({"date": OLD}, {"date": "May 2024"})
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(row | date) + "\n" for row, date in zip(rows, dates, strict=True)))
    assert [file.dates for file in read_files(f"jsonl:{path}", (), SkipCounter())] == [(), ()]
    with pytest.raises(InputError, match="line 2: 'date' = 'May 2024' is not a date; write it as 2024-12-31"):
        dated(f"jsonl:{path}")
    path.write_text(json.dumps(rows[0] | dates[0]))
    assert dated(f"jsonl:{path}")["a"].dates == ((0, OLD),)
    path.write_text(json.dumps(rows[0]))
    with pytest.raises(InputError, match="line 1: no 'date'"):
        dated(f"jsonl:{path}")
