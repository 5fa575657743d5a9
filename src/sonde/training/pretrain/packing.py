"""Documents to one stream of subwords on disk, with their logical lines where pairs of them are asked for.

A logical line, the sentence of CuBERT, ends with the token ``NEWLINE`` of its language's lexer (Kanade et al.
2020, section 3.5); breaks inside brackets, blank lines and lines with a comment alone end none. A break's
subwords go with the line that they end, and with them the indentation of the next, which a vocabulary of this
package keeps in one piece with the break.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Int
from tokenizers import Tokenizer

from sonde.base.errors import InputError, StoreError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import fingerprint, hash_text
from sonde.corpora import SkipCounter, SourceFile
from sonde.languages import get_facet
from sonde.languages.engine.program_tokens import ERROR, NEWLINE, ProgramLexer
from sonde.results.schema import scan_files
from sonde.training.pretrain.blocks import DocumentLines, build_all_pairs
from sonde.training.pretrain.checkpoints import report_full_disk
from sonde.training.pretrain.documents import Document, choose_documents
from sonde.training.pretrain.recipe import SMALL_VOCABULARY, Recipe
from sonde.training.pretrain.vocabulary import (
    BOS,
    EOS,
    SPECIALS,
    learn_program_vocabulary,
    learn_vocabulary,
    load_vocabulary,
    save_vocabulary,
)

_BATCH = 64


_LEARN = {"code": learn_vocabulary, "program": learn_program_vocabulary}


@dataclass(frozen=True, slots=True, eq=False)
class PackedData:
    """Tokenised documents.

    Attributes:
        tokens: All documents' subwords one after the other, each document between `BOS` and `EOS`; on disk.
        documents: One row a document in that order: ``corpus, cluster, path, language, version, licence,
            hash, bytes, first`` (its first subword's place), ``tokens`` (their number), ``items`` (list of
            uint64: the first 16 digits of the ids of the file and its functions).
        vocabulary: What the subwords are.
        pairs: Pairs of sentences on disk, a row each with the columns of
            `sonde.training.pretrain.blocks.SentencePair`; None unless the recipe's objective asks for them.
    """

    tokens: Int[np.ndarray, " token"]
    documents: pl.DataFrame
    vocabulary: Tokenizer
    pairs: Int[np.ndarray, "pair 5"] | None = None


def pack_documents(recipe: Recipe, folder: Path, report: Callable[[str], None]) -> PackedData:
    """Choose documents, learn the vocabulary and write the stream; a second call reads what the first wrote.

    Args:
        recipe: Its data and vocabulary decide the result.
        folder: Work folder; the result lies below it under its fingerprint, so recipes share it.
        report: Receives one line a stage.
    """
    asks_pairs = recipe.objective == "pairs"
    home = folder / f"data-{fingerprint(recipe.data, recipe.vocabulary, *(['lines'] * asks_pairs))[:12]}"
    with report_full_disk(str(home), "nothing else is lost"):
        if not (home / "intake.json").is_file():
            _make_atomically(recipe, home, report)
        tokens = np.memmap(home / "tokens.bin", subword_type(recipe.vocabulary.size), "r")
        documents = scan_files(home / "documents.parquet").collect()
        if len(tokens) != documents["tokens"].sum():
            raise StoreError(f"{home} is damaged: {len(tokens)} subwords; delete the folder and run again")
        report(f"{len(documents):,} files, {len(tokens):,} subwords in {home}")
        pairs = _load_pairs(recipe, home, report) if asks_pairs else None
    return PackedData(tokens, documents, load_vocabulary(home / "tokenizer.json"), pairs)


def subword_type(vocabulary: int) -> type[np.uint16 | np.uint32]:
    """The type of a subword in a stream: two bytes, or four for a large vocabulary."""
    return np.uint16 if vocabulary <= SMALL_VOCABULARY else np.uint32


def _make_atomically(recipe: Recipe, home: Path, report: Callable[[str], None]) -> None:
    """Make the data in a folder of this process's own and move it into place.

    Recipes share their data, and two that are started together must not write into one stream.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    own = Path(tempfile.mkdtemp(prefix=f".{home.name}.", dir=home.parent))
    try:
        _make_data(recipe, own, report)
        if not (home / "intake.json").is_file():
            shutil.rmtree(home, ignore_errors=True)
            own.chmod(0o755)
            own.replace(home)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _make_data(recipe: Recipe, home: Path, report: Callable[[str], None]) -> None:
    intake = SkipCounter(keep_all=True)
    documents = list(choose_documents(recipe.data, intake, report))
    breaks = _find_breaks(documents, intake) if recipe.objective == "pairs" else None
    if breaks is not None:
        documents = [document for document in documents if document.item_ids[0] in breaks]
    report(f"{len(documents):,} files chosen; left out: {dict(intake.counts)}")
    if not documents:
        raise InputError(f"no file left to train on: {dict(intake.counts)}; relax the recipe's [data]")
    learn = _LEARN[recipe.vocabulary.pieces]
    vocabulary = learn(_take_texts(documents, recipe.vocabulary.bytes), recipe.vocabulary.size)
    save_vocabulary(vocabulary, home / "tokenizer.json")
    _write_stream(documents, vocabulary, home, breaks)
    # Its presence says that everything else is whole.
    write_atomic(home / "intake.json", json.dumps(dict(intake.counts), indent=1))


def _find_breaks(documents: list[Document], intake: SkipCounter) -> dict[str, list[int]]:
    """Where the logical lines of each document end, by its id; those that the lexer refuses have none."""
    found: dict[str, list[int]] = {}
    for document in documents:
        file = document.file
        breaks = find_break_offsets(get_facet(file.language, "program", ProgramLexer), file.text)
        if breaks is None:
            intake.note("refused by the lexer", file.path)
        else:
            found[document.item_ids[0]] = breaks
    return found


def _load_pairs(recipe: Recipe, home: Path, report: Callable[[str], None]) -> Int[np.ndarray, "pair 5"]:
    """The pairs of a recipe, made once for each length, seed and way to make them."""
    path = home / f"pairs-{fingerprint(recipe.pairs, recipe.training.block, recipe.seed)[:12]}.npy"
    if not path.is_file():
        lines = DocumentLines(np.load(home / "edges.npy"), np.load(home / "edges-of.npy"))
        made = build_all_pairs(lines, recipe.training.block, recipe.pairs, recipe.seed)
        temporary = path.with_suffix(f".{os.getpid()}.npy")
        np.save(temporary, made)
        temporary.replace(path)
    pairs: Int[np.ndarray, "pair 5"] = np.load(path, mmap_mode="r")
    a_pass = len(pairs) // recipe.pairs.duplicates
    report(f"{len(pairs):,} pairs, {a_pass:,} from each of {recipe.pairs.duplicates} duplicates of the data")
    return pairs


def _take_texts(documents: list[Document], size: int) -> Iterator[str]:
    for document in documents:
        if size <= 0:
            return
        size -= len(document.file.text)
        yield document.file.text


def encode_document(vocabulary: Tokenizer, texts: list[str]) -> list[Int[np.ndarray, " token"]]:
    """Subwords of documents, each between `BOS` and `EOS`; special pieces inside a text are spelled out."""
    vocabulary.encode_special_tokens = True
    bos, eos = [SPECIALS.index(BOS)], [SPECIALS.index(EOS)]
    kind = subword_type(vocabulary.get_vocab_size())
    encodings = vocabulary.encode_batch_fast(texts, add_special_tokens=False)
    return [np.array(bos + encoding.ids + eos, kind) for encoding in encodings]


def find_break_offsets(facet: ProgramLexer, text: str) -> list[int] | None:
    """First characters of the line breaks that end a logical line, None where the lexer refuses the text.

    Args:
        facet: The facet ``program`` of the text's language.
        text: A whole file.
    """
    lexemes = facet.lexemes(text)
    if lexemes[0].kind == ERROR and len(lexemes) == 2 and text.strip():
        return None
    return [lexeme.offset for lexeme in lexemes if lexeme.kind == NEWLINE]


def find_line_starts(
    breaks: list[int], text: str, starts: Int[np.ndarray, " token"]
) -> Int[np.ndarray, " line"]:
    """The subword that each logical line begins with; the first is 0, the last line ends with the text.

    Args:
        breaks: From `find_break_offsets`.
        text: The text.
        starts: First character of each subword, rising.
    """
    behind: list[int] = []
    for at in breaks:
        while at < len(text) and text[at].isspace():
            at += 1
        behind.append(at)
    found = np.unique(np.concatenate([[0], np.searchsorted(starts, behind)]).astype(np.int64))
    return found[found < max(len(starts), 1)]


def line_edges(vocabulary: Tokenizer, text: str, breaks: list[int], first: int) -> Int[np.ndarray, " edge"]:
    """The edges of a document's lines in a stream.

    Args:
        vocabulary: What the subwords are.
        text: The document.
        breaks: From `find_break_offsets`.
        first: Place of the document's `BOS` in the stream.

    Returns:
        First subword of every line, closed by the place of the document's `EOS`.
    """
    vocabulary.encode_special_tokens = True
    offsets = vocabulary.encode(text, add_special_tokens=False).offsets
    starts = np.array([start for start, _ in offsets], np.int64)
    return first + 1 + np.append(find_line_starts(breaks, text, starts), len(starts))


def _write_stream(
    documents: list[Document],
    vocabulary: Tokenizer,
    home: Path,
    breaks: dict[str, list[int]] | None,
) -> None:
    rows: list[dict[str, object]] = []
    edges: list[Int[np.ndarray, " edge"]] = []
    place = 0
    with (home / "tokens.bin").open("wb") as stream:
        for start in range(0, len(documents), _BATCH):
            batch = documents[start : start + _BATCH]
            encoded = encode_document(vocabulary, [document.file.text for document in batch])
            for document, tokens in zip(batch, encoded, strict=True):
                stream.write(tokens.tobytes())
                if breaks is not None:
                    own = breaks[document.item_ids[0]]
                    edges.append(line_edges(vocabulary, document.file.text, own, place))
                rows.append(_document_row(document, place, len(tokens)))
                place += len(tokens)
    schema = {"items": pl.List(pl.UInt64), "first": pl.Int64, "tokens": pl.Int64, "bytes": pl.Int64}
    pl.DataFrame(rows, schema_overrides=schema).write_parquet(home / "documents.parquet")
    if breaks is not None:
        np.save(home / "edges.npy", np.concatenate(edges))
        np.save(home / "edges-of.npy", np.cumsum([0, *map(len, edges)]))


def _document_row(document: Document, first: int, tokens: int) -> dict[str, object]:
    file: SourceFile = document.file
    return {
        "corpus": document.corpus,
        "cluster": file.cluster,
        "path": file.path,
        "language": file.language,
        "version": file.version,
        "licence": file.licence,
        "hash": hash_text(file.text),
        "bytes": len(file.text.encode("utf-8", "surrogatepass")),
        "first": first,
        "tokens": tokens,
        "items": [int(identifier[:16], 16) for identifier in document.item_ids],
    }
