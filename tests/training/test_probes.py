"""Linear probes against scikit-learn, against planted signals and against shuffled labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from sonde.base.errors import InputError
from sonde.training.probes.linear import probe_layers
from sonde.training.probes.softmax import Features, SoftmaxLoss, fit_softmax, to_state_weights
from sonde.training.probes.splits import Splits, check_labels, check_states

LAYERS, ITEMS, WIDTH = 4, 900, 24
SPLIT = np.array(["train", "train", "train", "valid", "test"])[np.arange(ITEMS) % 5]


def planted(layer: int, classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ill-conditioned noise everywhere; at one layer a direction a class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, ITEMS)
    spectrum = 10.0 ** np.linspace(-2, 2, WIDTH)
    states = rng.normal(size=(LAYERS, ITEMS, WIDTH)) * spectrum + 50.0
    direction = rng.normal(size=(classes, WIDTH)) * spectrum
    states[layer] += direction[labels] * 0.6
    return states.astype(np.float32), labels


@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_planted_signal_is_found_at_its_layer(layer: int) -> None:
    states, labels = planted(layer)
    parts = Splits.from_names(SPLIT.tolist())
    (found,) = probe_layers(states, labels[None], 3, parts)
    accuracy = (found.predicted == labels[parts.test]).mean(axis=1)
    assert found.best == layer
    assert accuracy[layer] > 0.8
    others = np.delete(accuracy, layer) * len(parts.test)
    low, high = binom.interval(0.999, len(parts.test), 1 / 3)
    assert ((low <= others) & (others <= high)).all()


def test_shuffled_labels_are_at_chance() -> None:
    states, labels = planted(2)
    rng = np.random.default_rng(1)
    shuffled = np.stack([rng.permutation(labels) for _ in range(3)])
    parts = Splits.from_names(SPLIT.tolist())
    for target, found in zip(shuffled, probe_layers(states, shuffled, 3, parts), strict=True):
        hits = (found.predicted[found.best] == target[parts.test]).sum()
        low, high = binom.interval(0.999, len(parts.test), 1 / 3)
        assert low <= hits <= high


@pytest.mark.parametrize("l2", [1.0, 0.01, 0.001])
def test_the_solution_for_two_classes_is_that_of_scikit_learn(l2: float) -> None:
    states, labels = planted(1, classes=2)
    scaled = StandardScaler().fit_transform(states[1].astype(np.float64))
    fit = fit_softmax(
        Features.fit(torch.from_numpy(scaled)[None]), torch.from_numpy(labels)[None], torch.tensor([l2]), 2,
        tolerance=1e-9, max_steps=5000,
    )  # fmt: skip
    referee = LogisticRegression(C=1 / (l2 * ITEMS), tol=1e-9, max_iter=10_000).fit(scaled, labels)
    np.testing.assert_allclose(fit.weight[0, 0, 1] - fit.weight[0, 0, 0], referee.coef_[0], atol=1e-5)
    np.testing.assert_allclose(fit.bias[0, 0, 1] - fit.bias[0, 0, 0], referee.intercept_[0], atol=1e-5)


@pytest.mark.parametrize("l2", [1.0, 0.01, 0.001])
def test_the_solution_is_that_of_scikit_learn(l2: float) -> None:
    states, labels = planted(1)
    scaled = StandardScaler().fit_transform(states[1].astype(np.float64))
    fit = fit_softmax(
        Features.fit(torch.from_numpy(scaled)[None]), torch.from_numpy(labels)[None], torch.tensor([l2]), 3,
        tolerance=1e-9, max_steps=5000,
    )  # fmt: skip
    referee = LogisticRegression(C=1 / (l2 * ITEMS), tol=1e-9, max_iter=10_000).fit(scaled, labels)
    np.testing.assert_allclose(fit.weight[0, 0], referee.coef_, atol=1e-5)
    bias = fit.bias[0, 0] - fit.bias[0, 0].mean()
    np.testing.assert_allclose(bias, referee.intercept_ - referee.intercept_.mean(), atol=1e-5)


def test_accuracy_equals_scikit_learn_tuned_on_the_same_validation() -> None:
    states, labels = planted(1, classes=5)
    parts = Splits.from_names(SPLIT.tolist())
    grid = (1.0, 0.1, 0.01, 0.001)
    (found,) = probe_layers(states, labels[None], 5, parts, l2=grid)
    for layer in range(LAYERS):
        scaled = StandardScaler().fit(states[layer][parts.train]).transform(states[layer])
        fits = [
            LogisticRegression(C=1 / (l2 * len(parts.train)), max_iter=5000).fit(
                scaled[parts.train], labels[parts.train]
            )
            for l2 in grid
        ]
        valid = [fit.score(scaled[parts.valid], labels[parts.valid]) for fit in fits]
        tried = np.isfinite(found.valid_accuracy[layer])
        assert tried[:-1].all()
        np.testing.assert_allclose(found.valid_accuracy[layer][tried], np.array(valid)[tried], atol=0.011)
        tuned = fits[int(np.argmax(np.isclose(grid, found.l2[layer])))]
        mine = (found.predicted[layer] == labels[parts.test]).mean()
        assert mine == pytest.approx(tuned.score(scaled[parts.test], labels[parts.test]), abs=0.01)


def test_the_weakest_penalty_is_tried_where_the_next_one_is_best_and_is_then_solved() -> None:
    states, labels = planted(1, classes=2)
    states[2:] = np.random.default_rng(7).normal(size=states[2:].shape)
    parts = Splits.from_names(SPLIT.tolist())
    grid = (0.001, 1.0, 0.1)  # in any order
    (found,) = probe_layers(states, labels[None], 2, parts, l2=grid, by_nats=True)
    scaled = [StandardScaler().fit(of[parts.train]).transform(of) for of in states]
    tried = []
    for layer, of in enumerate(scaled):
        nats = []
        for l2 in grid:
            fit = LogisticRegression(C=1 / (l2 * len(parts.train)), max_iter=5000)
            fit.fit(of[parts.train], labels[parts.train])
            nats.append(log_loss(labels[parts.valid], fit.predict_proba(of[parts.valid])))
        tried.append(nats[2] < nats[1])
        places = [0, 1, 2] if tried[-1] else [1, 2]
        assert found.l2[layer] == grid[min(places, key=lambda place: nats[place])]
    assert (np.isfinite(found.valid_accuracy[:, 0]) == tried).all() and len(set(tried)) == 2


def test_several_label_sets_together_are_those_alone() -> None:
    states, labels = planted(0)
    other = np.random.default_rng(5).permutation(labels)
    parts = Splits.from_names(SPLIT.tolist())
    together = probe_layers(states, np.stack([labels, other]), 3, parts)
    for target, found in zip((labels, other), together, strict=True):
        (alone,) = probe_layers(states, target[None], 3, parts)
        np.testing.assert_allclose(found.log_chance, alone.log_chance, atol=0.02)
        assert found.best == alone.best


def test_layers_in_chunks_are_those_together(monkeypatch: pytest.MonkeyPatch) -> None:
    states, labels = planted(3)
    parts = Splits.from_names(SPLIT.tolist())
    (whole,) = probe_layers(states, labels[None], 3, parts)
    monkeypatch.setattr("sonde.training.probes.linear.layers_per_chunk", lambda *sizes: 1)
    (chunked,) = probe_layers(states, labels[None], 3, parts)
    assert chunked.best == whole.best == 3
    np.testing.assert_allclose(chunked.log_chance, whole.log_chance, atol=0.02)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 5), items=st.integers(3, 12))
def test_the_gradient_is_that_of_automatic_differentiation(seed: int, classes: int, items: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(2, items, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (3, items), generator=generator)
    l2 = torch.rand(3, generator=generator, dtype=torch.float64)
    features = Features.fit(states)
    loss = SoftmaxLoss.build(features, labels, l2, classes)
    directions, width = 1 if classes == 2 else classes, features.axes.shape[2]
    point = torch.randn(
        2, 3, directions, width + 1, generator=generator, dtype=torch.float64, requires_grad=True
    )
    weight, bias = to_state_weights(point[..., :-1], features.axes), point[..., -1]
    scores = torch.einsum("lpkd,lnd->lpnk", weight, states) + bias[:, :, None]
    if classes == 2:
        scores = torch.cat([torch.zeros_like(scores), scores], 3)
    entropy = torch.nn.functional.cross_entropy(
        scores.flatten(0, 2), labels.expand(2, -1, -1).flatten(), reduction="none"
    )
    value = entropy.view(2, 3, items).mean(2) + l2 / 2 * point[..., :-1].square().sum((2, 3))
    value.sum().backward()
    assert point.grad is not None
    found, gradient = loss.evaluate(point.detach())
    torch.testing.assert_close(found, value.detach())
    torch.testing.assert_close(gradient, point.grad)


def test_of_fewer_items_than_features_the_solution_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    labels = np.arange(40) % 4
    states = StandardScaler().fit_transform(rng.normal(size=(40, 90)) + labels[:, None])
    fit = fit_softmax(
        Features.fit(torch.from_numpy(states)[None]), torch.from_numpy(labels)[None], torch.tensor([0.01]), 4,
        tolerance=1e-9, max_steps=5000,
    )  # fmt: skip
    referee = LogisticRegression(C=1 / (0.01 * 40), tol=1e-9, max_iter=10_000).fit(states, labels)
    np.testing.assert_allclose(fit.weight[0, 0], referee.coef_, atol=1e-5)


def test_features_that_do_not_vary_do_no_harm() -> None:
    states, labels = planted(1)
    states[:, :, 3] = 7.25
    parts = Splits.from_names(SPLIT.tolist())
    (found,) = probe_layers(states, labels[None], 3, parts)
    assert found.best == 1 and np.isfinite(found.log_chance).all()


def test_separable_classes_and_more_features_than_items() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    states = rng.normal(size=(1, 60, 200)).astype(np.float32)
    states[0, :, :100] += 3 * labels[:, None]
    parts = Splits.from_names(["train"] * 30 + ["valid"] * 15 + ["test"] * 15)
    (found,) = probe_layers(states, labels[None], 2, parts, l2=(1e-2, 1e-6))
    assert (found.predicted[0] == labels[parts.test]).all()


def test_states_in_half_precision_serve_as_well() -> None:
    states, labels = planted(2)
    states -= 50.0  # an offset far above the features would use half precision up
    parts = Splits.from_names(SPLIT.tolist())
    (full,) = probe_layers(states, labels[None], 3, parts)
    (half,) = probe_layers(states.astype(np.float16), labels[None], 3, parts)
    assert half.best == full.best
    assert (half.predicted[2] == full.predicted[2]).mean() > 0.97


def test_unusable_input_is_one_line() -> None:
    states, labels = planted(0)
    parts = Splits.from_names(SPLIT.tolist())
    broken = states.copy()
    broken[2, 5, 0] = np.nan
    with pytest.raises(InputError, match=r"'CPX'.* 1 of 900 states of layer 2 are NaN"):
        check_states("CPX", broken)
    with pytest.raises(InputError, match="'CPX': one class only"):
        check_labels("CPX", np.zeros(ITEMS, int), ["A"], parts)
    labels[parts.valid] = 0
    with pytest.raises(InputError, match="class '1' has no example in split 'valid'"):
        check_labels("CPX", labels, ["0", "1", "2"], parts)
