"""Two statements that differ in a name, one of them the better one: rows for the margin between them.

A row is a query with two candidates, the better statement first, so it is scored as other statements are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from sonde.base.fingerprint import fingerprint, unit_hash
from sonde.corpora import Item
from sonde.tasks._cloze_columns import QUERY_SCHEMA
from sonde.tasks._cloze_items import statement_item
from sonde.tasks._cloze_queries import prompt_id
from sonde.tasks._cloze_statements import CALL, IMPORT, plain

REPLACEMENT, FAKE_PACKAGE, FAKE_NAME = "replacement", "fake_package", "fake_name"
PAIRS: Mapping[str, str] = {
    REPLACEMENT: "the replacement of a deprecated name against the deprecated one",
    FAKE_PACKAGE: "a package of the corpus against a made-up one",
    FAKE_NAME: "a name of the corpus against a made-up one of the same module",
}
"""What is set against what; the better one first."""

FORMS = (CALL, IMPORT)


def margin_rows(
    pair: str,
    better: str,
    worse: str,
    *,
    language: str,
    library: str,
    templates: Mapping[str, str],
    forms: Sequence[str] = FORMS,
    calls: int = 1,
    spelling: float | None = None,
) -> list[dict[str, Any]]:
    """The rows of two names, one a form of statement, in `QUERY_SCHEMA`.

    Args:
        pair: Of `PAIRS`.
        better: The name that should be preferred, fully qualified.
        worse: The other.
        language: Public name of the language.
        library: Unit of resampling.
        templates: The language's statements of one kind of call.
        forms: Of `FORMS`.
        calls: How often the corpus has the better one.
        spelling: By how many nats its spelling is the likelier one; None where that is not known.
    """
    return [
        {
            **_row(pair, form, better, worse, templates[form], language, library, calls),
            "spelling": spelling,
        }
        for form in forms
        if "." in better and "." in worse
    ]


def _row(
    pair: str, form: str, better: str, worse: str, template: str, language: str, library: str, calls: int
) -> dict[str, Any]:
    texts = [plain(template, name.split(".")).text for name in (better, worse)]
    number = fingerprint("margin", pair, form, language, *texts)
    levels = better.count(".") + 1
    return {
        "item_id": prompt_id(texts[0], language),
        "query_id": number,
        "base_id": number,
        "template": pair,
        "mode": form,
        "name": better,
        "kind": worse,
        "language": language,
        "library": library,
        "level": levels - 1,
        "levels": levels,
        "pieces": 1,
        "context": "",
        "frame": "",
        "prefix": "",
        "answer": texts[0],
        "suffix": "",
        "start": 0,
        "end": len(texts[0]),
        "level_start": 0,
        "level_end": len(texts[0]),
        "alias": "",
        "aliases": 0,
        "visible": False,
        "calls": calls,
        "files": 1,
        "repositories": 1,
        "paths": [],
        "candidates": texts,
    }


def margin_table(pairs: Sequence[Sequence[Mapping[str, Any]]], size: int | None, seed: int) -> pl.DataFrame:
    """The rows of pairs in an order by hash, each pair with all of its forms, at most ``size`` rows."""
    order = sorted(
        (rows for rows in pairs if rows), key=lambda rows: unit_hash("margins", seed, rows[0]["query_id"])
    )
    taken: list[Mapping[str, Any]] = []
    for rows in order:
        if size is not None and len(taken) + len(rows) > size:
            break
        taken += rows
    table = pl.DataFrame(taken, schema=dict(QUERY_SCHEMA), orient="row")
    return table.unique("query_id", keep="first", maintain_order=True)


def margin_items(table: pl.DataFrame) -> list[Item]:
    """The better statements as items; the others are made when they are scored."""
    first = table.unique("item_id", keep="first", maintain_order=True)
    return [statement_item(row, row["item_id"], row["answer"]) for row in first.iter_rows(named=True)]


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as ``sonde label`` writes it."""
    return {
        "pair": row["template"],
        "form": row["mode"],
        "better": row["name"],
        "worse": row["kind"],
        "better_statement": row["candidates"][0],
        "worse_statement": row["candidates"][1],
        "language": row["language"],
        "library": row["library"],
        "calls": row["calls"],
    }
