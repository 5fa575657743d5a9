"""Attention, by a plain script: ``python attention.py MODEL FUNCTIONS.jsonl OUT.parquet``.

Batches of 16 in the order of their lengths with `output_attentions`; of every function the attention between
its words, and of every edge and head the rank of the dependent's first, last and best word.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

BATCH, TOP = 16, 20


def word_matrix(spans: list[tuple[int, int]], words: list[tuple[int, int]], columns: int) -> torch.Tensor:
    """Which subwords (after the special token before them) belong to which word."""
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    first, last = np.array(words, np.int64).reshape(-1, 2).T
    member = (start < last[:, None]) & (end > first[:, None])
    held = np.zeros((len(words), columns), np.float32)
    held[:, 1 : 1 + len(spans)] = member
    return torch.from_numpy(held)


def size(row: tuple[list[int], list[tuple[int, int]], dict[str, Any]]) -> int:
    """By what rows are batched."""
    return len(row[0])


@torch.inference_mode()
def main(name: str, source: str, target: str) -> None:
    """Read the functions with the model and write how often each head finds each relation."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForMaskedLM.from_pretrained(
        name, attn_implementation="eager", dtype=torch.float32
    ).eval()
    context = model.config.max_position_embeddings
    functions = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
    rows: list[tuple[list[int], list[tuple[int, int]], dict[str, Any]]] = []
    for function in functions:
        encoded = tokenizer(function["text"], return_offsets_mapping=True)
        if len(encoded["input_ids"]) <= context:
            rows.append((encoded["input_ids"], encoded["offset_mapping"][1:-1], function))
    rows.sort(key=size)
    hits: dict[str, np.ndarray] = {}
    edges: dict[str, int] = {}
    for begin in range(0, len(rows), BATCH):
        batch = rows[begin : begin + BATCH]
        width = max(len(row[0]) for row in batch)
        ids = torch.full((len(batch), width), tokenizer.pad_token_id)
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for at, row in enumerate(batch):
            ids[at, : len(row[0])] = torch.tensor(row[0])
            mask[at, : len(row[0])] = 1
        layers = model(input_ids=ids, attention_mask=mask, output_attentions=True).attentions
        for at, (_, spans, function) in enumerate(batch):
            belongs = word_matrix(spans, function["words"], width)
            mean = belongs / belongs.sum(1, keepdim=True).clamp(min=1)
            matrix = torch.stack([layer[at] for layer in layers])
            words = mean @ (matrix @ belongs.T)
            words.diagonal(dim1=-2, dim2=-1).zero_()
            head, first, last = (torch.tensor(function[key]) for key in ("head", "first", "last"))
            asked = words[:, :, head]
            place = torch.arange(asked.shape[-1])
            inside = (place >= first[:, None]) & (place <= last[:, None])
            ranks = torch.stack(
                [
                    (asked > asked.gather(3, one[None, None, :, None].expand(*asked.shape[:3], 1))).sum(-1)
                    for one in (first, last)
                ]
                + [(asked > asked.masked_fill(~inside, -1.0).amax(-1, keepdim=True)).sum(-1)]
            )
            found = (ranks[..., None] < torch.arange(1, TOP + 1)).numpy()
            for relation in dict.fromkeys(function["relation"]):
                mine = np.array([one == relation for one in function["relation"]])
                hits[relation] = hits.get(relation, 0) + found[:, :, :, mine].sum(3)
                edges[relation] = edges.get(relation, 0) + int(mine.sum())
    table = pl.DataFrame(
        [
            {"relation": relation, "layer": layer, "head": head, "k": k + 1, "edges": edges[relation]}
            | {
                way: held[at, layer, head, k] / edges[relation]
                for at, way in enumerate(("first", "last", "any"))
            }
            for relation, held in hits.items()
            for _, layer, head, k in np.ndindex(1, *held.shape[1:])
        ]
    )
    table.write_parquet(target)
    best = table.filter(k=1).group_by("relation").agg(pl.col("first").max())
    print(f"{best['first'].mean():.6f} of {sum(edges.values())} edges found by the best heads")


main(*sys.argv[1:])
