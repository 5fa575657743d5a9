"""Surprisal, by a plain script: ``python surprisal.py MODEL FUNCTIONS.jsonl OUT.parquet [DTYPE]``.

Batches of 16 in the order of their lengths; windows that overlap by half where a text is longer than the
context; of each subword its negative log-probability, rank, entropy and the likeliest alternatives.
"""

import json
import sys
from pathlib import Path

import polars as pl
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BATCH, TOP = 16, 5


def windows(ids: list[int], context: int, start: int) -> list[tuple[list[int], int]]:
    """Windows of a text after a start token, each with its next piece and the place from which it counts."""
    held = [start, *ids]
    found: list[tuple[list[int], int]] = []
    begin = done = 0
    while True:
        end = min(begin + context, len(held) - 1)
        found.append((held[begin : end + 1], done - begin))
        if end == len(held) - 1:
            return found
        begin, done = begin + context // 2, end


def size(row: tuple[str, list[int], int, int, list[tuple[int, int]]]) -> int:
    """By what rows are batched."""
    return len(row[1])


@torch.inference_mode()
def main(name: str, source: str, target: str, dtype: str = "float32") -> None:
    """Read the functions with the model and write a row per subword."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, dtype)).eval()
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    context = model.config.max_position_embeddings
    functions = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    rows: list[tuple[str, list[int], int, int, list[tuple[int, int]]]] = []
    for function in functions:
        encoded = tokenizer(function["text"], add_special_tokens=False, return_offsets_mapping=True)
        ids, at = encoded["input_ids"], 0
        for window, first in windows(ids, context, start):
            scored = len(window) - 1 - first
            spans = encoded["offset_mapping"][at : at + scored]
            rows.append((function["item_id"], window, first, at, spans))
            at += scored
    rows.sort(key=size)
    tables: list[pl.DataFrame] = []
    for begin in range(0, len(rows), BATCH):
        batch = rows[begin : begin + BATCH]
        width = max(len(row[1]) for row in batch)
        ids = torch.full((len(batch), width), start)
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for at, row in enumerate(batch):
            ids[at, : len(row[1])] = torch.tensor(row[1])
            mask[at, : len(row[1])] = 1
        logits = model(input_ids=ids[:, :-1], attention_mask=mask[:, :-1]).logits
        for at, (item, window, first, position, spans) in enumerate(batch):
            # A row at a time, so that what is computed over the vocabulary stays small.
            chances = logits[at, first : len(window) - 1].float().log_softmax(-1)
            gold = chances.gather(1, torch.tensor(window[first + 1 :])[:, None])
            top = chances.topk(TOP)
            tables.append(
                pl.DataFrame(
                    {
                        "item_id": [item] * len(spans),
                        "position": range(position, position + len(spans)),
                        "start": [span[0] for span in spans],
                        "end": [span[1] for span in spans],
                        "subword": tokenizer.convert_ids_to_tokens(window[first + 1 :]),
                        "nats": -gold[:, 0].numpy(),
                        "rank": (chances >= gold).sum(-1).numpy(),
                        "entropy": -(chances.exp() * chances).sum(-1).numpy(),
                        "top_ids": top.indices.numpy(),
                        "top_nats": -top.values.numpy(),
                    }
                )
            )
    table = pl.concat(tables)
    table.write_parquet(target)
    print(f"{table['nats'].mean():.6f} nats over {table.height} subwords")


main(*sys.argv[1:])
