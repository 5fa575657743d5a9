"""Probes each layer's frozen states for properties of code, against surface baselines (INSPECT).

One forward pass gives the pooled states of every layer; linear probes of all layers and penalties are trained
together. Clusters are divided into folds: each fold is tested by probes trained on others, with layer and
penalty chosen on yet another fold, so that every example is tested once and all clusters count. Every
accuracy is compared with surface baselines, the same architecture with random weights, and control tasks for
tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import polars as pl

from sonde.base.fingerprint import derive_seed
from sonde.capture.requests import Pass, Prepared
from sonde.corpora import Item
from sonde.lenses.engine.lens import CapturedItem, Control, LensSettings, ReadingLens, ScoringContext
from sonde.lenses.probe.data import isolated_items, observe_items, state_requests
from sonde.lenses.probe.fit import BEST, CONTROL_SEEDS, LENS, ProbeOptions, read_options, select_probe_device
from sonde.models import Capabilities
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import has_dimensions
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import Score

NEEDS = ("encoder", "decoder", "encoder-decoder", "vectors")

SYNONYMS = ("probing", "linear probe", "diagnostic classifier", "representations", "hidden states")


TASKS = (
    "ktx", "idn", "len", "ocu", "vcu", "csc", "mxn", "cpx", "npt", "typ", "rea", "jbl", "sri", "srk", "sck",
)  # fmt: skip
"""The fifteen of INSPECT's paper."""


class ProbeLens(ReadingLens):
    """The probe lens."""

    name = LENS
    version = "5"
    typed_options = ProbeOptions
    tasks = TASKS
    targets = frozenset({"item", "span", "pair", "mutation"})
    uses_datasets = True
    savings = "--option probe.random_weights_share=0"
    headline = HeadlineMetric(
        subject="Probes",
        measure="examples right",
        finding="{task} can be read from the states",
        metrics=("accuracy",),
        where=has_dimensions(dict([BEST])) & (pl.col("split") == "test") & pl.col("method").ne_missing("mlp"),
        controls={
            "majority": "the commonest class",
            "length": "the length of the code",
            "bag_of_tokens": "a bag of tokens",
            "parse_error": "whether the code parses",
            "artefacts": "traces of how the examples were made",
            "surface": "the spelling of the token",
            "type": "the most frequent class of the token",
            "distance": "the distance between the two",
            "chosen_baseline": "the baseline that validation chose",
        },
        of_layer=True,
    )
    comparable_metrics = (
        ComparableMetric(metric="accuracy", direction="higher"),
        ComparableMetric(metric="r2", direction="higher"),
    )
    comparison_options = MappingProxyType({"controls": False, "curves": False, "mdl": False})

    def unsupported_reason(self, capabilities: Capabilities) -> str | None:
        """Return no reason, since every model has states."""
        return None

    def controls(self, settings: LensSettings) -> tuple[Control, ...]:
        """Return three controls with random weights, over a share of the inputs."""
        options = read_options(settings)
        if not (options.controls and options.random_weights_share):
            return ()
        seeds = [derive_seed("twin", settings.seed, number) % 2**31 for number in range(CONTROL_SEEDS)]
        return tuple(Control(seed, options.random_weights_share) for seed in seeds)

    def assign_controls(
        self, inputs: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Control, ...]:
        """Assign the three controls a share of every class, so that small data sets keep theirs."""
        from sonde.lenses.probe.controls import share_of_classes

        controls = self.controls(settings)
        read = share_of_classes(inputs, labels, controls[0].share) if controls else ()
        return tuple(dataclasses.replace(control, items=read) for control in controls)

    def select_test_rows(self, examples: pl.DataFrame, settings: LensSettings) -> pl.DataFrame:
        """Select all examples where folds are dealt, else the test part."""
        uses_all = read_options(settings).uses_folds and not examples["given_split"].any()
        return examples if uses_all else super().select_test_rows(examples, settings)

    def inputs(
        self, items: Sequence[Item], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> Sequence[Item]:
        """Return the inputs of the data sets, and each surface where tokens are shown alone."""
        if not read_options(settings).isolated:
            return items
        return [*items, *isolated_items(items, labels)]

    def input_requests(
        self, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
    ) -> tuple[Pass, ...]:
        """Request one plain pass that pools the states of every layer, embeddings included."""
        options = read_options(settings)
        return state_requests(prepared, labels, options.pooling, options.structural)

    def observe(
        self,
        observed: Sequence[CapturedItem],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
        surfaces: Sequence[str],
    ) -> pl.DataFrame:
        """Build one row per pooled vector of all layers; see docs/files.md for the columns.

        Raises:
            CaptureError: A state is infinite or NaN.
        """
        options = read_options(settings)
        return observe_items(observed, labels, options.pooling, options.structural)

    def score(self, scoring: ScoringContext) -> list[Score]:
        """Score every task; one that cannot be scored says why, and the others go on."""
        # Imported here: a run that is refused at once does not wait for torch.
        from sonde.lenses.probe.score import score_tasks
        from sonde.lenses.probe.trees import structural_rows

        options = read_options(scoring.settings)
        options = options.model_copy(update={"device": select_probe_device(options.device, scoring.device)})
        rows = score_tasks(scoring, options)
        return [*rows, *structural_rows(scoring, options)] if options.structural else rows


lens = ProbeLens()
