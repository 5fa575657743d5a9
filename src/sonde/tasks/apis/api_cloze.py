"""Cloze queries about the names of APIs: statements with a subtoken of a name left out (INK, section 3).

Calls, imports, aliased imports, and aliased imports under the alias of another module. The queries are fixed
in characters by one named reference segmentation; which models are asked never changes them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.corpora import Item, SkipCounter, SourceFile, read_files
from sonde.corpora.engine.parallel import ParallelMap
from sonde.tasks.engine.api_names import NameUses, add_names, gather_names, names_by_release
from sonde.tasks.engine.cloze_options import StatementOptions, read_provided_queries
from sonde.tasks.engine.cloze_queries import FrequentPieces, QueryRules, make_query_table
from sonde.tasks.engine.cloze_statements import make_statement_items, to_label_rows
from sonde.tasks.engine.task import DrawingTask


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
        held = list(files)
        given = read_provided_queries(held, limit=None, seed=0)
        table = make_query_table(gather_names(held), QueryRules()).table if given.is_empty() else given
        return to_label_rows(table)

    def draw_table(
        self,
        files: Sequence[SourceFile],
        size: int,
        seed: int,
        language: str,
        options: Mapping[str, Any],
        spread: ParallelMap,
    ) -> tuple[pl.DataFrame, list[Item], dict[str, Any]]:
        """Draw the queries of names; see `DrawingTask.draw`.

        Raises:
            UsageError: An option that makes no sense.
            InputError: No name gives a query under the size, or there are too few aliases.
        """
        given = read_provided_queries(files, limit=size, seed=seed)
        if not given.is_empty():
            return given, make_statement_items(given), {"files": len(files)}
        chosen = StatementOptions.among(options)
        gathered = gather_names(files, within=chosen.within, propagate=chosen.propagate, spread=spread)
        frequent = FrequentPieces((file.text for file in files), chosen.reference)
        rules, release = chosen.to_query_rules(size, seed), dict[str, str]()
        if chosen.release or chosen.earlier_release:
            release = names_by_release(chosen.release, chosen.earlier_release, language)
            add_names(gathered, release, language)
            rules = dataclasses.replace(rules, releases=release)
        made = make_query_table(gathered, rules, frequent)
        table = made.table
        if table.is_empty():
            raise InputError(
                f"cloze queries about names of APIs: of {len(gathered.names)} names in {gathered.files} "
                f"files of {language} none is asked about; name a larger corpus, or give the option "
                "cloze.scope=all"
            )
        if chosen.training:
            table = table.with_columns(trained=_called_in(chosen.training, language, spread))
        return (
            table,
            make_statement_items(table),
            {
                "files": gathered.files,
                "names": len(gathered.names),
                "names_asked_about": made.names,
                "star_imports": gathered.stars,
                "unplaced_imports": gathered.unplaced,
                "left_out": {reason: count for reason, count in made.left_out.items() if count},
                "aliases": _alias_statistics(gathered),
                **({"release": dict(Counter(release.values()))} if release else {}),
            },
        )


def _called_in(corpus: str, language: str, spread: ParallelMap) -> pl.Expr:
    """Return an expression: whether a corpus calls anything of the library of a query's name.

    Raises:
        SondeError: There is no such corpus, or it has no file in this language.
    """
    found = gather_names(read_files(corpus, (language,), SkipCounter()), spread=spread).names.values()
    return pl.col("library").is_in(sorted({name.library for name in found}))


def _alias_statistics(gathered: NameUses) -> dict[str, float | int]:
    """Count the names under an alias, those with several aliases, and the mean number of aliases.

    As INK counts them (section 5.2): an alias counts once for a name, however often it is called so.
    """
    counts = [len({alias.alias for alias in name.aliases}) for name in gathered.names.values()]
    aliased = [count for count in counts if count]
    mean = sum(aliased) / len(aliased) if aliased else 0.0
    return {"names": len(aliased), "several": sum(count > 1 for count in aliased), "mean": mean}


task = ApiCloze()
