"""Published tables of papers, figure by figure, each with the scores that it is compared with.

A table is a file of a paper's folder ``published/``, and a run that replicates it carries a copy in
``run.json``: its rows and columns say by columns of ``scores.parquet`` which score answers a figure
(``where``), or how several do (``how``), or why none does (``nowhere``).
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from sonde.base.errors import InputError
from sonde.results.scores import SCORES_SCHEMA

Selector = Mapping[str, Any]
"""Values by column of the scores; ``dimensions`` by their name, all of them. What is not named of ``control``
and ``dimensions`` is empty, what is not named of the others may be anything, and ``none`` is empty."""

HOW = ("maximum", "deviation", "gain", "share", "below")
"""Combinations of several scores, see `combine_scores`."""

_TABLE = {"title", "source", "paper", "unit", "scale", "digits", "causes", "where", "columns", "rows"}
_NOT_WHERE = {"how", "of", "base", "over", "nowhere", "take", "scale", "digits"}
_ROW = _NOT_WHERE | {"name", "where", "values"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFigure:
    """One number of a published table.

    Attributes:
        row: Its row in the table.
        column: Its column.
        value: As published.
        where: Selector of the score to compare.
        how: Combination of several scores, one of `COMBINATIONS`; empty for a single score.
        of: Selectors of the scores to combine.
        base: Selectors of the scores to compare these with.
        over: Further conditions; the scores are compared under each.
        nowhere: Reason why no score corresponds; empty where one does.
        take: Column of the score to compare.
        scale: Factor from that column to the published unit.
        digits: Decimals as published.
    """

    row: str
    column: str
    value: float
    where: Selector = field(default_factory=dict[str, Any])
    how: str = ""
    of: Sequence[Selector] = ()
    base: Sequence[Selector] = ()
    over: Sequence[Selector] = ()
    nowhere: str = ""
    take: str = "value"
    scale: float = 1.0
    digits: int = 2

    @property
    def asked(self) -> Sequence[Selector]:
        """Return the selectors of all scores that the figure needs."""
        if self.nowhere:
            return ()
        if not self.how:
            return (self.where,)
        parts = [*self.of, *self.base]
        return [merged(one, at) for at in self.over for one in parts] if self.over else parts


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """One table of a paper.

    Attributes:
        name: Paper and table, as ``inspect/table2``.
        title: Title, in words.
        source: Location in the paper.
        paper: Name of the paper.
        unit: Unit of the figures.
        causes: Reasons why figures may differ, a sentence each.
        figures: Its figures, row by row.
    """

    name: str
    title: str
    source: str
    paper: str
    unit: str
    causes: Sequence[str]
    figures: Sequence[PublishedFigure]

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models of the table, in its order."""
        named = (one.get("model") for figure in self.figures for one in figure.asked)
        return tuple(dict.fromkeys(str(one) for one in named if one))


def published_table(name: str, data: Mapping[str, Any]) -> PublishedTable:
    """Parse a table from plain data, as in a paper's file or in ``run.json``.

    Raises:
        InputError: Something is missing or unknown in it.
    """
    _known(name, data, _TABLE, _TABLE - {"where"})
    columns = cast("Mapping[str, Mapping[str, Any]]", data["columns"])
    figures: list[PublishedFigure] = []
    for row in cast("Sequence[Mapping[str, Any]]", data["rows"]):
        _known(name, row, _ROW, {"name", "values"})
        values = cast("Sequence[float | None]", row["values"])
        if len(values) != len(columns):
            raise _fault(name, f"row {row['name']!r} has {len(values)} values for {len(columns)} columns")
        for (column, about), value in zip(columns.items(), values, strict=True):
            # JSON has no NaN: run.json holds null where the paper has a blank.
            if value is not None and not math.isnan(value):
                figures.append(_figure(name, data, row, column, about, float(value)))
    return PublishedTable(
        name=name,
        causes=tuple(data["causes"]),
        figures=figures,
        **{key: str(data[key]) for key in ("title", "source", "paper", "unit")},
    )


def _figure(
    name: str, data: Mapping[str, Any], row: Mapping[str, Any], column: str, about: Selector, value: float
) -> PublishedFigure:
    common = data.get("where", {})
    special = {**{key: data[key] for key in ("scale", "digits")}, **_special(common), **_special(about)}
    special |= _special(row)
    shared = merged(_plain(common), _plain(about))
    where = merged(shared, row.get("where", {}))
    special |= _special(where)
    parts = {
        key: tuple(merged(where, one) for one in special.pop(key)) for key in ("of", "base") if key in special
    }
    if special.get("how", "") not in ("", *HOW):
        raise _fault(name, f"how = {special['how']!r} is none of {', '.join(HOW)}")
    figure = PublishedFigure(
        row=str(row["name"]), column=column, value=value, where=_plain(where), **parts, **special
    )
    for one in figure.asked:
        if unknown := sorted(one.keys() - SCORES_SCHEMA.keys()):
            raise _fault(name, f"scores have no column {unknown[0]!r}")
    return figure


def _special(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key in _NOT_WHERE}


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in _NOT_WHERE}


def merged(first: Selector, second: Selector) -> Selector:
    """Merge two selectors: the second wins for a column in both; dimensions are united."""
    dimensions = {**first.get("dimensions", {}), **second.get("dimensions", {})}
    return {**first, **second, **({"dimensions": dimensions} if dimensions else {})}


def base_name(model: str) -> str:
    """Return a model's name without revision, adapter and quantisation.

    >>> base_name("microsoft/codebert-base@3b0952f?quantise=8bit")
    'microsoft/codebert-base'
    """
    return re.split("[@?]", model, maxsplit=1)[0]


def answers(row: Mapping[str, Any], selector: Selector) -> bool:
    """Return whether a score matches a selector; models are compared by `base_name`."""
    held = {one["name"]: one["value"] for one in row["dimensions"]}
    if held != selector.get("dimensions", {}) or row["control"] != selector.get("control"):
        return False
    return all(
        base_name(row[key] or "") == base_name(value) if key == "model" else _is(row[key], value)
        for key, value in selector.items()
        if key != "dimensions"
    )


def _is(held: Any, wanted: Any) -> bool:
    """Return whether a value equals a target; TOML has no null, for which ``none`` stands."""
    return held is None if wanted == "none" else held == wanted


def made_of(figure: PublishedFigure, value_of: Callable[[Selector], float]) -> float:
    """Combine several scores into the number of a figure.

    ``maximum``: the greatest of them. ``deviation``: their standard deviation. ``gain``: how far the
    greatest is ahead of the greatest of the base. ``share``: which share it takes of what the base leaves of
    1, nothing where it is behind. ``below``: over how many conditions it is below the base.

    Args:
        figure: A figure with ``how``.
        find_value: Returns the score that matches a selector; NaN if there is none.
    """
    if figure.how == "below":
        sides = [
            tuple(max(value_of(merged(one, at)) for one in part) for part in (figure.of, figure.base))
            for at in figure.over
        ]
        missing = any(math.isnan(one) for side in sides for one in side)
        return math.nan if missing else sum(own < base for own, base in sides)
    own, base = ([value_of(one) for one in part] for part in (figure.of, figure.base))
    if any(map(math.isnan, [*own, *base])):
        return math.nan
    if figure.how == "maximum":
        return max(own)
    if figure.how == "deviation":
        return statistics.pstdev(own)
    ahead = max(own) - max(base)
    if figure.how == "gain":
        return ahead
    return max(0.0, ahead / (1.0 - max(base))) if max(base) < 1.0 else math.nan


def _known(name: str, table: Mapping[str, Any], known: set[str], needed: set[str]) -> None:
    if unknown := sorted(table.keys() - known):
        raise _fault(name, f"unknown key {unknown[0]!r}")
    if lacking := sorted(needed - table.keys()):
        raise _fault(name, f"{lacking[0]!r} is missing")


def _fault(name: str, what: str) -> InputError:
    return InputError(f"published table {name!r}: {what}")
