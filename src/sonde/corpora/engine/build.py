"""Building a corpus: filters, near-duplicates, splits by cluster, and a manifest to rebuild it from.

Options are checked before anything is read. The corpora are read once: each file that may stay becomes a
line, which is held compressed, and the others are counted. The costly checks of a file (whether it parses,
its tokens) are made in any process. The files that stay are those that parse, and of near-duplicates the
first by hash. They are written beside the output, which exists as a whole or not at all.
A rebuild from the manifest gives the same bytes, or names each file that has changed.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.files import write_atomic, write_folder
from sonde.base.fingerprint import fingerprint, unit_hash
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.dedup import (
    EXACT,
    METHODS,
    MINHASH,
    MinHashIndex,
    NearDuplicateIndex,
    duplicate_tokens,
    keywords,
    library,
    sign,
)
from sonde.corpora.engine.licences import AllowList
from sonde.corpora.engine.lock import describe_differences
from sonde.corpora.engine.manifest import (
    MANIFEST,
    SPLITS,
    Manifest,
    ManifestRow,
    check_free,
    compute_sha256,
    from_line,
    manifest_text,
    read_manifest,
    to_line,
)
from sonde.corpora.engine.parallel import ItemChunk, ParallelMap
from sonde.corpora.engine.read import read_files
from sonde.corpora.engine.select import check_fractions, content_hash, split
from sonde.corpora.engine.source_files import find_generated_sign
from sonde.languages import LANGUAGES, get_facet, get_language_version, has_facet
from sonde.languages.engine.edits import Edits
from sonde.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """The options of a corpus to build.

    Attributes:
        corpora: Corpora that files are read from, as named on the command line.
        held_out: Corpora whose files, and near-duplicates of them, are left out.
        languages: Public names; empty means all that the corpora hold.
        licences: Licences that are kept, see `AllowList`; empty keeps all.
        parses: Leave out files that do not parse.
        written: Leave out generated files, see `sonde.corpora.engine.source_files`.
        min_chars: Shorter files are left out.
        max_chars: Longer files are left out.
        limit: At most this many files per language; a larger limit contains a smaller one.
        method: ``"exact"`` or ``"minhash"``: how near-duplicates are found.
        fractions: Shares of train, valid and test.
        seed: Other survivors among near-duplicates, another sample, other splits.
    """

    corpora: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    parses: bool = True
    written: bool = True
    min_chars: int = 1
    max_chars: int = 1_000_000
    limit: int | None = None
    method: str = EXACT
    fractions: tuple[float, float, float] = (0.6, 0.2, 0.2)
    seed: int = 0

    def check(self) -> None:
        """Raise an error if the options are invalid.

        Raises:
            UsageError: No corpus, an unknown method, language or licence (the nearest is named), invalid
                fractions, or an empty range of lengths.
            InputError: The method's library is not installed.
        """
        if not self.corpora:
            raise UsageError("nothing to build a corpus from; name one with -c, see `sonde list corpora`")
        if self.method not in METHODS:
            raise UnknownNameError("method", self.method, METHODS)
        if self.method == MINHASH:
            library()
        for name in self.languages:
            LANGUAGES.load(name)
        if self.min_chars > self.max_chars:
            raise UsageError(
                f"no file is at least {self.min_chars} and at most {self.max_chars} characters long; "
                "give --min-chars and --max-chars the other way round"
            )
        check_fractions(self.fractions)
        AllowList(self.licences)

    def plain(self) -> dict[str, Any]:
        """Return the options as JSON values."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def path_prefixes(corpora: Sequence[str]) -> list[str]:
    """Return the prefix of paths of each corpus: empty for a single corpus, else its numbered scheme.

    >>> path_prefixes(["stdlib", "local:a", "local:b"])
    ['stdlib/', 'local-1/', 'local-2/']
    """
    schemes = [name.partition(":")[0] for name in corpora]
    if len(schemes) == 1:
        return [""]
    total, counts = Counter(schemes), Counter[str]()
    prefixes: list[str] = []
    for scheme in schemes:
        counts[scheme] += 1
        prefixes.append(f"{scheme}-{counts[scheme]}/" if total[scheme] > 1 else f"{scheme}/")
    return prefixes


@dataclass(slots=True)
class ReadCorpus:
    """A corpus with the content hashes of its files.

    Attributes:
        name: As named on the command line.
        hashes: Path to content hash, of every file.
        intake: Counts of the files left out, by reason.
    """

    name: str
    hashes: dict[str, str] = field(default_factory=dict[str, str])
    intake: SkipCounter = field(default_factory=SkipCounter)

    def read(self, languages: tuple[str, ...]) -> Iterator[tuple[SourceFile, str]]:
        """Yield the files, each with the hash of its content.

        Raises:
            SondeError: It cannot be read, see `read_files`.
        """
        for file in read_files(self.name, languages, self.intake):
            self.hashes[file.path] = content = content_hash(file)
            yield file, content

    def to_manifest_entry(self) -> dict[str, Any]:
        """Return the corpus's entry in the manifest."""
        counts = {reason: count for reason, count in self.intake.counts.items() if count}
        return {
            "name": self.name,
            "files": len(self.hashes),
            "hash": fingerprint(sorted(self.hashes.items())),
            "left_out": dict(sorted(counts.items())),
            "examples": {reason: self.intake.examples.get(reason, []) for reason in sorted(counts)},
        }


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A file that passed the filters, with its line in the built corpus.

    Attributes:
        row: Its row of the manifest, still without a split.
        packed_line: Its line in the built corpus, compressed.
    """

    row: ManifestRow
    packed_line: bytes

    @classmethod
    def from_file(cls, file: SourceFile, row: ManifestRow) -> Candidate:
        """Pack a file under its path in the built corpus."""
        return cls(row, zlib.compress(to_line(dataclasses.replace(file, path=row.path, split="")), 1))

    @property
    def line(self) -> bytes:
        """Unpack the line."""
        return zlib.decompress(self.packed_line)

    def read_tokens(self) -> Counter[str]:
        """Count the tokens of the file, see `build_token_bag`."""
        return build_token_bag(from_line(self.line))


@dataclass(slots=True)
class ReadCorpora:
    """The corpora of a build, as far as they have been read.

    Attributes:
        options: The options of the build.
        held_out_corpora: The held-out corpora.
        read: The corpora.
        held_out: Each file of the held-out corpora with a content that is new, and the name of its corpus.
        candidates: One file per content that passed the filters, in the corpora's order; ``row.corpus`` is
            the index in ``read``.
    """

    options: BuildOptions
    held_out_corpora: list[ReadCorpus] = field(default_factory=list[ReadCorpus])
    read: list[ReadCorpus] = field(default_factory=list[ReadCorpus])
    held_out: dict[Candidate, str] = field(default_factory=dict[Candidate, str])
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    _holders: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str], init=False)
    """The name of the first held-out corpus, or an empty text, by language and content that was seen."""

    def read_held_out_corpus(self, name: str) -> ReadCorpus:
        """Read a held-out corpus.

        Raises:
            SondeError: It cannot be read, see `read_files`, or holds nothing.
        """
        corpus = ReadCorpus(name, intake=SkipCounter(keep_all=True))
        for file, content in corpus.read(self.options.languages):
            if (file.language, content) not in self._holders:
                self._holders[file.language, content] = name
                self.held_out[_build_candidate(0, "", file, content)] = name
        if not corpus.hashes:
            raise InputError(
                f"held-out corpus {name!r} has no file of "
                f"{', '.join(self.options.languages) or 'any language'}; name another, or build "
                "without it"
            )
        self.held_out_corpora.append(corpus)
        return corpus

    def read_corpus(self, name: str) -> ReadCorpus:
        """Read a corpus and apply the filters that need only one file or its content hash.

        Raises:
            SondeError: It cannot be read, see `read_files`.
        """
        corpus = ReadCorpus(name, intake=SkipCounter(keep_all=not self.options.written))
        number = len(self.read)
        folder = path_prefixes(self.options.corpora)[number]
        allow_list = AllowList(self.options.licences)
        for file, content in corpus.read(self.options.languages):
            if reason := self._refusal(file, content, allow_list):
                corpus.intake.note(reason, file.path)
            else:
                self._holders[file.language, content] = ""
                self.candidates.append(_build_candidate(number, folder, file, content))
        self.read.append(corpus)
        return corpus

    def note(self, candidate: Candidate, reason: str) -> None:
        """Count a candidate that is dropped after all."""
        self.read[candidate.row.corpus].intake.note(reason, candidate.row.source_path)

    def _refusal(self, file: SourceFile, content: str, allow_list: AllowList) -> str:
        options = self.options
        if not allow_list.allows(file.licence):
            return "other licence" if file.licence.strip() else "no licence known"
        if len(file.text) < options.min_chars:
            return "shorter than wanted"
        if len(file.text) > options.max_chars:
            return "longer than wanted"
        if options.written and (sign := find_generated_sign(file.text)):
            return sign
        holder = self._holders.get((file.language, content))
        return f"copy of held-out {holder}" if holder else "" if holder is None else "exact duplicate"


def _build_candidate(number: int, folder: str, file: SourceFile, content: str) -> Candidate:
    row = ManifestRow(
        split="",
        path=folder + file.path,
        corpus=number,
        source_path=file.path,
        language=file.language,
        unit=file.unit,
        cluster=file.cluster,
        repository=file.repository,
        version=file.version,
        licence=file.licence,
        content=content,
    )
    return Candidate.from_file(file, row)


_WORTH_FILES = 100
"""Files below which a process more costs longer to start than it saves."""


def build_token_bag(file: SourceFile) -> Counter[str]:
    """Count the identifiers and literals of a file; keywords of its language are neither."""
    return duplicate_tokens(file.text, keywords(file.language))


def _parses(file: SourceFile) -> bool:
    """Return whether a file parses, by the grammar's own tree if the language has one, which is faster."""
    if has_facet(file.language, "edits"):
        return get_facet(file.language, "edits", Edits).parses(file.text)
    return not LANGUAGES.load(file.language).parse(file.text).has_error


def inspect_files(chunk: ItemChunk[tuple[bool, str], SourceFile]) -> list[Any]:
    """Return the tokens of each file, for MinHash with their signature; None if it has to parse and does not.

    The rule of a chunk is whether files have to parse, and the method.
    """
    has_to_parse, method = chunk.rule
    marks: list[Any] = []
    for file in chunk.items:
        if has_to_parse and not _parses(file):
            marks.append(None)
        else:
            tokens = build_token_bag(file)
            marks.append((tokens, sign(tokens)) if method == MINHASH else tokens)
    return marks


_KEPT_TEXTS = 1_000
"""Tokens of files that MinHash compares in full, which are read again: a group is met in turn."""


def select_survivors(
    read_corpora: ReadCorpora, *, workers: int, executor: str = "local", report: Callable[[str], None]
) -> list[Candidate]:
    """Select the candidates that stay.

    In an order by hash of content and seed, a file stays unless it nearly repeats a held-out file or one that
    stayed before it in its language. So no two files that stay are near-duplicates, and which stays depends
    on neither paths nor the order of files.

    Args:
        read_corpora: The candidates; counts those that do not stay, with the reason.
        workers: Processes that parse and read tokens.
        executor: Public name of the executor that has them.
        report: Receives a line.
    """
    options = read_corpora.options
    parallel = ParallelMap(executor, workers, worth=_WORTH_FILES)

    def inspect(candidates: Iterable[Candidate], *, has_to_parse: bool) -> Iterator[Any]:
        files = (from_line(candidate.line) for candidate in candidates)
        return (mark for _, mark in parallel.map(inspect_files, (has_to_parse, options.method), files))

    indexes: defaultdict[str, MinHashIndex[Candidate] | NearDuplicateIndex[Candidate]] = defaultdict(
        partial(MinHashIndex[Candidate], lru_cache(_KEPT_TEXTS)(Candidate.read_tokens))
        if options.method == MINHASH
        else NearDuplicateIndex[Candidate]
    )
    for candidate, mark in zip(
        read_corpora.held_out, inspect(read_corpora.held_out, has_to_parse=False), strict=True
    ):
        indexes[candidate.row.language].add(candidate, mark)
    survivors: list[Candidate] = []
    counts: Counter[str] = Counter()
    candidates = sorted(
        read_corpora.candidates,
        key=lambda file: (file.row.language, unit_hash(options.seed, file.row.content)),
    )
    for candidate, mark in zip(candidates, inspect(candidates, has_to_parse=options.parses), strict=True):
        language = candidate.row.language
        if mark is None:
            read_corpora.note(candidate, "does not parse")
        elif options.limit is not None and counts[language] >= options.limit:
            read_corpora.note(candidate, "beyond the limit")
        elif (duplicate := indexes[language].find(mark)) is None:
            indexes[language].add(candidate, mark)
            survivors.append(candidate)
            counts[language] += 1
        else:
            holder = read_corpora.held_out.get(duplicate)
            read_corpora.note(candidate, f"near duplicate{f' of held-out {holder}' if holder else ''}")
    report(f"near-duplicates: {len(survivors):,} of {len(candidates):,} files stay")
    return survivors


_RULES = 1
"""Raised when the same corpora would give another corpus: a filter, the rule of near-duplicates, an order."""


def build_corpus(
    options: BuildOptions,
    output: Path,
    *,
    workers: int = 1,
    executor: str = "local",
    report: Callable[[str], None],
) -> Manifest:
    """Build a corpus into a folder of its own; a folder that holds it already is left as it is.

    Everything falls by hash of the files' content: the number of processes and the machine do not matter, and
    the same corpora give the same bytes.

    Args:
        options: The options of the build.
        output: The folder; at any time it holds nothing or the complete corpus.
        workers: Processes that parse and read tokens.
        executor: Public name of the executor that has them; a cluster is reached before.
        report: Receives one line per stage.

    Raises:
        UsageError: An option that makes no sense, or a folder that holds something else.
        InputError: A corpus cannot be read, or nothing of it is left.
        StoreError: The folder cannot be written.
    """
    options.check()
    if check_free(output):
        manifest = _check_existing(options, output)
        report(f"{output} exists already; remove it to build it again from the corpora")
        return manifest
    read_corpora = ReadCorpora(options)
    for name in options.held_out:
        report(f"held out: {len(read_corpora.read_held_out_corpus(name).hashes):,} files of {name}")
    for name in options.corpora:
        report(f"read: {len(read_corpora.read_corpus(name).hashes):,} files of {name}")
    survivors = select_survivors(read_corpora, workers=workers, executor=executor, report=report)
    if not survivors:
        raise InputError(_empty_message(read_corpora))
    sides = split((candidate.row for candidate in survivors), options.fractions, options.seed)
    head = _head(read_corpora, survivors)
    texts: list[str] = []
    write_folder(output, lambda folder: texts.append(write_splits(folder, survivors, sides, head)))
    manifest = _check_existing(options, output)
    _check_written(output, *texts)
    return manifest


def write_splits(
    folder: Path, candidates: Sequence[Candidate], sides: Mapping[str, str], head: Mapping[str, Any]
) -> str:
    """Write the splits, each by path, and the manifest; return its text.

    Args:
        folder: An empty folder.
        candidates: The files.
        sides: Path in the corpus to split.
        head: The manifest's first line, without what is counted here.

    Raises:
        OSError: The folder cannot be written.
    """
    rows: list[ManifestRow] = []
    splits: dict[str, dict[str, Any]] = {}
    for name in SPLITS:
        members = sorted(
            (candidate for candidate in candidates if sides[candidate.row.path] == name),
            key=lambda candidate: candidate.row.path,
        )
        path = folder / f"{name}.jsonl"
        with path.open("wb") as handle:
            handle.writelines(candidate.line for candidate in members)
            handle.flush()
            os.fsync(handle.fileno())
        rows += (dataclasses.replace(candidate.row, split=name) for candidate in members)
        splits[name] = {"files": len(members), "bytes": path.stat().st_size, "sha256": compute_sha256(path)}
    text = manifest_text({**head, "splits": splits}, rows)
    write_atomic(folder / MANIFEST, text)
    return text


def _check_written(output: Path, text: str) -> None:
    """Check that a folder holds the corpus of a manifest, since another build may have been faster.

    Raises:
        UsageError: It holds another one.
    """
    if (output / MANIFEST).read_bytes() != text.encode("utf-8", "backslashreplace"):
        raise UsageError(f"output {str(output)!r} now has another corpus; name another folder with -o")


def _head(read_corpora: ReadCorpora, survivors: Sequence[Candidate]) -> dict[str, Any]:
    options = read_corpora.options
    languages = sorted({candidate.row.language for candidate in survivors})
    rules = {"build": str(_RULES), **{name: get_language_version(name) for name in languages}}
    if options.method == MINHASH:
        rules["datasketch"] = version("datasketch")
    survivor_counts = Counter(candidate.row.corpus for candidate in survivors)
    return {
        "sonde": __version__,
        "asked": options.plain(),
        "rules": rules,
        "corpora": [
            {**corpus.to_manifest_entry(), "kept": survivor_counts[number]}
            for number, corpus in enumerate(read_corpora.read)
        ],
        "held_out": [corpus.to_manifest_entry() for corpus in read_corpora.held_out_corpora],
    }


def _check_existing(options: BuildOptions, output: Path) -> Manifest:
    """Read the manifest of a corpus that exists, and check its files.

    Raises:
        UsageError: It was built with other options.
        InputError: It is damaged.
    """
    manifest = read_manifest(output)
    if manifest.head["asked"] != options.plain():
        raise UsageError(
            f"output {str(output)!r} has a corpus built with other options; name another folder with -o"
        )
    for name in SPLITS:
        check_split(output, name, manifest)
    return manifest


def check_split(folder: Path, name: str, manifest: Manifest) -> Path:
    """Return the file of a split after checking its hash.

    Raises:
        InputError: It is missing or has changed.
    """
    file = folder / f"{name}.jsonl"
    if not file.is_file() or compute_sha256(file) != manifest.splits()[name]["sha256"]:
        wrong = "not as it was built" if file.exists() else "missing"
        raise InputError(
            f"corpus at {str(folder)!r}: {file.name} is {wrong}; "
            "take an undamaged copy, or remove the folder and build it again"
        )
    return file


def _empty_message(read_corpora: ReadCorpora) -> str:
    options = read_corpora.options
    left_out = sum((corpus.intake.counts for corpus in read_corpora.read), Counter[str]())
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common() if count)
    files = sum(len(corpus.hashes) for corpus in read_corpora.read)
    return (
        f"corpus {' '.join(options.corpora)!r}: nothing is left of {files} files of "
        f"{', '.join(options.languages) or 'any language'}; left out: {reasons or 'nothing'}; "
        "loosen the filters or name another corpus"
    )


def rebuild_corpus(
    source: Path, output: Path, *, corpora: Sequence[str] = (), report: Callable[[str], None]
) -> Manifest:
    """Build a corpus again from its manifest alone.

    Its files are looked up by path in the corpora that it names and compared by hash; nothing is filtered or
    chosen anew, so held-out corpora are not needed and further files do not matter.

    Args:
        source: The manifest, or the folder of a built corpus.
        output: The folder of the new one.
        corpora: New locations of the corpora, in the manifest's order; empty if they have not moved.
        report: Receives one line per corpus.

    Raises:
        UsageError: Not as many corpora as the manifest has, or a folder that is not free.
        InputError: Files are missing or have changed: the first few are named and all counted.
        StoreError: The folder cannot be written.
    """
    manifest = read_manifest(source)
    names = [corpus["name"] for corpus in manifest.head["corpora"]]
    if corpora and len(corpora) != len(names):
        raise UsageError(
            f"the manifest has {len(names)} corpora ({', '.join(names)}), not {len(corpora)}; "
            "name each once with -c, in this order"
        )
    if check_free(output):
        raise UsageError(f"output {str(output)!r} already has a corpus; name another folder with -o")
    languages = tuple(manifest.head["asked"]["languages"])
    candidates: list[Candidate] = []
    missing_paths: list[str] = []
    changed_paths: list[str] = []
    for number, name in enumerate(corpora or names):
        rows = {row.source_path: row for row in manifest.rows if row.corpus == number}
        files = read_files(name, languages, SkipCounter(keep_all=True))
        candidates += _read_listed_files(rows, files, missing_paths, changed_paths)
        report(f"read: {len(rows):,} files of {name}")
    if problems := describe_differences(
        {("file", "missing"): missing_paths, ("file", "changed"): changed_paths}
    ):
        raise InputError(f"corpus of manifest {str(source)!r}: {problems}; nothing was written")
    sides = {row.path: row.split for row in manifest.rows}

    text = manifest_text(manifest.head, manifest.rows)

    def write(folder: Path) -> None:
        if write_splits(folder, candidates, sides, manifest.head) != text:
            raise InputError(
                f"corpus of manifest {str(source)!r}: no text has changed, but the facts about "
                f"the files differ (built by sonde {manifest.head['sonde']}, this is "
                f"{__version__}); build it again with that version"
            )

    write_folder(output, write)
    _check_written(output, text)
    return read_manifest(output)


def _read_listed_files(
    rows: Mapping[str, ManifestRow],
    files: Iterable[SourceFile],
    missing_paths: list[str],
    changed_paths: list[str],
) -> list[Candidate]:
    """Return the listed files with the manifest's metadata; note missing and changed paths."""
    candidates: list[Candidate] = []
    remaining = dict(rows)
    for file in files:
        row = remaining.pop(file.path, None)
        if row is None:
            continue
        content = content_hash(file)
        if content != row.content:
            is_same_version = file.version == row.version
            versions = "" if is_same_version else f": version {row.version} then, {file.version} now"
            changed_paths.append(file.path + versions)
            continue
        listed_file = dataclasses.replace(
            file,
            cluster=row.cluster,
            repository=row.repository,
            version=row.version,
            licence=row.licence,
        )
        candidates.append(Candidate.from_file(listed_file, row))
    missing_paths += sorted(remaining)
    return candidates
