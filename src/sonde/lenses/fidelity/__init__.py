"""Measures how far a model is from a base model of the same vocabulary, such as its quantised weights.

Both models read each batch side by side. At each subword the lens compares what they predict: the divergence
both ways, whether the first choice is the same, which right answers were won and lost (flips), and how the
probability of the actual subword changed. Numbers are given over all text and by construct, kind, role and
position.

Of each function sums are stored, and a few places where the two differ most; no logits and no predictions of
single subwords.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from sonde.base.formatting import plural
from sonde.base.options import Count, Options, option
from sonde.capture.fidelity import Fidelity
from sonde.capture.requests import Pass, Plain, Prepared
from sonde.languages import format_language
from sonde.lenses.engine.lens import CapturedItem, LensSettings, ReadingLens, ScoringContext
from sonde.lenses.fidelity.observe import observe_items
from sonde.lenses.fidelity.score import score_fidelity
from sonde.models import Capabilities
from sonde.results.fidelity import LENS, build_ladder, describe_row, describe_smallest
from sonde.results.headlines import HeadlineMetric
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score

NEEDS = ("decoder",)

FLAGS = {"--fidelity": ""}

SYNONYMS = ("quantisation", "quantization", "kl divergence", "kld", "flips", "distillation", "pruning")


class FidelityOptions(Options):
    """The options of the lens."""

    lens = LENS

    base: str = option(
        "",
        "model that the others are compared with; it has their vocabulary",
        unset="the first model of the run",
    )
    min_count: Count = option(20, "minimum number of subwords for a slice to have its own row", scoring=True)


class FidelityLens(ReadingLens):
    """The fidelity lens."""

    name = LENS
    version = "1"
    typed_options = FidelityOptions
    compares_with_base = True
    headline = HeadlineMetric(
        subject="Divergence from the base",
        measure="nats of KL divergence per subword",
        metrics=("kl",),
        share=False,
        lower=True,
    )
    comparable_metrics = (
        ComparableMetric(metric="kl", direction="lower"),
        ComparableMetric(metric="flips", direction="lower"),
    )

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return why a model cannot be compared: it does not predict the next subword."""
        if capabilities.kind != "decoder" or not capabilities.head:
            return (
                f"lens 'fidelity' compares what decoders predict next, and this {capabilities.kind} has "
                f"{capabilities.lacks or 'no such prediction'}; use a decoder, for example sonde/mini-decoder"
            )
        return None

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Return one pass over the texts as they are, with the base beside the model."""
        assert settings.base is not None
        return (Pass(Plain(), (Fidelity(settings.base),)),)

    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """Return sums by item, dimension and slice, and the places that differ most."""
        return observe_items(observed, surfaces)

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Return every number of the model beside its base, with its interval."""
        options = FidelityOptions.read(scoring.settings.options)
        return list(score_fidelity(scoring, options.base, options.min_count))

    def details(self, scores: pl.DataFrame) -> Iterator[str]:
        """Describe the models as a ladder: size, divergence, flips and loss, and the smallest not worse."""
        for ladder in build_ladder(scores):
            row = ladder.rows[0]
            size = f"n = {plural(row['n'], 'subword')}, {plural(row['n_clusters'], 'cluster')}"
            yield ""
            yield f"Fidelity on {format_language(ladder.language)}, compared with {ladder.base} ({size})"
            yield from (f"  {describe_row(row)}" for row in ladder.rows)
            yield f"  {describe_smallest(ladder)}"


lens = FidelityLens()
