"""Hidden states of a decoder by hand: ``python states.py MODEL FUNCTIONS.jsonl OUT.npz``.

Batches of 16 in the order of their lengths with `output_hidden_states`; of every layer the mean over the
subwords of each function, the start token left out.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

BATCH = 16


@torch.inference_mode()
def main(name: str, source: str, target: str) -> None:
    """Read the functions with the model and write an array of layers and values for each."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModel.from_pretrained(name, dtype=torch.float32).eval()
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    functions = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    rows: list[tuple[str, list[int]]] = []
    for function in functions:
        ids = tokenizer(function["text"], add_special_tokens=False)["input_ids"]
        rows.append((function["item_id"], [start, *ids]))
    rows.sort(key=lambda row: len(row[1]))
    found: dict[str, np.ndarray] = {}
    for begin in range(0, len(rows), BATCH):
        batch = rows[begin : begin + BATCH]
        ids = torch.full((len(batch), len(batch[-1][1])), start)
        mask = torch.zeros_like(ids)
        for index, (_, row) in enumerate(batch):
            ids[index, : len(row)] = torch.tensor(row)
            mask[index, : len(row)] = 1
        states = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        for index, (item, row) in enumerate(batch):
            found[item] = torch.stack([layer[index, 1 : len(row)].mean(0) for layer in states]).numpy()
    np.savez(target, **found)  # pyright: ignore[reportArgumentType]


main(*sys.argv[1:])
