"""Building a corpus: filters, near-duplicates, splits by cluster, and a manifest to build it again from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sonde.base.errors import InputError, UsageError
from sonde.base.files import write_atomic
from sonde.corpora._building import Building
from sonde.corpora._corpus import SourceFile
from sonde.corpora._gather import ReadCorpora
from sonde.corpora._manifest import MANIFEST, Manifest, ManifestRow, manifest_text, read_manifest
from sonde.corpora._near import MINHASH
from sonde.corpora._splits import SPLITS, split
from sonde.corpora._spool import Candidate, LineFile, Spool, sha256_of
from sonde.corpora._survive import survivors
from sonde.corpora._workplace import Workplace, check_free, workplace
from sonde.languages import version_of
from sonde.version import __version__

_RULES = 1
"""Raised when the same corpora would give another corpus: a filter, the rule of near-duplicates, an order."""

SPOOL = "files"
"""Name of the file in which all that may stay is kept while a corpus is built."""


def build_corpus(
    wanted: Building,
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
        return _there(wanted, output, report)
    with workplace(output) as place:
        gathered = ReadCorpora(wanted)
        spooled = place.folder / SPOOL
        with LineFile(spooled) as lines:
            for name in wanted.held_out:
                report(f"held out: {len(gathered.hold_out(name, lines).hashes):,} files of {name}")
            for name in wanted.corpora:
                report(f"read: {len(gathered.take(name, lines).hashes):,} files of {name}")
        kept = survivors(gathered, spooled, workers=workers, executor=executor, report=report)
        if not kept:
            raise InputError(_nothing(gathered))
        sides = split(kept, wanted.fractions, wanted.seed)
        finish(place, write_splits(place, kept, sides, _head(gathered, kept)))
    return read_manifest(output)


def write_splits(
    place: Workplace, kept: Sequence[Candidate], sides: Mapping[str, str], head: Mapping[str, Any]
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
    with Spool(place.folder / SPOOL) as spool:
        for name in SPLITS:
            mine = sorted((one for one in kept if sides[one.item_id] == name), key=lambda one: one.item_id)
            with LineFile(place.folder / f"{name}.jsonl") as lines:
                for one in mine:
                    lines.add(spool.line(one.place))
                    rows.append(_row(one, name, spool.file(one.place)))
            told[name] = {"files": len(mine), "bytes": lines.size, "sha256": sha256_of(lines.path)}
    return manifest_text({**head, "splits": told}, rows)


def finish(place: Workplace, manifest: str) -> None:
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
    rules = {"build": str(_RULES), **{name: version_of(name) for name in languages}}
    if wanted.method == MINHASH:
        rules["datasketch"] = version("datasketch")
    stayed = Counter(one.corpus for one in kept)
    return {
        "sonde": __version__,
        "asked": wanted.plain(),
        "rules": rules,
        "corpora": [{**one.told(), "kept": stayed[number]} for number, one in enumerate(gathered.read)],
        "held_out": [one.told() for one in gathered.held],
    }


def _there(wanted: Building, output: Path, report: Callable[[str], None]) -> Manifest:
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
    if not file.is_file() or sha256_of(file) != manifest.splits()[name]["sha256"]:
        wrong = "not as it was built" if file.exists() else "missing"
        raise InputError(
            f"corpus at {str(folder)!r}: {file.name} is {wrong}; "
            "take an undamaged copy, or remove the folder and build it again"
        )
    return file


def _nothing(gathered: ReadCorpora) -> str:
    wanted = gathered.wanted
    left_out = sum((one.intake.counts for one in gathered.read), Counter[str]())
    reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.most_common() if count)
    files = sum(len(one.hashes) for one in gathered.read)
    return (
        f"corpus {' '.join(wanted.corpora)!r}: nothing is left of {files} files of "
        f"{', '.join(wanted.languages) or 'any language'}; left out: {reasons or 'nothing'}; "
        "loosen the filters or name another corpus"
    )
