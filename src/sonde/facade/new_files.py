"""The functions of files that no run has read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sonde.base.errors import InputError
from sonde.corpora import Intake, Item, SourceFile, language_of_path, read_text
from sonde.corpora._items import items_of
from sonde.facade.predicted import FilePlace, PredictedFunction
from sonde.languages import LANGUAGES, Function
from sonde.languages._text import line_breaks

_TEXT = "text"


@dataclass(frozen=True, slots=True)
class NewFunction:
    """A function and where it stands, lines from 1; of a file without functions the file.

    Attributes:
        item: The function as an input.
        file: Its file as named.
        line: Its first line.
        end_line: Its last line.
        span: Where it stands in its file, and what was left out of it.
        whole: The text of its file.
    """

    item: Item
    file: str
    line: int
    end_line: int
    span: Function = field(default=Function(0, 0, "", ""), repr=False)
    whole: str = field(default="", repr=False)

    def spot(self, start: int, end: int) -> FilePlace:
        """Some characters of the function as a place in its file."""
        first, stop = (self.span.outside(place) for place in (start, end))
        at, to = _position(self.whole, first), _position(self.whole, stop)
        return FilePlace(*at, *to, self.whole[first:stop])

    def said(self, chances: Mapping[str, float]) -> PredictedFunction:
        """The function with the probability of every class."""
        label = max(chances, key=lambda name: chances[name])
        return PredictedFunction(self.file, self.line, self.end_line, self.item.name, label, chances)


@dataclass(frozen=True, slots=True)
class NewPlace:
    """A place in a function that a task asks about.

    Attributes:
        function: The function.
        start: First character, in the function.
        end: End of the characters, exclusive.
        other: Start and end of the other place that a pair has.
        right: The class by the syntax of the code.
    """

    function: NewFunction
    start: int
    end: int
    other: tuple[int, int] | None
    right: str

    @property
    def item(self) -> Item:
        """The function as an input."""
        return self.function.item

    @property
    def file(self) -> str:
        """Its file as named."""
        return self.function.file

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """The place, and the other one of a pair."""
        return ((self.start, self.end), *([self.other] if self.other else []))

    def said(self, chances: Mapping[str, float]) -> PredictedFunction:
        """The place with the probability of every class, and the right one."""
        text = self.item.text
        first, last = (line_breaks(text, 0, place) for place in (self.start, self.end))
        return replace(
            self.function.said(chances),
            line=self.function.line + first,
            end_line=self.function.line + last,
            column=_column(text, self.start),
            text=" ... ".join(text[start:end] for start, end in self.ends),
            right=self.right,
        )


def new_functions(files: Iterable[Path], skipped: list[str]) -> list[NewFunction]:
    """The functions of files, in their order.

    Args:
        files: Files of code or text.
        skipped: Receives a line a file that cannot be read as such.

    Raises:
        InputError: There is no such file.
    """
    return [function for file in files for function in _functions(file, skipped)]


def _functions(file: Path, skipped: list[str]) -> list[NewFunction]:
    if not file.is_file():
        raise InputError(f"file {str(file)!r}: no such file")
    intake, named = Intake(), str(file)
    text, language = read_text(file, named, intake), language_of_path(named) or _TEXT
    if text is None or not text.strip():
        skipped.append(f"{named}: {', '.join(intake.counts) or 'empty'}")
        return []
    source = SourceFile(named, text, language, cluster=named, repository=named)
    functions = LANGUAGES.load(language).functions(text)
    tree = LANGUAGES.load(language).parse(text)
    if tree.has_error:
        line = _line(text, int(tree.start[tree.error.argmax()]))
        skipped.append(f"{named}: line {line} does not parse; functions there may be missing")
    unit = "function" if functions else "file"
    spans = functions or [Function(0, len(text), named, named)]
    return [
        NewFunction(item, named, _line(text, item.offset), _line(text, span.end), span, text)
        for item, span in zip(items_of(source, unit, intake, lambda _: functions), spans, strict=True)
    ]


def _position(text: str, place: int) -> tuple[int, int]:
    """Line and column of a character, both from 1."""
    return _line(text, place), _column(text, place)


def _column(text: str, place: int) -> int:
    return place - max(text.rfind(end, 0, place) for end in "\n\r")


def _line(text: str, place: int) -> int:
    return line_breaks(text, 0, place) + 1
