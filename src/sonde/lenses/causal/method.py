"""What a method of the lens answers, a module each; another method is one more module and one more name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import polars as pl

from sonde.capture.requests import Pass, Prepared
from sonde.lenses.causal import ablate, erase, erase_controls, logit_lens, patch
from sonde.lenses.causal.interventions import Fits, FittedChange, Rows
from sonde.lenses.engine.lens import Captured, LensSettings, Scoring
from sonde.results.scores import Score

Labels = Mapping[str, pl.DataFrame]


class LaterStage(Protocol):
    """What is asked with changes that an earlier stage fitted."""

    @staticmethod
    def second_passes(
        fits: Fits, prepared: Sequence[Prepared], labels: Labels, settings: LensSettings
    ) -> list[Pass]:
        """What is wanted of functions with these changes."""
        ...

    @staticmethod
    def second_rows(
        fits: Fits, observed: Sequence[Captured], labels: Labels, settings: LensSettings, rows: Rows
    ) -> None:
        """Add the rows of that."""
        ...

    @staticmethod
    def score(fits: Fits, scoring: Scoring) -> Iterator[Score]:
        """Every number of the stage."""
        ...


class CausalMethod(LaterStage, Protocol):
    """One way to ask what a model uses."""

    @staticmethod
    def planned(labels: Labels, settings: LensSettings) -> str:
        """What is going to be changed, in a few words; empty for nothing."""
        ...

    @staticmethod
    def first_passes(prepared: Sequence[Prepared], labels: Labels, settings: LensSettings) -> list[Pass]:
        """What is wanted of functions as they are."""
        ...

    @staticmethod
    def first_rows(observed: Sequence[Captured], labels: Labels, settings: LensSettings, rows: Rows) -> None:
        """Add the rows of that."""
        ...

    @staticmethod
    def fit(scoring: Scoring, splits: Mapping[str, str]) -> Iterable[FittedChange]:
        """What is tried: changes and their controls, from the training split alone."""
        ...


METHODS_BY_NAME: Mapping[str, CausalMethod] = {
    "erase": erase,
    "ablate": ablate,
    "patch": patch,
    "logit_lens": logit_lens,
}

LAST_STAGES: Mapping[str, LaterStage] = {"erase": erase_controls}
"""What some methods ask at the layers that their second stage chose."""
