"""What answers without knowing the name: frequent pieces, frequent answers, and weights drawn anew."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.lenses._lens import Scoring
from sonde.lenses.cloze.judged import contested, judged
from sonde.lenses.cloze.plan import ONE

NEVER = 2**31 - 1
"""Rank of an answer that a control does not know."""

UNIGRAM, MAJORITY, TWIN = "unigram", "majority", "random_weights"


def with_unigram(frame: pl.DataFrame, frequencies: pl.DataFrame | None) -> pl.DataFrame:
    """Add the rank of the answer's id by its count in the model's training data, ties pessimistic.

    Null where nothing is known of the training data.
    """
    if frequencies is None:
        return frame.with_columns(rank_unigram=pl.lit(None, pl.Int32))
    counts = frequencies["count"].to_numpy()
    ordered = np.sort(counts)
    at_least = len(counts) - np.searchsorted(ordered, counts, side="left")
    ranks = pl.DataFrame(
        {"gold_id": frequencies["subword_id"].cast(pl.Int32), "rank_unigram": at_least.astype(np.int32)}
    )
    return frame.join(ranks, on="gold_id", how="left", maintain_order="left")


def with_majority(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the rank of the answer by how often it is right for the same template and masking mode.

    Counts of the quiz's own library are left out, so that no quiz answers itself; an answer that no other
    library has is `NEVER` given. Quizzes behind words or in a frame repeat others and
    have no such rank.
    """
    cell = ["template", "mode"]
    asked = frame.filter((pl.col("status") == ONE) & (pl.col("context") == "") & (pl.col("frame") == ""))
    ranks: list[pl.DataFrame] = []
    for part in asked.partition_by(cell):
        answers = part["answer"].cast(pl.Categorical).to_physical()
        libraries = part["library"].cast(pl.Categorical).to_physical()
        rank = _left_out_ranks(_dense(answers), _dense(libraries))
        ranks.append(part.select("quiz_id").with_columns(rank_majority=pl.Series(rank, dtype=pl.Int32)))
    if not ranks:
        return frame.with_columns(rank_majority=pl.lit(None, pl.Int32))
    return frame.join(pl.concat(ranks), on="quiz_id", how="left", maintain_order="left")


def with_frequent_candidates(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the rank of the right candidate by how often the quizzed names of other libraries have each.

    Names count with their calls, at the same place of a name; ties count against the right one.
    """
    names = frame.unique(["language", "name", "kind", "level"], maintain_order=True)
    every: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    own: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    columns = ["language", "place", "library", "calls", "candidates"]
    for language, place, library, calls, candidates in names.select(columns).iter_rows():
        every[language, place][candidates[0]] += calls
        own[language, place, library][candidates[0]] += calls
    ranks: list[int] = []
    for language, place, library, _, candidates in frame.select(columns).iter_rows():
        here, mine = every[language, place], own[language, place, library]
        counts = [here[one] - mine[one] for one in candidates]
        ranks.append(sum(count >= counts[0] for count in counts))
    return frame.with_columns(rank_majority=pl.Series(ranks, dtype=pl.Int32))


def twin_candidates(scoring: Scoring, labels: pl.DataFrame) -> pl.DataFrame | None:
    """The rank of each right candidate for the twin, under ``rank_twin``; None where there is none."""
    if not scoring.twins:
        return None
    answers = scoring.twins[0].observations.collect()
    return contested(answers, labels).select("quiz_id", rank_twin=pl.col("rank"))


def twin_frame(scoring: Scoring, labels: pl.DataFrame) -> pl.DataFrame | None:
    """The judged answers of the twin, ``rank`` alone under ``rank_twin``; None where there is none."""
    if not scoring.twins:
        return None
    answers = scoring.twins[0].observations.collect()
    return judged(answers, labels).select("quiz_id", rank_twin=pl.col("rank"))


def _dense(numbers: pl.Series) -> Int[np.ndarray, " quiz"]:
    return (numbers.rank("dense").cast(pl.Int64) - 1).to_numpy()


def _left_out_ranks(
    answers: Int[np.ndarray, " quiz"], libraries: Int[np.ndarray, " quiz"]
) -> Int[np.ndarray, " quiz"]:
    """For each quiz the rank of its answer by counts over the other libraries, ties pessimistic."""
    counts = np.bincount(answers)
    ranks = np.zeros(len(answers), np.int64)
    for library in range(int(libraries.max(initial=-1)) + 1):
        mine = np.flatnonzero(libraries == library)
        rest: Float[np.ndarray, " answer"] = counts - np.bincount(answers[mine], minlength=len(counts))
        ordered = np.sort(rest)
        own = rest[answers[mine]]
        at_least = len(rest) - np.searchsorted(ordered, own, side="left")
        ranks[mine] = np.where(own > 0, at_least, NEVER)
    return ranks
