"""Texts with labels from the rows of a user's table; faulty rows are counted.

Labels are classes as they are, or numbers that become classes by quartile.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from sonde.base.errors import InputError
from sonde.base.fingerprint import fingerprint
from sonde.corpora.engine.corpus import SkipCounter
from sonde.corpora.engine.select import SPLIT_OF
from sonde.corpora.engine.source_files import is_unicode
from sonde.corpora.engine.tables import EntryError, LabelColumns, RowTable, TableRow

_MISSING_LABELS = ("", "nan", "none", "null", "na", "n/a")


_REASONS = 3


_SLICE = 8_192


_MAX_COLUMNS = 1_000
"""Names of columns that are held, however many the rows of JSON lines have."""


_ROWS = {
    "number": pl.Int64,
    "text": pl.UInt64,
    "identifier": pl.String,
    "split": pl.String,
    "label": pl.String,
    "start": pl.Int32,
    "end": pl.Int32,
}
"""What is held of a row while a table is read."""


@dataclass(frozen=True, slots=True)
class SpanLabel:
    """A label and its span of characters."""

    label: str
    start: int
    end: int


@dataclass(slots=True)
class LabelledText:
    """A text with all of its labels.

    Attributes:
        number: Number of its first row, see `TableRow.number`.
        identifier: Id of its first row, else the number of that row.
        text: The text.
        second_text: The second text of a pair; else empty.
        language: As the row says it.
        split: ``"train"``, ``"valid"``, ``"test"`` or empty.
        group: As the row says it.
        labels: The labels, one per row.
    """

    number: int
    identifier: str
    text: str
    second_text: str
    language: str
    split: str
    group: str
    labels: list[SpanLabel]


class LabelledTable:
    """A table that is streamed twice: for its labels, then for the labelled texts.

    Of a row stay what tells its text from others (a hash), its label and its place.

    Args:
        open_rows: Opens the table; called once per pass.
        columns: The roles of the columns.
        corpus: The corpus as named, for messages.
        intake: Counts the rows that are left out, by reason, and is told of every row that is read.

    Attributes:
        labels: The rows that can be used, text by text in the order of the first rows: ``number, first,
            label, start, end``, ``first`` being the number of the text's first row.
        row_count: Number of all rows, those that cannot be used too.
        row_kind: What row numbers count, ``"line"`` or ``"row"``.
        column_names: Names of the columns, of JSON lines those of all rows.

    Raises:
        InputError: No row can be used.
    """

    def __init__(
        self, open_rows: Callable[[], RowTable], columns: LabelColumns, corpus: str, intake: SkipCounter
    ) -> None:
        self._open, self._columns, self._corpus, self._intake = open_rows, columns, corpus, intake
        self.row_count = 0
        self.row_kind = ""
        self.column_names: dict[str, None] = {}
        self.labels = self._read_labels()

    @property
    def count(self) -> int:
        """Return the number of texts."""
        return self.labels["first"].n_unique()

    def texts(self) -> Iterator[LabelledText]:
        """Yield the texts in the order of their first rows.

        Raises:
            InputError: The file is no longer what it was.
        """
        slices = self.labels.iter_slices(_SLICE)
        rows = chain.from_iterable(part.select("first", "label", "start", "end").rows() for part in slices)
        by_text = (
            (first, [SpanLabel(*row[1:]) for row in text_rows])
            for first, text_rows in groupby(rows, itemgetter(0))
        )
        first, labels = next(by_text, (None, []))
        for row in self._rows(self._open()):
            if row.number == first:
                yield self._text(row, labels)
                first, labels = next(by_text, (None, []))
                if first is None:
                    return
        raise self._changed_error()

    def _text(self, row: TableRow, labels: list[SpanLabel]) -> LabelledText:
        columns, cells = self._columns, row.cells
        try:
            labelled_text = LabelledText(
                number=row.number,
                identifier=_word(cells, columns.id) or str(row.number),
                text=_code(cells, columns.text),
                second_text=_code(cells, columns.text_b),
                language=_word(cells, columns.language),
                split=_split(_word(cells, columns.split)),
                group=_word(cells, columns.group),
                labels=labels,
            )
        except EntryError:
            raise self._changed_error() from None
        if any(not 0 <= label.start < label.end <= len(labelled_text.text) for label in labels):
            raise self._changed_error()
        return labelled_text

    def _changed_error(self) -> InputError:
        return InputError(f"corpus {self._corpus!r}: the file changed while it was read; run again")

    def _usable(self, table: RowTable, faults: SkipCounter) -> Iterator[tuple[Any, ...]]:
        """Yield the columns of `_ROWS` for each usable row; count the others."""
        self.column_names |= dict.fromkeys(table.columns)
        for row in self._rows(table):
            if len(self.column_names) < _MAX_COLUMNS:
                self.column_names |= dict.fromkeys(row.cells)
            try:
                yield _select_cells(row, self._columns)
            except EntryError as fault:
                faults.note(str(fault), f"{table.row_kind} {row.number}")

    def _rows(self, table: RowTable) -> Iterator[TableRow]:
        for row in table.rows:
            self._intake.advance(1)
            yield row

    def _read_labels(self) -> pl.DataFrame:
        table = self._open()
        faults = SkipCounter()
        usable = self._usable(table, faults)
        parts = [pl.DataFrame(schema=_ROWS)]
        while batch := list(islice(usable, _SLICE)):
            parts.append(pl.DataFrame(batch, _ROWS, orient="row"))
        rows = pl.concat(parts)
        self.row_count, self.row_kind = rows.height + faults.counts.total(), table.row_kind
        faulty_rows, first = _find_repeats(
            rows.filter(pl.col("text").is_duplicated() | pl.col("identifier").is_duplicated())
        )
        for number, fault in faulty_rows.iter_rows():
            faults.note(fault, f"{table.row_kind} {number}")
        for reason, count in faults.counts.items():
            self._intake.counts[reason] += count
            self._intake.examples.setdefault(reason, faults.examples[reason])
        if rows.is_empty():
            notes = ", ".join(f"{count} {reason}" for reason, count in faults.counts.most_common(_REASONS))
            raise InputError(
                f"corpus {self._corpus!r}: none of its {self.row_count} rows can be used"
                f"{f': {notes}' if notes else ''}"
            )
        rows = rows.select("number", pl.col("number").alias("first"), "label", "start", "end")
        if faulty_rows.height:
            rows = rows.filter(~pl.col("number").is_in(faulty_rows["number"].implode()))
        if first.height:
            numbers = rows["number"].to_numpy(writable=True)
            numbers[np.searchsorted(numbers, first["number"])] = first["first"]
            rows = rows.with_columns(first=numbers).sort("first", "number")
        return rows


def _select_cells(row: TableRow, columns: LabelColumns) -> tuple[Any, ...]:
    """Return the columns of `_ROWS` for a row.

    Raises:
        EntryError: It cannot be used.
    """
    if row.fault:
        raise EntryError(row.fault)
    text, second_text = _code(row.cells, columns.text), _code(row.cells, columns.text_b)
    if not text.strip() or (columns.text_b and not second_text.strip()):
        raise EntryError("no text")
    label = _word(row.cells, columns.label)
    if label.casefold() in _MISSING_LABELS:
        raise EntryError("no label")
    span = _parse_span_label(row.cells, columns, len(text), label)
    identifier = _word(row.cells, columns.id) or str(row.number)
    # Asked for now, so that a row that says none of these is left out.
    _word(row.cells, columns.language)
    split = _split(_word(row.cells, columns.split))
    _word(row.cells, columns.group)
    return row.number, _text_key(text, second_text), identifier, split, label, span.start, span.end


def _text_key(text: str, second_text: str) -> int:
    """Hash a text or a pair to 64 bits; two of a million texts collide with probability 3e-8."""
    return int(fingerprint(text, second_text)[:16], 16)


def _find_repeats(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Find the rows that cannot be used since an earlier one can, and those that label an earlier row's text.

    Args:
        rows: The rows that share their text or their id with another one, in their order.

    Returns:
        ``number, fault`` of the first kind and ``number, first`` of the second, `first` being the number of
        the text's first row.
    """
    id_conflicts = _find_id_conflicts(rows)
    rows = rows.filter(~pl.col("number").is_in(id_conflicts.implode())).with_columns(
        first=pl.col("number").first().over("text"),
        is_moved=pl.col("split") != pl.col("split").first().over("text"),
    )
    in_place = rows.filter(~pl.col("is_moved")).with_columns(
        is_repeat=~pl.struct("text", "start", "end").is_first_distinct(),
        is_same=pl.col("label") == pl.col("label").first().over("text", "start", "end"),
    )
    faults = {
        "id of an earlier row": id_conflicts,
        "text in two splits": rows.filter("is_moved")["number"],
        "repeated row": in_place.filter("is_repeat", "is_same")["number"],
        "text with two labels": in_place.filter(pl.col("is_repeat") & ~pl.col("is_same"))["number"],
    }
    fault_frames = [
        pl.DataFrame({"number": numbers}).with_columns(fault=pl.lit(fault))
        for fault, numbers in faults.items()
    ]
    later_rows = in_place.filter(~pl.col("is_repeat") & (pl.col("first") != pl.col("number")))
    return pl.concat(fault_frames).sort("number"), later_rows.select("number", "first")


def _find_id_conflicts(rows: pl.DataFrame) -> pl.Series:
    """Return the numbers of the rows whose id belongs to an earlier usable row with another text."""
    in_doubt = rows.filter(pl.col("text").n_unique().over("identifier") > 1)["text"]
    texts: set[int] = set()
    text_by_id: dict[str, int] = {}
    conflicts: list[int] = []
    rows = rows.filter(pl.col("text").is_in(in_doubt.unique().implode()))
    for number, text, identifier in rows.select("number", "text", "identifier").iter_rows():
        if text_by_id.get(identifier, text) != text:
            conflicts.append(number)
        elif text not in texts:
            texts.add(text)
            text_by_id[identifier] = text
    return pl.Series("number", conflicts, pl.Int64)


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
    """Return a short cell as text, with whole numbers in integer form whatever the file format."""
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


def _parse_span_label(cells: Mapping[str, Any], columns: LabelColumns, length: int, label: str) -> SpanLabel:
    if not columns.start:
        return SpanLabel(label, 0, length)
    try:
        start, end = int(_word(cells, columns.start)), int(_word(cells, columns.end))
    except ValueError:
        raise EntryError("span without whole numbers") from None
    if not 0 <= start < end <= length:
        raise EntryError("span outside its text")
    return SpanLabel(label, start, end)


FEWEST_ROWS = 5
"""Rows of a class below which a split would be without one."""


MOST_CLASSES = 200


_NUMBERS = 10
"""Different numbers up to which they are taken for names of classes."""


_QUARTERS = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class UserClass:
    """A class, with the number that fell into it if labels are numbers."""

    name: str
    value: float | None = None


@dataclass(frozen=True, slots=True)
class UserClasses:
    """The mapping from labels to classes.

    Attributes:
        classes: Label to class, if labels are classes.
        edges: If labels are numbers, the largest number of each quarter but the last.
        quarters: Name of the class of each quarter that enough rows have.
    """

    classes: Mapping[str, UserClass]
    edges: Sequence[float] = ()
    quarters: Mapping[int, str] = field(default_factory=dict[int, str])

    def select_rare_rows(self, labels: pl.DataFrame) -> pl.DataFrame:
        """Select ``number, label`` of the rows whose label has no class, in the order of the rows.

        Args:
            labels: `LabelledTable.labels`.
        """
        rare = [label for label in labels["label"].unique().to_list() if self.find(label) is None]
        rows = labels.filter(pl.col("label").is_in(pl.Series(rare, dtype=pl.String).implode()))
        return rows.select("number", "label").sort("number")

    def find(self, label: str) -> UserClass | None:
        """Return the class of a label; None if too few rows have it."""
        if not self.quarters:
            return self.classes.get(label)
        value = _number(label)
        name = None if value is None else self.quarters.get(bisect_left(self.edges, value))
        return None if name is None else UserClass(name, value)


def build_user_classes(labels: pl.DataFrame, row_kind: str, kind: str, corpus: str) -> UserClasses:
    """Build the classes of labels.

    Args:
        labels: ``number, label`` of every row, the label as text.
        row_kind: What the numbers count, ``"line"`` or ``"row"``.
        kind: ``"classes"``, ``"numbers"``, or empty where the labels decide.
        corpus: The corpus as named, for messages.

    Raises:
        InputError: There are more classes than can be told apart, or none that enough rows have; or a label
            is no number where numbers were promised.
    """
    counts = labels.group_by("label", maintain_order=True).agg(rows=pl.len(), number=pl.col("number").first())
    values = counts["label"].map_elements(_number, pl.Float64, skip_nulls=True)
    wrong_label = ""
    if values.null_count():
        label, number = counts.filter(values.is_null()).select("label", "number").row(0)
        wrong_label = f"label {label[:60]!a} is not a number ({row_kind} {number})"
    if kind == "numbers" and wrong_label:
        raise InputError(f"corpus {corpus!r}: {wrong_label}; correct it, or leave out kind=numbers")
    are_numbers = not values.null_count() and values.n_unique() > _NUMBERS
    if kind == "numbers" or (are_numbers and not kind):
        return _by_quartile(values.to_numpy(), counts["rows"].to_numpy())
    frequent_labels = counts.filter(pl.col("rows") >= FEWEST_ROWS)["label"]
    if frequent_labels.is_empty() or len(frequent_labels) > MOST_CLASSES:
        raise InputError(
            f"corpus {corpus!r}: {len(counts):,} different labels in {len(labels):,} rows, of "
            f"which {len(frequent_labels):,} occur in {FEWEST_ROWS} rows or more; a label is one "
            f"of 2 to {MOST_CLASSES} classes, or a "
            f"number{f'; {wrong_label}' if values.is_not_null().sum() > values.null_count() > 0 else ''}"
        )
    return UserClasses({label: UserClass(label) for label in frequent_labels})


def _number(label: str) -> float | None:
    try:
        value = float(label)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _by_quartile(values: npt.NDArray[np.float64], rows: npt.NDArray[np.uint32]) -> UserClasses:
    """Build quartile classes, named by their order and their range of numbers."""
    edges = np.unique(np.quantile(np.repeat(values, rows), _QUARTERS))
    quarter = np.searchsorted(edges, values)
    names: dict[int, str] = {}
    for order, quarter_index in enumerate(np.unique(quarter).tolist(), 1):
        is_member = quarter == quarter_index
        if rows[is_member].sum() >= FEWEST_ROWS:
            names[quarter_index] = f"{order} ({values[is_member].min():g} to {values[is_member].max():g})"
    return UserClasses({}, edges.tolist(), names)
