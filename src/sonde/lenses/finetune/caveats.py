"""Caveats of fine-tuning scores: undertrained models, and examples that the input limit truncates.

A difference from a model that was not trained enough is a difference in budget. Of a test set, the module
finds the examples that can be answered rightly within the limit, and how many cannot.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sonde.results import Mean
from sonde.results.text_format import plural
from sonde.training.finetune.recipe import KEEP

AT_END, AT_EDGE = "best_at_end", "rate_at_edge"
"""Metrics of a training, 1 or 0: validation was best after the last epoch of the longest setting that was
tried, and the rate that it chose is the smallest or the largest of those tried, or the only one."""


COLLAPSED = 0.99
"""Share of equal answers from which a training has learned nothing."""


def stopped_early(epochs: pl.DataFrame) -> tuple[bool, bool]:
    """Whether more epochs, and whether another rate, might have been better.

    Args:
        epochs: All epochs of one training, in columns of the item table.
    """
    chosen = epochs.filter("chosen").row(0, named=True)
    longest = chosen["epochs"] == epochs["epochs"].max()
    rates = epochs["rate"].unique()
    at_edge = chosen["rate"] in (rates.min(), rates.max())
    return longest and chosen["epoch"] == chosen["epochs"], bool(at_edge)


def convergence_lines(scores: pl.DataFrame) -> Iterator[str]:
    """What a run prints of trainings that may want more, and of those that learned nothing, a line a task.

    Args:
        scores: Rows of the lens.
    """
    own = scores.with_columns(who=pl.col("control").fill_null("pretrained"))
    for (model, task), part in own.partition_by("model", "task", as_dict=True, maintain_order=True).items():
        if said := "; ".join(_enough(part)):
            yield f"{task}, {model}: {said}"
        if said := "; ".join(_describe_collapses(part)):
            yield f"{task}, {model}: gave one answer to everything (collapsed): {said}"


def _enough(rows: pl.DataFrame) -> Iterator[str]:
    shown = {AT_END: "best after its last epoch", AT_EDGE: "best at the edge of its rates"}
    for (who,), part in _by_method(rows.filter(pl.col("metric").is_in(list(shown)))):
        said = [
            f"{words} in {int(held.sum())} of {plural(len(held), 'training')}"
            for metric, words in shown.items()
            if (held := part.filter(pl.col("metric") == metric)["value"]).sum()
        ]
        yield f"{who} may want more: {' and '.join(said)}" if said else f"{who} was trained enough"


def _describe_collapses(rows: pl.DataFrame) -> Iterator[str]:
    told = (pl.col("metric") == "commonest_answer") & (pl.col("split") == "test")
    for (who,), part in _by_method(rows.filter(told)):
        if lost := int((part["value"] >= COLLAPSED).sum()):
            yield f"{who} in {lost} of {plural(part.height, 'training')}"


def _by_method(rows: pl.DataFrame) -> Iterator[tuple[tuple[object, ...], pl.DataFrame]]:
    yield from rows.partition_by("who", as_dict=True, maintain_order=True).items()


OUT_OF_REACH, CEILING, TRUNCATED = "out_of_reach", "ceiling", "truncated"
"""Metrics: the share of the examples whose label rests on what is not read, the most that any answers could
get right, and the share of which something is not read."""


REACHABLE = ("reachable", "true")
"""Dimension of scores over the examples whose label rests on what is read, where others are asked as well."""


def find_truncated_examples(examples: pl.DataFrame) -> pl.Series:
    """Ids of the examples whose label rests on something that one of the methods does not read."""
    return examples.filter(~pl.col("reached"))["example_id"].unique()


def exclude_examples(examples: pl.DataFrame, out: pl.Series) -> pl.DataFrame:
    """The other examples."""
    return examples.filter(~pl.col("example_id").is_in(out.implode()))


def select_readable_examples(examples: pl.DataFrame, cut: str) -> pl.DataFrame:
    """The examples that count: all of them, or those within reach."""
    return examples if cut == KEEP else exclude_examples(examples, find_truncated_examples(examples))


def score_truncation(examples: pl.DataFrame) -> Iterator[tuple[Mean, pl.DataFrame]]:
    """How much of a test set one training does not read, with the examples that it is a share of.

    Of a pointer, something is cut off where there is an error of which it or all its repairs are not read.
    """
    first = examples.filter(pl.col("seed") == pl.col("seed").min())
    known = first.filter(pl.col("reached").is_not_null())
    if not known.is_empty():
        yield Mean(OUT_OF_REACH, ~pl.col("reached")), known
    wrong = first.filter(pl.col("truncated").is_not_null() & pl.col("buggy").fill_null(value=True))
    if not wrong.is_empty():
        yield Mean(TRUNCATED, pl.col("truncated")), wrong


def accuracy_ceilings(examples: pl.DataFrame) -> dict[str, float]:
    """The most that any answers of one method could get right, by metric; nothing where it reads everything.

    Examples of which the same is read get the same answer, so of contradictory ones the most frequent label
    is right at best. An error that is not read is not found.
    """
    rows = examples.filter((pl.col("seed") == pl.col("seed").min()) & pl.col("read").is_not_null())
    if rows.is_empty():
        return {}
    pointer = rows["buggy"].is_not_null().all()
    counted = rows.group_by("read", "buggy" if pointer else "label").len()
    best = float(counted.group_by("read").agg(pl.col("len").max())["len"].sum()) / rows.height
    if not pointer:
        return {"accuracy": best}
    found = {"classification": best, "accuracy": _share(~(rows["buggy"] & rows["truncated"]))}
    wrong = rows.filter("buggy")
    if not wrong.is_empty():
        found["localisation"] = _share(wrong["locatable"])
        found["localisation_repair"] = _share(~wrong["truncated"])
    return found


def _share(values: pl.Series) -> float:
    return float(values.cast(pl.Float64).sum()) / len(values)
