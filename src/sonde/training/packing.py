"""Documents to one stream of subwords on disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Int
from tokenizers import Tokenizer

from sonde.base.errors import StoreError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import fingerprint, hash_text
from sonde.corpora import Intake
from sonde.training.documents import Document, choose_documents
from sonde.training.recipe import Recipe
from sonde.training.vocabulary import (
    BOS,
    EOS,
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
