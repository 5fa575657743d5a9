"""Structural probes: trees by hand, a slow reading of distances, and states that hold a tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.base.errors import InputError
from sonde.languages import LANGUAGES
from sonde.training.probes.structural import Sentence, compare, probe_structure, tree_of


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
def test_distances_are_edges_and_links_a_tree(seed: int, size: int) -> None:
    parent, leaves = random_tree(np.random.default_rng(seed), size)
    distance, depth, links = tree_of(parent, leaves)
    steps = np.full((len(parent), len(parent)), 10**6)
    np.fill_diagonal(steps, 0)
    for node, above in enumerate(parent):
        if above >= 0:
            steps[node, above] = steps[above, node] = 1
    for middle in range(len(parent)):
        steps = np.minimum(steps, steps[:, [middle]] + steps[[middle]])
    np.testing.assert_array_equal(distance, steps[np.ix_(leaves, leaves)])
    np.testing.assert_array_equal(depth, steps[0, leaves])
    assert len(links) == size - 1
    reached = {0}
    for before, token in links.tolist():
        assert before in reached and before < token
        reached.add(token)
    assert reached == set(range(size))


def test_the_links_of_an_assignment() -> None:
    tree = LANGUAGES.load("python").parse("a = f(b)")
    distance, depth, links = tree_of(tree.parent, tree.leaves)
    assert [tree.node_text(leaf) for leaf in tree.leaves] == ["a", "=", "f", "(", "b", ")"]
    # a and = meet in the assignment; f opens the call, its bracket the arguments.
    assert links.tolist() == [[0, 1], [0, 2], [2, 3], [3, 4], [3, 5]]
    assert distance[0, 1] == 2 and distance[0, 2] == 3 and distance[3, 4] == 2 and distance[0, 4] == 4
    assert depth.tolist() == [3, 3, 4, 5, 5, 5]


def test_what_a_perfect_probe_and_a_blind_one_are_told() -> None:
    parent, leaves = random_tree(np.random.default_rng(1), 9)
    distance, depth, links = tree_of(parent, leaves)
    text = Sentence(np.zeros((1, 9, 2)), distance, depth, links)
    linked = np.full((9, 9), 9.0)
    linked[tuple(links.T)] = linked[tuple(links.T[::-1])] = 1.0
    assert compare(linked, depth.astype(float), text)[1:] == (1.0, pytest.approx(1.0))
    assert compare(distance.astype(float), -depth.astype(float), text)[::2] == pytest.approx((1.0, -1.0))


@pytest.mark.slow
def test_a_tree_that_lies_in_the_states_of_one_layer_is_found_there() -> None:
    """A node a direction, a token the sum of its path: squared distances are then the tree's."""
    rng = np.random.default_rng(0)
    texts: list[Sentence] = []
    for _ in range(120):
        parent, leaves = random_tree(rng, 8)
        distance, depth, links = tree_of(parent, leaves)
        nodes = np.zeros((len(parent), 24))
        for node, above in enumerate(parent):
            if above >= 0:
                nodes[node] = nodes[above]
                nodes[node, node] = 1.0
        states = rng.normal(size=(2, 8, 24)).astype(np.float32)
        states[1] = nodes[leaves]
        texts.append(Sentence(states, distance, depth, links))
    split = ["train"] * 80 + ["valid"] * 20 + ["test"] * 20
    found = probe_structure(texts, split, epochs=60)
    assert found.best == 1
    assert found.distance_spearman[1].mean() > 0.9 > 0.5 > found.distance_spearman[0].mean()
    assert found.depth_spearman[1].mean() > 0.8
    assert found.uuas[1].mean() > found.uuas[0].mean() + 0.2
    with pytest.raises(InputError, match="no function in split 'valid'"):
        probe_structure(texts[:4], ["train", "train", "test", "test"])
