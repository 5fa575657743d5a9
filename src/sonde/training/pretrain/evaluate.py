"""Evaluation of pre-trained models on unseen files: bits per byte, masked subwords, next sentences.

These figures can be compared between models. The last two are how often hidden subwords are guessed, and how
often a model tells whether a sentence follows another.
"""

from __future__ import annotations

import dataclasses
import lzma
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from tokenizers import Tokenizer
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed, unit_hash
from sonde.corpora import SkipCounter, SourceFile, read_files
from sonde.corpora.engine.ngram import NGram
from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import ProgramLexer
from sonde.training.pretrain.data import encode_document, find_break_offsets, line_edges
from sonde.training.pretrain.objectives import (
    DocumentLines,
    SentencePair,
    build_all_pairs,
    frame_pair,
    mask_tokens,
)
from sonde.training.pretrain.recipe import Recipe
from sonde.training.pretrain.vocabulary import BOS_ID, EOS_ID, MASK_ID

MASKED_SHARE = 0.15


_AT_ONCE = 8


_TABLE_DIGITS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """Bits per byte of the same files by three models.

    Attributes:
        of: Which files.
        files: Their number.
        bytes: Their size.
        nats_per_subword: Of the decoder.
        model: Bits per byte of the decoder.
        xz: Of ``xz -9e`` over the files in one stream.
        ngram: Of an interpolated Kneser-Ney model of the same subwords of the training data.
    """

    of: str
    files: int
    bytes: int
    nats_per_subword: float
    model: float
    xz: float
    ngram: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedAccuracy:
    """Accuracy of an encoder on masked subwords.

    Attributes:
        of: Of which files.
        bytes: Their size.
        asked: How many were hidden.
        top1: Share guessed right.
        nats: Mean nats of a hidden subword.
        majority_top1: Share that is the most frequent subword of the training data.
        unigram_nats: Mean nats by frequency in the training data.
    """

    of: str
    bytes: int
    asked: int
    top1: float
    nats: float
    majority_top1: float
    unigram_nats: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSentence:
    """Accuracy of an encoder on next-sentence prediction.

    Attributes:
        accuracy: Share of pairs told right.
        majority: Share of the more frequent answer.
        pairs: Their number.
    """

    accuracy: float
    majority: float
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The figures of one model.

    Attributes:
        corpus: What was read.
        files: Number of files.
        bytes: Their size.
        subwords: Their number of subwords.
        compression: Of a decoder: over all files, and over those that are no tables.
        guesses: Of an encoder, over the same.
        next_sentence: Of an encoder that was trained on pairs.
        language: The public name of the language that was read; empty where the figures do not say it.
        languages: The same for each language of the training data, over the names that are reserved there.
    """

    corpus: str
    files: int
    bytes: int
    subwords: int
    compression: tuple[Compression, ...] = ()
    guesses: tuple[MaskedAccuracy, ...] = ()
    next_sentence: NextSentence | None = None
    language: str = ""
    languages: tuple[EvaluationResult, ...] = ()


def is_table(text: str) -> bool:
    """Return whether a file is a table rather than code: over a tenth of its characters are digits.

    In the standard library these are the maps of character codes in ``encodings``.
    """
    return sum(map(text.count, "0123456789")) > _TABLE_DIGITS * len(text)


def sample_files(corpus: str, language: str, size: int) -> list[SourceFile]:
    """Sample files of a corpus in hash order, until they contain ``size`` bytes.

    A larger size contains a smaller one.

    Raises:
        InputError: The corpus holds no file of the language.
    """
    files = take_first_files(read_files(corpus, (language,), SkipCounter(keep_all=True)), size)
    if not files:
        raise InputError(f"corpus {corpus!r} has no {language} file to evaluate on")
    return files


def take_first_files(files: Iterable[SourceFile], size: int) -> list[SourceFile]:
    """Take files that are not blank in hash order, until they contain ``size`` bytes."""
    sample: list[SourceFile] = []
    for file in sorted(files, key=lambda file: (unit_hash("evaluate", file.path), file.path)):
        if size <= 0:
            break
        if file.text.strip():
            sample.append(file)
            size -= len(_to_bytes(file.text))
    return sample


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def compute_xz_bits_per_byte(texts: Iterable[str]) -> float:
    """Compute the bits per byte of ``xz -9e`` over all texts in one stream."""
    raw = b"".join(map(_to_bytes, texts))
    return 8 * len(lzma.compress(raw, preset=9 | lzma.PRESET_EXTREME)) / len(raw)


def evaluation_windows(length: int, context: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield overlapping windows in which every position from 1 on is predicted exactly once.

    Args:
        length: Number of positions, the opening piece at 0 included.
        context: Positions of a window.
        stride: By how much a window moves on; the rest of it is context.

    Yields:
        First position, end (exclusive), and first position to score.
    """
    next_position, start = 1, 0
    while next_position < length:
        end = min(start + context, length)
        yield start, end, next_position
        next_position, start = end, start + stride


@torch.no_grad()
def compute_document_nats(
    model: PreTrainedModel, documents: list[Int[np.ndarray, " token"]], context: int
) -> list[Float[np.ndarray, " token"]]:
    """Compute the nats of every subword of each document but the first.

    Each has at least half a context before it, where there is so much.

    Args:
        model: A causal language model.
        documents: Subwords with the opening piece.
        context: Positions that the model may see at once.
    """
    nats = [np.zeros(len(document)) for document in documents]
    windows = [
        (index, *window)
        for index, document in enumerate(documents)
        for window in evaluation_windows(len(document), context, context // 2)
    ]
    # Windows of one length go together, so that nothing is padded.
    windows.sort(key=lambda window: window[2] - window[1])
    for batch in _batch_by_length(windows):
        block = np.stack([documents[index][start:end] for index, start, end, _ in batch]).astype(np.int64)
        tokens = torch.from_numpy(block).to(model.device)
        states = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        projection = model.get_output_embeddings()
        assert projection is not None
        for row, (index, start, end, first_scored) in enumerate(batch):
            logits = projection(states[row, first_scored - start - 1 : -1]).float()
            gold = tokens[row, first_scored - start :, None]
            loss = logits.logsumexp(-1) - logits.gather(-1, gold).squeeze(-1)
            nats[index][first_scored:end] = loss.cpu().numpy()
    return [values[1:] for values in nats]


def _batch_by_length(windows: list[tuple[int, int, int, int]]) -> Iterator[list[tuple[int, int, int, int]]]:
    for _, group in groupby(windows, key=lambda window: window[2] - window[1]):
        group_windows = list(group)
        yield from (
            group_windows[start : start + _AT_ONCE] for start in range(0, len(group_windows), _AT_ONCE)
        )


def evaluate_decoder(
    model: PreTrainedModel,
    vocabulary: Tokenizer,
    files: list[SourceFile],
    *,
    corpus: str,
    context: int,
    ngram: NGram,
) -> EvaluationResult:
    """Compute the bits per byte of a decoder, of ``xz`` and of an n-gram model on the same files.

    The bytes of all files are the denominator of each; the opening piece is given, the end of a file not
    predicted.
    """
    documents = [tokens[:-1] for tokens in encode_document(vocabulary, [file.text for file in files])]
    read = [
        (file.text, float(nats.sum()), float(ngram.nats(document)[1:].sum()), len(nats))
        for file, document, nats in zip(
            files, documents, compute_document_nats(model, documents, context), strict=True
        )
    ]
    groups = _group_files([file.text for file in files])
    return EvaluationResult(
        corpus=corpus,
        files=len(files),
        bytes=sum(len(_to_bytes(file.text)) for file in files),
        subwords=sum(entry[3] for entry in read),
        compression=tuple(
            _build_compression(group, [read[index] for index in indices]) for group, indices in groups.items()
        ),
    )


def _group_files(texts: list[str]) -> dict[str, list[int]]:
    """Group files by index: all of them, and those that are no tables if only some are."""
    code = [number for number, text in enumerate(texts) if not is_table(text)]
    groups = {"all files": list(range(len(texts)))}
    if 0 < len(code) < len(texts):
        groups["code (files of at most a tenth digits)"] = code
    return groups


def _build_compression(group: str, read: list[tuple[str, float, float, int]]) -> Compression:
    size = sum(len(_to_bytes(text)) for text, *_ in read)
    nats, ngram_nats = sum(entry[1] for entry in read), sum(entry[2] for entry in read)
    return Compression(
        of=group,
        files=len(read),
        bytes=size,
        nats_per_subword=nats / sum(entry[3] for entry in read),
        model=nats / math.log(2) / size,
        xz=compute_xz_bits_per_byte(text for text, *_ in read),
        ngram=ngram_nats / math.log(2) / size,
    )


@torch.no_grad()
def evaluate_encoder(
    model: PreTrainedModel,
    vocabulary: Tokenizer,
    files: list[SourceFile],
    *,
    corpus: str,
    context: int,
    frequencies: Int[np.ndarray, " vocab"],
) -> EvaluationResult:
    """Compute the masked accuracy, beside the most frequent subword and the unigram distribution.

    15 % of the subwords are masked (all by the mask piece), in pieces of one context that do not overlap.

    Args:
        model: A masked language model.
        vocabulary: Its subwords.
        files: What to read.
        corpus: Its name.
        context: Positions that the model may see at once.
        frequencies: Counts of the subwords in the training data.
    """
    texts = [file.text for file in files]
    documents = [tokens[1:-1] for tokens in encode_document(vocabulary, texts)]
    # Of each file: how many are asked for, told right, right by majority; nats, and nats by frequency.
    sums = np.zeros((len(documents), 5))
    majority = int(frequencies.argmax())
    unigram = -np.log((frequencies + 1) / (frequencies.sum() + len(frequencies)))
    for number, document in enumerate(documents):
        generator = torch.Generator().manual_seed(derive_seed("evaluate", 0, number))
        for start in range(0, len(document), context - 2):
            piece = torch.from_numpy(document[start : start + context - 2].astype(np.int64))
            _, labels = mask_tokens(
                piece,
                share=MASKED_SHARE,
                vocabulary=len(frequencies),
                generator=generator,
            )
            is_target: Bool[torch.Tensor, " token"] = labels >= 0
            if not is_target.any():
                continue
            masked_piece = torch.where(is_target, torch.full_like(piece, MASK_ID), piece)
            inputs = torch.cat([torch.tensor([BOS_ID]), masked_piece, torch.tensor([EOS_ID])])[None].to(
                model.device
            )
            logits = model(input_ids=inputs).logits[0, 1:-1][is_target.to(model.device)].float().cpu()
            gold = piece[is_target]
            nats = logits.logsumexp(-1) - logits.gather(-1, gold[:, None]).squeeze(-1)
            sums[number] += (
                len(gold),
                int((logits.argmax(-1) == gold).sum()),
                int((gold == majority).sum()),
                float(nats.sum()),
                float(unigram[gold.numpy()].sum()),
            )
    return EvaluationResult(
        corpus=corpus,
        files=len(files),
        bytes=sum(len(_to_bytes(text)) for text in texts),
        subwords=sum(map(len, documents)),
        guesses=tuple(
            _build_masked_accuracy(
                group, sum(len(_to_bytes(texts[index])) for index in indices), sums[indices].sum(axis=0)
            )
            for group, indices in _group_files(texts).items()
        ),
    )


def _build_masked_accuracy(group: str, size: int, sums: Float[np.ndarray, 5]) -> MaskedAccuracy:
    target_count = max(int(sums[0]), 1)
    top1, majority, nats, unigram = (sums[1:] / target_count).tolist()
    return MaskedAccuracy(
        of=group,
        bytes=size,
        asked=int(sums[0]),
        top1=top1,
        nats=nats,
        majority_top1=majority,
        unigram_nats=unigram,
    )


_MAX_PAIRS = 2_000


_PAIRS_AT_ONCE = 16


def build_held_out_pairs(
    vocabulary: Tokenizer, files: list[SourceFile], recipe: Recipe
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of files as in training, at most 2,000, and the stream that they lie on.

    Raises:
        InputError: Fewer than two files have logical lines.
    """
    streams: list[np.ndarray] = []
    edges: list[np.ndarray] = []
    offset = 0
    for file in files:
        breaks = find_break_offsets(get_facet(file.language, "program", ProgramLexer), file.text)
        if breaks is not None:
            streams += encode_document(vocabulary, [file.text])
            edges.append(line_edges(vocabulary, file.text, breaks, offset))
            offset += len(streams[-1])
    lines = DocumentLines(np.concatenate(edges or [[0]]), np.cumsum([0, *map(len, edges)]))
    config = dataclasses.replace(recipe.pairs, duplicates=1)
    pairs = build_all_pairs(lines, recipe.training.block, config, seed=0)
    selection = np.random.default_rng(0).permutation(len(pairs))[:_MAX_PAIRS]
    return pairs[selection], np.concatenate(streams)


@torch.no_grad()
def evaluate_next_sentence(
    model: PreTrainedModel, vocabulary: Tokenizer, files: list[SourceFile], recipe: Recipe
) -> NextSentence:
    """Compute the next-sentence accuracy on held-out files, beside the majority baseline.

    Args:
        model: A model with a head for the next sentence.
        vocabulary: Its subwords.
        files: What to read.
        recipe: How pairs are made, and their length.

    Raises:
        InputError: Fewer than two files have logical lines.
    """
    pairs, stream = build_held_out_pairs(vocabulary, files, recipe)
    # Of one length together, so that little is padded.
    lengths = (pairs[:, 1] - pairs[:, 0]) + (pairs[:, 3] - pairs[:, 2])
    order = np.argsort(lengths, kind="stable")
    right = 0
    for start in range(0, len(order), _PAIRS_AT_ONCE):
        rows = [frame_pair(stream, row) for row in pairs[order[start : start + _PAIRS_AT_ONCE]]]
        parts = zip(*((tokens, segments, np.ones_like(tokens)) for tokens, segments, _ in rows), strict=True)
        ids, segments, mask = (
            pad_sequence(list(map(torch.from_numpy, part)), batch_first=True).to(model.device)
            for part in parts
        )
        output = model(input_ids=ids, token_type_ids=segments, attention_mask=mask)
        answers = output.seq_relationship_logits.argmax(-1).cpu()
        right += int((answers == torch.tensor([answer for _, _, answer in rows])).sum())
    random = float(pairs[:, SentencePair._fields.index("random")].mean())
    return NextSentence(accuracy=right / len(pairs), majority=max(random, 1 - random), pairs=len(pairs))
