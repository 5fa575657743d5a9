"""Building a corpus: near-duplicates out of 20,000 files, exactly and by MinHash, and what comes before."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
from sonde.corpora import BuildOptions, SkipCounter, read_files
from sonde.corpora.engine.build import Candidate, ReadCorpora, inspect_files, select_survivors
from sonde.corpora.engine.dedup import EXACT, METHODS
from sonde.corpora.engine.manifest import from_line
from sonde.corpora.engine.parallel import ParallelMap

_FILES = 20_000
_WORKERS = 2
_CORPORA = ("stdlib", "environment", "jdk")


def run() -> Iterable[dict[str, str | float | None]]:
    """Measure on files of the library, installed packages and a JDK; rows of name, value, unit, target."""
    corpora = tuple(name for name in _CORPORA if _is_there(name))
    gathered = ReadCorpora(BuildOptions(corpora=corpora, written=False))
    begun = time.perf_counter()
    files = sum(len(gathered.read_corpus(name).hashes) for name in corpora)
    yield _row("read, hashed and compressed", files / (time.perf_counter() - begun), "files/s")
    chosen = sorted(gathered.candidates, key=lambda one: unit_hash("bench", one.row.content))[:_FILES]
    yield _row("files", len(chosen), "files")
    yield _row("of", sum(len(one.line) for one in chosen) / 1e6, "MB")
    kept: dict[str, set[str]] = {}
    for method in METHODS:
        wanted = BuildOptions(corpora=corpora, method=method, parses=False)
        begun, used = time.perf_counter(), _processor()
        found = select_survivors(_again(wanted, gathered, chosen), workers=_WORKERS, report=_silent)
        taken, used = time.perf_counter() - begun, _processor() - used
        kept[method] = {one.row.content for one in found}
        name = f"near-duplicates out, {method}, {_WORKERS} processes"
        yield {**_row(name, taken, "s"), "target": "< 120" if method == EXACT else None}
        yield _row(f"near-duplicates out, {method}, CPU time", used, "s")
    yield _row("files that nearly repeat another", len(chosen) - len(kept[EXACT]), "files")
    differ = len(kept[METHODS[0]] ^ kept[METHODS[1]])
    yield _row("files about which the two differ", differ, "files")
    begun = time.perf_counter()
    spread = ParallelMap(workers=_WORKERS, worth=1)
    texts = (from_line(one.line) for one in chosen)
    for _ in spread.map(inspect_files, (True, EXACT), texts):
        pass
    yield _row(f"parsed and read for tokens, {_WORKERS} processes", time.perf_counter() - begun, "s")


def _again(wanted: BuildOptions, gathered: ReadCorpora, chosen: list[Candidate]) -> ReadCorpora:
    """Return the same candidates for another method."""
    return ReadCorpora(wanted, read=gathered.read, candidates=chosen)


def _is_there(corpus: str) -> bool:
    try:
        return next(read_files(corpus, (), SkipCounter()), None) is not None
    except InputError:
        return False


def _processor() -> float:
    """CPU seconds of this process and of those it waited for: what a shared machine gave."""
    mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


def _silent(line: str) -> None:
    """Print nothing: rows come later."""


def _row(name: str, value: float, unit: str) -> dict[str, str | float | None]:
    return {"name": name, "value": value, "unit": unit, "target": None}
