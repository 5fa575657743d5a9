"""Origin of a call: its own file, its repository, a builtin, or outside.

PERPLEXED, section 3.3, compares calls whose name the repository defines with all others. Only names decide:
types of receivers are unknown, and an import that gives a builtin's name to something else goes unnoticed.

Each call also has the library that it comes from, if its name begins with an import of the text or of its
file (`sonde.languages.engine.imports`).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.corpora import Item
from sonde.languages import LANGUAGES, Call, get_facet, has_facet
from sonde.languages.engine.imports import ImportReader
from sonde.results.schema import Columns, to_schema
from sonde.tasks.engine.task import (
    LABEL_COLUMNS,
    ItemLabels,
    Repository,
    get_repository,
    is_defined_in_other_file,
)

SYNONYMS = ("internal and external calls", "project API calls")

CALL_COLUMNS: Columns = {
    **LABEL_COLUMNS,
    "part": (pl.String, "which part of the call the characters are: `name` or `arguments`"),
    "call_form": (pl.String, "`bare` or `method`"),
    "name": (pl.String, "the name that is called"),
    "library": (
        pl.String,
        "library of the import that the call goes through (`json` in `json.dumps()`); empty without one",
    ),
}

CALL_SCHEMA = to_schema(CALL_COLUMNS)

CallRow = tuple[int, int, str | None, None, str, str, str, str]
"""A row in `CALL_SCHEMA`."""


class CallOrigin(ItemLabels):
    """Labels every call by name, in two spans: its name and its arguments, if written, brackets included.

    - ``builtin``: called bare under a name that the language provides, unless the item's own file defines a
      function or class of that name (then it is shadowed, and ``local``). Names of other files do not shadow
      it: ``open`` stays the builtin though some class of the repository has a method ``open``.
    - ``internal``: another file of the repository defines the name.
    - ``local``: only the item's own file does.
    - ``external``: the repository does not define it.
    - null: the call is inside an ERROR node, where a call cannot be told from a fragment; it is listed so
    that it can be counted, and is in no comparison.
    """

    name = "call_origin"
    version = "2"
    target = "span"
    labels = ("internal", "local", "builtin", "external")
    needs_repository = True
    needs_imports = True
    schema = CALL_SCHEMA

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[CallRow]:
        """Return two rows per call, or one if it is written without arguments.

        Raises:
            InputError: The item's repository is not among ``repositories``.
        """
        repository = get_repository(item, repositories)
        language = LANGUAGES.load(item.language)
        rows: list[CallRow] = []
        libraries = find_libraries(item, repository)
        for call in language.calls(item.text):
            label = None if call.in_error else origin(call, item.path, repository, language.builtins)
            form = "method" if call.is_method else "bare"
            columns = (form, call.name, libraries.get(call.end, ""))
            rows.append((call.start, call.end, label, None, "name", *columns))
            if call.arguments_end > call.arguments_start:
                rows.append((call.arguments_start, call.arguments_end, label, None, "arguments", *columns))
        return rows


def find_libraries(item: Item, repository: Repository) -> dict[int, str]:
    """Return the library of each call through an import, by the end of the called name.

    Args:
        item: The text.
        repository: Holds the import statements of the item's file, if they are known.
    """
    if not has_facet(item.language, "imports"):
        return {}
    reader = get_facet(item.language, "imports", ImportReader)
    found = reader.read(item.text, file_imports=repository.imports.get(item.path, ""))
    libraries: dict[int, str] = {}
    for call in found.calls:
        levels = call.name.split(".")
        # The called name itself is no library, unless nothing stands before it.
        size = min(reader.library_levels, max(len(levels) - 1, 1))
        libraries[call.end] = ".".join(levels[:size])
    return libraries


def origin(call: Call, path: str, repository: Repository, builtins: frozenset[str]) -> str:
    """Return the label of a call by its name.

    Args:
        call: The call.
        path: The file of the call.
        repository: Definitions of the file's repository.
        builtins: Names that the language provides.
    """
    definitions = repository.definitions.get(call.name, ())
    if not call.is_method and call.name in builtins:
        is_shadowed = any(
            definition_path == path and definition.kind != "method"
            for definition_path, definition in definitions
        )
        return "local" if is_shadowed else "builtin"
    if is_defined_in_other_file(call.name, path, repository):
        return "internal"
    return "local" if definitions else "external"


task = CallOrigin()
