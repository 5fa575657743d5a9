"""Pre-training objectives: losses and masking, and the blocks and sentence pairs that are trained on.

A model learns the next subword, hidden ones (masked language model), or hidden ones and the next sentence.

Pairs of sentences from logical lines follow the procedure of Devlin et al. (2019) as released
(``create_pretraining_data.py``), which CuBERT ran on logical lines: lines are gathered until they reach the
length aimed at; the first few are A; B is the rest, or with a chance of one half (and where there is no rest)
lines from a random place of another document, and then the lines that were not used come again; the longer
side loses subwords at random ends until the pair fits. All of it happens once for each duplicate of the data.

A pair is two stretches of the stream, so it takes 40 bytes whatever its length. Which subwords are hidden
follows from the seed and the pair's number, so each duplicate hides others and a second pass the same ones.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset
from transformers import PreTrainedModel

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.training.pretrain.recipe import PairsConfig, Recipe
from sonde.training.pretrain.vocabulary import BOS_ID, EOS_ID, MASK_ID, PAD_ID, SPECIALS

_CHUNK = {"cpu": 512, "cuda": 8192}
"""Positions whose logits exist at a time: on a processor they should fit its cache, elsewhere fill the
device."""


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Mean cross entropy of a vocabulary projection whose logits never exist whole.

    The gradient of a chunk's logits is known as soon as they are, so both matrix products of the backward
    pass are done in the forward one and nothing is computed twice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "token d_model"],
        weight: Float[Tensor, "vocab d_model"],
        targets: Int[Tensor, " token"],
    ) -> Float[Tensor, ""]:
        needs_gradient = states.requires_grad or weight.requires_grad
        total = states.new_zeros((), dtype=torch.float32)
        states_grad = torch.empty_like(states)
        weight_grad = torch.zeros_like(weight, dtype=torch.float32)
        projection = weight.to(states.dtype)
        chunk = _CHUNK.get(states.device.type, _CHUNK["cpu"])
        for start in range(0, len(states), chunk):
            part = slice(start, start + chunk)
            logits = (states[part] @ projection.mT).float()
            gold = targets[part, None]
            peak = logits.amax(-1, keepdim=True)
            gold_logit = logits.gather(-1, gold)
            logits.sub_(peak).exp_()
            mass = logits.sum(-1, keepdim=True)
            total += (mass.log() + peak - gold_logit).sum()
            if needs_gradient:
                logits.div_(mass * len(states))
                logits.scatter_add_(-1, gold, torch.full_like(mass, -1 / len(states)))
                gradient = logits.to(states.dtype)
                torch.mm(gradient, projection, out=states_grad[part])
                if gradient.dtype == weight_grad.dtype:
                    weight_grad.addmm_(gradient.mT, states[part])
                else:
                    weight_grad += gradient.mT @ states[part]
        ctx.save_for_backward(states_grad, weight_grad.to(weight.dtype))
        return total / len(states)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        states_grad, weight_grad = ctx.saved_tensors
        return states_grad * gradients[0], weight_grad * gradients[0], None


def projected_cross_entropy(
    states: Float[Tensor, "token d_model"],
    weight: Float[Tensor, "vocab d_model"],
    targets: Int[Tensor, " token"],
) -> Float[Tensor, ""]:
    """Compute the mean cross-entropy, in nats, of targets under ``softmax(states @ weight.T)``.

    Under autocast the matrix products are done in its type, sums and exponentials always in float32.
    """
    device = states.device.type
    if torch.is_autocast_enabled(device):
        states = states.to(torch.get_autocast_dtype(device))
    with torch.autocast(device, enabled=False):
        return _ChunkedCrossEntropy.apply(states, weight, targets)  # pyright: ignore[reportReturnType]


def causal_loss(model: PreTrainedModel, blocks: Int[Tensor, "batch token"]) -> Float[Tensor, ""]:
    """Compute the mean nats of each block's second to last subword given those before it.

    Args:
        model: A causal language model whose vocabulary projection has no bias.
        blocks: Packed subwords, one more than the positions that are predicted.
    """
    states = model.base_model(input_ids=blocks[:, :-1], use_cache=False).last_hidden_state
    projection = model.get_output_embeddings()
    assert isinstance(projection, nn.Linear)
    return projected_cross_entropy(states.flatten(0, 1), projection.weight, blocks[:, 1:].flatten())


def mask_tokens(
    block: Int[Tensor, " token"], *, share: float, vocabulary: int, generator: torch.Generator
) -> tuple[Int[Tensor, " token"], Int[Tensor, " token"]]:
    """Choose subwords to predict and hide them: 80 % masked, 10 % random, 10 % left.

    As Devlin et al. (2019), section 3.1.

    Args:
        block: True subwords.
        share: Share of ordinary subwords to choose; special pieces are never chosen, and never drawn.
        vocabulary: Number of subwords.
        generator: Where the choice comes from.

    Returns:
        What is shown, and the labels (-100 where nothing is asked).
    """
    chance = torch.rand(block.shape, generator=generator)
    kind = torch.rand(block.shape, generator=generator)
    shape, special = block.shape, len(SPECIALS)
    random_tokens = torch.randint(special, vocabulary, shape, generator=generator, dtype=block.dtype)
    is_target = (chance < share) & (block >= special)
    inputs = torch.where(is_target & (kind < 0.8), torch.full_like(block, MASK_ID), block)
    inputs = torch.where(is_target & (kind >= 0.9), random_tokens, inputs)
    return inputs, torch.where(is_target, block, torch.full_like(block, -100))


def mask_fixed_count(
    tokens: Int[np.ndarray, " token"],
    *,
    share: float,
    maximum: int,
    vocabulary: int,
    draw: np.random.Generator,
) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " token"]]:
    """Choose a fixed number of subwords to predict and hide them: 80 % masked, 10 % random, 10 % left.

    As Devlin et al. (2019) released it: the number is the share of the whole input, special pieces counted,
    rounded, at least one and at most the limit; special pieces are never chosen. Their random subwords may be
    special pieces, these are not.

    Args:
        tokens: True subwords.
        share: Share of the subwords to choose.
        maximum: Most subwords to choose; 0 for no limit.
        vocabulary: Number of subwords.
        draw: Where the choice comes from.

    Returns:
        What is shown, and the labels (-100 where nothing is asked).
    """
    ordinary = np.flatnonzero(tokens >= len(SPECIALS))
    number = max(1, round(share * len(tokens)))
    targets = draw.permutation(ordinary)[: min(number, maximum) if maximum else number]
    kind = draw.random(len(targets))
    random_tokens = draw.integers(len(SPECIALS), vocabulary, len(targets))
    inputs, labels = tokens.copy(), np.full_like(tokens, -100)
    labels[targets] = tokens[targets]
    inputs[targets] = np.where(kind < 0.8, MASK_ID, np.where(kind < 0.9, tokens[targets], random_tokens))
    return inputs, labels


def pair_losses(
    model: PreTrainedModel,
    input_ids: Int[Tensor, "batch token"],
    labels: Int[Tensor, "batch token"],
    next_sentence_label: Int[Tensor, " batch"],
    **inputs: Tensor,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Compute the mean nats of the hidden subwords, and of whether the second sentence is random.

    Their sum is what BERT is trained on. Logits exist for the hidden subwords alone.

    Args:
        model: A model with BERT's two heads together in ``cls``.
        input_ids: What is shown.
        labels: The hidden subwords, -100 elsewhere.
        next_sentence_label: 1 where the second sentence is random.
        inputs: Segments and attention mask.
    """
    output = model.base_model(input_ids=input_ids, **inputs)
    is_target = labels >= 0
    heads: Any = model.cls
    logits, next_sentence_logits = heads(output.last_hidden_state[is_target], output.pooler_output)
    return (
        functional.cross_entropy(logits.float(), labels[is_target]),
        functional.cross_entropy(next_sentence_logits.float(), next_sentence_label),
    )


def count_blocks(tokens: int, width: int) -> int:
    """Count the blocks of ``width`` new subwords that cover a stream; the last one may reach back."""
    return max(1, -(-tokens // width))


def block_start(index: int, tokens: int, width: int) -> int:
    """Return the first subword of a block: blocks lie side by side, the last ends with the stream."""
    return max(0, min(index * width, tokens - width))


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """Order of the blocks in the samples of a run; a pure function of its fields.

    Blocks are shuffled within stretches of the stream, which is itself in an order by hash. So a longer run
    begins exactly as a shorter one, and a run shorter than one pass sees the front of the stream: a list of
    files.

    Attributes:
        blocks: Number of different blocks.
        seed: Of the order.
        stretch: Blocks shuffled together.
    """

    blocks: int
    seed: int
    stretch: int = 2048

    def block(self, sample: int) -> int:
        """Return the block of a sample; each pass over the stream takes every block once."""
        epoch, position = divmod(sample, self.blocks)
        stretch, offset = divmod(position, self.stretch)
        first = stretch * self.stretch
        return first + int(
            _permute(min(self.stretch, self.blocks - first), self.seed, epoch, stretch)[offset]
        )

    def passes(self, samples: int) -> Int[np.ndarray, " block"]:
        """Count how often each block is trained on in a run of so many samples."""
        full_passes, rest = divmod(samples, self.blocks)
        counts = np.full(self.blocks, full_passes)
        for sample in range(full_passes * self.blocks, full_passes * self.blocks + rest):
            counts[self.block(sample)] += 1
        return counts


@functools.lru_cache(maxsize=2)
def _permute(size: int, *seed: int) -> Int[np.ndarray, " block"]:
    return np.random.default_rng(derive_seed("order", *seed)).permutation(size)


class _StreamDataset(Dataset[dict[str, Tensor]]):
    """The samples of a run in training order; sample ``k`` is the same in every process and after every stop.

    Args:
        stream: The packed subwords.
        recipe: How many samples there are.
    """

    def __init__(self, stream: Int[np.ndarray, " token"], recipe: Recipe) -> None:
        self._stream = stream
        self._recipe = recipe
        self._samples = recipe.training.steps * recipe.training.blocks_per_step

    def __len__(self) -> int:
        return self._samples

    def _sum_passes(
        self,
        first: Int[np.ndarray, "*sample"],
        end: Int[np.ndarray, "*sample"],
        passes: Int[np.ndarray, "*sample"],
    ) -> Int[np.ndarray, " token"]:
        """Count how often each subword is read, given the passes over sections of the stream."""
        counts = np.zeros(len(self._stream) + 1, np.int64)
        np.add.at(counts, first, passes)
        np.subtract.at(counts, end, passes)
        return counts[:-1].cumsum()


class BlockDataset(_StreamDataset):
    """The samples of a run in training order, each of them a block.

    A decoder's block is one subword longer than its width, so that every subword of the stream but the first
    is predicted. An encoder's block stands between BOS and EOS as its inputs will later, with some of its
    subwords hidden; which ones depends on the seed and ``k`` alone.

    Args:
        stream: The packed subwords.
        recipe: Role, block length and seed.

    Attributes:
        width: Subwords of the stream that a block adds.
        course: Which block each sample is.
    """

    def __init__(self, stream: Int[np.ndarray, " token"], recipe: Recipe) -> None:
        super().__init__(stream, recipe)
        self._decoder = recipe.model.role == "decoder"
        self.width = recipe.training.block - (1 if self._decoder else 2)
        self.course = BlockOrder(count_blocks(len(stream), self.width), recipe.seed)

    def __getitem__(self, k: int) -> dict[str, Tensor]:
        start = block_start(self.course.block(k), len(self._stream), self.width)
        if self._decoder:
            start = max(0, start - 1)
            return {"input_ids": self._block(start, self.width + 1)}
        block = torch.cat([torch.tensor([BOS_ID]), self._block(start, self.width), torch.tensor([EOS_ID])])
        generator = torch.Generator().manual_seed(derive_seed("hide", self._recipe.seed, k))
        inputs, labels = mask_tokens(
            block,
            share=self._recipe.training.masked,
            vocabulary=self._recipe.vocabulary.size,
            generator=generator,
        )
        return {"input_ids": inputs, "labels": labels}

    def token_passes(self) -> Int[np.ndarray, " token"]:
        """Count how often each subword of the stream is read in the run."""
        size = len(self._stream)
        starts = [block_start(block, size, self.width) for block in range(self.course.blocks)]
        first = np.array(starts, np.int64)
        ends = np.minimum(first + self.width, size)
        return self._sum_passes(first, ends, self.course.passes(self._samples))

    def _block(self, start: int, length: int) -> Int[Tensor, " token"]:
        return torch.from_numpy(self._stream[start : start + length].astype(np.int64))


FRAMING = 3
"""Special pieces of a pair: before A, behind A, behind B."""


_ELSEWHERE = 10
"""How often another document is asked for before a line of the same one is taken."""


class SentencePair(NamedTuple):
    """Two stretches of the stream, ends exclusive, and whether B is from elsewhere (1) or follows A (0)."""

    first: int
    first_end: int
    second: int
    second_end: int
    random: int


@dataclass(frozen=True, slots=True, eq=False)
class DocumentLines:
    """Documents as lines on a stream of subwords.

    Attributes:
        edges: First subword of every line, document by document, each closed by the end of its last line.
        documents: Where each document's edges begin in `edges`, closed by their number.
    """

    edges: Int[np.ndarray, " edge"]
    documents: Int[np.ndarray, " document"]

    def __len__(self) -> int:
        return len(self.documents) - 1

    def document(self, index: int) -> list[int]:
        """Return the edges of one document."""
        return self.edges[self.documents[index] : self.documents[index + 1]].tolist()


def build_all_pairs(
    lines: DocumentLines, length: int, config: PairsConfig, seed: int
) -> Int[np.ndarray, "pair 5"]:
    """Build the pairs of every duplicate of the data, in the order of the stream.

    Args:
        lines: The data; documents without a line give nothing.
        length: Most subwords of a pair, the special ones included.
        config: Duplicates, and the share of short ones.
        seed: Of every choice; what a document gives depends on it and the document's number alone.

    Returns:
        One row a pair, with the columns of `SentencePair`.

    Raises:
        InputError: Fewer than two documents have lines, so that nothing is from elsewhere.
    """
    documents = [edges for edges in map(lines.document, range(len(lines))) if len(edges) > 1]
    if len(documents) < 2:
        raise InputError(
            f"{len(documents)} file(s) with logical lines: next sentences need two at least; take more data, "
            "or the objective 'masked'"
        )
    rows = [
        pair
        for duplicate in range(config.duplicates)
        for index in range(len(documents))
        for pair in iterate_document_pairs(
            documents,
            index,
            length - FRAMING,
            config.short,
            random.Random(derive_seed("pairs", seed, duplicate, index)),
        )
    ]
    return np.array(rows, np.int64)


def iterate_document_pairs(
    documents: list[list[int]], index: int, max_length: int, short: float, draw: random.Random
) -> Iterator[SentencePair]:
    """Yield the pairs of one document.

    Args:
        documents: The edges of the lines of every document, two or more each.
        index: The document.
        max_length: Most subwords of A and B together.
        short: Chance that a shorter length is aimed at.
        draw: Where the choices come from.
    """
    edges = documents[index]
    aim = draw.randint(2, max_length) if draw.random() < short else max_length
    line = 0
    while line < len(edges) - 1:
        begin = line
        while line < len(edges) - 2 and edges[line + 1] - edges[begin] < aim:
            line += 1
        line += 1
        split = begin + (draw.randint(1, line - begin - 1) if line - begin > 1 else 1)
        if line - begin == 1 or draw.random() < 0.5:
            other_document = _sample_other_document(len(documents), index, draw)
            second = _sample_lines(documents[other_document], aim - (edges[split] - edges[begin]), draw)
            # What was not used comes again.
            line = split
            pair = SentencePair(edges[begin], edges[split], *second, 1)
        else:
            pair = SentencePair(edges[begin], edges[split], edges[split], edges[line], 0)
        yield _truncate_pair(pair, max_length, draw)


def _sample_other_document(documents: int, index: int, draw: random.Random) -> int:
    candidate = index
    for _ in range(_ELSEWHERE):
        candidate = draw.randrange(documents)
        if candidate != index:
            break
    return candidate


def _sample_lines(edges: list[int], size: int, draw: random.Random) -> tuple[int, int]:
    """Sample consecutive lines, at least one, until they contain enough subwords or the document ends."""
    begin = draw.randrange(len(edges) - 1)
    end = begin + 1
    while end < len(edges) - 1 and edges[end] - edges[begin] < size:
        end += 1
    return edges[begin], edges[end]


def _truncate_pair(pair: SentencePair, max_length: int, draw: random.Random) -> SentencePair:
    """Truncate a pair, subword by subword from the longer side, B of two alike."""
    first, second = pair.first_end - pair.first, pair.second_end - pair.second
    excess = first + second - max_length
    if excess <= 0:
        return pair
    lead = min(excess, abs(first - second))
    rest = excess - lead
    from_first = rest // 2 + (lead if first > second else 0)
    from_second = rest - rest // 2 + (lead if second > first else 0)
    # Each one goes from the front or the back with equal chance.
    front, other_front = _count_heads(from_first, draw), _count_heads(from_second, draw)
    return SentencePair(
        pair.first + front,
        pair.first_end - (from_first - front),
        pair.second + other_front,
        pair.second_end - (from_second - other_front),
        pair.random,
    )


def _count_heads(tosses: int, draw: random.Random) -> int:
    return draw.getrandbits(tosses).bit_count() if tosses else 0


class PairDataset(_StreamDataset):
    """The pairs of a run in training order.

    Each sample is one pair, padded to the block length: special pieces stand before A, behind A and behind B,
    as the tokenizer of the finished model puts them. All pairs of all duplicates are shuffled together;
    a run that is longer goes through them again in another order.

    Args:
        stream: The packed subwords.
        pairs: From `build_all_pairs`.
        recipe: Block length, shares and seed.

    Attributes:
        course: Which pair each sample is.
    """

    def __init__(
        self, stream: Int[np.ndarray, " token"], pairs: Int[np.ndarray, "pair 5"], recipe: Recipe
    ) -> None:
        super().__init__(stream, recipe)
        self._pairs = pairs
        self.course = BlockOrder(len(pairs), recipe.seed, stretch=len(pairs))

    def __getitem__(self, k: int) -> dict[str, Tensor]:
        number = self.course.block(k)
        recipe = self._recipe
        tokens, segments, random_next = frame_pair(self._stream, self._pairs[number])
        inputs, labels = mask_fixed_count(
            tokens,
            share=recipe.training.masked,
            maximum=recipe.pairs.predictions,
            vocabulary=recipe.vocabulary.size,
            draw=np.random.default_rng(derive_seed("hide", recipe.seed, number)),
        )
        block = recipe.training.block
        return {
            "input_ids": _pad(inputs, block, PAD_ID),
            "token_type_ids": _pad(segments, block, 0),
            "attention_mask": _pad(np.ones_like(tokens), block, 0),
            "labels": _pad(labels, block, -100),
            "next_sentence_label": torch.tensor(random_next),
        }

    def token_passes(self) -> Int[np.ndarray, " token"]:
        """Count how often each subword of the stream is read in the run."""
        passes = self.course.passes(self._samples)[:, None]
        return self._sum_passes(self._pairs[:, [0, 2]], self._pairs[:, [1, 3]], passes)


def frame_pair(
    stream: Int[np.ndarray, " token"], row: Int[np.ndarray, " 5"]
) -> tuple[Int[np.ndarray, " framed"], Int[np.ndarray, " framed"], int]:
    """Return a pair as a model reads it: subwords with special pieces, segments, whether B is random."""
    pair = SentencePair(*row.tolist())
    first, second = stream[pair.first : pair.first_end], stream[pair.second : pair.second_end]
    tokens = np.concatenate([[BOS_ID], first, [EOS_ID], second, [EOS_ID]]).astype(np.int64)
    segments = np.zeros_like(tokens)
    segments[len(first) + 2 :] = 1
    return tokens, segments, pair.random


def _pad(values: Int[np.ndarray, " token"], length: int, filler: int) -> Int[Tensor, " block"]:
    block = torch.full((length,), filler, dtype=torch.long)
    block[: len(values)] = torch.from_numpy(values)
    return block
