"""Probes, by a plain script: ``python probe.py MODEL EXAMPLES.jsonl OUT.parquet``.

Batches of 16 in the order of their lengths with `output_hidden_states`, mean over subwords; of every layer a
logistic regression of scikit-learn, its penalty chosen on one fold and tested on another, in five folds by
cluster.
"""

import sys

import numpy as np
import polars as pl
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler
from transformers import AutoModelForMaskedLM, AutoTokenizer

BATCH, FOLDS, PENALTIES = 16, 5, (1.0, 0.1, 0.01, 0.001)


@torch.inference_mode()
def states_of(name: str, texts: list[str]) -> np.ndarray:
    """Return the mean state of every text and layer."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForMaskedLM.from_pretrained(name, dtype=torch.float32).eval()
    context = model.config.max_position_embeddings
    rows = [tokenizer(text, truncation=True, max_length=context)["input_ids"] for text in texts]
    order = sorted(range(len(rows)), key=lambda at: len(rows[at]))
    found: list[np.ndarray | None] = [None] * len(rows)
    for begin in range(0, len(rows), BATCH):
        batch = order[begin : begin + BATCH]
        width = max(len(rows[at]) for at in batch)
        ids = torch.full((len(batch), width), tokenizer.pad_token_id)
        mask = torch.zeros((len(batch), width), dtype=torch.long)
        for place, at in enumerate(batch):
            ids[place, : len(rows[at])] = torch.tensor(rows[at])
            mask[place, : len(rows[at])] = 1
        output = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        held = torch.stack(output.hidden_states)
        for place, at in enumerate(batch):
            # Between the two special tokens.
            found[at] = held[:, place, 1 : len(rows[at]) - 1].mean(1).numpy()
    return np.stack([one for one in found if one is not None], axis=1)


def main(name: str, source: str, target: str) -> None:
    """Read the examples with the model and write the accuracy of every layer."""
    examples = pl.read_ndjson(source)
    states = states_of(name, examples["text"].to_list())
    labels, clusters = examples["label"].to_numpy(), examples["cluster"].to_numpy()
    folds = [test for _, test in GroupKFold(FOLDS).split(labels, groups=clusters)]
    rows: list[dict[str, float]] = []
    for layer, vectors in enumerate(states):
        right = np.zeros(len(labels), bool)
        for number, test in enumerate(folds):
            valid = folds[(number + 1) % FOLDS]
            train = np.setdiff1d(np.arange(len(labels)), np.concatenate([test, valid]))
            scaler = StandardScaler().fit(vectors[train])
            scaled = scaler.transform(vectors)
            best, most = None, -1.0
            for l2 in PENALTIES:
                fit = LogisticRegression(C=1 / (l2 * len(train)), max_iter=1_000)
                fit.fit(scaled[train], labels[train])
                score = fit.score(scaled[valid], labels[valid])
                if score > most:
                    best, most = fit, score
            assert best is not None
            right[test] = best.predict(scaled[test]) == labels[test]
        rows.append({"layer": layer, "accuracy": right.mean(), "n": len(labels)})
    table = pl.DataFrame(rows)
    table.write_parquet(target)
    print(f"{table['accuracy'].max():.4f} by the best layer of {len(labels)} examples")


main(*sys.argv[1:])
