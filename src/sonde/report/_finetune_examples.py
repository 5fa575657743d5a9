"""Test examples for reading: chosen, cut to size, and marked where something is wrong or pointed at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.report._finetune import LENS, SPLITS
from sonde.report._run import ModelInfo, RunData

WRONG, RIGHT = 10, 4
"""Examples a task and test set: those answered wrongly with most confidence, and some answered rightly."""

CHARACTERS = 2400
"""Of each example, around what it is about."""

MARKS = ("error", "repair", "pointed", "chosen")
"""What is marked: the error, what would be right, and what the model points at for each."""

Span = tuple[int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One example as the page shows it.

    Attributes:
        name: Of the function.
        path: Of its file.
        gold: Its label.
        said: What the model says.
        confidence: Probability of what it says.
        right: Whether all of the answer is right.
        found: For a pointer, what became of the error.
        edit: What was done to the function.
        truncated: Whether part of it was not read.
        segments: Its text in stretches, each with its marks.
        before: Characters left out at the beginning.
        after: Characters left out at the end.
    """

    name: str
    path: str
    gold: str
    said: str
    confidence: float
    right: bool
    found: str
    edit: str
    truncated: bool
    segments: tuple[tuple[str, str], ...]
    before: int
    after: int


def answers(run: RunData, model: ModelInfo) -> pl.DataFrame:
    """What the fine-tuned model says of the test examples: of the first seed and the last values swept."""
    table = run.table(LENS, model)
    if table is None or "pointed_start" not in table.collect_schema().names():
        return pl.DataFrame()
    rows = table.filter((pl.col("arm") == "pretrained") & (pl.col("kind") == "example")).collect()
    if rows.is_empty():
        return rows
    options = run.summary.get("arguments", {}).get("options", {}).get(LENS, {})
    variant = _last(str(options.get("sweep", "")))
    rows = rows.filter(pl.col("split").is_in(list(SPLITS)) & (pl.col("seed") == rows["seed"].min()))
    return rows.filter(pl.col("variant") == variant)


def _last(sweep: str) -> str:
    """Name of the last combination of swept values."""
    parts = [part.partition(":") for part in sweep.split(";") if part.strip()]
    return ";".join(f"{name.strip()}={values.split(',')[-1].strip()}" for name, _, values in parts)


def chosen(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The examples that are shown: wrong ones first, the most confident of them at the top."""
    listed = [{**row, "confidence": _confidence(row)} for row in rows.to_dicts()]
    wrong = sorted(
        (row for row in listed if not row["correct"]), key=lambda row: (-row["confidence"], row["example_id"])
    )
    right = sorted(
        (row for row in listed if row["correct"]),
        key=lambda row: (row["label"] == "Correct", unit_hash("shown", row["example_id"])),
    )
    return [*wrong[:WRONG], *right[:RIGHT]]


def _confidence(row: Mapping[str, Any]) -> float:
    return float(dict(zip(row["classes"], row["probability"], strict=True))[row["predicted"]])


def shown(run: RunData, rows: Sequence[Mapping[str, Any]]) -> list[Shown]:
    """Examples with their text."""
    labels = _labels(run, rows)
    wanted = {label["item_id"] for label in labels.values()} | {
        label["source_id"] for label in labels.values()
    }
    items = read_items(run, sorted(wanted))
    found: list[Shown] = []
    for row in rows:
        label = labels.get(row["example_id"])
        item = items.get(row["item_id"])
        if label is not None and item is not None:
            found.append(_shown(row, label, item, items.get(label["source_id"])))
    return found


def read_items(run: RunData, identifiers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Items of the corpus and those derived from them, by id."""
    paths = [path for path in (run.directory.items, run.directory.inputs) if path.is_file()]
    if not paths:
        return {}
    table = (
        pl.scan_parquet(paths)
        .filter(pl.col("item_id").is_in(list(identifiers)))
        .select("item_id", "path", "name", "text")
        .collect()
    )
    return {row["item_id"]: row for row in table.iter_rows(named=True)}


def _labels(run: RunData, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    folder = run.directory.root / "labels"
    names = {row["example_id"] for row in rows}
    tables = [
        pl.scan_parquet(path).filter(pl.col("example_id").is_in(sorted(names))).collect()
        for task in sorted({row["task"] for row in rows})
        for path in sorted((folder / f"task={task}").glob("*.parquet"))
        if not path.name.endswith(".inputs.parquet")
    ]
    return {row["example_id"]: row for table in tables for row in table.iter_rows(named=True)}


def _shown(
    row: Mapping[str, Any],
    label: Mapping[str, Any],
    item: Mapping[str, Any],
    source: Mapping[str, Any] | None,
) -> Shown:
    text = item["text"]
    spans = list(_spans(row, label, text, source["text"] if source else text))
    middle = min((start for start, _, _ in spans), default=0)
    first = 0 if len(text) <= CHARACTERS else max(0, min(middle - CHARACTERS // 2, len(text) - CHARACTERS))
    name, _, edit = (item["name"] or "").partition("/")
    return Shown(
        name=name or item["path"],
        path=item["path"],
        gold=row["label"],
        said=row["predicted"],
        confidence=row["confidence"],
        right=bool(row["correct"]),
        found=_found(row),
        edit=edit,
        truncated=bool(row["truncated"]),
        segments=tuple(segments(text, spans, first, first + CHARACTERS)),
        before=first,
        after=max(0, len(text) - first - CHARACTERS),
    )


def _found(row: Mapping[str, Any]) -> str:
    if row["located"] is None:
        return ""
    if not row["buggy"]:
        return "left alone" if row["correct"] else "an error is seen where there is none"
    if not row["located"]:
        return "error missed" if row["predicted"] == "nothing" else "error looked for elsewhere"
    return "error located, repaired rightly" if row["repaired"] else "error located, repaired wrongly"


def _spans(row: Mapping[str, Any], label: Mapping[str, Any], text: str, source: str) -> Iterator[Span]:
    """What is marked in a text."""
    start, end = label["start"], label["end"]
    if row["located"] is not None:
        if start < end:
            yield start, end, "error"
        if label["other_start"] is not None:
            yield label["other_start"], label["other_end"], "repair"
        for name, mark in (("pointed", "pointed"), ("repair", "chosen")):
            if row[f"{name}_start"] is not None:
                yield row[f"{name}_start"], row[f"{name}_end"], mark
    elif end - start < len(text) and label["other_start"] is None:
        yield start, end, "error"
    elif source != text and label["other_start"] is None:
        yield (*_difference(text, source), "error")


def _difference(text: str, source: str) -> tuple[int, int]:
    """Where a text differs from what it was made from; at least one character."""
    before = _same(text, source)
    least = min(len(text), len(source)) - before
    behind = min(least, _same(text[::-1], source[::-1]))
    # A name whose beginning or end is left as it was is still another name.
    while before and text[before - 1 : before + 1].isidentifier():
        before -= 1
    end = len(text) - behind
    while end < len(text) and f"_{text[end - 1 : end + 1]}".isidentifier():
        end += 1
    return before, max(end, before + 1)


def _same(one: str, other: str) -> int:
    """Number of characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))


def segments(text: str, spans: Sequence[Span], first: int, last: int) -> Iterator[tuple[str, str]]:
    """A stretch of a text cut at every mark, with the marks of each piece separated by blanks.

    >>> list(segments("a = b", [(0, 1, "repair"), (4, 5, "error"), (4, 5, "pointed")], 0, 5))
    [('a', 'repair'), (' = ', ''), ('b', 'error pointed')]
    """
    last = min(last, len(text))
    inside = [(max(start, first), min(end, last), mark) for start, end, mark in spans]
    cuts = {first, last, *(at for start, end, _ in inside if start < end for at in (start, end))}
    for start, end in pairwise(sorted(cuts)):
        marks = [mark for mark in MARKS if any(a <= start and end <= b and m == mark for a, b, m in inside)]
        yield text[start:end], " ".join(marks)
