"""The forward pass alone: ``python bare.py MODEL FUNCTIONS.jsonl OUT.json [DTYPE]``.

Batches of 16 in the order of their lengths, logits included; nothing is made of them. Its memory is what a
model takes by itself.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

BATCH = 16


@torch.inference_mode()
def main(name: str, source: str, target: str, dtype: str = "float32") -> None:
    """Read the functions with the model and write how many subwords they are."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=getattr(torch, dtype)).eval()
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    texts = [json.loads(line)["text"] for line in Path(source).read_text(encoding="utf-8").splitlines()]
    rows = [[start, *tokenizer(text, add_special_tokens=False)["input_ids"]] for text in texts]
    rows = sorted((row[: model.config.max_position_embeddings] for row in rows), key=len)
    for begin in range(0, len(rows), BATCH):
        batch = rows[begin : begin + BATCH]
        ids = torch.full((len(batch), len(batch[-1])), start)
        mask = torch.zeros_like(ids)
        for index, row in enumerate(batch):
            ids[index, : len(row)] = torch.tensor(row)
            mask[index, : len(row)] = 1
        model(input_ids=ids, attention_mask=mask)
    Path(target).write_text(json.dumps({"subwords": sum(map(len, rows))}))


main(*sys.argv[1:])
