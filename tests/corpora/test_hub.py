import json
import socket
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub.constants
import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Selection, SkipCounter, SourceFile, read_files, select
from sonde.corpora.sources.hub import column_map
from sonde.languages import LANGUAGES

PYTHON = "def f(a):\n    return a\n"
JAVA = "int f(int a) { return a; }"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("the network is forbidden")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def listing(corpus: str, *languages: str) -> tuple[list[SourceFile], SkipCounter]:
    intake = SkipCounter()
    return list(read_files(corpus, languages, intake)), intake


def search_net_row(number: int, language: str, code: str) -> dict[str, Any]:
    return {
        "repository_name": f"owner/repo{number}",
        "func_path_in_repository": "pkg/m.py",
        "func_name": "C.f",
        "whole_func_string": code,
        "language": language,
        "func_code_string": code,
        "func_documentation_string": "",
        "split_name": "test",
    }


def test_code_search_net_saved_to_disk_with_splits(tmp_path: Path) -> None:
    rows = [
        search_net_row(1, "python", PYTHON),
        search_net_row(2, "java", JAVA),
        search_net_row(3, "cobol", "x"),
    ]
    table = datasets.Dataset.from_list(rows)
    datasets.DatasetDict({"train": table, "test": table}).save_to_disk(tmp_path / "csn")
    files, intake = listing(f"hub:{tmp_path}/csn?split=test")
    assert [(file.path, file.language, file.unit, file.name) for file in files] == [
        ("test/0/owner/repo1/pkg/m.py", "python", "function", "C.f"),
        ("test/1/owner/repo2/pkg/m.py", "java", "function", "C.f"),
    ]
    assert {file.cluster for file in files} == {"owner/repo1", "owner/repo2"}
    assert intake.counts == {"other language": 1}
    assert len(listing(f"hub:{tmp_path}/csn", "python")[0]) == 2
    (item,) = select(f"hub:{tmp_path}/csn", Selection(languages=("python",))).items
    assert (item.text, item.name, item.path) == (PYTHON, "C.f", "test/0/owner/repo1/pkg/m.py")


SEARCH_NET = {
    "go": "func f(a int) int { return a }",
    "java": JAVA,
    "javascript": "function f(a) { return a; }",
    "php": "function f($a) { return $a; }",
    "python": PYTHON,
    "ruby": "def f(a)\n  a\nend",
}


def test_code_search_net_in_its_languages_with_its_splits(tmp_path: Path) -> None:
    published = ("train", "valid", "test")
    rows = [
        search_net_row(number, language, code)
        | {
            "split_name": published[number % 3],
            "func_code_tokens": [],
            "func_documentation_tokens": [],
            "func_code_url": "",
        }
        for number, (language, code) in enumerate(SEARCH_NET.items())
    ]
    datasets.Dataset.from_list(rows).to_parquet(tmp_path / "train-0.parquet")
    known = [language for language in SEARCH_NET if language in LANGUAGES.names()]
    files, intake = listing(f"hub:{tmp_path}")
    assert {file.language: (file.text, file.split, file.repository, file.unit) for file in files} == {
        language: (SEARCH_NET[language], published[number % 3], f"owner/repo{number}", "function")
        for number, language in enumerate(SEARCH_NET)
        if language in known
    }
    assert {"go", "java", "python"} <= set(known)
    assert intake.counts["other language"] == len(SEARCH_NET) - len(known)
    (item,) = select(f"hub:{tmp_path}", Selection(languages=("go",))).items
    assert (item.text, item.split, item.unit) == (SEARCH_NET["go"], "train", "function")


def test_github_code_as_parquet(tmp_path: Path) -> None:
    row = {
        "code": PYTHON,
        "repo_name": "o/r",
        "path": "a.py",
        "language": "Python",
        "license": "mit",
        "size": 20,
    }
    (tmp_path / "data").mkdir()
    datasets.Dataset.from_list([row, row | {"code": "x\0"}]).to_parquet(tmp_path / "data" / "train-0.parquet")
    for streaming in ("", "?streaming=yes"):
        (file,), intake = listing(f"hub:{tmp_path}{streaming}")
        assert (file.unit, file.repository, file.licence, file.text) == ("file", "o/r", "mit", PYTHON)
        assert intake.counts == {"NUL bytes": 1}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            {
                "code": JAVA,
                "repo": "o/r",
                "path": "A.java",
                "func_name": "A.f",
                "language": "java",
                "partition": "valid",
            },
            ("java", "function", "o/r", "A.f", "valid"),
        ),
        (
            {"filepath": "o/r/pkg/a.py", "content": PYTHON, "license": "mit"},
            ("python", "file", "o/r", "", ""),
        ),
        (
            {"method_id": "m1", "method_name": "f", "method_text": JAVA},
            ("java", "function", "train/0/m1", "f", ""),
        ),
        ({"method_id": "m1", "TEXT": JAVA}, ("java", "function", "train/0/m1", "", "")),
    ],
)
def test_other_layouts_as_json_lines(tmp_path: Path, row: dict[str, Any], expected: tuple[str, ...]) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps(row) + "\n")
    (file,), _ = listing(f"hub:{tmp_path}")
    assert (file.language, file.unit, file.repository, file.name, file.split) == expected


def test_unknown_columns_are_named() -> None:
    with pytest.raises(
        InputError, match=r"no column map fits the columns \['label', 'text'\]; name them, .*; known: CodeS"
    ):
        column_map("hub:x", ["text", "label"])
    with pytest.raises(InputError, match="file paths without code"):
        column_map("hub:x", ["filepath", "license"])


def test_what_cannot_be_loaded_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for corpus in (f"hub:{tmp_path}", "hub:owner/no-such-set@main"):
        with pytest.raises(InputError, match="cannot be loaded") as caught:
            listing(corpus)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=r"unknown option of corpus 'hub:.*' 'spilt'; did you mean 'split'"):
        listing("hub:owner/name?spilt=test")
    with pytest.raises(UsageError, match="hub:NAME"):
        listing("hub:")


STACK = {"hexsha": "0", "ext": "x", "size": 1, "content": ""}
STACKS = {
    "The Stack": ("lang", "max_stars_repo_name", "max_stars_repo_path", "max_stars_repo_licenses"),
    "The Stack, small": ("lang", "repository_name", "path", "licenses"),
    "StarCoder's data": ("", "max_stars_repo_name", "max_stars_repo_path", ""),
}
SPELLED = {
    "python": "Python",
    "java": "Java",
    "go": "Go",
    "javascript": "JavaScript",
    "php": "PHP",
    "ruby": "Ruby",
}


@pytest.mark.parametrize("kind", STACKS)
def test_the_stack_in_all_languages(tmp_path: Path, kind: str) -> None:
    language, repository, path, licence = STACKS[kind]
    rows: list[dict[str, Any]] = []
    for name in (*SEARCH_NET, "cobol"):
        suffix = LANGUAGES.load(name).suffixes[0] if name in SEARCH_NET else ".cob"
        row = {**STACK, "content": SEARCH_NET.get(name, "x"), repository: "o/r", path: f"src/{name}{suffix}"}
        row |= {language: SPELLED.get(name, "COBOL")} if language else {}
        rows.append(row | ({licence: ["MIT", "Apache-2.0"]} if licence else {}))
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "stack")
    files, intake = listing(f"hub:{tmp_path}/stack")
    assert [(file.language, file.text) for file in files] == list(SEARCH_NET.items())
    assert intake.counts == {"other language": 1}
    assert {(file.repository, file.unit) for file in files} == {("o/r", "file")}
    assert {file.licence for file in files} == {"MIT OR Apache-2.0" if licence else ""}


def test_columns_by_the_query(tmp_path: Path) -> None:
    rows = [{"body": text, "tongue": name, "repo": "o/r", "num": 1} for name, text in SEARCH_NET.items()]
    datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "own")
    corpus = f"hub:{tmp_path}/own"
    with pytest.raises(InputError, match=r"no column map fits .* hub:NAME\?text=COLUMN"):
        listing(corpus)
    files, _ = listing(f"{corpus}?text=body&language=tongue&unit=function")
    assert {(file.language, file.text) for file in files} == set(SEARCH_NET.items())
    assert {(file.repository, file.unit) for file in files} == {("o/r", "function")}
    # One language for all: by the query, or as it is asked for.
    assert {file.language for file in listing(f"{corpus}?text=body&language=Python")[0]} == {"python"}
    assert {file.language for file in listing(f"{corpus}?text=body", "go")[0]} == {"go"}
    with pytest.raises(UsageError, match="no column has the language"):
        listing(f"{corpus}?text=body")
    with pytest.raises(UsageError, match="'bodi'; did you mean 'body'"):
        listing(f"{corpus}?text=bodi&language=go")
    with pytest.raises(UsageError, match="add text=COLUMN"):
        listing(f"{corpus}?language=go")
    with pytest.raises(UsageError, match="known: file, function"):
        listing(f"{corpus}?text=body&language=go&unit=line")
