"""Attention of a trained model's last layer in a few test examples, for CuBERT's figures."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int

from sonde.base.errors import CaptureError
from sonde.base.fingerprint import unit_hash
from sonde.capture.attention_backend import RowReader, use_readable_attention
from sonde.capture.tensors import Upload
from sonde.lenses.finetune.data import ATTENTION, EXAMPLE, TEST
from sonde.models import LoadedModel, ModelSpec
from sonde.training.finetune.batches import collate
from sonde.training.finetune.data import EncodedExample, Sample, TaskData, build_text_encoder, encode_samples
from sonde.training.finetune.model import LoadedBody, load_for_training
from sonde.training.finetune.recipe import KEEP, FinetuneRecipe
from sonde.training.finetune.tune import FinetuneResult

DRAWN = 4
"""Examples a task: half of them answered rightly, half wrongly, as far as there are such."""


MAX_WORDS = 60
"""Words of an example that can still be read in a drawing."""


_WORD = re.compile(r"\s+|\w+|.", re.DOTALL)
"""Spaces, a word, or a sign, each its own token."""


def with_attention(
    rows: pl.DataFrame,
    result: FinetuneResult,
    spec: ModelSpec,
    examples: pl.DataFrame,
    data: TaskData,
    recipe: FinetuneRecipe,
) -> pl.DataFrame:
    """Add the attention in a few test examples to the item table of a training.

    Args:
        rows: The item table.
        result: The training.
        spec: What it began with; its device is used.
        examples: The test examples, in the order of ``data.test``.
        data: What it was trained on.
        recipe: How it was trained.
    """
    trained_spec = ModelSpec(
        name=str(result.folder), device=spec.device, trust_remote_code=spec.trust_remote_code
    )
    loaded_model = load_for_training(trained_spec)
    if loaded_model.capabilities.attention not in ("interface", "eager"):
        return rows
    rows_by_example = {
        row["example_id"]: row
        for row in rows.filter((pl.col("kind") == EXAMPLE) & (pl.col("split") == TEST)).to_dicts()
    }
    reader = build_text_encoder(loaded_model.tokenizer, loaded_model.special, loaded_model.capabilities.kind)
    counts: dict[bool, int] = {True: 0, False: 0}
    attention_rows: list[dict[str, object]] = []
    read = zip(data.test, encode_samples(data.test, reader, recipe.length, recipe.cut), strict=True)
    samples = dict(zip(examples["example_id"].to_list(), read, strict=True))
    for name in sorted(rows_by_example, key=lambda name: _preference(rows_by_example[name])):
        row, (sample, encoded_example) = rows_by_example[name], samples[name]
        right = bool(row["correct"])
        if counts[right] >= DRAWN // 2 or (recipe.cut != KEEP and row["reached"] is False):
            continue
        assert encoded_example.spans is not None
        if len(np.unique(_find_word_starts(encoded_example.spans, sample.text))) > MAX_WORDS:
            continue
        try:
            attention = read_attention(loaded_model, encoded_example, sample)
        except CaptureError:
            # Attention that cannot be read by query and key is not drawn; the training is kept.
            return rows
        counts[right] += 1
        columns = ("example_id", "item_id", "split", "cluster", "label", "predicted", "correct")
        attention_rows.append(
            {
                "kind": ATTENTION,
                "baseline": "",
                **{column: row[column] for column in columns},
                **attention,
            }
        )
    return pl.concat([rows, pl.DataFrame(attention_rows, schema=rows.schema)])


def _preference(row: dict[str, Any]) -> tuple[bool, bool, float]:
    """Sort full texts first, and those with a bug: there is something to look at."""
    return row["truncated"], row["label"] == "Correct", unit_hash("attention", row["example_id"])


def read_attention(
    loaded_model: LoadedModel, encoded_example: EncodedExample, sample: Sample
) -> dict[str, object]:
    """Run a model over one example and read the last layer's attention.

    A word pays what its subwords pay on average, and is paid what they are paid together, head by head;
    of the heads the most counts.

    Args:
        loaded_model: A model whose attention can be read.
        encoded_example: The example in its subwords.
        sample: The example.

    Returns:
        The columns ``words``, ``starts`` and ``weights`` of the item table. What the model puts around a text
        is a word in its own spelling, with a start of -1.
    """
    body = LoadedBody(loaded_model).eval()
    device = next(body.parameters()).device
    batch = collate([0], [encoded_example], loaded_model.special.pad, device)
    side = "decoder" if loaded_model.capabilities.kind == "decoder" else "encoder"
    upload = Upload(device)
    reader = RowReader(side, upload.add(np.arange(len(encoded_example.ids))[None]))
    upload.send()

    def forward(**_: bool) -> Any:
        return body(batch)

    with torch.no_grad(), use_readable_attention(loaded_model) as attention_reader:
        attention_reader.read([reader], forward)
    heads = reader.layers[-1][0].double().cpu().numpy()
    return _by_words(heads, encoded_example, sample.text, loaded_model)


def _by_words(
    heads: Float[np.ndarray, "head token token"],
    encoded_example: EncodedExample,
    text: str,
    loaded_model: LoadedModel,
) -> dict[str, object]:
    assert encoded_example.spans is not None
    surfaces = loaded_model.tokenizer.convert_ids_to_tokens(encoded_example.ids.tolist())
    word_of = _find_word_starts(encoded_example.spans, text)
    # Subwords of one word follow each other; what stands around the text is a word of its own.
    bounds = [0, *(np.flatnonzero(np.diff(word_of)) + 1).tolist(), len(word_of)]
    spans = list(pairwise(bounds))
    paid = np.stack([heads[:, :, start:end].sum(2) for start, end in spans], 2)
    pays = np.stack([paid[:, start:end].mean(1) for start, end in spans], 1)
    words: list[str] = []
    starts: list[int] = []
    for first, stop in spans:
        position = int(word_of[first])
        word = text[max(position, 0) : int(encoded_example.spans[stop - 1, 1])]
        words.append(str(surfaces[first]) if position < 0 else word.rstrip() or word)
        starts.append(max(position, -1))
    return {"words": words, "starts": starts, "weights": pays.max(0).astype(np.float16).tobytes()}


def _find_word_starts(spans: Int[np.ndarray, "token 2"], text: str) -> Int[np.ndarray, " token"]:
    """Find the first character of each subword's word; around the text, distinct negative numbers."""
    begins = [match.start() for match in _WORD.finditer(text) for _ in match[0]]
    word_starts: list[int] = []
    for number, (start, end) in enumerate(spans.tolist()):
        if not 0 <= start < end:
            word_starts.append(-1 - number)
            continue
        position = next((index for index in range(start, end) if not text[index].isspace()), start)
        word_starts.append(begins[position])
    return np.array(word_starts, np.int64)
