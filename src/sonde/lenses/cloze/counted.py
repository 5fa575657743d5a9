"""What the queries themselves are like: answers that seen and unseen names share, and aliases of a name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import polars as pl

from sonde.lenses.cloze.rates import by_library, by_template
from sonde.results import Mean, Score


def overlap(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Of the distinct answers of unseen names, the share that seen names have as well (INK, section 5.3).

    ``answers`` counts the distinct answers of either side.
    """
    known = frame.filter(pl.col("seen").is_not_null())
    for template, part in by_template(known, base):
        sides = {seen: set(part.filter(pl.col("seen") == seen)["answer"]) for seen in (True, False)}
        if not all(sides.values()):
            continue
        libraries = part.filter(~pl.col("seen"))["library"].n_unique()
        yield dataclasses.replace(
            template.within(("seen", "false")),
            metric="answer_overlap",
            value=len(sides[True] & sides[False]) / len(sides[False]),
            n=len(sides[False]),
            n_clusters=libraries,
        )
        for seen, answers in sides.items():
            count = part.filter(pl.col("seen") == seen)
            yield dataclasses.replace(
                template.within(("seen", str(seen).lower())),
                metric="answers",
                value=float(len(answers)),
                n=count.height,
                n_clusters=count["library"].n_unique(),
            )


def aliases_of_names(labels: pl.DataFrame, base: Score) -> Iterator[Score]:
    """How many aliases a name has that has any, and the share with several (INK, section 5.2)."""
    names = labels.filter(pl.col("aliases") > 0).unique(["language", "name", "kind"], maintain_order=True)
    wanted = [
        Mean("aliases", pl.col("aliases"), "nonnegative"),
        Mean("share_several_aliases", pl.col("aliases") > 1),
    ]
    return by_library(names, wanted, base.within(("names", "aliased")))
