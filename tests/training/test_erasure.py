"""LEACE against concept-erasure, and what it is for: afterwards no linear classifier beats a constant."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from sonde.training.erasure import (
    StateDistribution,
    compute_second_moment,
    encode_one_hot,
    equal_change_subspaces,
    leace,
    mean_squared_change,
    subspace_overlap,
    uniform_subspaces,
)


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


def spread(size: int = 2_000, width: int = 48, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """States with a few wide axes and many narrow ones; classes differ along a direction of medium width."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size)
    axes = np.linalg.qr(rng.normal(size=(width, width)))[0]
    states = rng.normal(size=(size, width)) * np.geomspace(8.0, 0.2, width) @ axes.T
    return states + 2.0 * np.where(labels, 1.0, -1.0)[:, None] * axes[:, 12], labels


def test_directions_as_wide_move_states_as_far_and_leave_class_means() -> None:
    states, labels = spread()
    erased = leace(states, labels)
    elsewhere = states + 0.1
    moment = compute_second_moment(elsewhere, erased.centre)
    draws = equal_change_subspaces(erased, moment, range(10))
    moved = [((one(elsewhere) - elsewhere) ** 2).sum(1).mean() for one in (erased, *draws)]
    np.testing.assert_allclose(moved, mean_squared_change(erased, moment), rtol=1e-4)
    apart = states[labels == 1].mean(0) - states[labels == 0].mean(0)
    for one in draws:
        np.testing.assert_allclose(one.down.T @ one.down, np.eye(erased.rank), atol=1e-9)
        kept = apart - (apart @ one.down) @ one.up
        np.testing.assert_allclose(kept, apart, atol=1e-6)


def test_draws_of_directions_are_different_ones() -> None:
    """Drawn along the widest axes alone, two of them would be nearly the same."""
    states, labels = spread()
    erased = leace(states, labels)
    moment = compute_second_moment(states, erased.centre)
    assert subspace_overlap(equal_change_subspaces(erased, moment, range(10))) < 0.2
    assert subspace_overlap(uniform_subspaces(erased, range(40))) == pytest.approx(1 / 48, abs=0.01)
    top = np.linalg.eigh(moment)[1][:, -1]
    for kind, most in (
        (uniform_subspaces, 0.1),
        (lambda one, seeds: equal_change_subspaces(one, moment, seeds), 0.4),
    ):
        assert np.mean([(top @ one.down) ** 2 for one in kind(erased, range(40))]) < most


def test_uniform_directions_have_no_preference() -> None:
    states, labels = spread()
    erased = leace(states, labels)
    drawn = np.stack([one.down[:, 0] for one in uniform_subspaces(erased, range(4_000))])
    np.testing.assert_allclose(drawn.T @ drawn / len(drawn), np.eye(48) / 48, atol=0.004)


def test_where_nothing_else_is_as_wide_the_widest_is_taken() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 500)
    states = rng.normal(size=(500, 6)) * 0.1
    states[:, 0] += 10.0 * labels
    erased = leace(states, labels)
    moment = compute_second_moment(states, erased.centre)
    (one,) = equal_change_subspaces(erased, moment, [0])
    assert mean_squared_change(one, moment) < 0.01 * mean_squared_change(erased, moment)
    assert one.rank == erased.rank == 1


def test_numbers_are_erased_together_with_classes() -> None:
    states, labels = drawn(400, 12, 3)
    size = states @ np.random.default_rng(4).normal(size=12)
    erased = leace(states, np.concatenate([encode_one_hot(labels), size[:, None]], axis=1))
    assert erased.rank == 3
    left = erased(states)
    np.testing.assert_allclose(np.cov(left.T, size)[-1, :-1], 0.0, atol=1e-8)
    assert loss(left, labels)[0] > loss(states, labels)[1] - 1e-6
    # A column that says nothing more changes nothing.
    twice = leace(states, np.concatenate([encode_one_hot(labels), encode_one_hot(labels) * 7.0], axis=1))
    np.testing.assert_allclose(twice(states), leace(states, labels)(states), atol=1e-8)


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
    by_means = leace(pooled(states), labels, cloud=StateDistribution.from_states(states, weights))
    np.testing.assert_allclose(by_means(states), erased(states), atol=1e-9)


def test_what_tells_nothing_is_left_as_it_is() -> None:
    states = np.tile(np.random.default_rng(0).normal(size=(50, 5)), (2, 1))
    labels = np.repeat([0, 1], 50)
    erased = leace(states, labels)
    (other,) = equal_change_subspaces(erased, compute_second_moment(states, erased.centre), [0])
    assert erased.rank == other.rank == 0
    np.testing.assert_array_equal(erased(states), states)
