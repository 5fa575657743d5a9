"""Which files stay: those that parse and of near-duplicates one each, the first by hash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from sonde.base.fingerprint import unit_hash
from sonde.corpora._examine import Examined, examine_all, tokens_of
from sonde.corpora._gather import ReadCorpora
from sonde.corpora._near import EXACT, DuplicateFinder, ExactFinder, MinHashFinder
from sonde.corpora._spool import Candidate, Spool

_KEPT_TEXTS = 1_000
"""Tokens of files that MinHash compares in full, which are read from disk: a group is met in turn."""


def survivors(
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
    examined = examine_all(
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
    with Spool(spooled) as spool:
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
    examined: Examined,
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


def _finder(method: str, examined: Examined, spool: Spool, everything: list[Candidate]) -> DuplicateFinder:
    if method == EXACT:
        return ExactFinder(examined.bags)

    @lru_cache(maxsize=_KEPT_TEXTS)
    def tokens(number: int) -> Mapping[str, int]:
        return tokens_of(spool.file(everything[number].place))

    return MinHashFinder(examined.signatures, tokens)
