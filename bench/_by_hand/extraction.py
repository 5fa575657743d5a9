"""Last states by the pipeline of transformers: ``python extraction.py MODEL FUNCTIONS.jsonl OUT.npz``.

Batches of 16 in the order of their lengths; of the last layer alone the mean over the subwords of a function.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer, pipeline

BATCH = 16


def main(name: str, source: str, target: str) -> None:
    """Read the functions with the model and write a vector for each."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModel.from_pretrained(name, dtype=torch.float32).eval()
    functions = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    functions.sort(key=lambda function: len(function["text"]))
    extract = pipeline("feature-extraction", model=model, tokenizer=tokenizer, device="cpu")
    texts = [function["text"] for function in functions]
    found: dict[str, np.ndarray] = {}
    for function, states in zip(
        functions, extract(texts, batch_size=BATCH, return_tensors=True), strict=True
    ):
        found[function["item_id"]] = states[0].mean(0).numpy()
    np.savez(target, **found)  # pyright: ignore[reportArgumentType]


main(*sys.argv[1:])
