"""Trees that are told without a model, from training texts alone: what recovered trees are held against."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from sonde.languages.engine.tree import NO_LABELS, BinaryTree, Labels, count_constituents
from sonde.training.probes.trees import TreeLabels, TreeText, compare_constituents

RIGHT, LEFT, PAIRS, CEILING = "right_branching", "left_branching", "token_pairs", "gold_tree"
"""Names of the controls.

In a chain to the right (left) each token is joined with all that follow (precede) it; its labels are the
commonest of the whole text, of all other gaps and of tokens. Pairs say of each gap what is commonest between
the same two words. The ceiling is the tree itself, but for labels that no training text has.
"""


def measure_tree_controls(train: Sequence[TreeText], texts: Sequence[TreeText]) -> Mapping[str, np.ndarray]:
    """Compute the measures of `sonde.training.probes.trees` of each control, a row a text.

    Args:
        train: Texts from which the controls are fitted.
        texts: Test texts.
    """
    chain, pairs, vocabulary = _Chain(train), _Pairs(train), TreeLabels.from_texts(train)
    measures: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for text in texts:
        gaps = len(text.words) - 1
        predictions = {
            RIGHT: chain.predict(np.arange(gaps, 0, -1)),
            LEFT: chain.predict(np.arange(1, gaps + 1)),
            PAIRS: pairs.predict(text.words),
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


class _Chain:
    """Control that predicts the most frequent labels, whatever the text."""

    def __init__(self, train: Sequence[TreeText]) -> None:
        roots = Counter(text.tree.labels[int(text.tree.distance.argmax())] for text in train)
        gaps = Counter(kinds for text in train for kinds in text.tree.labels if kinds)
        self._root = _most_common(roots)
        self._gap = _most_common(gaps - roots)
        self._unary = _most_common(Counter(kinds for text in train for kinds in text.tree.unary))

    def predict(self, distance: np.ndarray) -> BinaryTree:
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
        self._heights = {key: float(np.mean(values)) for key, values in heights.items()}
        self._gaps = {key: _most_common(counter) for key, counter in gaps.items()}
        self._unary = {key: _most_common(counter) for key, counter in unary.items()}

    def predict(self, words: Sequence[str]) -> BinaryTree:
        heights = [_find_first(self._heights, keys) for keys in _gap_keys(words)]
        labels = [_find_first(self._gaps, keys) for keys in _gap_keys(words)]
        unary = [_find_first(self._unary, keys) for keys in _token_keys(words)]
        return BinaryTree(np.array(heights), tuple(labels), tuple(unary))


def _gap_keys(words: Sequence[str]) -> Iterator[tuple[Hashable, ...]]:
    """Yield the keys of each gap, the most specific first."""
    for left, right in pairwise(words):
        yield (left, right), right, None


def _token_keys(words: Sequence[str]) -> Iterator[tuple[Hashable, ...]]:
    for left, word, right in zip(("", *words), words, (*words[1:], ""), strict=False):
        yield (left, word, right), word, None


def _find_first(table: Mapping[Hashable, Any], keys: Sequence[Hashable]) -> Any:
    return next(table[key] for key in keys if key in table)
