"""A table of texts with labels of one's own: CSV, JSON lines or Parquet.

``labelled:reviews.csv`` reads the columns ``code`` (the text) and ``label`` (a class or a number). It also
reads ``split``, ``group``, ``id`` and ``language`` if the table has them. A query names other columns:
``labelled:reviews.csv?text=body&label=verdict``. ``start=`` and ``end=`` name the columns of spans, and
``text_b=`` the second text of a pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sonde.corpora.engine.corpus import Given, SkipCounter, SourceFile, TableCounts, Tag
from sonde.corpora.engine.source_files import is_usable
from sonde.corpora.engine.tables import LabelColumns, TableQuery, named_file, open_table, suggest_column
from sonde.languages import LANGUAGES

if TYPE_CHECKING:
    from sonde.corpora.engine.user_labels import LabelledTable, LabelledText, SpanLabel, UserClass

SYNONYMS = ("csv", "tsv", "parquet", "own labels", "annotations")

_TASKS = {"text": "labelled", "span": "labelled_spans", "pair": "labelled_pairs"}
"""The task that takes the labels, by what a row labels."""


_SEPARATOR = "\n\n"
"""Stands between the two texts of a pair."""


_TEXT = "text"


_MAX_TRIALS = 50


_RARE = "class of fewer than 5 rows"


_MAX_NAMED = 5
"""Rows without a class that are named; the others are counted."""


_MAX_LABEL = 40
"""Characters of a label that a message repeats."""


class UserTable:
    """`labelled:FILE[?text=code&label=y&split=s&group=repo&id=i&language=l&text_b=b&start=s&end=e&kind=k]`.

    One row a labelled text; the query says which column is what. Without it these are ``code`` and
    ``label`` and, where the file has them, ``split``, ``group``, ``id`` and ``language``; an empty name
    (``split=``) leaves one out. With ``start`` and ``end`` (characters of the text, end exclusive) the label
    is that of a span, with ``text_b`` that of two texts, which are read one behind the other.

    Labels are classes, or numbers where all of them are and there are more than ten different ones
    (``kind=classes`` or ``kind=numbers`` settles it). Numbers have a class by quartile beside themselves.
    The language is a column, the name of one (``language=java``), or the one that most texts parse in.

    Rows that cannot be used are left out and counted by reason; a class of fewer than five rows as well.
    """

    def tasks(self, argument: str) -> tuple[str, ...]:
        """Return the one task that takes the labels; reads only the head of the file.

        Raises:
            UsageError: The query is none.
            InputError: There is no such file, or it lacks a column.
        """
        _, columns, _ = _open_table(argument)
        return (_TASKS[columns.target],)

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield one single-function file per text, in the order of the first rows; its path is ``name#id``.

        Raises:
            UsageError: The query is none, or the file of another kind.
            InputError: The file cannot be read, lacks a column, or holds no label that could be learned.
        """
        # Imported here, so that a list of corpora waits for no table library.
        from sonde.corpora.engine.user_labels import LabelledTable, build_user_classes

        path, columns, query = _open_table(argument)
        corpus = f"labelled:{argument}"
        table = LabelledTable(lambda: open_table(path, corpus), columns, corpus, intake)
        classes = build_user_classes(table.labels, table.row_kind, columns.kind, corpus)
        unread = query.unread_columns(tuple(table.column_names), columns)
        counts = TableCounts(table.row_count, 0, unread, suggest_column(unread, columns))
        intake.table = counts
        rare_rows = classes.select_rare_rows(table.labels)
        names = {name.casefold(): name for name in classes.classes}
        for number, label in rare_rows.head(_MAX_NAMED).iter_rows():
            matches = get_close_matches(label.casefold(), names, n=1, cutoff=0.7)
            similar = f" like {names[matches[0]]!r}" if matches else ""
            intake.note(_RARE, f"{label[:_MAX_LABEL]!r}{similar} in {table.row_kind} {number}")
        if rare_rows.height > _MAX_NAMED:
            intake.counts[_RARE] += rare_rows.height - _MAX_NAMED
        constant = _language(table, columns, languages) if not columns.language else ""
        language_names = {name.casefold(): name for name in LANGUAGES.names()}
        for text in table.texts():
            name = f"{path.name}#{text.identifier}"
            language = constant or language_names.get(text.language.casefold())
            labels = [
                (label, user_class) for label in text.labels if (user_class := classes.find(label.label))
            ]
            if language is None or (languages and language not in languages):
                intake.note("another language", name, len(labels))
                continue
            file = _file(text, name, language, labels, columns.target)
            if file.given and is_usable(file.text, name, intake):
                counts.used += len(labels)
                yield file


def _open_table(argument: str) -> tuple[Path, LabelColumns, TableQuery]:
    """Return the file, its columns by role, and the query that names them."""
    location, query = TableQuery.parse(argument)
    corpus, path = f"labelled:{argument}", named_file("labelled", argument, location)
    return path, query.columns(open_table(path, corpus).columns, corpus, LANGUAGES.names()), query


def _file(
    text: LabelledText, name: str, language: str, labels: Sequence[tuple[SpanLabel, UserClass]], target: str
) -> SourceFile:
    full_text = text.text + _SEPARATOR + text.second_text if target == "pair" else text.text
    second_span = (len(text.text) + len(_SEPARATOR), len(full_text)) if target == "pair" else (-1, -1)
    given_labels = tuple(
        Given(
            _TASKS[target],
            user_class.name,
            label.start,
            label.end,
            *second_span,
            split=text.split,
            value=user_class.value,
            group=text.group,
        )
        for label, user_class in labels
    )
    return SourceFile(
        path=name,
        text=full_text,
        language=language,
        cluster=text.group or name,
        repository=text.group or name,
        unit="function",
        line=text.number,
        identifier=text.identifier,
        # Several labels of one subword are joined by a bar.
        tags=tuple(
            Tag(given_label.start, max(given_label.end, second_span[1]), given_label.label.replace("|", "/"))
            for given_label in given_labels
        ),
        given=given_labels,
    )


def _language(table: LabelledTable, columns: LabelColumns, languages: tuple[str, ...]) -> str:
    """Detect the language of texts that do not name theirs."""
    if columns.every_language or len(languages) == 1:
        return columns.every_language or languages[0]
    count = table.count
    sample = [text.text for text in islice(table.texts(), 0, None, max(1, count // _MAX_TRIALS))]
    scores = {name: _count_parsable(sample, name) for name in LANGUAGES.names() if name != _TEXT}
    best = max(scores, key=lambda name: scores[name])
    return best if 2 * scores[best][0] >= len(sample) else _TEXT


def _count_parsable(texts: Sequence[str], name: str) -> tuple[int, int]:
    """Count the texts that parse in a language, and how many of these contain a function."""
    language = LANGUAGES.load(name)
    parsable = [text for text in texts if not language.parse(text).has_error]
    return len(parsable), sum(bool(language.functions(text)) for text in parsable)


source = UserTable()
