"""Origin of a call: its own file, its repository, a builtin, or outside.

PERPLEXED, section 3.3, compares calls whose name the repository defines with all others. Only names decide:
types of receivers are unknown, and an import that gives a builtin's name to something else goes unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sonde.corpora import Item
from sonde.languages import LANGUAGES, Call
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
}

CALL_SCHEMA = to_schema(CALL_COLUMNS)

CallRow = tuple[int, int, str | None, None, str, str, str]
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
    target = "span"
    labels = ("internal", "local", "builtin", "external")
    needs_repository = True
    schema = CALL_SCHEMA

    def label_rows(self, item: Item, repositories: Mapping[str, Repository]) -> list[CallRow]:
        """Return two rows per call, or one if it is written without arguments.

        Raises:
            InputError: The item's repository is not among ``repositories``.
        """
        repository = get_repository(item, repositories)
        language = LANGUAGES.load(item.language)
        rows: list[CallRow] = []
        for call in language.calls(item.text):
            label = None if call.in_error else origin(call, item.path, repository, language.builtins)
            form = "method" if call.is_method else "bare"
            rows.append((call.start, call.end, label, None, "name", form, call.name))
            if call.arguments_end > call.arguments_start:
                rows.append(
                    (call.arguments_start, call.arguments_end, label, None, "arguments", form, call.name)
                )
        return rows


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
