"""Probes that reconstruct whole syntax trees, all layers at once, and trees predicted without a model.

After AST-Probe (Hernández López et al. 2022). States are projected to a subspace of few directions. There the
square of the step from a token to the next is the height of the lowest node around both, of which only the
order is learned; the step's products with a vector a label say which labels that node has, and a token's own
products which labels it has alone (`sonde.languages.engine.tree`). The projection is held near an orthogonal
one. A label also scores something anywhere, which the published probe lacks: a step has no direction to say
it by.

`measure_tree_controls` predicts trees from training texts alone: what recovered trees are compared with.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sonde.languages.engine.tree import NO_LABELS, BinaryTree, Constituents, Labels, count_constituents
from sonde.training.probes.adam import Weights
from sonde.training.probes.structural import TextStates, group_by_split, pad_states, train_text_probes

_ORTHOGONAL = 5.0
"""Weight of the squared distance between the projection's products and the identity, as published."""


_EPOCHS, _RATE, _PATIENCE = 100, 3e-3, 10
"""Longer than as published: there are hundreds of functions here where there were thousands."""


_NO_LABEL = -1
"""Of what is no gap or token of the text, or has a label that no training text has."""


V = TypeVar("V")


MEASURES = ("tree_precision", "tree_recall", "tree_f1", "bracket_f1")


@dataclass(frozen=True, slots=True, eq=False)
class TreeText(TextStates):
    """Tokens of one text with its binarised tree.

    Attributes:
        words: Text of each token, for the control by words alone.
        tree: The binarised tree.
    """

    words: tuple[str, ...]
    tree: BinaryTree

    @property
    def constituents(self) -> Constituents:
        """Return the constituents of the tree."""
        return count_constituents(self.tree.distance, self.tree.labels, self.tree.unary)


@dataclass(frozen=True, slots=True, eq=False)
class TreeProbes:
    """Tree probes of every layer, of one rank.

    Attributes:
        rank: Directions of the subspace.
        test: `MEASURES` of the test texts.
        valid_f1: Mean ``tree_f1`` of the validation texts.
    """

    rank: int
    test: Float[np.ndarray, "measure layer text"]
    valid_f1: Float[np.ndarray, " layer"]


@dataclass(frozen=True, slots=True)
class TreeLabels:
    """Labels of some texts; `NO_LABELS` is the first of each."""

    gaps: tuple[Labels, ...]
    unary: tuple[Labels, ...]

    @classmethod
    def from_texts(cls, texts: Sequence[TreeText]) -> TreeLabels:
        """Collect the labels that occur."""
        gaps = {kinds for text in texts for kinds in text.tree.labels}
        unary = {kinds for text in texts for kinds in text.tree.unary}
        # The empty tuple is the least of all tuples.
        return cls(tuple(sorted(gaps | {NO_LABELS})), tuple(sorted(unary | {NO_LABELS})))


def probe_trees(
    texts: Sequence[TreeText],
    split: Sequence[str],
    *,
    rank: int,
    seed: int = 0,
    epochs: int = _EPOCHS,
    device: torch.device | str = "cpu",
) -> TreeProbes:
    """Train a probe a layer on the training texts, stop on validation, evaluate on validation and test.

    Args:
        texts: The texts.
        split: Name of the split of each text.
        rank: Directions of the subspace, at most as many as states have.
        seed: Seed of the first weights and the batches.
        epochs: Maximum number of epochs.
        device: Device of the computation.

    Raises:
        InputError: A split has no text.
    """
    parts = group_by_split(texts, split)
    vocabulary = TreeLabels.from_texts(parts["train"])
    weights, _, padded = train_text_probes(
        parts,
        lambda texts, mean, scale: _pad(texts, vocabulary, mean, scale, device),
        lambda layers, width: _initialise_weights(layers, width, min(rank, width), vocabulary, seed),
        _loss,
        epochs,
        seed=seed,
        device=device,
        rate=_RATE,
        patience=_PATIENCE,
    )
    valid, test = (_measure(weights, padded[part], parts[part], vocabulary) for part in ("valid", "test"))
    width = texts[0].states.shape[2]
    return TreeProbes(min(rank, width), test, valid[MEASURES.index("tree_f1")].mean(axis=1))


def _initialise_weights(layers: int, width: int, rank: int, vocabulary: TreeLabels, seed: int) -> Weights:
    """Initialise an orthogonal projection and short vectors, the same in every layer."""
    generator = torch.Generator().manual_seed(seed)
    projection = torch.linalg.qr(torch.randn(width, rank, generator=generator))[0]
    labels = [
        (torch.rand(rank + 1, len(names), generator=generator) - 0.5) / 10
        for names in (vocabulary.gaps, vocabulary.unary)
    ]
    return tuple(tensor.expand(layers, *tensor.shape).clone() for tensor in (projection, *labels))


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Padded texts; heights and labels are `_NO_LABEL` after their end."""

    states: Float[Tensor, "layer text token d_model"]
    distance: Int[Tensor, "text gap"]
    gaps: Int[Tensor, "text gap"]
    unary: Int[Tensor, "text token"]

    def select(self, rows: Int[Tensor, " some"], longest: int) -> _Batch:
        """Select some texts, cut to their longest."""
        gaps = longest - 1
        return _Batch(
            self.states[:, rows, :longest],
            self.distance[rows, :gaps],
            self.gaps[rows, :gaps],
            self.unary[rows, :longest],
        )


def _pad(
    texts: Sequence[TreeText],
    vocabulary: TreeLabels,
    mean: Float[np.ndarray, "layer 1 d_model"],
    scale: Float[np.ndarray, "layer 1 d_model"],
    device: torch.device | str,
) -> _Batch:
    longest = max(len(text.words) for text in texts)
    rows = [np.full((len(texts), size), _NO_LABEL) for size in (longest - 1, longest - 1, longest)]
    gap_index, token_index = (
        {kinds: index for index, kinds in enumerate(names)} for names in (vocabulary.gaps, vocabulary.unary)
    )
    for row, text in enumerate(texts):
        size = len(text.words)
        rows[0][row, : size - 1] = text.tree.distance
        rows[1][row, : size - 1] = [gap_index.get(kinds, _NO_LABEL) for kinds in text.tree.labels]
        rows[2][row, :size] = [token_index.get(kinds, _NO_LABEL) for kinds in text.tree.unary]
    return _Batch(*(torch.from_numpy(part).to(device) for part in (pad_states(texts, mean, scale), *rows)))


def _predict(
    weights: Weights, states: Float[Tensor, "layer text token d_model"]
) -> tuple[
    Float[Tensor, "layer text gap"],
    Float[Tensor, "layer text gap label"],
    Float[Tensor, "layer text token label"],
]:
    projection, gaps, unary = (weight[:, None] for weight in weights)
    projected_states = states @ projection
    steps = projected_states[:, :, 1:] - projected_states[:, :, :-1]
    # The last row is what a label scores anywhere: most gaps and tokens have none of their own.
    gap_scores = steps @ gaps[..., :-1, :] + gaps[..., -1:, :]
    token_scores = projected_states @ unary[..., :-1, :] + unary[..., -1:, :]
    return steps.square().sum(3), gap_scores, token_scores


def _loss(weights: Weights, batch: _Batch) -> Float[Tensor, " layer"]:
    """Sum the losses of heights in the wrong order, of both kinds of labels, and of the projection."""
    distance, gaps, unary = _predict(weights, batch.states)
    present = batch.distance != _NO_LABEL
    higher = (batch.distance[:, :, None] > batch.distance[:, None]) & present[:, :, None] & present[:, None]
    margin = (1 - (distance[..., :, None] - distance[..., None, :])).clamp(min=0.0)
    order = (margin * higher).sum((1, 2, 3)) / higher.sum().clamp(min=1)
    products = weights[0].mT @ weights[0] - torch.eye(weights[0].shape[2], device=weights[0].device)
    return (
        order
        + _cross_entropy(gaps, batch.gaps)
        + _cross_entropy(unary, batch.unary)
        + _ORTHOGONAL * products.square().sum((1, 2))
    )


def _cross_entropy(
    scores: Float[Tensor, "layer text place label"], labels: Int[Tensor, "text place"]
) -> Float[Tensor, " layer"]:
    """Compute the mean over the entries that have a label."""
    has_label = labels != _NO_LABEL
    log_chance = scores.log_softmax(3)[:, has_label]
    return -log_chance.gather(2, labels[has_label].expand(len(log_chance), -1)[..., None]).squeeze(2).mean(1)


@torch.no_grad()
def _measure(
    weights: Weights, batch: _Batch, texts: Sequence[TreeText], vocabulary: TreeLabels
) -> Float[np.ndarray, "measure layer text"]:
    distance, gaps, unary = _predict(weights, batch.states)
    rows = distance.cpu().numpy(), gaps.argmax(3).cpu().numpy(), unary.argmax(3).cpu().numpy()
    measures = np.zeros((len(MEASURES), len(distance), len(texts)))
    for text_index, text in enumerate(texts):
        size, truth = len(text.words), text.constituents
        for layer in range(len(distance)):
            prediction = count_constituents(
                rows[0][layer, text_index, : size - 1],
                [vocabulary.gaps[label] for label in rows[1][layer, text_index, : size - 1]],
                [vocabulary.unary[label] for label in rows[2][layer, text_index, :size]],
            )
            measures[:, layer, text_index] = compare_constituents(prediction, truth)
    return measures


def compare_constituents(prediction: Constituents, truth: Constituents) -> tuple[float, float, float, float]:
    """Compute `MEASURES`: precision, recall and F1 of labelled constituents, and F1 of unlabelled spans.

    A constituent that is said twice and is there once counts once. Without labels, nodes that hold the same
    tokens are one.
    """
    hits = (prediction & truth).total()
    predicted_spans, truth_spans = (
        {(first, last) for _, first, last in counter} for counter in (prediction, truth)
    )
    return (
        hits / max(1, prediction.total()),
        hits / max(1, truth.total()),
        2 * hits / max(1, prediction.total() + truth.total()),
        2 * len(predicted_spans & truth_spans) / max(1, len(predicted_spans) + len(truth_spans)),
    )


RIGHT, LEFT, PAIRS, CEILING = "right_branching", "left_branching", "token_pairs", "gold_tree"
"""Names of the controls.

In a chain to the right (left) each token is joined with all that follow (precede) it; its labels are the
commonest of the whole text, of all other gaps and of tokens. Pairs say of each gap what is commonest between
the same two words. The ceiling is the tree itself, but for labels that no training text has.
"""


def measure_tree_controls(train: Sequence[TreeText], texts: Sequence[TreeText]) -> Mapping[str, np.ndarray]:
    """Compute the measures of `sonde.training.probes.trees` of each control, a row per text.

    Args:
        train: Texts from which the controls are fitted.
        texts: Test texts.
    """
    vocabulary, predict_chain, predict_pairs = (
        TreeLabels.from_texts(train),
        _fit_chain(train),
        _fit_pairs(train),
    )
    measures: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for text in texts:
        gaps = len(text.words) - 1
        predictions = {
            RIGHT: predict_chain(np.arange(gaps, 0, -1)),
            LEFT: predict_chain(np.arange(1, gaps + 1)),
            PAIRS: predict_pairs(text.words),
            CEILING: _mask_unknown_labels(text.tree, vocabulary),
        }
        for name, tree in predictions.items():
            prediction = count_constituents(tree.distance, tree.labels, tree.unary)
            measures[name].append(compare_constituents(prediction, text.constituents))
    return {name: np.array(rows) for name, rows in measures.items()}


def _mask_unknown_labels(tree: BinaryTree, vocabulary: TreeLabels) -> BinaryTree:
    gaps, unary = set(vocabulary.gaps), set(vocabulary.unary)
    return BinaryTree(
        tree.distance,
        tuple(kinds if kinds in gaps else NO_LABELS for kinds in tree.labels),
        tuple(kinds if kinds in unary else NO_LABELS for kinds in tree.unary),
    )


def _most_common(labels: Counter[Labels]) -> Labels:
    """Return the most frequent label; of equally frequent ones the first in order."""
    return min(labels, key=lambda kinds: (-labels[kinds], kinds), default=NO_LABELS)


def _fit_chain(train: Sequence[TreeText]) -> Callable[[np.ndarray], BinaryTree]:
    """Return the control that predicts the most frequent labels, whatever the text."""
    roots = Counter(text.tree.labels[int(text.tree.distance.argmax())] for text in train)
    gaps = Counter(kinds for text in train for kinds in text.tree.labels if kinds)
    root_labels, gap_labels = _most_common(roots), _most_common(gaps - roots)
    token_labels = _most_common(Counter(kinds for text in train for kinds in text.tree.unary))

    def predict(distance: np.ndarray) -> BinaryTree:
        top = int(distance.argmax())
        labels = tuple(root_labels if gap == top else gap_labels for gap in range(len(distance)))
        return BinaryTree(distance, labels, (token_labels,) * (len(distance) + 1))

    return predict


def _fit_pairs(train: Sequence[TreeText]) -> Callable[[Sequence[str]], BinaryTree]:
    """Return the control that predicts the commonest value at the same words, or at fewer if unseen."""
    gap_keys = [keys for text in train for keys in _gap_keys(text.words)]
    token_keys = [keys for text in train for keys in _token_keys(text.words)]
    heights = _group_by_key(gap_keys, (height for text in train for height in text.tree.distance.tolist()))
    gaps = _group_by_key(gap_keys, (kinds for text in train for kinds in text.tree.labels))
    unary = _group_by_key(token_keys, (kinds for text in train for kinds in text.tree.unary))
    mean_heights = {key: float(np.mean(values)) for key, values in heights.items()}
    gap_labels, token_labels = (
        {key: _most_common(Counter(values)) for key, values in table.items()} for table in (gaps, unary)
    )

    def predict(words: Sequence[str]) -> BinaryTree:
        keys = list(_gap_keys(words))
        return BinaryTree(
            np.array([_find_first(mean_heights, gap) for gap in keys]),
            tuple(_find_first(gap_labels, gap) for gap in keys),
            tuple(_find_first(token_labels, token) for token in _token_keys(words)),
        )

    return predict


def _group_by_key(
    keys: Iterable[tuple[Hashable, ...]], values: Iterable[V]
) -> Mapping[Hashable, Sequence[V]]:
    groups: dict[Hashable, list[V]] = defaultdict(list)
    for value_keys, value in zip(keys, values, strict=True):
        for key in value_keys:
            groups[key].append(value)
    return groups


def _gap_keys(words: Sequence[str]) -> Iterator[tuple[Hashable, ...]]:
    """Yield the keys of each gap, the most specific first."""
    for left, right in pairwise(words):
        yield (left, right), right, None


def _token_keys(words: Sequence[str]) -> Iterator[tuple[Hashable, ...]]:
    for left, word, right in zip(("", *words), words, (*words[1:], ""), strict=False):
        yield (left, word, right), word, None


def _find_first(table: Mapping[Hashable, Any], keys: Sequence[Hashable]) -> Any:
    return next(table[key] for key in keys if key in table)
