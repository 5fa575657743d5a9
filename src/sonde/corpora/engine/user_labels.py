"""From the rows of a table to texts with their labels; what is wrong with rows is counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import polars as pl

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.fingerprint import fingerprint
from sonde.corpora.engine.corpus import Intake
from sonde.corpora.engine.decode import is_unicode
from sonde.corpora.engine.select import SPLIT_OF
from sonde.corpora.engine.tables import EntryError, RowTable, TableRow

KINDS = ("classes", "numbers")


_NEEDED = ("text", "label")


_WHERE_THERE = ("split", "group", "id", "language")
"""Columns that are read where the table has them; the others are read where they are named."""


_SHOWN, _LONGEST_SHOWN = 8, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelColumns:
    """The columns of a table; an empty name means that it has no such column.

    Attributes:
        text: What is labelled.
        label: Its label.
        split: ``train``, ``valid`` or ``test``.
        group: What is resampled and split as one.
        id: The row's name.
        language: Language of the text.
        text_b: The second text of a pair.
        start: First labelled character.
        end: One past the last.
        kind: ``"classes"``, ``"numbers"`` or, where the labels say it themselves, empty.
        every_language: The language of all rows, where the query says it.
    """

    text: str
    label: str
    split: str = ""
    group: str = ""
    id: str = ""
    language: str = ""
    text_b: str = ""
    start: str = ""
    end: str = ""
    kind: str = ""
    every_language: str = ""

    @property
    def about(self) -> str:
        """What a label is about: ``"text"``, ``"span"`` or ``"pair"``."""
        return "pair" if self.text_b else "span" if self.start else "text"


_COLUMNS = tuple(one.name for one in fields(LabelColumns) if one.name not in ("kind", "every_language"))


@dataclass(frozen=True, slots=True)
class TableQuery:
    """The query of a corpus that is a table, as given: option to value."""

    given: dict[str, str]

    @classmethod
    def of(cls, argument: str, query: str) -> TableQuery:
        """Read a query.

        Raises:
            UsageError: An option that there is not, or options that contradict each other.
        """
        corpus, given = f"labelled:{argument}", dict(parse_qsl(query, keep_blank_values=True))
        for option in given:
            if option not in (*_COLUMNS, "kind"):
                raise UnknownNameError(f"option of corpus {corpus!r}", option, (*_COLUMNS, "kind"))
        if bool(given.get("start")) != bool(given.get("end")):
            raise UsageError(f"corpus {corpus!r}: a span needs both start= and end=")
        if given.get("start") and given.get("text_b"):
            raise UsageError(f"corpus {corpus!r}: start= labels spans and text_b= pairs; leave one out")
        if given.get("kind", KINDS[0]) not in KINDS:
            raise UnknownNameError(f"kind of labels of corpus {corpus!r}", given["kind"], KINDS)
        return cls(given)

    def columns(self, found: Sequence[str], corpus: str, languages: Collection[str]) -> LabelColumns:
        """The columns of a table that has ``found``.

        Raises:
            InputError: It lacks one that is needed or named, or has it twice.
        """
        chosen = dict(self.given)
        if chosen.get("language") in languages and chosen["language"] not in found:
            chosen["every_language"] = chosen.pop("language")
        chosen = {"text": "code", "label": "label"} | chosen
        for name in _WHERE_THERE:
            if name not in chosen and name in found and "every_language" not in chosen:
                chosen[name] = name
        for name in _COLUMNS:
            if column := chosen.get(name):
                self._check(name, column, found, corpus)
        return LabelColumns(**chosen)

    def _check(self, name: str, column: str, found: Sequence[str], corpus: str) -> None:
        if found.count(column) > 1:
            raise InputError(f"corpus {corpus!r}: two columns are named {column!r}; rename one")
        if column not in found:
            shown = ", ".join(ascii(str(one)[:_LONGEST_SHOWN]) for one in found[:_SHOWN]) or "none"
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise InputError(
                f"corpus {corpus!r}: no column {column!r}; the first row names {shown}{more}; say which "
                f"column it is behind the file's name, as ?{name}=COLUMN"
            )


_NONE = ("", "nan", "none", "null", "na", "n/a")


_REASONS = 3


_SLICE = 8_192


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
    labels: list[PlaceLabel]


class LabelledTable:
    """A table read twice in a stream: for its labels, then for the texts that they are about.

    Of a row stay what tells its text from others (a hash), its label and its place.

    Args:
        open_rows: Opens the table; called once a reading.
        columns: Which column is what.
        corpus: The corpus as named, for messages.
        intake: Counts the rows that are left out, by reason, and is told of every row that is read.

    Attributes:
        labels: The rows that can be used, text by text in the order of the first rows: ``number, first,
            label, start, end``, ``first`` being the number of the text's first row.

    Raises:
        InputError: No row can be used.
    """

    def __init__(
        self, open_rows: Callable[[], RowTable], columns: LabelColumns, corpus: str, intake: Intake
    ) -> None:
        self._open, self._columns, self._corpus, self._intake = open_rows, columns, corpus, intake
        self.labels = self._read_labels()

    @property
    def count(self) -> int:
        """How many texts there are."""
        return self.labels["first"].n_unique()

    def texts(self) -> Iterator[LabelledText]:
        """Yield the texts in the order of their first rows.

        Raises:
            InputError: The file is no longer what it was.
        """
        slices = self.labels.iter_slices(_SLICE)
        rows = chain.from_iterable(part.select("first", "label", "start", "end").rows() for part in slices)
        by_text = (
            (first, [PlaceLabel(*row[1:]) for row in some]) for first, some in groupby(rows, itemgetter(0))
        )
        first, labels = next(by_text, (None, []))
        for row in self._rows(self._open()):
            if row.number == first:
                yield self._text(row, labels)
                first, labels = next(by_text, (None, []))
                if first is None:
                    return
        raise self._changed()

    def _text(self, row: TableRow, labels: list[PlaceLabel]) -> LabelledText:
        columns, cells = self._columns, row.cells
        try:
            made = LabelledText(
                identifier=_word(cells, columns.id) or str(row.number),
                text=_code(cells, columns.text),
                other=_code(cells, columns.text_b),
                language=_word(cells, columns.language),
                split=_split(_word(cells, columns.split)),
                group=_word(cells, columns.group),
                labels=labels,
            )
        except EntryError:
            raise self._changed() from None
        if any(not 0 <= one.start < one.end <= len(made.text) for one in labels):
            raise self._changed()
        return made

    def _changed(self) -> InputError:
        return InputError(f"corpus {self._corpus!r}: the file changed while it was read; run again")

    def _usable(self, table: RowTable, faults: Intake) -> Iterator[tuple[Any, ...]]:
        """What is held of each row that can be used; counts the others."""
        for row in self._rows(table):
            try:
                yield _held(row, self._columns)
            except EntryError as fault:
                faults.note(str(fault), f"{table.counted} {row.number}")

    def _rows(self, table: RowTable) -> Iterator[TableRow]:
        for row in table.rows:
            self._intake.advance(1)
            yield row

    def _read_labels(self) -> pl.DataFrame:
        table = self._open()
        faults = Intake()
        usable = self._usable(table, faults)
        parts = [pl.DataFrame(schema=_ROWS)]
        while some := list(islice(usable, _SLICE)):
            parts.append(pl.DataFrame(some, _ROWS, orient="row"))
        rows = pl.concat(parts)
        read = rows.height + faults.counts.total()
        left, first = _repeated(rows.filter(_shared(rows["text"]) | _shared(rows["identifier"])))
        for number, fault in left.iter_rows():
            faults.note(fault, f"{table.counted} {number}")
        for reason, count in faults.counts.items():
            self._intake.counts[reason] += count
            self._intake.examples.setdefault(reason, faults.examples[reason])
        if rows.is_empty():
            why = ", ".join(f"{count} {reason}" for reason, count in faults.counts.most_common(_REASONS))
            raise InputError(
                f"corpus {self._corpus!r}: none of its {read} rows can be used{f': {why}' if why else ''}"
            )
        rows = rows.select("number", pl.col("number").alias("first"), "label", "start", "end")
        if left.height:
            rows = rows.filter(~pl.col("number").is_in(left["number"].implode()))
        if first.height:
            numbers = rows["number"].to_numpy(writable=True)
            numbers[np.searchsorted(numbers, first["number"])] = first["first"]
            rows = rows.with_columns(first=numbers).sort("first", "number")
        return rows


def _held(row: TableRow, columns: LabelColumns) -> tuple[Any, ...]:
    """What is held of a row.

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
    identifier = _word(row.cells, columns.id) or str(row.number)
    # Asked for now, so that a row that says none of these is left out.
    _word(row.cells, columns.language)
    split = _split(_word(row.cells, columns.split))
    _word(row.cells, columns.group)
    return row.number, _text_key(text, other), identifier, split, label, place.start, place.end


def _text_key(text: str, other: str) -> int:
    """Tell a text, or a pair, from all others; of a million texts two share a number by a chance of 3e-8."""
    return int(fingerprint(text, other)[:16], 16)


def _shared(values: pl.Series) -> pl.Series:
    """Whether another value is the same, or by a rare chance another has the same short hash."""
    hashes = values.hash().to_numpy()
    order = np.argsort(hashes)
    same = np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]])
    shared = np.zeros(len(hashes), bool)
    shared[order[same]] = shared[order[same + 1]] = True
    return pl.Series(shared)


def _repeated(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Find the rows that cannot be used since an earlier one can, and those that label an earlier row's text.

    Args:
        rows: The rows that share their text or their id with another one, in their order.

    Returns:
        ``number, fault`` of the first kind and ``number, first`` of the second, `first` being the number of
        the text's first row.
    """
    renamed = _with_id_of_another(rows)
    rows = rows.filter(~pl.col("number").is_in(renamed.implode()))
    first = _first_alike(rows, "text")
    is_moved = rows["split"] != rows["split"].gather(first)
    moved = rows["number"].filter(is_moved)
    rows = rows.with_columns(first=rows["number"].gather(first)).filter(~is_moved)
    labelled = _first_alike(rows, "text", "start", "end")
    is_again = pl.Series(labelled != np.arange(rows.height))
    again = rows.filter(is_again)
    is_same = again["label"] == rows["label"].gather(labelled).filter(is_again)
    faults = {
        "id of an earlier row": renamed,
        "text in two splits": moved,
        "repeated row": again["number"].filter(is_same),
        "text with two labels": again["number"].filter(~is_same),
    }
    left = [
        pl.DataFrame({"number": found}).with_columns(fault=pl.lit(fault)) for fault, found in faults.items()
    ]
    rows = rows.filter(~is_again & (pl.col("first") != pl.col("number")))
    return pl.concat(left).sort("number"), rows.select("number", "first")


def _first_alike(rows: pl.DataFrame, *columns: str) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return for every row the place of the first one that has the same numbers in some columns."""
    keys = [rows[name].to_numpy() for name in columns]
    # A stable sort, so that the first of those alike comes first.
    order = np.lexsort(keys)
    begins = np.zeros(rows.height, bool)
    begins[:1] = True
    for key in keys:
        begins[1:] |= key[order[1:]] != key[order[:-1]]
    places = np.maximum.accumulate(np.where(begins, np.arange(rows.height), 0))
    first = np.empty(rows.height, np.intp)
    first[order] = order[places]
    return first


def _with_id_of_another(rows: pl.DataFrame) -> pl.Series:
    """Number the rows whose id an earlier text has: that of the first row of it that can be used."""
    in_doubt = rows.filter(pl.col("text").n_unique().over("identifier") > 1)["text"]
    seen: set[int] = set()
    named: dict[str, int] = {}
    found: list[int] = []
    rows = rows.filter(pl.col("text").is_in(in_doubt.unique().implode()))
    for number, text, identifier in rows.select("number", "text", "identifier").iter_rows():
        if named.get(identifier, text) != text:
            found.append(number)
        elif text not in seen:
            seen.add(text)
            named[identifier] = text
    return pl.Series("number", found, pl.Int64)


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
