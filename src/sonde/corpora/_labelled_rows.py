"""From the rows of a table to texts with their labels; what is wrong with rows is counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sonde.base.errors import InputError
from sonde.corpora._corpus import Intake
from sonde.corpora._decode import is_unicode
from sonde.corpora._entries import EntryError
from sonde.corpora._labelled_columns import LabelColumns
from sonde.corpora._splits import SPLIT_OF
from sonde.corpora._table import RowTable, TableRow

_NONE = ("", "nan", "none", "null", "na", "n/a")
_REASONS = 3


@dataclass(frozen=True, slots=True)
class PlaceLabel:
    """A label and the characters that it is about."""

    label: str
    start: int
    end: int


@dataclass(slots=True)
class LabelledText:
    """A text with all of its labels.

    Attributes:
        identifier: Id of its first row, else the number of that row.
        text: The text.
        other: The second text of a pair; else empty.
        language: As the row says it.
        split: ``"train"``, ``"valid"``, ``"test"`` or empty.
        group: As the row says it.
        labels: The labels, one a row.
    """

    identifier: str
    text: str
    other: str
    language: str
    split: str
    group: str
    labels: list[PlaceLabel] = field(default_factory=list[PlaceLabel])


def read_texts(table: RowTable, columns: LabelColumns, corpus: str, intake: Intake) -> list[LabelledText]:
    """The texts of a table, in the order of their first rows.

    Args:
        table: The table.
        columns: Which column is what.
        corpus: The corpus as named, for messages.
        intake: Counts the rows that are left out, by reason.

    Raises:
        InputError: No row can be used.
    """
    texts: dict[tuple[str, str], LabelledText] = {}
    named: dict[str, LabelledText] = {}
    faults = Intake()
    read = 0
    for row in table.rows:
        read += 1
        try:
            _take(row, columns, texts, named)
        except EntryError as fault:
            faults.note(str(fault), f"{table.counted} {row.number}")
    for reason, count in faults.counts.items():
        intake.counts[reason] += count
        intake.examples.setdefault(reason, faults.examples[reason])
    if not texts:
        why = ", ".join(f"{count} {reason}" for reason, count in faults.counts.most_common(_REASONS))
        raise InputError(f"corpus {corpus!r}: none of its {read} rows can be used{f': {why}' if why else ''}")
    return list(texts.values())


def _take(
    row: TableRow,
    columns: LabelColumns,
    texts: dict[tuple[str, str], LabelledText],
    named: dict[str, LabelledText],
) -> None:
    """Add a row to its text.

    Raises:
        EntryError: It cannot be used.
    """
    if row.fault:
        raise EntryError(row.fault)
    text, other = _code(row.cells, columns.text), _code(row.cells, columns.text_b)
    if not text.strip() or (columns.text_b and not other.strip()):
        raise EntryError("no text")
    label = _word(row.cells, columns.label)
    if label.casefold() in _NONE:
        raise EntryError("no label")
    place = _place(row.cells, columns, len(text), label)
    made = LabelledText(
        identifier=_word(row.cells, columns.id) or str(row.number),
        text=text,
        other=other,
        language=_word(row.cells, columns.language),
        split=_split(_word(row.cells, columns.split)),
        group=_word(row.cells, columns.group),
    )
    held = texts.get((text, other))
    if (before := named.get(made.identifier)) is not None and before is not held:
        raise EntryError("id of an earlier row")
    if held is None:
        held = texts[text, other] = named[made.identifier] = made
    elif held.split != made.split:
        raise EntryError("text in two splits")
    for one in held.labels:
        if (one.start, one.end) == (place.start, place.end):
            raise EntryError("repeated row" if one.label == label else "text with two labels")
    held.labels.append(place)


def _code(cells: Mapping[str, Any], column: str) -> str:
    if not column:
        return ""
    value = cells.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise EntryError("text that is none")
    if not is_unicode(value):
        raise EntryError("not UTF-8")
    return value


def _word(cells: Mapping[str, Any], column: str) -> str:
    """A short cell as text; whole numbers without a point, whatever the format makes of them."""
    value = cells.get(column) if column else None
    if isinstance(value, float) and (math.isnan(value) or value.is_integer()):
        value = None if math.isnan(value) else int(value)
    if value is not None and not isinstance(value, str | int | float):
        raise EntryError(f"{column!r} that is no text or number")
    word = "" if value is None else str(value).strip()
    if not is_unicode(word):
        raise EntryError("not UTF-8")
    if "\0" in word:
        raise EntryError("NUL bytes")
    return word


def _split(word: str) -> str:
    if word and word.casefold() not in SPLIT_OF:
        raise EntryError("unknown split")
    return SPLIT_OF[word.casefold()] if word else ""


def _place(cells: Mapping[str, Any], columns: LabelColumns, length: int, label: str) -> PlaceLabel:
    if not columns.start:
        return PlaceLabel(label, 0, length)
    try:
        start, end = int(_word(cells, columns.start)), int(_word(cells, columns.end))
    except ValueError:
        raise EntryError("span without whole numbers") from None
    if not 0 <= start < end <= length:
        raise EntryError("span outside its text")
    return PlaceLabel(label, start, end)
