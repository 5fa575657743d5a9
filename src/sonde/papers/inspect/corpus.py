"""The published data sets of INSPECT: tab-separated lines of split, label and text, in Java.

``inspect:FILE`` names a file as published. Its name begins with the task, as in ``CPX_ORIG_10k.txt``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sonde.base.errors import InputError
from sonde.corpora.engine.corpus import Given, SkipCounter, SourceFile
from sonde.corpora.engine.source_files import is_usable, read_document
from sonde.corpora.engine.tables import named_file

_SPLITS = {"tr": "train", "va": "valid", "te": "test"}


_LANGUAGE = "java"


_MAXIMUM_LOST_SHARE = 0.1
"""Share of lines that are no rows beyond which a file is refused as of another kind."""


@dataclass(slots=True)
class _Row:
    """One row; ``number`` is its first line, counted from 1."""

    number: int
    split: str
    label: str
    text: str


@dataclass(slots=True)
class _Text:
    """A text with all of its rows that count."""

    first: _Row
    labels: list[Given] = field(default_factory=list[Given])


class InspectSource:
    """`inspect:FILE`, with the task's name at the front of the file's (``CPX_ORIG_10k.txt``: task ``cpx``).

    Each text is an item with its label (`sonde.corpora.Given`) and its published split; texts are what models
    are shown, so an item is never a part of one. Where the repository is unknown, each item is a cluster.
    A text of one token belongs to a task about tokens.

    The files have defects, which are handled and counted:

    - ``line without a row``: a line break inside a text; the line continues the row before it.
    - ``tab inside a text``: the fields after the label are one text.
    - ``nan for null``: ``null`` that became ``nan`` on the way, in the token tasks.
    - ``repeated row``: a row again; a task about tokens keeps it, it weighs in training.
    - ``two labels``: a text with another label again; the first one counts for functions.
    - ``in two splits``: a text in another split again; the first one counts.
    - ``empty text``: a row without a text, left out.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield one single-function file per text, in the order of the first rows; its path is ``name#line``.

        Raises:
            UsageError: FILE is missing.
            InputError: The file does not exist, or is none of INSPECT's.
        """
        path = named_file("inspect", argument)
        try:
            content = read_document(path, f"inspect:{argument}").decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError(f"corpus 'inspect:{argument}': not UTF-8; convert it first") from None
        rows = _read_rows(content, argument, intake)
        if languages and _LANGUAGE not in languages:
            intake.counts["another language"] += len(rows)
            return
        task = path.name.partition(".")[0].partition("_")[0].lower()
        for text in _group_by_text(rows, task, intake):
            name = f"{path.name}#{text.first.number}"
            if is_usable(text.first.text, name, intake):
                yield SourceFile(
                    path=name,
                    text=text.first.text,
                    language=_LANGUAGE,
                    cluster=name,
                    repository=name,
                    unit="function",
                    identifier=name,
                    given=tuple(text.labels),
                )


def _read_rows(content: str, argument: str, intake: SkipCounter) -> list[_Row]:
    rows: list[_Row] = []
    lost_count = 0
    # Only a newline ends a row: texts hold other characters that str.splitlines breaks at.
    for number, line in enumerate(content.split("\n"), 1):
        line = line.removesuffix("\r")
        fields = line.split("\t")
        if len(fields) >= 3 and fields[0] in _SPLITS:
            if len(fields) > 3:
                intake.note("tab inside a text", f"line {number}")
            rows.append(_Row(number, _SPLITS[fields[0]], fields[1], " ".join(fields[2:]).strip()))
        elif line.strip():
            lost_count += 1
            intake.note("line without a row", f"line {number}")
            if rows:
                rows[-1].text = f"{rows[-1].text} {line.strip()}"
    if not rows or lost_count > _MAXIMUM_LOST_SHARE * len(rows):
        raise InputError(
            f"corpus 'inspect:{argument}': {len(rows)} rows and {lost_count} lines that are not rows; a row "
            "is tr, va or te, a tab, the label, a tab and the text"
        )
    return rows


def _group_by_text(rows: list[_Row], task: str, intake: SkipCounter) -> list[_Text]:
    texts: dict[str, _Text] = {}
    about_tokens = not any(" " in row.text for row in rows)
    for row in rows:
        line_name = f"line {row.number}"
        if not row.text:
            intake.note("empty text", line_name)
            continue
        if about_tokens and row.text == "nan":
            intake.note("nan for null", line_name)
            row.text = "null"
        text = texts.setdefault(row.text, _Text(row))
        labels = {label.label for label in text.labels}
        if text.first.split != row.split:
            intake.note("in two splits", line_name)
            continue
        if labels:
            intake.note("repeated row" if row.label in labels else "two labels", line_name)
            if not about_tokens:
                continue
        text.labels.append(Given(task, row.label, 0, len(row.text), split=row.split))
    return list(texts.values())


source = InspectSource()
