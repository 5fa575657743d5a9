"""What answers without knowing a name: common answers and subwords of the corpus, and random weights."""

from __future__ import annotations

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.cloze.judged import contested, judged

UNIGRAM, MAJORITY, RANDOM_WEIGHTS = "unigram", "majority", "random_weights"


def control_candidates(scoring: Scoring, labels: pl.DataFrame) -> pl.DataFrame | None:
    """The rank of each right candidate with random weights; None where no control was observed."""
    if not scoring.controls:
        return None
    answers = scoring.controls[0].observations.collect()
    return contested(answers, labels).select("query_id", rank_random_weights=pl.col("rank"))


def control_frame(scoring: Scoring, labels: pl.DataFrame) -> pl.DataFrame | None:
    """The rank of each right answer with random weights; None where no control was observed."""
    if not scoring.controls:
        return None
    answers = scoring.controls[0].observations.collect()
    return judged(answers, labels).select("query_id", rank_random_weights=pl.col("rank"))
