"""Pre-training data: selected documents, packed into one stream of subwords on disk.

Documents are a broad sample of files that are permissively licensed, parse, and are clear of held-out code.

Where pairs of lines are trained on, the logical lines are stored too. A logical line, the sentence of CuBERT,
ends with the token ``NEWLINE`` of its language's lexer (Kanade et al. 2020, section 3.5); breaks inside
brackets, blank lines and lines with a comment alone end none. A break's subwords go with the line that they
end, and with them the indentation of the next, which a vocabulary of this package keeps in one piece with the
break.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from jaxtyping import Float, Int
from sklearn.preprocessing import MultiLabelBinarizer
from tokenizers import Tokenizer

from sonde.base.errors import InputError, StoreError
from sonde.base.files import report_full_disk, write_atomic, write_folder
from sonde.base.fingerprint import fingerprint, hash_text, unit_hash
from sonde.corpora import (
    NearDuplicateIndex,
    SkipCounter,
    SourceFile,
    duplicate_tokens,
    is_holdout_package,
    item_id,
    read_files,
)
from sonde.corpora.engine.read import extract_items
from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.program_tokens import ERROR, NEWLINE, ProgramLexer
from sonde.results.schema import scan_files
from sonde.training.pretrain.objectives import DocumentLines, build_all_pairs
from sonde.training.pretrain.recipe import SMALL_VOCABULARY, CorpusConfig, DataConfig, Recipe
from sonde.training.pretrain.vocabulary import (
    BOS_ID,
    EOS_ID,
    learn_vocabulary,
    load_vocabulary,
    save_vocabulary,
)

MIN_TOKENS = 20
"""Functions with fewer distinct identifiers and literals do not condemn a file: accessors and the like are
written alike by everyone. Where such a one does recur, its item id tells, and it is flagged as seen."""


_LONGEST_LINE = 1_000


_MOST_DIGITS = 0.3


@dataclass(frozen=True, slots=True)
class Document:
    """A file to train on.

    Attributes:
        corpus: The corpus as named in the recipe.
        file: The file itself.
        item_ids: Ids of the file and of each of its functions.
    """

    corpus: str
    file: SourceFile
    item_ids: tuple[str, ...]


def is_allowed_licence(licence: str, licences: tuple[str, ...]) -> bool:
    """Return whether each part of a licence expression is allowed, or has an allowed alternative.

    >>> is_allowed_licence("BSD-3-Clause AND (MIT OR GPL-2.0)", ("BSD", "MIT"))
    True
    >>> is_allowed_licence("LGPL-3.0", ("GPL",))
    False
    """
    if not licences:
        return True
    words = [re.compile(rf"(?<![\w]){re.escape(name)}(?!\w)", re.IGNORECASE) for name in licences]
    return bool(licence) and all(
        any(word.search(choice) for choice in re.split(r"\bOR\b|/", part) for word in words)
        for part in re.split(r"\bAND\b", licence)
    )


def is_handwritten(text: str) -> bool:
    """Return whether a person may have written a text: no endless lines, not mostly numbers, no NUL."""
    digits = sum(map(text.count, "0123456789"))
    return (
        "\0" not in text
        and digits <= _MOST_DIGITS * len(text)
        and max(map(len, text.splitlines()), default=0) <= _LONGEST_LINE
    )


class HeldOut:
    """Index of held-out code, which finds files that repeat any of it.

    Args:
        files: Held-out files: the text of each and those of its functions; the same may come often.
    """

    def __init__(self, files: Iterator[tuple[str, list[str]]]) -> None:
        self._index = NearDuplicateIndex()
        self._files: set[str] = set()
        exact: set[str] = set()
        for file, functions in files:
            self._files.add(hash_text(file))
            for text in functions:
                key = hash_text(text)
                if key not in exact:
                    exact.add(key)
                    bag = duplicate_tokens(text)
                    if len(bag) >= MIN_TOKENS:
                        self._index.add(key, bag)

    def __len__(self) -> int:
        return len(self._index)

    def matches(self, file: str, functions: list[str]) -> bool:
        """Return whether the file, or a function in it, duplicates a held-out item.

        A file whose functions are all short, as vendored declarations of types, is told by its whole text.
        """
        if hash_text(file) in self._files:
            return True
        for text in functions:
            bag = duplicate_tokens(text)
            if len(bag) >= MIN_TOKENS and self._index.find(bag) is not None:
                return True
        return False


def iterate_held_out_files(data: DataConfig, intake: SkipCounter) -> Iterator[tuple[str, list[str]]]:
    """Yield the files and functions of the held-out corpora and of the reserved names in training ones."""
    languages = tuple(sorted({corpus.language for corpus in data.corpora}))
    for name in data.held_out:
        for file in read_files(name, languages, intake):
            yield file.text, list(_iterate_functions(file, intake))
    for name, language in dict.fromkeys((corpus.name, corpus.language) for corpus in data.corpora):
        for file in read_files(name, (language,), intake):
            if is_holdout_package(file.cluster):
                yield file.text, list(_iterate_functions(file, intake))


def iterate_reserved_files(data: DataConfig, language: str) -> Iterator[SourceFile]:
    """Yield a language's files under reserved names, as they would be trained on."""
    for corpus in data.corpora:
        if corpus.language == language:
            for file in read_files(corpus.name, (language,), SkipCounter(keep_all=True)):
                if is_holdout_package(file.cluster) and not _exclusion_reason(file, corpus, data):
                    yield file


def choose_documents(
    data: DataConfig, intake: SkipCounter, report: Callable[[str], None]
) -> Iterator[Document]:
    """Yield the documents to train on, in an order by hash that mixes corpora by their shares.

    A larger ``data.bytes`` only extends what a smaller one yields.

    Args:
        data: The data of a recipe.
        intake: Counts what is left out and why.
        report: Receives one line a stage.

    Raises:
        InputError: Nothing is left to train on.
    """
    held_out = HeldOut(iterate_held_out_files(data, intake))
    report(f"held out: {len(held_out):,} distinct functions of {MIN_TOKENS} or more distinct tokens")
    streams = [_stream_corpus(corpus, data, held_out, intake) for corpus in data.corpora]
    queue = [(0.0, index) for index in range(len(streams))]
    seen_ids: set[str] = set()
    total = 0
    while queue and total < data.bytes:
        used, index = heapq.heappop(queue)
        document = next(streams[index], None)
        if document is None:
            continue
        if document.item_ids[0] not in seen_ids:
            seen_ids.add(document.item_ids[0])
            size = len(document.file.text.encode("utf-8", "surrogatepass"))
            total += size
            used += size / data.corpora[index].share
            yield document
        else:
            intake.note("repeated file", document.file.path)
        heapq.heappush(queue, (used, index))
    if not seen_ids:
        raise InputError(f"no file left to train on: {dict(intake.counts)}; relax the recipe's [data]")


def _stream_corpus(
    corpus: CorpusConfig, data: DataConfig, held_out: HeldOut, intake: SkipCounter
) -> Iterator[Document]:
    """Yield the documents of one corpus in hash order; the costly checks come last, as far as needed."""
    files: list[tuple[float, str, SourceFile]] = []
    for file in read_files(corpus.name, (corpus.language,), intake):
        is_reserved = is_holdout_package(file.cluster)
        if reason := "reserved name" if is_reserved else _exclusion_reason(file, corpus, data):
            intake.note(reason, file.path)
        else:
            files.append((unit_hash("document", corpus.name, file.path), file.path, file))
    used: Counter[str] = Counter()
    for _, _, file in sorted(files, key=lambda entry: entry[:2]):
        size = len(file.text.encode("utf-8", "surrogatepass"))
        if used[file.cluster] + size > corpus.cluster_bytes:
            intake.note("cluster full", file.path)
        elif LANGUAGES.load(file.language).parse(file.text).has_error:
            intake.note("does not parse", file.path)
        else:
            functions = list(_iterate_functions(file, intake))
            if held_out.matches(file.text, functions):
                intake.note("near-copy of held-out code", file.path)
                continue
            used[file.cluster] += size
            ids = (
                item_id(file.text, file.language, "file"),
                *(item_id(f, file.language, "function") for f in functions),
            )
            yield Document(corpus.name, file, ids)


def _iterate_functions(file: SourceFile, intake: SkipCounter) -> Iterator[str]:
    return (item.text for item in extract_items(file, "function", intake))


def _exclusion_reason(file: SourceFile, corpus: CorpusConfig, data: DataConfig) -> str:
    if file.cluster in corpus.exclude:
        return "excluded by the recipe"
    if not is_allowed_licence(file.licence, corpus.licences):
        return "licence"
    if not data.min_chars <= len(file.text) <= data.max_chars:
        return "length"
    if not is_handwritten(file.text):
        return "generated"
    return ""


THRESHOLD = 0.5
"""Jaccard similarity of two functions' identifiers and literals, as sets, above which one is named."""


_AT_ONCE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ContaminatedFile:
    """A training file with functions that are near a held-out one.

    Attributes:
        path: The training file.
        distribution: Where it is from.
        version: Of the distribution.
        source: The held-out file with the nearest function.
        functions: How many of its functions are near one; a file that is a held-out one as a whole may have
            none that are long enough.
        similarity: The highest Jaccard similarity.
    """

    path: str
    distribution: str
    version: str
    source: str
    functions: int
    similarity: float


def find_contaminated_files(files: pl.DataFrame, held_out: Sequence[str]) -> tuple[ContaminatedFile, ...]:
    """Find training files that contain functions similar to held-out ones, most functions first.

    Args:
        files: The training files, from `sonde.training.pretrain.pretrain.build_manifest`; those that the
            corpora no longer have as they were are passed over.
        held_out: Names of the held-out corpora.
    """
    read = files.filter("seen_in_training")
    languages = tuple(sorted(read["language"].unique()))
    texts = [file for name in held_out for file in read_files(name, languages, SkipCounter(keep_all=True))]
    held_out_functions = _tokenize_functions(iter(texts))
    if not held_out_functions:
        return ()
    languages = tuple(sorted({function.language for function in held_out_functions}))
    rows = {(row["corpus"], row["path"]): row for row in read.iter_rows(named=True)}
    held_by_hash = {hash_text(file.text): file.path for file in texts if file.text.strip()}
    pairs_by_path: dict[str, list[tuple[float, str]]] = {}
    file_copies = {
        row["path"]: held_by_hash[row["hash"]] for row in rows.values() if row["hash"] in held_by_hash
    }
    training_functions = _tokenize_functions(
        file
        for name in sorted(read["corpus"].unique())
        for file in read_files(name, languages, SkipCounter(keep_all=True))
        if (row := rows.get((name, file.path))) is not None and row["hash"] == hash_text(file.text)
    )
    if training_functions:
        similarity, nearest_indices = _closest_matches(
            [function.tokens for function in training_functions],
            [function.tokens for function in held_out_functions],
        )
        for function, value, index in zip(
            training_functions, similarity.tolist(), nearest_indices.tolist(), strict=True
        ):
            if value > THRESHOLD:
                pairs_by_path.setdefault(function.path, []).append((value, held_out_functions[index].path))
    copies: list[ContaminatedFile] = []
    for path, row in {row["path"]: row for row in rows.values()}.items():
        pairs = pairs_by_path.get(path, [])
        if path in file_copies or pairs:
            similarity, source = (1.0, file_copies[path]) if path in file_copies else max(pairs)
            copies.append(
                ContaminatedFile(
                    path=path,
                    distribution=row["distribution"],
                    version=row["version"],
                    source=source,
                    functions=len(pairs),
                    similarity=similarity,
                )
            )
    return tuple(sorted(copies, key=lambda copy: (-copy.functions, -copy.similarity, copy.path)))


@dataclass(frozen=True, slots=True)
class _FunctionTokens:
    path: str
    language: str
    tokens: frozenset[str]


def _tokenize_functions(files: Iterator[SourceFile]) -> list[_FunctionTokens]:
    functions: list[_FunctionTokens] = []
    for file in files:
        for item in extract_items(file, "function", SkipCounter()):
            tokens = frozenset(duplicate_tokens(item.text))
            if len(tokens) >= MIN_TOKENS:
                functions.append(_FunctionTokens(file.path, file.language, tokens))
    return functions


def _closest_matches(
    sets: list[frozenset[str]], reference_sets: list[frozenset[str]]
) -> tuple[Float[np.ndarray, " function"], Int[np.ndarray, " function"]]:
    """Compute the highest Jaccard similarity of each of our sets to one of theirs, and its index."""
    indicator = MultiLabelBinarizer(sparse_output=True).fit([*sets, *reference_sets])
    matrix, reference_matrix = indicator.transform(sets), indicator.transform(reference_sets)
    sizes, other_sizes = (np.array([len(part) for part in parts]) for parts in (sets, reference_sets))
    best: list[Float[np.ndarray, " function"]] = []
    indices: list[Int[np.ndarray, " function"]] = []
    for start in range(0, len(sets), _AT_ONCE):
        intersections = (matrix[start : start + _AT_ONCE] @ reference_matrix.T).toarray()
        jaccard = intersections / (sizes[start : start + _AT_ONCE, None] + other_sizes[None] - intersections)
        best.append(jaccard.max(axis=1))
        indices.append(jaccard.argmax(axis=1))
    return np.concatenate(best), np.concatenate(indices)


_BATCH = 64


@dataclass(frozen=True, slots=True, eq=False)
class PackedData:
    """Tokenised documents.

    Attributes:
        tokens: All documents' subwords one after the other, each document between BOS and EOS; on disk.
        documents: One row a document in that order: ``corpus, cluster, path, language, version, licence,
            hash, bytes, first`` (its first subword's place), ``tokens`` (their number), ``items`` (list of
            uint64: the first 16 digits of the ids of the file and its functions).
        vocabulary: What the subwords are.
        pairs: Pairs of sentences on disk, a row each with the columns of
            `sonde.training.pretrain.objectives.SentencePair`; None unless the recipe's objective asks for
            them.
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
            # Recipes share their data, and two that are started together must not write into one stream.
            shutil.rmtree(home, ignore_errors=True)
            write_folder(home, lambda new_folder: _make_data(recipe, new_folder, report))
        tokens = np.memmap(home / "tokens.bin", subword_type(recipe.vocabulary.size), "r")
        documents = scan_files(home / "documents.parquet").collect()
        if len(tokens) != documents["tokens"].sum():
            raise StoreError(f"{home} is damaged: {len(tokens)} subwords; delete the folder and run again")
        report(f"{len(documents):,} files, {len(tokens):,} subwords in {home}")
        pairs = _load_pairs(recipe, home, report) if asks_pairs else None
    return PackedData(tokens, documents, load_vocabulary(home / "tokenizer.json"), pairs)


def subword_type(vocabulary: int) -> type[np.uint16 | np.uint32]:
    """Return the type of a subword in a stream: two bytes, or four for a large vocabulary."""
    return np.uint16 if vocabulary <= SMALL_VOCABULARY else np.uint32


def _make_data(recipe: Recipe, home: Path, report: Callable[[str], None]) -> None:
    intake = SkipCounter(keep_all=True)
    documents = list(choose_documents(recipe.data, intake, report))
    breaks = _find_breaks(documents, intake) if recipe.objective == "pairs" else None
    if breaks is not None:
        documents = [document for document in documents if document.item_ids[0] in breaks]
    report(f"{len(documents):,} files chosen; left out: {dict(intake.counts)}")
    if not documents:
        raise InputError(f"no file left to train on: {dict(intake.counts)}; relax the recipe's [data]")
    vocabulary_config = recipe.vocabulary
    vocabulary = learn_vocabulary(
        _take_texts(documents, vocabulary_config.bytes), vocabulary_config.size, vocabulary_config.pieces
    )
    save_vocabulary(vocabulary, home / "tokenizer.json")
    _write_stream(documents, vocabulary, home, breaks)
    # Its presence says that everything else is whole.
    write_atomic(home / "intake.json", json.dumps(dict(intake.counts), indent=1))


def _find_breaks(documents: list[Document], intake: SkipCounter) -> dict[str, list[int]]:
    """Find the ends of each document's logical lines, by its id; without those that the lexer refuses."""
    breaks_by_id: dict[str, list[int]] = {}
    for document in documents:
        file = document.file
        breaks = find_break_offsets(get_facet(file.language, "program", ProgramLexer), file.text)
        if breaks is None:
            intake.note("refused by the lexer", file.path)
        else:
            breaks_by_id[document.item_ids[0]] = breaks
    return breaks_by_id


def _load_pairs(recipe: Recipe, home: Path, report: Callable[[str], None]) -> Int[np.ndarray, "pair 5"]:
    """Load the pairs of a recipe, made once for each length, seed and configuration."""
    path = home / f"pairs-{fingerprint(recipe.pairs, recipe.training.block, recipe.seed)[:12]}.npy"
    if not path.is_file():
        lines = DocumentLines(np.load(home / "edges.npy"), np.load(home / "edges-of.npy"))
        new_pairs = build_all_pairs(lines, recipe.training.block, recipe.pairs, recipe.seed)
        temporary = path.with_suffix(f".{os.getpid()}.npy")
        np.save(temporary, new_pairs)
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
    """Encode documents, each between BOS and EOS; special pieces inside a text are spelled out."""
    vocabulary.encode_special_tokens = True
    kind = subword_type(vocabulary.get_vocab_size())
    encodings = vocabulary.encode_batch_fast(texts, add_special_tokens=False)
    return [np.array([BOS_ID, *encoding.ids, EOS_ID], kind) for encoding in encodings]


def find_break_offsets(facet: ProgramLexer, text: str) -> list[int] | None:
    """Find the line breaks that end a logical line; None if the lexer refuses the text.

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
    """Find the first subword of each logical line; the first is 0, the last line ends with the text.

    Args:
        breaks: From `find_break_offsets`.
        text: The text.
        starts: First character of each subword, rising.
    """
    offsets: list[int] = []
    for offset in breaks:
        while offset < len(text) and text[offset].isspace():
            offset += 1
        offsets.append(offset)
    line_starts = np.unique(np.concatenate([[0], np.searchsorted(starts, offsets)]).astype(np.int64))
    return line_starts[line_starts < max(len(starts), 1)]


def line_edges(vocabulary: Tokenizer, text: str, breaks: list[int], first: int) -> Int[np.ndarray, " edge"]:
    """Return the edges of a document's lines in a stream.

    Args:
        vocabulary: What the subwords are.
        text: The document.
        breaks: From `find_break_offsets`.
        first: Place of the document's BOS in the stream.

    Returns:
        First subword of every line, closed by the place of the document's EOS.
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
    offset = 0
    with (home / "tokens.bin").open("wb") as stream:
        for start in range(0, len(documents), _BATCH):
            batch = documents[start : start + _BATCH]
            token_arrays = encode_document(vocabulary, [document.file.text for document in batch])
            for document, tokens in zip(batch, token_arrays, strict=True):
                stream.write(tokens.tobytes())
                if breaks is not None:
                    document_breaks = breaks[document.item_ids[0]]
                    edges.append(line_edges(vocabulary, document.file.text, document_breaks, offset))
                rows.append(_document_row(document, offset, len(tokens)))
                offset += len(tokens)
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
