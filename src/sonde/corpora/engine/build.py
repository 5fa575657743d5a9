"""Building a corpus: filters, near-duplicates, splits by cluster, and a manifest to rebuild it from.

Options are checked before anything is read. The corpora are read once: each file that may stay becomes a line
on disk, and the others are counted. The costly checks of a file (whether it parses, its tokens) are made in
batches, in any process. The files that stay are those that parse, and of near-duplicates the first by hash.
A rebuild from the manifest gives the same bytes, or names each file that has changed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import fingerprint, unit_hash
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.dedup import (
    EXACT,
    METHODS,
    MINHASH,
    Bags,
    DuplicateFinder,
    ExactFinder,
    MinHashFinder,
    Signature,
    Signer,
    duplicate_tokens,
    keywords,
    library,
)
from sonde.corpora.engine.licences import AllowList
from sonde.corpora.engine.lock import describe_differences
from sonde.corpora.engine.read import read_files
from sonde.corpora.engine.select import check_fractions, content_hash, split
from sonde.corpora.engine.source_files import find_generated_sign
from sonde.corpora.engine.staging import (
    MANIFEST,
    SPLITS,
    BuildFolder,
    Candidate,
    LineFile,
    LineLocation,
    LineReader,
    Manifest,
    ManifestRow,
    check_free,
    compute_sha256,
    from_line,
    manifest_text,
    open_build_folder,
    read_manifest,
)
from sonde.executors import EXECUTORS
from sonde.languages import LANGUAGES, get_facet, get_language_version, has_facet
from sonde.languages.engine.edits import Edits
from sonde.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """What to build.

    Attributes:
        corpora: Where files come from, as named on the command line.
        held_out: Corpora of which no file, and no near-duplicate of one, may stay.
        languages: Public names; empty means all that the corpora hold.
        licences: What may stay, see `AllowList`; empty keeps all.
        parses: Leave out what does not parse.
        written: Leave out what was generated, see `sonde.corpora.engine.source_files`.
        min_chars: Shorter files are left out.
        max_chars: Longer files are left out.
        limit: At most this many files a language; a larger limit contains a smaller one.
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
        """Refuse what cannot work.

        Raises:
            UsageError: No corpus, an unknown method, language or licence (the nearest is named), shares that
                are none, or a range of lengths that holds none.
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
        """The options as JSON has them."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def path_prefixes(corpora: Sequence[str]) -> list[str]:
    """What a path begins with, for each corpus: nothing where there is one, else the scheme, numbered.

    >>> path_prefixes(["stdlib", "local:a", "local:b"])
    ['stdlib/', 'local-1/', 'local-2/']
    """
    schemes = [name.partition(":")[0] for name in corpora]
    if len(schemes) == 1:
        return [""]
    total, seen = Counter(schemes), Counter[str]()
    found: list[str] = []
    for scheme in schemes:
        seen[scheme] += 1
        found.append(f"{scheme}-{seen[scheme]}/" if total[scheme] > 1 else f"{scheme}/")
    return found


@dataclass(slots=True)
class ReadCorpus:
    """One corpus as it was read.

    Attributes:
        name: As named on the command line.
        hashes: Path to content hash, of every file.
        intake: What was left out, by reason.
    """

    name: str
    hashes: dict[str, str] = field(default_factory=dict[str, str])
    intake: SkipCounter = field(default_factory=SkipCounter)

    def to_manifest_entry(self) -> dict[str, Any]:
        """What the manifest says of it."""
        counts = {reason: count for reason, count in self.intake.counts.items() if count}
        return {
            "name": self.name,
            "files": len(self.hashes),
            "hash": fingerprint(sorted(self.hashes.items())),
            "left_out": dict(sorted(counts.items())),
            "examples": {reason: self.intake.examples.get(reason, []) for reason in sorted(counts)},
        }


@dataclass(slots=True)
class ReadCorpora:
    """The corpora of a building, as far as they have been read.

    Attributes:
        wanted: What is built.
        held: The held-out corpora.
        read: The corpora.
        held_out: One of each content of the held-out corpora; ``corpus`` numbers ``held``.
        candidates: One of each content that may stay, in the corpora's order; ``corpus`` numbers ``read``.
    """

    wanted: BuildOptions
    held: list[ReadCorpus] = field(default_factory=list[ReadCorpus])
    read: list[ReadCorpus] = field(default_factory=list[ReadCorpus])
    held_out: list[Candidate] = field(default_factory=list[Candidate])
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    _holder: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str], init=False)
    _known: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]], init=False)

    def read_held_out_corpus(self, name: str, lines: LineFile) -> ReadCorpus:
        """Read a held-out corpus.

        Raises:
            SondeError: It cannot be read, see `read_files`, or holds nothing.
        """
        one = ReadCorpus(name, intake=SkipCounter(keep_all=True))
        for file in read_files(name, self.wanted.languages, one.intake):
            one.hashes[file.path] = content = content_hash(file)
            self._holder.setdefault((file.language, content), name)
            if self._is_new(file, content):
                self.held_out.append(_candidate(len(self.held), "", file, content, lines))
        if not one.hashes:
            raise InputError(
                f"held-out corpus {name!r} holds no file of "
                f"{', '.join(self.wanted.languages) or 'any language'}; name another, or build without it"
            )
        self.held.append(one)
        return one

    def take(self, name: str, lines: LineFile) -> ReadCorpus:
        """Read a corpus, whatever can be told of a file alone or by its content already told.

        Raises:
            SondeError: It cannot be read, see `read_files`.
        """
        one = ReadCorpus(name, intake=SkipCounter(keep_all=not self.wanted.written))
        number = len(self.read)
        folder = path_prefixes(self.wanted.corpora)[number]
        allowed = AllowList(self.wanted.licences)
        for file in read_files(name, self.wanted.languages, one.intake):
            one.hashes[file.path] = content = content_hash(file)
            if reason := self._refusal(file, content, allowed):
                one.intake.note(reason, file.path)
            else:
                self.candidates.append(_candidate(number, folder, file, content, lines))
        self.read.append(one)
        return one

    def note(self, one: Candidate, reason: str) -> None:
        """Count a candidate that does not stay after all."""
        self.read[one.corpus].intake.note(reason, one.source_path)

    def _refusal(self, file: SourceFile, content: str, allowed: AllowList) -> str:
        wanted = self.wanted
        if not allowed.allows(file.licence):
            return "other licence" if file.licence.strip() else "no licence known"
        if len(file.text) < wanted.min_chars:
            return "shorter than wanted"
        if len(file.text) > wanted.max_chars:
            return "longer than wanted"
        if wanted.written and (sign := find_generated_sign(file.text)):
            return sign
        if holder := self._holder.get((file.language, content)):
            return f"copy of held-out {holder}"
        return "" if self._is_new(file, content) else "exact duplicate"

    def _is_new(self, file: SourceFile, content: str) -> bool:
        before = len(self._known)
        self._known.add((file.language, content))
        return len(self._known) > before


def _candidate(number: int, folder: str, file: SourceFile, content: str, lines: LineFile) -> Candidate:
    path = folder + file.path
    return Candidate(
        number, file.path, path, file.language, file.cluster, content, lines.add_file(file, path)
    )


PIECE = 100
"""Files of one job."""


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Some files to be examined.

    Attributes:
        begin: Number of the first.
        lines: The files, each as a line: another machine does not see where they are kept here.
        parsed: For each, whether it has to parse.
        method: How near-duplicates are looked for.
    """

    begin: int
    lines: tuple[bytes, ...]
    parsed: tuple[bool, ...]
    method: str


@dataclass(slots=True)
class InspectedFiles:
    """What was found, by number.

    Attributes:
        parses: Whether a file parses; true where that was not asked.
        bags: Their tokens, for the exact method.
        signatures: Their signatures, for MinHash.
    """

    parses: list[bool] = field(default_factory=list[bool])
    bags: Bags = field(default_factory=Bags)
    signatures: list[Signature | None] = field(default_factory=list["Signature | None"])

    def extend(self, other: InspectedFiles) -> None:
        """Append what was found of the files behind these."""
        self.parses += other.parses
        self.bags.extend(other.bags)
        self.signatures += other.signatures


def build_token_bag(file: SourceFile) -> Counter[str]:
    """The identifiers and literals of a file with their counts; keywords of its language are neither."""
    return duplicate_tokens(file.text, keywords(file.language))


def parses(file: SourceFile) -> bool:
    """Whether a file parses; with the grammar's own tree where the language offers it, which is faster."""
    if has_facet(file.language, "edits"):
        return get_facet(file.language, "edits", Edits).parses(file.text)
    return not LANGUAGES.load(file.language).parse(file.text).has_error


def inspect_batch(piece: FileBatch) -> InspectedFiles:
    """Examine a piece; see `inspect_files`."""
    found = InspectedFiles()
    signer = None if piece.method == EXACT else Signer()
    for line, asked in zip(piece.lines, piece.parsed, strict=True):
        file = from_line(line)
        found.parses.append(not asked or parses(file))
        tokens = build_token_bag(file) if found.parses[-1] else {}
        if signer is None:
            found.bags.add(tokens)
        else:
            found.signatures.append(signer.sign(tokens))
    return found


def inspect_files(
    spool: Path,
    places: Sequence[LineLocation],
    parsed: Sequence[bool],
    method: str,
    *,
    workers: int,
    executor: str = "local",
) -> InspectedFiles:
    """Examine all files, the same for any number of processes.

    Args:
        spool: Where their lines are.
        places: Their lines.
        parsed: For each, whether it has to parse.
        method: How near-duplicates will be looked for.
        workers: Processes at a time.
        executor: Public name of the executor.
    """
    waiting: dict[int, InspectedFiles] = {}
    found = InspectedFiles()
    with LineReader(spool) as lines:
        pieces = _pieces(lines, places, parsed, method)
        for piece, part in EXECUTORS.load(executor).map(inspect_batch, pieces, workers=workers):
            waiting[piece.begin] = part
            while len(found.parses) in waiting:
                found.extend(waiting.pop(len(found.parses)))
    return found


def _pieces(
    spool: LineReader, places: Sequence[LineLocation], parsed: Sequence[bool], method: str
) -> Iterator[FileBatch]:
    for begin in range(0, len(places), PIECE):
        end = begin + PIECE
        lines = tuple(spool.line(place) for place in places[begin:end])
        yield FileBatch(begin, lines, tuple(parsed[begin:end]), method)


_KEPT_TEXTS = 1_000
"""Tokens of files that MinHash compares in full, which are read from disk: a group is met in turn."""


def select_survivors(
    gathered: ReadCorpora,
    spooled: Path,
    *,
    workers: int,
    executor: str = "local",
    report: Callable[[str], None],
) -> list[Candidate]:
    """The candidates that stay.

    In an order by hash of content and seed, a file stays unless it nearly repeats a held-out file or one that
    stayed before it in its language. So no two files that stay are near-duplicates, and which stays depends
    on neither paths nor the order of files.

    Args:
        gathered: The candidates; is told which do not stay and why.
        spooled: Where their lines are.
        workers: Processes that parse and read tokens.
        executor: Public name of the executor that has them.
        report: Receives one line a stage.
    """
    everything = [*gathered.held_out, *gathered.candidates]
    first = len(gathered.held_out)
    wanted = gathered.wanted
    examined = inspect_files(
        spooled,
        [one.place for one in everything],
        [wanted.parses and number >= first for number in range(len(everything))],
        wanted.method,
        workers=workers,
        executor=executor,
    )
    report(f"examined: {len(everything):,} files for whether they parse, and for their tokens")
    order = {
        number: unit_hash(wanted.seed, one.content)
        for number, one in enumerate(everything)
        if number >= first
    }
    kept: list[Candidate] = []
    with LineReader(spooled) as spool:
        for language in sorted({one.language for one in everything}):
            mine = [number for number, one in enumerate(everything) if one.language == language]
            finder = _finder(wanted.method, examined, spool, everything)
            for number in mine:
                if number < first:
                    finder.add(number)
            ranked = sorted((number for number in mine if number >= first), key=order.__getitem__)
            kept += _greedy(ranked, finder, gathered, everything, examined)
    report(f"near-duplicates: {len(kept):,} of {len(gathered.candidates):,} files stay")
    return kept


def _greedy(
    ranked: list[int],
    finder: DuplicateFinder,
    gathered: ReadCorpora,
    everything: list[Candidate],
    examined: InspectedFiles,
) -> list[Candidate]:
    """The files of one language that stay, in order."""
    limit = gathered.wanted.limit
    kept: list[Candidate] = []
    for number in ranked:
        one = everything[number]
        if not examined.parses[number]:
            gathered.note(one, "does not parse")
        elif limit is not None and len(kept) >= limit:
            gathered.note(one, "beyond the limit")
        elif (other := finder.find(number)) is not None:
            held = other < len(gathered.held_out)
            of = f" of held-out {gathered.held[everything[other].corpus].name}" if held else ""
            gathered.note(one, f"near duplicate{of}")
        else:
            finder.add(number)
            kept.append(one)
    return kept


def _finder(
    method: str, examined: InspectedFiles, spool: LineReader, everything: list[Candidate]
) -> DuplicateFinder:
    if method == EXACT:
        return ExactFinder(examined.bags)

    @lru_cache(maxsize=_KEPT_TEXTS)
    def tokens(number: int) -> Mapping[str, int]:
        return build_token_bag(spool.file(everything[number].place))

    return MinHashFinder(examined.signatures, tokens)


_RULES = 1
"""Raised when the same corpora would give another corpus: a filter, the rule of near-duplicates, an order."""


SPOOL = "files"
"""Name of the file in which all that may stay is kept while a corpus is built."""


def build_corpus(
    wanted: BuildOptions,
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
        wanted: What to build.
        output: The folder; there is nothing, or the whole corpus, at any time.
        workers: Processes that parse and read tokens.
        executor: Public name of the executor that has them; a cluster is reached before.
        report: Receives one line a stage.

    Raises:
        UsageError: An option that makes no sense, or a folder that holds something else.
        InputError: A corpus cannot be read, or nothing of it is left.
        StoreError: The folder cannot be written.
    """
    wanted.check()
    if check_free(output):
        return _load_existing(wanted, output, report)
    with open_build_folder(output) as place:
        gathered = ReadCorpora(wanted)
        spooled = place.folder / SPOOL
        with LineFile(spooled) as lines:
            for name in wanted.held_out:
                report(
                    f"held out: {len(gathered.read_held_out_corpus(name, lines).hashes):,} files of {name}"
                )
            for name in wanted.corpora:
                report(f"read: {len(gathered.take(name, lines).hashes):,} files of {name}")
        kept = select_survivors(gathered, spooled, workers=workers, executor=executor, report=report)
        if not kept:
            raise InputError(_empty_message(gathered))
        sides = split(kept, wanted.fractions, wanted.seed)
        publish_corpus(place, write_splits(place, kept, sides, _head(gathered, kept)))
    return read_manifest(output)


def write_splits(
    place: BuildFolder, kept: Sequence[Candidate], sides: Mapping[str, str], head: Mapping[str, Any]
) -> str:
    """Write the splits, each by path, and give the text of the manifest.

    Args:
        place: Where it is built; its spool holds the lines.
        kept: The files.
        sides: Path in the corpus to split.
        head: The manifest's first line, without what is counted here.

    Raises:
        StoreError: The folder cannot be written.
    """
    rows: list[ManifestRow] = []
    told: dict[str, dict[str, Any]] = {}
    with LineReader(place.folder / SPOOL) as spool:
        for name in SPLITS:
            mine = sorted((one for one in kept if sides[one.item_id] == name), key=lambda one: one.item_id)
            with LineFile(place.folder / f"{name}.jsonl") as lines:
                for one in mine:
                    lines.add(spool.line(one.place))
                    rows.append(_row(one, name, spool.file(one.place)))
            told[name] = {"files": len(mine), "bytes": lines.size, "sha256": compute_sha256(lines.path)}
    return manifest_text({**head, "splits": told}, rows)


def publish_corpus(place: BuildFolder, manifest: str) -> None:
    """Add the manifest; then the folder is the corpus.

    Raises:
        StoreError: The folder cannot be written.
    """
    (place.folder / SPOOL).unlink()
    write_atomic(place.folder / MANIFEST, manifest)
    place.publish()


def _row(one: Candidate, side: str, file: SourceFile) -> ManifestRow:
    return ManifestRow(
        split=side,
        path=one.item_id,
        corpus=one.corpus,
        source_path=one.source_path,
        language=one.language,
        unit=file.unit,
        cluster=one.cluster,
        repository=file.repository,
        version=file.version,
        licence=file.licence,
        content=one.content,
    )


def _head(gathered: ReadCorpora, kept: Sequence[Candidate]) -> dict[str, Any]:
    wanted = gathered.wanted
    languages = sorted({one.language for one in kept})
    rules = {"build": str(_RULES), **{name: get_language_version(name) for name in languages}}
    if wanted.method == MINHASH:
        rules["datasketch"] = version("datasketch")
    stayed = Counter(one.corpus for one in kept)
    return {
        "sonde": __version__,
        "asked": wanted.plain(),
        "rules": rules,
        "corpora": [
            {**one.to_manifest_entry(), "kept": stayed[number]} for number, one in enumerate(gathered.read)
        ],
        "held_out": [one.to_manifest_entry() for one in gathered.held],
    }


def _load_existing(wanted: BuildOptions, output: Path, report: Callable[[str], None]) -> Manifest:
    """A corpus that is there already.

    Raises:
        UsageError: It was built with other options.
        InputError: It is damaged.
    """
    manifest = read_manifest(output)
    if manifest.head["asked"] != wanted.plain():
        raise UsageError(
            f"output {str(output)!r} holds a corpus built with other options; name another folder with -o"
        )
    for name in SPLITS:
        check_split(output, name, manifest)
    report(f"{output} is there already; remove it to build from what the corpora hold now")
    return manifest


def check_split(folder: Path, name: str, manifest: Manifest) -> Path:
    """The file of a split, if it still is what was built.

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


def _empty_message(gathered: ReadCorpora) -> str:
    wanted = gathered.wanted
    left_out = sum((one.intake.counts for one in gathered.read), Counter[str]())
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common() if count)
    files = sum(len(one.hashes) for one in gathered.read)
    return (
        f"corpus {' '.join(wanted.corpora)!r}: nothing is left of {files} files of "
        f"{', '.join(wanted.languages) or 'any language'}; left out: {reasons or 'nothing'}; "
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
        corpora: Where the corpora are now, in the manifest's order; empty where they are where they were.
        report: Receives one line a corpus.

    Raises:
        UsageError: Not as many corpora as the manifest has, or a folder that is not free.
        InputError: Files are missing or have changed: the first few are named and all counted.
        StoreError: The folder cannot be written.
    """
    manifest = read_manifest(source)
    names = [one["name"] for one in manifest.head["corpora"]]
    if corpora and len(corpora) != len(names):
        raise UsageError(
            f"the manifest has {len(names)} corpora ({', '.join(names)}), not {len(corpora)}; "
            "name each once with -c, in this order"
        )
    if check_free(output):
        raise UsageError(f"output {str(output)!r} holds a corpus already; name another folder with -o")
    languages = tuple(manifest.head["asked"]["languages"])
    kept: list[Candidate] = []
    missing: list[str] = []
    changed: list[str] = []
    with open_build_folder(output) as place:
        with LineFile(place.folder / SPOOL) as lines:
            for number, name in enumerate(corpora or names):
                rows = {row.source_path: row for row in manifest.rows if row.corpus == number}
                kept += _read_listed_files(
                    rows, read_files(name, languages, SkipCounter(keep_all=True)), lines, missing, changed
                )
                report(f"read: {len(rows):,} files of {name}")
        if problems := describe_differences({"files missing": missing, "files changed": changed}):
            raise InputError(f"corpus of manifest {str(source)!r}: {problems}; nothing was written")
        sides = {row.path: row.split for row in manifest.rows}
        text = write_splits(place, kept, sides, manifest.head)
        if text != manifest_text(manifest.head, manifest.rows):
            raise InputError(_different(source, manifest))
        publish_corpus(place, text)
    return read_manifest(output)


def _read_listed_files(
    rows: Mapping[str, ManifestRow],
    files: Iterable[SourceFile],
    lines: LineFile,
    missing: list[str],
    changed: list[str],
) -> list[Candidate]:
    """The files of one corpus, written with what the manifest says of them; others are noted by name."""
    kept: list[Candidate] = []
    left = dict(rows)
    for file in files:
        row = left.pop(file.path, None)
        if row is None:
            continue
        content = content_hash(file)
        if content != row.content:
            same = file.version == row.version
            versions = "" if same else f": version {row.version} then, {file.version} now"
            changed.append(file.path + versions)
            continue
        known = dataclasses.replace(
            file,
            cluster=row.cluster,
            repository=row.repository,
            version=row.version,
            licence=row.licence,
        )
        at = lines.add_file(known, row.path)
        kept.append(Candidate(row.corpus, row.source_path, row.path, row.language, row.cluster, content, at))
    missing += sorted(left)
    return kept


def _different(source: Path, manifest: Manifest) -> str:
    return (
        f"corpus of manifest {str(source)!r}: no text has changed, but what is said of the files comes out "
        f"different (built by sonde {manifest.head['sonde']}, this is {__version__}); "
        "build it again with that version"
    )
