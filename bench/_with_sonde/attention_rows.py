"""Attention rows by sonde: ``python attention_rows.py MODEL FUNCTIONS.jsonl OUT.npz STEP``.

See `bench._by_hand.attention_rows`.
"""

import json
import sys
from pathlib import Path

import numpy as np

from sonde.capture.forward import observe
from sonde.capture.requests import AttentionRows, Pass, Plain, prepare
from sonde.corpora import Item
from sonde.models import ModelSpec, load_model


def main(name: str, source: str, target: str, step: str) -> None:
    """Read the functions with the model and write an array of layers, heads and rows for each."""
    model = load_model(ModelSpec(name=name, dtype="float32"))
    functions = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    items = [Item(**function, language="python", unit="function") for function in functions]
    prepared = prepare(model, items)
    rows = {item.item.item_id: tuple(range(0, len(item.alignment.subwords), int(step))) for item in prepared}
    found: dict[str, np.ndarray] = {}
    for capture in observe(model, prepared, [Pass(Plain(), (AttentionRows(rows),))]):
        assert capture.rows is not None
        found[capture.item_id] = capture.rows.max(-1)
    np.savez(target, **found)  # pyright: ignore[reportArgumentType]


main(*sys.argv[1:])
