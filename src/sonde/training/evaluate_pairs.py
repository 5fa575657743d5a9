"""How often a model tells whether a sentence follows another, on files that it has not seen."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from sonde.corpora import SourceFile
from sonde.languages import facet_of
from sonde.languages._program import Program
from sonde.training.evaluate import NextSentence
from sonde.training.packing import break_offsets, edges_of, encode_document
from sonde.training.pairs import DocumentLines, SentencePair, all_pairs, framed
from sonde.training.recipe import Recipe

_MOST = 2_000
_AT_ONCE = 16


def held_out_pairs(
    vocabulary: Tokenizer, files: list[SourceFile], recipe: Recipe
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
    pairs = all_pairs(lines, recipe.training.block, once, seed=0)
    chosen = np.random.default_rng(0).permutation(len(pairs))[:_MOST]
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
        parts = zip(*((tokens, segments, np.ones_like(tokens)) for tokens, segments, _ in rows), strict=True)
        ids, segments, mask = (
            pad_sequence(list(map(torch.from_numpy, part)), batch_first=True).to(model.device)
            for part in parts
        )
        output = model(input_ids=ids, token_type_ids=segments, attention_mask=mask)
        told = output.seq_relationship_logits.argmax(-1).cpu()
        right += int((told == torch.tensor([answer for _, _, answer in rows])).sum())
    random = float(pairs[:, SentencePair._fields.index("random")].mean())
    return NextSentence(accuracy=right / len(pairs), majority=max(random, 1 - random), pairs=len(pairs))
