import json
from collections import Counter
from pathlib import Path

import pytest

import sonde
from sonde.base.errors import InputError, UsageError
from sonde.corpora import Selection, check_corpora, select
from sonde.experiments.labelling import Labelling, label, write_label_files
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

    def label(self, items, repositories, *, mode="corrected", quirks=frozenset()):
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


def wanted(task: object, folder: Path, **more: object) -> Labelling:
    return Labelling(task=str(task), corpora=(f"local:{folder}",), **more)  # type: ignore[arg-type]


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_raw_labels_every_item_in_order(project: Path) -> None:
    out = project / "raw.jsonl"
    count = write_label_file(wanted(project / "long.py", project / "code", raw=True), out)
    found = rows(out)
    assert count == len(found) == 60
    assert set(found[0]) == {"id", "label", "value"}
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
        label(Labelling(task="len", corpora=names, raw=True))
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

    monkeypatch.setattr("sonde.experiments.labelling.select", counted)
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
