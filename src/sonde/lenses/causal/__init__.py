"""Does the model use what it knows? Interventions: properties erased from its states, heads replaced.

What a probe decodes need not matter to the model. Here something is taken out on the way and surprisal is
measured anew, beside controls that take out something else. The first stage reads functions as they are and
fits, on the training split, what is taken out; the second reads them with each change, at every layer; the
third holds each property against all draws of its controls, at the layer that validation chose.

Each method of the lens is a module, and another method is one more module and one more name
(`METHODS_BY_NAME`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import polars as pl

from sonde.base.options import Option
from sonde.capture.requests import Pass, Prepared
from sonde.corpora import Item
from sonde.lenses.causal import ablate, erase, erase_controls, logit_lens, patch
from sonde.lenses.causal.interventions import (
    LENS,
    ROWS_SCHEMA,
    CausalOptions,
    FittedIntervention,
    FittedInterventions,
    RowBuilder,
    read_fits,
    read_options,
    split_items,
)
from sonde.lenses.engine.lens import CapturedItem, LensDefaults, LensSettings, ScoringContext
from sonde.models import Capabilities
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score

Labels = Mapping[str, pl.DataFrame]


class LaterStage(Protocol):
    """A stage that reads with the changes fitted by an earlier one."""

    @staticmethod
    def effect_requests(
        fits: FittedInterventions, items: Sequence[Prepared], labels: Labels, settings: LensSettings
    ) -> list[Pass]:
        """Request passes over functions with these changes."""
        ...

    @staticmethod
    def add_effect_rows(
        fits: FittedInterventions,
        captured_items: Sequence[CapturedItem],
        labels: Labels,
        settings: LensSettings,
        rows: RowBuilder,
    ) -> None:
        """Add the rows of that."""
        ...

    @staticmethod
    def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
        """Score the stage."""
        ...


class CausalMethod(LaterStage, Protocol):
    """One way to ask what a model uses."""

    @staticmethod
    def describe_plan(labels: Labels, settings: LensSettings) -> str:
        """Describe in a few words what will be changed; empty for nothing."""
        ...

    @staticmethod
    def fit_requests(items: Sequence[Prepared], labels: Labels, settings: LensSettings) -> list[Pass]:
        """Request passes over unmodified functions."""
        ...

    @staticmethod
    def add_fit_rows(
        captured_items: Sequence[CapturedItem], labels: Labels, settings: LensSettings, rows: RowBuilder
    ) -> None:
        """Add the rows of that."""
        ...

    @staticmethod
    def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterable[FittedIntervention]:
        """Fit the changes and their controls on the training split alone."""
        ...


METHODS_BY_NAME: Mapping[str, CausalMethod] = {
    "erase": erase,
    "ablate": ablate,
    "patch": patch,
    "logit_lens": logit_lens,
}


LAST_STAGES: Mapping[str, LaterStage] = {"erase": erase_controls}
"""What some methods ask at the layers that their second stage chose."""


NEEDS = ("encoder", "decoder", "encoder-decoder")


TASKS = ("idn", "block_depth", "cpx", "syntax_relations")
"""Two properties of tokens, one of functions, and the relations whose heads are ablated."""


class CausalLens(LensDefaults):
    """The lens of interventions."""

    name = LENS
    version = "5"
    typed_options = CausalOptions
    tasks = TASKS
    targets = frozenset({"item", "span", "relation"})
    max_later_inputs = 2**31 - 1
    # Of a series: a change that costs more is not a better one.
    comparable_metrics = (
        ComparableMetric(metric="bits", method="erase", without=("construct",)),
        ComparableMetric(metric="bits", method="ablate", without=("construct",)),
    )

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return why a model cannot be read: it predicts no subword."""
        if capabilities.kind in ("decoder", "encoder", "encoder-decoder") and not capabilities.lacks:
            return None
        return (
            f"lens 'causal' measures surprisal, and this {capabilities.kind} has "
            f"{capabilities.lacks or 'no states'}; use a decoder or a masked model, for example "
            "sonde/mini-decoder"
        )

    def describe_inputs(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> str:
        """Describe the plan: how many functions are read, how often and with which changes."""
        options = read_options(settings)
        parts = [method.describe_plan(labels, settings) for method in _methods(settings)]
        plan = "; ".join(filter(None, parts))
        maximum = min(options.items, len(inputs))
        return (
            f"{len(inputs):,} functions are read as they are, then at most {maximum:,} of them with each "
            f"change: {plan}"
        )

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Request the passes of each method: of unmodified functions, then with its changes."""
        methods = _methods(settings)
        if not settings.stage:
            return tuple(
                request for method in methods for request in method.fit_requests(prepared, labels, settings)
            )
        fits = read_fits(settings)
        return tuple(
            request
            for method in _later_stages(settings)
            for request in method.effect_requests(fits, prepared, labels, settings)
        )

    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """States in the first stage; effects, and states behind changes, in later ones. See docs/files.md."""
        if not observed:
            return pl.DataFrame(schema=dict(ROWS_SCHEMA))
        rows = RowBuilder()
        if settings.stage:
            for method in _later_stages(settings):
                method.add_effect_rows(read_fits(settings), observed, labels, settings, rows)
        else:
            for method in _methods(settings):
                method.add_fit_rows(observed, labels, settings, rows)
        return rows.frame()

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Score every effect with its controls; the first stage passes on its fits instead."""
        if scoring.settings.stage:
            fits = read_fits(scoring.settings)
            return [
                score for method in _later_stages(scoring.settings) for score in method.score(fits, scoring)
            ]
        splits, measured_items = split_items(scoring)
        fits_of_methods = tuple(
            fit for method in _methods(scoring.settings) for fit in method.fit(scoring, splits)
        )
        scoring.stage_result.append(FittedInterventions(fits_of_methods, splits, measured_items).frame())
        return []

    def next_stage(self, scores: Sequence[Score], settings: LensSettings) -> Mapping[str, Option] | None:
        """Return the next stage: the second reads with the fits, the third tests properties."""
        if not settings.stage:
            return {}
        from sonde.lenses.causal.erase import select_test_layers

        return {} if settings.stage == 1 and select_test_layers(scores) else None

    def headline(self, scores: pl.DataFrame) -> Iterator[str]:
        """What the model uses, and what it merely holds."""
        from sonde.lenses.causal.findings import headline_lines

        return headline_lines(scores)


def _methods(settings: LensSettings) -> list[CausalMethod]:
    return [METHODS_BY_NAME[name] for name in read_options(settings).methods]


def _later_stages(settings: LensSettings) -> list[LaterStage]:
    """Return the methods that take part in a stage after the first."""
    if settings.stage == 1:
        return [*_methods(settings)]
    return [LAST_STAGES[name] for name in read_options(settings).methods if name in LAST_STAGES]


lens = CausalLens()
