"""Options of tasks about names of APIs, and queries that a published file provides.

The options are those that concern the queries; the lenses that ask them add options of their own.

A provided query is a word left out of a function, with the words that compete for it. The right one is not
published (CodeXGLUE's ClozeTest), so there is a query for each word, and the result can only be which word a
model prefers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import polars as pl
from annotated_types import Ge, Le

from sonde.base.errors import InputError
from sonde.base.files import expand_home
from sonde.base.fingerprint import unit_hash
from sonde.base.options import MAXIMUM_INTEGER, Count, OneOf, Options, Share, option
from sonde.corpora import Given, SourceFile
from sonde.tasks.engine.api_names import SCOPES, SHARED, WITHIN
from sonde.tasks.engine.cloze_queries import BLANK_QUERY, QUERY_SCHEMA, REFERENCE, QueryRules, make_query
from sonde.tasks.engine.cloze_statements import ALIAS, CALL, IMPORT, MAXIMUM_CANDIDATES, TEMPLATES

PER_LIBRARY = 50


MASKED, CANDIDATES, PLL, ANSWERS = "masked", "candidates", "pll", "answers"


PROMPTED = (CALL, IMPORT, ALIAS)


class QueryOptions(Options):
    """Options of every task about names of APIs."""

    lens = "cloze"

    reference: str = option(
        REFERENCE, "tokenizer that cuts names into subtokens: a bundled model or a tokenizer.json"
    )


class PromptOptions(QueryOptions):
    """Options of the queries that are asked in words."""

    lens = "prompting"

    templates: tuple[Annotated[str, OneOf(PROMPTED)], ...] = option(
        PROMPTED, "which statements are asked about"
    )


class PairOptions(QueryOptions):
    """Options of pairs of names, one of them the better."""

    scope: Annotated[str, OneOf(SCOPES)] = option(
        SHARED,
        "shared for names that others can use (public, and called from outside the repository that defines "
        "them, or documented), public for all without a leading underscore on their path, all for every name",
    )
    per_library: Count = option(PER_LIBRARY, "names of a library at most, so that no large one decides")
    deprecated: str = option(
        "",
        "for task api_deprecated: CSV file with the columns deprecated and replacement, in place of the "
        "pairs that the corpus states",
        file_name=True,
    )


class StatementOptions(PairOptions):
    """Options of the queries that are cut from statements."""

    templates: tuple[Annotated[str, OneOf(TEMPLATES)], ...] = option(
        TEMPLATES, "which statements are asked about"
    )
    libraries: tuple[str, ...] = option(
        (), "libraries whose names alone are asked about, so that each has enough of them; all by default"
    )
    within: Annotated[str, OneOf(WITHIN)] = option(
        "file", "file for every call, function for those inside functions alone"
    )
    propagate: bool = option(False, "calls on what an imported name gave count, one step far")
    training: str = option(
        "",
        "a corpus by name: names of its libraries count as seen, for models that do not say what they were "
        "trained on",
        corpus_name=True,
    )
    frames: Share = option(
        0.05, "share of the names whose calls and imports are also asked with other code around them"
    )
    imports: Share = option(
        0.0, "share of the names whose calls are also asked behind the imports of a file that calls them"
    )
    release: str = option(
        "",
        "a release of a library, as pypi:NAME==VERSION: its public names are asked about",
        corpus_name=True,
    )
    earlier_release: str = option(
        "", "an earlier release: names that it lacks are told apart from those that it has", corpus_name=True
    )
    contexts: Annotated[int, Ge(0), Le(MAXIMUM_INTEGER)] = option(
        0, "at most so many lines of words before a statement, each a cloze query of its own"
    )
    queries: str = option(
        "", "JSON file of words by name, in place of the first lines of documentation", file_name=True
    )
    separator: str = option("\n", "what stands between words and statement")
    objective: Annotated[str, OneOf((MASKED, CANDIDATES, PLL, ANSWERS))] = option(
        MASKED,
        "masked: one subtoken is left out, of decoders those with tokens for filling in; candidates: "
        "whole statements with each of several names, which decoders score from left to right and other "
        "models by pseudo-log-likelihood; pll: the same, without decoders; answers: of each of several names "
        "its own subtokens alone are scored, all of them; where none is named, candidates if a decoder is "
        "among the models",
    )
    candidates: Annotated[int, Ge(2), Le(MAXIMUM_CANDIDATES)] = option(
        MAXIMUM_CANDIDATES, "names for each level at most, with candidates, pll and answers"
    )

    def to_query_rules(self, size: int, seed: int) -> QueryRules:
        """Return the rules for queries of at most ``size`` names.

        Raises:
            InputError: The file of queries cannot be read.
        """
        return QueryRules(
            templates=self.templates,
            reference=self.reference,
            contexts=self.contexts,
            queries=_queries(self.queries) if self.queries else {},
            separator=self.separator,
            framed=self.frames,
            imported=self.imports,
            scope=self.scope,
            libraries=self.libraries,
            per_library=self.per_library,
            lenient="templates" not in self.model_fields_set,
            candidates=0 if self.objective == MASKED else self.candidates,
            limit=size,
            seed=seed,
        )


def _queries(name: str) -> Mapping[str, Sequence[str]]:
    path = expand_home(name)
    try:
        queries = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"queries {name!r}: no such file") from None
    except ValueError:
        raise InputError(f"queries {name!r}: not JSON") from None
    if not isinstance(queries, dict) or not all(_is_words(words) for words in queries.values()):
        raise InputError(f'queries {name!r}: not of the form {{"name": ["words", ...]}}')
    return queries


def _is_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


TASK = "api_cloze"


PROVIDED_TEMPLATE = "clozetest"
"""Template of such queries."""


def read_provided_queries(files: Iterable[SourceFile], *, limit: int | None, seed: int) -> pl.DataFrame:
    """Read the queries that files bring for this task; empty if they bring none.

    Args:
        files: Files of a corpus.
        limit: At most this many queries, None for all; an entry is taken with all of its words.
        seed: Draws other entries.
    """
    entries = [
        (file, source_label) for file in files for source_label in file.given if source_label.task == TASK
    ]
    entries.sort(key=lambda entry: unit_hash("given quizzes", seed, entry[0].path))
    rows: list[dict[str, Any]] = []
    for file, source_label in entries:
        queries = list(_given_queries(file, source_label))
        if limit is not None and len(rows) + len(queries) > limit:
            break
        rows += queries
    return pl.DataFrame(rows, schema=dict(QUERY_SCHEMA), orient="row")


def _given_queries(file: SourceFile, source_label: Given) -> Iterator[dict[str, Any]]:
    for word in source_label.label.split(","):
        text = file.text[: source_label.start] + word + file.text[source_label.end :]
        end = source_label.start + len(word)
        row = {
            **BLANK_QUERY,
            "template": PROVIDED_TEMPLATE,
            "mode": "full",
            "name": file.identifier,
            "kind": "word",
            "language": file.language,
            "library": file.cluster,
            "level_start": source_label.start,
            "level_end": end,
            "candidates": [word],
        }
        yield make_query(row, text, source_label.start, end)
