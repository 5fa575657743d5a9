"""Documents to one stream of subwords on disk, and the stream to blocks of one length."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
from jaxtyping import Int
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import Dataset

from sonde.base.errors import StoreError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import derive_seed, fingerprint, hash_text
from sonde.corpora import Intake
from sonde.training.documents import Document, choose_documents
from sonde.training.objectives import hide
from sonde.training.recipe import Recipe
from sonde.training.vocabulary import (
    BOS,
    EOS,
    MASK,
    SPECIALS,
    learn_vocabulary,
    load_vocabulary,
    save_vocabulary,
)

_BATCH = 64


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Tokenised documents.

    Attributes:
        tokens: All documents' subwords one after the other, each document between `BOS` and `EOS`; on disk.
        documents: One row a document in that order: ``corpus, cluster, path, language, version, licence,
            hash, bytes, first`` (its first subword's place), ``tokens`` (their number), ``items`` (list of
            uint64: the first 16 digits of the ids of the file and its functions).
        vocabulary: What the subwords are.
    """

    tokens: Int[np.ndarray, " token"]
    documents: pl.DataFrame
    vocabulary: Tokenizer


def prepare(recipe: Recipe, folder: Path, report: Callable[[str], None]) -> Packed:
    """Choose documents, learn the vocabulary and write the stream; a second call reads what the first wrote.

    Args:
        recipe: Its data and vocabulary decide the result.
        folder: Work folder; the result lies below it under its fingerprint, so recipes share it.
        report: Receives one line a stage.
    """
    home = folder / f"data-{fingerprint(recipe.data, recipe.vocabulary)[:12]}"
    if not (home / "intake.json").is_file():
        intake = Intake()
        documents = list(choose_documents(recipe.data, intake, report))
        report(f"{len(documents):,} files chosen; left out: {dict(intake.counts)}")
        vocabulary = learn_vocabulary(_front(documents, recipe.vocabulary.bytes), recipe.vocabulary.size)
        save_vocabulary(vocabulary, home / "tokenizer.json")
        _write(documents, vocabulary, home)
        # Written last: its presence says that everything else is whole.
        write_atomic(home / "intake.json", json.dumps(dict(intake.counts), indent=1))
    packed = Packed(
        np.memmap(home / "tokens.bin", np.uint16, "r"),
        pl.read_parquet(home / "documents.parquet"),
        load_vocabulary(home / "tokenizer.json"),
    )
    if len(packed.tokens) != packed.documents["tokens"].sum():
        raise StoreError(f"{home} is damaged: {len(packed.tokens)} subwords; delete the folder and run again")
    report(f"{len(packed.documents):,} files, {len(packed.tokens):,} subwords in {home}")
    return packed


def _front(documents: list[Document], size: int) -> Iterator[str]:
    for document in documents:
        if size <= 0:
            return
        size -= len(document.file.text)
        yield document.file.text


def encode_document(vocabulary: Tokenizer, texts: list[str]) -> list[Int[np.ndarray, " token"]]:
    """Subwords of documents, each between `BOS` and `EOS`; special pieces inside a text are spelled out."""
    vocabulary.encode_special_tokens = True
    bos, eos = [SPECIALS.index(BOS)], [SPECIALS.index(EOS)]
    encodings = vocabulary.encode_batch_fast(texts, add_special_tokens=False)
    return [np.array(bos + encoding.ids + eos, np.uint16) for encoding in encodings]


def _write(documents: list[Document], vocabulary: Tokenizer, home: Path) -> None:
    rows: list[dict[str, object]] = []
    place = 0
    with (home / "tokens.bin").open("wb") as stream:
        for start in range(0, len(documents), _BATCH):
            batch = documents[start : start + _BATCH]
            encoded = encode_document(vocabulary, [document.file.text for document in batch])
            for document, tokens in zip(batch, encoded, strict=True):
                stream.write(tokens.tobytes())
                file = document.file
                rows.append(
                    {
                        "corpus": document.corpus,
                        "cluster": file.cluster,
                        "path": file.path,
                        "language": file.language,
                        "version": file.version,
                        "licence": file.licence,
                        "hash": hash_text(file.text),
                        "bytes": len(file.text.encode("utf-8", "surrogatepass")),
                        "first": place,
                        "tokens": len(tokens),
                        "items": [int(identifier[:16], 16) for identifier in document.item_ids],
                    }
                )
                place += len(tokens)
    schema = {"items": pl.List(pl.UInt64), "first": pl.Int64, "tokens": pl.Int64, "bytes": pl.Int64}
    pl.DataFrame(rows, schema_overrides=schema).write_parquet(home / "documents.parquet")


def block_count(tokens: int, width: int) -> int:
    """Number of blocks of ``width`` new subwords that cover a stream; the last one may reach back."""
    return max(1, -(-tokens // width))


def block_start(index: int, tokens: int, width: int) -> int:
    """First subword of a block: blocks lie side by side, the last ends with the stream."""
    return max(0, min(index * width, tokens - width))


@dataclass(frozen=True, slots=True)
class Course:
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
        self.course = Course(block_count(len(stream), self.width), recipe.seed)
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

    def _block(self, start: int, length: int) -> Int[Tensor, " token"]:
        return torch.from_numpy(self._stream[start : start + length].astype(np.int64))
