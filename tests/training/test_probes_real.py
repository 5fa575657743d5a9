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
from sonde.corpora import Item, SkipCounter, read_items
from sonde.languages import LANGUAGES
from sonde.models import ModelSpec, load_model
from sonde.tasks.engine.task import TASKS
from sonde.training.probes.linear import probe_layers
from sonde.training.probes.splits import Splits

pytestmark = pytest.mark.slow

COUNT = 400
TASK_NAMES = ("len", "cpx", "ocu", "vcu", "mxn")


@pytest.fixture(scope="module")
def items() -> list[Item]:
    found = (item for item in read_items("stdlib", SkipCounter(), languages=("python",)))
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
def test_predictions_are_those_of_scikit_learn(name: str, items: list[Item], states: np.ndarray) -> None:
    """With the penalty that was chosen for each layer; items on a border may fall to either side."""
    tables = TASKS.load(name).label(items, {})
    values = np.array([tables[item.item_id]["value"][0] for item in items], dtype=float)
    labels = np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)
    parts = Splits.from_names(
        np.array(["train", "valid", "test", "train", "test"])[np.arange(len(items)) % 5].tolist()
    )
    classes = [str(label) for label in np.unique(labels)]
    (found,) = probe_layers(states, labels[None], len(classes), parts)
    for layer, l2, predicted in zip(states, found.l2, found.predicted, strict=True):
        scaled = StandardScaler().fit(layer[parts.train]).transform(layer)
        referee = LogisticRegression(C=1 / (l2 * len(parts.train)), max_iter=5000, tol=1e-6).fit(
            scaled[parts.train], labels[parts.train]
        )
        theirs = referee.predict(scaled[parts.test])
        assert (predicted == theirs).mean() >= 0.98
