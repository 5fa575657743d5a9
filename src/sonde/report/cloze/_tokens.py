"""AnsweredQueries to the names that single functions call, for the explorer of tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from typing import Any

import polars as pl

from sonde.languages import LANGUAGES
from sonde.report._shared.run import RunData
from sonde.report._shared.tokens import ANSWER, Findings, Rows, TokenLens
from sonde.report.cloze._answers import AnsweredQueries
from sonde.report.cloze._scores import LENS
from sonde.results.columns import scan_files
from sonde.tasks._cloze_queries import path_number

_COLUMNS = ("group", "said", "right", "hit", "rank", "top")

_GROUP = "names that are called"

_BY_NAME = (
    (pl.col("template") == "call") & (pl.col("mode") == "whole") & (pl.col("level") == pl.col("levels") - 1)
)
"""Queries after the called name itself, asked as a whole."""

_Asked = Mapping[tuple[int, str], Sequence[Mapping[str, Any]]]
"""By file and called name, the queries that were asked."""


def _asked(held: AnsweredQueries) -> _Asked:
    found: defaultdict[tuple[int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in held.ranked.filter(_BY_NAME).iter_rows(named=True):
        for path in row["paths"]:
            found[path, row["answer"]].append(row)
    return found


def _known(run: RunData) -> list[str]:
    """Functions that call a name that was asked of their file."""
    names: defaultdict[int, set[str]] = defaultdict(set)
    for model in run.models:
        for path, name in _asked(held) if (held := AnsweredQueries.of(run, model)) is not None else ():
            names[path].add(name)
    if not names or not run.directory.holds(run.directory.items):
        return []
    items = scan_files(run.directory.items).select("item_id", "path", "text", "language")
    paths = items.select(pl.col("path").unique().drop_nulls()).collect()["path"].to_list()
    files = {path: found for path in paths if (found := names.get(path_number(path)))}
    rows = items.filter(pl.col("path").is_in(sorted(files))).collect().iter_rows()
    return [item for item, path, text, language in rows if _calls(text or "", language, files[path])]


def _calls(text: str, language: str | None, names: Set[str]) -> bool:
    # Most functions spell none of the names, and are not parsed.
    if not language or language not in LANGUAGES.names() or not any(name in text for name in names):
        return False
    return any(call.name in names for call in LANGUAGES.load(language).calls(text))


def _findings(run: RunData, items: Sequence[str], characters: int) -> Findings | None:
    rows: dict[str, dict[str, Rows]] = {}
    texts = run.items(items).to_dicts()
    for model in run.models:
        held = AnsweredQueries.of(run, model)
        if held is not None:
            asked = _asked(held)
            rows[model.slug] = {row["item_id"]: _answers(row, asked, held, characters) for row in texts}
    if not rows:
        return None
    return Findings(
        lens=LENS,
        label="Names of APIs",
        kind=ANSWER,
        columns=_COLUMNS,
        texts=frozenset({"group", "said", "right"}),
        group="name",
        rows=rows,
        note=(
            "a name was asked in a statement of its own, not in the function; it is shown at the calls of "
            "that name in the files that were found to call it"
        ),
    )


def _answers(row: Mapping[str, Any], asked: _Asked, held: AnsweredQueries, characters: int) -> Rows:
    """A row a call in a function whose name was asked, and was asked but once."""
    language = row["language"]
    if not language or language not in LANGUAGES.names():
        return []
    path = path_number(row["path"] or "")
    found: list[list[Any]] = []
    for call in LANGUAGES.load(language).calls(row["text"] or ""):
        queries = asked.get((path, call.name), ())
        if len(queries) != 1 or call.start >= characters:
            continue
        shown = held.shown(queries[0])
        top: list[str | float] = []
        for answer, share, _ in shown.top:
            top += [answer, round(1000 * share, 1)]
        said = shown.top[0][0] if shown.top else ""
        found.append(
            [call.start, call.end, _GROUP, said, shown.answer, int(shown.rank == 1), shown.rank, top]
        )
    return found


tokens = TokenLens(known=_known, findings=_findings)
