"""One example of a data set, and the table of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.corpora import Item
from sonde.results.schema import Columns, to_schema

EXAMPLE_COLUMNS: Columns = {
    "example_id": (pl.String, "hash of the task, its version and the labelled place"),
    "item_id": (pl.String, "the input that is forwarded; a derived item for mutated text"),
    "source_id": (pl.String, "the corpus item that it comes from"),
    "start": (pl.Int32, "first labelled character in the forwarded text; the whole text for whole functions"),
    "end": (pl.Int32, "their end, exclusive"),
    "other_start": (pl.Int32, "first character of the other end of a pair; null otherwise"),
    "other_end": (pl.Int32, "its end, exclusive; null otherwise"),
    "label": (pl.String, "the class"),
    "value": (pl.Float64, "the number before classes; null where there is none"),
    "split": (pl.String, "`train`, `valid`, `test`, or `external` (an external test set)"),
    "cluster": (
        pl.String,
        "what is resampled as one: the cluster of the source item, the token type for token tasks",
    ),
    "type": (pl.String, "the surface of the token for token tasks, else empty"),
    "characters": (pl.Int32, "length of the forwarded text in characters"),
    "tokens": (pl.Int32, "its length in code tokens"),
    "matched": (pl.Boolean, "whether every other class has an example of the same length in the same split"),
    "given_split": (
        pl.Boolean,
        "whether the split is one that the source brings and that is to be kept: of a published data set,"
        " or of a corpus that was built with splits. Otherwise sonde made the split, and cross-fitting "
        "may replace it",
    ),
}
"""Columns of a data set, one row an example."""


EXAMPLE_SCHEMA = to_schema(EXAMPLE_COLUMNS)


@dataclass(frozen=True, slots=True)
class Example:
    """A labelled place before it has a split; see `EXAMPLE_SCHEMA`."""

    item: Item
    source: Item
    label: str
    start: int
    end: int
    tokens: int
    cluster: str
    other_start: int | None = None
    other_end: int | None = None
    value: float | None = None
    type: str = ""


@dataclass(slots=True)
class SplitExamples:
    """Examples with their splits, on the way to a table.

    Attributes:
        rows: Split, whether the example is matched, and the example.
        report: What the builder says of its choice.
    """

    rows: list[tuple[str, bool, Example]] = field(default_factory=list[tuple[str, bool, Example]])
    report: dict[str, Any] = field(default_factory=dict[str, Any])


def example_table(
    rows: Iterable[tuple[str, bool, Example]], task: str, version: str, *, given_split: bool = False
) -> pl.DataFrame:
    """The table of examples in `EXAMPLE_SCHEMA`, by split and then by id.

    A published file may hold an example several times; each time counts, under an id of its own.
    """
    times: Counter[tuple[Any, ...]] = Counter()

    def identity(one: Example) -> str:
        place = (one.item.item_id, one.start, one.end, one.other_start, one.label)
        times[place] += 1
        return fingerprint("example", task, version, place, times[place])

    listed = [
        (
            identity(one),
            one.item.item_id,
            one.source.item_id,
            one.start,
            one.end,
            one.other_start,
            one.other_end,
            one.label,
            one.value,
            split,
            one.cluster,
            one.type,
            len(one.item.text),
            one.tokens,
            matched,
            given_split,
        )
        for split, matched, one in rows
    ]
    table = pl.DataFrame(listed, schema=dict(EXAMPLE_SCHEMA), orient="row")
    order = pl.col("split").replace_strict({"train": 0, "valid": 1, "test": 2}, return_dtype=pl.Int8)
    return table.sort(order, "example_id")


@dataclass(frozen=True)
class Dataset:
    """A data set of one task in one language.

    Attributes:
        task: Public name of the task.
        version: Its version.
        examples: One row an example, in `EXAMPLE_SCHEMA`.
        inputs: Derived items, which are in no corpus; all other ``item_id`` are items that were given.
        report: ``asked`` and ``size``; ``pool`` and ``dropped`` (why functions were left out); ``kept``
            (examples by class) and ``splits``; ``matched`` (the share of examples with their like in length
            in every other class), absent where nothing is matched; and what the kind of task adds.
    """

    task: str
    version: str
    examples: pl.DataFrame
    inputs: tuple[Item, ...]
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])
