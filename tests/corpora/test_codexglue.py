"""ClozeTest files: read as the published script reads them, and refused in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import SkipCounter, SourceFile, read_files
from sonde.corpora.sources.codexglue import predictions

ENTRY: dict[str, Any] = {
    "idx": "maxmin-1",
    "nl_tokens": ["Limit", "it", "."],
    "pl_tokens": ["def", "clean", "(", "<mask>", ":", "24", ")"],
}


def write(folder: Path, entries: object, name: str = "php.json") -> str:
    path = folder / name
    path.write_text(entries if isinstance(entries, str) else json.dumps(entries), encoding="utf-8")
    return f"codexglue:{path}"


def read(corpus: str, *languages: str) -> list[SourceFile]:
    return list(read_files(corpus, languages, SkipCounter()))


def test_an_entry_is_what_the_script_reads(tmp_path: Path) -> None:
    (file,) = read(write(tmp_path, [ENTRY]))
    published = " ".join([*ENTRY["nl_tokens"], *ENTRY["pl_tokens"]])
    (given,) = file.given
    assert file.text[: given.start] + "<mask>" + file.text[given.end :] == published
    assert file.text[given.start : given.end] == "max"
    assert (given.task, given.label) == ("api_cloze", "max,min")
    assert (file.identifier, file.unit, file.language) == ("maxmin-1", "function", "php")


@pytest.mark.parametrize(("name", "language"), [("java.json", "java"), ("python/clozeTest.json", "python")])
def test_the_name_tells_the_language(tmp_path: Path, name: str, language: str) -> None:
    (tmp_path / "python").mkdir()
    corpus = write(tmp_path, [ENTRY], name)
    assert [file.language for file in read(corpus)] == [language]
    assert read(corpus, "text") == []


def test_a_mask_in_the_words_is_no_mask(tmp_path: Path) -> None:
    (file,) = read(write(tmp_path, [{**ENTRY, "nl_tokens": ["<mask>"]}]))
    assert file.text.startswith("<mask> def clean ( max :")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("[", "not JSON"),
        ({}, "not a list"),
        ([1], "entry 1: not a JSON object"),
        ([ENTRY, {"idx": "maxmin-2"}], "entry 2: not an object with"),
        ([{**ENTRY, "pl_tokens": ["x"]}], "entry 1: 0 tokens of the code are <mask>"),
        ([{**ENTRY, "pl_tokens": ["<mask>", "<mask>"]}], "2 tokens of the code"),
        ([{**ENTRY, "pl_tokens": ["<mask>", 1]}], "not a string"),
        ([{**ENTRY, "idx": "all-1"}], "to no known test; known: maxmin"),
        ([ENTRY, ENTRY], "entry 2: idx 'maxmin-1' is that of entry 1"),
        ([1, 2, 3, 4, 5, 6, 7], "; and 2 more entries$"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line(tmp_path: Path, entries: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        read(write(tmp_path, entries))
    assert "\n" not in str(refusal.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(f"codexglue:{tmp_path / 'none.json'}")
    with pytest.raises(UsageError, match="needs a file"):
        read("codexglue:")


def test_predictions_are_written_for_the_evaluator() -> None:
    written = predictions([("maxmin-1", "max"), ("maxmin-2", "min")])
    assert written == "maxmin-1<CODESPLIT>max\nmaxmin-2<CODESPLIT>min\n"


def test_words_of_another_test_come_with_it(tmp_path: Path) -> None:
    (tmp_path / "cloze-all" / "php").mkdir(parents=True)
    corpus = write(tmp_path / "cloze-all" / "php", [{**ENTRY, "idx": "all-7"}], "clozeTest.json")
    with pytest.raises(InputError, match=r"'all-7' belongs to no known test; known: maxmin, and others with"):
        read(corpus)
    words = tmp_path / "cloze-all" / "cloze_test_words.txt"
    words.write_text("len\nmax\nkey", encoding="utf-8")
    (file,) = read(corpus)
    (given,) = file.given
    assert given.label == "len,max,key" and file.text[given.start : given.end] == "len"
    # The words of a test that is known stay its own.
    (file,) = read(write(tmp_path / "cloze-all" / "php", [ENTRY], "clozeTest.json"))
    assert file.given[0].label == "max,min"
    words.write_text("len\na,b", encoding="utf-8")
    with pytest.raises(InputError, match="'a,b' is not a word"):
        read(corpus)


def test_entries_are_told_apart_by_their_folder(tmp_path: Path) -> None:
    (tmp_path / "ruby").mkdir()
    (published,) = read(write(tmp_path / "ruby", [ENTRY], "clozeTest.json"))
    (renamed,) = read(write(tmp_path, [ENTRY], "go.json"))
    assert (published.path, published.cluster) == ("ruby/maxmin-1", "ruby/maxmin-1")
    assert renamed.path == "go/maxmin-1"
