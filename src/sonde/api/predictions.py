"""Predictions for the functions of new files, and their output as text, JSON and SARIF.

Text is for people, JSON for programs and SARIF for code scanning. No run has read these files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from sonde.base.errors import InputError
from sonde.base.terminal import escape_text
from sonde.corpora import Item, SkipCounter, SourceFile, find_path_language, read_text
from sonde.corpora.engine.read import extract_items
from sonde.languages import LANGUAGES, Function
from sonde.languages.engine.text import count_line_breaks
from sonde.results.text_format import SHARE, caveat
from sonde.version import __version__

_LONGEST = 40
"""Characters shown of a place."""


_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in a file and what stands there: lines and columns from 1, the end behind the last one."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class FunctionPrediction:
    """What a probe says of one function, or of a place in it.

    Attributes:
        file: The file as named.
        line: Its first line, from 1.
        end_line: Its last line.
        name: Qualified name; of a file without functions the file's.
        label: The likeliest class.
        chances: Probability of every class, the mean over the probes of all folds.
        column: Where a place begins in its line, from 1, in a definition that is cut out of its file; None
            of a whole function.
        text: What stands at the place; of a pair at both.
        right: The class by the syntax of the code; empty of a whole function, whose class is not looked up.
        clean: The class of what has no bug; empty where the task is not about bugs.
        spot: Where the bug stands, or what the class rests on most; None where the model does not say.
        repair: What would undo the bug at that place; None where nothing is proposed.
        key: Hash of the function's code.
    """

    file: str
    line: int
    end_line: int
    name: str
    label: str
    chances: Mapping[str, float]
    column: int | None = None
    text: str = ""
    right: str = ""
    clean: str = ""
    spot: SourceLocation | None = None
    repair: str | None = None
    key: str = ""

    @property
    def has_bug(self) -> bool:
        """Whether a bug is reported; never where the task is not about bugs."""
        return bool(self.clean) and self.label != self.clean


@dataclass(frozen=True, slots=True)
class ScoredProbe:
    """A probe of a run, or a fine-tuned model, with what it reached on examples that it was not fitted to.

    Attributes:
        model: Name of the model whose states it reads.
        task: Public name of the task.
        language: Of its examples.
        layer: The layer that it reads, 0 the embeddings; None for a fine-tuned model.
        pooling: How the states of a function became one.
        probes: How many were fitted, one a fold; their probabilities are averaged.
        accuracy: Its accuracy on test, in columns of ``scores.parquet``; None where that is not known.
        gain: That of the gain of the run's chosen layers over the best surface baseline; None without one.
        encoded: What may be said of the layers at which the run found the task encoded; empty of a fine-tuned
            model.
    """

    model: str
    task: str
    language: str
    layer: int | None
    pooling: str
    probes: int
    accuracy: Mapping[str, Any] | None
    gain: Mapping[str, Any] | None
    encoded: str = ""


@dataclass(frozen=True, slots=True)
class Predictions:
    """What the probes of a run say of the functions of some files.

    Attributes:
        probes: The probe of each language among them.
        functions: One entry a function, or a place in one, file by file.
        skipped: What was not predicted, and why.
    """

    probes: tuple[ScoredProbe, ...]
    functions: tuple[FunctionPrediction, ...]
    skipped: tuple[str, ...]


def describe_probe(probe: ScoredProbe) -> str:
    """How right a probe is on functions that it was not fitted to, in a sentence."""
    row, gain = probe.accuracy, probe.gain
    reads = f"from layer {probe.layer} of {probe.model}" if probe.layer is not None else f"by {probe.model}"
    who = f"{probe.task}{f' ({probe.language})' if probe.language else ''} {reads}"
    if row is None:
        return f"{who}: how often it is right is not known, since it lies in no run"
    line = f"{who}: right in {SHARE.estimate(row)} of {row['n']:,} test functions{caveat(row)}"
    if gain is not None:
        line += (
            f"; at the layers that the run chose on validation {SHARE.change(gain, sign='+')} "
            f"over {gain['control']}{caveat(gain)}"
        )
    return f"{line}; {probe.encoded}" if probe.encoded else line


def to_text(found: Predictions) -> str:
    """One line a function, and below them how right the probes are."""
    rows = [
        (
            f"{one.file}:{one.line}",
            one.name,
            *([_short(one.text)] if one.column else []),
            one.label,
            f"{one.chances[one.label]:.2f}",
            *([_format_prediction(one)] if one.column else []),
            *([_format_bug(one)] if one.clean else []),
        )
        for one in found.functions
    ]
    shown = [[escape_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, held)) for held in zip(*shown, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
    return (
        "\n".join([*lines, "", *map(escape_text, map(describe_probe, found.probes)), *_format_counts(found)])
        + "\n"
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _format_prediction(one: FunctionPrediction) -> str:
    return "right" if one.label == one.right else f"is {one.right}"


def _format_bug(one: FunctionPrediction) -> str:
    """Where a bug stands and what would undo it."""
    if one.spot is None:
        return ""
    place = f"{one.spot.line}:{one.spot.column} `{_short(one.spot.text)}`"
    return place if one.repair is None else f"{place} -> `{_short(one.repair)}`"


def _format_counts(found: Predictions) -> Iterator[str]:
    """How many places of these files were told, which is no test: they may be of any kind."""
    places = [one for one in found.functions if one.column]
    if places:
        right = sum(one.label == one.right for one in places)
        yield f"in these files: right in {right:,} of {len(places):,} places"


def to_json(found: Predictions) -> str:
    """Everything, as one JSON object."""
    return (
        json.dumps(
            {
                "probes": [_probe_data(one) for one in found.probes],
                "functions": [
                    {
                        "file": one.file,
                        "line": one.line,
                        "end_line": one.end_line,
                        "name": one.name,
                        "class": one.label,
                        "probability": one.chances[one.label],
                        "probabilities": dict(one.chances),
                        **_location_data(one),
                    }
                    for one in found.functions
                ],
                "skipped": list(found.skipped),
            },
            indent=2,
        )
        + "\n"
    )


def _location_data(one: FunctionPrediction) -> dict[str, Any]:
    if one.clean:
        place = None if one.spot is None else asdict(one.spot)
        return {"bug": one.has_bug, "place": place, "repair": one.repair}
    return {"column": one.column, "text": one.text, "right": one.right} if one.column else {}


_OF_A_NUMBER = ("value", "ci_low", "ci_high", "n", "n_clusters", "effective_clusters", "control")


def _probe_data(probe: ScoredProbe) -> dict[str, Any]:
    numbers = {
        name: None if row is None else {column: row[column] for column in _OF_A_NUMBER}
        for name, row in (("accuracy", probe.accuracy), ("gain", probe.gain))
    }
    return {**asdict(probe), **numbers}


def to_sarif(found: Predictions) -> str:
    """A SARIF 2.1.0 log for code scanning: a rule a class, and a note a function or place.

    Of a task about bugs only functions with one are results: warnings at the place of the bug, with the edit
    that would undo it. Their fingerprint is of the code, so that one is known again when its line moves.
    """
    told = [one for one in found.functions if one.has_bug or not one.clean]
    task = found.probes[0].task
    names = list(
        dict.fromkeys(
            f"{probe.task}/{one.label}" for probe in found.probes for one in (told or found.functions)
        )
    )
    words = {name: said for probe in found.probes for name in names if (said := describe_probe(probe))}
    rules = [
        {
            "id": name,
            "name": "".join(word.capitalize() for word in task.split("_")),
            "shortDescription": {"text": name.replace("/", ": ").replace("_", " ")},
            "fullDescription": {"text": words[name]},
            "help": {"text": words[name]},
            "defaultConfiguration": {"level": "warning" if any(one.clean for one in told) else "note"},
        }
        for name in names
    ]
    driver = {
        "name": "sonde",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": rules,
    }
    results = [_sarif_result(one, task, names.index(f"{task}/{one.label}")) for one in told]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_result(one: FunctionPrediction, task: str, rule: int) -> dict[str, Any]:
    chance = one.chances[one.label]
    artifact = {"uri": quote(PurePath(one.file).as_posix())}
    region: dict[str, Any] = {"startLine": one.line, "endLine": one.end_line}
    message = f"{one.name}: {one.label} (probability {chance:.2f})"
    more: dict[str, Any] = {}
    if one.column:
        region["snippet"] = {"text": one.text}
    if one.has_bug and one.spot is not None:
        region = {**_sarif_region(one.spot), "snippet": {"text": one.spot.text}}
        message += f" at `{one.spot.text}`"
    if one.has_bug and one.spot is not None and one.repair is not None:
        message += f"; `{one.repair}` would be right"
        edit = {"deletedRegion": _sarif_region(one.spot), "insertedContent": {"text": one.repair}}
        said = {"text": f"Replace `{one.spot.text}` by `{one.repair}`"}
        changes = [{"artifactLocation": artifact, "replacements": [edit]}]
        more["fixes"] = [{"description": said, "artifactChanges": changes}]
    if one.key:
        more["partialFingerprints"] = {"sondeFunction/v1": f"{task}/{one.key}"}
    return {
        "ruleId": f"{task}/{one.label}",
        "ruleIndex": rule,
        "level": "warning" if one.has_bug else "note",
        "rank": round(100 * chance, 2),
        "message": {"text": message},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
        **more,
        "properties": {"probability": chance},
    }


def _sarif_region(spot: SourceLocation) -> dict[str, Any]:
    return {
        "startLine": spot.line,
        "startColumn": spot.column,
        "endLine": spot.end_line,
        "endColumn": spot.end_column,
    }


FORMS: Mapping[str, Callable[[Predictions], str]] = {"text": to_text, "json": to_json, "sarif": to_sarif}


_TEXT = "text"


@dataclass(frozen=True, slots=True)
class InputFunction:
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

    def spot(self, start: int, end: int) -> SourceLocation:
        """Some characters of the function as a place in its file."""
        first, stop = (self.span.to_file_position(place) for place in (start, end))
        at, to = _line_and_column(self.whole, first), _line_and_column(self.whole, stop)
        return SourceLocation(*at, *to, self.whole[first:stop])

    def build_prediction(self, chances: Mapping[str, float]) -> FunctionPrediction:
        """The function with the probability of every class."""
        label = max(chances, key=lambda name: chances[name])
        return FunctionPrediction(self.file, self.line, self.end_line, self.item.name, label, chances)


@dataclass(frozen=True, slots=True)
class InputSpan:
    """A place in a function that a task asks about.

    Attributes:
        function: The function.
        start: First character, in the function.
        end: End of the characters, exclusive.
        other: Start and end of the other place that a pair has.
        right: The class by the syntax of the code.
    """

    function: InputFunction
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

    def build_prediction(self, chances: Mapping[str, float]) -> FunctionPrediction:
        """The place with the probability of every class, and the right one."""
        text = self.item.text
        first, last = (count_line_breaks(text, 0, place) for place in (self.start, self.end))
        return replace(
            self.function.build_prediction(chances),
            line=self.function.line + first,
            end_line=self.function.line + last,
            column=_column(text, self.start),
            text=" ... ".join(text[start:end] for start, end in self.ends),
            right=self.right,
        )


def read_functions(files: Iterable[Path], skipped: list[str]) -> list[InputFunction]:
    """The functions of files, in their order.

    Args:
        files: Files of code or text.
        skipped: Receives a line a file that cannot be read as such.

    Raises:
        InputError: There is no such file.
    """
    return [function for file in files for function in _read_file(file, skipped)]


def _read_file(file: Path, skipped: list[str]) -> list[InputFunction]:
    if not file.is_file():
        raise InputError(f"file {str(file)!r}: no such file")
    intake, named = SkipCounter(), str(file)
    text, language = read_text(file, named, intake), find_path_language(named) or _TEXT
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
        InputFunction(item, named, _line(text, item.offset), _line(text, span.end), span, text)
        for item, span in zip(extract_items(source, unit, intake, lambda _: functions), spans, strict=True)
    ]


def _line_and_column(text: str, place: int) -> tuple[int, int]:
    """Line and column of a character, both from 1."""
    return _line(text, place), _column(text, place)


def _column(text: str, place: int) -> int:
    return place - max(text.rfind(end, 0, place) for end in "\n\r")


def _line(text: str, place: int) -> int:
    return count_line_breaks(text, 0, place) + 1
