"""Cloze queries made from API names: columns, reference pieces, aliases and frequency baselines.

A query fixes, in characters and before any model is named, what is asked of which statement.

The reference segmentation decides which pieces of a level are asked for, the same for all models. Levels are
cut by one named tokenizer, each level separately, once. Its pieces only fix characters; how a model's own
tokenizer cuts the same characters is found when the model is asked.

A published file may provide queries: a word left out of a function, with the words that compete for it. The
right one is not published (CodeXGLUE's ClozeTest), so there is a query for each word, and the result can only
be which word a model prefers.

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
from dataclasses import dataclass
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
from sonde.corpora import Given, SourceFile
from sonde.languages import get_facet
from sonde.languages.engine.imports import ImportReader, read_frames
from sonde.results.schema import Columns, to_schema
from sonde.tasks.engine.api_names import ApiName, NameUses
from sonde.tasks.engine.cloze_options import MASKED, PROVIDED_TEMPLATE, REFERENCE, TASK, StatementOptions
from sonde.tasks.engine.cloze_statements import (
    ADVERSARIAL,
    ALIAS,
    CALL,
    IMPORT,
    Candidates,
    Statement,
    level_position,
    make_aliased_statement,
    make_plain_statement,
)

ALIASES_PER_QUERY = 10
"""Adversarial aliases a query, as published."""


class AliasPool:
    """The aliases of modules of one language in a corpus.

    Args:
        stands_for: For each alias, all names that it means somewhere in the corpus.
        modules: What is a module; aliases of functions, classes and values are not taken.
    """

    def __init__(self, stands_for: Mapping[str, Set[str]], modules: Set[str]) -> None:
        self._aliases = sorted(alias for alias, names in stands_for.items() if not names.isdisjoint(modules))
        self._known = frozenset(self._aliases)
        self._of: dict[str, set[str]] = {}
        for alias, names in stands_for.items():
            for name in names:
                self._of.setdefault(name, set()).add(alias)

    def draw(self, module: str, alias: str, seed: int, query: str) -> tuple[str, ...]:
        """Draw ten aliases that never stand for ``module``, for one query.

        Args:
            module: The module of the right alias.
            alias: The right alias.
            seed: Seed of the data set.
            query: Identity of the query; each draws for itself.

        Raises:
            InputError: The corpus has fewer than ten aliases of other modules.
        """
        other_aliases = self._known - self._of.get(module, set()) - {alias}
        if len(other_aliases) < ALIASES_PER_QUERY:
            raise InputError(
                f"adversarial aliases for {module!r}: the corpus has {len(other_aliases)} aliases of other "
                f"modules, {ALIASES_PER_QUERY} are needed; name a larger corpus, or leave the template "
                "'adversarial' out"
            )
        return tuple(
            islice(filter(other_aliases.__contains__, self._shuffle(seed, query)), ALIASES_PER_QUERY)
        )

    def _shuffle(self, seed: int, query: str) -> Iterator[str]:
        """Yield aliases in a random order, drawn as far as they are requested."""
        rng = np.random.default_rng(derive_seed("adversarial", seed, query))
        used_indices: set[int] = set()
        while len(used_indices) < len(self._aliases):
            for index in rng.integers(len(self._aliases), size=2 * ALIASES_PER_QUERY).tolist():
                if index not in used_indices:
                    used_indices.add(index)
                    yield self._aliases[index]


QUERY_COLUMNS: Columns = {
    "item_id": (
        pl.String,
        "the statement with its answer, and the positions where a new subword starts; several queries may "
        "share one",
    ),
    "query_id": (pl.String, "the query"),
    "base_id": (
        pl.String,
        "the plain query that it is compared with (if adversarial, after words, or in a frame), else itself",
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
    "level": (pl.Int32, "level of the query, from 0"),
    "levels": (pl.Int32, "levels of the name"),
    "pieces": (pl.Int32, "subwords of the level in the reference segmentation"),
    "context": (pl.String, "words before the statement; empty for none"),
    "frame": (
        pl.String,
        "name of the code around the statement, `imports` for the imports of a file that calls it; empty for "
        "none",
    ),
    "prefix": (pl.String, "the text before the answer"),
    "answer": (pl.String, "the answer"),
    "suffix": (pl.String, "the text after the answer"),
    "start": (pl.Int32, "first character of the answer in the text"),
    "end": (pl.Int32, "end of the answer, exclusive"),
    "level_start": (pl.Int32, "first character of its level in the text"),
    "level_end": (pl.Int32, "end of the level, exclusive"),
    "alias": (pl.String, "the alias in the statement"),
    "aliases": (pl.Int32, "number of distinct aliases that the corpus has for the name"),
    "visible": (pl.Boolean, "the answer also occurs elsewhere in the text"),
    "calls": (pl.Int64, "how often the corpus calls the name"),
    "files": (pl.Int32, "in how many files"),
    "repositories": (pl.Int32, "in how many repositories"),
    "users": (
        pl.List(pl.String),
        "the repositories that call it, except those that contain its library",
    ),
    "release": (
        pl.String,
        "with two releases: `new` if the name appeared between them, `kept` if both have it",
    ),
    "paths": (
        pl.List(pl.UInt64),
        "hashed paths of the files that call it, to compare with those of a training manifest",
    ),
    "trained": (
        pl.Boolean,
        "whether its library is called in the corpus of the option `training`; null without that option",
    ),
    "candidates": (
        pl.List(pl.String),
        "candidate names for the level, the right one first; empty for masked models",
    ),
    "majority": (
        pl.Int32,
        "rank of the answer by how often it is right for names of all other libraries of the corpus; among "
        "`candidates`, by their calls; null after words and in frames",
    ),
    "unigram": (
        pl.Int32,
        "rank of the answer by its frequency in the corpus, among the identifier-like subwords of the "
        "reference segmentation; null for `whole` and `candidates`",
    ),
    "spelling": (
        pl.Float64,
        "for made-up names: nats by which a character 4-gram model, fitted to all real names but this one, "
        "finds the real name likelier",
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
"""A query about a text without a name of the corpus."""


FULL, FIRST, MIDDLE, LAST, WHOLE = "full", "first", "middle", "last", "whole"


_BUNDLED_PREFIX = "sonde/"


def segments(levels: Iterable[str], reference: str = REFERENCE) -> dict[str, tuple[str, ...]]:
    """Cut levels into pieces; a level that its pieces do not spell is left out.

    Args:
        levels: Levels of names.
        reference: A bundled model's name, or a ``tokenizer.json`` or the folder that holds one.

    Raises:
        InputError: There is no such tokenizer.
    """
    tokenizer = _tokenizer(reference)
    unique_levels = sorted(set(levels))
    unknown = getattr(tokenizer.model, "unk_token", None)
    unknown_id = None if unknown is None else tokenizer.token_to_id(unknown)
    pieces_by_level: dict[str, tuple[str, ...]] = {}
    for level, encoding in zip(
        unique_levels, tokenizer.encode_batch(unique_levels, add_special_tokens=False), strict=True
    ):
        is_normalised = (
            tokenizer.normalizer is not None and tokenizer.normalizer.normalize_str(level) != level
        )
        pieces = tuple(level[start:end] for start, end in encoding.offsets)
        if not is_normalised and unknown_id not in encoding.ids and all(pieces) and "".join(pieces) == level:
            pieces_by_level[level] = pieces
    return pieces_by_level


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
    spans = {FIRST: (0, bounds[1])}
    if len(pieces) > 2:
        middle = len(pieces) // 2
        spans[MIDDLE] = (bounds[middle], bounds[middle + 1])
    return spans | {LAST: (bounds[-2], bounds[-1]), WHOLE: (0, bounds[-1])}


def _tokenizer(reference: str) -> Tokenizer:
    if reference.startswith(_BUNDLED_PREFIX):
        path = Path(str(files("sonde"))) / "models" / "bundled" / reference.removeprefix(_BUNDLED_PREFIX)
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


UNSEEN_RANK = 2**31 - 1
"""Rank of an answer that is nowhere else."""


ALIAS_CELL = "alias"
"""Cell of the answers after an alias; the other cell, of calls and imports, is the empty string."""


_CALL_CELL = "called"
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
            alias_depths = [alias.imported.count(".") + 1 for alias in name.aliases]
            for number, level in enumerate(levels):
                position = level_position(number, len(levels))
                self._add((name.language, _CALL_CELL, position), name.library, level, name.calls)
                alias_count = sum(count <= number for count in alias_depths)
                for mode, (start, end) in blanks(tuple(pieces.get(level, ()))).items():
                    for cell, count in (("", 1), (ALIAS_CELL, alias_count)):
                        self._add((name.language, cell, mode), name.library, level[start:end], count)
        self._ordered = {key: _sort_counts(counts) for key, counts in self._total.items()}

    def _add(self, key: _Cell, library: str, answer: str, count: int) -> None:
        if count:
            self._total[key][answer] += count
            self._own[key, library][answer] += count

    def rank(self, language: str, cell: str, mode: str, answer: str, library: str) -> int:
        """Rank of an answer by its count over the other libraries; ties count against it."""
        key = (language, cell, mode)
        total, library_counts = self._total[key], self._own[key, library]
        count = total[answer] - library_counts[answer]
        if not count:
            return UNSEEN_RANK
        at_least = len(total) - int(np.searchsorted(self._ordered[key], count))
        return at_least - sum(
            total[other_answer] >= count > total[other_answer] - library_count
            for other_answer, library_count in library_counts.items()
        )

    def rank_candidates(self, candidates: Sequence[str], language: str, position: str, library: str) -> int:
        """Rank of the first of some names by the calls of other libraries' names, at one place of a name."""
        key = (language, _CALL_CELL, position)
        counts = [
            self._total[key][candidate] - self._own[key, library][candidate] for candidate in candidates
        ]
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
        return len(self._ordered) - int(np.searchsorted(self._ordered, count)) if count else UNSEEN_RANK


def _sort_counts(counts: Counter[str]) -> Int[np.ndarray, " answer"]:
    return np.sort(np.fromiter(counts.values(), np.int64, len(counts)))


_FRAME_MODES = (FULL, FIRST, LAST, WHOLE)


IMPORTS = "imports"
"""Frame of the queries after the imports of a file."""


IMPORTS_AT_MOST = 800
"""Characters of imports before a statement: the last that fit, so that the statement stays in any context."""


_NO_CONTROLS: Mapping[str, None] = {"majority": None, "unigram": None}
"""Queries after words and in frames repeat others."""


@dataclass(slots=True)
class Queries:
    """The queries, of how many names they are, and what was left out and why."""

    table: pl.DataFrame
    names: int
    left_out: Counter[str]


def make_query_table(
    uses: NameUses,
    options: StatementOptions,
    limit: int | None = None,
    seed: int = 0,
    *,
    frequent: FrequentPieces | None = None,
    releases: Mapping[str, str] | None = None,
) -> Queries:
    """Make the queries of a corpus's names.

    Libraries take turns, each giving its names in an order by hash, so that none outweighs the others under
    any limit. A name is taken with all of its queries, so that calls and imports, and first and last pieces,
    stay equally many.

    Args:
        uses: The names of the corpus.
        options: What is asked about them. Where no templates are named, adversarial queries are left out if a
            corpus has too few aliases for them. With any objective but the masked one, whole levels alone are
            asked for, each among candidates.
        limit: At most this many names, each with all of its queries; a larger limit contains a smaller one.
        seed: Draws other names and other adversarial aliases.
        frequent: The pieces of the corpus, for the column ``unigram``; None leaves it empty.
        releases: The names that are asked about, with what a release says of each; None asks about all.

    Raises:
        UnknownNameError: A library that the corpus does not have.
        InputError: There are too few aliases for adversarial queries, or the file of words cannot be read.
    """
    names = [name for name in uses.names.values() if "." in name.name]
    libraries = {name.library for name in names}
    for library in options.libraries:
        if library not in libraries:
            raise UnknownNameError("library of the corpus", library, sorted(libraries))
    left_out = Counter({"name of one level": len(uses.names) - len(names)})
    maker = _QueryMaker(uses, names, options, seed, left_out, frequent, releases)
    rows: list[dict[str, Any]] = []
    asked_about = 0
    for name in _in_turn(uses, names, options, seed, left_out, releases):
        if asked_about == limit:
            break
        queries = list(maker.make_queries(name))
        asked_about += bool(queries)
        rows += queries
    return Queries(pl.DataFrame(rows, schema=dict(QUERY_SCHEMA), orient="row"), asked_about, left_out)


def _in_turn(
    uses: NameUses,
    names: Sequence[ApiName],
    options: StatementOptions,
    seed: int,
    left_out: Counter[str],
    releases: Mapping[str, str] | None,
) -> list[ApiName]:
    """Return the names to query, interleaved by library."""
    groups: dict[tuple[str, str, str], list[tuple[float, ApiName]]] = {}
    for name in names:
        if releases is not None and name.name not in releases:
            left_out["not of the release"] += 1
        elif releases is None and not uses.usable(name, options.scope):
            left_out["not for others to use"] += 1
        elif options.libraries and name.library not in options.libraries:
            left_out["not of the libraries named"] += 1
        else:
            order = unit_hash("quizzes", seed, name.language, name.name, name.kind)
            side = "" if releases is None else releases[name.name]
            groups.setdefault((name.language, name.library, side), []).append((order, name))
    turns: list[tuple[int, float, ApiName]] = []
    for group in groups.values():
        group.sort(key=itemgetter(0))
        turns += [(turn, order, name) for turn, (order, name) in enumerate(group[: options.per_library])]
        left_out["library is full"] += len(group[options.per_library :])
    return [name for _, _, name in sorted(turns, key=itemgetter(0, 1))]


class _QueryMaker:
    """Makes the queries of one name after the other."""

    def __init__(
        self,
        uses: NameUses,
        names: Sequence[ApiName],
        options: StatementOptions,
        seed: int,
        left_out: Counter[str],
        frequent: FrequentPieces | None,
        releases: Mapping[str, str] | None,
    ) -> None:
        self._uses = uses
        self._options = options
        self._seed = seed
        self._left_out = left_out
        self._frequent_pieces = frequent
        self._releases = releases
        self._words = options.read_words()
        self._pieces = segments(
            (level for name in names for level in name.name.split(".")), options.reference
        )
        languages = {name.language for name in uses.names.values()}
        self._templates = {
            language: get_facet(language, "imports", ImportReader).templates for language in languages
        }
        self._frames = {language: read_frames(language) for language in languages} if options.frames else {}
        self._pools = {
            language: AliasPool(
                {
                    alias: meanings
                    for (alias_language, alias), meanings in uses.stands_for.items()
                    if alias_language == language
                },
                uses.modules[language],
            )
            for language in languages
        }
        self._frequent_answers = FrequentAnswers(names, self._pieces)
        # New names of a release compete with its other names, not with what is called most elsewhere.
        competitors = names if releases is None else [name for name in names if name.name in releases]
        calls: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for name in competitors if options.objective != MASKED else ():
            levels = name.name.split(".")
            for number, level in enumerate(levels):
                calls[name.language, level_position(number, len(levels))][level] += name.calls
        self._candidates = {key: Candidates(counts) for key, counts in calls.items()}

    def make_queries(self, name: ApiName) -> Iterator[dict[str, Any]]:
        """Yield all queries of a name, plain ones before those that are compared with them."""
        forms, levels = self._templates[name.language][name.kind], name.name.split(".")
        for level in levels:
            self._left_out["subtokens do not spell the level"] += level not in self._pieces
        provenance = self._describe_name(name)
        for template in (CALL, IMPORT):
            if template in self._options.templates:
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
            if ALIAS in self._options.templates:
                yield row
            if ADVERSARIAL in self._options.templates:
                yield from self._adversarial(row, made_of, forms, levels)

    def _cut_queries(
        self, statement: Statement, template: str, levels: Sequence[str], provenance: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        text = statement.text
        for number, (level_start, level_end) in statement.levels.items():
            pieces = self._pieces.get(levels[number])
            if pieces is None:
                continue
            for mode, (start, end) in blanks(pieces).items():
                if self._options.objective != MASKED and mode not in (FULL, WHOLE):
                    continue
                span = (level_start + start, level_start + end)
                row = {
                    **provenance,
                    "template": template,
                    "mode": mode,
                    "level": number,
                    "levels": len(levels),
                    "pieces": len(pieces),
                    "level_start": level_start,
                    "level_end": level_end,
                    "candidates": self._list_competitors(provenance, levels, number),
                }
                yield make_query({**row, **self._controls(row, text[slice(*span)])}, text, *span)

    def _controls(self, row: Mapping[str, Any], answer: str) -> dict[str, int | None]:
        """Rank the answer without knowledge of the name."""
        language, library = row["language"], row["library"]
        frequent = self._frequent_answers
        if row["candidates"]:
            position = level_position(row["level"], row["levels"])
            return {"majority": frequent.rank_candidates(row["candidates"], language, position, library)}
        cell = ALIAS_CELL if row["template"] == ALIAS else ""
        pieces = self._frequent_pieces if row["mode"] != WHOLE else None
        return {
            "majority": frequent.rank(language, cell, row["mode"], answer, library),
            "unigram": pieces.rank(answer) if pieces else None,
        }

    def _list_competitors(
        self, provenance: Mapping[str, Any], levels: Sequence[str], number: int
    ) -> tuple[str, ...]:
        if self._options.objective == MASKED:
            return ()
        seed = derive_seed("candidates", self._seed, f"{provenance['name']} {number}")
        candidates = self._candidates[provenance["language"], level_position(number, len(levels))]
        return candidates.choose(levels[number], self._options.candidates, seed)

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
        pool, module = self._pools[row["language"]], ".".join(levels[:count])
        try:
            aliases = pool.draw(module, row["alias"], self._seed, row["query_id"])
        except InputError:
            if "templates" in self._options.model_fields_set:
                raise
            self._left_out["too few aliases of other modules"] += 1
            return
        for alias in aliases:
            statement = make_aliased_statement(forms[form], levels, count, alias)
            shift = statement.levels[row["level"]][0] - row["level_start"]
            yield _shift_query(row, statement.text, shift, {"template": ADVERSARIAL, "alias": alias})

    def _in_words(self, rows: Sequence[Mapping[str, Any]], name: ApiName) -> Iterator[dict[str, Any]]:
        """Yield the same queries after words about the name: the fewest words first, then by text."""
        words = self._words.get(name.name, sorted(name.contexts))
        contexts = sorted({line for line in words if line}, key=lambda line: (len(line.split()), line))
        for context in contexts[: self._options.contexts]:
            yield from _prepend_text(context + self._options.separator, rows, {"context": context})

    def _behind_imports(self, rows: Sequence[Mapping[str, Any]], name: ApiName) -> Iterator[dict[str, Any]]:
        """Yield the same queries after the imports of a file that calls the name, for some names."""
        if name.files and self._is_sampled("imports", name, self._options.imports):
            path = min(sorted(name.files), key=lambda file_path: unit_hash("site", self._seed, file_path))
            imports = _last_lines(self._uses.statements[path])
            frame_rows = [row for row in rows if row["mode"] in _FRAME_MODES]
            yield from _prepend_text(imports, frame_rows, {"frame": IMPORTS}) if imports else ()

    def _describe_name(self, name: ApiName) -> dict[str, Any]:
        return {
            **BLANK_QUERY,
            "name": name.name,
            "kind": name.kind,
            "language": name.language,
            "library": name.library,
            "aliases": len({alias.alias for alias in name.aliases}),
            "calls": name.calls,
            "files": len(name.files),
            "repositories": len(name.repositories),
            "users": sorted(self._uses.users(name)),
            "release": None if self._releases is None else self._releases[name.name],
            "paths": sorted(path_number(path) for path in name.files),
        }

    def _is_sampled(self, purpose: str, name: ApiName, share: float) -> bool:
        return unit_hash(purpose, self._seed, name.language, name.name, name.kind) < share

    def _in_frames(
        self, rows: Sequence[Mapping[str, Any]], name: ApiName, template: str, levels: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """Yield the same queries with other code around the name, for a share of the names."""
        if not self._is_sampled("frames", name, self._options.frames):
            return
        for frame, form in self._frames[name.language].get(name.kind, {}).get(template, {}).items():
            statement = make_plain_statement(form, levels)
            for row in rows:
                if row["mode"] in _FRAME_MODES:
                    shift = statement.levels[row["level"]][0] - row["level_start"]
                    yield _shift_query(row, statement.text, shift, {**_NO_CONTROLS, "frame": frame})


def _prepend_text(
    prefix: str, rows: Iterable[Mapping[str, Any]], updates: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the queries of ``rows`` with the text ``prefix`` in front."""
    for row in rows:
        text = prefix + row["prefix"] + row["answer"] + row["suffix"]
        yield _shift_query(row, text, len(prefix), {**_NO_CONTROLS, **updates})


def _last_lines(statements: Sequence[str]) -> str:
    """Return the last statements that fit into `IMPORTS_AT_MOST` characters, with their indentation."""
    lines: list[str] = []
    length = 0
    for statement in reversed(statements):
        length += len(statement) + 1
        if length > IMPORTS_AT_MOST:
            break
        lines.append(f"{statement}\n")
    return "".join(reversed(lines))


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


def _shift_query(row: Mapping[str, Any], text: str, shift: int, updates: Mapping[str, Any]) -> dict[str, Any]:
    """Make the query of a row in another text, ``shift`` characters further on, compared with the row's."""
    level = {name: row[name] + shift for name in ("level_start", "level_end")}
    return make_query(
        {**row, **updates, **level}, text, row["start"] + shift, row["end"] + shift, row["query_id"]
    )


def read_provided_queries(files: Iterable[SourceFile], *, limit: int | None, seed: int) -> pl.DataFrame:
    """Read the queries that files bring for the task ``api_cloze``; empty if they bring none.

    Args:
        files: Files of a corpus.
        limit: At most this many queries, None for all; an entry is taken with all of its words.
        seed: Draws other entries.
    """
    entries = [(file, given) for file in files for given in file.given if given.task == TASK]
    entries.sort(key=lambda entry: unit_hash("given quizzes", seed, entry[0].path))
    return _take_whole((list(_query_words(*entry)) for entry in entries), limit)


def _query_words(file: SourceFile, given: Given) -> Iterator[dict[str, Any]]:
    for word in given.label.split(","):
        text = file.text[: given.start] + word + file.text[given.end :]
        end = given.start + len(word)
        row = {
            **BLANK_QUERY,
            "template": PROVIDED_TEMPLATE,
            "mode": FULL,
            "name": file.identifier,
            "kind": "word",
            "language": file.language,
            "library": file.cluster,
            "level_start": given.start,
            "level_end": end,
            "candidates": [word],
        }
        yield make_query(row, text, given.start, end)


def _take_whole(groups: Iterable[Sequence[Mapping[str, Any]]], size: int | None) -> pl.DataFrame:
    """Build a table of at most ``size`` rows of whole groups, the first ones that fit."""
    rows: list[Mapping[str, Any]] = []
    for group in groups:
        if size is not None and len(rows) + len(group) > size:
            break
        rows += group
    return pl.DataFrame(rows, schema=dict(QUERY_SCHEMA), orient="row")


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
    preferred_name: str,
    other_name: str,
    *,
    language: str,
    library: str,
    templates: Mapping[str, str],
    forms: Sequence[str] = FORMS,
    calls: int = 1,
    spelling_margin: float | None = None,
) -> list[dict[str, Any]]:
    """Build the rows of two names, one per form of statement, in `QUERY_SCHEMA`.

    Args:
        pair: Of `PAIRS`.
        preferred_name: The name that should be preferred, fully qualified.
        other_name: The other.
        language: Public name of the language.
        library: Unit of resampling.
        templates: The language's statements of one kind of call.
        forms: Of `FORMS`.
        calls: How often the corpus has the better one.
        spelling_margin: By how many nats its spelling is the likelier one; None where that is not known.
    """
    rows: list[dict[str, Any]] = []
    for form in forms if "." in preferred_name and "." in other_name else ():
        texts = [
            make_plain_statement(templates[form], name.split(".")).text
            for name in (preferred_name, other_name)
        ]
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
            "name": preferred_name,
            "kind": other_name,
            "language": language,
            "library": library,
            "level": preferred_name.count("."),
            "levels": preferred_name.count(".") + 1,
            "answer": texts[0],
            "visible": False,
            "calls": calls,
            "candidates": texts,
            "spelling": spelling_margin,
        }
        rows.append(row)
    return rows


def margin_table(pairs: Sequence[Sequence[Mapping[str, Any]]], size: int | None, seed: int) -> pl.DataFrame:
    """Build a table of at most ``size`` rows of pairs in hash order, each pair with all of its forms."""
    order = sorted(
        (rows for rows in pairs if rows), key=lambda rows: unit_hash("margins", seed, rows[0]["query_id"])
    )
    return _take_whole(order, size).unique("query_id", keep="first", maintain_order=True)


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
