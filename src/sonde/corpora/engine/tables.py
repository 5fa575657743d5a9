"""Rows of user tables (CSV, JSON lines, Parquet), their label columns, and entries of corpus files.

Tables are read row by row and within size limits. All entries of a corpus are checked before it is refused.
The query behind the name of a user's table says which column is what (`TableQuery`, `LabelColumns`).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import parse_qsl

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.files import expand_home
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.source_files import (
    LONGEST_LINE,
    MAX_WHOLE,
    is_usable,
    numbered_lines,
    read_document,
)
from sonde.languages import LANGUAGES

_CSV, LINE_SUFFIXES, _PARQUET = (".csv", ".tsv"), (".jsonl", ".ndjson"), (".parquet",)


TABLE_SUFFIXES = (*_CSV, *LINE_SUFFIXES, *_PARQUET)


_DELIMITERS = ",\t;"


_OTHER_ENCODINGS = (b"\xff\xfe", b"\xfe\xff")


_BATCH = 256


_MOST_ROWS = 10_000_000


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table.

    Attributes:
        number: Its number from 1; in a text file that of its first line.
        cells: Its values by column.
        fault: The reason why it is unusable; empty if it is usable.
    """

    number: int
    cells: Mapping[str, Any]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class RowTable:
    """A table whose rows are read lazily.

    Attributes:
        columns: Names of the columns; of JSON lines those of the first row.
        rows: The rows in their order.
        row_kind: What row numbers count, ``"line"`` or ``"row"``.
    """

    columns: tuple[str, ...]
    rows: Iterator[TableRow]
    row_kind: str = "line"


def open_table(path: Path, corpus: str) -> RowTable:
    """Open a table by its suffix.

    Args:
        path: The file.
        corpus: The corpus as named, for messages.

    Raises:
        UsageError: The suffix is of no kind of table.
        InputError: The file is empty, larger than any that is read whole, or of another kind inside. Rows
            raise it too as they are read.
    """
    suffix = path.suffix.lower()
    readers = {
        **dict.fromkeys(_CSV, _csv),
        **dict.fromkeys(LINE_SUFFIXES, _lines),
        **dict.fromkeys(_PARQUET, _parquet),
    }
    if suffix not in readers:
        raise UsageError(f"corpus {corpus!r}: a table ends in {', '.join(readers)}, not in {suffix!r}")
    try:
        size = path.stat().st_size
        if not size:
            raise InputError(f"corpus {corpus!r}: the file is empty")
        if size > MAX_WHOLE:
            raise InputError(f"corpus {corpus!r}: the file is longer than {MAX_WHOLE:,} bytes; split it")
        return readers[suffix](path, corpus)
    except OSError as error:
        raise InputError(f"corpus {corpus!r} cannot be read: {error.strerror or error}") from None


def _csv(path: Path, corpus: str) -> RowTable:
    with path.open("rb") as handle:
        first = handle.readline(LONGEST_LINE)
    if first.startswith(_OTHER_ENCODINGS) or b"\0" in first:
        raise InputError(f"corpus {corpus!r}: the header is not UTF-8; write the file as UTF-8")
    header = first.decode("utf-8", "replace")
    rows = _csv_rows(path, corpus, max(_DELIMITERS, key=header.count))
    columns = next(rows, (0, []))[1]
    return RowTable(tuple(columns), (_by_column(number, cells, columns) for number, cells in rows))


def _csv_rows(path: Path, corpus: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty rows, the header first, each with the number of its first line."""
    with path.open("rb") as handle:
        # A cell may be as long as a line of any other format; the module's own bound is 131,072 characters.
        csv.field_size_limit(LONGEST_LINE)
        reader = csv.reader(_decode_lines(handle, corpus), delimiter=delimiter, strict=True)
        number = 1
        try:
            for cells in reader:
                if any(cells):
                    yield number, cells
                number = reader.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"corpus {corpus!r}: the row that begins in line {number} is not CSV ({error}); "
                "put cells with quotes, commas or line breaks in quotes, and double the quotes "
                "in them"
            ) from None


def _decode_lines(handle: BinaryIO, corpus: str) -> Iterator[str]:
    """Decode lines; bytes that are not UTF-8 become lone surrogates, which are refused as code."""
    encoding = "utf-8-sig"
    while line := handle.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise InputError(f"corpus {corpus!r}: a line is longer than {LONGEST_LINE:,} bytes")
        yield line.decode(encoding, "surrogateescape")
        encoding = "utf-8"


def _by_column(number: int, cells: list[str], columns: list[str]) -> TableRow:
    if len(cells) != len(columns):
        return TableRow(number, {}, "more or fewer cells than columns")
    return TableRow(number, dict(zip(columns, cells, strict=True)))


def _lines(path: Path, corpus: str) -> RowTable:
    rows = _line_rows(path, corpus)
    first = next((row for row in rows if not row.fault), None)
    columns = () if first is None else tuple(first.cells)
    return RowTable(columns, _line_rows(path, corpus))


def _line_rows(path: Path, corpus: str) -> Iterator[TableRow]:
    with path.open("rb") as handle:
        for number, line in numbered_lines(handle, corpus):
            try:
                row = json.loads(line.decode("utf-8-sig"))
            except UnicodeDecodeError:
                yield TableRow(number, {}, "not UTF-8")
            except (ValueError, RecursionError):
                yield TableRow(number, {}, "not JSON")
            else:
                yield (
                    TableRow(number, row) if isinstance(row, dict) else TableRow(number, {}, "no JSON object")
                )


def _parquet(path: Path, corpus: str) -> RowTable:
    # Imported here: it takes a tenth of a second, and few corpora are such files.
    import pyarrow
    from pyarrow import parquet

    try:
        # What is stored once for many rows stays so in memory; what is nested is no text and no label.
        plain = [column for column in parquet.read_schema(path) if not pyarrow.types.is_nested(column.type)]
        kinds = (pyarrow.types.is_string, pyarrow.types.is_large_string)
        words = [column.name for column in plain if any(kind(column.type) for kind in kinds)]
        file = parquet.ParquetFile(path, read_dictionary=words)
        if file.metadata.num_rows > _MOST_ROWS:
            raise InputError(
                f"corpus {corpus!r}: it has {file.metadata.num_rows:,} rows, more than the "
                f"{_MOST_ROWS:,} that are read; split it"
            )
        groups = (file.metadata.row_group(index) for index in range(file.metadata.num_row_groups))
        if any(group.total_byte_size > MAX_WHOLE for group in groups):
            raise InputError(
                f"corpus {corpus!r}: a row group is longer than {MAX_WHOLE:,} bytes; write smaller ones"
            )
    except (pyarrow.ArrowException, OSError) as error:
        raise _no_parquet(corpus, error) from None
    rows = _parquet_rows(file, [column.name for column in plain], corpus)
    return RowTable(tuple(file.schema_arrow.names), rows, "row")


def _parquet_rows(file: Any, columns: list[str], corpus: str) -> Iterator[TableRow]:
    import pyarrow

    number, remaining_bytes = 0, MAX_WHOLE
    try:
        for batch in file.iter_batches(batch_size=_BATCH, columns=columns):
            # Row by row: a value that is stored once is as long in each of them.
            for row_index in range(batch.num_rows):
                cells = {
                    name: batch.column(column_index)[row_index].as_py()
                    for column_index, name in enumerate(columns)
                }
                remaining_bytes -= sum(
                    len(cell) if isinstance(cell, str | bytes) else 8 for cell in cells.values()
                )
                if remaining_bytes < 0:
                    raise InputError(f"corpus {corpus!r}: it has more than {MAX_WHOLE:,} bytes; split it")
                number += 1
                yield TableRow(number, cells)
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _no_parquet(corpus, error) from None


def _no_parquet(corpus: str, error: Exception) -> InputError:
    return InputError(f"corpus {corpus!r}: not a Parquet file ({' '.join(str(error).split())[:120]})")


_MAX_REPORTED = 5


_SPLITS: Mapping[str, str] = {"train": "train", "dev": "valid", "eval": "test"}
"""How files of published data sets begin, and the split that they are."""


class EntryError(Exception):
    """An entry is faulty; the message says how."""


@dataclass(slots=True)
class Faults:
    """The faults of a corpus, collected from all entries before it is refused.

    Attributes:
        corpus: The corpus as it was named.
        entries: Plural name of its entries, such as ``lines``.
        messages: Each faulty entry with its fault.
    """

    corpus: str
    entries: str
    messages: list[str] = field(default_factory=list[str])

    def __bool__(self) -> bool:
        return bool(self.messages)

    def note(self, entry: str, fault: object) -> None:
        """Note a fault of ``entry``, such as ``line 3``."""
        self.messages.append(f"{entry}: {fault}")

    def refuse(self) -> None:
        """Refuse the corpus if an entry is faulty.

        Raises:
            InputError: An entry is faulty; the first few are named.
        """
        if self.messages:
            remaining = len(self.messages) - _MAX_REPORTED
            suffix = f"; and {remaining} more {self.entries}" if remaining > 0 else ""
            raise InputError(f"corpus {self.corpus!r}: {'; '.join(self.messages[:_MAX_REPORTED])}{suffix}")


Entry = TypeVar("Entry")


def read_entries(
    entries: Iterable[tuple[str, Entry]],
    parse: Callable[[Entry], SourceFile | None],
    faults: Faults,
    languages: tuple[str, ...],
    intake: SkipCounter,
    *,
    id_name: str = "",
) -> Iterator[SourceFile]:
    """Parse the entries of a corpus, and yield those that are usable and of a requested language.

    After a faulty entry none is yielded; the rest is read only to find more faults.

    Args:
        entries: Label for messages, such as ``line 3``, and the entry.
        parse: Parses an entry; raises `EntryError` for a faulty one, and returns None for one to leave out.
        faults: Receives the faults.
        languages: Public names of the requested languages; empty means all.
        intake: Counts what is left out.
        id_name: Name of the ids, which no two entries may share; empty if the source has none.

    Raises:
        UnknownNameError: There is no such language.
        InputError: An entry is faulty; the first few are named.
    """
    for name in languages:
        LANGUAGES.load(name)
    labels_by_id: dict[str, str] = {}
    for label, entry in entries:
        try:
            file = parse(entry)
        except EntryError as error:
            faults.note(label, error)
            continue
        if id_name and file and (first := labels_by_id.setdefault(file.identifier, label)) != label:
            faults.note(label, f"{id_name} {file.identifier!r} is that of {first}")
        is_wanted = file is not None and (not languages or file.language in languages)
        if file is not None and is_wanted and not faults and is_usable(file.text, file.path, intake):
            yield file
    faults.refuse()


def named_file(scheme: str, argument: str, name: str = "") -> Path:
    """Return the file of a corpus.

    Args:
        scheme: Text before the colon of the corpus.
        argument: Text after it.
        name: The file, if ``argument`` holds more than that.

    Raises:
        InputError: There is no such file.
        UsageError: None is named.
    """
    if not (name or argument):
        raise UsageError(f"corpus {scheme!r} needs a file; name it as {scheme}:FILE")
    path = expand_home(name or argument)
    if not path.is_file():
        raise InputError(f"corpus '{scheme}:{argument}': no such file")
    return path


def files_by_split(corpus: str, path: Path, *patterns: str) -> list[tuple[Path, str]]:
    """Find the files of a published data set with the split of each; a single file has none.

    Args:
        corpus: The corpus as it was named.
        path: A file, or a folder of them.
        patterns: How files are called below the folder, ``{}`` standing for ``train``, ``dev`` and ``eval``.

    Raises:
        InputError: There is no such file.
    """
    if path.is_file():
        return [(path, "")]
    if not path.is_dir():
        raise InputError(f"corpus {corpus!r}: no such file or folder")
    files = [
        (file, split)
        for begin, split in _SPLITS.items()
        for pattern in patterns
        for file in sorted(path.glob(pattern.replace("{}", begin)))
        if file.is_file()
    ]
    if not files:
        train, dev, evaluation = (patterns[0].replace("{}", begin) for begin in _SPLITS)
        raise InputError(f"corpus {corpus!r}: no file named {train}, {dev} or {evaluation} in it")
    return files


def json_list(corpus: str, path: Path, entries: str) -> list[Any]:
    """Read the entries of a file that is one JSON list.

    Raises:
        InputError: It is none, or too long to be read as a whole.
    """
    try:
        content = json.loads(read_document(path, corpus))
    except (ValueError, RecursionError) as error:
        raise InputError(f"corpus {corpus!r}: {not_json(error)}") from None
    if not isinstance(content, list):
        raise InputError(f"corpus {corpus!r}: not a list of {entries}")
    return content


def not_json(error: Exception) -> str:
    """Describe why a text is not JSON, in a few words."""
    return f"not JSON ({str(error).partition(':')[0]})"


def split_query(corpus: str, argument: str, option_names: Collection[str]) -> tuple[str, dict[str, str]]:
    """Split the argument of a corpus into the location and the options of its query.

    >>> split_query("git:repo?since=2024-01-01", "repo?since=2024-01-01", ("since", "until"))
    ('repo', {'since': '2024-01-01'})

    Args:
        corpus: The corpus as named, for the message.
        argument: The text after its colon.
        option_names: The options that exist.

    Raises:
        UnknownNameError: There is no such option; the nearest is named.
    """
    location, _, query = argument.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for option in options:
        if option not in option_names:
            raise UnknownNameError(f"option of corpus {corpus!r}", option, option_names)
    return location, options


KINDS = ("classes", "numbers")


_OPTIONAL_COLUMNS = ("split", "group", "id", "language")
"""Columns that are read where the table has them; the others are read where they are named."""


_MAX_NAMES, _MAX_NAME_LENGTH = 8, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelColumns:
    """The columns of a table; an empty name means that it has no such column.

    Attributes:
        text: The labelled text.
        label: Its label.
        split: ``train``, ``valid`` or ``test``.
        group: Rows that are resampled and split together.
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
    def target(self) -> str:
        """Return what a label is about: ``"text"``, ``"span"`` or ``"pair"``."""
        return "pair" if self.text_b else "span" if self.start else "text"


_COLUMNS = tuple(
    attribute.name for attribute in fields(LabelColumns) if attribute.name not in ("kind", "every_language")
)


@dataclass(frozen=True, slots=True)
class TableQuery:
    """The query of a corpus that is a table: option to value."""

    options: dict[str, str]

    @classmethod
    def parse(cls, argument: str) -> tuple[str, TableQuery]:
        """Split the argument of a corpus into the name of its file and the query.

        Raises:
            UsageError: An option that there is not, or options that contradict each other.
        """
        corpus = f"labelled:{argument}"
        location, options = split_query(corpus, argument, (*_COLUMNS, "kind"))
        if bool(options.get("start")) != bool(options.get("end")):
            raise UsageError(f"corpus {corpus!r}: a span needs both start= and end=")
        if options.get("start") and options.get("text_b"):
            raise UsageError(f"corpus {corpus!r}: start= labels spans and text_b= pairs; leave one out")
        if options.get("kind", KINDS[0]) not in KINDS:
            raise UnknownNameError(f"kind of labels of corpus {corpus!r}", options["kind"], KINDS)
        return location, cls(options)

    def columns(self, column_names: Sequence[str], corpus: str, languages: Collection[str]) -> LabelColumns:
        """Resolve the columns of a table that has ``column_names``.

        Raises:
            InputError: It lacks one that is needed or named, or has it twice.
        """
        column_by_role = dict(self.options)
        if column_by_role.get("language") in languages and column_by_role["language"] not in column_names:
            column_by_role["every_language"] = column_by_role.pop("language")
        column_by_role = {"text": "code", "label": "label"} | column_by_role
        for name in _OPTIONAL_COLUMNS:
            is_replaced = name == "language" and "every_language" in column_by_role
            if name not in column_by_role and name in column_names and not is_replaced:
                column_by_role[name] = name
        for name in _COLUMNS:
            if column := column_by_role.get(name):
                self._check(name, column, column_names, corpus)
        return LabelColumns(**column_by_role)

    def unread_columns(self, column_names: Sequence[str], columns: LabelColumns) -> tuple[str, ...]:
        """Return the columns of a table that no role takes and that the query does not leave out by name.

        >>> query = TableQuery({"split": ""})
        >>> names = ("code", "label", "split", "repo")
        >>> query.unread_columns(names, query.columns(names, "labelled:a.csv", ()))
        ('repo',)
        """
        read = {getattr(columns, name) for name in _COLUMNS}
        ignored = {name for name, column in self.options.items() if not column}
        return tuple(name for name in column_names if name not in read | ignored)

    def _check(self, name: str, column: str, column_names: Sequence[str], corpus: str) -> None:
        if column_names.count(column) > 1:
            raise InputError(f"corpus {corpus!r}: two columns are named {column!r}; rename one")
        if column not in column_names:
            names = (
                ", ".join(ascii(str(entry)[:_MAX_NAME_LENGTH]) for entry in column_names[:_MAX_NAMES])
                or "none"
            )
            suffix = f" and {len(column_names) - _MAX_NAMES} more" if len(column_names) > _MAX_NAMES else ""
            similar = [entry for entry in column_names if str(entry).strip().casefold() == column.casefold()]
            raise InputError(
                f"corpus {corpus!r}: no column {column!r}; the first row names {names}{suffix}; name the "
                f"column after the file, as ?{name}={similar[0] if similar else 'COLUMN'}"
            )


def suggest_column(unread: Sequence[str], columns: LabelColumns) -> str:
    """Return how the query reads a column: the unread one that a role is called after, else as the group.

    >>> suggest_column(["notes", "Split"], LabelColumns(text="code", label="label"))
    '?split=Split'
    >>> suggest_column(["repo"], LabelColumns(text="code", label="label"))
    '?group=COLUMN'
    """
    open_roles = [name for name in _OPTIONAL_COLUMNS if not getattr(columns, name)]
    for column in unread:
        if (role := column.strip().casefold()) in open_roles:
            return f"?{role}={column}"
    return "?group=COLUMN" if unread and "group" in open_roles else ""
