"""Building a corpus again from its manifest: the same bytes, or what is no longer as it was, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sonde.base.errors import InputError, UsageError
from sonde.corpora._build import SPOOL, finish, write_splits
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._lock import differences
from sonde.corpora._manifest import Manifest, ManifestRow, manifest_text, read_manifest
from sonde.corpora._open import read_files
from sonde.corpora._select import content_hash
from sonde.corpora._spool import Candidate, LineFile
from sonde.corpora._workplace import check_free, workplace
from sonde.version import __version__


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
    with workplace(output) as place:
        with LineFile(place.folder / SPOOL) as lines:
            for number, name in enumerate(corpora or names):
                rows = {row.source_path: row for row in manifest.rows if row.corpus == number}
                kept += _found(
                    rows, read_files(name, languages, Intake(keep_all=True)), lines, missing, changed
                )
                report(f"read: {len(rows):,} files of {name}")
        if problems := differences({"files missing": missing, "files changed": changed}):
            raise InputError(f"corpus of manifest {str(source)!r}: {problems}; nothing was written")
        sides = {row.path: row.split for row in manifest.rows}
        text = write_splits(place, kept, sides, manifest.head)
        if text != manifest_text(manifest.head, manifest.rows):
            raise InputError(_different(source, manifest))
        finish(place, text)
    return read_manifest(output)


def _found(
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
