"""Whether a model was trained enough: a difference from one that was not is about the budget."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.results.formats import counted

AT_END, AT_EDGE = "best_at_end", "rate_at_edge"
"""Metrics of a training, 1 or 0: validation was best after the last epoch of the longest setting that was
tried, and the rate that it chose is the smallest or the largest of those tried, or the only one."""

COLLAPSED = 0.99
"""Share of equal answers from which a training has learned nothing."""


def ends(epochs: pl.DataFrame) -> tuple[bool, bool]:
    """Whether more epochs, and whether another rate, might have been better.

    Args:
        epochs: All epochs of one training, in columns of the item table.
    """
    chosen = epochs.filter("chosen").row(0, named=True)
    longest = chosen["epochs"] == epochs["epochs"].max()
    rates = epochs["rate"].unique()
    at_edge = chosen["rate"] in (rates.min(), rates.max())
    return longest and chosen["epoch"] == chosen["epochs"], bool(at_edge)


def enough_lines(scores: pl.DataFrame) -> Iterator[str]:
    """What a run prints of trainings that may want more, and of those that learned nothing, a line a task.

    Args:
        scores: Rows of the lens.
    """
    own = scores.with_columns(who=pl.col("control").fill_null("pretrained"))
    for (model, task), part in own.partition_by("model", "task", as_dict=True, maintain_order=True).items():
        if said := "; ".join(_enough(part)):
            yield f"{task}, {model}: {said}"
        if said := "; ".join(_collapsed(part)):
            yield f"{task}, {model}: gave one answer to everything (collapsed): {said}"


def _enough(rows: pl.DataFrame) -> Iterator[str]:
    shown = {AT_END: "best after its last epoch", AT_EDGE: "best at the edge of its rates"}
    for (who,), part in _by_method(rows.filter(pl.col("metric").is_in(list(shown)))):
        said = [
            f"{words} in {int(held.sum())} of {counted(len(held), 'training')}"
            for metric, words in shown.items()
            if (held := part.filter(pl.col("metric") == metric)["value"]).sum()
        ]
        yield f"{who} may want more: {' and '.join(said)}" if said else f"{who} was trained enough"


def _collapsed(rows: pl.DataFrame) -> Iterator[str]:
    told = (pl.col("metric") == "commonest_answer") & (pl.col("split") == "test")
    for (who,), part in _by_method(rows.filter(told)):
        if lost := int((part["value"] >= COLLAPSED).sum()):
            yield f"{who} in {lost} of {counted(part.height, 'training')}"


def _by_method(rows: pl.DataFrame) -> Iterator[tuple[tuple[object, ...], pl.DataFrame]]:
    yield from rows.partition_by("who", as_dict=True, maintain_order=True).items()
