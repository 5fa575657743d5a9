"""Checkpoints of one training as a series: how every number grows, and when it crosses its control."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from sonde.base.errors import UsageError
from sonde.results.dimensions import in_words
from sonde.results.least import amount, least_size
from sonde.results.local_cues import LOCAL_CUES
from sonde.results.pairing import IDENTITY, Compared
from sonde.results.verdict import why_no_verdict

FEWEST = 3
"""Checkpoints that a series needs."""

_BY_RANK = ("p_at_k", "first_hit")
"""Metrics whose ``k`` is a part of the question; of others it says how the number was made."""

_QUESTION = [name for name in IDENTITY if name != "dimensions"]


def step_of(pattern: str) -> Callable[[str], int | None]:
    r"""From a name to its step, by the one group of a regular expression.

    Raises:
        UsageError: The expression cannot be read, or has not one group.

    >>> step_of(r"step(\d+)")("runs/step128"), step_of(r"step(\d+)")("final")
    (128, None)
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--series {pattern!r}: no regular expression: {error}") from error
    if expression.groups != 1:
        raise UsageError(
            rf"--series {pattern!r}: one group in brackets has to give the step, as in 'step(\d+)'"
        )

    def step(name: str) -> int | None:
        found = expression.search(name)
        if found is None or not found[1].isdecimal():
            return None
        return int(found[1])

    return step


def series_frame(
    checkpoints: Iterable[tuple[int, pl.DataFrame]],
    compared: Mapping[str, Sequence[Compared]],
    least: Mapping[str, float] = MappingProxyType({}),
) -> pl.DataFrame:
    """What the lenses compare, of every checkpoint, with the best control beside it.

    Args:
        checkpoints: The step of each, with its rows of ``scores.parquet``.
        compared: What each lens compares.
        least: The least size of a difference that matters, by metric; of others see `least_size`.

    Returns:
        The rows with ``step``; ``control_value``: that of the best control beside the number (null without
        any); ``above``: whether the number is beyond it with its interval, on the better side and by as much
        as matters, and may be called a finding.
    """
    parts: list[pl.DataFrame] = []
    for step, scores in sorted(checkpoints, key=lambda one: one[0]):
        rows = scores.to_dicts()
        beside: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in rows:
            if row["control"] not in (None, LOCAL_CUES) and row["value"] is not None:
                beside.setdefault(_asked(row), []).append(row)
        kept: list[dict[str, Any]] = []
        for row in rows:
            wanted = next((one for one in compared.get(row["lens"], ()) if _takes(one, row)), None)
            if wanted is None:
                continue
            higher = wanted.better != "lower"
            values = [
                one["value"]
                for one in beside.get(_asked(row), ())
                if all(one[name] in (None, row[name]) for name in ("layer", "head"))
            ]
            best = (max(values) if higher else min(values)) if values else None
            kept.append(
                {**row, "step": step, "control_value": best, "above": _above(row, best, least, higher=higher)}
            )
        schema = {**scores.schema, "step": pl.Int64, "control_value": pl.Float64, "above": pl.Boolean}
        parts.append(pl.DataFrame(kept, schema=schema, orient="row"))
    return pl.concat(parts)


def _asked(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a control shares with the number that it stands beside, whatever was chosen for either."""
    asked = (
        row[name] for name in ("lens", "task", "language", "split", "side", "metric", "pooling", "matching")
    )
    ranks = row["k"] if row["metric"] in _BY_RANK else None
    return (*asked, ranks, tuple((one["name"], one["value"]) for one in row["dimensions"]))


def _takes(one: Compared, row: Mapping[str, Any]) -> bool:
    return (
        row["metric"] == one.metric
        and row["control"] is None
        and row["split"] not in ("train", "valid")
        and one.k in (None, row["k"])
        and one.method in (None, row["method"])
        and one.tokenizers != "other"
        and not any(held["name"] in one.without for held in row["dimensions"])
        and {*one.within} <= {held["name"] for held in row["dimensions"]}
    )


def _above(
    row: Mapping[str, Any], control: float | None, least: Mapping[str, float], *, higher: bool
) -> bool | None:
    if control is None:
        return None
    if why_no_verdict(row):
        return False
    value, low, high = (row[name] - control for name in ("value", "ci_low", "ci_high"))
    size = least_size(row["metric"], row["ci_method"] or "", least)
    return amount(value, low, high, size, sure=low > 0 or high < 0) == ("higher" if higher else "lower")


def crossings(series: pl.DataFrame) -> pl.DataFrame:
    """When each number crosses its control for good.

    Returns:
        One row a number that has a control: its question, its dimensions in words (``about``), ``layer`` and
        ``head`` where a checkpoint has several such numbers; ``crossed``: the first step from which on it
        stays above, null where it is not by the last; its ``first`` and ``last`` value, and the control's
        ``control_value`` at the last step.
    """
    keys = [*_QUESTION, "about"]
    ordered = series.filter(pl.col("above").is_not_null()).sort("step").with_columns(about=in_words())
    several = pl.len().over([*keys, "step"]) > 1
    placed = ordered.with_columns(
        pl.when(several).then(pl.col(name)).alias(f"_{name}") for name in ("layer", "head")
    )
    # From the last step backwards: above there and at every later one.
    stays = pl.col("above").reverse().cum_min().reverse().cast(pl.Boolean)
    return (
        placed.group_by(*keys, "_layer", "_head", maintain_order=True)
        .agg(
            crossed=pl.col("step").filter(stays).first(),
            first=pl.col("value").first(),
            last=pl.col("value").last(),
            control_value=pl.col("control_value").last(),
        )
        .rename({"_layer": "layer", "_head": "head"})
    )
