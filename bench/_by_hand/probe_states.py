"""Probes of given states by scikit-learn: ``python probe_states.py STATES.npz FUNCTIONS.jsonl OUT.json``.

Whether a function is longer than the middle one, by logistic regression: of every layer a fit for each
penalty on three fifths of the functions, the best on a fifth, tested on the last fifth.
"""

import json
import sys
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

PENALTIES = (1.0, 0.1, 0.01, 0.001)


def main(states: str, source: str, target: str) -> None:
    """Fit the probes and write the accuracy of every layer."""
    functions = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    sizes = np.array([len(function["text"]) for function in functions])
    labels, part = (sizes > np.median(sizes)).astype(int), np.arange(len(sizes)) % 5
    train, valid, test = part < 3, part == 3, part == 4
    with np.load(states) as found:
        layers = np.stack([found[function["item_id"]] for function in functions], axis=1)
    accuracy: list[float] = []
    for vectors in layers:
        scaled = (vectors - vectors[train].mean(0)) / np.maximum(vectors[train].std(0), 1e-6)
        best, most = 0.0, -1.0
        for l2 in PENALTIES:
            fit = LogisticRegression(C=1 / (l2 * train.sum()), max_iter=1_000).fit(
                scaled[train], labels[train]
            )
            if (score := fit.score(scaled[valid], labels[valid])) > most:
                best, most = float(fit.score(scaled[test], labels[test])), score
        accuracy.append(best)
    Path(target).write_text(json.dumps(accuracy))


main(*sys.argv[1:])
