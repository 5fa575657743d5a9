"""The fixed set: what it consists of, what it reads, and with which sources a command runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from tests.reference import __main__
from tests.reference.collect import Tree, collect
from tests.reference.commands import QUICK, Command, chosen, commands
from tests.reference.corpora import LANGUAGES, MODULES, freeze_labels, freeze_languages, freeze_repository
from tests.reference.server import ADDRESS, serve

LABELS = {name: f"labelled:{name}.jsonl" for name in ("classes", "spans", "pairs")}
SOURCE = """import sys
from pathlib import Path


def main():
    print(sys.argv, Path(__file__).parts[-2])
    Path("written").write_text("now")
    sys.exit(int(sys.argv[-1]))
"""


@pytest.fixture
def every() -> list[Command]:
    corpora = {language: f"local:{language}" for language in LANGUAGES}
    return list(commands(corpora, ["cpx", "labelled", "api_cloze"], Path("repository"), LABELS))


def tree(folder: Path, name: str) -> Tree:
    """A tree whose package `sonde` is one module, by the command line that it declares."""
    package = folder / name / "src" / "sonde"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / f"{name}.py").write_text(SOURCE)
    (folder / name / "pyproject.toml").write_text(f'[project.scripts]\nsonde = "sonde.{name}:main"\n')
    return Tree(folder / name, Path(sys.executable), folder / name / "declared")


def test_names_are_unique_and_what_is_needed_is_there(every: list[Command]) -> None:
    names = [command.name for command in every]
    assert len(names) == len(set(names))
    assert {needed for command in every for needed in command.needs} <= set(names)
    assert all(chosen(every, [name])[1] for name in QUICK)


def test_what_a_chosen_command_needs_runs_and_is_not_compared(every: list[Command]) -> None:
    wanted, named = chosen(every, ["compare-transform", "list-t*"])
    assert [command.name for command in wanted] == [
        "run-surprisal-corrected",
        "run-transform-rename",
        "compare-transform",
        "list-tasks",
    ]
    assert named == ["compare-transform", "list-tasks"]


def test_no_command_changes_what_another_one_wrote(every: list[Command]) -> None:
    verbs = ("card", "figures", "report")
    changing = [command for command in every if command.needs and command.arguments[0] in verbs]
    assert {command.arguments[0] for command in changing} == set(verbs)
    assert all(command.copied in command.needs and command.arguments[1] == "run" for command in changing)


def test_no_argument_names_a_tree(every: list[Command]) -> None:
    root = str(Path(__file__).parents[2])
    assert not [command for command in every if any(root in argument for argument in command.arguments)]


def test_each_tree_runs_its_own_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, now = tree(tmp_path, "before"), tree(tmp_path, "now")
    monkeypatch.setenv("PYTHONPATH", str(before.source / "src"))
    command = Command("one", ("word", "0"))
    for each in (before, now):
        assert collect(each, [command], tmp_path / "output" / each.source.name, 1) == []
        told = (tmp_path / "output" / each.source.name / "one" / "told.txt").read_text()
        assert told == "['sonde', 'word', '0'] sonde\n"
        assert str(each.source / "src") in each.environment()["PYTHONPATH"].split(os.pathsep)
    with pytest.raises(RuntimeError, match="would be run with"):
        Tree(tmp_path / "without", now.python, now.declared).check()


def test_a_tree_has_the_entry_points_that_it_declares_itself(tmp_path: Path) -> None:
    each = tree(tmp_path, "now")
    project = each.source / "pyproject.toml"
    project.write_text(
        project.read_text() + '[project.entry-points."sonde.tasks.published"]\ncpx = "sonde.x:y"\n'
    )
    each.declare()
    ask = "from importlib.metadata import entry_points as e; print(e(group='sonde.tasks.published'))"
    told = subprocess.run(
        [each.python, "-P", "-c", ask], env=each.environment(), capture_output=True, text=True, check=True
    ).stdout
    assert told.count("EntryPoint(") == 1 and "value='sonde.x:y'" in told


def test_how_commands_end_and_what_is_kept(tmp_path: Path) -> None:
    each, output = tree(tmp_path, "now"), tmp_path / "output"
    first, second = Command("first", ("0",)), Command("second", ("0",), ("first",))
    assert collect(each, [second, first], output, 2) == []
    (output / "first" / "written").write_text("kept")
    assert collect(each, [second, first], output, 2) == []
    assert (output / "first" / "written").read_text() == "kept"
    (output / "second" / "written").write_text("gone")
    (output / "first" / "run").mkdir()
    (output / "first" / "run" / "scores").write_text("1")
    copying = Command("copying", ("0",), ("first",), copied="first")
    assert collect(each, [first, copying], output, 2) == []
    assert (output / "copying" / "run" / "scores").read_text() == "1"
    changed = Command("first", ("3",), files={"code.py": "x = 1\n"})
    assert collect(each, [second, changed], output, 2) == ["first ended with 3, and was meant to with 0"]
    assert {(output / name / "written").read_text() for name in ("first", "second")} == {"now"}
    assert (output / "first" / "code.py").read_text() == "x = 1\n"
    assert json.loads((output / "first" / "ended.json").read_text())["code"] == 3


def test_the_repository_is_the_same_wherever_it_is_built(tmp_path: Path) -> None:
    heads = set[str]()
    for name in ("one", "other"):
        for module in MODULES[:16]:
            folder = tmp_path / name / "python" / module
            folder.mkdir(parents=True)
            (folder / f"{module}.py").write_text(f"def {module}():\n    return 1\n")
        repository = freeze_repository(tmp_path / name)
        heads.add(git(repository, "rev-parse", "HEAD"))
        assert "R100\tcopy.py\tduplicate.py" in git(repository, "show", "--name-status", "-M", "HEAD")
        assert git(repository, "log", "--format=%as %an") == "2023-05-02 A\n2019-03-01 A"
    assert len(heads) == 1


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_language_without_files_is_left_out_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, text = tmp_path / "root", "# words\n" * 300
    for name in ("ruby/3.1.0/set.rb", "ruby/3.1.0/json/add/core.rb", "ruby/3.1.0/tests/set.rb", "php/a.php"):
        path = root / "usr" / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "usr/lib/ruby/3.1.0/short.rb").write_text("x = 1\n")
    monkeypatch.setenv("DPKG_ROOT", str(root))
    corpora = freeze_languages(tmp_path / "place")
    told = capsys.readouterr().out.splitlines()
    left = [f"reference: {name} is left out: this machine has no files of it" for name in ("go", "php")]
    assert [line for line in told if "java" not in line] == left
    assert corpora["ruby"] == f"local:{tmp_path / 'place' / 'ruby'}" and "go" not in corpora
    kept = {
        path.relative_to(tmp_path / "place/ruby").as_posix() for path in tmp_path.glob("place/ruby/**/*.rb")
    }
    assert kept == {"set.rb", "json/add/core.rb"}
    # What is frozen stays, whatever the machine has.
    (root / "usr/lib/ruby/3.1.0/set.rb").write_text(text + "x = 1\n")
    assert freeze_languages(tmp_path / "place") == corpora
    assert (tmp_path / "place/ruby/set.rb").read_text() == text


def test_labels_fit_their_texts(tmp_path: Path) -> None:
    tables: Mapping[str, str] = freeze_labels(tmp_path)
    rows = {
        name: [
            json.loads(line) for line in (tmp_path / "labelled" / f"{name}.jsonl").read_text().splitlines()
        ]
        for name in tables
    }
    assert {name: len(table) for name, table in rows.items()} == dict.fromkeys(tables, 90)
    assert all(row["code"][row["start"] : row["end"]][:1] in "fg" for row in rows["spans"])
    assert {row["label"] for row in rows["pairs"]} == {"same", "else"}


def test_the_server_is_reached_as_a_proxy_and_repeats_itself() -> None:
    message = {"messages": [{"role": "user", "content": "import numpy as array; zeros"}]}
    with serve() as proxy:
        chats = [post(proxy, "chat/completions", message) for _ in range(2)]
        scored = post(proxy, "completions", {"prompt": "def f(x):\n    return x"})
    assert chats[0] == chats[1] and chats[0]["choices"][0]["message"]["content"]
    told = scored["choices"][0]["logprobs"]
    assert "".join(told["tokens"]) == "def f(x):\n    return x end"
    assert told["token_logprobs"][0] is None and all(value < 0 for value in told["token_logprobs"][1:])
    assert len(told["tokens"]) == len(told["top_logprobs"]) == len(told["token_logprobs"])


def post(proxy: str, path: str, body: dict[str, Any]) -> Any:
    request = Request(f"{ADDRESS}/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with build_opener(ProxyHandler({"http": proxy})).open(request, timeout=30) as answer:
        return json.load(answer)


def test_what_other_sources_gave_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, kept = tmp_path / "root", tmp_path / "own" / "now" / "run"
    for name in ("src/sonde/a.py", *__main__._DECIDING):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\n")
    monkeypatch.setattr(__main__, "ROOT", root)
    for name in ("src/sonde/a.py", "src/sonde/b.py", "pyproject.toml", ""):
        kept.mkdir(parents=True, exist_ok=True)
        if name:
            (root / name).write_text(f"{name} = 2\n")
        __main__._forget_other_sources(kept.parent)
        assert kept.exists() == (not name)
