"""Attention rows of a decoder by hand: ``python attention_rows.py MODEL FUNCTIONS.jsonl OUT.npz STEP``.

Batches of 16 in the order of their lengths with `output_attentions`; of every ``STEP``-th subword what it
pays at most to one subword of the function, in each head.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

BATCH = 16


@torch.inference_mode()
def main(name: str, source: str, target: str, step: str) -> None:
    """Read the functions with the model and write an array of layers, heads and rows for each."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModel.from_pretrained(name, dtype=torch.float32, attn_implementation="eager").eval()
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
        layers = model(input_ids=ids, attention_mask=mask, output_attentions=True).attentions
        for index, (item, row) in enumerate(batch):
            asked = slice(1, len(row), int(step))
            paid = [layer[index, :, asked, 1 : len(row)].amax(-1) for layer in layers]
            found[item] = torch.stack(paid).numpy()
    np.savez(target, **found)  # pyright: ignore[reportArgumentType]


main(*sys.argv[1:])
