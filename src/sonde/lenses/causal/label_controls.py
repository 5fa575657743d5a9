"""Labels that say nothing of the property: what erasing these costs, any such labels would cost.

A property of functions is held against its own labels in another order, within strata of equal length: long
functions cost more than short ones whatever is erased. A property of tokens is held against the labels of
another function, and against a class drawn for each word (the control task of Hewitt and Liang 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int

from sonde.training.erasure import one_hot

Labels = Int[np.ndarray, " example"]

STRATA = 10
"""Strata of equal length within which labels are permuted."""

FOLDS, LEAST = 5, 2
"""Folds in which words foretell classes, and functions that a word has to stand in."""


def permuted_within_strata(
    labels: Labels,
    clusters: Sequence[str],
    lengths: Float[np.ndarray, " example"],
    rng: np.random.Generator,
) -> Labels:
    """The labels of functions, in another order among those of about the same length.

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
        return labels[_exchanged(lengths, rng)]
    mean = np.bincount(owner, lengths) / np.bincount(owner)
    # One label a cluster: in the order of clusters, which is that of the pairs.
    return pairs[1][_exchanged(mean, rng)][owner]


def _exchanged(lengths: Float[np.ndarray, " unit"], rng: np.random.Generator) -> Int[np.ndarray, " unit"]:
    """For each unit the one whose label it gets."""
    rank = np.argsort(np.argsort(lengths, kind="stable"), kind="stable")
    stratum = rank * STRATA // len(lengths)
    found = np.arange(len(lengths))
    for at in range(STRATA):
        members = np.flatnonzero(stratum == at)
        found[members] = rng.permutation(members)
    return found


def from_donors(
    places: Sequence[tuple[str, int]],
    sequences: Mapping[str, Sequence[tuple[int, int]]],
    rng: np.random.Generator,
) -> Labels:
    """The labels of tokens, taken from another function's tokens at the same relative place.

    Args:
        places: Function and first character of each token.
        sequences: For each function its labelled tokens in order: first character and class.
        rng: Deals functions to each other.

    >>> sequences = {"f": [(0, 0), (4, 0)], "g": [(0, 1), (3, 1), (6, 2), (9, 2)]}
    >>> from_donors([("f", 4), ("g", 9)], sequences, np.random.default_rng(0)).tolist()
    [2, 0]
    """
    order = rng.permutation(sorted(sequences)).tolist()
    donor = dict(zip(order, order[1:] + order[:1], strict=True))
    rank = {
        (item, start): (at + 0.5) / len(held)
        for item, held in sequences.items()
        for at, (start, _) in enumerate(held)
    }
    given = [sequences[donor[item]] for item, _ in places]
    found = [held[int(rank[place] * len(held))][1] for place, held in zip(places, given, strict=True)]
    return np.array(found, dtype=np.int64)


def surface_of(
    texts: Sequence[str], labels: Labels, clusters: Sequence[str], seed: int
) -> Float[np.ndarray, "example feature"]:
    """What the surface says of functions: their length, and the class that their words foretell.

    Classes are foretold fold by fold, by logistic regression on counts of words (the surface battery of
    probes) that has seen nothing of the function's cluster.

    Args:
        texts: Of each function.
        labels: Of each function.
        clusters: Of each function.
        seed: Deals folds.
    """
    from sonde.tasks._surface import by_words
    from sonde.tasks._words import bag_words
    from sonde.training.probes.parts import grouped_folds

    length = np.log1p(np.array([[len(text), text.count("\n")] for text in texts], dtype=np.float64))
    owner = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)[1]
    bags, names = [bag_words(text) for text in texts], labels.astype(str)
    foretold = labels.copy()
    for fold in grouped_folds(labels, owner, FOLDS, seed):
        parts = fold.train, fold.valid, fold.test
        if len(np.unique(labels[fold.train])) > 1:
            foretold[fold.test] = np.array(by_words(bags, names, parts, LEAST), dtype=np.int64)
        else:
            foretold[fold.test] = labels[fold.train][0]
    return np.concatenate([length, length**2, one_hot(foretold)], axis=1)
