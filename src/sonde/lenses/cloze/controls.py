"""What answers without knowing a name: frequent answers and pieces of the corpus, and weights drawn anew."""

from __future__ import annotations

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.cloze.judged import contested, judged

UNIGRAM, MAJORITY, RANDOM_WEIGHTS = "unigram", "majority", "random_weights"


def control_candidates(scoring: Scoring, labels: pl.DataFrame) -> pl.DataFrame | None:
    """The rank of each right candidate for the control, under ``rank_random_weights``; None where there is none."""
    if not scoring.controls:
        return None
    answers = scoring.controls[0].observations.collect()
    return contested(answers, labels).select("query_id", rank_random_weights=pl.col("rank"))


def control_frame(scoring: Scoring, labels: pl.DataFrame) -> pl.DataFrame | None:
    """The judged answers of the control, ``rank`` alone under ``rank_random_weights``; None where there is none."""
    if not scoring.controls:
        return None
    answers = scoring.controls[0].observations.collect()
    return judged(answers, labels).select("query_id", rank_random_weights=pl.col("rank"))
