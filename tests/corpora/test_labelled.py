"""Tables of a user's own: what is read, what is left out, and what is refused in one line."""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sonde.base.errors import InputError, SondeError, UsageError
from sonde.corpora import Item, Selection, SkipCounter, SourceFile, read_files, select, tasks_from_corpora
from sonde.corpora.engine.corpus import TableCounts

Row = Mapping[str, Any]


def function(number: int) -> str:
    return f"def f{number}(a):\n    return a + {number}\n"


def rows(number: int = 12, **more: Any) -> list[dict[str, Any]]:
    """Rows of two classes."""
    return [{"code": function(n), "label": ("even", "odd")[n % 2], **more} for n in range(number)]


def write_csv(path: Path, table: Iterable[Row]) -> None:
    listed = list(table)
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(listed[0]))
        writer.writeheader()
        writer.writerows(listed)


def write_lines(path: Path, table: Iterable[Row]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in table), encoding="utf-8")


def write_parquet(path: Path, table: Iterable[Row]) -> None:
    pl.DataFrame(list(table)).write_parquet(path)


WRITERS: dict[str, Callable[[Path, Iterable[Row]], None]] = {
    "csv": write_csv,
    "jsonl": write_lines,
    "parquet": write_parquet,
}


def read(corpus: str, intake: SkipCounter | None = None, languages: tuple[str, ...] = ()) -> list[SourceFile]:
    return list(read_files(corpus, languages, intake or SkipCounter()))


def labels(files: Iterable[SourceFile | Item]) -> list[list[str]]:
    return [[one.label for one in file.given] for file in files]


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_row_is_a_text_with_its_label(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"own.{suffix}"
    table = [
        row | {"id": n, "split": ("train", "dev", "test")[n % 3], "group": f"g{n // 2}"}
        for n, row in enumerate(rows())
    ]
    WRITERS[suffix](path, table)
    files = read(f"labelled:{path}")
    assert [file.text for file in files] == [row["code"] for row in table]
    assert labels(files) == [[row["label"]] for row in table]
    first, second = files[:2]
    assert (first.path, first.identifier, first.cluster, first.unit) == (
        f"own.{suffix}#0",
        "0",
        "g0",
        "function",
    )
    (given,) = second.given
    assert (given.task, given.start, given.end, given.split) == ("labelled", 0, len(second.text), "valid")
    assert second.tags[0].label == given.label
    assert {file.language for file in files} == {"python"}
    assert tasks_from_corpora([f"labelled:{path}"]) == ("labelled",)


def test_items_are_whole_texts(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    write_csv(
        path,
        [
            row | {"code": f"# a comment\n{row['code']}\n\n{function(100 + n)}"}
            for n, row in enumerate(rows())
        ],
    )
    items = select(f"labelled:{path}", Selection(near_duplicates=False)).items
    assert len(items) == 12
    assert all(item.text.startswith("# a comment") and item.given[0].end == len(item.text) for item in items)


def test_columns_are_named_in_the_query(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    write_csv(path, [{"body": row["code"], "y": row["label"], "split": "x", "repo": "r"} for row in rows()])
    files = read(f"labelled:{path}?text=body&label=y&split=&group=repo&language=java")
    assert {(file.cluster, file.language) for file in files} == {("r", "java")}
    with pytest.raises(UsageError, match="did you mean 'label'"):
        read(f"labelled:{path}?lable=y")
    with pytest.raises(UsageError, match="both start= and end="):
        read(f"labelled:{path}?start=a")
    with pytest.raises(UsageError, match="leave one out"):
        read(f"labelled:{path}?start=a&end=b&text_b=c")
    with pytest.raises(
        InputError, match=r"no column 'code'; the first row names 'body', 'y', 'split', 'repo'"
    ):
        read(f"labelled:{path}?label=y")


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters_are_seen_in_the_header(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "own.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as handle:
        csv.writer(handle, delimiter=delimiter).writerows(
            [["code", "label"], *[list(row.values()) for row in rows()]]
        )
    assert len(read(f"labelled:{path}")) == 12


def test_the_language_is_a_column_or_the_one_that_texts_parse_in(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    java = [{"code": f"int f(int a) {{ return a + {n}; }}", "label": "ab"[n % 2]} for n in range(10)]
    prose = [{"code": f"The dog barked {n} times, and left.", "label": "ab"[n % 2]} for n in range(10)]
    for expected, table in (("java", java), ("text", prose)):
        write_lines(path, table)
        assert {file.language for file in read(f"labelled:{path}")} == {expected}
    write_lines(path, [row | {"language": "Java" if n % 2 else "Cobol"} for n, row in enumerate(java)])
    intake = SkipCounter()
    assert [file.language for file in read(f"labelled:{path}", intake)] == ["java"] * 5
    assert intake.counts["another language"] == 5
    assert read(f"labelled:{path}", languages=("python",)) == []


def test_few_numbers_are_classes_and_many_are_quartiles(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    write_csv(path, rows() + [{"code": function(50 + n), "label": n % 2} for n in range(10)])
    assert {label for (label,) in labels(read(f"labelled:{path}"))} == {"even", "odd", "0", "1"}
    write_csv(path, [{"code": function(n), "label": n / 2} for n in range(40)])
    files = read(f"labelled:{path}")
    assert sorted({label for (label,) in labels(files)}) == [
        "1 (0 to 4.5)", "2 (5 to 9.5)", "3 (10 to 14.5)", "4 (15 to 19.5)"
    ]  # fmt: skip
    assert [file.given[0].value for file in files] == [n / 2 for n in range(40)]
    write_csv(path, [{"code": function(n), "label": n % 20} for n in range(200)])
    assert len({label for (label,) in labels(read(f"labelled:{path}?kind=classes"))}) == 20


def test_a_column_that_only_later_json_lines_have_is_named(tmp_path: Path) -> None:
    """Roles are taken from the first row, so that the splits of the later ones would be lost in silence."""
    path, intake = tmp_path / "own.jsonl", SkipCounter()
    write_lines(path, [*rows(6), *(row | {"split": "test", "note": ""} for row in rows(12)[6:])])
    assert not any(given.split for file in read(f"labelled:{path}", intake) for given in file.given)
    assert intake.table == TableCounts(12, 12, ("split", "note"), "?split=split")


def test_spans_of_a_text_stand_together(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    table = [
        {"code": function(n), "label": label, "from": start, "to": start + 1}
        for n in range(6)
        for label, start in (("parameter", 7), ("use", 21))
    ]
    write_csv(
        path,
        [*table, table[0], table[1] | {"to": 9_000}, table[2] | {"from": "x"}, table[3] | {"label": "a|b"}],
    )
    corpus, intake = f"labelled:{path}?start=from&end=to", SkipCounter()
    files = read(corpus, intake)
    assert tasks_from_corpora([corpus]) == ("labelled_spans",)
    assert len(files) == 6
    assert [(one.start, one.end, one.label) for one in files[0].given] == [
        (7, 8, "parameter"),
        (21, 22, "use"),
    ]
    assert intake.counts == {
        "repeated row": 1,
        "span outside its text": 1,
        "span without whole numbers": 1,
        "text with two labels": 1,
    }


def test_a_pair_is_two_texts_one_behind_the_other(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    write_csv(path, [row | {"other": function(50 + n)} for n, row in enumerate(rows())])
    corpus = f"labelled:{path}?text_b=other"
    first = read(corpus)[0]
    (given,) = first.given
    assert tasks_from_corpora([corpus]) == ("labelled_pairs",)
    assert first.text[given.start : given.end] == function(0)
    assert first.text[given.other_start : given.other_end] == function(50)
    assert not first.text[given.end : given.other_start].strip()


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    good = [row | {"id": f"i{n}", "split": "train"} for n, row in enumerate(rows())]
    bad = [
        {"code": function(90), "label": "", "id": "", "split": ""},
        {"code": function(91), "label": "NaN", "id": "", "split": ""},
        {"code": " ", "label": "odd", "id": "", "split": ""},
        {"code": function(92), "label": "odd", "id": "i3", "split": ""},
        {"code": function(0), "label": "odd", "id": "", "split": "train"},
        {"code": function(0), "label": "even", "id": "", "split": "test"},
        {"code": function(93), "label": "odd", "id": "", "split": "fold 1"},
        {"code": function(94), "label": "rare", "id": "", "split": ""},
        {"code": function(95) + "\0", "label": "odd", "id": "", "split": ""},
        {"code": "x = " + "1" * 1_000_000, "label": "odd", "id": "", "split": ""},
    ]
    write_csv(path, good + bad)
    with path.open("ab") as handle:
        handle.write(b"only one cell\r\ncaf\xe9(),odd,,\r\n")
    intake = SkipCounter()
    assert len(read(f"labelled:{path}", intake)) == len(good)
    assert intake.counts == {
        "no label": 2, "no text": 1, "id of an earlier row": 1, "text with two labels": 1,
        "text in two splits": 1, "unknown split": 1, "class of fewer than 5 rows": 1, "NUL bytes": 1,
        "very long line": 1, "more or fewer cells than columns": 1, "not UTF-8": 1,
    }  # fmt: skip
    assert intake.examples["no label"] == ["line 38", "line 41"]
    assert intake.examples["class of fewer than 5 rows"] == ["'rare' in line 57"]
    assert intake.table is not None
    assert (intake.table.rows, intake.table.used) == (len(good) + len(bad) + 2, len(good))


@pytest.mark.parametrize("suffix", WRITERS)
def test_rows_and_columns_that_are_not_read_are_named(tmp_path: Path, suffix: str) -> None:
    """A label of the wrong case and a column of the wrong case: both are said with what was likely meant."""
    path = tmp_path / f"own.{suffix}"
    table = [row | {"repo": "a", "Split": "train", "notes": ""} for row in rows()]
    WRITERS[suffix](path, [*table, table[0] | {"code": function(90), "label": "Even"}])
    intake = SkipCounter()
    assert [file.line for file in read(f"labelled:{path}", intake)][:2] == {"csv": [2, 5]}.get(suffix, [1, 2])
    number = {"csv": "line 38", "jsonl": "line 13", "parquet": "row 13"}[suffix]
    assert intake.examples["class of fewer than 5 rows"] == [f"'Even' like 'even' in {number}"]
    assert intake.table == TableCounts(13, 12, ("repo", "Split", "notes"), "?split=Split")
    chosen, ignored = SkipCounter(), SkipCounter()
    read(f"labelled:{path}?group=repo&split=&id=notes", chosen)
    assert chosen.table is not None and (chosen.table.unread_columns, chosen.table.hint) == (
        ("Split",), "?split=Split"
    )  # fmt: skip
    WRITERS[suffix](path, [row | {"split": "train"} for row in rows()])
    read(f"labelled:{path}?split=", ignored)
    assert ignored.table == TableCounts(12, 12, (), "")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", b"", "the file is empty"),
        ("a.csv", b"code,label\n", "none of its 0 rows can be used"),
        (
            "a.csv",
            b'"def f(): pass",1\n"def g(): pass",0\n',
            "no column 'code'; the first row names 'def f(): pass', '1'",
        ),
        ("a.csv", b"code,label\nx,\ny,\n", "none of its 2 rows can be used: 2 no label"),
        ("a.csv", b"code,label,label\nx,a,b\n", "two columns are named 'label'"),
        ("a.csv", b'code,label\n"x,a\ny,b\n', "line 2 is not CSV"),
        ("a.csv", b'code,label\nx,a\n"y"z,b\n', "line 3 is not CSV"),
        ("a.csv", "code,label\nx,a\n".encode("utf-16"), "the header is not UTF-8"),
        ("a.csv", "code,label\nx,a\n".encode("utf-16-le"), "the header is not UTF-8"),
        ("a.csv", b"\0" * 1000, "the header is not UTF-8"),
        ("a.csv", b"co\xe9de,label\nx,a\n", "no column 'code'"),
        (
            "a.csv",
            b"code,label\n" + b"".join(b"f(%d),%d\n" % (n, n % 7) for n in range(20)),
            "2 to 200 classes",
        ),
        (
            "a.csv",
            b"code,label\n" + b"".join(b"f(%d),x%d\n" % (n, n) for n in range(90)),
            "90 different labels",
        ),
        ("a.csv?kind=numbers", b"code,label\nx,a\n", "label 'a' is not a number (line 2); correct it"),
        (
            "a.csv",
            b"code,label\n" + b"".join(b"f(%d),%d\n" % (n, n) for n in range(20)) + b"g,fast\n",
            "label 'fast' is not a number (line 22)",
        ),
        ("a.csv", b"Code,label\nx,a\n", "'label'; name the column after the file, as ?text=Code"),
        ("a.jsonl", b"[]\n{\n", "no column 'code'"),
        ("a.parquet", b"PAR1 and nothing else", "not a Parquet file"),
        ("a.xlsx", b"PK", "a table ends in .csv"),
        ("none.csv", None, "no such file"),
    ],
)
def test_what_is_no_such_table_is_refused_in_one_line(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    file, _, query = name.partition("?")
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(SondeError) as caught:
        read(f"labelled:{tmp_path}/{file}{'?' if query else ''}{query}")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_parquet_file_that_unpacks_to_more_than_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.parquet"
    pl.DataFrame({"code": ["x" * 1000] * 5_000, "label": ["a"] * 5_000}).write_parquet(path)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr("sonde.corpora.engine.tables.MAX_WHOLE", 1_000_000)
    with pytest.raises(InputError, match="more than 1,000,000 bytes"):
        read(f"labelled:{path}")


def test_corpora_with_and_without_labels_are_read_apart(tmp_path: Path) -> None:
    write_csv(tmp_path / "own.csv", rows())
    assert tasks_from_corpora(["stdlib"]) == ()
    with pytest.raises(UsageError, match="'stdlib' brings no labels"):
        tasks_from_corpora([f"labelled:{tmp_path}/own.csv", "stdlib"])
