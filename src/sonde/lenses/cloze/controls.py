"""What answers without knowing a name: frequent answers and pieces of the corpus, and weights drawn anew."""

from __future__ import annotations

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.cloze.judged import contested, judged

UNIGRAM, MAJORITY, TWIN = "unigram", "majority", "random_weights"


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
