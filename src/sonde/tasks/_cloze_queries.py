"""Queries from names: what is asked of which statement, fixed in characters before any model is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import polars as pl

from sonde.base.errors import UnknownNameError
from sonde.base.fingerprint import fingerprint, unit_hash
from sonde.languages import facet_of
from sonde.languages._imports import Imports, read_frames
from sonde.tasks._cloze_aliases import AliasPool
from sonde.tasks._cloze_candidates import Candidates, place
from sonde.tasks._cloze_columns import QUERY_SCHEMA
from sonde.tasks._cloze_frequent import ALIASED, FrequentAnswers, FrequentPieces
from sonde.tasks._cloze_segments import FIRST, FULL, LAST, REFERENCE, WHOLE, blanks, segments
from sonde.tasks._cloze_statements import (
    ADVERSARIAL,
    ALIAS,
    CALL,
    IMPORT,
    TEMPLATES,
    Statement,
    aliased,
    plain,
)
from sonde.tasks._names import ALL, Name, NameUses

_FRAMED = (FULL, FIRST, LAST, WHOLE)

IMPORTS = "imports"
"""Frame of the queries behind the imports of a file."""

IMPORTS_AT_MOST = 800
"""Characters of imports before a statement: the last that fit, so that the statement stays in any context."""

_NO_CONTROLS: Mapping[str, None] = {"majority": None, "unigram": None}
"""Queries behind words and in frames repeat others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRules:
    """Which queries are made of the names of a corpus.

    Attributes:
        templates: Of `TEMPLATES`.
        reference: The tokenizer that cuts levels into pieces.
        contexts: At most so many lines of words before a statement, the shortest; 0 leaves words out.
        queries: Words for each name, in place of the first lines of documentation.
        separator: What stands between the words and the statement.
        framed: The share of names whose calls and imports are also asked in the language's other frames.
        imported: The share of names whose calls are also asked behind the imports of a file that calls them.
        releases: The names that are asked about, with what a release says of each; None asks about all.
        candidates: At most so many names for each level, the right one first, and nothing but whole levels is
            asked for; 0 asks for pieces and lists no candidates.
        scope: Which names, of `SCOPES`.
        libraries: The libraries whose names are asked about; none takes those of all.
        per_library: At most so many names of a library, so that no large one decides; None takes all.
        limit: At most this many names, each with all of its queries; a larger limit contains a smaller one.
        seed: Draws other names and other adversarial aliases.
        lenient: Whether adversarial queries are left out where a corpus has too few aliases for them.
    """

    templates: tuple[str, ...] = TEMPLATES
    reference: str = REFERENCE
    contexts: int = 0
    queries: Mapping[str, Sequence[str]] = field(default_factory=dict)
    separator: str = "\n"
    framed: float = 0.0
    imported: float = 0.0
    releases: Mapping[str, str] | None = None
    candidates: int = 0
    scope: str = ALL
    libraries: tuple[str, ...] = ()
    per_library: int | None = None
    limit: int | None = None
    seed: int = 0
    lenient: bool = False


@dataclass(slots=True)
class Queries:
    """The queries, of how many names they are, and what was left out and why."""

    table: pl.DataFrame
    names: int
    left_out: Counter[str]


def queries(gathered: NameUses, wanted: QueryRules, frequent: FrequentPieces | None = None) -> Queries:
    """Make the queries of a corpus's names.

    Libraries take turns, each giving its names in an order by hash, so that none outweighs the others under
    any limit. A name is taken with all of its queries, so that calls and imports, and first and last pieces,
    stay equally many.

    Args:
        gathered: The names of the corpus.
        wanted: What is made of them.
        frequent: The pieces of the corpus, for the column ``unigram``; None leaves it empty.

    Raises:
        UnknownNameError: A template that does not exist, or a library that the corpus does not have.
        InputError: There are too few aliases for adversarial queries.
    """
    for template in wanted.templates:
        if template not in TEMPLATES:
            raise UnknownNameError("template", template, TEMPLATES)
    names = [name for name in gathered.names.values() if "." in name.name]
    known = {name.library for name in names} if wanted.libraries else set[str]()
    for library in wanted.libraries:
        if library not in known:
            raise UnknownNameError("library of the corpus", library, sorted(known))
    left_out = Counter({"name of one level": len(gathered.names) - len(names)})
    maker = _Maker(gathered, names, wanted, left_out, frequent)
    rows: list[dict[str, Any]] = []
    asked_about = 0
    for name in _in_turn(gathered, names, wanted, left_out):
        if asked_about == wanted.limit:
            break
        made = list(maker.of(name))
        asked_about += bool(made)
        rows += made
    return Queries(pl.DataFrame(rows, schema=dict(QUERY_SCHEMA), orient="row"), asked_about, left_out)


def _in_turn(
    gathered: NameUses, names: Sequence[Name], wanted: QueryRules, left_out: Counter[str]
) -> list[Name]:
    """The names that may be asked about: the first of every library, the second of every library, and on."""
    held: dict[tuple[str, str, str], list[tuple[float, Name]]] = {}
    sides = wanted.releases
    for name in names:
        if sides is not None and name.name not in sides:
            left_out["not of the release"] += 1
            continue
        if sides is None and not gathered.usable(name, wanted.scope):
            left_out["not for others to use"] += 1
            continue
        if wanted.libraries and name.library not in wanted.libraries:
            left_out["not of the libraries named"] += 1
            continue
        order = unit_hash("quizzes", wanted.seed, name.language, name.name, name.kind)
        side = "" if sides is None else sides[name.name]
        held.setdefault((name.language, name.library, side), []).append((order, name))
    turns: list[tuple[int, float, Name]] = []
    for mine in held.values():
        mine.sort(key=itemgetter(0))
        turns += [(turn, order, name) for turn, (order, name) in enumerate(mine[: wanted.per_library])]
        left_out["library is full"] += len(mine[wanted.per_library :]) if wanted.per_library else 0
    return [name for _, _, name in sorted(turns, key=itemgetter(0, 1))]


class _Maker:
    """Makes the queries of one name after the other."""

    def __init__(
        self,
        gathered: NameUses,
        names: Sequence[Name],
        wanted: QueryRules,
        left_out: Counter[str],
        pieces: FrequentPieces | None,
    ) -> None:
        self._gathered = gathered
        self._wanted = wanted
        self._left_out = left_out
        self._frequent_pieces = pieces
        self._pieces = segments((level for name in names for level in name.name.split(".")), wanted.reference)
        languages = {name.language for name in gathered.names.values()}
        self._templates = {one: facet_of(one, "imports", Imports).templates for one in languages}
        self._frames = {one: read_frames(one) for one in languages} if wanted.framed else {}
        self._pools = {
            one: AliasPool(
                {alias: of for (language, alias), of in gathered.stands_for.items() if language == one},
                gathered.modules[one],
            )
            for one in languages
        }
        self._frequent_answers = FrequentAnswers(names, self._pieces)
        # New names of a release compete with its other names, not with what is called most elsewhere.
        sides = wanted.releases
        competing = names if sides is None else [name for name in names if name.name in sides]
        self._candidates = {
            one: Candidates(
                ((name.name, name.calls) for name in competing if name.language == one),
                wanted.candidates,
                wanted.seed,
            )
            for one in languages
            if wanted.candidates
        }

    def of(self, name: Name) -> Iterator[dict[str, Any]]:
        """All queries of a name, plain ones before those that are compared with them."""
        forms, levels = self._templates[name.language][name.kind], name.name.split(".")
        for level in levels:
            self._left_out["subtokens do not spell the level"] += level not in self._pieces
        provenance = _provenance(name, self._gathered, self._wanted)
        for template in (CALL, IMPORT):
            if template in self._wanted.templates:
                rows = list(self._cut(plain(forms[template], levels), template, levels, provenance))
                yield from rows
                yield from self._in_words(rows, name)
                yield from self._in_frames(rows, name, template, levels)
                if template == CALL:
                    yield from self._behind_imports(rows, name)
        for row, made_of in self._aliased(name, forms, levels, provenance):
            if ALIAS in self._wanted.templates:
                yield row
            if ADVERSARIAL in self._wanted.templates:
                yield from self._adversarial(row, made_of, forms, levels)

    def _cut(
        self, statement: Statement, template: str, levels: Sequence[str], provenance: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        text = statement.text
        for level in statement.levels:
            pieces = self._pieces.get(levels[level.index])
            if pieces is None:
                continue
            for mode, (start, end) in blanks(pieces).items():
                if self._candidates and mode not in (FULL, WHOLE):
                    continue
                at = (level.start + start, level.start + end)
                row = {
                    **provenance,
                    "template": template,
                    "mode": mode,
                    "level": level.index,
                    "levels": len(levels),
                    "pieces": len(pieces),
                    "level_start": level.start,
                    "level_end": level.end,
                    "candidates": self._competing(provenance, levels, level.index),
                }
                yield asked({**row, **self._controls(row, text[slice(*at)])}, text, *at)

    def _controls(self, row: Mapping[str, Any], answer: str) -> dict[str, int | None]:
        """Ranks of the answer without knowledge of the name."""
        language, library = row["language"], row["library"]
        frequent = self._frequent_answers
        if row["candidates"]:
            where = place(row["level"], row["levels"])
            return {"majority": frequent.rank_among(row["candidates"], language, where, library)}
        cell = ALIASED if row["template"] == ALIAS else ""
        pieces = self._frequent_pieces if row["mode"] != WHOLE else None
        return {
            "majority": frequent.rank(language, cell, row["mode"], answer, library),
            "unigram": pieces.rank(answer) if pieces else None,
        }

    def _competing(
        self, provenance: Mapping[str, Any], levels: Sequence[str], number: int
    ) -> tuple[str, ...]:
        if not self._candidates:
            return ()
        identity = f"{provenance['name']} {number}"
        where = place(number, len(levels))
        return self._candidates[provenance["language"]].of(levels[number], where, identity)

    def _aliased(
        self, name: Name, forms: Mapping[str, str], levels: Sequence[str], provenance: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], tuple[str, int]]]:
        for alias in sorted(name.aliases):
            form, count = "alias_member" if alias.member else "alias", alias.imported.count(".") + 1
            if form not in forms or count >= len(levels):
                continue
            statement = aliased(forms[form], levels, count, alias.alias)
            for row in self._cut(statement, ALIAS, levels, {**provenance, "alias": alias.alias}):
                yield row, (form, count)

    def _adversarial(
        self,
        row: Mapping[str, Any],
        made_of: tuple[str, int],
        forms: Mapping[str, str],
        levels: Sequence[str],
    ) -> Iterator[dict[str, Any]]:
        form, count = made_of
        pool = self._pools[row["language"]]
        module = ".".join(levels[:count])
        if self._wanted.lenient and not pool.suffices(module, row["alias"]):
            self._left_out["too few aliases of other modules"] += 1
            return
        for alias in pool.draw(module, row["alias"], self._wanted.seed, row["query_id"]):
            statement = aliased(forms[form], levels, count, alias)
            (level,) = (level for level in statement.levels if level.index == row["level"])
            shift = level.start - row["level_start"]
            yield _moved(row, statement.text, shift, {"template": ADVERSARIAL, "alias": alias})

    def _in_words(self, rows: Sequence[Mapping[str, Any]], name: Name) -> Iterator[dict[str, Any]]:
        """The same queries behind words about the name: the shortest by tokens, then by text."""
        words = self._wanted.queries.get(name.name, sorted(name.contexts))
        chosen = sorted({one for one in words if one}, key=lambda one: (len(one.split()), one))
        for context in chosen[: self._wanted.contexts]:
            before = context + self._wanted.separator
            for row in rows:
                text = before + row["prefix"] + row["answer"] + row["suffix"]
                yield _moved(row, text, len(before), {**_NO_CONTROLS, "context": context})

    def _behind_imports(self, rows: Sequence[Mapping[str, Any]], name: Name) -> Iterator[dict[str, Any]]:
        """The same queries behind the imports of one file that calls the name, for a share of the names."""
        drawn = unit_hash("imports", self._wanted.seed, name.language, name.name, name.kind)
        if drawn >= self._wanted.imported or not name.files:
            return
        path = min(sorted(name.files), key=lambda one: unit_hash("site", self._wanted.seed, one))
        before = _last_lines(self._gathered.statements[path])
        for row in rows if before else ():
            if row["mode"] in _FRAMED:
                text = before + row["prefix"] + row["answer"] + row["suffix"]
                yield _moved(row, text, len(before), {**_NO_CONTROLS, "frame": IMPORTS})

    def _in_frames(
        self, rows: Sequence[Mapping[str, Any]], name: Name, template: str, levels: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """The same queries with other code around the name, for a share of the names."""
        drawn = unit_hash("frames", self._wanted.seed, name.language, name.name, name.kind)
        if drawn >= self._wanted.framed:
            return
        for frame, form in self._frames[name.language].get(name.kind, {}).get(template, {}).items():
            statement = plain(form, levels)
            starts = {level.index: level for level in statement.levels}
            for row in rows:
                if row["mode"] not in _FRAMED:
                    continue
                shift = starts[row["level"]].start - row["level_start"]
                yield _moved(row, statement.text, shift, {**_NO_CONTROLS, "frame": frame})


def _last_lines(statements: Sequence[str]) -> str:
    """The last statements that fit into `IMPORTS_AT_MOST` characters, a line each; indented lines stay so."""
    kept: list[str] = []
    length = 0
    for statement in reversed(statements):
        length += len(statement) + 1
        if length > IMPORTS_AT_MOST:
            break
        kept.append(f"{statement}\n")
    return "".join(reversed(kept))


def _provenance(name: Name, gathered: NameUses, wanted: QueryRules) -> dict[str, Any]:
    return {
        "name": name.name,
        "kind": name.kind,
        "language": name.language,
        "library": name.library,
        "context": "",
        "frame": "",
        "alias": "",
        "aliases": len({alias.alias for alias in name.aliases}),
        "calls": name.calls,
        "files": len(name.files),
        "repositories": len(name.repositories),
        "users": sorted(gathered.users(name)),
        "release": None if wanted.releases is None else wanted.releases[name.name],
        "paths": sorted(path_number(path) for path in name.files),
    }


def asked(row: Mapping[str, Any], text: str, start: int, end: int, base: str = "") -> dict[str, Any]:
    """A query about the characters from ``start`` to ``end`` of a text, compared with the query ``base``."""
    prefix, answer, suffix = text[:start], text[start:end], text[end:]
    identity = (row["language"], row["template"], row["mode"], row["level"], prefix, answer, suffix)
    query_id = fingerprint("quiz", *identity, base)
    return {
        **row,
        "item_id": prompt_id(text, row["language"], (start, end)),
        "query_id": query_id,
        "base_id": base or query_id,
        "prefix": prefix,
        "answer": answer,
        "suffix": suffix,
        "start": start,
        "end": end,
        "visible": answer in prefix or answer in suffix,
    }


def _moved(row: Mapping[str, Any], text: str, by: int, changed: Mapping[str, Any]) -> dict[str, Any]:
    """The query of a row in another text, ``by`` characters further on, to be compared with the row's."""
    level = {name: row[name] + by for name in ("level_start", "level_end")}
    return asked({**row, **changed, **level}, text, row["start"] + by, row["end"] + by, row["query_id"])


def prompt_id(text: str, language: str, cuts: tuple[int, ...] = ()) -> str:
    """Identity of a text that models are shown, with the characters at which no piece may go on."""
    return fingerprint("prompt", language, text, cuts)


def path_number(path: str) -> int:
    """A path as a number; tells whether a training corpus held a file that calls a name."""
    return int(fingerprint("path", path)[:16], 16)
