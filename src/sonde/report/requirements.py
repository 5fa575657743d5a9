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
from sonde.base.formatting import legible
from sonde.base.options import Help, ValidatedRecord, build_record
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
from sonde.stats.verdict import classify_effect, is_difference, minimum_effect, no_verdict_reason
from sonde.store.checksums import write_with_receipt

TABLE = "require"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement(ValidatedRecord):
    """A number of a run and bounds for its interval."""

    lens: Annotated[str, Help("the lens that measured it")]
    metric: Annotated[str, Help("what the number is, as in `scores.parquet`")]
    task: Annotated[str | None, Help("of which task of the lens; may be left out where there is one")] = None
    slice: Annotated[dict[str, Any] | None, Help("its dimensions, name and value; exactly these")] = None
    where: Annotated[dict[str, Any] | None, Help("further columns, for example model or k")] = None
    at_least: Annotated[float | None, Help("the least that the lower end of the interval may be")] = None
    at_most: Annotated[float | None, Help("the most that the upper end of the interval may be")] = None
    not_below: Annotated[
        str | None,
        Help("an earlier card: its value less `margin`, or `least`, is the least that the lower end may be"),
    ] = None
    margin: Annotated[float, Ge(0), Help("how far below the earlier value is still accepted")] = 0.0

    least: Annotated[
        float | None,
        Ge(0),
        Help("the least size of a difference that matters; by default that of the metric"),
    ] = None

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
    return tuple(_parse_requirement(one, place, path) for place, one in enumerate(tables, 1))


def _parse_requirement(table: object, place: int, path: Path) -> Requirement:
    try:
        return build_record(Requirement, table, TABLE)
    except UsageError as error:
        raise error.located(f"[[{TABLE}]] {place} of {path}") from None


_MEASURED = frozenset(
    ("value", "ci_low", "ci_high", "ci_method", "n", "n_clusters", "effective_clusters", "n_eff", "seeds")
)


_OF_THE_RUN = frozenset(("model", "revision", "corpus", "corpus_hash", "item_set", "layer", "head", "seed"))
"""Columns in which two runs of one question may differ; layer and head of a headline are chosen anew."""


COLUMNS = tuple(
    name for name in CardNumber.model_fields if name not in _MEASURED | {"lens", "task", "metric", "slice"}
)
"""Columns that ``where`` may name."""


ASKED = tuple(name for name in CardNumber.model_fields if name not in _MEASURED | _OF_THE_RUN)
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
    for place, one in enumerate(read_requirements(file), 1):
        try:
            outcomes += _check_requirement(one, _find_number(one, card, run), file.parent)
        except UsageError as error:
            raise error.located(f"[[require]] {place} of {file}") from None
    return card.model_copy(update={"requirements": outcomes})


def _check_requirement(one: Requirement, number: CardNumber, folder: Path) -> Iterator[RequirementOutcome]:
    least = minimum_effect(
        number.metric, number.ci_method, {} if one.least is None else {number.metric: one.least}
    )
    if one.at_least is not None:
        yield _check_number(
            number, "ci_low", one.at_least, "", least if is_difference(number.metric) else 0.0
        )
    if one.at_most is not None:
        yield _check_number(number, "ci_high", one.at_most, "")
    if one.not_below is not None:
        path = folder / one.not_below
        earlier = _find_earlier_number(one, number, Card.read(path), path)
        if earlier.value is None:
            raise UsageError(f"the earlier card {str(path)!r} has no value of {describe_subject(number)}")
        margin = max(one.margin, least)
        less = f" less {margin:g}" if margin else ""
        others = "" if earlier.item_set == number.item_set else ", which was over other items"
        origin = f"{earlier.value:.4g} in {one.not_below}{less}{others}"
        yield _check_number(number, "ci_low", earlier.value - margin, origin)


def _check_number(
    number: CardNumber, bound: Any, threshold: float, origin: str, least: float = 0.0
) -> RequirementOutcome:
    why = no_verdict_reason(number.model_dump())
    if why:
        asked = f"required: {format_requirement(bound, threshold)}{f', {origin}' if origin else ''}"
        said = f"{TOO_LITTLE}, {why} ({asked})"
        return RequirementOutcome(number=number, bound=bound, threshold=threshold, met=False, why=said)
    found = getattr(number, bound)
    met = found >= threshold if bound == "ci_low" else found <= threshold
    end = "lower" if bound == "ci_low" else "upper"
    limit = {("ci_low", True): "at least", ("ci_high", True): "at most", ("ci_low", False): "below"}
    said = f"the {end} end {found:z.4g} is {limit.get((bound, met), 'above')} {threshold:.4g}"
    said += f" ({origin})" if origin else ""
    if met and threshold >= 0 and _is_negligible(number, least):
        met = False
        said += f", but it {OUTCOMES['slight']} ({number.value:z.4g}; {least:g} would)"
    return RequirementOutcome(number=number, bound=bound, threshold=threshold, met=met, why=said)


def _is_negligible(number: CardNumber, least: float) -> bool:
    """Return whether a difference is distinguishable from 0, and smaller than what matters."""
    value, low, high = number.value, number.ci_low, number.ci_high
    if value is None or low is None or high is None:
        return False
    return classify_effect(value, low, high, least, is_sure=low > 0 or high < 0) == "slight"


def _find_number(one: Requirement, card: Card, run: RunData) -> CardNumber:
    """Find the number of a requirement: on the card if one fits, else among all of the run."""
    of_run = _match_numbers(one, run)
    # The highest of several values of a dimension is meant only where its value is named.
    headlines = [held for held in card.headlines if held.among == 1 or one.slice is not None]
    numbers = [held for line in headlines for held in (line.number, line.difference) if held]
    of_card = [held for held in numbers if _matches_requirement(one, held)]
    if len(of_card) == 1:
        return of_card[0]
    found = of_card or [held for held in of_run if _matches_requirement(one, held)]
    if one.slice is None and not of_card:
        found = [held for held in found if not held.slice] or found
    if "control" not in (one.where or {}):
        found = [held for held in found if held.control is None] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} numbers fit: {_describe_differences(found)}")
    raise UsageError("no number fits what `slice` and `where` say")


def _match_numbers(one: Requirement, run: RunData) -> list[CardNumber]:
    """Return the numbers of the lens, task and metric; unknown names are refused with the nearest."""
    if one.lens not in run.scored_lenses:
        raise UnknownNameError("lens with numbers in this run", one.lens, run.scored_lenses)
    rows = run.every_score.filter(pl.col("lens") == one.lens)
    for column, name in (("task", one.task), ("metric", one.metric)):
        if name is not None:
            _check_value(f"{column} with numbers of the lens {one.lens!r}", name, rows[column].unique())
            rows = rows.filter(pl.col(column) == name)
    found = [to_card_number(run, row) for row in rows.iter_rows(named=True)]
    for name, value in (one.where or {}).items():
        if name not in COLUMNS:
            raise UnknownNameError("column", name, COLUMNS)
        _check_value(f"{name} of {one.metric!r}", value, [getattr(held, name) for held in found])
    for name, value in (one.slice or {}).items():
        _check_value(f"dimension of {one.metric!r}", name, [key for held in found for key in held.slice])
        values = [held.slice[name] for held in found if name in held.slice]
        _check_value(f"value of the dimension {name!r}", str(value), values)
    return found


def _check_value(what: str, value: Any, values: Iterable[Any]) -> None:
    """Raise an error for a value that no number has, with the nearest."""
    known = list(dict.fromkeys(one for one in values if one not in (None, "")))
    if value not in known:
        raise UnknownNameError(what, str(value), map(str, known))


def _matches_requirement(one: Requirement, number: CardNumber) -> bool:
    held = number.model_dump()
    asked = {"lens": one.lens, "metric": one.metric, **(one.where or {})}
    if one.task is not None:
        asked["task"] = one.task
    same = one.slice is None or {name: str(value) for name, value in one.slice.items()} == number.slice
    return same and all(held[name] == value for name, value in asked.items())


def _describe_differences(numbers: Sequence[CardNumber]) -> str:
    """Describe the columns in which numbers differ, with a few values each."""
    parts: list[str] = []
    for name in ("task", "slice", *COLUMNS):
        values = list(dict.fromkeys(_format_value(getattr(one, name)) for one in numbers))
        if len(values) > 1 and name not in ("item_set", "revision", "corpus_hash"):
            more = ", ..." if len(values) > _FEW else ""
            parts.append(f"{name} ({', '.join(values[:_FEW])}{more})")
    return f"they differ in {'; '.join(parts)}; say which" if parts else "nothing tells them apart"


_FEW = 4


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {held}" for name, held in value.items()) or "none"
    return str(value)


def _find_earlier_number(one: Requirement, number: CardNumber, card: Card, path: Path) -> CardNumber:
    """Find the number of an earlier card that answers the same question."""
    given = {name: value for name, value in (one.where or {}).items() if name in ("layer", "head")}
    found: list[CardNumber] = []
    for held in card.numbers:
        same = all(getattr(held, name) == getattr(number, name) for name in ASKED)
        if same and all(getattr(held, name) == value for name, value in given.items()):
            found += [held] if held not in found else []
    for name in ("corpus", "model"):
        found = _prefer_value(found, name, getattr(number, name))
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} numbers of the same question" if found else "no number of the same question"
    raise UsageError(f"the earlier card {str(path)!r} has {what} as {describe_subject(number)}")


def _prefer_value(numbers: Iterable[CardNumber], name: str, value: Any) -> list[CardNumber]:
    held = list(numbers)
    return [one for one in held if getattr(one, name) == value] or held


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
    failed = sum(not one.met for one in card.requirements)
    counts = {"tests": str(len(card.requirements)), "failures": str(failed), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "sonde card", **counts})
    for one in card.requirements:
        names = {
            "classname": legible(f"sonde.{one.number.lens}"),
            "name": legible(
                f"{describe_subject(one.number)}, {format_requirement(one.bound, one.threshold)}"
            ),
        }
        case = ElementTree.SubElement(suite, "testcase", names)
        said = legible(f"{format_card_number(one.number)}: {one.why}")
        if one.met:
            ElementTree.SubElement(case, "system-out").text = said
        else:
            ElementTree.SubElement(case, "failure", {"message": said, "type": "requirement"}).text = said
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
