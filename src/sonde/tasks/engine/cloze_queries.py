"""Cloze queries made from API names: columns, reference pieces, aliases and frequency baselines.

A query fixes, in characters and before any model is named, what is asked of which statement.

The reference segmentation decides which pieces of a level are asked for, the same for all models. Levels are
cut by one named tokenizer, each level separately, once. Its pieces only fix characters; how a model's own
tokenizer cuts the same characters is found when the model is asked.

Adversarial aliases (`AliasPool`) are aliases that a corpus uses for other modules, put in place of the right
one.

The frequency baselines answer without knowing the name: the answers and the pieces that a whole corpus has
most often. Both are learned from all names and files of a corpus, however few are asked about, and are the
same for all models.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Int
from tokenizers import Tokenizer

from sonde.base.errors import InputError, UnknownNameError
from sonde.base.files import FileStamp, expand_home, get_file_stamps
from sonde.base.fingerprint import derive_seed, fingerprint, unit_hash
from sonde.languages import get_facet
from sonde.languages.engine.imports import ImportReader, read_frames
from sonde.results.schema import Columns, to_schema
from sonde.tasks.engine.api_names import ALL, ApiName, NameUses
from sonde.tasks.engine.cloze_statements import (
    ADVERSARIAL,
    ALIAS,
    CALL,
    IMPORT,
    TEMPLATES,
    Candidates,
    Statement,
    level_position,
    make_aliased_statement,
    make_plain_statement,
)

DRAWN = 10
"""Adversarial aliases a query, as published."""


class AliasPool:
    """The aliases of modules of one language in a corpus.

    Args:
        stands_for: For each alias, all that it stands for somewhere in the corpus.
        modules: What is a module; aliases of functions, classes and values are not taken.
    """

    def __init__(self, stands_for: Mapping[str, Set[str]], modules: Set[str]) -> None:
        self._aliases = sorted(alias for alias, names in stands_for.items() if not names.isdisjoint(modules))
        self._known = frozenset(self._aliases)
        self._of: dict[str, set[str]] = {}
        for alias, names in stands_for.items():
            for name in names:
                self._of.setdefault(name, set()).add(alias)

    def suffices(self, module: str, alias: str) -> bool:
        """Return whether ten aliases of modules never stand for ``module``, beside its right alias."""
        return len(self._known - self._excluded_aliases(module, alias)) >= DRAWN

    def _excluded_aliases(self, module: str, alias: str) -> set[str]:
        return self._of.get(module, set()) | {alias}

    def draw(self, module: str, alias: str, seed: int, query: str) -> tuple[str, ...]:
        """Draw ten aliases that never stand for ``module``, for one query.

        Args:
            module: What the right alias stands for.
            alias: The right alias.
            seed: Seed of the data set.
            query: Identity of the query; each draws for itself.

        Raises:
            InputError: The corpus has fewer than ten aliases of other modules.
        """
        barred = self._excluded_aliases(module, alias)
        left = len(self._known - barred)
        if left < DRAWN:
            raise InputError(
                f"adversarial aliases for {module!r}: the corpus has {left} aliases of other modules, "
                f"{DRAWN} are needed; name a larger corpus, or leave the template 'adversarial' out"
            )
        others = (one for one in self._shuffle(seed, query) if one not in barred)
        return tuple(islice(others, DRAWN))

    def _shuffle(self, seed: int, query: str) -> Iterator[str]:
        """Yield aliases in a random order, drawn as far as they are requested."""
        rng = np.random.default_rng(derive_seed("adversarial", seed, query))
        drawn: set[int] = set()
        while len(drawn) < len(self._aliases):
            for index in rng.integers(len(self._aliases), size=2 * DRAWN).tolist():
                if index not in drawn:
                    drawn.add(index)
                    yield self._aliases[index]


QUERY_COLUMNS: Columns = {
    "item_id": (
        pl.String,
        "the statement with its answer, and where no subword may go on; several queries may share one",
    ),
    "query_id": (pl.String, "the query"),
    "base_id": (
        pl.String,
        "the plain query that it is compared with (adversarial, behind words, in a frame), else itself",
    ),
    "template": (
        pl.String,
        "`call`, `import`, `alias`, `adversarial`; `clozetest`; of pairs `replacement`, `fake_package`, "
        "`fake_name`",
    ),
    "mode": (
        pl.String,
        "`full` (a level of one subword), `first`, `middle`, `last`, `whole` (several subwords at once); of "
        "pairs the form of the statement",
    ),
    "name": (pl.String, "fully qualified name"),
    "kind": (pl.String, "kind of call; of pairs the worse name"),
    "language": (pl.String, "public name"),
    "library": (pl.String, "leading levels of the name: the unit of resampling"),
    "level": (pl.Int32, "level asked for, from 0"),
    "levels": (pl.Int32, "levels of the name"),
    "pieces": (pl.Int32, "subwords of the level in the reference segmentation"),
    "context": (pl.String, "words before the statement; empty for the statement alone"),
    "frame": (
        pl.String,
        "name of the other code around it, `imports` for those of a file that calls it; empty for the "
        "statement alone",
    ),
    "prefix": (pl.String, "the text before the answer"),
    "answer": (pl.String, "the answer"),
    "suffix": (pl.String, "the text behind the answer"),
    "start": (pl.Int32, "first character of the answer in the text"),
    "end": (pl.Int32, "end of the answer, exclusive"),
    "level_start": (pl.Int32, "first character of its level in the text"),
    "level_end": (pl.Int32, "end of the level, exclusive"),
    "alias": (pl.String, "the alias in the statement"),
    "aliases": (pl.Int32, "distinct aliases that the corpus has for the name"),
    "visible": (pl.Boolean, "the answer also stands elsewhere in the text"),
    "calls": (pl.Int64, "how often the corpus calls the name"),
    "files": (pl.Int32, "in how many files"),
    "repositories": (pl.Int32, "in how many repositories"),
    "users": (
        pl.List(pl.String),
        "the repositories that call it, without those that hold its library",
    ),
    "release": (
        pl.String,
        "of two releases named: `new` where the name appeared between them, `kept` where both have it",
    ),
    "paths": (
        pl.List(pl.UInt64),
        "hashed paths of the files that call it; told apart from a manifest's they say what was seen",
    ),
    "trained": (
        pl.Boolean,
        "its library is called in the corpus of the option `training`; null where none is named",
    ),
    "candidates": (
        pl.List(pl.String),
        "names that compete for the level, the right one first; empty for masked models",
    ),
    "majority": (
        pl.Int32,
        "rank of the answer by how often it is right over the names of all other libraries of the corpus;"
        " among `candidates` by their calls; null behind words and in frames",
    ),
    "unigram": (
        pl.Int32,
        "rank of the answer by how often it stands in the corpus, among the identifier-like subwords of the"
        " reference segmentation; null for `whole` and `candidates`",
    ),
    "spelling": (
        pl.Float64,
        "of made-up names: nats by which a 4-gram model of characters that knows all real names but this "
        "one finds the real one likelier",
    ),
}
"""Columns of queries, one row a query."""


QUERY_SCHEMA = to_schema(QUERY_COLUMNS)


BLANK_QUERY: Mapping[str, Any] = {
    **dict.fromkeys(("context", "frame", "alias", "prefix", "suffix"), ""),
    **dict.fromkeys(("level", "aliases", "start", "level_start"), 0),
    **dict.fromkeys(("levels", "pieces", "calls", "files", "repositories"), 1),
    "paths": [],
}
"""A query about a text that no name of a corpus stands behind."""


REFERENCE = "sonde/mini-encoder"


FULL, FIRST, MIDDLE, LAST, WHOLE = "full", "first", "middle", "last", "whole"


MODES = (FULL, FIRST, MIDDLE, LAST, WHOLE)


_BUNDLED = "sonde/"


def segments(levels: Iterable[str], reference: str = REFERENCE) -> dict[str, tuple[str, ...]]:
    """Cut levels into pieces; a level that its pieces do not spell is left out.

    Args:
        levels: Levels of names.
        reference: A bundled model's name, or a ``tokenizer.json`` or the folder that holds one.

    Raises:
        InputError: There is no such tokenizer.
    """
    tokenizer = _tokenizer(reference)
    wanted = sorted(set(levels))
    unknown = getattr(tokenizer.model, "unk_token", None)
    unknown_id = None if unknown is None else tokenizer.token_to_id(unknown)
    found: dict[str, tuple[str, ...]] = {}
    for level, encoding in zip(wanted, tokenizer.encode_batch(wanted, add_special_tokens=False), strict=True):
        changed = tokenizer.normalizer is not None and tokenizer.normalizer.normalize_str(level) != level
        pieces = tuple(level[start:end] for start, end in encoding.offsets)
        if not changed and unknown_id not in encoding.ids and all(pieces) and "".join(pieces) == level:
            found[level] = pieces
    return found


def blanks(pieces: tuple[str, ...]) -> Mapping[str, tuple[int, int]]:
    """Return the characters of a level that each masking mode asks for.

    One piece is asked for in full. Of several the first and the last are asked for (INK), of three or more
    also the one in the middle, and the level as a whole, whose answer then has several pieces.

    >>> dict(blanks(("zer", "os", "_like")))
    {'first': (0, 3), 'middle': (3, 5), 'last': (5, 10), 'whole': (0, 10)}
    """
    bounds = [0]
    for piece in pieces:
        bounds.append(bounds[-1] + len(piece))
    if len(pieces) == 1:
        return {FULL: (0, bounds[-1])}
    asked = {FIRST: (0, bounds[1])}
    if len(pieces) > 2:
        middle = len(pieces) // 2
        asked[MIDDLE] = (bounds[middle], bounds[middle + 1])
    return asked | {LAST: (bounds[-2], bounds[-1]), WHOLE: (0, bounds[-1])}


def _tokenizer(reference: str) -> Tokenizer:
    if reference.startswith(_BUNDLED):
        path = Path(str(files("sonde"))) / "models" / "bundled" / reference.removeprefix(_BUNDLED)
    else:
        path = expand_home(reference)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise InputError(
            f"reference segmentation {reference!r}: no tokenizer.json there; name {REFERENCE} or such a file"
        )
    return _read_tokenizer(path, reference, get_file_stamps([path]))


@lru_cache(maxsize=4)
def _read_tokenizer(path: Path, reference: str, stamps: tuple[FileStamp, ...]) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:
        reason = str(error).splitlines()[0][:80]
        raise InputError(f"reference segmentation {reference!r}: not a tokenizer ({reason})") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


NEVER = 2**31 - 1
"""Rank of an answer that is nowhere else."""


ALIASED = "alias"
"""Cell of the answers behind an alias; the other cell, of calls and imports, is the empty string."""


_CALLED = "called"
"""Cell of whole levels by the calls of their names; its modes are positions in a name."""


_WORD = re.compile(r"[^\W\d]\w*")


_IDENTIFIER_LIKE = re.compile(r"\w*[^\W\d]\w*")


_Cell = tuple[str, str, str]


class FrequentAnswers:
    """Counts of how often each answer is right in a corpus, without the library that is asked about.

    Args:
        names: All names of the corpus.
        pieces: The pieces of each level that has them.
    """

    def __init__(self, names: Iterable[ApiName], pieces: Mapping[str, Sequence[str]]) -> None:
        self._total: defaultdict[_Cell, Counter[str]] = defaultdict(Counter)
        self._own: defaultdict[tuple[_Cell, str], Counter[str]] = defaultdict(Counter)
        for name in names:
            levels = name.name.split(".")
            behind = [alias.imported.count(".") + 1 for alias in name.aliases]
            for number, level in enumerate(levels):
                where = level_position(number, len(levels))
                self._add((name.language, _CALLED, where), name.library, level, name.calls)
                aliased = sum(count <= number for count in behind)
                for mode, (start, end) in blanks(tuple(pieces.get(level, ()))).items():
                    for cell, count in (("", 1), (ALIASED, aliased)):
                        self._add((name.language, cell, mode), name.library, level[start:end], count)
        self._ordered = {key: _sort_counts(counts) for key, counts in self._total.items()}

    def _add(self, key: _Cell, library: str, answer: str, count: int) -> None:
        if count:
            self._total[key][answer] += count
            self._own[key, library][answer] += count

    def rank(self, language: str, cell: str, mode: str, answer: str, library: str) -> int:
        """Rank of an answer by its count over the other libraries; ties count against it."""
        key = (language, cell, mode)
        total, own = self._total[key], self._own[key, library]
        count = total[answer] - own[answer]
        if not count:
            return NEVER
        at_least = len(total) - int(np.searchsorted(self._ordered[key], count))
        return at_least - sum(total[one] >= count > total[one] - mine for one, mine in own.items())

    def rank_candidates(self, candidates: Sequence[str], language: str, where: str, library: str) -> int:
        """Rank of the first of some names by the calls of other libraries' names, at one place of a name."""
        key = (language, _CALLED, where)
        counts = [self._total[key][one] - self._own[key, library][one] for one in candidates]
        return sum(count >= counts[0] for count in counts)


class FrequentPieces:
    """Counts of each identifier-like piece in the files of a corpus.

    Args:
        texts: The files.
        reference: What cuts words into pieces.
    """

    def __init__(self, texts: Iterable[str], reference: str) -> None:
        words: Counter[str] = Counter()
        for text in texts:
            words.update(_WORD.findall(text))
        self._counts: Counter[str] = Counter()
        for word, pieces in segments(words, reference).items():
            for piece in pieces:
                if _IDENTIFIER_LIKE.fullmatch(piece):
                    self._counts[piece] += words[word]
        self._ordered = _sort_counts(self._counts)

    def rank(self, answer: str) -> int:
        """Rank of a piece by its count; ties count against it."""
        count = self._counts[answer]
        return len(self._ordered) - int(np.searchsorted(self._ordered, count)) if count else NEVER


def _sort_counts(counts: Counter[str]) -> Int[np.ndarray, " answer"]:
    return np.sort(np.fromiter(counts.values(), np.int64, len(counts)))


_FRAMED = (FULL, FIRST, LAST, WHOLE)


IMPORTS = "imports"
"""Frame of the queries behind the imports of a file."""


IMPORTS_AT_MOST = 800
"""Characters of imports before a statement: the last that fit, so that the statement stays in any context."""


_NO_CONTROLS: Mapping[str, None] = {"majority": None, "unigram": None}
"""Queries behind words and in frames repeat others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRules:
    """The rules by which queries are made of the names of a corpus.

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
        scope: Which names, of `sonde.tasks.engine.api_names.SCOPES`.
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


def make_query_table(
    gathered: NameUses, wanted: QueryRules, frequent: FrequentPieces | None = None
) -> Queries:
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
    maker = _QueryMaker(gathered, names, wanted, left_out, frequent)
    rows: list[dict[str, Any]] = []
    asked_about = 0
    for name in _in_turn(gathered, names, wanted, left_out):
        if asked_about == wanted.limit:
            break
        made = list(maker.make_queries(name))
        asked_about += bool(made)
        rows += made
    return Queries(pl.DataFrame(rows, schema=dict(QUERY_SCHEMA), orient="row"), asked_about, left_out)


def _in_turn(
    gathered: NameUses, names: Sequence[ApiName], wanted: QueryRules, left_out: Counter[str]
) -> list[ApiName]:
    """Return the names that may be asked about, with libraries taking turns."""
    held: dict[tuple[str, str, str], list[tuple[float, ApiName]]] = {}
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
    turns: list[tuple[int, float, ApiName]] = []
    for mine in held.values():
        mine.sort(key=itemgetter(0))
        turns += [(turn, order, name) for turn, (order, name) in enumerate(mine[: wanted.per_library])]
        left_out["library is full"] += len(mine[wanted.per_library :]) if wanted.per_library else 0
    return [name for _, _, name in sorted(turns, key=itemgetter(0, 1))]


class _QueryMaker:
    """Makes the queries of one name after the other."""

    def __init__(
        self,
        gathered: NameUses,
        names: Sequence[ApiName],
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
        self._templates = {one: get_facet(one, "imports", ImportReader).templates for one in languages}
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

    def make_queries(self, name: ApiName) -> Iterator[dict[str, Any]]:
        """Yield all queries of a name, plain ones before those that are compared with them."""
        forms, levels = self._templates[name.language][name.kind], name.name.split(".")
        for level in levels:
            self._left_out["subtokens do not spell the level"] += level not in self._pieces
        provenance = _provenance(name, self._gathered, self._wanted)
        for template in (CALL, IMPORT):
            if template in self._wanted.templates:
                rows = list(
                    self._cut_queries(
                        make_plain_statement(forms[template], levels), template, levels, provenance
                    )
                )
                yield from rows
                yield from self._in_words(rows, name)
                yield from self._in_frames(rows, name, template, levels)
                if template == CALL:
                    yield from self._behind_imports(rows, name)
        for row, made_of in self._alias_queries(name, forms, levels, provenance):
            if ALIAS in self._wanted.templates:
                yield row
            if ADVERSARIAL in self._wanted.templates:
                yield from self._adversarial(row, made_of, forms, levels)

    def _cut_queries(
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
                    "candidates": self._list_competitors(provenance, levels, level.index),
                }
                yield make_query({**row, **self._controls(row, text[slice(*at)])}, text, *at)

    def _controls(self, row: Mapping[str, Any], answer: str) -> dict[str, int | None]:
        """Rank the answer without knowledge of the name."""
        language, library = row["language"], row["library"]
        frequent = self._frequent_answers
        if row["candidates"]:
            where = level_position(row["level"], row["levels"])
            return {"majority": frequent.rank_candidates(row["candidates"], language, where, library)}
        cell = ALIASED if row["template"] == ALIAS else ""
        pieces = self._frequent_pieces if row["mode"] != WHOLE else None
        return {
            "majority": frequent.rank(language, cell, row["mode"], answer, library),
            "unigram": pieces.rank(answer) if pieces else None,
        }

    def _list_competitors(
        self, provenance: Mapping[str, Any], levels: Sequence[str], number: int
    ) -> tuple[str, ...]:
        if not self._candidates:
            return ()
        identity = f"{provenance['name']} {number}"
        where = level_position(number, len(levels))
        return self._candidates[provenance["language"]].select(levels[number], where, identity)

    def _alias_queries(
        self, name: ApiName, forms: Mapping[str, str], levels: Sequence[str], provenance: Mapping[str, Any]
    ) -> Iterator[tuple[dict[str, Any], tuple[str, int]]]:
        for alias in sorted(name.aliases):
            form, count = "alias_member" if alias.member else "alias", alias.imported.count(".") + 1
            if form not in forms or count >= len(levels):
                continue
            statement = make_aliased_statement(forms[form], levels, count, alias.alias)
            for row in self._cut_queries(statement, ALIAS, levels, {**provenance, "alias": alias.alias}):
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
            statement = make_aliased_statement(forms[form], levels, count, alias)
            (level,) = (level for level in statement.levels if level.index == row["level"])
            shift = level.start - row["level_start"]
            yield _shift_query(row, statement.text, shift, {"template": ADVERSARIAL, "alias": alias})

    def _in_words(self, rows: Sequence[Mapping[str, Any]], name: ApiName) -> Iterator[dict[str, Any]]:
        """Yield the same queries after words about the name: the fewest words first, then by text."""
        words = self._wanted.queries.get(name.name, sorted(name.contexts))
        chosen = sorted({one for one in words if one}, key=lambda one: (len(one.split()), one))
        for context in chosen[: self._wanted.contexts]:
            yield from _queries_behind(context + self._wanted.separator, rows, {"context": context})

    def _behind_imports(self, rows: Sequence[Mapping[str, Any]], name: ApiName) -> Iterator[dict[str, Any]]:
        """Yield the same queries after the imports of a file that calls the name, for some names."""
        if name.files and self._is_sampled("imports", name, self._wanted.imported):
            path = min(sorted(name.files), key=lambda one: unit_hash("site", self._wanted.seed, one))
            before = _last_lines(self._gathered.statements[path])
            framed = [row for row in rows if row["mode"] in _FRAMED]
            yield from _queries_behind(before, framed, {"frame": IMPORTS}) if before else ()

    def _is_sampled(self, what: str, name: ApiName, share: float) -> bool:
        return unit_hash(what, self._wanted.seed, name.language, name.name, name.kind) < share

    def _in_frames(
        self, rows: Sequence[Mapping[str, Any]], name: ApiName, template: str, levels: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """Yield the same queries with other code around the name, for a share of the names."""
        if not self._is_sampled("frames", name, self._wanted.framed):
            return
        for frame, form in self._frames[name.language].get(name.kind, {}).get(template, {}).items():
            statement = make_plain_statement(form, levels)
            starts = {level.index: level for level in statement.levels}
            for row in rows:
                if row["mode"] not in _FRAMED:
                    continue
                shift = starts[row["level"]].start - row["level_start"]
                yield _shift_query(row, statement.text, shift, {**_NO_CONTROLS, "frame": frame})


def _queries_behind(
    before: str, rows: Iterable[Mapping[str, Any]], changed: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the queries of ``rows`` with the text ``before`` in front."""
    for row in rows:
        text = before + row["prefix"] + row["answer"] + row["suffix"]
        yield _shift_query(row, text, len(before), {**_NO_CONTROLS, **changed})


def _last_lines(statements: Sequence[str]) -> str:
    """Return the last statements that fit into `IMPORTS_AT_MOST` characters, with their indentation."""
    kept: list[str] = []
    length = 0
    for statement in reversed(statements):
        length += len(statement) + 1
        if length > IMPORTS_AT_MOST:
            break
        kept.append(f"{statement}\n")
    return "".join(reversed(kept))


def _provenance(name: ApiName, gathered: NameUses, wanted: QueryRules) -> dict[str, Any]:
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


def make_query(row: Mapping[str, Any], text: str, start: int, end: int, base: str = "") -> dict[str, Any]:
    """Make a query about the characters from ``start`` to ``end``, compared with the query ``base``."""
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


def _shift_query(row: Mapping[str, Any], text: str, by: int, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Make the query of a row in another text, ``by`` characters further on, compared with the row's."""
    level = {name: row[name] + by for name in ("level_start", "level_end")}
    return make_query({**row, **changed, **level}, text, row["start"] + by, row["end"] + by, row["query_id"])


def prompt_id(text: str, language: str, cuts: tuple[int, ...] = ()) -> str:
    """Return the id of a text that models are shown, with the characters that no subword may cross."""
    return fingerprint("prompt", language, text, cuts)


def path_number(path: str) -> int:
    """Hash a path, to tell whether a training corpus held a file that calls a name."""
    return int(fingerprint("path", path)[:16], 16)


REPLACEMENT, FAKE_PACKAGE, FAKE_NAME = "replacement", "fake_package", "fake_name"


PAIRS: Mapping[str, str] = {
    REPLACEMENT: "the replacement of a deprecated name against the deprecated one",
    FAKE_PACKAGE: "a package of the corpus against a made-up one",
    FAKE_NAME: "a name of the corpus against a made-up one of the same module",
}
"""What is set against what; the better one first."""


FORMS = (CALL, IMPORT)


def margin_rows(
    pair: str,
    better: str,
    worse: str,
    *,
    language: str,
    library: str,
    templates: Mapping[str, str],
    forms: Sequence[str] = FORMS,
    calls: int = 1,
    spelling: float | None = None,
) -> list[dict[str, Any]]:
    """Build the rows of two names, one per form of statement, in `QUERY_SCHEMA`.

    Args:
        pair: Of `PAIRS`.
        better: The name that should be preferred, fully qualified.
        worse: The other.
        language: Public name of the language.
        library: Unit of resampling.
        templates: The language's statements of one kind of call.
        forms: Of `FORMS`.
        calls: How often the corpus has the better one.
        spelling: By how many nats its spelling is the likelier one; None where that is not known.
    """
    rows: list[dict[str, Any]] = []
    for form in forms if "." in better and "." in worse else ():
        texts = [make_plain_statement(templates[form], name.split(".")).text for name in (better, worse)]
        number = fingerprint("margin", pair, form, language, *texts)
        ends = {name: len(texts[0]) for name in ("end", "level_end")}
        row = {
            **BLANK_QUERY,
            **ends,
            "item_id": prompt_id(texts[0], language),
            "query_id": number,
            "base_id": number,
            "template": pair,
            "mode": form,
            "name": better,
            "kind": worse,
            "language": language,
            "library": library,
            "level": better.count("."),
            "levels": better.count(".") + 1,
            "answer": texts[0],
            "visible": False,
            "calls": calls,
            "candidates": texts,
            "spelling": spelling,
        }
        rows.append(row)
    return rows


def margin_table(pairs: Sequence[Sequence[Mapping[str, Any]]], size: int | None, seed: int) -> pl.DataFrame:
    """Build a table of at most ``size`` rows of pairs in hash order, each pair with all of its forms."""
    order = sorted(
        (rows for rows in pairs if rows), key=lambda rows: unit_hash("margins", seed, rows[0]["query_id"])
    )
    taken: list[Mapping[str, Any]] = []
    for rows in order:
        if size is not None and len(taken) + len(rows) > size:
            break
        taken += rows
    table = pl.DataFrame(taken, schema=dict(QUERY_SCHEMA), orient="row")
    return table.unique("query_id", keep="first", maintain_order=True)


def to_margin_rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of pairs that ``sonde label`` writes."""
    return [
        {
            "pair": row["template"],
            "form": row["mode"],
            "better": row["name"],
            "worse": row["kind"],
            "better_statement": row["candidates"][0],
            "worse_statement": row["candidates"][1],
            "language": row["language"],
            "library": row["library"],
            "calls": row["calls"],
        }
        for row in table.iter_rows(named=True)
    ]
