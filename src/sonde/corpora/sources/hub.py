"""A data set of the Hugging Face hub, or a folder that holds one.

``hub:NAME[@REV][?config=..&split=..]`` names a data set, and optionally a revision, a configuration and a
split. `text=COLUMN` says which column holds the code, if the data set is not one of the known ones.

Column maps say which columns of the published data sets hold the text, the language and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sonde.base.errors import InputError, UnknownNameError, UsageError
from sonde.base.files import expand_home
from sonde.corpora.engine.corpus import SkipCounter, SourceFile
from sonde.corpora.engine.select import SPLIT_OF
from sonde.corpora.engine.source_files import find_path_language, is_usable
from sonde.corpora.engine.tables import split_query
from sonde.languages import LANGUAGES

SYNONYMS = ("huggingface", "hugging face datasets", "code search net", "codesearchnet", "the stack")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMap:
    """The columns of one kind of data set; an empty name means that it has no such column.

    Attributes:
        kind: Name of the kind of data set.
        code: Column of the code.
        unit: ``"function"`` or ``"file"``: what a row holds.
        language: Column of the language's name; without it and ``constant_language``, the suffix of the path
            decides, or the one language that is requested.
        constant_language: Public name of the language if a data set has just one.
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
    constant_language: str = ""
    repository: str = ""
    path: str = ""
    name: str = ""
    licence: str = ""
    split: str = ""

    def required_columns(self) -> frozenset[str]:
        """Return the columns by which the kind is recognised."""
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
        constant_language="python",
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
        kind="JEMMA",
        code="method_text",
        unit="function",
        constant_language="java",
        path="method_id",
        name="method_name",
    ),
    ColumnMap(
        kind="JEMMA, as released", code="TEXT", unit="function", constant_language="java", path="method_id"
    ),
)
"""Tried in this order; the first whose columns are all there is used.

Sources: the data sets ``code_search_net`` and ``codeparrot/github-code`` on the hub; the manifest of ETH
Py150 Open joined with the files' content (the hub holds ``filepath`` and ``license`` alone); the data sets
``bigcode/the-stack``, ``bigcode/the-stack-dedup``, ``bigcode/the-stack-smol`` and
``bigcode/starcoderdata``; the representation tables of JEMMA, whose column has the representation's code as
its name.
"""


def column_map(corpus: str, columns: Iterable[str]) -> ColumnMap:
    """Find the map that fits a data set's columns.

    Raises:
        InputError: No map fits; the columns found and those that would do are named.
    """
    column_names = frozenset(columns)
    for mapping in COLUMN_MAPS:
        if mapping.required_columns() <= column_names:
            return mapping
    if {"filepath", "license"} <= column_names:
        raise InputError(
            f"corpus {corpus!r}: this is a list of file paths without code (column 'content' is missing); "
            "add the files' text as 'content', or use local:DIR on the unpacked ETH Py150 corpus"
        )
    known_maps = "; ".join(
        f"{mapping.kind}: {', '.join(sorted(mapping.required_columns()))}" for mapping in COLUMN_MAPS
    )
    raise InputError(
        f"corpus {corpus!r}: no column map fits the columns {sorted(column_names)}; name them, as in "
        f"hub:NAME?text=COLUMN&language=COLUMN; known: {known_maps}"
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
        options: Options of `QUERY_COLUMNS`, at least ``text``, and ``unit``. An empty name means no column.
        columns: The columns of the data set.
        languages: Public names of languages.

    Raises:
        UnknownNameError: There is no such column.
        UsageError: The unit is unknown.
    """
    column_names = sorted(columns)
    named_options = {option: options[option] for option in QUERY_COLUMNS if option in options}
    constant_language = named_options.get("language", "")
    constant_language = (
        constant_language.casefold()
        if constant_language not in column_names and constant_language.casefold() in languages
        else ""
    )
    if constant_language:
        named_options["language"] = ""
    for name in named_options.values():
        if name and name not in column_names:
            raise UnknownNameError(f"column in corpus {corpus!r}", name, column_names)
    unit = options.get("unit", "file")
    if unit not in ("file", "function"):
        raise UsageError(f"corpus {corpus!r}: unknown unit={unit!r}; known: file, function")
    usual = {
        option: next((name for name in names if name in column_names), "")
        for option, names in _USUAL.items()
        if option not in named_options
    }
    column_by_role = {**usual, **named_options}
    return ColumnMap(
        kind="named",
        code=column_by_role.pop("text"),
        unit=unit,
        constant_language=constant_language,
        **column_by_role,
    )


_OPTIONS = ("config", "split", "streaming", "unit", *QUERY_COLUMNS)


@dataclass(frozen=True, slots=True)
class _Request:
    """``NAME[@REV][?config=..&split=..&streaming=..]``, parsed; with what the query says of columns."""

    name: str
    revision: str | None
    config: str | None
    split: str | None
    streaming: bool
    columns: Mapping[str, str]


def _parse(argument: str) -> _Request:
    location, options = split_query(f"hub:{argument}", argument, _OPTIONS)
    columns = {name: options[name] for name in ("unit", *QUERY_COLUMNS) if name in options}
    if columns and not columns.get("text"):
        raise UsageError(
            f"corpus 'hub:{argument}': {min(columns)}= needs the column of the code; add text=COLUMN"
        )
    if not location:
        raise UsageError("corpus 'hub' needs a data set; name it as hub:NAME[@REV][?config=..&split=..]")
    name, separator, revision = location.partition("@")
    if expand_home(location).is_dir():
        name, separator, revision = str(expand_home(location)), "", ""
    streaming = options.get("streaming", "no").lower() in ("", "1", "true", "yes")
    selected_revision = revision if separator else None
    return _Request(name, selected_revision, options.get("config"), options.get("split"), streaming, columns)


class Hub:
    """`hub:NAME[@REV][?config=..&split=..&streaming=..]`, where NAME may be a folder.

    Known are CodeSearchNet, github-code, The Stack, StarCoder's data, ETH Py150 Open and JEMMA, by their
    columns. Of others the query names them: ``?text=COLUMN``, and where they are called otherwise than
    usual ``language`` (or the language itself), ``repository``, ``path``, ``name`` and ``licence``;
    ``unit=function`` says that a row is one function. Without a split, all of them are read. Rows in a
    language that sonde does not know are counted as ``other language``. Cluster and repository are the
    row's repository; rows without one are clusters of their own. Rows of CodeSearchNet keep the split that
    they were published with.
    """

    def files(self, argument: str, languages: tuple[str, ...], intake: SkipCounter) -> Iterator[SourceFile]:
        """Yield one file per row, splits by name and rows in order.

        Raises:
            InputError: The data set cannot be loaded, or no column map fits it.
            UsageError: An unknown option.
        """
        request = _parse(argument)
        corpus = f"hub:{argument}"
        language_names = {name.casefold(): name for name in languages or LANGUAGES.names()}
        for split, rows in sorted(_load(corpus, request).items()):
            mapping: ColumnMap | None = None
            for number, row in enumerate(rows):
                if mapping is None:
                    mapping = (
                        named_columns(corpus, request.columns, row, LANGUAGES.names())
                        if request.columns
                        else column_map(corpus, row)
                    )
                    _check_language(corpus, mapping, languages)
                file = _file(row, mapping, f"{split}/{number}", language_names)
                if file is None:
                    intake.note("other language", f"{split}/{number}")
                elif is_usable(file.text, file.path, intake):
                    yield file


def _check_language(corpus: str, mapping: ColumnMap, languages: tuple[str, ...]) -> None:
    """Raise an error if nothing says the language of a data set."""
    if not (mapping.language or mapping.constant_language or mapping.path or len(languages) == 1):
        raise UsageError(
            f"corpus {corpus!r}: no column has the language; name it with --language, or in the "
            "corpus as language=COLUMN or language=python"
        )


def _language(row: Mapping[str, Any], mapping: ColumnMap, language_names: Mapping[str, str]) -> str | None:
    """Return the public name of a row's language; None where it is not wanted."""
    if mapping.constant_language or mapping.language:
        return language_names.get(
            (mapping.constant_language or str(row.get(mapping.language) or "")).casefold()
        )
    by_suffix = find_path_language(str(row.get(mapping.path) or "")) if mapping.path else None
    if by_suffix is None and len(language_names) == 1:
        (by_suffix,) = language_names
    return language_names.get(by_suffix or "")


def _file(
    row: Mapping[str, Any], mapping: ColumnMap, number: str, language_names: dict[str, str]
) -> SourceFile | None:
    def value(column: str) -> str:
        cell = (row.get(column) or "") if column else ""
        # The Stack lists the licences of a file.
        return " OR ".join(map(str, cell)) if isinstance(cell, list) else str(cell)

    language = _language(row, mapping, language_names)
    if language is None:
        return None
    repository = value(mapping.repository)
    if not repository and mapping.unit == "file":
        # The paths of ETH Py150 begin with owner and repository.
        repository = "/".join(PurePosixPath(value(mapping.path)).parts[:2])
    path = "/".join(filter(None, (number, value(mapping.repository), value(mapping.path))))
    return SourceFile(
        path=path,
        text=value(mapping.code),
        language=language,
        cluster=repository or path,
        repository=repository or path,
        licence=value(mapping.licence),
        unit=mapping.unit,
        name=value(mapping.name),
        split=SPLIT_OF.get(value(mapping.split).casefold(), ""),
    )


def _load(corpus: str, request: _Request) -> dict[str, Any]:
    """Load splits by name. `datasets` is imported only here, since that takes a second."""
    import datasets

    folder = Path(request.name)
    try:
        if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
            data = datasets.load_from_disk(request.name)
            if request.split is not None and isinstance(data, datasets.DatasetDict):
                data = data[request.split]
        else:
            data = datasets.load_dataset(
                request.name,
                request.config,
                split=request.split,
                revision=request.revision,
                streaming=request.streaming,
            )
    except Exception as error:
        # The library raises its own, the hub client's, pyarrow's and the network's errors alike.
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"corpus {corpus!r} cannot be loaded: {reason}") from error
    if isinstance(data, dict):
        return {str(split): rows for split, rows in data.items()}
    return {request.split or "all": data}


source = Hub()
