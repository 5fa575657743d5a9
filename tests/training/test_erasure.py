"""LEACE against concept-erasure, and what it is for: afterwards no linear classifier beats a constant."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sonde.training.erasure import Cloud, leace, random_like


def drawn(size: int, width: int, classes: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """States of one cloud a class, all of one odd shape."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, size)
    states = rng.normal(size=(size, width)) @ rng.normal(size=(width, width))
    return states + rng.normal(size=(classes, width))[labels], labels


def loss(states: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Mean log-loss of an unpenalised linear classifier on its own data, and of the best constant."""
    scale = states.std(0)
    states = (states - states.mean(0)) / np.where(scale > 0, scale, 1.0)
    fitted = LogisticRegression(C=np.inf, max_iter=5_000, tol=1e-10).fit(states, labels, weights)
    with np.errstate(divide="ignore"):
        at = fitted.predict_log_proba(states)[np.arange(len(labels)), labels]
    share = np.bincount(labels, weights) / (len(labels) if weights is None else weights.sum())
    return float(-np.average(at, weights=weights)), float(-(share * np.log(share)).sum())


def test_it_is_what_concept_erasure_gives() -> None:
    """Numbers made by concept-erasure 0.2.4 with ``shrinkage=False, svd_tol=1e-6`` on these very states."""
    states, labels = drawn(24, 4, 3)
    made = [
        [-3.87563854, 2.07561442, 0.22886585, 1.09447426],
        [-1.20987989, -0.33797165, 0.55675163, 0.71716034],
        [-2.26165152, 0.09284394, 0.7888031, 0.66415454],
        [1.07793624, -1.30392322, 0.07198169, 0.8212936],
    ]
    np.testing.assert_allclose(leace(states, labels)(states)[:4], made, atol=1e-8)


def test_weights_count_as_repetitions_do() -> None:
    states, labels = drawn(24, 4, 3)
    times = np.random.default_rng(1).integers(1, 4, 24)
    repeated = leace(np.repeat(states, times, 0), np.repeat(labels, times))
    np.testing.assert_allclose(
        leace(states, labels, weights=times.astype(float))(states), repeated(states), atol=1e-10
    )


@pytest.mark.parametrize(("size", "width", "classes"), [(400, 12, 4), (300, 30, 2), (60, 40, 5)])
def test_no_linear_classifier_beats_the_constant(size: int, width: int, classes: int) -> None:
    states, labels = drawn(size, width, classes)
    before, constant = loss(states, labels)
    assert before < constant - 0.05
    erased = leace(states, labels)
    assert erased.rank == classes - 1
    after, constant = loss(erased(states), labels)
    assert after > constant - 1e-6
    # A random subspace of the same rank that moves states as far leaves the property where it was.
    (other,) = random_like(erased, Cloud.of(states), [3])
    assert other.rank == erased.rank
    moved = [((one(states) - states) ** 2).sum(1).mean() for one in (erased, other)]
    np.testing.assert_allclose(moved, [erased.change, erased.change], rtol=1e-6)
    np.testing.assert_allclose(loss(other(states), labels)[0], before, atol=1e-4)


def test_of_functions_every_subword_counts_by_the_length_of_its_function() -> None:
    """The pooled states of functions lose their class only where subwords are weighted by one over length."""
    rng = np.random.default_rng(2)
    lengths = rng.integers(2, 30, 120)
    labels = (lengths > 12).astype(int)
    function = np.repeat(np.arange(120), lengths)
    states = rng.normal(size=(len(function), 6)) + labels[function, None] * rng.normal(size=6)
    states += rng.normal(size=(120, 6))[function]
    weights = 1.0 / lengths[function]

    def pooled(values: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(function, values[:, at]) for at in range(6)], 1) / lengths[:, None]

    erased = leace(states, labels[function], weights=weights)
    after, constant = loss(pooled(erased(states)), labels)
    assert after > constant - 1e-6
    unweighted = leace(states, labels[function])
    assert loss(pooled(unweighted(states)), labels)[0] < constant - 1e-4
    # Means of functions, with the cloud of the subwords, give the same map.
    by_means = leace(pooled(states), labels, cloud=Cloud.of(states, weights))
    np.testing.assert_allclose(by_means(states), erased(states), atol=1e-9)


def test_what_tells_nothing_is_left_as_it_is() -> None:
    states = np.tile(np.random.default_rng(0).normal(size=(50, 5)), (2, 1))
    labels = np.repeat([0, 1], 50)
    erased = leace(states, labels)
    (other,) = random_like(erased, Cloud.of(states), [0])
    assert erased.rank == other.rank == 0
    np.testing.assert_array_equal(erased(states), states)
