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
from sonde.results.schema import get_dimensions
from sonde.results.scores import SCORES_SCHEMA

Selector = Mapping[str, Any]
"""Values by column of the scores; ``dimensions`` by their name, all of them. What is not named of ``control``
and ``dimensions`` is empty, what is not named of the others may be anything, and ``none`` is empty."""

COMBINATIONS = ("maximum", "deviation", "gain", "share", "below")
"""Combinations of several scores, see `combine_scores`."""

_TABLE_KEYS = {"title", "source", "paper", "unit", "scale", "digits", "causes", "where", "columns", "rows"}
_SPECIAL_KEYS = {"how", "of", "base", "over", "nowhere", "take", "scale", "digits"}
_ROW_KEYS = _SPECIAL_KEYS | {"name", "where", "values"}


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
        return (
            [merge_selectors(selector, condition) for condition in self.over for selector in parts]
            if self.over
            else parts
        )


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
        names = (selector.get("model") for figure in self.figures for selector in figure.asked)
        return tuple(dict.fromkeys(str(name) for name in names if name))


def parse_published_table(name: str, data: Mapping[str, Any]) -> PublishedTable:
    """Parse a table from plain data, as in a paper's file or in ``run.json``.

    Raises:
        InputError: Something is missing or unknown in it.
    """
    _check_keys(name, data, _TABLE_KEYS, _TABLE_KEYS - {"where"})
    columns = cast("Mapping[str, Mapping[str, Any]]", data["columns"])
    figures: list[PublishedFigure] = []
    for row in cast("Sequence[Mapping[str, Any]]", data["rows"]):
        _check_keys(name, row, _ROW_KEYS, {"name", "values"})
        values = cast("Sequence[float | None]", row["values"])
        if len(values) != len(columns):
            raise _table_error(
                name, f"row {row['name']!r} has {len(values)} values for {len(columns)} columns"
            )
        for (column, column_data), value in zip(columns.items(), values, strict=True):
            # JSON has no NaN: run.json holds null where the paper has a blank.
            if value is not None and not math.isnan(value):
                figures.append(_parse_figure(name, data, row, column, column_data, float(value)))
    return PublishedTable(
        name=name,
        causes=tuple(data["causes"]),
        figures=figures,
        **{key: str(data[key]) for key in ("title", "source", "paper", "unit")},
    )


def _parse_figure(
    name: str,
    data: Mapping[str, Any],
    row: Mapping[str, Any],
    column: str,
    column_data: Selector,
    value: float,
) -> PublishedFigure:
    common = data.get("where", {})
    special = {
        **{key: data[key] for key in ("scale", "digits")},
        **_select_special(common),
        **_select_special(column_data),
    }
    special |= _select_special(row)
    common_selector = merge_selectors(_select_plain(common), _select_plain(column_data))
    selector = merge_selectors(common_selector, row.get("where", {}))
    special |= _select_special(selector)
    parts = {
        key: tuple(merge_selectors(selector, part) for part in special.pop(key))
        for key in ("of", "base")
        if key in special
    }
    if special.get("how", "") not in ("", *COMBINATIONS):
        raise _table_error(name, f"how = {special['how']!r} is not one of {', '.join(COMBINATIONS)}")
    figure = PublishedFigure(
        row=str(row["name"]), column=column, value=value, where=_select_plain(selector), **parts, **special
    )
    for query in figure.asked:
        if unknown := sorted(query.keys() - SCORES_SCHEMA.keys()):
            raise _table_error(name, f"scores have no column {unknown[0]!r}")
    return figure


def _select_special(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key in _SPECIAL_KEYS}


def _select_plain(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in _SPECIAL_KEYS}


def merge_selectors(first: Selector, second: Selector) -> Selector:
    """Merge two selectors: the second wins for a column in both; dimensions are united."""
    dimensions = {**first.get("dimensions", {}), **second.get("dimensions", {})}
    return {**first, **second, **({"dimensions": dimensions} if dimensions else {})}


def base_name(model: str) -> str:
    """Return a model's name without revision, adapter and quantisation.

    >>> base_name("microsoft/codebert-base@3b0952f?quantise=8bit")
    'microsoft/codebert-base'
    """
    return re.split("[@?]", model, maxsplit=1)[0]


def matches_selector(row: Mapping[str, Any], selector: Selector) -> bool:
    """Return whether a score matches a selector; models are compared by `base_name`."""
    if get_dimensions(row) != selector.get("dimensions", {}) or row["control"] != selector.get("control"):
        return False
    # TOML has no null, which is written as a text.
    return all(
        base_name(row[key] or "") == base_name(value)
        if key == "model"
        else row[key] == (None if value == "none" else value)
        for key, value in selector.items()
        if key != "dimensions"
    )


def combine_scores(figure: PublishedFigure, find_value: Callable[[Selector], float]) -> float:
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
            tuple(
                max(find_value(merge_selectors(selector, condition)) for selector in part)
                for part in (figure.of, figure.base)
            )
            for condition in figure.over
        ]
        missing = any(math.isnan(value) for side in sides for value in side)
        return math.nan if missing else sum(value < base_value for value, base_value in sides)
    values, base_values = ([find_value(selector) for selector in part] for part in (figure.of, figure.base))
    if any(map(math.isnan, [*values, *base_values])):
        return math.nan
    if figure.how == "maximum":
        return max(values)
    if figure.how == "deviation":
        return statistics.pstdev(values)
    lead = max(values) - max(base_values)
    if figure.how == "gain":
        return lead
    return max(0.0, lead / (1.0 - max(base_values))) if max(base_values) < 1.0 else math.nan


def _check_keys(name: str, table: Mapping[str, Any], valid_keys: set[str], required_keys: set[str]) -> None:
    if unknown_keys := sorted(table.keys() - valid_keys):
        raise _table_error(name, f"unknown key {unknown_keys[0]!r}")
    if missing_keys := sorted(required_keys - table.keys()):
        raise _table_error(name, f"{missing_keys[0]!r} is missing")


def _table_error(name: str, message: str) -> InputError:
    return InputError(f"published table {name!r}: {message}")
