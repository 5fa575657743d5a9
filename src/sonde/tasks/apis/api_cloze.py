"""Cloze queries about API names: statements with a subtoken of the name masked (INK, section 3).

Calls, imports, aliased imports, and aliased imports under the alias of another module. One named reference
segmentation fixes the queries in characters, so they are the same for all models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.corpora import Item, SkipCounter, SourceFile, read_files
from sonde.corpora.engine.parallel import ParallelMap
from sonde.tasks.engine.api_names import NameUses, add_names, gather_names, names_by_release
from sonde.tasks.engine.cloze_options import StatementOptions
from sonde.tasks.engine.cloze_queries import FrequentPieces, make_query_table, read_provided_queries
from sonde.tasks.engine.cloze_statements import make_statement_items, to_label_rows
from sonde.tasks.engine.task import DrawingTask, DrawRequest

SYNONYMS = ("API knowledge",)


class ApiCloze(DrawingTask):
    """Makes queries of whole files.

    A size counts names, each with all of its queries. Files that bring queries of their own (`codexglue`) are
    taken as they are, and the size counts queries.
    """

    name = "api_cloze"
    version = "3"

    def collect(self, files: Iterable[SourceFile]) -> list[dict[str, Any]]:
        """Return every query of a corpus with all templates, without paths and controls.

        Columns are those of `sonde.tasks.engine.cloze_queries.QUERY_SCHEMA`.

        Raises:
            InputError: There are too few aliases for adversarial queries.
        """
        corpus_files = list(files)
        queries = read_provided_queries(corpus_files, limit=None, seed=0)
        table = (
            make_query_table(gather_names(corpus_files), StatementOptions.of_every_name()).table
            if queries.is_empty()
            else queries
        )
        return to_label_rows(table)

    def draw_table(self, request: DrawRequest) -> tuple[pl.DataFrame, list[Item], dict[str, Any]]:
        """Draw the queries of names; see `DrawingTask.draw`.

        Raises:
            UsageError: An option that makes no sense.
            InputError: No name gives a query under the size, or there are too few aliases.
        """
        queries = read_provided_queries(request.files, limit=request.size, seed=request.seed)
        if not queries.is_empty():
            return queries, make_statement_items(queries), {"files": len(request.files)}
        statement_options = StatementOptions.among(request.options)
        uses = gather_names(
            request.files,
            within=statement_options.within,
            propagate=statement_options.propagate,
            parallel=request.parallel,
        )
        frequent = FrequentPieces((file.text for file in request.files), statement_options.reference)
        release: dict[str, str] = {}
        if statement_options.release or statement_options.earlier_release:
            release = names_by_release(
                statement_options.release, statement_options.earlier_release, request.language
            )
            add_names(uses, release, request.language)
        result = make_query_table(
            uses,
            statement_options,
            request.size,
            request.seed,
            frequent=frequent,
            releases=release or None,
        )
        table = result.table
        if table.is_empty():
            raise InputError(
                f"cloze queries about API names: of {len(uses.names)} names in {uses.files} files of "
                f"{request.language}, none can be queried; use a larger corpus, or option cloze.scope=all"
            )
        if statement_options.training:
            table = table.with_columns(
                trained=_called_in(statement_options.training, request.language, request.parallel)
            )
        return (
            table,
            make_statement_items(table),
            {
                "files": uses.files,
                "names": len(uses.names),
                "names_asked_about": result.names,
                "star_imports": uses.stars,
                "unplaced_imports": uses.unplaced.total(),
                "left_out": {reason: count for reason, count in result.left_out.items() if count},
                "aliases": _alias_statistics(uses),
                **({"release": dict(Counter(release.values()))} if release else {}),
            },
        )


def _called_in(corpus: str, language: str, parallel: ParallelMap) -> pl.Expr:
    """Return an expression: whether a corpus calls anything of the library of a query's name.

    Raises:
        SondeError: There is no such corpus, or it has no file in this language.
    """
    names = gather_names(read_files(corpus, (language,), SkipCounter()), parallel=parallel).names.values()
    return pl.col("library").is_in(sorted({name.library for name in names}))


def _alias_statistics(uses: NameUses) -> dict[str, float | int]:
    """Count the names under an alias, those with several aliases, and the mean number of aliases.

    As INK counts them (section 5.2): an alias counts once for a name, however often it is called so.
    """
    counts = [len({alias.alias for alias in name.aliases}) for name in uses.names.values()]
    alias_counts = [count for count in counts if count]
    mean = sum(alias_counts) / len(alias_counts) if alias_counts else 0.0
    return {"names": len(alias_counts), "several": sum(count > 1 for count in alias_counts), "mean": mean}


task = ApiCloze()
