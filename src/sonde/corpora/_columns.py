"""Which column of a published data set means what."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sonde.base.errors import InputError, UnknownNameError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """The columns of one kind of data set; an empty name means that it has no such column.

    Attributes:
        kind: Name of the kind of data set.
        code: Column of the code.
        unit: ``"function"`` or ``"file"``: what a row holds.
        language: Column of the language's name; without it and ``only``, the suffix of the path says it, or
            the one language that is asked for.
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
        kind="The Stack",
        code="content",
        unit="file",
        language="lang",
        repository="max_stars_repo_name",
        path="max_stars_repo_path",
        licence="max_stars_repo_licenses",
    ),
    ColumnMap(
        kind="The Stack, small",
        code="content",
        unit="file",
        language="lang",
        repository="repository_name",
        path="path",
        licence="licenses",
    ),
    ColumnMap(
        kind="StarCoder's data",
        code="content",
        unit="file",
        repository="max_stars_repo_name",
        path="max_stars_repo_path",
    ),
    ColumnMap(
        kind="JEMMA", code="method_text", unit="function", only="java", path="method_id", name="method_name"
    ),
    ColumnMap(kind="JEMMA, as released", code="TEXT", unit="function", only="java", path="method_id"),
)
"""Tried in this order; the first whose columns are all there is used.

Sources: the data sets `code_search_net` and `codeparrot/github-code` on the hub; the manifest of ETH
Py150 Open joined with the files' content (the hub holds ``filepath`` and ``license`` alone); the data sets
`bigcode/the-stack`, `bigcode/the-stack-dedup`, `bigcode/the-stack-smol` and `bigcode/starcoderdata`; the
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
    raise InputError(
        f"corpus {corpus!r}: no column map fits the columns {sorted(found)}; name them, as in "
        f"hub:NAME?text=COLUMN&language=COLUMN; known: {known}"
    )


QUERY_COLUMNS = ("text", "language", "repository", "path", "name", "licence")
"""Options by which a query names columns; ``language`` may name a language instead."""

_USUAL = {
    "language": ("language", "lang"),
    "repository": ("repository_name", "repo_name", "max_stars_repo_name", "repository", "repo"),
    "path": ("path", "max_stars_repo_path", "filepath", "file_path"),
    "name": ("func_name", "function_name"),
    "licence": ("license", "licence"),
}
"""Columns that are read where a query does not name others and the data set has them."""


def named_columns(
    corpus: str, options: Mapping[str, str], columns: Iterable[str], languages: Collection[str]
) -> ColumnMap:
    """Return the map that a query names.

    Args:
        corpus: The corpus as it was named.
        options: Those of `QUERY_COLUMNS` and ``unit``; ``text`` among them. An empty name means no column.
        columns: The columns of the data set.
        languages: Public names of languages.

    Raises:
        UnknownNameError: There is no such column.
        UsageError: The unit is none.
    """
    found = sorted(columns)
    said = {option: options[option] for option in QUERY_COLUMNS if option in options}
    only = said.get("language", "")
    only = only.casefold() if only not in found and only.casefold() in languages else ""
    if only:
        said["language"] = ""
    for name in said.values():
        if name and name not in found:
            raise UnknownNameError(f"column in corpus {corpus!r}", name, found)
    unit = options.get("unit", "file")
    if unit not in ("file", "function"):
        raise UsageError(f"corpus {corpus!r}: unit={unit!r} is none; known: file, function")
    usual = {
        option: next((name for name in names if name in found), "")
        for option, names in _USUAL.items()
        if option not in said
    }
    chosen = {**usual, **said}
    return ColumnMap(kind="named", code=chosen.pop("text"), unit=unit, only=only, **chosen)
