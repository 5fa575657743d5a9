"""Control tasks: labels that can only be memorised (Hewitt and Liang 2019), and controls of tree probes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Int

from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.languages.engine.tree import ADDED, BinaryTree, Labels, constituents
from sonde.training.probes.splits import Parts
from sonde.training.probes.trees import TreeLabels, TreeText, compare


def control_labels(
    types: Sequence[str], labels: Int[np.ndarray, " item"], seed: int
) -> Int[np.ndarray, " item"]:
    """Sample a label for each type from the distribution of the real labels, the same at each occurrence.

    Args:
        types: Surface of each item.
        labels: The real labels.
        seed: Seed of the labels.
    """
    shares = np.cumsum(np.bincount(labels)) / len(labels)
    drawn = {surface: unit_hash("control task", seed, surface) for surface in set(types)}
    places = np.array([drawn[surface] for surface in types])
    return np.minimum(np.searchsorted(shares, places, side="right"), len(shares) - 1)


def parts_within_types(types: Sequence[str], seed: int, folds: int = 1) -> tuple[Parts, ...]:
    """Split so that occurrences of a type are spread over all parts, and most test types were trained on.

    Where types are kept apart, nothing learned by heart can help, and a control task is at chance whatever
    the probe; here it shows how much of an accuracy memory could explain.

    Args:
        types: Surface of each item.
        seed: Seed of the split.
        folds: Number of parts that are tested in turn; 1 tests one part of a fifth.
    """
    rng = np.random.default_rng(derive_seed("parts within types", seed))
    groups: dict[str, list[int]] = {}
    for row, surface in enumerate(types):
        groups.setdefault(surface, []).append(row)
    place = np.empty(len(types))
    for surface in sorted(groups):
        members = np.array(groups[surface])
        # One offset a type keeps the shares right where most types occur once.
        place[rng.permutation(members)] = (rng.random() + np.arange(len(members)) * _GOLDEN) % 1.0
    number = folds if folds > 1 else _FIFTHS
    held = (place * number).astype(np.int64)
    return tuple(
        Parts(*(np.flatnonzero(np.isin(held, turn)) for turn in _turns(number, fold)))
        for fold in (range(number) if folds > 1 else (number - 1,))
    )


def _turns(number: int, fold: int) -> tuple[list[int], list[int], list[int]]:
    """Return the folds that train, the fold before the tested one, which validates, and the tested one."""
    before = (fold - 1) % number
    return [at for at in range(number) if at not in (fold, before)], [before], [fold]


_FIFTHS = 5


_GOLDEN = 0.6180339887498949


RIGHT, LEFT, PAIRS, CEILING = "right_branching", "left_branching", "token_pairs", "gold_tree"
"""Names of the controls.

In a chain to the right (left) each token is joined with all that follow (precede) it; its labels are the
commonest of the whole text, of all other gaps and of tokens. Pairs say of each gap what is commonest between
the same two words. The ceiling is the tree itself, but for labels that no training text has.
"""


def without_states(train: Sequence[TreeText], texts: Sequence[TreeText]) -> Mapping[str, np.ndarray]:
    """Compute the measures of `sonde.training.probes.trees` of each control, a row a text.

    Args:
        train: Texts from which the controls are fitted.
        texts: Test texts.
    """
    chain, pairs, known = _Chain(train), _Pairs(train), TreeLabels.of(train)
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for text in texts:
        gaps = len(text.words) - 1
        told = {
            RIGHT: chain.told(np.arange(gaps, 0, -1)),
            LEFT: chain.told(np.arange(1, gaps + 1)),
            PAIRS: pairs.told(text.words),
            CEILING: _known(text.tree, known),
        }
        for name, tree in told.items():
            said = constituents(tree.distance, tree.labels, tree.unary)
            found[name].append(compare(said, text.constituents))
    return {name: np.array(rows) for name, rows in found.items()}


def _known(tree: BinaryTree, known: TreeLabels) -> BinaryTree:
    gaps, unary = set(known.gaps), set(known.unary)
    return BinaryTree(
        tree.distance,
        tuple(kinds if kinds in gaps else ADDED for kinds in tree.labels),
        tuple(kinds if kinds in unary else ADDED for kinds in tree.unary),
    )


def _commonest(labels: Counter[Labels]) -> Labels:
    """Return the most frequent label; of equally frequent ones the first in order."""
    return min(labels, key=lambda kinds: (-labels[kinds], kinds), default=ADDED)


class _Chain:
    """Control that predicts the most frequent labels, whatever the text."""

    def __init__(self, train: Sequence[TreeText]) -> None:
        roots = Counter(text.tree.labels[int(text.tree.distance.argmax())] for text in train)
        gaps = Counter(kinds for text in train for kinds in text.tree.labels if kinds)
        self._root = _commonest(roots)
        self._gap = _commonest(gaps - roots)
        self._unary = _commonest(Counter(kinds for text in train for kinds in text.tree.unary))

    def told(self, distance: np.ndarray) -> BinaryTree:
        top = int(distance.argmax())
        labels = tuple(self._root if gap == top else self._gap for gap in range(len(distance)))
        return BinaryTree(distance, labels, (self._unary,) * (len(distance) + 1))


class _Pairs:
    """Control that predicts the most frequent value at the same words, or at fewer if they are unseen."""

    def __init__(self, train: Sequence[TreeText]) -> None:
        heights: dict[Hashable, list[int]] = defaultdict(list)
        gaps: dict[Hashable, Counter[Labels]] = defaultdict(Counter)
        unary: dict[Hashable, Counter[Labels]] = defaultdict(Counter)
        for text in train:
            rows = zip(_gap_keys(text.words), text.tree.distance.tolist(), text.tree.labels, strict=True)
            for keys, height, kinds in rows:
                for key in keys:
                    heights[key].append(height)
                    gaps[key][kinds] += 1
            for keys, kinds in zip(_token_keys(text.words), text.tree.unary, strict=True):
                for key in keys:
                    unary[key][kinds] += 1
        self._heights = {key: float(np.mean(held)) for key, held in heights.items()}
        self._gaps = {key: _commonest(held) for key, held in gaps.items()}
        self._unary = {key: _commonest(held) for key, held in unary.items()}

    def told(self, words: Sequence[str]) -> BinaryTree:
        heights = [_first(self._heights, keys) for keys in _gap_keys(words)]
        labels = [_first(self._gaps, keys) for keys in _gap_keys(words)]
        unary = [_first(self._unary, keys) for keys in _token_keys(words)]
        return BinaryTree(np.array(heights), tuple(labels), tuple(unary))


def _gap_keys(words: Sequence[str]) -> Iterator[tuple[Hashable, ...]]:
    """Yield the keys of each gap, the most specific first."""
    for left, right in pairwise(words):
        yield (left, right), right, None


def _token_keys(words: Sequence[str]) -> Iterator[tuple[Hashable, ...]]:
    for left, word, right in zip(("", *words), words, (*words[1:], ""), strict=False):
        yield (left, word, right), word, None


def _first(held: Mapping[Hashable, Any], keys: Sequence[Hashable]) -> Any:
    return next(held[key] for key in keys if key in held)
