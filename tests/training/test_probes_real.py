"""Probes against scikit-learn on real states of the bundled encoder."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sonde.alignment import align, encode
from sonde.capture.forward import observe
from sonde.capture.requests import HiddenStates, Pass, Plain, Prepared
from sonde.corpora import Intake, Item, read_items
from sonde.languages import LANGUAGES
from sonde.models import ModelSpec, load_model
from sonde.tasks import TASKS
from sonde.training.probes.linear import L2, Parts, probe_layers

pytestmark = pytest.mark.slow

COUNT = 400
TASK_NAMES = ("len", "cpx", "ocu", "vcu", "mxn")


@pytest.fixture(scope="module")
def items() -> list[Item]:
    found = (item for item in read_items("stdlib", Intake(), languages=("python",)))
    short = (item for item in found if 120 < len(item.text) < 500)
    return list(itertools.islice(itertools.islice(short, 0, None, 5), COUNT))


@pytest.fixture(scope="module")
def states(items: list[Item]) -> np.ndarray:
    loaded, language = load_model(ModelSpec(name="sonde/mini-encoder")), LANGUAGES.load("python")
    prepared: list[Prepared] = []
    for item in items:
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        prepared.append(
            Prepared(item, tree, tokens, align(encode(loaded.tokenizer, item.text), tree, tokens))
        )
    captures = observe(loaded, prepared, [Pass(Plain(), (HiddenStates(),))])
    return np.stack([capture.states["mean"] for capture in captures], axis=1)


@pytest.mark.parametrize("name", TASK_NAMES)
def test_accuracy_is_within_a_point_of_scikit_learn(name: str, items: list[Item], states: np.ndarray) -> None:
    """Both choose their penalty on validation, layer by layer; small test sets differ by single items."""
    tables = TASKS.load(name).label(items, {})
    values = np.array([tables[item.item_id]["value"][0] for item in items], dtype=float)
    labels = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
    parts = Parts.of(
        np.array(["train", "valid", "test", "train", "test"])[np.arange(len(items)) % 5].tolist()
    )
    classes = [str(label) for label in np.unique(labels)]
    (found,) = probe_layers(states, labels[None], classes, parts)
    theirs: list[float] = []
    for layer in states:
        scaled = StandardScaler().fit(layer[parts.train]).transform(layer)
        fits = [
            LogisticRegression(C=1 / (l2 * len(parts.train)), max_iter=5000).fit(
                scaled[parts.train], labels[parts.train]
            )
            for l2 in L2
        ]
        best = max(fits, key=lambda fit: fit.score(scaled[parts.valid], labels[parts.valid]))
        theirs.append(float(best.score(scaled[parts.test], labels[parts.test])))
    ours = (found.predicted == labels[parts.test]).mean(axis=1)
    assert ours[found.best] >= theirs[found.best] - 0.01
    assert ours.mean() >= np.mean(theirs) - 0.01
