"""The findings at the top of the page, one a lens; what a lens without one scored is counted in words."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from sonde.report._shared.numbers import count
from sonde.report._shared.run import RunData
from sonde.results.verdict import verdict_allowed
from sonde.results.words import plain_words


def leads(run: RunData, said: Iterable[tuple[str, str]], titled: str | None) -> list[str]:
    """A sentence for every lens that has scores.

    Args:
        run: The run.
        said: The lens of each section, with the finding that it leads with or nothing.
        titled: The lens whose finding is the title itself, where there is one.
    """
    found = [(lens, lead) for lens, lead in said if lead]
    spoken = {lens for lens, _ in found}
    silent = [lens for lens in run.scored_lenses if lens not in spoken and lens != titled]
    empty = [
        f"Lens {plain_words(lens)} scored, and none of its rows holds a number"
        for lens in run.lenses_without_numbers
    ]
    return [lead for _, lead in found] + [_counted(run, lens) for lens in silent] + empty


def _counted(run: RunData, lens: str) -> str:
    rows = run.every_score.filter((pl.col("lens") == lens) & pl.col("control").is_null())
    allowed = sum(verdict_allowed(row) for row in rows.iter_rows(named=True))
    tasks = rows.filter(pl.col("task") != "")["task"].n_unique()
    about = f" about {count(tasks)} task{'s' if tasks != 1 else ''}" if tasks else ""
    firm = "none of which rests" if not allowed else f"{count(allowed)} of which rest{'s' * (allowed == 1)}"
    numbers = f"{count(rows.height)} number{'s' if rows.height != 1 else ''}"
    return f"Lens {lens} scored {numbers}{about}, {firm} on enough independent code for a verdict"
