"""Requirements on a run: each is compared with a bound of an interval, never with the number itself.

A file of requirements has an entry for each:

    [[require]]
    lens = "LENS"
    task = "TASK"
    metric = "accuracy"
    at_least = 0.6

The lower end of the interval has to be at least that, so that chance alone seldom passes.

`write_card` writes the files of a card: ``card.json`` for programs and ``card.md`` for a model card.
`to_junit_xml` gives JUnit XML for servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import polars as pl
from annotated_types import Ge

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.files import read_toml
from sonde.base.formatting import bracket, legible
from sonde.base.options import NO_DEFAULT, ValidatedRecord, build_record, option
from sonde.report.card import (
    Card,
    CardNumber,
    RequirementOutcome,
    build_card,
    describe_subject,
    format_card_number,
    format_requirement,
    render_markdown,
    to_card_number,
)
from sonde.report.run_tables import RunData
from sonde.results.text_format import OUTCOMES, TOO_LITTLE
from sonde.stats.verdict import classify_score, is_difference, minimum_effect, no_verdict_reason
from sonde.store.checksums import write_with_receipt

TABLE = "require"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement(ValidatedRecord):
    """A number of a run and bounds for its interval."""

    lens: str = option(NO_DEFAULT, "the lens that measured it")
    metric: str = option(NO_DEFAULT, "what the number is, as in `scores.parquet`")
    task: str | None = option(None, "of which task of the lens; may be left out where there is one")
    slice: dict[str, Any] | None = option(None, "its dimensions, name and value; exactly these")
    where: dict[str, Any] | None = option(None, "further columns, for example model or k")
    at_least: float | None = option(None, "the least that the lower end of the interval may be")
    at_most: float | None = option(None, "the most that the upper end of the interval may be")
    not_below: str | None = option(
        None, "an earlier card: its value less `margin`, or `least`, is the least that the lower end may be"
    )
    margin: Annotated[float, Ge(0)] = option(0.0, "how far below the earlier value is still accepted")

    least: Annotated[float, Ge(0)] | None = option(
        None, "the least size of a difference that matters; by default that of the metric"
    )

    def __post_init__(self) -> None:
        """Check the fields and that something is required.

        Raises:
            UsageError: No bound, or a margin without an earlier card.
        """
        ValidatedRecord.__post_init__(self)
        if self.at_least is None and self.at_most is None and self.not_below is None:
            raise UsageError("nothing is required: give at_least, at_most or not_below")
        if self.margin and self.not_below is None:
            raise UsageError("margin goes with not_below")


def read_requirements(path: Path) -> tuple[Requirement, ...]:
    """Read the requirements of a file.

    Raises:
        InputError: The file cannot be read, or is no TOML.
        UnknownNameError: A key does not exist; the nearest is named.
        UsageError: The file requires nothing, or a value is invalid.
    """
    table = read_toml(path, "requirements")
    for key in table:
        if key != TABLE:
            raise UnknownNameError("table", key, [TABLE]).located(str(path))
    tables = table.get(TABLE)
    if not isinstance(tables, list) or not tables:
        raise UsageError(f"requirements {str(path)!r}: nothing is required; begin with [[{TABLE}]]")
    return tuple(_parse_requirement(entry, index, path) for index, entry in enumerate(tables, 1))


def _parse_requirement(table: object, index: int, path: Path) -> Requirement:
    try:
        return build_record(Requirement, table, TABLE)
    except UsageError as error:
        raise error.located(f"[[{TABLE}]] {index} of {path}") from None


_VALUE_COLUMNS = frozenset(
    ("value", "ci_low", "ci_high", "ci_method", "n", "n_clusters", "effective_clusters", "n_eff", "seeds")
)


_RUN_COLUMNS = frozenset(("model", "revision", "corpus", "corpus_hash", "item_set", "layer", "head", "seed"))
"""Columns in which two runs of one question may differ; layer and head of a headline are chosen anew."""


COLUMNS = tuple(
    name
    for name in CardNumber.model_fields
    if name not in _VALUE_COLUMNS | {"lens", "task", "metric", "slice"}
)
"""Columns that ``where`` may name."""


QUESTION_COLUMNS = tuple(
    name for name in CardNumber.model_fields if name not in _VALUE_COLUMNS | _RUN_COLUMNS
)
"""Columns that identify a number across runs."""


def check_requirements(card: Card, run: RunData, file: Path) -> Card:
    """Check a file of requirements and return the card with their outcomes.

    Args:
        card: The card of the run.
        run: The run; any of its numbers may be required, also those that the card lacks.
        file: The requirements; paths in it are relative to its folder.

    Raises:
        UsageError: A requirement cannot be read, or fits no single number of the run.
        InputError: The file, or an earlier card that it names, cannot be read.
    """
    outcomes: list[RequirementOutcome] = []
    for index, requirement in enumerate(read_requirements(file), 1):
        try:
            outcomes += _check_requirement(requirement, _find_number(requirement, card, run), file.parent)
        except UsageError as error:
            raise error.located(f"[[require]] {index} of {file}") from None
    return card.model_copy(update={"requirements": outcomes})


def _check_requirement(
    requirement: Requirement, number: CardNumber, folder: Path
) -> Iterator[RequirementOutcome]:
    overrides = {} if requirement.least is None else {number.metric: requirement.least}
    minimum = minimum_effect(number.metric, number.ci_method, overrides)
    if requirement.at_least is not None:
        yield _check_number(
            number, "ci_low", requirement.at_least, "", minimum if is_difference(number.metric) else 0.0
        )
    if requirement.at_most is not None:
        yield _check_number(number, "ci_high", requirement.at_most)
    if requirement.not_below is not None:
        path = folder / requirement.not_below
        earlier = _find_earlier_number(requirement, number, Card.read(path), path)
        if earlier.value is None:
            raise UsageError(f"the earlier card {str(path)!r} has no value of {describe_subject(number)}")
        margin = max(requirement.margin, minimum)
        origin = f"{earlier.value:.4g} in {requirement.not_below}"
        origin += f" less {margin:g}" if margin else ""
        origin += "" if earlier.item_set == number.item_set else ", which was over other items"
        yield _check_number(number, "ci_low", earlier.value - margin, origin)


def _check_number(
    number: CardNumber, column: Any, threshold: float, origin: str = "", minimum: float = 0.0
) -> RequirementOutcome:
    """Compare an end of the interval of a number with a threshold.

    Args:
        number: The number.
        column: The end, ``"ci_low"`` or ``"ci_high"``.
        threshold: What it has to reach, or may not exceed.
        origin: Where the threshold is from.
        minimum: Smallest size of a difference that matters; 0 for what is no difference.
    """
    row = number.model_dump()
    is_met = False
    if reason := no_verdict_reason(row):
        requirement = ", ".join(filter(None, (format_requirement(column, threshold), origin)))
        message = f"{TOO_LITTLE}, {reason} (required: {requirement})"
    else:
        value, end = row[column], "lower" if column == "ci_low" else "upper"
        is_met = value >= threshold if column == "ci_low" else value <= threshold
        limits = {("ci_low", True): "at least", ("ci_high", True): "at most", ("ci_low", False): "below"}
        limit = limits.get((column, is_met), "above")
        message = f"the {end} end {value:z.4g} is {limit} {threshold:.4g}{bracket(origin)}"
        # Every number of a run has a value, and an interval if it allows a verdict.
        if is_met and threshold >= 0 and classify_score(row, {number.metric: minimum}) == "slight":
            is_met = False
            message += f", but it {OUTCOMES['slight']} ({number.value:z.4g}; {minimum:g} would)"
    return RequirementOutcome(number=number, bound=column, threshold=threshold, met=is_met, why=message)


def _find_number(requirement: Requirement, card: Card, run: RunData) -> CardNumber:
    """Find the number of a requirement: on the card if one fits, else among all of the run."""
    run_numbers = _match_numbers(requirement, run)
    # The highest of several values of a dimension is meant only where its value is named.
    headlines = [number for number in card.headlines if number.among == 1 or requirement.slice is not None]
    numbers = [number for line in headlines for number in (line.number, line.difference) if number]
    card_matches = [number for number in numbers if _matches_requirement(requirement, number)]
    if len(card_matches) == 1:
        return card_matches[0]
    matches = card_matches or [number for number in run_numbers if _matches_requirement(requirement, number)]
    if requirement.slice is None and not card_matches:
        matches = [number for number in matches if not number.slice] or matches
    if "control" not in (requirement.where or {}):
        matches = [number for number in matches if number.control is None] or matches
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{len(matches)} numbers fit: {_describe_differences(matches)}")
    raise UsageError("no number fits what `slice` and `where` say")


def _match_numbers(requirement: Requirement, run: RunData) -> list[CardNumber]:
    """Return the numbers of the lens, task and metric; unknown names are refused with the nearest."""
    if requirement.lens not in run.scored_lenses:
        raise UnknownNameError("lens with numbers in this run", requirement.lens, run.scored_lenses)
    rows = run.every_score.filter(pl.col("lens") == requirement.lens)
    for column, name in (("task", requirement.task), ("metric", requirement.metric)):
        if name is not None:
            _check_value(
                f"{column} with numbers of the lens {requirement.lens!r}", name, rows[column].unique()
            )
            rows = rows.filter(pl.col(column) == name)
    numbers = [to_card_number(run, row) for row in rows.iter_rows(named=True)]
    for name, value in (requirement.where or {}).items():
        if name not in COLUMNS:
            raise UnknownNameError("column", name, COLUMNS)
        _check_value(
            f"{name} of {requirement.metric!r}", value, [getattr(number, name) for number in numbers]
        )
    for name, value in (requirement.slice or {}).items():
        _check_value(
            f"dimension of {requirement.metric!r}", name, [key for number in numbers for key in number.slice]
        )
        values = [number.slice[name] for number in numbers if name in number.slice]
        _check_value(f"value of the dimension {name!r}", str(value), values)
    return numbers


def _check_value(label: str, value: Any, values: Iterable[Any]) -> None:
    """Raise an error for a value that no number has, with the nearest."""
    choices = list(dict.fromkeys(choice for choice in values if choice not in (None, "")))
    if value not in choices:
        raise UnknownNameError(label, str(value), map(str, choices))


def _matches_requirement(requirement: Requirement, number: CardNumber) -> bool:
    fields = number.model_dump()
    values = {"lens": requirement.lens, "metric": requirement.metric, **(requirement.where or {})}
    if requirement.task is not None:
        values["task"] = requirement.task
    if requirement.slice is not None:
        values["slice"] = {name: str(value) for name, value in requirement.slice.items()}
    return all(fields[name] == value for name, value in values.items())


def _describe_differences(numbers: Sequence[CardNumber]) -> str:
    """Describe the columns in which numbers differ, with a few values each."""
    parts: list[str] = []
    for name in ("task", "slice", *COLUMNS):
        values = list(dict.fromkeys(_format_value(getattr(number, name)) for number in numbers))
        if len(values) > 1 and name not in ("item_set", "revision", "corpus_hash"):
            ellipsis = ", ..." if len(values) > _MAX_VALUES else ""
            parts.append(f"{name} ({', '.join(values[:_MAX_VALUES])}{ellipsis})")
    return f"they differ in {'; '.join(parts)}; say which" if parts else "nothing tells them apart"


_MAX_VALUES = 4


def _format_value(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name} = {content}" for name, content in value.items()) or "none"


def _find_earlier_number(requirement: Requirement, number: CardNumber, card: Card, path: Path) -> CardNumber:
    """Find the number of an earlier card that answers the same question."""
    position = {name: value for name, value in (requirement.where or {}).items() if name in ("layer", "head")}
    question = {name: getattr(number, name) for name in QUESTION_COLUMNS} | position
    matches: list[CardNumber] = []
    for candidate in card.numbers:
        if candidate not in matches and all(
            getattr(candidate, name) == value for name, value in question.items()
        ):
            matches.append(candidate)
    for name in ("corpus", "model"):
        value = getattr(number, name)
        matches = [match for match in matches if getattr(match, name) == value] or matches
    if len(matches) == 1:
        return matches[0]
    matches_text = (
        f"{len(matches)} numbers of the same question" if matches else "no number of the same question"
    )
    raise UsageError(f"the earlier card {str(path)!r} has {matches_text} as {describe_subject(number)}")


def write_card(directory: Path, require: Path | None = None) -> Card:
    """Write ``card.json`` and ``card.md`` into the folder of a finished run; torch is not needed.

    Args:
        directory: The folder of the run.
        require: A file of requirements to check; None for no check.

    Raises:
        InputError: There is no run in the folder, or the requirements or an earlier card cannot be read.
        UsageError: A requirement is invalid or fits no single number; nothing is written.
        StoreError: A file cannot be written.
    """
    run = RunData(directory)
    card = build_card(run)
    if require is not None:
        card = check_requirements(card, run, require)
    for path, text in (
        (run.directory.card, card.json_text()),
        (run.directory.card_section, render_markdown(card)),
    ):
        write_with_receipt(run.directory.root, path.name, text)
    return card


def to_junit_xml(card: Card) -> str:
    """Convert the outcomes of requirements to JUnit XML: one test suite with a test case per requirement."""
    n_failures = sum(not outcome.met for outcome in card.requirements)
    counts = {"tests": str(len(card.requirements)), "failures": str(n_failures), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "sonde card", **counts})
    for outcome in card.requirements:
        names = {
            "classname": legible(f"sonde.{outcome.number.lens}"),
            "name": legible(
                f"{describe_subject(outcome.number)}, {format_requirement(outcome.bound, outcome.threshold)}"
            ),
        }
        case = ElementTree.SubElement(suite, "testcase", names)
        message = legible(f"{format_card_number(outcome.number)}: {outcome.why}")
        if outcome.met:
            ElementTree.SubElement(case, "system-out").text = message
        else:
            ElementTree.SubElement(
                case, "failure", {"message": message, "type": "requirement"}
            ).text = message
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
