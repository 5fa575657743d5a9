"""Deprecated API names paired with their replacements: which one does the model find likelier?

Pairs come from the files of a corpus (deprecation warnings, decorators, documentation, errors about removed
names), or from your own table.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.base.files import expand_home
from sonde.corpora import Item, SourceFile
from sonde.corpora.engine.parallel import ONE, ItemChunk, ParallelMap
from sonde.languages import get_facet, has_facet
from sonde.languages.engine.deprecations import Deprecation, Deprecations
from sonde.languages.engine.imports import ImportReader
from sonde.tasks.engine.cloze_options import PairOptions
from sonde.tasks.engine.cloze_queries import (
    FORMS,
    REPLACEMENT,
    margin_rows,
    margin_table,
    to_margin_rows,
)
from sonde.tasks.engine.cloze_statements import CALL, make_statement_items
from sonde.tasks.engine.task import DrawingTask, DrawRequest

SYNONYMS = ("deprecation", "outdated API")

_KIND = "call"
PRIVATE = "private name"


class DeprecatedNames(DrawingTask):
    """Pairs of a deprecated name and its replacement.

    The option ``deprecated`` names a CSV file with the columns ``deprecated`` and ``replacement``, which is
    read in place of the corpus.
    """

    name = "api_deprecated"
    version = "2"

    def collect(self, files: Iterable[SourceFile]) -> list[dict[str, Any]]:
        """Return every pair of a corpus with its statements."""
        pairs, _ = gather_deprecations(files)
        return to_margin_rows(margin_table(_rows(pairs), None, 0))

    def draw_table(self, request: DrawRequest) -> tuple[pl.DataFrame, list[Item], dict[str, Any]]:
        """Draw at most ``size`` statements of pairs; see `DrawingTask.draw`.

        Raises:
            InputError: The table cannot be read, or there is no pair.
        """
        table = PairOptions.among(request.options).deprecated
        left_out: Counter[str] = Counter()
        if table:
            pairs = {(request.language, *pair): 1 for pair in read_pair_table(table)}
        else:
            pairs, left_out = gather_deprecations(request.files, request.parallel)
        examples = margin_table(_rows(pairs), request.size, request.seed)
        if examples.is_empty():
            raise InputError(
                f"deprecated names in {request.language}: {table or 'the corpus'} has no pair of a name and "
                f"its replacement; use a table (option deprecated = FILE.csv) or a corpus of libraries"
            )
        details = {"pairs": len(pairs), "left_out": dict(sorted(left_out.items()))}
        return examples, make_statement_items(examples), details


Pair = tuple[str, str, str, tuple[int, int]]
"""Language, deprecated name, replacement, and how many levels of each are members of a class."""


def gather_deprecations(
    files: Iterable[SourceFile], parallel: ParallelMap = ONE
) -> tuple[dict[Pair, int], Counter[str]]:
    """Collect the pairs that files state of their own names, and count why messages gave none."""
    files_by_repository: dict[tuple[str, str], list[SourceFile]] = defaultdict(list)
    for file in files:
        if has_facet(file.language, "deprecations") and has_facet(file.language, "imports"):
            files_by_repository[file.language, file.repository].append(file)
    pairs: Counter[Pair] = Counter()
    left_out: Counter[str] = Counter()
    for (language, repository), repository_files in sorted(files_by_repository.items()):
        facet = get_facet(language, "deprecations", Deprecations)
        imports = get_facet(language, "imports", ImportReader)
        import_paths = imports.to_import_paths(
            [file.path for file in repository_files], repository.rpartition("/")[2]
        )
        deprecations: list[Deprecation] = []
        for _, (file_deprecations, reasons) in parallel.of_files.map(
            _read_deprecations, (language, import_paths), repository_files, share=_restrict_rule
        ):
            left_out.update(reasons)
            deprecations += file_deprecations
        if not deprecations:
            continue
        mentioned_names = {
            name for deprecation in deprecations for name in (deprecation.deprecated, deprecation.replacement)
        }
        public = facet.public(
            sorted(mentioned_names), ((file.text, import_paths[file.path]) for file in repository_files)
        )
        for deprecation in deprecations:
            names = public[deprecation.deprecated], public[deprecation.replacement]
            if any(level.startswith("_") for name in names for level in name.split(".")):
                left_out[PRIVATE] += 1
            else:
                pairs[language, *names, deprecation.members] += 1
    return dict(sorted(pairs.items())), left_out


def _restrict_rule(
    rule: tuple[str, Mapping[str, str]], files: Sequence[SourceFile]
) -> tuple[str, Mapping[str, str]]:
    return rule[0], {file.path: rule[1][file.path] for file in files}


def _read_deprecations(
    part: ItemChunk[tuple[str, Mapping[str, str]], SourceFile],
) -> list[tuple[Sequence[Deprecation], Mapping[str, int]]]:
    """Read the deprecations of some files, and count why messages gave none; runs in any process."""
    language, import_paths = part.rule
    facet = get_facet(language, "deprecations", Deprecations)
    return [facet.read(file.text, import_paths[file.path]) for file in part.items]


def read_pair_table(name: str) -> list[tuple[str, str, tuple[int, int]]]:
    """Read the pairs of a user's table.

    Raises:
        InputError: It is not there, lacks a column, or a row has no name of two levels.
    """
    path = expand_home(name)
    try:
        with path.open(encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise InputError(f"deprecated names {name!r}: no such file; name a CSV file") from None
    pairs: list[tuple[str, str, tuple[int, int]]] = []
    for number, row in enumerate(rows, start=2):
        old, new = (row.get("deprecated") or "").strip(), (row.get("replacement") or "").strip()
        if not all(
            qualified_name.count(".") and all(qualified_name.split(".")) for qualified_name in (old, new)
        ):
            raise InputError(
                f"deprecated names {name!r}, line {number}: the columns deprecated and replacement need "
                f"fully qualified names"
            )
        pairs.append((old, new, (0, 0)))
    return pairs


def _rows(pairs: Mapping[Pair, int]) -> Sequence[list[dict[str, Any]]]:
    rows: list[list[dict[str, Any]]] = []
    for (language, old, new, members), count in pairs.items():
        facet = get_facet(language, "imports", ImportReader)
        library = ".".join(old.split(".")[: facet.library_levels])
        # A member of a class is called, and no import names it.
        forms = (CALL,) if any(members) else FORMS
        rows.append(
            margin_rows(
                REPLACEMENT,
                new,
                old,
                language=language,
                library=library,
                templates=facet.templates[_KIND],
                forms=forms,
                calls=count,
            )
        )
    return rows


task = DeprecatedNames()
