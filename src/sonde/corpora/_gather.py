"""Reading the corpora once: a line on disk for each file that may stay, and counts of the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sonde.base.errors import InputError
from sonde.base.fingerprint import fingerprint
from sonde.corpora._building import Building, folders
from sonde.corpora._corpus import Intake, SourceFile
from sonde.corpora._generated import why_generated
from sonde.corpora._licences import AllowList
from sonde.corpora._open import read_files
from sonde.corpora._select import content_hash
from sonde.corpora._spool import Candidate, LineFile


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
    intake: Intake = field(default_factory=Intake)

    def told(self) -> dict[str, Any]:
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

    wanted: Building
    held: list[ReadCorpus] = field(default_factory=list[ReadCorpus])
    read: list[ReadCorpus] = field(default_factory=list[ReadCorpus])
    held_out: list[Candidate] = field(default_factory=list[Candidate])
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    _holder: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str], init=False)
    _known: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]], init=False)

    def hold_out(self, name: str, lines: LineFile) -> ReadCorpus:
        """Read a held-out corpus.

        Raises:
            SondeError: It cannot be read, see `read_files`, or holds nothing.
        """
        one = ReadCorpus(name, intake=Intake(keep_all=True))
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
        one = ReadCorpus(name, intake=Intake(keep_all=not self.wanted.written))
        number = len(self.read)
        folder = folders(self.wanted.corpora)[number]
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
        if wanted.written and (sign := why_generated(file.text)):
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
