"""What a method of the lens answers, a module each; another method is one more module and one more name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import polars as pl

from sonde.capture.requests import Pass, Prepared
from sonde.lenses.causal import ablate, erase, erase_controls, logit_lens, patch
from sonde.lenses.causal.interventions import FittedIntervention, FittedInterventions, RowBuilder
from sonde.lenses.engine.lens import CapturedItem, LensSettings, ScoringContext
from sonde.results.scores import Score

Labels = Mapping[str, pl.DataFrame]


class LaterStage(Protocol):
    """What is asked with changes that an earlier stage fitted."""

    @staticmethod
    def effect_requests(
        fits: FittedInterventions, prepared: Sequence[Prepared], labels: Labels, settings: LensSettings
    ) -> list[Pass]:
        """What is wanted of functions with these changes."""
        ...

    @staticmethod
    def add_effect_rows(
        fits: FittedInterventions,
        observed: Sequence[CapturedItem],
        labels: Labels,
        settings: LensSettings,
        rows: RowBuilder,
    ) -> None:
        """Add the rows of that."""
        ...

    @staticmethod
    def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
        """Every number of the stage."""
        ...


class CausalMethod(LaterStage, Protocol):
    """One way to ask what a model uses."""

    @staticmethod
    def describe_plan(labels: Labels, settings: LensSettings) -> str:
        """What is going to be changed, in a few words; empty for nothing."""
        ...

    @staticmethod
    def fit_requests(prepared: Sequence[Prepared], labels: Labels, settings: LensSettings) -> list[Pass]:
        """What is wanted of functions as they are."""
        ...

    @staticmethod
    def add_fit_rows(
        observed: Sequence[CapturedItem], labels: Labels, settings: LensSettings, rows: RowBuilder
    ) -> None:
        """Add the rows of that."""
        ...

    @staticmethod
    def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterable[FittedIntervention]:
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
