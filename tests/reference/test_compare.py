"""What the comparison with an earlier tree takes for a difference, on folders made for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save_file

from sonde.results.scores import Score, scores_to_frame
from tests.reference.compare import ADDED, DIFFERS, IDS, INTENDED, Finding, Intended, differences, told

PLACE = "observations/lens=surprisal/model=m"
NAMES = "python-1e3f44c5-{:016x}.parquet"
ROWS = {
    "item_id": ["a", "a", "b"],
    "rank": [1, 2, 1],
    "nats": [0.5, 1.5, 2.5],
    "fingerprint": ["a", "a", "b"],
}


def folder(place: Path, *parts: dict[str, Any], code: int = 0) -> Path:
    command = place / "run-surprisal"
    (command / PLACE).mkdir(parents=True)
    (command / "ended.json").write_text(json.dumps({"code": code}))
    for number, part in enumerate(parts):
        pl.DataFrame(part).write_parquet(command / PLACE / NAMES.format(number))
    return place


def labels(place: Path, rows: list[dict[str, Any]]) -> Path:
    (place / "label").mkdir(parents=True)
    (place / "label" / "ended.json").write_text('{"code": 0}')
    (place / "label" / "labels").write_text("\n".join(map(json.dumps, rows)))
    return place


def found(before: Path, after: Path) -> list[tuple[str, str, int]]:
    return [(one.kind, " ".join(one.what.split()[:3]), one.count) for one in differences(before, after, {})]


def written(place: Path, **files: str | bytes) -> Path:
    """A command that wrote files, whose names have ``_`` for the dot."""
    (place / "command").mkdir(parents=True)
    (place / "command" / "ended.json").write_text('{"code": 0}')
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (place / "command" / name.replace("_", ".")).write_bytes(data)
    return place


def with_rows(**changed: list[Any]) -> dict[str, list[Any]]:
    return {**ROWS, **changed}


def test_parts_are_joined_and_rows_found_by_their_key(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS)
    before = folder(tmp_path / "before", frame[:1].to_dict(), frame[1:].to_dict())
    other = folder(tmp_path / "other", frame[2:].to_dict(), frame[1::-1].to_dict())
    assert found(before, other) == []


def test_names_with_other_ids(tmp_path: Path) -> None:
    before, after = (folder(tmp_path / name, ROWS) for name in ("before", "after"))
    (part,) = (after / "run-surprisal" / PLACE).iterdir()
    part.rename(part.with_name(NAMES.format(7)))
    (one,) = differences(before, after, {})
    assert (one.kind, one.file, one.count) == (DIFFERS, IDS, 1) and NAMES.format(0) in one.what
    (one,) = differences(before, after, {("run-*", IDS): Intended("a version was raised", 1)})
    assert (one.kind, one.count) == (INTENDED, 1)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (with_rows(nats=[0.5, 1.5 + 1e-9, 2.5]), []),
        (with_rows(nats=[0.5, 1.6, 2.5]), [(DIFFERS, "values of nats:", 1)]),
        (with_rows(nats=[0.5, None, 2.5]), [(DIFFERS, "values of nats:", 1)]),
        (with_rows(sink=[1, 2, 3]), [(ADDED, "column sink", 3)]),
        (with_rows(rank=[1, 3, 1]), [(DIFFERS, "rows that are", 1), (ADDED, "rows", 1)]),
        ({name: ROWS[name] for name in ("item_id", "nats", "fingerprint")}, [(DIFFERS, "column rank", 3)]),
        ({name: values + values[-1:] for name, values in ROWS.items()}, [(DIFFERS, "rows of a", 1)]),
        ({name: values[:2] for name, values in ROWS.items()}, [(DIFFERS, "rows that are", 1)]),
        (with_rows(item_id=["a", "a", "c"]), [(DIFFERS, "rows that are", 1), (ADDED, "rows", 1)]),
        (with_rows(rank=["1", "2", "1"]), [(DIFFERS, "column rank was", 3)]),
        (with_rows(nats=[0.5, 1.500001, 2.5]), [(DIFFERS, "values of nats:", 1)]),
        (with_rows(fingerprint=["a", "a", "c"]), [(DIFFERS, "values of fingerprint:", 1)]),
    ],
)
def test_a_table(tmp_path: Path, after: dict[str, list[Any]], expected: list[tuple[str, str, int]]) -> None:
    assert found(folder(tmp_path / "before", ROWS), folder(tmp_path / "after", after)) == expected


def test_a_column_that_is_gone_by_intention(tmp_path: Path) -> None:
    before = folder(tmp_path / "before", ROWS)
    after = folder(
        tmp_path / "after",
        {name: values for name, values in with_rows(nats=[0.5, 1.6, 2.5]).items() if name != "rank"},
    )
    intended = {("*", "*.parquet"): Intended("the reason", columns=("rank",))}
    kinds = {finding.what: finding.kind for finding in differences(before, after, intended)}
    assert kinds.pop("column rank: the reason") == INTENDED
    assert list(kinds.values()) == [DIFFERS]
    (lost,) = differences(before, folder(tmp_path / "lost"), intended)
    assert lost.kind == DIFFERS


def test_scores_are_found_by_what_they_are_of(tmp_path: Path) -> None:
    def write(name: str, *scores: Score) -> Path:
        place = folder(tmp_path / name)
        scores_to_frame(scores).write_parquet(place / "run-surprisal" / "scores.parquet")
        return place

    one = Score(model="m", lens="attention", metric="accuracy", value=0.5, n=10, n_clusters=2)
    more = Score(
        model="m", lens="attention", metric="accuracy", value=0.4, n=10, n_clusters=2, control="random"
    )
    changed = Score(model="m", lens="attention", metric="accuracy", value=0.5, n=11, n_clusters=2)
    before = write("before", one)
    kinds = "rows lens attention, metric accuracy, control random"
    assert [(one.kind, one.what) for one in differences(before, write("more", more, one), {})] == [
        (ADDED, kinds)
    ]
    assert found(before, write("changed", changed)) == [(DIFFERS, "values of n:", 1)]


def test_how_a_command_ended_and_whole_files(tmp_path: Path) -> None:
    before = folder(tmp_path / "before", ROWS)
    assert found(before, folder(tmp_path / "failed", ROWS, code=1)) == [(DIFFERS, "ended with 1,", 1)]
    assert found(before, folder(tmp_path / "lost")) == [(DIFFERS, "the whole file", 1)]
    assert found(tmp_path / "lost", before) == [(ADDED, "the whole file", 1)]
    lost = {("run-surprisal", f"{PLACE}/python.parquet"): Intended("the reason")}
    (one,) = differences(before, tmp_path / "lost", lost)
    assert (one.kind, one.what) == (INTENDED, "the whole file: the reason")


EDGE = {"id": "a", "label": "If:if->body", "start": 0, "end": 2, "other_start": 4, "other_end": 9}


def test_labels(tmp_path: Path) -> None:
    before = labels(tmp_path / "before", [EDGE, {**EDGE, "start": 1}])
    assert found(before, labels(tmp_path / "same", [EDGE, {**EDGE, "start": 1}])) == []
    assert found(before, labels(tmp_path / "order", [{**EDGE, "start": 1}, EDGE])) == [
        (DIFFERS, "the order of", 2)
    ]
    added = labels(tmp_path / "added", [{**EDGE, "date": 1}, {**EDGE, "start": 1, "date": 2}])
    assert found(before, added) == [(ADDED, "column date", 2)]
    other = labels(tmp_path / "other", [EDGE, {**EDGE, "start": 2}])
    assert found(before, other) == [(DIFFERS, "rows that are", 1), (DIFFERS, "rows that are", 1)]
    for most, kind in ((2, INTENDED), (1, DIFFERS)):
        (one,) = differences(before, other, {("label", "labels"): Intended("the reason", most)})
        assert (one.kind, one.count) == (kind, 2) and "the reason" in one.what


LINES = (DIFFERS, "lines that are", 1)
TEXTS = (DIFFERS, "texts that are", 1)
PAGE = """<h1>Report</h1><p>{0} of 3 tasks</p><style>p {{ width: {1}px }}</style><script>let a = {1}</script>
<script type="application/json" id="specs">{{"values": [{2}]}}</script><table><td>{3}</td></table>"""
JSON = '{{"timing": {{"score": {0}}}, "fingerprint": "{1}", "values": [1, {2}], "why": {3}}}'


@pytest.mark.parametrize(
    ("name", "before", "after", "expected"),
    [
        ("told_txt", "report: r\ndone in 3 s\n", "report: r\ndone in 5.2 s\n", []),
        ("told_txt", "x: begins\nreport: r\n", "report: r\nx: 1/2 after 3 s\n", []),
        ("told_txt", "2 tasks\n", "3 tasks\n", [LINES, LINES]),
        ("told_txt", "2 tasks\n", "2 tasks\nand more\n", [LINES]),
        ("told_txt", "a\nb\n", "b\na\n", [(DIFFERS, "the order of", 2)]),
        ("warned_txt", "sonde: no such task\n", "sonde: unknown task\n", [LINES, LINES]),
        ("card_md", "| 0.51 |\n", "| 0.52 |\n", [LINES, LINES]),
        ("numbers_csv", "a,b\n1,2\n", "a,c\n1,2\n", [LINES, LINES]),
        (
            "report_html",
            PAGE.format(1, 2, 3, 4),
            PAGE.format(1, 9, 3.0, 4),
            [(DIFFERS, "values at specs.values[0]:", 1)],
        ),
        ("report_html", PAGE.format(1, 2, 0.3, 4), PAGE.format(1, 9, 0.3 + 1e-9, 4), []),
        ("report_html", PAGE.format(1, 2, 3, 4), PAGE.format(2, 2, 3, 4), [TEXTS, TEXTS]),
        ("report_html", PAGE.format(1, 2, 3, 4), PAGE.format(1, 2, 3, 5), [TEXTS, TEXTS]),
        (
            "report_html",
            PAGE.format(1, 2, 0.3, 4),
            PAGE.format(1, 2, 0.4, 4),
            [(DIFFERS, "values at specs.values[0]:", 1)],
        ),
        ("run_json", JSON.format(1, "a", 2, "null"), JSON.format(3, "a", 2, "null"), []),
        (
            "run_json",
            JSON.format(1, "a", 2, "null"),
            JSON.format(1, "b", 2, "null"),
            [(DIFFERS, "values at fingerprint:", 1)],
        ),
        (
            "run_json",
            JSON.format(1, "a", 0.2, "null"),
            JSON.format(1, "a", 0.200001, "null"),
            [(DIFFERS, "values at values[1]:", 1)],
        ),
        (
            "run_json",
            JSON.format(1, "a", 2, "null"),
            JSON.format(1, "a", 2, '"x"'),
            [(DIFFERS, "values at why:", 1)],
        ),
        (
            "run_json",
            JSON.format(1, "a", 2, "null"),
            JSON.format(1, "a", 1, "true"),
            [(DIFFERS, "values at values[1]:", 2)],
        ),
        ("run_json", '{"a": 1}', '{"a": 1, "b": 2}', [(ADDED, "values, as b", 1)]),
        ("run_json", '{"a": 1, "b": 2}', '{"a": 1}', [(DIFFERS, "values that are", 1)]),
    ],
)
def test_texts_pages_and_json(
    tmp_path: Path, name: str, before: str, after: str, expected: list[tuple[str, str, int]]
) -> None:
    own, other = written(tmp_path / "before", **{name: before}), written(tmp_path / "after", **{name: after})
    assert found(own, other) == expected


def test_tensors_and_images(tmp_path: Path) -> None:
    def write(place: str, **arrays: np.ndarray) -> Path:
        folder = written(tmp_path / place, chart_png=place.encode())
        save_file(arrays, folder / "command" / "states.safetensors")
        return folder

    states = np.ones((2, 3), np.float32)
    before = write("before", layer=states)
    assert found(before, write("close", layer=states + np.float32(1e-7))) == []
    assert found(before, write("changed", layer=states + np.float32(1e-4))) == [
        (DIFFERS, "tensors, as layer", 1)
    ]
    assert found(before, write("more", layer=states, second=states)) == [(ADDED, "tensors, as second", 1)]


def test_the_table_is_a_row_for_what_many_commands_share() -> None:
    same = [Finding(ADDED, f"run-{name}", "items.parquet", "column date", 60) for name in "ab"]
    lines = list(told([*same, Finding(DIFFERS, "run-a", "scores.parquet", "values of n", 3)]))
    assert [line.split()[0] for line in lines] == ["kind", "differs", "added"]
    assert lines[2].split() == ["added", "items.parquet", "2:", "run-a", "..", "120", "column", "date"]
