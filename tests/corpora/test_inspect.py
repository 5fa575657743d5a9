from pathlib import Path

import pytest

from sonde.base.errors import InputError, UsageError
from sonde.corpora import Given, Selection, SkipCounter, SourceFile, read_files, select


def read(path: Path, content: str, intake: SkipCounter | None = None) -> list[SourceFile]:
    path.write_text(content, encoding="utf-8", newline="")
    return list(read_files(f"inspect:{path}", (), intake or SkipCounter()))


def test_a_row_is_an_item_with_its_label_and_split(tmp_path: Path) -> None:
    found = read(
        tmp_path / "CPX_ORIG_1k.txt", "tr\t3\tint f ( ) { }\nva\t1\tint g ( ) { }\nte\t3\tvoid h ( ) { }\n"
    )
    assert [(one.text, one.given[0].label, one.given[0].split) for one in found] == [
        ("int f ( ) { }", "3", "train"),
        ("int g ( ) { }", "1", "valid"),
        ("void h ( ) { }", "3", "test"),
    ]
    first = found[0]
    assert first.given == (Given("cpx", "3", 0, 13, split="train"),)
    assert (first.path, first.language, first.unit) == ("CPX_ORIG_1k.txt#1", "java", "function")
    assert len({one.cluster for one in found}) == 3


def test_items_stay_whole_whatever_their_text_is(tmp_path: Path) -> None:
    path = tmp_path / "KTX_ORIG_10k.txt"
    path.write_text("tr\tSYM\t)\ntr\tKPT\tlong\nte\tOAR\t+\n")
    items = select(f"inspect:{path}", Selection()).items
    assert {(item.text, item.given[0].label) for item in items} == {
        (")", "SYM"),
        ("long", "KPT"),
        ("+", "OAR"),
    }


def test_line_breaks_and_tabs_inside_texts(tmp_path: Path) -> None:
    intake = SkipCounter()
    rows = "".join(f"tr\t1\tint f{n} ( ) {{ }}\n" for n in range(20))
    found = read(
        tmp_path / "MXN_ORIG_1k.txt",
        f'{rows}tr\t2\tint f ( ) {{ s = " a\r\n b " ; }}\nva\t1\tx\t= 1 ;\n',
        intake,
    )
    assert [one.text for one in found[20:]] == ['int f ( ) { s = " a b " ; }', "x = 1 ;"]
    assert dict(intake.counts) == {"line without a row": 1, "tab inside a text": 1}


def test_other_line_separators_do_not_end_a_row(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "LEN.tsv", 'tr\tA\tf ( "a\u2028b\x0cc" )\n')
    assert one.text == 'f ( "a\u2028b\x0cc" )'
    assert one.given[0].task == "len"


def test_null_that_became_nan_is_null_again_in_token_tasks(tmp_path: Path) -> None:
    intake = SkipCounter()
    (token,) = read(tmp_path / "IDT_10k.txt", "tr\tKEY\tnan\n", intake)
    assert (token.text, token.given[0].end, intake.counts["nan for null"]) == ("null", 4, 1)
    rows = read(tmp_path / "LEN_1k.txt", "tr\tA\tint f ( ) { }\ntr\tA\tnan\n")
    assert rows[1].text == "nan"


def test_a_function_counts_once(tmp_path: Path) -> None:
    intake = SkipCounter()
    content = "tr\tORIG\ta b\ntr\tORIG\ta b\ntr\tFAULT\ta b\nte\tORIG\ta b\nte\tORIG\tc d\nva\tORIG\t\n"
    found = read(tmp_path / "SRI_1k.txt", content, intake)
    assert [(one.text, [given.split for given in one.given]) for one in found] == [
        ("a b", ["train"]),
        ("c d", ["test"]),
    ]
    assert dict(intake.counts) == {"repeated row": 1, "two labels": 1, "in two splits": 1, "empty text": 1}


def test_a_token_counts_as_often_as_it_stands_but_in_one_split(tmp_path: Path) -> None:
    intake = SkipCounter()
    content = "tr\tOAR\t+\ntr\tOAR\t+\nte\tOAR\t+\nte\tORE\t<\n"
    found = read(tmp_path / "KTX_10k.txt", content, intake)
    assert [(one.text, len(one.given)) for one in found] == [("+", 2), ("<", 1)]
    assert dict(intake.counts) == {"repeated row": 1, "in two splits": 1}


def test_java_is_all_there_is(tmp_path: Path) -> None:
    path = tmp_path / "LEN.txt"
    path.write_text("tr\tA\tx = 1\n")
    intake = SkipCounter()
    assert list(read_files(f"inspect:{path}", ("python",), intake)) == []
    assert intake.counts["another language"] == 1


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="inspect:FILE"):
        list(read_files("inspect:", (), SkipCounter()))
    with pytest.raises(InputError, match="no such file"):
        list(read_files(f"inspect:{tmp_path / 'absent'}", (), SkipCounter()))
    with pytest.raises(InputError, match="0 rows and 2 lines that are not rows"):
        read(tmp_path / "a.txt", "some\nprose\n")
    (tmp_path / "b.txt").write_bytes(b"tr\tA\t\xff\n")
    with pytest.raises(InputError, match="not UTF-8"):
        list(read_files(f"inspect:{tmp_path / 'b.txt'}", (), SkipCounter()))
