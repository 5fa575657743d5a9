"""Lists the APIs that a corpus calls, by fully qualified name (INK, section 3.1).

One row per distinct name. Whole files are read: a corpus of single functions has few names, because a
function's imports are outside it. A note lists imports without a name, such as relative ones that leave the
corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from sonde.corpora import SourceFile
from sonde.languages import get_facet
from sonde.languages.engine.imports import ImportReader
from sonde.results.schema import Columns, to_schema
from sonde.tasks.engine.api_names import ApiName, NameUses, gather_names

NAMES_COLUMNS: Columns = {
    "name": (pl.String, "fully qualified"),
    "kind": (pl.String, "kind of call, as the language defines it"),
    "language": (pl.String, "public name"),
    "library": (pl.String, "its leading levels"),
    "calls": (pl.Int64, "how often the corpus calls it"),
    "files": (pl.Int64, "in how many files"),
    "repositories": (pl.Int64, "in how many repositories"),
    "aliases": (pl.List(pl.String), "distinct aliases that it is called through"),
}
"""Columns of the names of a corpus, one row a distinct name and kind of call."""

NAMES_SCHEMA = to_schema(NAMES_COLUMNS)


class ApiNames:
    """Lists names with their calls, files, repositories and aliases."""

    name = "api_names"
    version = "1"
    target = "corpus"

    def collect(self, files: Iterable[SourceFile]) -> list[dict[str, Any]]:
        """Return the rows of `to_names_table`."""
        return self.collect_with_notes(files)[0]

    def collect_with_notes(self, files: Iterable[SourceFile]) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the rows, and lines on what they leave out."""
        uses = gather_names(files)
        return to_names_table(uses).to_dicts(), list(_unnamed_messages(uses))


def to_names_table(uses: NameUses) -> pl.DataFrame:
    """Return the names of a corpus in `NAMES_SCHEMA`, sorted by calls, then by name."""
    rows = [_row(name) for name in uses.names.values()]
    table = pl.DataFrame(rows, schema=dict(NAMES_SCHEMA), orient="row")
    return table.sort("calls", "name", "kind", "language", descending=[True, False, False, False])


def _unnamed_messages(uses: NameUses) -> Iterator[str]:
    """Yield what has no name, by language."""
    for language, count in sorted(uses.unplaced.items()):
        if count:
            kind = get_facet(language, "imports", ImportReader).unplaced_kind
            yield f"{count:,} import{'s' * (count > 1)} in {language} without names: {kind}"
    if uses.stars:
        yield f"{uses.stars:,} star import{'s' * (uses.stars > 1)} without names: their bindings are unknown"
    for language, count in sorted(uses.without_imports.items()):
        yield f"{count:,} file{'s' * (count > 1)} in {language} without names: no import there binds a name"


def _row(name: ApiName) -> tuple[object, ...]:
    aliases = sorted({alias.alias for alias in name.aliases})
    counts = (name.calls, len(name.files), len(name.repositories))
    return (name.name, name.kind, name.language, name.library, *counts, aliases)


task = ApiNames()
