"""Structural probes of distances and depths in the syntax tree, and the training of tree probes.

Distances and depths are predicted as squared norms of projected states, after Hewitt and Manning (2019), for
all layers at once. Their trees are of words; here the words are code tokens, the leaves of the syntax tree,
and their distance is the number of edges between them in it. Leaves are linked through inner nodes only, so
the links that are looked for are those of a minimum spanning tree of the tree's own distances; where several
are equally short, the one that agrees most with the probe is taken. The tree's own distances so reach 1, and
any others what they deserve however ties were broken.

Probes of trees (also `sonde.training.probes.trees`) share parts, scaling, batches of whole texts, and Adam
with early stopping. Their losses are not convex, so they are trained by steps, the probes of all layers
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor

from sonde.base.errors import InputError
from sonde.languages.engine.text import common_prefix_length
from sonde.stats.metrics import spearman
from sonde.training.probes.adam import PATIENCE, RATE, Weights, train_probes

EPOCHS = 40


_BATCH = 16


T = TypeVar("T")


class TextBatch(Protocol):
    """Padded texts."""

    def select(self, rows: Int[Tensor, " some"], longest: int) -> Self:
        """Select some texts, cut to their longest."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class TextStates:
    """A text with states of its tokens.

    Attributes:
        states: Their states.
    """

    states: Float[np.ndarray, "layer token d_model"]


X = TypeVar("X", bound=TextStates)
B = TypeVar("B", bound=TextBatch)


def group_by_split(texts: Sequence[T], split: Sequence[str]) -> Mapping[str, list[T]]:
    """Group texts by split: ``train``, ``valid`` and ``test``.

    Raises:
        InputError: A split has no text.
    """
    parts = {
        name: [text for text, text_split in zip(texts, split, strict=True) if text_split == name]
        for name in ("train", "valid", "test")
    }
    for name, members in parts.items():
        if not members:
            raise InputError(f"structural probe: no function in split {name!r}; raise the limit or its share")
    return parts


def pad_states(
    texts: Sequence[TextStates],
    mean: Float[np.ndarray, "layer 1 d_model"],
    scale: Float[np.ndarray, "layer 1 d_model"],
) -> Float[np.ndarray, "layer text token d_model"]:
    """Standardise the states of texts, and fill the shorter ones up with zeros."""
    layers, _, width = texts[0].states.shape
    longest = max(text.states.shape[1] for text in texts)
    states = np.zeros((layers, len(texts), longest, width), dtype=np.float32)
    for row, text in enumerate(texts):
        states[:, row, : text.states.shape[1]] = (text.states - mean) / scale
    return states


def train_text_probes(
    parts: Mapping[str, Sequence[X]],
    pad: Callable[[Sequence[X], np.ndarray, np.ndarray], B],
    initialise: Callable[[int, int], Weights],
    loss: Callable[[Weights, B], Float[Tensor, "*probe"]],
    epochs: int,
    *,
    seed: int,
    device: torch.device | str,
    rate: float = RATE,
    patience: int = PATIENCE,
) -> tuple[Weights, Float[Tensor, "*probe"], dict[str, B]]:
    """Train probes on batches of whole texts, and stop on validation.

    Args:
        parts: Texts by split.
        pad: Pads texts, given mean and deviation of each direction in training.
        initialise: Returns starting weights, given the number of layers and the width of states.
        loss: Returns the loss of each probe on a batch.
        epochs: Maximum number of epochs.
        seed: Seed of the batches.
        device: Device of the computation.
        rate: Learning rate.
        patience: Number of epochs without improvement, after which training ends.

    Returns:
        The weights, the loss of each probe on the validation texts, and the padded texts by split.
    """
    states = np.concatenate([text.states for text in parts["train"]], axis=1)
    deviation = states.std(axis=1, keepdims=True)
    mean, scale = states.mean(axis=1, keepdims=True), np.where(deviation > 0, deviation, 1.0)
    # Sent once: a batch picks its texts where they are.
    padded = {name: pad(texts, mean, scale) for name, texts in parts.items()}
    sizes = [text.states.shape[1] for text in parts["train"]]
    rng = np.random.default_rng(seed)

    def iterate_epoch() -> Iterator[B]:
        for rows in np.array_split(rng.permutation(len(sizes)), -(-len(sizes) // _BATCH)):
            longest = max(sizes[row] for row in rows)
            yield padded["train"].select(torch.from_numpy(rows).to(device), longest)

    start = tuple(tensor.to(device) for tensor in initialise(len(states), states.shape[2]))
    weights, lowest = train_probes(
        start, loss, iterate_epoch, padded["valid"], epochs, rate=rate, patience=patience
    )
    return weights, lowest, padded


RANK = 64


@dataclass(frozen=True, slots=True, eq=False)
class Sentence(TextStates):
    """Tokens of one text with their distances and depths in the syntax tree.

    Attributes:
        distance: Edges between two tokens in the syntax tree.
        depth: Edges between a token and the root.
    """

    distance: Int[np.ndarray, "token token"]
    depth: Int[np.ndarray, " token"]


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """Structural probes of every layer on the test texts.

    Attributes:
        distance_spearman: Rank correlation of a token's distances to the others, mean over the tokens of a
            text.
        uuas: Share of the predicted spanning tree's links that are in one of the tree's own.
        depth_spearman: Rank correlation of the depths.
        valid_loss: Validation loss of the distance probe.
        best: Layer with the lowest.
    """

    distance_spearman: Float[np.ndarray, "layer text"]
    uuas: Float[np.ndarray, "layer text"]
    depth_spearman: Float[np.ndarray, "layer text"]
    valid_loss: Float[np.ndarray, " layer"]
    best: int


def measure_tree(
    parent: Int[np.ndarray, " node"], leaves: Int[np.ndarray, " token"]
) -> tuple[Int[np.ndarray, "token token"], Int[np.ndarray, " token"]]:
    """Compute distances and depths of some nodes of a tree, in their order.

    Args:
        parent: Row of each node's parent, -1 for the root.
        leaves: The nodes, in text order, each once.
    """
    paths = [_path_from_root(parent, leaf) for leaf in leaves.tolist()]
    depth = np.array([len(path) - 1 for path in paths], dtype=np.int64)
    distance = np.zeros((len(paths), len(paths)), dtype=np.int64)
    for row, row_path in enumerate(paths):
        for column in range(row):
            column_path = paths[column]
            distance[row, column] = (
                len(row_path) + len(column_path) - 2 * common_prefix_length(row_path, column_path)
            )
    return distance + distance.T, depth


def _path_from_root(parent: Int[np.ndarray, " node"], node: int) -> list[int]:
    nodes = [node]
    while (node := int(parent[node])) >= 0:
        nodes.append(node)
    return nodes[::-1]


def probe_structure(
    texts: Sequence[Sentence],
    split: Sequence[str],
    *,
    rank: int = RANK,
    seed: int = 0,
    epochs: int = EPOCHS,
    device: torch.device | str = "cpu",
) -> Structure:
    """Train distance and depth probes on the training texts, stop on validation, evaluate on test.

    Args:
        texts: The texts.
        split: Name of the split of each text.
        rank: Rows of the projection.
        seed: Seed of the first projection and the batches.
        epochs: Maximum number of epochs.
        device: Device of the computation.

    Raises:
        InputError: A split has no text.
    """
    parts = group_by_split(texts, split)
    generator = torch.Generator().manual_seed(seed)

    def initialise(layers: int, width: int) -> Weights:
        return ((torch.rand(2, layers, width, min(rank, width), generator=generator) - 0.5) / 10,)

    (weight,), loss, padded = train_text_probes(
        parts,
        lambda texts, mean, scale: _pad(texts, mean, scale, device),
        initialise,
        _loss,
        epochs,
        seed=seed,
        device=device,
    )
    with torch.no_grad():
        distances, depths = (part.cpu().numpy() for part in _predict(weight, padded["test"]))
    return _measure(distances, depths, parts["test"], loss[0].cpu().numpy())


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Padded texts; ``present`` marks their tokens."""

    states: Float[Tensor, "layer text token d_model"]
    distance: Float[Tensor, "text token token"]
    depth: Float[Tensor, "text token"]
    present: Bool[Tensor, "text token"]

    def select(self, rows: Int[Tensor, " some"], longest: int) -> _Batch:
        """Select some texts, cut to their longest."""
        return _Batch(
            self.states[:, rows, :longest],
            self.distance[rows, :longest, :longest],
            self.depth[rows, :longest],
            self.present[rows, :longest],
        )


def _pad(
    texts: Sequence[Sentence],
    mean: Float[np.ndarray, "layer 1 d_model"],
    scale: Float[np.ndarray, "layer 1 d_model"],
    device: torch.device | str,
) -> _Batch:
    longest = max(len(text.depth) for text in texts)
    distance = np.zeros((len(texts), longest, longest), dtype=np.float32)
    depth = np.zeros((len(texts), longest), dtype=np.float32)
    present = np.zeros((len(texts), longest), dtype=np.bool_)
    for row, text in enumerate(texts):
        size = len(text.depth)
        distance[row, :size, :size] = text.distance
        depth[row, :size] = text.depth
        present[row, :size] = True
    return _Batch(
        *(
            torch.from_numpy(part).to(device)
            for part in (pad_states(texts, mean, scale), distance, depth, present)
        )
    )


def _predict(
    weight: Float[Tensor, "probe layer d_model rank"], batch: _Batch
) -> tuple[Float[Tensor, "layer text token token"], Float[Tensor, "layer text token"]]:
    projection = batch.states @ weight[0][:, None]
    squares = projection.square().sum(3)
    products = projection @ projection.mT
    # |a - b|^2 by products: the differences of all pairs would take the rank times the memory.
    distance = (squares[..., None] + squares[:, :, None] - 2 * products).clamp(min=0.0)
    depth = (batch.states @ weight[1][:, None]).square().sum(3)
    return distance, depth


def _loss(weights: Weights, batch: _Batch) -> Float[Tensor, "probe layer"]:
    """Compute the mean over texts of the mean distance between prediction and tree, as in the original."""
    distance, depth = _predict(weights[0], batch)
    sizes = batch.present.sum(1)
    pairs = batch.present[:, :, None] & batch.present[:, None]
    distance_error = ((distance - batch.distance).abs() * pairs).sum((2, 3)) / sizes**2
    depth_error = ((depth - batch.depth).abs() * batch.present).sum(2) / sizes
    return torch.stack([distance_error.mean(1), depth_error.mean(1)])


def _measure(
    distances: Float[np.ndarray, "layer text token token"],
    depths: Float[np.ndarray, "layer text token"],
    texts: Sequence[Sentence],
    loss: Float[np.ndarray, " layer"],
) -> Structure:
    measures = np.zeros((3, len(distances), len(texts)))
    for row, text in enumerate(texts):
        size = len(text.depth)
        for layer in range(len(distances)):
            measures[:, layer, row] = compare_distances(
                distances[layer, row, :size, :size], depths[layer, row, :size], text
            )
    return Structure(*measures, valid_loss=loss, best=int(loss.argmin()))


def compare_distances(
    distance: Float[np.ndarray, "token token"], depth: Float[np.ndarray, " token"], text: Sentence
) -> tuple[float, float, float]:
    """Compute the rank correlations of distances and depths, and the share of links found.

    The share of links (UUAS) is that of the spanning tree of ``distance`` that stands in a minimum spanning
    tree of the text's own distances, of several such the one that shares most with it: many pairs of leaves
    are equally far apart.
    """
    size = len(text.depth)
    is_other = ~np.eye(size, dtype=np.bool_)
    rows = [distance[token][is_other[token]] for token in range(size)]
    gold = [text.distance[token][is_other[token]].astype(np.float64) for token in range(size)]
    # The spanning tree takes 0 for no edge at all.
    predicted_links = _spanning_links(distance + 1e-6)
    # Distances are whole numbers: half an edge less decides between equally short links and no others.
    tree_links = _spanning_links(text.distance - 0.5 * (predicted_links | predicted_links.T))
    return (
        float(np.nanmean(spearman(np.stack(rows), np.stack(gold)))),
        int((tree_links & (predicted_links | predicted_links.T)).sum()) / max(1, size - 1),
        float(spearman(depth[None], text.depth[None].astype(np.float64))[0]),
    )


def _spanning_links(distance: Float[np.ndarray, "token token"]) -> Bool[np.ndarray, "token token"]:
    """Return the links of the minimum spanning tree, each in one direction."""
    return minimum_spanning_tree(distance).toarray() > 0
