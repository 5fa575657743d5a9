"""What a run found beside each figure that a paper published, from the copy of its tables in ``run.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.report._shared.run import RunData
from sonde.results.published import (
    PublishedFigure,
    PublishedTable,
    Selector,
    answers,
    base_name,
    made_of,
    published_table,
)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A published figure and what the run has for it.

    Attributes:
        table: The table that it is of.
        figure: The figure.
        value: What the run found, in the unit of the figure; None where it found nothing.
        score: The score that answers it; None where several do, or none.
        why: Why there is nothing; empty where there is.
    """

    table: PublishedTable
    figure: PublishedFigure
    value: float | None = None
    score: Row | None = None
    why: str = ""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the interval of the score, in the unit of the figure; None where none is known."""
        if self.score is None or self.figure.take != "value":
            return None
        ends = self.score["ci_low"], self.score["ci_high"]
        return None if None in ends else (ends[0] * self.figure.scale, ends[1] * self.figure.scale)


ELSEWHERE = "not in this run"


def published_tables(run: RunData) -> list[PublishedTable]:
    """The tables that the run replicates; those that cannot be read are left out."""
    found: list[PublishedTable] = []
    for name, data in (run.summary.get("published") or {}).get("tables", {}).items():
        try:
            found.append(published_table(name, data))
        except (InputError, KeyError, TypeError, ValueError):
            # The folder of a run may come from anywhere: a page without this table is better than none.
            continue
    return found


def stand_ins(run: RunData, table: PublishedTable) -> dict[str, str]:
    """By model of a table, the model of the run in its place; none where the run has one of them."""
    own = {base_name(model.name) for model in run.models}
    published = [base_name(one) for one in table.models]
    if own & set(published) or not run.models:
        return {}
    return {one: run.models[place % len(run.models)].name for place, one in enumerate(published)}


def beside(run: RunData, table: PublishedTable) -> list[Beside]:
    """Every figure of a table with what the run has for it."""
    instead = stand_ins(run, table)
    held = _Scores(run, table, instead)
    return [_beside(table, figure, held) for figure in table.figures]


def _beside(table: PublishedTable, figure: PublishedFigure, held: _Scores) -> Beside:
    if figure.nowhere:
        return Beside(table=table, figure=figure, why=figure.nowhere)
    if figure.how:
        value = made_of(figure, held.value_of)
        why = ELSEWHERE if math.isnan(value) else ""
        return Beside(table=table, figure=figure, value=None if why else value * figure.scale, why=why)
    found = held.matching(figure.where)
    if len(found) != 1:
        why = f"{len(found)} scores of the run fit" if found else ELSEWHERE
        return Beside(table=table, figure=figure, why=why)
    value = _number(found[0][figure.take])
    if value is None:
        return Beside(table=table, figure=figure, why=ELSEWHERE)
    return Beside(table=table, figure=figure, value=value * figure.scale, score=found[0])


def _number(value: Any) -> float | None:
    """A number, or a text that is one."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


class _Scores:
    """The scores that a table may ask for, by task and metric."""

    def __init__(self, run: RunData, table: PublishedTable, instead: Mapping[str, str]) -> None:
        self._instead = instead
        asked = [one for figure in table.figures for one in figure.asked]
        kept = run.every_score
        for column in ("lens", "metric", "split"):
            if asked and all(column in one for one in asked):
                kept = kept.filter(pl.col(column).is_in({one[column] for one in asked}))
        self._rows: dict[tuple[str, str], list[Row]] = {}
        for row in kept.to_dicts():
            self._rows.setdefault((row["task"], row["metric"]), []).append(row)

    def matching(self, selector: Selector) -> Sequence[Row]:
        """The scores that meet a condition, of a stand-in where one is read."""
        model = selector.get("model")
        if model is not None and base_name(model) in self._instead:
            selector = {**selector, "model": self._instead[base_name(model)]}
        return [
            row
            for (task, metric), rows in self._rows.items()
            if selector.get("task", task) == task and selector.get("metric", metric) == metric
            for row in rows
            if answers(row, selector)
        ]

    def value_of(self, selector: Selector) -> float:
        """The one score that meets a condition; NaN where there is none, or several."""
        found = self.matching(selector)
        return found[0]["value"] if len(found) == 1 else math.nan


def differing(run: RunData) -> list[str]:
    """What was asked otherwise than in the file that the paper ships, as ``limit: 60 in place of 10000``."""
    shipped = (run.summary.get("published") or {}).get("file") or {}
    return _apart(shipped, run.summary.get("arguments") or {}) if shipped else []


def _apart(shipped: Mapping[str, Any], asked: Mapping[str, Any], within: str = "") -> list[str]:
    found: list[str] = []
    for name in dict.fromkeys([*shipped, *asked]):
        before, now = shipped.get(name), asked.get(name)
        if before == now:
            continue
        if isinstance(before, dict) or isinstance(now, dict):
            found += _apart(before or {}, now or {}, f"{within}{name}." if name != "selection" else within)
        else:
            found.append(f"{within.removeprefix('options.')}{name}: {_said(now)} in place of {_said(before)}")
    return found


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, "") else str(value)
