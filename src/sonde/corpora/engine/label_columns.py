"""Which column of a user's table is what: the query behind the file's name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from urllib.parse import parse_qsl

from sonde.base.errors import InputError, UnknownNameError, UsageError

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
    def target(self) -> str:
        """What a label is about: ``"text"``, ``"span"`` or ``"pair"``."""
        return "pair" if self.text_b else "span" if self.start else "text"


_COLUMNS = tuple(one.name for one in fields(LabelColumns) if one.name not in ("kind", "every_language"))


@dataclass(frozen=True, slots=True)
class TableQuery:
    """The query of a corpus that is a table, as given: option to value."""

    given: dict[str, str]

    @classmethod
    def parse(cls, argument: str, query: str) -> TableQuery:
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
