"""What the label of an example rests on: the characters in which a function and its changed copy differ."""

from __future__ import annotations

from collections import defaultdict

import polars as pl

Stretch = tuple[int, int]

SCHEMA = {"evidence_start": pl.Int32, "evidence_end": pl.Int32, "group": pl.String}
"""Columns that `with_evidence` adds.

- ``evidence_start, evidence_end``: characters of the text; null where they are not known.
- ``group``: what two examples share that were made of one function and differ in it; else empty.
"""


def with_evidence(examples: pl.DataFrame) -> pl.DataFrame:
    """The examples of a task with the characters that each one's label rests on; see `SCHEMA`.

    Of two examples of one function these are the characters in which they differ, of an example alone the
    labelled part of its text. Published files do not say which examples belong together.
    """
    source = "source_id" if "source_id" in examples.columns else "item_id"
    rows = examples.select("split", source, "label", "start", "end", "other_start", "text").to_dicts()
    made_of: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        made_of[row["split"], row[source]].append(number)
    found: list[tuple[int | None, int | None, str]] = [(None, None, "")] * len(rows)
    for (_, function), members in made_of.items():
        if len(members) == 2 and rows[members[0]]["label"] != rows[members[1]]["label"]:
            for member, stretch in zip(
                members, differing(*(rows[one]["text"] for one in members)), strict=True
            ):
                found[member] = (*stretch, function)
        elif len(members) == 1:
            row = rows[members[0]]
            if row["other_start"] is None and 0 < row["end"] - row["start"] < len(row["text"]):
                found[members[0]] = (row["start"], row["end"], "")
    return examples.hstack(pl.DataFrame(found, schema=SCHEMA, orient="row"))


def differing(one: str, other: str) -> tuple[Stretch, Stretch]:
    """The characters of two texts between their common beginning and their common end.

    >>> differing("a is b", "a is not b")
    ((5, 5), (5, 9))
    """
    before = alike(one, other)
    most = min(len(one), len(other)) - before
    behind = min(most, alike(one[::-1], other[::-1]))
    return (before, len(one) - behind), (before, len(other) - behind)


def alike(one: str, other: str) -> int:
    """Number of characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))
