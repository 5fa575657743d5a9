"""What costs time to know of a file: whether it parses, and its tokens. A piece at a time, in any process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from sonde.corpora._bags import Bags
from sonde.corpora._corpus import SourceFile
from sonde.corpora._duplicates import duplicate_tokens
from sonde.corpora._near import EXACT, Signature, Signer
from sonde.corpora._row import from_line
from sonde.corpora._spool import LinePlace, Spool
from sonde.executors import EXECUTORS
from sonde.languages import LANGUAGES, facet_of, has_facet
from sonde.languages._edits import Edits

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
class Examined:
    """What was found, by number.

    Attributes:
        parses: Whether a file parses; true where that was not asked.
        bags: Their tokens, for the exact method.
        signatures: Their signatures, for MinHash.
    """

    parses: list[bool] = field(default_factory=list[bool])
    bags: Bags = field(default_factory=Bags)
    signatures: list[Signature | None] = field(default_factory=list["Signature | None"])

    def extend(self, other: Examined) -> None:
        """Append what was found of the files behind these."""
        self.parses += other.parses
        self.bags.extend(other.bags)
        self.signatures += other.signatures


def tokens_of(file: SourceFile) -> Counter[str]:
    """The identifiers and literals of a file with their counts; keywords of its language are neither."""
    return duplicate_tokens(file.text, keywords(file.language))


@cache
def keywords(language: str) -> frozenset[str]:
    """The keywords of a language; those that are literals, such as ``None``, excepted."""
    if not has_facet(language, "edits"):
        return frozenset()
    categories = facet_of(language, "edits", Edits).keywords
    return frozenset(word for name, words in categories.items() if name != "constant" for word in words)


def parses(file: SourceFile) -> bool:
    """Whether a file parses; with the grammar's own tree where the language offers it, which is faster."""
    if has_facet(file.language, "edits"):
        return facet_of(file.language, "edits", Edits).parses(file.text)
    return not LANGUAGES.load(file.language).parse(file.text).has_error


def examine(piece: FileBatch) -> Examined:
    """Examine a piece; see `examine_all`."""
    found = Examined()
    signer = None if piece.method == EXACT else Signer()
    for line, asked in zip(piece.lines, piece.parsed, strict=True):
        file = from_line(line)
        found.parses.append(not asked or parses(file))
        tokens = tokens_of(file) if found.parses[-1] else {}
        if signer is None:
            found.bags.add(tokens)
        else:
            found.signatures.append(signer.sign(tokens))
    return found


def examine_all(
    spool: Path,
    places: Sequence[LinePlace],
    parsed: Sequence[bool],
    method: str,
    *,
    workers: int,
    executor: str = "local",
) -> Examined:
    """Examine all files, the same for any number of processes.

    Args:
        spool: Where their lines are.
        places: Their lines.
        parsed: For each, whether it has to parse.
        method: How near-duplicates will be looked for.
        workers: Processes at a time.
        executor: Public name of the executor.
    """
    waiting: dict[int, Examined] = {}
    found = Examined()
    with Spool(spool) as lines:
        pieces = _pieces(lines, places, parsed, method)
        for piece, part in EXECUTORS.load(executor).map(examine, pieces, workers=workers):
            waiting[piece.begin] = part
            while len(found.parses) in waiting:
                found.extend(waiting.pop(len(found.parses)))
    return found


def _pieces(
    spool: Spool, places: Sequence[LinePlace], parsed: Sequence[bool], method: str
) -> Iterator[FileBatch]:
    for begin in range(0, len(places), PIECE):
        end = begin + PIECE
        lines = tuple(spool.line(place) for place in places[begin:end])
        yield FileBatch(begin, lines, tuple(parsed[begin:end]), method)
