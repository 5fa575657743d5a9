"""Which column of a published data set means what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sonde.base.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """The columns of one kind of data set; an empty name means that it has no such column.

    Attributes:
        kind: Name of the kind of data set.
        code: Column of the code.
        unit: ``"function"`` or ``"file"``: what a row holds.
        language: Column of the language's name.
        only: Public name of the language where a data set has just one.
        repository: Column of the repository.
        path: Column of the file's path or of the row's id.
        name: Column of the function's name.
        licence: Column of the licence.
        split: Column of the split that the data set was published with.
    """

    kind: str
    code: str
    unit: str
    language: str = ""
    only: str = ""
    repository: str = ""
    path: str = ""
    name: str = ""
    licence: str = ""
    split: str = ""

    def needed(self) -> frozenset[str]:
        """Columns by which the kind is recognised."""
        return frozenset(filter(None, (self.code, self.language, self.repository, self.path)))


COLUMN_MAPS = (
    ColumnMap(
        kind="CodeSearchNet",
        code="func_code_string",
        unit="function",
        language="language",
        repository="repository_name",
        path="func_path_in_repository",
        name="func_name",
        split="split_name",
    ),
    ColumnMap(
        kind="CodeSearchNet, as first released",
        code="code",
        unit="function",
        language="language",
        repository="repo",
        path="path",
        name="func_name",
        split="partition",
    ),
    ColumnMap(
        kind="github-code",
        code="code",
        unit="file",
        language="language",
        repository="repo_name",
        path="path",
        licence="license",
    ),
    ColumnMap(
        kind="ETH Py150 Open",
        code="content",
        unit="file",
        only="python",
        path="filepath",
        licence="license",
    ),
    ColumnMap(
        kind="JEMMA", code="method_text", unit="function", only="java", path="method_id", name="method_name"
    ),
    ColumnMap(kind="JEMMA, as released", code="TEXT", unit="function", only="java", path="method_id"),
)
"""Tried in this order; the first whose columns are all there is used.

Sources: the data sets `code_search_net` and `codeparrot/github-code` on the hub; the manifest of ETH
Py150 Open joined with the files' content (the hub holds ``filepath`` and ``license`` alone); the
representation tables of JEMMA, whose column has the representation's code as its name.
"""


def column_map(corpus: str, columns: Iterable[str]) -> ColumnMap:
    """The map that fits a data set's columns.

    Raises:
        InputError: No map fits; the columns found and those that would do are named.
    """
    found = frozenset(columns)
    for mapping in COLUMN_MAPS:
        if mapping.needed() <= found:
            return mapping
    if {"filepath", "license"} <= found:
        raise InputError(
            f"corpus {corpus!r}: this is a list of file paths without code (column 'content' is missing); "
            "add the files' text as 'content', or use local:DIR on the unpacked ETH Py150 corpus"
        )
    known = "; ".join(f"{mapping.kind}: {', '.join(sorted(mapping.needed()))}" for mapping in COLUMN_MAPS)
    raise InputError(f"corpus {corpus!r}: no column map fits the columns {sorted(found)}; known: {known}")
