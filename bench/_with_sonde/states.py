"""Hidden states by sonde: ``python states.py MODEL FUNCTIONS.jsonl OUT.npz``; see `bench._by_hand.states`."""

import json
import sys
from pathlib import Path

import numpy as np

from sonde.capture.forward import observe
from sonde.capture.requests import HiddenStates, Pass, Plain, prepare
from sonde.corpora import Item
from sonde.models import ModelSpec, load_model


def main(name: str, source: str, target: str) -> None:
    """Read the functions with the model and write an array of layers and values for each."""
    model = load_model(ModelSpec(name=name, dtype="float32"))
    functions = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    items = [Item(**function, language="python", unit="function") for function in functions]
    captures = observe(model, prepare(model, items), [Pass(Plain(), (HiddenStates(),))])
    np.savez(target, **{capture.item_id: capture.states["mean"] for capture in captures})  # pyright: ignore[reportArgumentType]


main(*sys.argv[1:])
