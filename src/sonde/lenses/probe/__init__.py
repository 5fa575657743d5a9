"""Which properties of code each layer's frozen states encode (INSPECT), and what a trick would reach.

One plain pass pools the states of every layer; linear probes of all layers and penalties are trained
together. Clusters are dealt to folds: each fold is tested by probes of the others, with layer and penalty
chosen on yet another fold, so that every example is tested once and all clusters count. Beside every accuracy
stand what its surface gives away, the same architecture with random weights, and control tasks for tokens.

`headline_lines` builds what a run prints about the probes: one line per task and model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import polars as pl

from sonde.base.fingerprint import derive_seed
from sonde.capture.requests import Pass, Prepared
from sonde.corpora import Item
from sonde.lenses.engine.lens import CapturedItem, Control, LensDefaults, LensSettings, ScoringContext
from sonde.lenses.probe.data import isolated_items, observe_items, state_requests
from sonde.lenses.probe.fit import BEST, CONTROL_SEEDS, LENS, ProbeOptions, read_options, select_probe_device
from sonde.models import Capabilities
from sonde.results.headlines import describe_cues, index_cues
from sonde.results.layers import LayerSummary, summarise_layers
from sonde.results.schema import REASON, dimension_value, has_dimensions
from sonde.results.score_pairs import ComparableMetric
from sonde.results.scores import LEFT_OUT, Score
from sonde.results.text_format import caveat, format_score, number, plural
from sonde.stats.verdict import allows_verdict

NEEDS = ("encoder", "decoder", "encoder-decoder", "vectors")


TASKS = (
    "ktx", "idn", "len", "ocu", "vcu", "csc", "mxn", "cpx", "npt", "typ", "rea", "jbl", "sri", "srk", "sck",
)  # fmt: skip
"""The fifteen of INSPECT's paper."""


class ProbeLens(LensDefaults):
    """The probe lens."""

    name = LENS
    version = "5"
    typed_options = ProbeOptions
    tasks = TASKS
    targets = frozenset({"item", "span", "pair", "mutation"})
    uses_datasets = True
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

    def headline(self, scores: pl.DataFrame) -> Iterator[str]:
        """The chosen layer of every task with its gain over the best surface baseline."""
        return headline_lines(scores)


lens = ProbeLens()


def headline_lines(scores: pl.DataFrame) -> Iterator[str]:
    """Yield the accuracy of each chosen layer, its gain, what local cues tell and where a task is encoded.

    First comes what the numbers rest on.
    """
    accounts = summarise_layers(scores)
    told = index_cues(scores.filter((pl.col("split") == "test") & has_dimensions(dict([BEST]))))
    parts: dict[tuple[str, str], list[LayerSummary]] = {}
    for account in accounts:
        model, _, language = account.key
        parts.setdefault((model, language), []).append(account)
    for part in parts.values():
        yield _rests(part)
    for account in accounts:
        model, task, language = account.key
        accuracy, gain = account.accuracy, account.gain
        line = (
            f"{task} ({language}), {model}: accuracy {format_score(accuracy, 100)} % at "
            f"layer {account.chosen}, chosen on validation{caveat(accuracy)}"
        )
        if gain is not None:
            line += f"; {format_score(gain, 100, sign='+')} points over {gain['control']}{caveat(gain)}"
        if (both := told.get(account.key)) is not None:
            line += f"; {describe_cues(accuracy, *both)}"
        yield f"{line}; {account.describe()}"
    left_out = scores.filter(pl.col("metric") == LEFT_OUT).with_columns(reason=dimension_value(REASON))
    for row in left_out.iter_rows(named=True):
        what = f" ({row['control']})" if row["control"] else ""
        yield f"left out{what}, {row['model']}: {row['reason']}"


def _rests(accounts: Sequence[LayerSummary]) -> str:
    """How the tasks of a model were tested, on how many effective clusters, and how many allow a verdict."""
    model, _, language = accounts[0].key
    rows = [account.accuracy for account in accounts]
    firm = sum(account.gain is not None and allows_verdict(account.gain) for account in accounts)
    folds = sorted({row["k"] or 1 for row in rows})
    crossed = f"cross-fitted over {folds[-1]} folds by cluster"
    how = "on the test part of their split" if folds == [1] else crossed
    worth = sorted(row["effective_clusters"] for row in rows if row["effective_clusters"] is not None)
    fewest = [number(worth[0], 0)] if worth and number(worth[0], 0) != number(worth[-1], 0) else []
    rests = f", {' to '.join([*fewest, plural(worth[-1], 'effective cluster')])} a task" if worth else ""
    return (
        f"{model} ({language}): {plural(len(rows), 'task')} tested {how}{rests}; the gain over the surface "
        f"of the code allows a verdict in {firm}"
    )
