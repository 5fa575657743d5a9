"""The stream of subwords as blocks of one length, in training order; needs no corpus, only the stream."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.data import Dataset

from sonde.base.fingerprint import derive_seed
from sonde.training.objectives import hide
from sonde.training.recipe import Recipe
from sonde.training.vocabulary import BOS, EOS, MASK, SPECIALS


def block_count(tokens: int, width: int) -> int:
    """Number of blocks of ``width`` new subwords that cover a stream; the last one may reach back."""
    return max(1, -(-tokens // width))


def block_start(index: int, tokens: int, width: int) -> int:
    """First subword of a block: blocks lie side by side, the last ends with the stream."""
    return max(0, min(index * width, tokens - width))


@dataclass(frozen=True, slots=True)
class BlockOrder:
    """Which block each sample of a run is; a pure function of its fields.

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
        """The block that a sample is; each pass over the stream takes every block once."""
        epoch, place = divmod(sample, self.blocks)
        stretch, inside = divmod(place, self.stretch)
        first = stretch * self.stretch
        return first + int(
            _shuffled(min(self.stretch, self.blocks - first), self.seed, epoch, stretch)[inside]
        )

    def passes(self, samples: int) -> Int[np.ndarray, " block"]:
        """How often each block is trained on in a run of so many samples."""
        whole, rest = divmod(samples, self.blocks)
        counts = np.full(self.blocks, whole)
        for sample in range(whole * self.blocks, whole * self.blocks + rest):
            counts[self.block(sample)] += 1
        return counts


@functools.lru_cache(maxsize=2)
def _shuffled(size: int, *seed: int) -> Int[np.ndarray, " block"]:
    return np.random.default_rng(derive_seed("order", *seed)).permutation(size)


class BlockDataset(Dataset[dict[str, Tensor]]):
    """The samples of a run in training order; sample ``k`` is the same in every process and after every stop.

    A decoder's block is one subword longer than its width, so that every subword of the stream but the first
    is predicted. An encoder's block stands between `BOS` and `EOS` as its inputs will later, with some of its
    subwords hidden; which ones depends on the seed and ``k`` alone.

    Args:
        stream: The packed subwords.
        recipe: Role, block length and seed.

    Attributes:
        width: Subwords of the stream that a block adds.
        course: Which block each sample is.
    """

    def __init__(self, stream: Int[np.ndarray, " token"], recipe: Recipe) -> None:
        self._stream = stream
        self._recipe = recipe
        training = recipe.training
        self._decoder = recipe.model.role == "decoder"
        self.width = training.block - 1 if self._decoder else training.block - 2
        self.course = BlockOrder(block_count(len(stream), self.width), recipe.seed)
        self._samples = training.steps * training.blocks_per_step

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, k: int) -> dict[str, Tensor]:
        start = block_start(self.course.block(k), len(self._stream), self.width)
        if self._decoder:
            start = max(0, start - 1)
            return {"input_ids": self._block(start, self.width + 1)}
        bos, eos = SPECIALS.index(BOS), SPECIALS.index(EOS)
        block = torch.cat([torch.tensor([bos]), self._block(start, self.width), torch.tensor([eos])])
        generator = torch.Generator().manual_seed(derive_seed("hide", self._recipe.seed, k))
        shown, labels = hide(
            block,
            share=self._recipe.training.masked,
            vocabulary=self._recipe.vocabulary.size,
            mask=SPECIALS.index(MASK),
            special=len(SPECIALS),
            generator=generator,
        )
        return {"input_ids": shown, "labels": labels}

    def token_passes(self) -> Int[np.ndarray, " token"]:
        """How often each subword of the stream is read in the run."""
        passes = self.course.passes(self._samples)
        counts = np.zeros(len(self._stream) + 1, np.int64)
        for block in np.flatnonzero(passes):
            start = block_start(int(block), len(self._stream), self.width)
            counts[start] += passes[block]
            counts[min(start + self.width, len(self._stream))] -= passes[block]
        return counts[:-1].cumsum()

    def _block(self, start: int, length: int) -> Int[Tensor, " token"]:
        return torch.from_numpy(self._stream[start : start + length].astype(np.int64))
