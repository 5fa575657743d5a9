"""What a run is required to show: a file of requirements, each held against the bound of an interval.

    [[require]]
    lens = "LENS"
    task = "TASK"
    metric = "accuracy"
    at_least = 0.6

The lower end of the interval has to be at least that, so that chance alone seldom passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge

from sonde.base.checked import Checked, Help, from_table
from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.toml import read_toml

TABLE = "require"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement(Checked):
    """A number of a run and what its interval has to keep to."""

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
        Checked.__post_init__(self)
        if self.at_least is None and self.at_most is None and self.not_below is None:
            raise UsageError("nothing is required: give at_least, at_most or not_below")
        if self.margin and self.not_below is None:
            raise UsageError("margin goes with not_below")


def read_requirements(path: Path) -> tuple[Requirement, ...]:
    """The requirements of a file.

    Raises:
        InputError: The file cannot be read, or is no TOML.
        UnknownNameError: A key that there is not; the nearest is named.
        UsageError: It requires nothing, or a value cannot be what it is.
    """
    table = read_toml(path, "requirements")
    for key in table:
        if key != TABLE:
            raise UnknownNameError("table", key, [TABLE]).located(str(path))
    tables = table.get(TABLE)
    if not isinstance(tables, list) or not tables:
        raise UsageError(f"requirements {str(path)!r}: nothing is required; begin with [[{TABLE}]]")
    return tuple(_requirement(one, place, path) for place, one in enumerate(tables, 1))


def _requirement(table: object, place: int, path: Path) -> Requirement:
    try:
        return from_table(Requirement, table, TABLE)
    except UsageError as error:
        raise error.located(f"[[{TABLE}]] {place} of {path}") from None
