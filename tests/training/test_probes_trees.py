"""Probes of whole trees: a slow reading of F1, states that hold a tree, and what is told without states."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sonde.base.errors import InputError
from sonde.languages.engine.tree import NO_LABELS, BinaryTree, Labels
from sonde.training.probes.trees import (
    CEILING,
    LEFT,
    PAIRS,
    RIGHT,
    TreeText,
    compare_constituents,
    measure_tree_controls,
    probe_trees,
)

GAPS: tuple[Labels, ...] = (NO_LABELS, ("a",), ("b", "c"))
UNARY: tuple[Labels, ...] = (NO_LABELS, ("d",))


def test_what_is_counted_by_hand() -> None:
    truth = Counter({("root", 0, 4): 1, ("block", 1, 4): 2, ("name", 2, 2): 1})
    said = Counter({("root", 0, 4): 1, ("block", 1, 4): 1, ("block", 0, 1): 3})
    precision, recall, f1, brackets = compare_constituents(said, truth)
    # Right are the root and one of the two blocks, of five that are said and four that there are.
    assert (precision, recall, f1) == pytest.approx((2 / 5, 2 / 4, 2 * 0.4 * 0.5 / 0.9))
    # Without labels: (0, 4), (1, 4) of three each.
    assert brackets == pytest.approx(2 / 3)
    assert compare_constituents(truth, truth) == (1.0, 1.0, 1.0, 1.0)
    assert compare_constituents(Counter(), truth) == (0.0, 0.0, 0.0, 0.0)


def random_binary(rng: np.random.Generator, tokens: int) -> BinaryTree:
    distance = np.zeros(tokens - 1, np.int64)

    def part(first: int, last: int) -> int:
        if first == last:
            return 0
        cut = int(rng.integers(first, last))
        distance[cut] = 1 + max(part(first, cut), part(cut + 1, last))
        return int(distance[cut])

    part(0, tokens - 1)
    gaps = tuple(GAPS[at] for at in rng.integers(len(GAPS), size=tokens - 1))
    return BinaryTree(distance, gaps, tuple(UNARY[at] for at in rng.integers(2, size=tokens)))


def planted(rng: np.random.Generator, tree: BinaryTree) -> np.ndarray:
    """States whose steps have the heights as squares, and a direction a label."""
    tokens = len(tree.unary)
    states = np.zeros((tokens, 24))
    for gap, (height, kinds) in enumerate(zip(tree.distance.tolist(), tree.labels, strict=True)):
        # There and back again, so that states do not grow; the sign says nothing.
        states[gap + 1, :20] = states[gap, :20] + np.sqrt(height) * (-1) ** gap
        states[gap + 1, 20:22] = states[gap, 20:22] + 0.3 * np.array([kinds == GAPS[1], kinds == GAPS[2]])
    states[:, 22] = [0.3 * (kinds == UNARY[1]) for kinds in tree.unary]
    return states


@pytest.mark.slow
def test_a_tree_that_lies_in_the_states_of_one_layer_is_given_back() -> None:
    rng = np.random.default_rng(0)
    texts: list[TreeText] = []
    for _ in range(260):
        tree = random_binary(rng, 7)
        states = rng.normal(size=(2, 7, 24)).astype(np.float32)
        states[1] = planted(rng, tree)
        texts.append(TreeText(states, ("x",) * 7, tree))
    split = ["train"] * 200 + ["valid"] * 30 + ["test"] * 30
    found = probe_trees(texts, split, rank=24)
    chance = measure_tree_controls(texts[:200], texts[230:])
    noise, held = found.test[2].mean(axis=1)
    assert found.valid_f1.argmax() == 1 and found.rank == 24
    assert held > 0.9
    # States that know nothing give no more than a chain does.
    assert noise < chance[RIGHT][:, 2].mean() + 0.05 < 0.5
    with pytest.raises(InputError, match="no function in split 'valid'"):
        probe_trees(texts[:4], ["train", "train", "test", "test"], rank=4)


def text(words: str, distance: list[int], gaps: list[Labels], unary: list[Labels]) -> TreeText:
    names = tuple(words.split())
    return TreeText(
        np.zeros((1, len(names), 1)), names, BinaryTree(np.array(distance), tuple(gaps), tuple(unary))
    )


def test_what_is_told_without_states_by_hand() -> None:
    none = NO_LABELS
    train = [
        text("f ( a )", [3, 2, 1], [("call",), ("arguments",), none], [none, none, ("name",), none]),
        text("f ( b )", [3, 2, 1], [("call",), ("arguments",), none], [none, none, ("name",), none]),
    ]
    # A list within a call: its label is in no training text.
    (test,) = [text("f ( a ]", [3, 2, 1], [("call",), ("list",), none], [none, none, ("name",), none])]
    told = measure_tree_controls(train, [test])
    # There are call (0-3), list (1-3) and name (2). The ceiling says call and name: two of two, of three.
    assert told[CEILING][0, :3] == pytest.approx([1.0, 2 / 3, 0.8])
    # Pairs of words give call, arguments (wrongly) and the name.
    assert told[PAIRS][0, :3] == pytest.approx([2 / 3, 2 / 3, 2 / 3])
    assert told[PAIRS][0, 3] == 1.0
    # A chain to the right says call (0-3), arguments (1-3), arguments (2-3), one to the left call (0-3),
    # arguments (0-2), arguments (0-1). Their tokens have the commonest label, none.
    assert told[RIGHT][0] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 2 / 3])
    assert told[LEFT][0] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1 / 3])
