"""Structural probes of distances and depths in the syntax tree, as squared norms of projected states.

After Hewitt and Manning (2019), for all layers at once. Their trees are of words; here the words are code
tokens, the leaves of the syntax tree, and their distance is the number of edges between them in it. Leaves
are linked through inner nodes only, so the links that are looked for are those of a minimum spanning tree of
the tree's own distances; where several are equally short, the one that agrees most with the probe is taken.
The tree's own distances so reach 1, and any others what they deserve however ties were broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor

from sonde.base.errors import InputError
from sonde.languages.engine.text import alike
from sonde.stats.metrics import spearman

EPOCHS = 40


_BATCH = 16


_RATE = 1e-3


_PATIENCE = 5


B = TypeVar("B")


T = TypeVar("T")


Weights = tuple[Tensor, ...]
"""Tensors whose first axes are those of the losses, one probe an entry."""


def split_parts(texts: Sequence[T], split: Sequence[str]) -> Mapping[str, list[T]]:
    """Group texts by split: ``train``, ``valid`` and ``test``.

    Raises:
        InputError: A split has no text.
    """
    parts = {
        part: [text for text, own in zip(texts, split, strict=True) if own == part]
        for part in ("train", "valid", "test")
    }
    for part, held in parts.items():
        if not held:
            raise InputError(f"structural probe: no function in split {part!r}; raise the limit or its share")
    return parts


def scaled(
    states: Float[np.ndarray, "layer token d_model"],
) -> tuple[Float[np.ndarray, "layer 1 d_model"], Float[np.ndarray, "layer 1 d_model"]]:
    """Compute mean and deviation of each direction; 1 where a direction does not vary."""
    deviation = states.std(axis=1, keepdims=True)
    return states.mean(axis=1, keepdims=True), np.where(deviation > 0, deviation, 1.0)


def batches_of(
    sizes: Sequence[int], rng: np.random.Generator
) -> Iterator[tuple[Int[np.ndarray, " some"], int]]:
    """Iterate over all texts in random order, in batches with the size of their longest text."""
    for rows in np.array_split(rng.permutation(len(sizes)), -(-len(sizes) // _BATCH)):
        yield rows, max(sizes[row] for row in rows)


def train_steps(
    start: Weights,
    loss: Callable[[Weights, B], Float[Tensor, "*probe"]],
    batches: Callable[[], Iterator[B]],
    valid: B,
    epochs: int,
    *,
    rate: float = _RATE,
    patience: int = _PATIENCE,
) -> tuple[Weights, Float[Tensor, "*probe"]]:
    """Train probes by Adam with early stopping; each keeps the weights of its best epoch.

    Args:
        start: Starting weights.
        loss: Returns the loss of each probe on a batch.
        batches: Iterates the training texts once.
        valid: The validation texts.
        epochs: Maximum number of epochs.
        rate: Learning rate.
        patience: Number of epochs without improvement of any probe, after which training ends.

    Returns:
        The weights, and the loss of each probe on the validation texts.
    """
    weights = tuple(one.clone().requires_grad_() for one in start)
    optimiser = torch.optim.Adam(weights, lr=rate)
    kept = tuple(one.clone() for one in start)
    with torch.no_grad():
        least = torch.full_like(loss(weights, valid), torch.inf)
    waited = 0
    for _ in range(epochs):
        for batch in batches():
            optimiser.zero_grad()
            loss(weights, batch).sum().backward()
            optimiser.step()
        with torch.no_grad():
            found = loss(weights, valid)
        better = found < least
        least = torch.where(better, found, least)
        for one, weight in zip(kept, weights, strict=True):
            one[better] = weight.detach()[better]
        waited = 0 if bool(better.any()) else waited + 1
        if waited == patience:
            break
    return kept, least


RANK = 64


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """Tokens of one text with their distances and depths in the syntax tree.

    Attributes:
        states: Their states.
        distance: Edges between two tokens in the syntax tree.
        depth: Edges between a token and the root.
    """

    states: Float[np.ndarray, "layer token d_model"]
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


def tree_of(
    parent: Int[np.ndarray, " node"], leaves: Int[np.ndarray, " token"]
) -> tuple[Int[np.ndarray, "token token"], Int[np.ndarray, " token"]]:
    """Compute distances and depths of some nodes of a tree, in their order.

    Args:
        parent: Row of each node's parent, -1 for the root.
        leaves: The nodes, in text order, each once.
    """
    paths = [_path(parent, leaf) for leaf in leaves.tolist()]
    depth = np.array([len(path) - 1 for path in paths], dtype=np.int64)
    distance = np.zeros((len(paths), len(paths)), dtype=np.int64)
    for row, one in enumerate(paths):
        for column in range(row):
            other = paths[column]
            distance[row, column] = len(one) + len(other) - 2 * alike(one, other)
    return distance + distance.T, depth


def _path(parent: Int[np.ndarray, " node"], node: int) -> list[int]:
    found = [node]
    while (node := int(parent[node])) >= 0:
        found.append(node)
    return found[::-1]


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
    parts = split_parts(texts, split)
    stacked = np.concatenate([text.states for text in parts["train"]], axis=1)
    mean, scale = scaled(stacked)
    # Sent once: a batch picks its texts where they are.
    train, valid, test = (_pad(parts[part], mean, scale, device) for part in ("train", "valid", "test"))
    generator = torch.Generator().manual_seed(seed)
    layers, _, width = stacked.shape
    drawn = (torch.rand(2, layers, width, min(rank, width), generator=generator) - 0.5) / 10
    sizes = [len(text.depth) for text in parts["train"]]
    rng = np.random.default_rng(seed)

    def shuffled() -> Iterator[_Batch]:
        for rows, longest in batches_of(sizes, rng):
            yield train.only(torch.from_numpy(rows).to(device), longest)

    def loss_of(weights: Weights, batch: _Batch) -> Float[Tensor, "probe layer"]:
        return _loss(weights[0], batch)

    (weight,), loss = train_steps((drawn.to(device),), loss_of, shuffled, valid, epochs)
    with torch.no_grad():
        near, deep = (part.cpu().numpy() for part in _predict(weight, test))
    return _measured(near, deep, parts["test"], loss[0].cpu().numpy())


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Padded texts; ``present`` marks their tokens."""

    states: Float[Tensor, "layer text token d_model"]
    distance: Float[Tensor, "text token token"]
    depth: Float[Tensor, "text token"]
    present: Bool[Tensor, "text token"]

    def only(self, rows: Int[Tensor, " some"], longest: int) -> _Batch:
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
    layers, _, width = texts[0].states.shape
    longest = max(len(text.depth) for text in texts)
    states = np.zeros((layers, len(texts), longest, width), dtype=np.float32)
    distance = np.zeros((len(texts), longest, longest), dtype=np.float32)
    depth = np.zeros((len(texts), longest), dtype=np.float32)
    present = np.zeros((len(texts), longest), dtype=np.bool_)
    for row, text in enumerate(texts):
        size = len(text.depth)
        states[:, row, :size] = (text.states - mean) / scale
        distance[row, :size, :size] = text.distance
        depth[row, :size] = text.depth
        present[row, :size] = True
    return _Batch(*(torch.from_numpy(part).to(device) for part in (states, distance, depth, present)))


def _predict(
    weight: Float[Tensor, "probe layer d_model rank"], batch: _Batch
) -> tuple[Float[Tensor, "layer text token token"], Float[Tensor, "layer text token"]]:
    near = batch.states @ weight[0][:, None]
    squares = near.square().sum(3)
    products = near @ near.mT
    # |a - b|^2 by products: the differences of all pairs would take the rank times the memory.
    distance = (squares[..., None] + squares[:, :, None] - 2 * products).clamp(min=0.0)
    depth = (batch.states @ weight[1][:, None]).square().sum(3)
    return distance, depth


def _loss(weight: Float[Tensor, "probe layer d_model rank"], batch: _Batch) -> Float[Tensor, "probe layer"]:
    """Compute the mean over texts of the mean distance between prediction and tree, as in the original."""
    distance, depth = _predict(weight, batch)
    sizes = batch.present.sum(1)
    pairs = batch.present[:, :, None] & batch.present[:, None]
    near = ((distance - batch.distance).abs() * pairs).sum((2, 3)) / sizes**2
    deep = ((depth - batch.depth).abs() * batch.present).sum(2) / sizes
    return torch.stack([near.mean(1), deep.mean(1)])


def _measured(
    near: Float[np.ndarray, "layer text token token"],
    deep: Float[np.ndarray, "layer text token"],
    texts: Sequence[Sentence],
    loss: Float[np.ndarray, " layer"],
) -> Structure:
    measures = np.zeros((3, len(near), len(texts)))
    for row, text in enumerate(texts):
        size = len(text.depth)
        for layer in range(len(near)):
            measures[:, layer, row] = compare(near[layer, row, :size, :size], deep[layer, row, :size], text)
    return Structure(*measures, valid_loss=loss, best=int(loss.argmin()))


def compare(
    distance: Float[np.ndarray, "token token"], depth: Float[np.ndarray, " token"], text: Sentence
) -> tuple[float, float, float]:
    """Compute the rank correlations of distances and depths, and the share of links found.

    The share of links (UUAS) is that of the spanning tree of ``distance`` that stands in a minimum spanning
    tree of the text's own distances, of several such the one that shares most with it: many pairs of leaves
    are equally far apart.
    """
    size = len(text.depth)
    others = ~np.eye(size, dtype=np.bool_)
    rows = [distance[token][others[token]] for token in range(size)]
    gold = [text.distance[token][others[token]].astype(np.float64) for token in range(size)]
    # The spanning tree takes 0 for no edge at all.
    found = _spanning_links(distance + 1e-6)
    # Distances are whole numbers: half an edge less decides between equally short links and no others.
    nearest = _spanning_links(text.distance - 0.5 * (found | found.T))
    return (
        float(np.nanmean(spearman(np.stack(rows), np.stack(gold)))),
        int((nearest & (found | found.T)).sum()) / max(1, size - 1),
        float(spearman(depth[None], text.depth[None].astype(np.float64))[0]),
    )


def _spanning_links(distance: Float[np.ndarray, "token token"]) -> Bool[np.ndarray, "token token"]:
    """Return the links of the minimum spanning tree, each in one direction."""
    return minimum_spanning_tree(distance).toarray() > 0
