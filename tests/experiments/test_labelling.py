import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import sonde
from sonde.base.errors import InputError, UsageError
from sonde.base.progress import NullProgress
from sonde.corpora import Selection, check_corpora, select
from sonde.experiments.label_files import LabelOptions, label_corpora, write_label_files
from tests.label_files import write_label_file

TASK = '''
"""Whether a function is long."""
import polars as pl


class Long:
    name = "long"
    version = "1"
    target = "item"
    labels = ("short", "long")
    needs_repository = False

    def label(self, items, repositories):
        return {
            item.item_id: pl.DataFrame(
                {"start": [0], "end": [len(item.text)], "label": ["long" if len(item.text) > 60 else "short"],
                 "value": [float(len(item.text))]}
            )
            for item in items
        }


task = Long()
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for package in range(12):
        folder = tmp_path / "code" / f"package{package}"
        folder.mkdir(parents=True)
        for index in range(5):
            body = "    value = 1\n" * (1 + 5 * (index % 2))
            name = f"function_{package}_{index}"
            (folder / f"module{index}.py").write_text(
                f"def {name}():\n{body}    return {package * 7 + index}\n"
            )
    (tmp_path / "long.py").write_text(TASK)
    return tmp_path


def wanted(task: object, folder: Path, **more: object) -> LabelOptions:
    return LabelOptions(task=str(task), corpora=(f"local:{folder}",), **more)  # type: ignore[arg-type]


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_raw_labels_every_item_in_order(project: Path) -> None:
    out = project / "raw.jsonl"
    count = write_label_file(wanted(project / "long.py", project / "code", raw=True), out)
    found = rows(out)
    assert count == len(found) == 60
    assert list(found[0]) == ["id", "path", "name", "line", "label", "value"]
    assert [found[5][name] for name in ("path", "name", "line")] == [
        "package1/module0.py",
        "function_1_0",
        1,
    ]
    assert [row["label"] for row in found[:3]] == ["short", "long", "short"]


def test_the_data_set_is_balanced_within_each_split(project: Path) -> None:
    out = project / "set.jsonl"
    selection = Selection(near_duplicates=False)
    write_label_file(wanted(project / "long.py", project / "code", selection=selection), out)
    counts = Counter((row["split"], row["label"]) for row in rows(out))
    for side in ("train", "valid", "test"):
        assert counts[side, "long"] == counts[side, "short"] > 0


def test_calls_become_spans_with_ids_of_their_own(project: Path) -> None:
    (project / "code" / "package0" / "caller.py").write_text("def caller():\n    return function_0_1()\n")
    out = project / "calls.jsonl"
    write_label_file(wanted("call_origin", project / "code" / "package0", raw=True), out)
    name, arguments = rows(out)
    assert (name["label"], name["part"], name["call_form"]) == ("internal", "name", "bare")
    assert arguments["part"] == "arguments"
    assert name["span"] != arguments["span"]
    assert name["id"] == arguments["id"]


def test_one_label_is_nothing_to_balance(project: Path) -> None:
    (project / "code2").mkdir()
    (project / "code2" / "a.py").write_text("def f():\n    x = 1\n    return x + x\n")
    with pytest.raises(InputError, match="class 'long' has 0 examples"):
        write_label_file(wanted(project / "long.py", project / "code2"), project / "x")


@pytest.mark.parametrize("other", ["{}", "{}/", "{}/../code", "link"])
def test_a_corpus_that_is_named_twice_is_refused(
    other: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its functions would count twice in every number; a path may be written in several ways."""
    monkeypatch.chdir(project)
    (project / "link").symlink_to(project / "code")
    first = f"local:{project / 'code'}"
    names = (first, f"local:{other.format(project / 'code')}")
    with pytest.raises(UsageError, match=r"is named twice.*; name each corpus once"):
        label_corpora(LabelOptions(task="len", corpora=names, raw=True))
    with pytest.raises(UsageError, match=r"is named twice.*; name each corpus once"):
        sonde.run(corpora=names, lenses="surprisal", output=project / "run")
    with pytest.raises(UsageError, match=r"is named twice; name each corpus once"):
        check_corpora(["stdlib", first, "stdlib"])
    check_corpora(["stdlib", first, f"local:{project}", f"jsonl:{project / 'code'}"])


def test_raw_with_a_limit_is_the_beginning_of_all(project: Path) -> None:
    everything, first = project / "all.jsonl", project / "first.jsonl"
    write_label_file(wanted(project / "long.py", project / "code", raw=True), everything)
    limited = Selection(limit=7)
    assert (
        write_label_file(wanted(project / "long.py", project / "code", raw=True, selection=limited), first)
        == 7
    )
    assert rows(first) == rows(everything)[:7]


def test_program_tokens_have_a_row_an_item_of_whatever_unit(project: Path) -> None:
    out = project / "tokens.jsonl"
    files = Selection(unit="file")
    assert write_label_file(wanted("program_tokens", project / "code", raw=True, selection=files), out) == 60
    assert all(row["tokens"][-1] == "___EOS___" for row in rows(out))


def test_several_tasks_read_a_corpus_once_and_write_a_file_each(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(corpus: str, *more: object, **named: object) -> object:
        read.append(corpus)
        return select(corpus, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("sonde.experiments.inputs.select", counted)
    names = [str(project / "long.py"), "early_return"]
    asked = wanted(names[0], project / "code", selection=Selection(near_duplicates=False))
    with pytest.raises(UsageError, match=r"write \{task\} into the name"):
        write_label_files(asked, names, str(project / "one.jsonl"))
    with pytest.raises(InputError, match="early_return"):
        write_label_files(asked, names, str(project / "out" / "{task}.jsonl"))
    # What was labelled before one that fails is there.
    before = rows(project / "out" / "long.jsonl")
    assert read == [f"local:{project / 'code'}"]
    write_label_file(asked, project / "alone.jsonl")
    assert rows(project / "alone.jsonl") == before
    raw = wanted(names[0], project / "code", raw=True)
    found = write_label_files(raw, [names[0], "len"], str(project / "raw" / "{task}.jsonl"))
    assert [(one["rows"], one["file"].name) for one in found] == [(60, "long.jsonl"), (60, "len.jsonl")]


class Notes(NullProgress):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


# Two functions of a file, the second of which no grammar reads as a whole, and the line of the second.
BROKEN = {
    "python": (".py", "def good(a):\n    return a\n\n\ndef bad(a):\n    if a ==\n        return 1\n", 5),
    "java": (
        ".java",
        "class C {\n int good(int a) { return a; }\n int bad(int a) { if (a ==) b(); }\n}\n",
        3,
    ),
    "go": (".go", "package p\n\nfunc good(a T) T { return a }\n\nfunc bad(a T) T {\n\tx = = 1\n}\n", 5),
    "javascript": (".js", "function good(a) { return a }\nfunction bad(a) { if (a ==) { b() } }\n", 2),
    "php": (".php", "<?php\nfunction good($a) { return $a; }\nfunction bad($a) { if ($a ==) { b(); } }\n", 3),
    "ruby": (".rb", "def good(a)\n  return a\nend\n\ndef bad(a)\n  x = [a, (]\n  1\nend\n", 5),
}


@pytest.mark.parametrize("language", BROKEN)
def test_what_does_not_parse_is_named_with_its_place(tmp_path: Path, language: str) -> None:
    suffix, text, line = BROKEN[language]
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / f"a{suffix}").write_text(text)
    notes, out = Notes(), tmp_path / "raw.jsonl"
    write_label_file(wanted("cpx", tmp_path / "code", raw=True, progress=notes), out)
    found = {str(row["name"]).rpartition(".")[2]: row["line"] for row in rows(out)}
    assert found == {"good": line - {"python": 4, "go": 2, "ruby": 4}.get(language, 1), "bad": line}
    files, told = notes.lines
    assert files.endswith(f": files: 1 with a parse error, where functions may be missing (a{suffix})")
    name = "C.bad" if language == "java" else "bad"
    assert told.endswith(
        f"1 of 2 functions does not parse (a{suffix} {name}): its labels come from the parts that parse"
    )


@pytest.mark.parametrize("language", BROKEN)
def test_a_data_set_leaves_out_what_does_not_parse_and_says_so(tmp_path: Path, language: str) -> None:
    suffix, text, _ = BROKEN[language]
    for number in range(30):
        (tmp_path / "code" / f"p{number}").mkdir(parents=True)
        named = text.replace("good", f"good{number}").replace("bad", f"bad{number}")
        more = re.sub(r"return (\$?a)", rf"return \1 + v{number}{f' * w{number}' * (number % 2 * 9)}", named)
        (tmp_path / "code" / f"p{number}" / f"a{suffix}").write_text(more)
    (tmp_path / "long.py").write_text(TASK)
    notes, out = Notes(), tmp_path / "set.jsonl"
    selection = Selection(near_duplicates=False)
    write_label_file(
        wanted(tmp_path / "long.py", tmp_path / "code", selection=selection, progress=notes), out
    )
    assert not any("bad" in str(row["text"]) for row in rows(out))
    assert any(line.endswith("data sets leave out 30 functions that do not parse") for line in notes.lines)


def test_what_is_left_out_is_said_and_nothing_is_an_error(project: Path) -> None:
    (project / "code" / "a.min.js").write_text("function f() {}")
    (project / "code" / "b.ts").write_text("let a")
    for raw in (False, True):
        notes = Notes()
        asked = wanted(project / "long.py", project / "code", raw=raw, progress=notes)
        if not raw:
            asked = replace(asked, selection=Selection(near_duplicates=False))
        write_label_files(asked, [asked.task], str(project / "out.jsonl"))
        assert (
            f"{asked.corpora[0]}: not used: 1 generated: its path says so (a.min.js); not read: 1 .ts"
            in notes.lines
        )
        assert any("of 60 functions" in line for line in notes.lines) is not raw
    (project / "empty").mkdir()
    (project / "empty" / "a.py").write_text("x = 1\n")
    for raw in (False, True):
        with pytest.raises(InputError) as raised:
            write_label_file(wanted("cpx", project / "empty", raw=raw), project / "none.jsonl")
        assert raised.value.exit_code == 2
        assert not (project / "none.jsonl").exists()


def test_names_of_apis_say_what_they_do_not_place(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    files = {
        "a.go": 'package p\nimport (\n\t"fmt"\n\t"github.com/a/b"\n)\nfunc f() { fmt.Println(b.C()) }\n',
        "a.js": "import fs from 'fs'\nimport x from './x'\nimport y from '@a/b'\nfs.readFile(x, y)\n",
        "a.py": "from . import lost\nfrom os import *\nimport re\nre.compile('a')\n",
        "a.rb": "require 'set'\nSet.new\n",
        "A.java": "import java.util.List;\nclass A { Object o = List.of(); }",
        "a.php": "<?php use A\\B; B::c();",
    }
    for name, text in files.items():
        (tmp_path / "code" / name).write_text(text)
    notes, out = Notes(), tmp_path / "names.jsonl"
    write_label_file(wanted("api_names", tmp_path / "code", progress=notes), out)
    assert {row["name"] for row in rows(out)} == {
        *("fmt.Println", "fs.readFile", "re.compile", "java.util.List.of", "A.B.c")
    }
    told = [line.removeprefix(f"local:{tmp_path / 'code'}: ") for line in notes.lines]
    assert told == [
        "1 import in go without names: of packages outside of the standard library, or with a version",
        "2 imports in javascript without names: of files, and of packages whose names are no identifiers",
        "1 import in python without names: relative ones that lead out of the corpus",
        "1 star import without names: their bindings are unknown",
        "1 file in ruby without names: no import there binds a name",
    ]
