"""How often a model tells whether a sentence follows another, on files that it has not seen."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedModel

from sonde.corpora import SourceFile
from sonde.languages import facet_of
from sonde.languages._program import Program
from sonde.training.evaluate import NextSentence
from sonde.training.lines import break_offsets
from sonde.training.packing import edges_of, encode_document
from sonde.training.pairs import DocumentLines, SentencePair, all_pairs, framed
from sonde.training.recipe import Recipe

_MOST = 2_000
_AT_ONCE = 16


def held_out_pairs(
    vocabulary: Tokenizer, files: list[SourceFile], recipe: Recipe, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of files as in training, at most 2,000, and the stream that they lie on.

    Raises:
        InputError: Fewer than two files have logical lines.
    """
    streams: list[np.ndarray] = []
    edges: list[np.ndarray] = []
    place = 0
    for file in files:
        breaks = break_offsets(facet_of(file.language, "program", Program), file.text)
        if breaks is not None:
            streams += encode_document(vocabulary, [file.text])
            edges.append(edges_of(vocabulary, file.text, breaks, place))
            place += len(streams[-1])
    lines = DocumentLines(np.concatenate(edges or [[0]]), np.cumsum([0, *map(len, edges)]))
    once = dataclasses.replace(recipe.pairs, duplicates=1)
    pairs = all_pairs(lines, recipe.training.block, once, seed)
    chosen = np.random.default_rng(seed).permutation(len(pairs))[:_MOST]
    return pairs[chosen], np.concatenate(streams)


@torch.no_grad()
def evaluate_next(
    model: PreTrainedModel, vocabulary: Tokenizer, files: list[SourceFile], recipe: Recipe
) -> NextSentence:
    """The share of pairs of held-out files that a model tells, beside that of the more frequent answer.

    Args:
        model: A model with a head for the next sentence.
        vocabulary: Its subwords.
        files: What to read.
        recipe: How pairs are made, and their length.

    Raises:
        InputError: Fewer than two files have logical lines.
    """
    pairs, stream = held_out_pairs(vocabulary, files, recipe)
    # Of one length together, so that little is padded.
    lengths = (pairs[:, 1] - pairs[:, 0]) + (pairs[:, 3] - pairs[:, 2])
    order = np.argsort(lengths, kind="stable")
    right = 0
    for start in range(0, len(order), _AT_ONCE):
        rows = [framed(stream, row) for row in pairs[order[start : start + _AT_ONCE]]]
        width = max(len(tokens) for tokens, _, _ in rows)
        inputs = {
            name: torch.zeros(len(rows), width, dtype=torch.long) for name in ("ids", "segments", "mask")
        }
        for place, (tokens, segments, _) in enumerate(rows):
            inputs["ids"][place, : len(tokens)] = torch.from_numpy(tokens)
            inputs["segments"][place, : len(tokens)] = torch.from_numpy(segments)
            inputs["mask"][place, : len(tokens)] = 1
        output = model(
            input_ids=inputs["ids"].to(model.device),
            token_type_ids=inputs["segments"].to(model.device),
            attention_mask=inputs["mask"].to(model.device),
        )
        told = output.seq_relationship_logits.argmax(-1).cpu()
        right += int((told == torch.tensor([answer for _, _, answer in rows])).sum())
    random = float(pairs[:, SentencePair._fields.index("random")].mean())
    return NextSentence(accuracy=right / len(pairs), majority=max(random, 1 - random), pairs=len(pairs))
