"""Test examples for reading: chosen, cut to size, and marked where something is wrong or pointed at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any

import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.languages.engine.text import common_prefix_length
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.sections.finetune._scores import LENS, SPLITS
from sonde.results.schema import scan_files

WRONG, RIGHT = 10, 4
"""Examples a task and test set: those answered wrongly with most confidence, and some answered rightly."""


AROUND, BEGINNING, WHOLE = 6, 3, 24
"""Lines that are shown around a mark and at the beginning of a function; one of so many is shown whole."""


GAP = "gap"
"""Stands for the marks of a stretch that says how many lines are left out."""


MARKS = ("error", "repair", "pointed", "chosen")
"""What is marked: the error, what would be right, and what the model points at for each."""


Span = tuple[int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleView:
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
        truncated: What of it was not read, in words.
        segments: Its text in stretches, each with its marks; `GAP` in place of lines that are left out.
    """

    name: str
    path: str
    gold: str
    said: str
    confidence: float
    right: bool
    found: str
    edit: str
    truncated: str
    segments: tuple[tuple[str, str], ...]


def read_predictions(run: RunData, model: ModelInfo) -> pl.DataFrame:
    """What the fine-tuned model says of the test examples: of the first seed and the last values swept."""
    table = run.table(LENS, model)
    if table is None or "pointed_start" not in table.collect_schema().names():
        return pl.DataFrame()
    rows = table.filter((pl.col("method") == "pretrained") & (pl.col("kind") == "example")).collect()
    if rows.is_empty():
        return rows
    rows = rows.filter(pl.col("split").is_in(list(SPLITS)) & (pl.col("seed") == rows["seed"].min()))
    return rows.filter(pl.col("variant") == get_last_values(run, rows))


def get_last_values(run: RunData, rows: pl.DataFrame) -> str:
    """The values of a sweep that the others are held against; empty where nothing is swept."""
    changes = run.scores(metrics=["change"], lens=LENS)
    if changes.is_empty():
        return str(rows["variant"][0])
    return str(changes["compared_to"][0])


def select_examples(rows: pl.DataFrame) -> list[dict[str, Any]]:
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


def build_examples(run: RunData, rows: Sequence[Mapping[str, Any]]) -> list[ExampleView]:
    """Examples with their text."""
    labels = read_example_labels(run, rows)
    items = read_example_items(run, labels)
    found: list[ExampleView] = []
    for row in rows:
        label = labels.get(row["example_id"])
        item = items.get(row["item_id"])
        if label is not None and item is not None:
            found.append(_build_example(row, label, item, items.get(label["source_id"])))
    return found


def read_example_items(run: RunData, labels: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The items of examples and those that they were made from, by id."""
    return read_items(
        run, sorted({label[name] for label in labels.values() for name in ("item_id", "source_id")})
    )


def read_items(run: RunData, identifiers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Items of the corpus and those derived from them, by id."""
    paths = run.directory.texts()
    if not paths:
        return {}
    table = (
        scan_files(paths)
        .filter(pl.col("item_id").is_in(list(identifiers)))
        .select("item_id", "path", "name", "text")
        .collect()
    )
    return {row["item_id"]: row for row in table.iter_rows(named=True)}


def read_example_labels(run: RunData, rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The rows of examples among those of their tasks, by id."""
    names = {row["example_id"] for row in rows}
    tables = [
        scan_files(path).filter(pl.col("example_id").is_in(sorted(names))).collect()
        for task in sorted({row["task"] for row in rows})
        for path in run.directory.label_tables(task, LENS)
    ]
    return {row["example_id"]: row for table in tables for row in table.iter_rows(named=True)}


def _build_example(
    row: Mapping[str, Any],
    label: Mapping[str, Any],
    item: Mapping[str, Any],
    source: Mapping[str, Any] | None,
) -> ExampleView:
    text = item["text"]
    spans = list(_iterate_spans(row, label, text, source["text"] if source else text))
    name, _, edit = (item["name"] or "").partition("/")
    return ExampleView(
        name=name or item["path"],
        path=item["path"],
        gold=row["label"],
        said=row["predicted"],
        confidence=row["confidence"],
        right=bool(row["correct"]),
        found=_describe_outcome(row),
        edit=edit,
        truncated=_describe_truncation(row),
        segments=tuple(cut_excerpt(text, spans)),
    )


def _describe_truncation(row: Mapping[str, Any]) -> str:
    if not row["truncated"]:
        return ""
    if row["located"] is None:
        return "longer than the limit, not read to its end"
    return "the error or all of what would be right lies beyond the limit"


def _describe_outcome(row: Mapping[str, Any]) -> str:
    if row["located"] is None:
        return ""
    if not row["buggy"]:
        return "left alone" if row["correct"] else "an error is seen where there is none"
    if not row["located"]:
        return "error missed" if row["predicted"] == "nothing" else "error looked for elsewhere"
    return "error located, repaired rightly" if row["repaired"] else "error located, repaired wrongly"


def _iterate_spans(
    row: Mapping[str, Any], label: Mapping[str, Any], text: str, source: str
) -> Iterator[Span]:
    """What is marked in a text."""
    if (span := locate_error(label, text, source)) is not None:
        yield (*span, "error")
    if row["located"] is None:
        return
    if label["other_start"] is not None:
        yield label["other_start"], label["other_end"], "repair"
    for name, mark in (("pointed", "pointed"), ("repair", "chosen")):
        if row[f"{name}_start"] is not None:
            yield row[f"{name}_start"], row[f"{name}_end"], mark


def locate_error(label: Mapping[str, Any], text: str, source: str) -> tuple[int, int] | None:
    """Where something is wrong, or hidden, in a text.

    Args:
        label: Its row among the examples of its task.
        text: The text.
        source: The function that it was made from.
    """
    start, end, other = label["start"], label["end"], label["other_start"]
    if 0 < end - start < len(text) and not (other is not None and start == 0 and other >= end):
        return start, end
    return _difference(text, source) if source != text and other is None and end > start else None


def _difference(text: str, source: str) -> tuple[int, int]:
    """Where a text differs from what it was made from; at least one character."""
    before = common_prefix_length(text, source)
    least = min(len(text), len(source)) - before
    behind = min(least, common_prefix_length(text[::-1], source[::-1]))
    # A name whose beginning or end is left as it was is still another name.
    while before and text[before - 1 : before + 1].isidentifier():
        before -= 1
    end = len(text) - behind
    while end < len(text) and f"_{text[end - 1 : end + 1]}".isidentifier():
        end += 1
    return before, max(end, before + 1)


def cut_excerpt(text: str, spans: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """The lines around what is marked, and those with which a text begins; what is left out is counted."""
    lines = text.splitlines(keepends=True)
    ends = list(accumulate(map(len, lines)))
    starts = [end - len(line) for end, line in zip(ends, lines, strict=True)]
    if len(lines) <= WHOLE:
        kept = set(range(len(lines)))
    elif spans:
        kept = set(range(BEGINNING))
        for start, end, _ in spans:
            first, last = bisect_right(starts, start) - 1, bisect_right(starts, max(start, end - 1)) - 1
            kept |= set(range(max(0, first - AROUND), min(len(lines), last + AROUND + 1)))
    else:
        kept = set(range(WHOLE))
    for held, numbers in groupby(range(len(lines)), key=kept.__contains__):
        run = list(numbers)
        if held:
            yield from split_segments(text, spans, starts[run[0]], ends[run[-1]])
        else:
            yield f"… {len(run)} {'line' if len(run) == 1 else 'lines'} …", GAP


def split_segments(text: str, spans: Sequence[Span], first: int, last: int) -> Iterator[tuple[str, str]]:
    """A stretch of a text cut at every mark, with the marks of each piece separated by blanks.

    >>> list(split_segments("a = b", [(0, 1, "repair"), (4, 5, "error"), (4, 5, "pointed")], 0, 5))
    [('a', 'repair'), (' = ', ''), ('b', 'error pointed')]
    """
    last = min(last, len(text))
    inside = [(max(start, first), min(end, last), mark) for start, end, mark in spans]
    cuts = {first, last, *(at for start, end, _ in inside if start < end for at in (start, end))}
    for start, end in pairwise(sorted(cuts)):
        marks = [mark for mark in MARKS if any(a <= start and end <= b and m == mark for a, b, m in inside)]
        yield text[start:end], " ".join(marks)
