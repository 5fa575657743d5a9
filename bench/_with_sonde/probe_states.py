"""Probes of given states by sonde: ``python probe_states.py STATES.npz FUNCTIONS.jsonl OUT.json``.

See `bench._by_hand.probe_states`.
"""

import json
import sys
from pathlib import Path

import numpy as np

from sonde.training.probes.linear import probe_layers
from sonde.training.probes.splits import Splits

PENALTIES = (1.0, 0.1, 0.01, 0.001)


def main(states: str, source: str, target: str) -> None:
    """Fit the probes and write the accuracy of every layer."""
    functions = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    sizes = np.array([len(function["text"]) for function in functions])
    labels, part = (sizes > np.median(sizes)).astype(int), np.arange(len(sizes)) % 5
    splits = Splits.from_names([("train", "train", "train", "valid", "test")[number] for number in part])
    with np.load(states) as found:
        layers = np.stack([found[function["item_id"]] for function in functions], axis=1)
    (result,) = probe_layers(layers, labels[None], 2, splits, l2=PENALTIES)
    accuracy = (np.asarray(result.predicted) == labels[splits.test]).mean(-1)
    Path(target).write_text(json.dumps(accuracy.tolist()))


main(*sys.argv[1:])
