"""At which layers a task is encoded: draws with a planted truth, and the lens on states that hold it."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from scipy.special import ndtri
from tests.lenses.test_probe import TEMPLATE

from sonde.lenses.probe.fit import BEST, FittedProbes
from sonde.lenses.probe.score import compare_layers
from sonde.results import mean_rows, trained_rows
from sonde.results.layers import LayerSummary, summarise_layers
from sonde.results.scores import Score, scores_to_frame

CLUSTERS, SIZE, FOLDS, DRAWS = 40, 10, 5, 200
SURFACE = 0.6
FIVE = {"folds": 5, "controls": True}

ENCODED = np.array([0.6, 0.62, 0.65, 0.8, 0.8, 0.7, 0.65])
PLANTED = {3, 4}


def draw(accuracies: np.ndarray, rng: np.random.Generator) -> LayerSummary:
    """Right answers of every layer and of a control: what clusters and examples share makes them alike."""
    owner = np.repeat(np.arange(CLUSTERS), SIZE)
    shared = 0.4 * rng.normal(size=(1, CLUSTERS))[:, owner] + 0.6 * rng.normal(size=(1, len(owner)))
    level = ndtri(np.append(accuracies, SURFACE))[:, None]
    right = rng.normal(size=(len(level), len(owner))) * np.sqrt(1 - 0.4**2 - 0.6**2) + shared < level
    correct, surface = right[:-1], right[-1]
    fold = owner % FOLDS
    order = np.argsort(fold, kind="stable")
    # The fold that comes next is the validation part of each, as in the lens.
    chosen = [int(correct[:, fold == (at + 1) % FOLDS].mean(1).argmax()) for at in range(FOLDS)]
    valid = np.array([correct[layer].mean() for layer in range(len(correct))])
    found = FittedProbes(
        kind="linear",
        predicted=correct[:, order].astype(np.int64),
        correct=correct[:, order],
        valid=valid,
        l2=np.ones(len(correct)),
        layers=tuple(chosen),
        sizes=(len(owner) // FOLDS,) * FOLDS,
    )
    return account_of(found, owner[order], surface[order])


def account_of(found: FittedProbes, clusters: np.ndarray, surface: np.ndarray) -> LayerSummary:
    template = dataclasses.replace(TEMPLATE, task="task", split="test", pooling="mean", method="linear")
    accuracy = dataclasses.replace(template, metric="accuracy")
    rows: list[Score] = mean_rows(
        accuracy, found.correct, clusters, [{"layer": layer} for layer in range(len(found.correct))]
    )
    best = {"layer": found.best, "dimensions": (BEST,), "fold_layers": found.layers}
    rows += mean_rows(accuracy, found.at_best_layer(found.correct)[None], clusters, [best])
    gain = dataclasses.replace(template, metric="gain", control="length", **best)
    rows += trained_rows(gain, found.at_best_layer(found.correct), clusters, baseline=surface)
    rows += compare_layers(found, clusters, template, ("length", surface))
    (account,) = summarise_layers(scores_to_frame(rows))
    return account


def accounts(accuracies: np.ndarray, seed: int) -> list[LayerSummary]:
    rng = np.random.default_rng(seed)
    return [draw(accuracies, rng) for _ in range(DRAWS)]


def test_the_draws_are_as_accurate_as_they_are_planted() -> None:
    found = accounts(ENCODED, 0)
    means = np.mean([[one.accuracy["value"] for one in account.layers] for account in found], axis=0)
    assert means == pytest.approx(ENCODED, abs=0.02)


def test_what_is_planted_is_encoded_and_its_layers_are_in_the_set() -> None:
    found = accounts(ENCODED, 1)
    assert sum(account.status == "encoded" for account in found) >= 0.95 * DRAWS
    assert sum(set(account.tied or ()) >= PLANTED for account in found) >= 0.95 * DRAWS
    # The set is no list of all layers: those far below are out.
    assert sum(not set(account.named) & {0, 1} for account in found) >= 0.95 * DRAWS


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 7, 13])
def test_labels_by_coin_are_not_encoded(layers: int) -> None:
    found = Counter(account.status for account in accounts(np.full(layers, SURFACE), 2))
    assert found["absent"] >= 0.95 * DRAWS, found


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, 7, 13])
def test_of_equal_layers_all_are_in_the_set(layers: int) -> None:
    found = accounts(np.full(layers, 0.75), 3)
    assert sum(len(account.named) == layers for account in found) >= 0.95 * DRAWS
