"""Tests whether the model uses what it encodes: erases properties from its states and replaces heads.

A model need not use what a probe decodes. This lens removes a property from the states and measures surprisal
again, compared with controls that remove something else. The first stage reads the unchanged functions and
fits each change on the training split. The second reads them with each change, at every layer. The third
compares each property with all draws of its controls, at the layer that validation chose.

Each method of the lens is a module, registered in `METHODS_BY_NAME`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import polars as pl

from sonde.base.options import Option
from sonde.capture.requests import Pass, Prepared
from sonde.corpora import Item
from sonde.lenses.causal import ablate, erase, erase_controls, logit_lens, patch
from sonde.lenses.causal.findings import CONTROLS, describe_findings
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
from sonde.lenses.engine.lens import CapturedItem, LensSettings, ReadingLens, ScoringContext
from sonde.models import Capabilities
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import SELECTION, has_dimensions
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score

Labels = Mapping[str, pl.DataFrame]


class LaterStage(Protocol):
    """A stage that reads functions with the interventions that an earlier stage fitted."""

    @staticmethod
    def effect_requests(
        fits: FittedInterventions, prepared_items: Sequence[Prepared], labels: Labels, settings: LensSettings
    ) -> list[Pass]:
        """Return the requests of functions with the fitted interventions."""
        ...

    @staticmethod
    def add_effect_rows(
        fits: FittedInterventions,
        captured_items: Sequence[CapturedItem],
        labels: Labels,
        settings: LensSettings,
        rows: RowBuilder,
    ) -> None:
        """Add the rows of `effect_requests`."""
        ...

    @staticmethod
    def score(fits: FittedInterventions, scoring: ScoringContext) -> Iterator[Score]:
        """Yield the scores of the stage."""
        ...


class CausalMethod(LaterStage, Protocol):
    """A way to measure what a model uses."""

    @staticmethod
    def describe_plan(labels: Labels, settings: LensSettings) -> str:
        """Describe the planned interventions in a few words; return an empty text without any."""
        ...

    @staticmethod
    def fit_requests(
        prepared_items: Sequence[Prepared], labels: Labels, settings: LensSettings
    ) -> list[Pass]:
        """Return the requests of unmodified functions."""
        ...

    @staticmethod
    def add_fit_rows(
        captured_items: Sequence[CapturedItem], labels: Labels, settings: LensSettings, rows: RowBuilder
    ) -> None:
        """Add the rows of `fit_requests`."""
        ...

    @staticmethod
    def fit(scoring: ScoringContext, splits: Mapping[str, str]) -> Iterable[FittedIntervention]:
        """Fit interventions and their controls on the training split."""
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

SYNONYMS = ("activation patching", "ablation", "erasure", "logit lens", "tuned lens", "mechanistic")


TASKS = ("idn", "block_depth", "cpx", "syntax_relations")
"""Two properties of tokens, one of functions, and the relations whose heads are ablated."""


class CausalLens(ReadingLens):
    """The lens of interventions."""

    name = LENS
    version = "5"
    typed_options = CausalOptions
    tasks = TASKS
    targets = frozenset({"item", "span", "relation"})
    savings = "--option causal.items=50"
    headline = HeadlineMetric(
        subject="Interventions",
        measure="added bits per subword",
        finding="Erasing {task} costs more than erasing as much of something else",
        metrics=("bits",),
        where=has_dimensions({SELECTION: "best"}) & (pl.col("split") == "test"),
        controls=CONTROLS,
        share=False,
        paired="excess",
        otherwise=HeadlineMetric(
            subject="Last layers",
            measure="bits per subword",
            metrics=("bits",),
            where=has_dimensions({})
            & (pl.col("method") == "logit_lens")
            & ((pl.col("layer") == pl.col("layer").max().over("model")) | pl.col("layer").is_null()),
            controls={"unigram": "subword frequency in training"},
            share=False,
            lower=True,
        ),
    )
    # Of a series: a change that costs more is not a better one.
    comparable_metrics = (
        ComparableMetric(metric="bits", method="erase", without=("construct",)),
        ComparableMetric(metric="bits", method="ablate", without=("construct",)),
    )

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return why a model cannot be scored: it gives no probabilities of subwords, or no states."""
        if capabilities.kind in ("decoder", "encoder", "encoder-decoder") and not capabilities.lacks:
            return None
        return (
            f"lens 'causal' measures surprisal, but this {capabilities.kind} has "
            f"{capabilities.lacks or 'no states'}; use a decoder or a masked model, for example "
            "sonde/mini-decoder"
        )

    def describe_inputs(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> str:
        """Describe how many functions are read unmodified, and how many with which interventions."""
        options = read_options(settings)
        parts = [method.describe_plan(labels, settings) for method in _methods(settings)]
        description = "; ".join(filter(None, parts))
        item_count = min(options.items, len(inputs))
        return (
            f"{len(inputs):,} functions are read unchanged, then up to {item_count:,} of them with each "
            f"change: {description}"
        )

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Return the requests of each method: of unmodified functions, in later stages with interventions."""
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
        """Return the item table: states in the first stage, effects and downstream states in later ones.

        docs/files.md describes the columns.
        """
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
        """Fit interventions in the first stage; in later ones return every effect with its controls."""
        if scoring.settings.stage:
            fits = read_fits(scoring.settings)
            return [
                score for method in _later_stages(scoring.settings) for score in method.score(fits, scoring)
            ]
        splits, measured_items = split_items(scoring)
        interventions = tuple(
            fit for method in _methods(scoring.settings) for fit in method.fit(scoring, splits)
        )
        scoring.stage_result.append(FittedInterventions(interventions, splits, measured_items).frame())
        return []

    def next_stage(self, scores: Sequence[Score], settings: LensSettings) -> Mapping[str, Option] | None:
        """Return the options of the next stage: a second always, a third if a property is to be tested."""
        if not settings.stage:
            return {}
        from sonde.lenses.causal.erase import select_test_layers

        return {} if settings.stage == 1 and select_test_layers(scores) else None

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """Describe what the model uses, and what it encodes without using it."""
        return describe_findings(scores)


def _methods(settings: LensSettings) -> list[CausalMethod]:
    return [METHODS_BY_NAME[name] for name in read_options(settings).methods]


def _later_stages(settings: LensSettings) -> list[LaterStage]:
    """Return the methods of a stage after the first."""
    if settings.stage == 1:
        return [*_methods(settings)]
    return [LAST_STAGES[name] for name in read_options(settings).methods if name in LAST_STAGES]


lens = CausalLens()
