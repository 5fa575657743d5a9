"""Structural probes: trees by hand, a slow reading of distances, and states that hold a tree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.base.errors import InputError
from sonde.languages import LANGUAGES
from sonde.training.probes.structural import Sentence, compare_distances, measure_tree, probe_structure


def random_tree(rng: np.random.Generator, leaves: int) -> tuple[np.ndarray, np.ndarray]:
    """A tree in pre-order whose leaves stand in text order, by splitting runs of leaves."""
    parent: list[int] = []
    found: list[int] = []

    def grow(size: int, above: int) -> None:
        parent.append(above)
        own = len(parent) - 1
        if size == 1:
            found.append(own)
            return
        cut = int(rng.integers(1, size))
        grow(cut, own)
        grow(size - cut, own)

    grow(leaves, -1)
    return np.array(parent), np.array(found)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 12))
def test_distances_are_edges(seed: int, size: int) -> None:
    parent, leaves = random_tree(np.random.default_rng(seed), size)
    distance, depth = measure_tree(parent, leaves)
    steps = np.full((len(parent), len(parent)), 10**6)
    np.fill_diagonal(steps, 0)
    for node, above in enumerate(parent):
        if above >= 0:
            steps[node, above] = steps[above, node] = 1
    for middle in range(len(parent)):
        steps = np.minimum(steps, steps[:, [middle]] + steps[[middle]])
    np.testing.assert_array_equal(distance, steps[np.ix_(leaves, leaves)])
    np.testing.assert_array_equal(depth, steps[0, leaves])


def test_distances_and_depths_of_an_assignment() -> None:
    tree = LANGUAGES.load("python").parse("a = f(b)")
    distance, depth = measure_tree(tree.parent, tree.leaves)
    assert [tree.node_text(leaf) for leaf in tree.leaves] == ["a", "=", "f", "(", "b", ")"]
    assert distance[0, 1] == 2 and distance[0, 2] == 3 and distance[3, 4] == 2 and distance[0, 4] == 4
    assert depth.tolist() == [3, 3, 4, 5, 5, 5]


def code_tree(code: str) -> Sentence:
    language = LANGUAGES.load("python")
    tree = language.parse(code)
    return Sentence(np.zeros((1, 1, 1)), *measure_tree(tree.parent, language.tokens(tree).node))


@pytest.mark.parametrize(
    "code",
    [
        "def f(a, b):\n    return a + b\n",
        "def g(x):\n    for i in range(x):\n        if i % 2: print(i, x[i])\n    return {'a': x}\n",
        "for x in y: z.append(x)",
    ],
)
def test_the_trees_own_distances_find_every_link(code: str) -> None:
    """The ceiling of the measure: nothing else is asked of a probe than to say the distances."""
    text = code_tree(code)
    distance = text.distance.astype(float)
    found = compare_distances(distance, text.depth.astype(float), text)
    assert found == pytest.approx((1.0, 1.0, 1.0))
    # Ties broken in whatever way, and any change that keeps the order, cost nothing.
    rng = np.random.default_rng(0)
    for _ in range(20):
        jitter = rng.uniform(0, 0.01, distance.shape)
        assert compare_distances(distance**2 + jitter + jitter.T, text.depth.astype(float), text)[1] == 1.0


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 6))
def test_links_are_those_of_the_best_of_all_minimum_spanning_trees(seed: int, size: int) -> None:
    """Against all spanning trees, tried one by one."""
    rng = np.random.default_rng(seed)
    text = Sentence(np.zeros((1, size, 1)), *measure_tree(*random_tree(rng, size)))
    guess = rng.uniform(0.1, 1.0, (size, size))
    guess = guess + guess.T
    trees = [tree for tree in itertools.combinations(itertools.combinations(range(size), 2), size - 1)
             if _spans(tree, size)]  # fmt: skip
    own = min(trees, key=lambda tree: sum(guess[pair] for pair in tree))
    lengths = [sum(int(text.distance[pair]) for pair in tree) for tree in trees]
    shortest = [tree for tree, length in zip(trees, lengths, strict=True) if length == min(lengths)]
    share = max(len(set(own) & set(tree)) for tree in shortest) / (size - 1)
    assert compare_distances(guess, text.depth.astype(float), text)[1] == pytest.approx(share)


def _spans(links: tuple[tuple[int, int], ...], size: int) -> bool:
    reached = {0}
    for _ in links:
        reached |= {node for pair in links if reached & set(pair) for node in pair}
    return len(reached) == size


def test_what_a_blind_probe_is_told() -> None:
    text = Sentence(np.zeros((1, 9, 2)), *measure_tree(*random_tree(np.random.default_rng(1), 9)))
    found = compare_distances(text.distance.astype(float), -text.depth.astype(float), text)
    assert found == pytest.approx((1.0, 1.0, -1.0))


@pytest.mark.slow
def test_a_tree_that_lies_in_the_states_of_one_layer_is_found_there() -> None:
    """A node a direction, a token the sum of its path: squared distances are then the tree's."""
    rng = np.random.default_rng(0)
    texts: list[Sentence] = []
    for _ in range(120):
        parent, leaves = random_tree(rng, 8)
        distance, depth = measure_tree(parent, leaves)
        nodes = np.zeros((len(parent), 24))
        for node, above in enumerate(parent):
            if above >= 0:
                nodes[node] = nodes[above]
                nodes[node, node] = 1.0
        states = rng.normal(size=(2, 8, 24)).astype(np.float32)
        states[1] = nodes[leaves]
        texts.append(Sentence(states, distance, depth))
    split = ["train"] * 80 + ["valid"] * 20 + ["test"] * 20
    found = probe_structure(texts, split, epochs=60)
    assert found.best == 1
    assert found.distance_spearman[1].mean() > 0.9 > 0.5 > found.distance_spearman[0].mean()
    assert found.depth_spearman[1].mean() > 0.8
    assert found.uuas[1].mean() > found.uuas[0].mean() + 0.2
    with pytest.raises(InputError, match="no function in split 'valid'"):
        probe_structure(texts[:4], ["train", "train", "test", "test"])
