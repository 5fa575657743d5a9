"""What a sample can show: of each number that speaks for a lens, the difference that it would reveal.

Before any score of the sample exists: its clusters are known, the spread of single items is what a warm-up
shows, or, without one, stated and not known.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sonde.experiments.outlook import Question
from sonde.results.clusters import LEAST_ICC
from sonde.results.detectable import Clustering, error_of

FACTORS = (0.5, 1.0, 2.0)
"""How large the differences are, of the detectable one, for which the items needed are told."""

CORRELATION = 0.5
"""Of two models' answers to one item, as far as it is not known; most are more alike, which shows more."""

ASSUMED = (
    f"80 % power at p < 0.05 of one number alone, two-sided (a comparison of several tests each at a lower "
    f"level, at worst 0.05 over their number, and shows less); intraclass correlation {LEAST_ICC:g}; two "
    f"models on the same items, whose answers correlate by {CORRELATION:g} (by 0 it is {math.sqrt(2):.1f} "
    f"times as much, by 0.9 {math.sqrt(0.2):.1f} times)"
)
"""What figures between two models rest on, in words."""

_BETWEEN = math.sqrt(2 * (1 - CORRELATION))

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """Items that a difference needs.

    Attributes:
        difference: The difference, in the unit of the number.
        items: So many of the same clusters; None where no number of them is enough.
        clusters: So many clusters of the same size, where the same ones are not enough.
    """

    difference: float
    items: int | None
    clusters: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shows:
    """What a sample can show of one number.

    Attributes:
        lens: The lens.
        task: Its task; empty where it reads items.
        language: Of the code.
        model: The model; empty where no warm-up was done.
        metric: The number; empty likewise.
        value: What the warm-up gave; None without one.
        share: Whether the number is a share, whose differences are points of a hundred.
        items: Items that it will rest on.
        effective_clusters: Clusters of equal size that theirs are worth.
        design_effect: How much larger the variance is than that of independent items.
        deviation: Spread of single items; None where it is not known, and then differences are in its unit.
        detectable: The difference between two models that the sample reveals; None below two effective
            clusters.
        from_control: The same of the paired difference to the best control; None where there is none.
        needed: Items that half of it, it, and twice of it need.
    """

    lens: str
    task: str
    language: str
    model: str = ""
    metric: str = ""
    value: float | None = None
    share: bool = False
    items: int
    effective_clusters: float
    design_effect: float
    deviation: float | None = None
    detectable: float | None = None
    from_control: float | None = None
    needed: tuple[Needed, ...] = ()


def shows(
    answers: Sequence[tuple[Row, Row | None]],
    tried: Mapping[Question, Clustering],
    planned: Mapping[Question, Clustering],
) -> list[Shows]:
    """What a sample can show of each number that speaks for a lens.

    Args:
        answers: Of a warm-up, the scores that speak, and the paired difference to the best control of each.
        tried: How the items of the warm-up fell into clusters.
        planned: How those of the sample do.
    """
    found: list[Shows] = []
    known: set[Question] = set()
    for row, gain in answers:
        question = _question(row, planned)
        if question in tried and question in planned:
            known.add(question)
            found.append(_of_number(row, gain, question, tried[question], planned[question]))
    # A few items leave some numbers without an interval: what others show of the same lens is enough.
    spoken = {(one.lens, one.model) for one in found if one.deviation is not None}
    found = [one for one in found if one.deviation is not None or (one.lens, one.model) not in spoken]
    # A lens of many tasks has no number over all of them.
    by_task = {question[0] for question in planned if question[1]}
    bare = [one for one in planned if one not in known and (one[1] or one[0] not in by_task)]
    lenses = {question[0] for question in known}
    return found + [_of_clusters(one, planned[one]) for one in bare if one[0] not in lenses or one[1]]


def _question(row: Row, planned: Mapping[Question, Clustering]) -> Question:
    place = row["language"], row["corpus_hash"]
    own = row["lens"], row["task"] or "", *place
    return own if own in planned else (row["lens"], "", *place)


def _of_number(
    row: Row, gain: Row | None, question: Question, tried: Clustering, planned: Clustering
) -> Shows:
    here, there = _as_scored(row, tried, tried), _as_scored(row, tried, planned)
    deviation = here.deviation(error_of(row))
    known = math.isfinite(deviation)
    from_control = None
    if gain is not None:
        of_gain, later = _as_scored(gain, tried, tried), _as_scored(gain, tried, planned)
        from_control = _finite(later.detectable(of_gain.deviation(error_of(gain))))
    shown = _of_clusters(question, there, deviation * _BETWEEN if known else 1.0)
    return dataclasses.replace(
        shown,
        task=row["task"] or "",
        model=row["model"],
        metric=row["metric"],
        value=_finite(row["value"]),
        share=row["n_eff"] is not None,
        deviation=deviation if known else None,
        from_control=from_control,
    )


def _as_scored(row: Row, tried: Clustering, clustering: Clustering) -> Clustering:
    """A clustering as a number counts it: what is weighed by subwords has fewer effective clusters."""
    counted = row["effective_clusters"] or tried.effective
    return dataclasses.replace(clustering, effective=clustering.effective * counted / tried.effective)


def _of_clusters(question: Question, clustering: Clustering, deviation: float = 1.0) -> Shows:
    """What clusters alone tell, for items of a spread."""
    lens, task, language, _ = question
    difference = _finite(clustering.detectable(deviation))
    multiples = [] if difference is None else [difference * factor for factor in FACTORS]
    return Shows(
        lens=lens,
        task=task,
        language=language,
        items=round(clustering.items),
        effective_clusters=clustering.effective,
        design_effect=clustering.design_effect(),
        detectable=difference,
        needed=tuple(_needed(clustering, one, deviation) for one in multiples),
    )


def _needed(clustering: Clustering, difference: float, deviation: float) -> Needed:
    items = clustering.items_for(difference, deviation)
    more = clustering.clusters_for(difference, deviation) if items is None else None
    return Needed(difference=difference, items=items, clusters=more)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
