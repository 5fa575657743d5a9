"""Probes of a run: their options and protocol, the examples as arrays, and the fits on every layer.

Probes have one form whichever protocol trained them. torch is imported when they are trained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
import polars as pl
from annotated_types import Ge, Le
from jaxtyping import Bool, Float, Int, Num
from pydantic import PrivateAttr

from sonde.base.errors import InputError
from sonde.base.options import AnyDevice, Count, OneOf, Option, Options, Positive, Share, option
from sonde.lenses.engine.lens import LensSettings, QuirkHook
from sonde.results.schema import SELECTION
from sonde.training.probes.splits import MIN_FOLDS, Splits, check_folds, check_states, make_grouped_folds

if TYPE_CHECKING:
    from sonde.training.probes.linear import ProbeResult

LENS = "probe"


POOLINGS = ("mean", "last", "summary")


KINDS = ("linear", "mlp", "ridge")


SIZES = (100, 1_000, 10_000)


CONTROL_SEEDS = 3


CONTROL_LEAST = 40
"""Examples of a class that models with random weights read at least, however small their share."""


class ProbeOptions(Options):
    """The options of the lens."""

    lens = LENS

    pooling: tuple[Annotated[str, OneOf(POOLINGS)], ...] = option(
        POOLINGS, "how to pool the states of a whole text; the headline uses the first"
    )
    probe: tuple[Annotated[str, OneOf(KINDS)], ...] = option(
        ("linear", "ridge"), "kinds of probes; ridge needs a task with a number", scoring=True
    )
    l2: tuple[Positive, ...] = option(
        (1.0, 0.1, 0.01, 0.001), "l2 penalties to choose from on validation", scoring=True
    )
    folds: Annotated[int, Ge(1), Le(50)] = option(
        5,
        f"folds by cluster, each tested by probes of the others; below {MIN_FOLDS}, or if the source has "
        f"splits, the data set's own test split is used",
        scoring=True,
    )
    seeds: Count = option(
        3,
        "seeds for control tasks, hidden layers, whole trees (at least 5) and, without folds, curves",
        scoring=True,
    )
    controls: bool = option(
        True, "run surface baselines, control tasks and models with random weights", scoring=True
    )
    curves: bool = option(True, "measure accuracy at 100, 1,000 and 10,000 training examples", scoring=True)
    mdl: bool = option(False, "measure the online codelength of the labels", scoring=True)
    structural: Share = option(0.0, "share of the functions that structural probes decode; 0 for none")
    tree_ranks: tuple[Count, ...] = option(
        (128,),
        "dimensions of the subspaces that whole trees are decoded from, if structural is above 0; at most "
        "those of the states",
        scoring=True,
    )
    isolated: bool = option(False, "also probe tokens without their function")
    random_weights_share: Share = option(
        0.1,
        f"share of each class that models with random weights read, but at least {CONTROL_LEAST} examples "
        f"per class",
    )
    device: AnyDevice = option(
        "auto", "PyTorch device that trains the probes; auto is the model's device", scoring=True
    )
    baseline: str = option("", "name of the baseline model: the report shows gains over it", scoring=True)


@dataclass(frozen=True, slots=True)
class ProbeProtocol:
    """Protocol of training and testing probes.

    Attributes:
        fit: Trains a probe on every layer, on a device; None for the lens's own.
        uses_folds: Whether folds are dealt; else there is one test part.
        alone_first: Whether the headline is about tokens that are shown alone, where they are.
    """

    fit: Callable[[States, Examples, str], FittedProbes] | None = None
    uses_folds: bool = True
    alone_first: bool = False


DEFAULTS: QuirkHook[Mapping[str, Option], []] = QuirkHook(LENS)
"""What options are where a user gives none; none of them for what `ProbeOptions` says."""


PROTOCOL: QuirkHook[ProbeProtocol, []] = QuirkHook(LENS)
"""How probes are trained and tested."""


class ResolvedProbeOptions(ProbeOptions):
    """The options of a run, and the protocol of its probes."""

    _protocol: ProbeProtocol = PrivateAttr(ProbeProtocol())

    @property
    def protocol(self) -> ProbeProtocol:
        """Return the protocol of training and testing."""
        return self._protocol

    @property
    def uses_folds(self) -> bool:
        """Return whether folds are dealt."""
        return self.folds >= MIN_FOLDS and self._protocol.uses_folds


def select_probe_device(device: str, run: str) -> str:
    """Select the device of probes: the option's, else the run's if it has double precision."""
    if device != "auto":
        return device
    return run if run.split(":")[0] in ("cuda", "xpu") else "cpu"


def read_options(settings: LensSettings) -> ResolvedProbeOptions:
    """Read the options of a lens's settings.

    Raises:
        UsageError: A value that cannot be used.
        UnknownNameError: A pooling or probe that does not exist.
    """
    options = ResolvedProbeOptions.read({**DEFAULTS.resolve(settings, {}), **settings.options})
    options._protocol = PROTOCOL.resolve(settings, ProbeProtocol())
    return options


IS_WHOLE = (pl.col("start") == 0) & (pl.col("end") == pl.col("characters")) & pl.col("other_start").is_null()
"""Whether an example is about the whole of its text."""


States = Float[np.ndarray, "layer example d_model"]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """A task's examples as arrays, in one order.

    Attributes:
        task: Public name.
        frame: Their rows in `sonde.tasks.EXAMPLE_SCHEMA`.
        classes: Names of the classes, numbers in their order.
        labels: Class of each example.
        values: The number before classes; NaN where there is none.
        lengths: Code tokens and characters of each text.
        clusters: What is resampled as one, by its number among all clusters of the task.
        folds: Rows that train, choose and are tested, in each fold; one fold where a split is given.
    """

    task: str
    frame: pl.DataFrame
    classes: tuple[str, ...]
    labels: Int[np.ndarray, " example"]
    values: Float[np.ndarray, " example"]
    lengths: Float[np.ndarray, "example length"]
    clusters: Int[np.ndarray, " example"]
    folds: tuple[Splits, ...]

    @classmethod
    def from_frame(cls, task: str, frame: pl.DataFrame) -> Examples:
        """Build examples from a table, in its own splits; rows without a label are left out."""
        frame = frame.filter(pl.col("label").is_not_null())
        classes = tuple(sorted(frame["label"].unique().to_list(), key=_as_number))
        number = {label: index for index, label in enumerate(classes)}
        return cls(
            task=task,
            frame=frame,
            classes=classes,
            labels=np.array([number[label] for label in frame["label"].to_list()], dtype=np.int64),
            values=frame["value"].fill_null(float("nan")).to_numpy(),
            lengths=frame.select("tokens", "characters").to_numpy().astype(np.float64),
            clusters=frame["cluster"].rank("dense").to_numpy().astype(np.int64) - 1,
            folds=(Splits.from_names(frame["split"].to_list()),),
        )

    def assign_folds(self, folds: int, seed: int) -> Examples:
        """Assign the examples to folds by cluster; a split given by the source stays.

        Raises:
            InputError: There are fewer than three clusters.
        """
        if self.frame["given_split"].any():
            return self
        try:
            return replace(self, folds=make_grouped_folds(self.labels, self.clusters, folds, seed))
        except InputError as error:
            raise InputError(f"task {self.task!r}: {error}") from error

    def select(self, rows: Int[np.ndarray, " row"]) -> Examples:
        """Select some examples, each in its fold; classes without examples are dropped."""
        new_index = np.full(len(self.labels), -1)
        new_index[rows] = np.arange(len(rows))
        folds = [
            Splits(
                *(
                    positions[positions >= 0]
                    for positions in (new_index[part] for part in (fold.train, fold.valid, fold.test))
                )
            )
            for fold in self.folds
        ]
        # Clusters keep their numbers, which name them.
        selected_examples = Examples.from_frame(self.task, self.frame[rows])
        return replace(selected_examples, folds=tuple(folds), clusters=self.clusters[rows])

    @property
    def tested_rows(self) -> Int[np.ndarray, " tested"]:
        """Return rows that are tested, fold after fold: the order of all that is predicted."""
        return np.concatenate([parts.test for parts in self.folds])

    @property
    def types(self) -> list[str]:
        """Return the surface of each token; empty for other tasks."""
        return self.frame["type"].to_list()

    @property
    def about_tokens(self) -> bool:
        """Return whether the examples are tokens."""
        return bool((self.frame["type"] != "").any())

    @property
    def are_texts(self) -> bool:
        """Return whether every example is a whole text."""
        return self.frame.filter(~IS_WHOLE).is_empty()


def _as_number(label: str) -> tuple[float, str]:
    """Numbers in their order, other names after them in theirs."""
    try:
        return float(label), ""
    except ValueError:
        return float("inf"), label


@dataclass(frozen=True, slots=True, eq=False)
class FittedProbes:
    """Probes on every layer, of one fold or of several whose tested examples follow each other.

    Attributes:
        kind: ``linear``, ``mlp``, or what a published protocol calls its own.
        predicted: Class that each layer's probe gives to each tested example.
        correct: Whether it is right; a share of the seeds where there are several.
        valid: Validation accuracy of each layer, the mean over folds.
        l2: Penalty of each layer, the one that most folds chose.
        layers: The layer that each fold chose on its own validation part.
        sizes: Examples that each fold tests.
    """

    kind: str
    predicted: Int[np.ndarray, "layer tested"]
    correct: Bool[np.ndarray, "layer tested"] | Float[np.ndarray, "layer tested"]
    valid: Float[np.ndarray, " layer"]
    l2: Float[np.ndarray, " layer"]
    layers: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def best(self) -> int:
        """Return the layer that most folds chose; of equals the better one on validation."""
        times = Counter(self.layers)
        return max(times, key=lambda layer: (times[layer], self.valid[layer], -layer))

    def at_best_layer(self, table: Num[np.ndarray, "layer tested"]) -> Num[np.ndarray, " tested"]:
        """Select from a table by layer the layer that was chosen in each tested example's fold."""
        return table[np.repeat(self.layers, self.sizes), np.arange(table.shape[1])]


BEST = (SELECTION, "best")
"""Dimension of scores of the layer that was chosen on validation."""


def join_folds(folds: Sequence[FittedProbes]) -> FittedProbes:
    """Join folds, their tested examples one after the other."""
    penalties = np.stack([fold.l2 for fold in folds])
    return FittedProbes(
        kind=folds[0].kind,
        predicted=np.concatenate([fold.predicted for fold in folds], axis=1),
        correct=np.concatenate([fold.correct for fold in folds], axis=1),
        valid=np.mean([fold.valid for fold in folds], axis=0),
        l2=np.array([_commonest(layer_penalties) for layer_penalties in penalties.T.tolist()]),
        layers=tuple(layer for fold in folds for layer in fold.layers),
        sizes=tuple(size for fold in folds for size in fold.sizes),
    )


def _commonest(penalties: Sequence[float]) -> float:
    """Return the commonest value; of equals the strongest."""
    times = Counter(penalties)
    return max(times, key=lambda penalty: (times[penalty], penalty))


def fit_probes(states: States, examples: Examples, options: ResolvedProbeOptions) -> FittedProbes:
    """Probe the labels of a task, in every fold.

    Raises:
        InputError: States that are not finite, one class only, or a class missing in a split.
    """
    check_states(examples.task, states)
    check_folds(examples.task, examples.labels, examples.classes, examples.folds)
    if options.protocol.fit is not None:
        return options.protocol.fit(states, examples, options.device)
    return fit_label_sets(states, examples.labels[None], examples, examples.folds, options)[0]


def fit_label_sets(
    states: States,
    labels: Int[np.ndarray, "target example"],
    examples: Examples,
    folds: Sequence[Splits],
    options: ResolvedProbeOptions,
) -> list[FittedProbes]:
    """Fit linear probes for several label sets of the same classes at once."""
    from sonde.training.probes.linear import probe_layers

    folds_by_labels: list[list[FittedProbes]] = [[] for _ in labels]
    for parts in folds:
        results = probe_layers(
            states, labels, len(examples.classes), parts, l2=options.l2, device=options.device
        )
        for label_folds, result, gold in zip(folds_by_labels, results, labels, strict=True):
            label_folds.append(evaluate_probes("linear", result, gold[parts.test]))
    return [join_folds(label_folds) for label_folds in folds_by_labels]


def evaluate_probes(kind: str, result: ProbeResult, gold: Int[np.ndarray, " tested"]) -> FittedProbes:
    """Evaluate the probes of one fold on the labels of its tested examples."""
    predictions = result.predicted
    return FittedProbes(
        kind=kind,
        predicted=predictions,
        correct=predictions == gold,
        valid=result.chosen_valid_accuracy,
        l2=result.l2,
        layers=(result.best,),
        sizes=(len(gold),),
    )


def fit_hidden_probes(
    states: States, examples: Examples, seeds: Sequence[int], options: ResolvedProbeOptions
) -> FittedProbes:
    """Probes with one hidden layer, in every fold; right is the share of the seeds that are."""
    from sonde.training.probes.adam import train_mlp_layers

    folds: list[FittedProbes] = []
    for parts in examples.folds:
        trained_probes = train_mlp_layers(
            states,
            examples.labels,
            examples.classes,
            parts,
            seeds=seeds,
            name=examples.task,
            device=options.device,
        )
        by_seed = [evaluate_probes("mlp", probes, examples.labels[parts.test]) for probes in trained_probes]
        correct = np.mean([probes.correct for probes in by_seed], axis=0)
        valid = np.mean([probes.valid for probes in by_seed], axis=0)
        folds.append(replace(by_seed[0], correct=correct, valid=valid, layers=(int(valid.argmax()),)))
    return join_folds(folds)
