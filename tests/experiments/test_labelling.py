import json
from collections import Counter
from pathlib import Path

import pytest

from sonde.base.errors import InputError
from sonde.corpora import Selection
from sonde.experiments.labelling import write_label_file

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


def rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_raw_labels_every_item_in_order(project: Path) -> None:
    out = project / "raw.jsonl"
    count = write_label_file(
        str(project / "long.py"), [f"local:{project / 'code'}"], Selection(), out, raw=True
    )
    found = rows(out)
    assert count == len(found) == 60
    assert set(found[0]) == {"id", "label", "value"}
    assert [row["label"] for row in found[:3]] == ["short", "long", "short"]


def test_the_data_set_is_balanced_within_each_split(project: Path) -> None:
    out = project / "set.jsonl"
    selection = Selection(near_duplicates=False)
    write_label_file(str(project / "long.py"), [f"local:{project / 'code'}"], selection, out, raw=False)
    counts = Counter((row["split"], row["label"]) for row in rows(out))
    for side in ("train", "valid", "test"):
        assert counts[side, "long"] == counts[side, "short"] > 0


def test_calls_become_spans_with_ids_of_their_own(project: Path) -> None:
    (project / "code" / "package0" / "caller.py").write_text("def caller():\n    return function_0_1()\n")
    out = project / "calls.jsonl"
    write_label_file("call_origin", [f"local:{project / 'code' / 'package0'}"], Selection(), out, raw=True)
    name, arguments = rows(out)
    assert (name["label"], name["part"], name["call_form"]) == ("internal", "name", "bare")
    assert arguments["part"] == "arguments"
    assert name["span"] != arguments["span"]
    assert name["id"] == arguments["id"]


def test_one_label_is_nothing_to_balance(project: Path) -> None:
    (project / "code2").mkdir()
    (project / "code2" / "a.py").write_text("def f():\n    return 1\n")
    with pytest.raises(InputError, match="needs two labels, found short"):
        write_label_file(
            str(project / "long.py"), [f"local:{project / 'code2'}"], Selection(), project / "x", raw=False
        )
