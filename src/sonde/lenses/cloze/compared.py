"""The same quizzes asked otherwise: another alias, words before them, other frames; seen and unseen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.lenses._library_means import means
from sonde.lenses.cloze.judged import PUBLISHED_MODES
from sonde.lenses.cloze.rates import KS, by_template, hit
from sonde.results.clusters import ClusterSums
from sonde.results.estimate import differences, jackknife
from sonde.results.intervals import Kind
from sonde.results.rows import rows_of
from sonde.results.scores import Score

PLAIN = "plain"
"""The statement alone, beside the frames of its language."""

EVERY = "every"
"""The mean over the statement alone and its frames."""

ALIASES_APART = "alias-adversarial"
"""The template of differences between an alias and adversarial ones."""

_MODES = [*PUBLISHED_MODES, "whole"]


def paired_aliases(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Alias quizzes against the same quizzes under adversarial aliases, each quiz its own pair."""
    asked = frame.filter(pl.col("rank").is_not_null() & pl.col("mode").is_in(_MODES))
    others = asked.filter(pl.col("template") == "adversarial").select("base_id", *_hits(frame))
    averaged = others.group_by("base_id").agg(pl.all().mean().name.suffix(".other"))
    own = asked.filter(pl.col("template") == "alias").select("quiz_id", "library", *_hits(frame))
    pairs = own.join(averaged, left_on="quiz_id", right_on="base_id")
    values = {str(k): pl.col(str(k)) - pl.col(f"{k}.other") for k in KS}
    named = base.within(("template", ALIASES_APART))
    yield from _at_ks(pairs, values, named, kind="difference")


def in_words(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Quizzes behind words, averaged within a quiz, against the same quizzes alone."""
    asked = frame.filter(
        pl.col("rank").is_not_null() & pl.col("mode").is_in(_MODES) & (pl.col("frame") == "")
    )
    worded = asked.filter(pl.col("context") != "").select("base_id", *_hits(frame))
    averaged = worded.group_by("base_id").agg(pl.all().mean().name.suffix(".words"))
    own = asked.filter(pl.col("context") == "").select("quiz_id", "library", "template", *_hits(frame))
    pairs = own.join(averaged, left_on="quiz_id", right_on="base_id")
    sides = {
        "with": {str(k): pl.col(f"{k}.words") for k in KS},
        "without": {str(k): pl.col(str(k)) for k in KS},
        "with-without": {str(k): pl.col(f"{k}.words") - pl.col(str(k)) for k in KS},
    }
    for side, values in sides.items():
        for template, part in by_template(pairs, base):
            named = template.within(("words", side))
            kind = "difference" if side == "with-without" else "unit"
            yield from _at_ks(part, values, named, kind=kind)


def in_frames(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """P@k in each frame, over quizzes that were answered in all frames, and the spread over the frames.

    ``p_at_k`` by the dimension ``frame`` (``plain``: the statement alone; ``every``: the mean over all);
    ``p_at_k_sd`` and ``p_at_k_range`` are the standard deviation and the range over the frames.
    """
    asked = frame.filter(
        pl.col("rank").is_not_null() & pl.col("mode").is_in(_MODES) & (pl.col("context") == "")
    ).select("quiz_id", "base_id", "library", "template", "frame", *_hits(frame))
    framed = asked.filter(pl.col("frame") != "")
    alone = asked.filter((pl.col("frame") == "") & pl.col("quiz_id").is_in(framed["base_id"].implode()))
    for template, part in by_template(pl.concat([alone.with_columns(frame=pl.lit(PLAIN)), framed]), base):
        count = part["frame"].n_unique()
        whole = part.filter(pl.col("frame").n_unique().over("base_id") == count)
        if whole.is_empty():
            continue
        values = {str(k): pl.col(str(k)) for k in KS}
        yield from _at_ks(whole, values, template, by="frame")
        averaged = whole.group_by("base_id", "library", maintain_order=True).agg(pl.col(list(values)).mean())
        every = template.within(("frame", EVERY))
        yield from _at_ks(averaged, values, every, kind="unit")
        yield from _spread(whole, template)


def seen_against_unseen(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """How much better quizzes about libraries of the training data are answered than others."""
    known = frame.filter(pl.col("rank").is_not_null() & pl.col("seen").is_not_null())
    for template, part in by_template(known, base):
        if part["seen"].n_unique() < 2:
            continue
        numbered = part.with_columns(_cluster=pl.col("library").rank("dense").cast(pl.Int64) - 1)
        seen, unseen = (numbered.filter(pl.col("seen") == side) for side in (True, False))
        for k in KS:
            if not (_says(seen, k) and _says(unseen, k)):
                continue
            found = differences(_sums(seen, k), _sums(unseen, k), "difference")
            apart = template.within(("seen", "true-false"))
            named = dataclasses.replace(apart, metric="p_at_k", matching="single", k=k)
            yield from rows_of(found, [named], [part.height])


def _spread(whole: pl.DataFrame, template: Score) -> Iterator[Score]:
    frames = whole["frame"].unique(maintain_order=True).to_list()
    for k in KS:
        held = whole.filter(pl.col(str(k)).is_not_null())
        if held.is_empty():
            continue
        quizzes = held.filter(pl.col("frame") == frames[0]).group_by("library").len().sort("library")
        weight = quizzes["len"].cast(pl.Float64).to_numpy()
        table = (
            held.group_by("library", "frame")
            .agg(pl.col(str(k)).sum())
            .pivot("frame", index="library", values=str(k))
            .sort("library")
        )
        sums = np.column_stack([table.select(frames).to_numpy(), weight])
        for metric, statistic in (("p_at_k_sd", _deviation), ("p_at_k_range", _range)):
            found = jackknife(statistic, sums, weight, "nonnegative")
            named = dataclasses.replace(template, metric=metric, matching="single", k=k)
            yield from rows_of(found, [named], [weight.sum()])


def _deviation(sums: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
    """Standard deviation of the rates over the frames; the last column counts quizzes."""
    return np.std(_rates(sums), axis=1, ddof=1)


def _range(sums: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
    """Best frame less worst frame."""
    return np.ptp(_rates(sums), axis=1)


def _rates(sums: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, "replicate frame"]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums[:, :-1] / sums[:, -1:]


def _sums(frame: pl.DataFrame, k: int) -> ClusterSums:
    """Hits and quizzes by cluster."""
    hits = hit(frame, "rank", k)
    held = frame.group_by("_cluster").agg(x=hits.sum(), w=hits.is_not_null().sum()).sort("_cluster")
    hits, count = (held[name].cast(pl.Float64).to_numpy() for name in ("x", "w"))
    return ClusterSums(np.zeros(held.height, np.int64), held["_cluster"].to_numpy(), hits, count, 1)


def _says(frame: pl.DataFrame, k: int) -> bool:
    """Whether any rank is among more than k."""
    return frame.select(hit(frame, "rank", k).is_not_null().any()).item()


def _hits(frame: pl.DataFrame) -> list[pl.Expr]:
    return [hit(frame, "rank", k).cast(pl.Float64).alias(str(k)) for k in KS]


def _at_ks(
    frame: pl.DataFrame,
    values: Mapping[str, pl.Expr],
    template: Score,
    by: str | None = None,
    kind: Kind = "proportion",
) -> Iterator[Score]:
    for k, score in means(frame, values, template, by=by, kinds=kind):
        yield dataclasses.replace(score, metric="p_at_k", matching="single", k=int(k))
