"""Queries that a published file brings: a word left out of a function, and the words that compete for it.

The right one is not published (CodeXGLUE's ClozeTest), so there is a query for each word, and what can be had
is which word a model prefers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from sonde.base.fingerprint import unit_hash
from sonde.corpora import Given, SourceFile
from sonde.tasks._cloze_columns import QUERY_SCHEMA
from sonde.tasks._cloze_queries import asked

TASK = "api_cloze"
GIVEN = "clozetest"
"""Template of such queries."""


def given_queries(files: Iterable[SourceFile], *, limit: int | None, seed: int) -> pl.DataFrame:
    """The queries that files bring for this task; empty where they bring none.

    Args:
        files: Files of a corpus.
        limit: At most this many queries, None for all; an entry is taken with all of its words.
        seed: Draws other entries.
    """
    entries = [(file, given) for file in files for given in file.given if given.task == TASK]
    entries.sort(key=lambda entry: unit_hash("given quizzes", seed, entry[0].path))
    rows: list[dict[str, Any]] = []
    for file, given in entries:
        made = list(_queries(file, given))
        if limit is not None and len(rows) + len(made) > limit:
            break
        rows += made
    return pl.DataFrame(rows, schema=dict(QUERY_SCHEMA), orient="row")


def _queries(file: SourceFile, given: Given) -> Iterator[dict[str, Any]]:
    for word in given.label.split(","):
        text = file.text[: given.start] + word + file.text[given.end :]
        end = given.start + len(word)
        row = {
            "template": GIVEN,
            "mode": "full",
            "name": file.identifier,
            "kind": "word",
            "language": file.language,
            "library": file.cluster,
            "level": 0,
            "levels": 1,
            "pieces": 1,
            "context": "",
            "frame": "",
            "level_start": given.start,
            "level_end": end,
            "alias": "",
            "aliases": 0,
            "calls": 1,
            "files": 1,
            "repositories": 1,
            "paths": [],
            "candidates": [word],
        }
        yield asked(row, text, given.start, end)
