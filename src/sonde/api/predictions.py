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
    """Prediction for one function, or for a span in it.

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
        """Return whether a bug is reported; False if the task is not about bugs."""
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
    """Predictions of a run's probes, or of a fine-tuned model, for the functions of some files.

    Attributes:
        probes: The probe of each language among them.
        functions: One entry a function, or a place in one, file by file.
        skipped: What was not predicted, and why.
    """

    probes: tuple[ScoredProbe, ...]
    functions: tuple[FunctionPrediction, ...]
    skipped: tuple[str, ...]


def describe_probe(probe: ScoredProbe) -> str:
    """Describe a probe's held-out accuracy in a sentence."""
    row, gain = probe.accuracy, probe.gain
    reads = f"from layer {probe.layer} of {probe.model}" if probe.layer is not None else f"by {probe.model}"
    subject = f"{probe.task}{f' ({probe.language})' if probe.language else ''} {reads}"
    if row is None:
        return f"{subject}: accuracy unknown: this model is not part of a run"
    line = f"{subject}: right in {SHARE.estimate(row)} of {row['n']:,} test functions{caveat(row)}"
    if gain is not None:
        line += (
            f"; {SHARE.change(gain, sign='+')} over {gain['control']} at the layers chosen on "
            f"validation{caveat(gain)}"
        )
    return f"{line}; {probe.encoded}" if probe.encoded else line


def to_text(predictions: Predictions) -> str:
    """Format predictions as text: a line per function, then the accuracy of the probes."""
    rows = [
        (
            f"{function.file}:{function.line}",
            function.name,
            *([_short(function.text)] if function.column else []),
            function.label,
            f"{function.chances[function.label]:.2f}",
            *([_format_prediction(function)] if function.column else []),
            *([_format_bug(function)] if function.clean else []),
        )
        for function in predictions.functions
    ]
    cells = [[escape_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return (
        "\n".join(
            [
                *lines,
                "",
                *map(escape_text, map(describe_probe, predictions.probes)),
                *_format_counts(predictions),
            ]
        )
        + "\n"
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _format_prediction(function: FunctionPrediction) -> str:
    return "right" if function.label == function.right else f"is {function.right}"


def _format_bug(function: FunctionPrediction) -> str:
    """Format the location of a bug and its repair."""
    if function.spot is None:
        return ""
    location = f"{function.spot.line}:{function.spot.column} `{_short(function.spot.text)}`"
    return location if function.repair is None else f"{location} -> `{_short(function.repair)}`"


def _format_counts(predictions: Predictions) -> Iterator[str]:
    """Format the share of correct spans in these files, which is no test: they may be of any kind."""
    spans = [function for function in predictions.functions if function.column]
    if spans:
        right = sum(function.label == function.right for function in spans)
        yield f"in these files: right in {right:,} of {len(spans):,} places"


def to_json(predictions: Predictions) -> str:
    """Format predictions as one JSON object."""
    return json.dumps(to_dict(predictions), indent=2) + "\n"


def to_dict(predictions: Predictions) -> dict[str, Any]:
    """Convert predictions to plain data."""
    functions = [
        {
            "file": function.file,
            "line": function.line,
            "end_line": function.end_line,
            "name": function.name,
            "class": function.label,
            "probability": function.chances[function.label],
            "probabilities": dict(function.chances),
            **_location_data(function),
        }
        for function in predictions.functions
    ]
    probes = [_probe_data(probe) for probe in predictions.probes]
    return {"probes": probes, "functions": functions, "skipped": list(predictions.skipped)}


def _location_data(function: FunctionPrediction) -> dict[str, Any]:
    if function.clean:
        location = None if function.spot is None else asdict(function.spot)
        return {"bug": function.has_bug, "place": location, "repair": function.repair}
    return (
        {"column": function.column, "text": function.text, "right": function.right} if function.column else {}
    )


_OF_A_NUMBER = ("value", "ci_low", "ci_high", "n", "n_clusters", "effective_clusters", "control")


def _probe_data(probe: ScoredProbe) -> dict[str, Any]:
    numbers = {
        name: None if row is None else {column: row[column] for column in _OF_A_NUMBER}
        for name, row in (("accuracy", probe.accuracy), ("gain", probe.gain))
    }
    return {**asdict(probe), **numbers}


def to_sarif(predictions: Predictions) -> str:
    """Format predictions as a SARIF 2.1.0 log: a rule per class, and a note per function or span.

    Of a task about bugs only functions with one are results: warnings at the place of the bug, with the edit
    that would undo it. Their fingerprint is of the code, so that one is known again when its line moves.
    """
    reported_functions = [
        function for function in predictions.functions if function.has_bug or not function.clean
    ]
    task = predictions.probes[0].task
    names = list(
        dict.fromkeys(
            f"{probe.task}/{function.label}"
            for probe in predictions.probes
            for function in (reported_functions or predictions.functions)
        )
    )
    words = {
        name: description
        for probe in predictions.probes
        for name in names
        if (description := describe_probe(probe))
    }
    rules = [
        {
            "id": name,
            "name": "".join(word.capitalize() for word in task.split("_")),
            "shortDescription": {"text": name.replace("/", ": ").replace("_", " ")},
            "fullDescription": {"text": words[name]},
            "help": {"text": words[name]},
            "defaultConfiguration": {
                "level": "warning" if any(function.clean for function in reported_functions) else "note"
            },
        }
        for name in names
    ]
    driver = {
        "name": "sonde",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": rules,
    }
    results = [
        _sarif_result(function, task, names.index(f"{task}/{function.label}"))
        for function in reported_functions
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _sarif_result(function: FunctionPrediction, task: str, rule: int) -> dict[str, Any]:
    chance = function.chances[function.label]
    artifact = {"uri": quote(PurePath(function.file).as_posix())}
    region: dict[str, Any] = {"startLine": function.line, "endLine": function.end_line}
    message = f"{function.name}: {function.label} (probability {chance:.2f})"
    optional_fields: dict[str, Any] = {}
    if function.column:
        region["snippet"] = {"text": function.text}
    if function.has_bug and function.spot is not None:
        region = {**_sarif_region(function.spot), "snippet": {"text": function.spot.text}}
        message += f" at `{function.spot.text}`"
    if function.has_bug and function.spot is not None and function.repair is not None:
        message += f"; `{function.repair}` would be right"
        edit = {"deletedRegion": _sarif_region(function.spot), "insertedContent": {"text": function.repair}}
        description = {"text": f"Replace `{function.spot.text}` by `{function.repair}`"}
        changes = [{"artifactLocation": artifact, "replacements": [edit]}]
        optional_fields["fixes"] = [{"description": description, "artifactChanges": changes}]
    if function.key:
        optional_fields["partialFingerprints"] = {"sondeFunction/v1": f"{task}/{function.key}"}
    return {
        "ruleId": f"{task}/{function.label}",
        "ruleIndex": rule,
        "level": "warning" if function.has_bug else "note",
        "rank": round(100 * chance, 2),
        "message": {"text": message},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": region}}],
        **optional_fields,
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
    """A function, or a place in it, and where it stands; of a file without functions the file.

    Attributes:
        item: The function as an input.
        file: Its file as named.
        line: Its first line, from 1.
        end_line: Its last line.
        span: Where it stands in its file, and what was left out of it.
        file_text: The text of its file.
        ends: Characters of the place that a task asks about, in the function, and of the other one of a pair;
            empty for the whole function.
        right: The class of the place by the syntax of the code.
    """

    item: Item
    file: str
    line: int
    end_line: int
    span: Function = field(default=Function(0, 0, "", ""), repr=False)
    file_text: str = field(default="", repr=False)
    ends: tuple[tuple[int, int], ...] = ()
    right: str = ""

    def spot(self, start: int, end: int) -> SourceLocation:
        """Return characters of the function as a location in its file."""
        first, stop = (self.span.to_file_position(position) for position in (start, end))
        start_position, end_position = (
            _line_and_column(self.file_text, first),
            _line_and_column(self.file_text, stop),
        )
        return SourceLocation(*start_position, *end_position, self.file_text[first:stop])

    def build_prediction(self, chances: Mapping[str, float]) -> FunctionPrediction:
        """Build the prediction from the probability of every class."""
        label = max(chances, key=lambda name: chances[name])
        prediction = FunctionPrediction(self.file, self.line, self.end_line, self.item.name, label, chances)
        if not self.ends:
            return prediction
        text, start, end = self.item.text, *self.ends[0]
        return replace(
            prediction,
            line=self.line + count_line_breaks(text, 0, start),
            end_line=self.line + count_line_breaks(text, 0, end),
            column=_column(text, start),
            text=" ... ".join(text[start:end] for start, end in self.ends),
            right=self.right,
        )


def read_functions(files: Iterable[Path], messages: list[str]) -> list[InputFunction]:
    """Read the functions of files, in their order.

    Args:
        files: Files of code or text.
        messages: Receives a line a file that cannot be read as such.

    Raises:
        InputError: There is no such file.
    """
    return [function for file in files for function in _read_file(file, messages)]


def _read_file(file: Path, messages: list[str]) -> list[InputFunction]:
    if not file.is_file():
        raise InputError(f"file {str(file)!r}: no such file")
    intake, file_name = SkipCounter(), str(file)
    text, language = read_text(file, file_name, intake), find_path_language(file_name) or _TEXT
    if text is None or not text.strip():
        messages.append(f"{file_name}: {', '.join(intake.counts) or 'empty'}")
        return []
    source = SourceFile(file_name, text, language, cluster=file_name, repository=file_name)
    functions = LANGUAGES.load(language).functions(text)
    tree = LANGUAGES.load(language).parse(text)
    if tree.has_error:
        line = _line(text, int(tree.start[tree.error.argmax()]))
        messages.append(f"{file_name}: line {line} does not parse; functions there may be missing")
    unit = "function" if functions else "file"
    spans = functions or [Function(0, len(text), file_name, file_name)]
    return [
        InputFunction(item, file_name, _line(text, item.offset), _line(text, span.end), span, text)
        for item, span in zip(extract_items(source, unit, intake, lambda _: functions), spans, strict=True)
    ]


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    """Return line and column of a character, both from 1."""
    return _line(text, position), _column(text, position)


def _column(text: str, position: int) -> int:
    return position - max(text.rfind(end, 0, position) for end in "\n\r")


def _line(text: str, position: int) -> int:
    return count_line_breaks(text, 0, position) + 1
