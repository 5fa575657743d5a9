"""Erased properties with their examples, and the maps that erase them or meaningless controls.

Everything is fitted on the training split, to the units that a map is applied to: the subwords of tokens, or
all subwords of functions, each weighted by one over the length of its token or function. Only the width of
subspaces is taken from the functions that effects are measured on, without their labels.

The control labels say nothing of the property: what erasing them costs, any such labels would cost. A
property of functions is compared with its own labels in another order, within strata of equal length, since
long functions cost more than short ones whatever is erased. A property of tokens is compared with the labels
of another function, and with a class drawn for each word (the control task of Hewitt and Liang 2019).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.lenses.causal.effects import join_splits
from sonde.lenses.causal.findings import CONTROL_TASK, DONORS, PERMUTED, UNIFORM, WIDE
from sonde.lenses.causal.interventions import FittedIntervention, unpack_states
from sonde.lenses.engine.lens import ScoringContext
from sonde.stats.estimate import kish
from sonde.tasks.engine.task import TASKS
from sonde.training.erasure import (
    Eraser,
    StateDistribution,
    compute_second_moment,
    encode_one_hot,
    equal_change_subspaces,
    leace,
    uniform_subspaces,
)
from sonde.training.probes.control_tasks import sample_control_labels

SAMPLE_SIZE = 12
"""Tokens of a function, and subwords, whose states are looked at."""


MINIMUM_FUNCTIONS = 10
"""Functions of a class below which it is left out."""


CLUSTERS = 20
"""Effective clusters that maps are fitted to, below which there is no verdict and nothing is erased."""


A_DIMENSION = 2
"""Examples a dimension of the states below which nothing is erased: with fewer, a map takes along what only
chance ties to the classes, and whatever it costs says nothing about them."""


Span = tuple[int, int]


def erased_properties(labels: Mapping[str, pl.DataFrame]) -> list[str]:
    """Return the properties that are erased."""
    return [task for task in labels if TASKS.load(task).target in ("span", "item")]


def is_function_property(task: str) -> bool:
    """Return whether a property is one of whole functions."""
    return TASKS.load(task).target == "item"


def collect_labelled_tokens(labels: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, tuple[Span, ...]]]:
    """Collect, for each property of tokens, the labelled spans of each function."""
    spans_by_task: dict[str, dict[str, tuple[Span, ...]]] = {}
    for task in erased_properties(labels):
        if not is_function_property(task):
            rows = labels[task].filter(pl.col("label").is_not_null()).sort("item_id", "start")
            item_rows = rows.group_by("item_id", maintain_order=True).agg("start", "end")
            spans_by_task[task] = {
                item: tuple(zip(start, end, strict=True)) for item, start, end in item_rows.iter_rows()
            }
    return spans_by_task


def sample_spans(item: str, spans: Sequence[Span]) -> list[Span]:
    """Sample the spans of a function whose states are read."""
    return sorted(sorted(spans, key=lambda span: unit_hash("token", item, span[0]))[:SAMPLE_SIZE])


@dataclass(frozen=True, slots=False, eq=False)
class PropertyExamples:
    """The examples of one property, in order.

    Attributes:
        task: The property.
        frame: ``item_id, label, split, cluster``, of tokens also ``start, end``; those with states.
        all_examples: The same of all labelled examples of those functions.
        sampled_spans: Tokens that represent all of a function's: ``item_id, start, end``, and how many
            labelled ones the function has.
        by_item: Text of each function.
    """

    task: str
    frame: pl.DataFrame
    all_examples: pl.DataFrame
    sampled_spans: pl.DataFrame
    by_item: Mapping[str, str]

    @classmethod
    def from_labels(
        cls,
        task: str,
        scoring: ScoringContext,
        splits: Mapping[str, str],
        texts: Mapping[str, str] | None = None,
    ) -> PropertyExamples:
        """Build all examples of a property, without classes of too few functions of the training split."""
        labels = scoring.labels[task].filter(pl.col("label").is_not_null())
        rows = join_splits(labels, scoring, splits)
        train = rows.filter(pl.col("split") == "train")
        sizes = train.group_by("label").agg(pl.col("item_id").n_unique())
        classes = sizes.filter(pl.col("item_id") >= MINIMUM_FUNCTIONS)["label"].implode()
        keys = key_columns(task)
        examples = (
            rows.filter(pl.col("label").is_in(classes)).select(*keys, "label", "split", "cluster").sort(keys)
        )
        return cls(task, examples, examples, _sampled_spans(task, labels), texts or {})

    def select(self, split: str, rows: pl.DataFrame) -> PropertyExamples:
        """Select the sampled examples of one split whose states were read."""
        keys = key_columns(self.task)
        examples = self.all_examples.filter(pl.col("split") == split)
        sampled_examples = examples.join(
            rows.filter(pl.col("what") == state_type(self.task)), on=keys, how="semi"
        )
        if not is_function_property(self.task):
            sampled_examples = sampled_examples.join(self.sampled_spans, on=keys, how="semi")
        return PropertyExamples(
            self.task, sampled_examples.sort(keys), examples, self.sampled_spans, self.by_item
        )

    @cached_property
    def classes(self) -> list[str]:
        """Return the classes, in order."""
        return sorted(self.all_examples["label"].unique().to_list())

    @cached_property
    def labels(self) -> Int[np.ndarray, " example"]:
        """Return the number of the class of each example."""
        return number_classes(self.frame, self.classes)

    @property
    def clusters(self) -> list[str]:
        """Return the cluster of each example."""
        return self.frame["cluster"].to_list()

    @property
    def texts(self) -> list[str]:
        """Return the text of each example's function."""
        return [self.by_item[item] for item in self.frame["item_id"].to_list()]

    @property
    def words(self) -> list[str]:
        """Return each token as it is written."""
        keys = self.frame.select("item_id", "start", "end")
        return [self.by_item[item][start:end] for item, start, end in keys.iter_rows()]

    @cached_property
    def sequences(self) -> dict[str, list[tuple[int, int]]]:
        """Return, for each function, the first character and class of its labelled tokens in order."""
        sequences: dict[str, list[tuple[int, int]]] = {}
        numbers = number_classes(self.all_examples, self.classes).tolist()
        for (item, start), number in zip(
            self.all_examples.select("item_id", "start").iter_rows(), numbers, strict=True
        ):
            sequences.setdefault(item, []).append((start, number))
        return sequences

    @property
    def effective_clusters(self) -> float:
        """Return the effective number of clusters of the examples' functions."""
        items = self.frame.select("item_id", "cluster").unique()
        return kish(np.array(list(Counter(items["cluster"].to_list()).values()), dtype=np.float64))


def _sampled_spans(task: str, labels: pl.DataFrame) -> pl.DataFrame:
    spans_by_item = {} if is_function_property(task) else collect_labelled_tokens({task: labels})[task]
    rows = [
        (item, start, end, len(spans))
        for item, spans in spans_by_item.items()
        for start, end in sample_spans(item, spans)
    ]
    kinds = {"item_id": pl.String, "start": pl.Int32, "end": pl.Int32, "labelled": pl.Int32}
    return pl.DataFrame(rows, schema=kinds, orient="row")


def key_columns(task: str) -> list[str]:
    """Return the columns that identify the examples of a property."""
    return ["item_id"] if is_function_property(task) else ["item_id", "start", "end"]


def state_type(task: str) -> str:
    """Return the type of rows that hold the states of a property's examples."""
    return "mean" if is_function_property(task) else "token"


def join_states(task: str, examples: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Join examples with their states; examples without states are dropped."""
    keys = key_columns(task)
    state_rows = rows.filter(pl.col("what") == state_type(task)).select(*keys, "first", "states", "scale")
    return examples.join(state_rows, on=keys).sort(keys)


def number_classes(examples: pl.DataFrame, classes: Sequence[str]) -> Int[np.ndarray, " example"]:
    """Return the number of each example's class."""
    number = {label: index for index, label in enumerate(classes)}
    return np.array([number[label] for label in examples["label"].to_list()], dtype=np.int64)


def unfitted_reason(train: PropertyExamples, rows: pl.DataFrame) -> str:
    """Return why no map is fitted for a property; empty if one is.

    Args:
        train: Its examples of the training split.
        rows: States of the first stage.
    """
    task = train.task
    if train.frame["label"].n_unique() < 2:
        return f"fewer than two classes of {task} have {MINIMUM_FUNCTIONS} functions or more to be fitted to"
    if (clusters := train.effective_clusters) < CLUSTERS:
        return (
            f"{task}: a map is fitted to {CLUSTERS} effective clusters at least, and the training split has "
            f"{clusters:.3g}; more functions of more repositories or modules would do (--limit)"
        )
    dimensions = unpack_states(rows.filter(pl.col("what") == state_type(task)).head(1)).shape[-1]
    # Where states lie is fitted to tokens, and for a property of functions to some subwords of each.
    token_count = train.frame.height * (SAMPLE_SIZE if is_function_property(task) else 1)
    if token_count < (required_count := A_DIMENSION * dimensions):
        return (
            f"{task}: a map that erases from {dimensions:,} dimensions is fitted to {required_count:,} "
            f"tokens at least, and {token_count:,} of the training split were read; more functions would do "
            "(--limit)"
        )
    return ""


Labels = Int[np.ndarray, " example"]


STRATA = 10
"""Strata of equal length within which labels are permuted."""


FOLDS, WORD_FUNCTIONS = 5, 2
"""Folds in which words predict classes, and the minimum number of functions with a word."""


def permuted_within_strata(
    labels: Labels,
    clusters: Sequence[str],
    lengths: Float[np.ndarray, " example"],
    rng: np.random.Generator,
) -> Labels:
    """Permute the labels of functions among those of about the same length.

    Where each cluster has one label alone, whole clusters exchange theirs.

    Args:
        labels: Of each function.
        clusters: Of each function.
        lengths: Of each function.
        rng: Source of the order.

    >>> labels, lengths = np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0])
    >>> permuted_within_strata(labels, ["a", "b", "c"], lengths, np.random.default_rng(0)).tolist()
    [0, 1, 0]
    """
    names, owner = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    pairs = np.unique(np.stack([owner, labels]), axis=1)
    if pairs.shape[1] > len(names):
        return labels[_permute_units(lengths, rng)]
    mean = np.bincount(owner, lengths) / np.bincount(owner)
    # One label a cluster: in the order of clusters, which is that of the pairs.
    return pairs[1][_permute_units(mean, rng)][owner]


def _permute_units(lengths: Float[np.ndarray, " unit"], rng: np.random.Generator) -> Int[np.ndarray, " unit"]:
    """Return, for each unit, the unit whose label it gets."""
    rank = np.argsort(np.argsort(lengths, kind="stable"), kind="stable")
    stratum = rank * STRATA // len(lengths)
    donors = np.arange(len(lengths))
    for number in range(STRATA):
        members = np.flatnonzero(stratum == number)
        donors[members] = rng.permutation(members)
    return donors


def from_donors(
    tokens: Sequence[tuple[str, int]],
    sequences: Mapping[str, Sequence[tuple[int, int]]],
    rng: np.random.Generator,
) -> Labels:
    """Return labels of tokens from another function's tokens at the same relative position.

    Args:
        tokens: Function and first character of each token.
        sequences: For each function its labelled tokens in order: first character and class.
        rng: Deals functions to each other.

    >>> sequences = {"f": [(0, 0), (4, 0)], "g": [(0, 1), (3, 1), (6, 2), (9, 2)]}
    >>> from_donors([("f", 4), ("g", 9)], sequences, np.random.default_rng(0)).tolist()
    [2, 0]
    """
    order = rng.permutation(sorted(sequences)).tolist()
    donor = dict(zip(order, order[1:] + order[:1], strict=True))
    rank = {
        (item, start): (index + 0.5) / len(sequence)
        for item, sequence in sequences.items()
        for index, (start, _) in enumerate(sequence)
    }
    donor_sequences = [sequences[donor[item]] for item, _ in tokens]
    labels = [
        sequence[int(rank[token] * len(sequence))][1]
        for token, sequence in zip(tokens, donor_sequences, strict=True)
    ]
    return np.array(labels, dtype=np.int64)


def surface_features(
    texts: Sequence[str], labels: Labels, clusters: Sequence[str], seed: int
) -> Float[np.ndarray, "example feature"]:
    """Return surface features of functions: their length, and the class predicted from their words.

    Classes are predicted fold by fold, by logistic regression on counts of words (the surface battery of
    probes) that has seen nothing of the function's cluster.

    Args:
        texts: Of each function.
        labels: Of each function.
        clusters: Of each function.
        seed: Deals folds.
    """
    from sonde.tasks.engine.surface import bag_words, predict_by_words
    from sonde.training.probes.splits import make_grouped_folds

    length = np.log1p(np.array([[len(text), text.count("\n")] for text in texts], dtype=np.float64))
    owner = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)[1]
    bags, names = [bag_words(text) for text in texts], labels.astype(str)
    predicted_labels = labels.copy()
    for fold in make_grouped_folds(labels, owner, FOLDS, seed):
        parts = fold.train, fold.valid, fold.test
        if len(np.unique(labels[fold.train])) > 1:
            predicted_labels[fold.test] = np.array(
                predict_by_words(bags, names, parts, WORD_FUNCTIONS), dtype=np.int64
            )
        else:
            predicted_labels[fold.test] = labels[fold.train][0]
    return np.concatenate([length, length**2, encode_one_hot(predicted_labels)], axis=1)


NAME = "erase"


LEACE = "leace"


SURFACE, PERMUTED_SURFACE = "surface", "permuted_surface"
"""Kinds of changes: the property, labels that say nothing, subspaces of no meaning; and the labels of
functions together with what the surface says, with the labels as they are and in another order."""


LABEL_DRAWS, SUBSPACE_DRAWS = 20, 10
"""Draws of labels of a kind, and of subspaces, that a verdict rests on."""


SCREENING_DRAWS = 2
"""Draws at every layer, on validation alone, by which one layer is chosen."""


def format_draw(kind: str, number: int = 0) -> str:
    """Return the name of a draw of a control."""
    return f"{kind} {number}"


def label_controls(task: str) -> tuple[str, ...]:
    """Return the kinds of control labels of a property."""
    return (PERMUTED,) if is_function_property(task) else (DONORS, CONTROL_TASK)


def controls(task: str) -> tuple[str, ...]:
    """Return the kinds of controls that a property has at every layer."""
    return (*label_controls(task), UNIFORM, WIDE)


@dataclass(frozen=True, slots=False, eq=False)
class FitUnits:
    """Units that the maps of a property are fitted to.

    Attributes:
        examples: Functions or tokens of the training split.
        states: By layer, of each unit.
        owner: The example of each unit.
        weights: How much each unit counts.
        cloud_states: By layer, states that represent the distribution: the units, or subwords of functions.
        cloud_weights: How much each of these counts.
        applied_states: By layer, states of measured functions at positions where the map is applied; in the
            first stage at fewer of them.
        applied_weights: How many such places each of these represents.
    """

    examples: PropertyExamples
    states: Float[np.ndarray, "layer unit d_model"]
    owner: Int[np.ndarray, " unit"]
    weights: Float[np.ndarray, " unit"]
    cloud_states: Float[np.ndarray, "layer place d_model"]
    cloud_weights: Float[np.ndarray, " place"]
    applied_states: Float[np.ndarray, "layer place d_model"]
    applied_weights: Float[np.ndarray, " place"]

    @cached_property
    def clouds(self) -> list[StateDistribution]:
        """Return the distribution of the states of each layer."""
        return [StateDistribution.from_states(states, self.cloud_weights) for states in self.cloud_states]

    def fit_eraser(self, layer: int, targets: np.ndarray) -> Eraser:
        """Fit the map that erases classes or numbers, one per example."""
        return leace(self.states[layer], targets[self.owner], weights=self.weights, cloud=self.clouds[layer])


def build_fit_units(
    task: str, examples: PropertyExamples, rows: pl.DataFrame, measured_items: frozenset[str]
) -> FitUnits:
    """Build the units that the maps of a property are fitted to.

    Args:
        task: The property.
        examples: Of the training split, see `sonde.lenses.causal.erase_maps.PropertyExamples.select`.
        rows: States of the first stage, of all functions.
        measured_items: Functions that effects are measured on.
    """
    applied_rows = rows.filter((pl.col("what") == "place") & (pl.col("subject") == task))
    is_measured = pl.col("item_id").is_in(pl.Series(sorted(measured_items), dtype=pl.String).implode())
    if is_function_property(task):
        means = join_states(task, examples.frame, rows)
        item_ids = pl.Series(examples.frame["item_id"].unique(), dtype=pl.String).implode()
        subwords = rows.filter(pl.col("what") == "subword").sort("item_id", "start")
        cloud_rows = subwords.filter(pl.col("item_id").is_in(item_ids))
        position_rows = applied_rows if applied_rows.height else subwords.filter(is_measured)
        size = means.height
        return FitUnits(
            examples, unpack_states(means), np.arange(size), np.ones(size),
            unpack_states(cloud_rows), 1.0 / _count_by_function(cloud_rows), unpack_states(position_rows),
            position_rows["n"].to_numpy() / _count_by_function(position_rows),
        )  # fmt: skip
    keys = ["item_id", "start", "end"]
    parts = rows.filter(pl.col("what") == "part").select(*keys, "states", "scale")
    whole_tokens = rows.filter(pl.col("what") == "token").join(parts, on=keys, how="anti")
    all_units = pl.concat([parts, whole_tokens.select(parts.columns)])
    numbers = examples.frame.with_row_index("_example").select(*keys, "_example")
    units = all_units.join(numbers, on=keys).sort("_example", maintain_order=True)
    owner = units["_example"].to_numpy().astype(np.int64)
    weights = 1.0 / np.bincount(owner)[owner]
    states = unpack_states(units)
    if applied_rows.height:
        stands_for = applied_rows["n"].to_numpy() / _count_by_function(applied_rows)
    else:
        applied_rows = (
            all_units.join(examples.sampled_spans, on=keys)
            .filter(is_measured)
            .sort(keys, maintain_order=True)
        )
        read_counts = applied_rows.select(pl.struct("start", "end").n_unique().over("item_id")).to_series()
        stands_for = (applied_rows["labelled"] / read_counts).to_numpy()
    return FitUnits(
        examples, states, owner, weights, states, weights, unpack_states(applied_rows),
        stands_for,
    )  # fmt: skip


def _count_by_function(rows: pl.DataFrame) -> Float[np.ndarray, " row"]:
    """Return, for each row, the number of rows of its function."""
    return rows.select(pl.len().over("item_id")).to_series().to_numpy().astype(np.float64)


def fit_screening_maps(
    scoring: ScoringContext, splits: Mapping[str, str], measured_items: frozenset[str]
) -> Iterator[FittedIntervention]:
    """Fit the map of every property and layer, and a few draws of its controls."""
    for task, units in _iterate_units(scoring, splits, measured_items, erased_properties(scoring.labels)):
        for layer in range(len(units.states)):
            yield from _fit_layer(task, layer, units, scoring, SCREENING_DRAWS, SCREENING_DRAWS)


def fit_selected_maps(
    scoring: ScoringContext,
    splits: Mapping[str, str],
    measured_items: frozenset[str],
    layers: Mapping[str, int],
) -> Iterator[FittedIntervention]:
    """Fit the map of each property at its selected layer, and all draws of its controls.

    Args:
        scoring: With the states of functions as they are.
        splits: Of the functions.
        measured_items: Functions that effects are measured on.
        layers: The layer at which each property is compared with its controls.
    """
    for task, units in _iterate_units(scoring, splits, measured_items, list(layers)):
        layer, examples = layers[task], units.examples
        yield from _fit_layer(task, layer, units, scoring, LABEL_DRAWS, SUBSPACE_DRAWS)
        if not is_function_property(task):
            continue
        surface = surface_features(examples.texts, examples.labels, examples.clusters, scoring.settings.seed)

        def join_surface(labels: Int[np.ndarray, " example"]) -> np.ndarray:
            return np.concatenate([encode_one_hot(labels), surface], axis=1)  # noqa: B023

        yield FittedIntervention(
            NAME, task, SURFACE, layer, eraser=units.fit_eraser(layer, join_surface(examples.labels))
        )
        for number in range(LABEL_DRAWS):
            labels = _meaningless(PERMUTED, task, examples, scoring.settings.seed, number)
            eraser = units.fit_eraser(layer, join_surface(labels))
            yield FittedIntervention(NAME, task, format_draw(PERMUTED_SURFACE, number), layer, eraser=eraser)


def _iterate_units(
    scoring: ScoringContext, splits: Mapping[str, str], measured_items: frozenset[str], tasks: Sequence[str]
) -> Iterator[tuple[str, FitUnits]]:
    """Yield the properties with enough examples, with the units of their maps."""
    rows = scoring.observations.filter(
        pl.col("what").is_in(["mean", "token", "part", "subword", "place"]) & pl.col("method").is_null()
    ).collect()
    texts = dict(scoring.texts.collect().iter_rows())
    for task in tasks:
        examples = PropertyExamples.from_labels(task, scoring, splits, texts)
        train = examples.select("train", rows)
        if not unfitted_reason(train, rows):
            yield task, build_fit_units(task, train, rows, measured_items)


def _fit_layer(
    task: str, layer: int, units: FitUnits, scoring: ScoringContext, label_draws: int, subspace_draws: int
) -> Iterator[FittedIntervention]:
    """Fit the map of one property at one layer, and draws of its controls."""
    seed = scoring.settings.seed
    eraser = units.fit_eraser(layer, units.examples.labels)
    yield FittedIntervention(NAME, task, LEACE, layer, eraser=eraser)
    for kind in label_controls(task):
        for number in range(label_draws):
            labels = _meaningless(kind, task, units.examples, seed, number)
            yield FittedIntervention(
                NAME, task, format_draw(kind, number), layer, eraser=units.fit_eraser(layer, labels)
            )
    if not eraser.rank:
        return
    seeds = {
        kind: [derive_seed(kind, seed, task, layer, number) % 2**63 for number in range(subspace_draws)]
        for kind in (UNIFORM, WIDE)
    }
    # The second moment of states around the centre of the map where it is applied.
    moment = compute_second_moment(units.applied_states[layer], eraser.centre, units.applied_weights)
    wide = equal_change_subspaces(eraser, moment, seeds[WIDE])
    for kind, subspaces in ((UNIFORM, uniform_subspaces(eraser, seeds[UNIFORM])), (WIDE, wide)):
        for number, subspace in enumerate(subspaces):
            yield FittedIntervention(NAME, task, format_draw(kind, number), layer, eraser=subspace)


def _meaningless(
    kind: str, task: str, examples: PropertyExamples, seed: int, number: int
) -> Int[np.ndarray, " example"]:
    """Sample labels of a kind that say nothing of the property, the same at every layer."""
    draw_seed = derive_seed(kind, seed, task, number) % 2**63
    if kind == CONTROL_TASK:
        return sample_control_labels(examples.words, examples.labels, draw_seed)
    rng = np.random.default_rng(draw_seed)
    if kind == DONORS:
        tokens = list(examples.frame.select("item_id", "start").iter_rows())
        return from_donors(tokens, examples.sequences, rng)
    lengths = np.array([len(text) for text in examples.texts], dtype=np.float64)
    return permuted_within_strata(examples.labels, examples.clusters, lengths, rng)
