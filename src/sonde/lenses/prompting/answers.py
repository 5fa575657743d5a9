"""Queries to replies to rows; replies are kept as they come, so that a killed run goes on behind the last."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import StoreError
from sonde.lenses.prompting.prompt import LISTED, prompt_of
from sonde.lenses.prompting.reading import read
from sonde.models._server import Reply
from sonde.results.columns import Columns, schema_of

Replies = Callable[[Sequence[str]], Iterable[tuple[str, Reply | None]]]
"""From prompts to each with what is replied, in any order; None where the model could not be asked."""

ROWS_COLUMNS: Columns = {
    "query_id": (pl.String, "the query"),
    "item_id": (pl.String, "the text that it was drawn from"),
    "rank": (
        pl.Int32,
        "place of the right answer in the list, read as published; null where it is not there",
    ),
    "listed": (pl.Int32, "distinct answers read as published, at most 20"),
    "top": (pl.List(pl.String), "these answers in their order"),
    "rank_lenient": (pl.Int32, "as `rank`, read leniently: bullets, tables, quoted and called names too"),
    "listed_lenient": (pl.Int32, "as `listed`, read leniently"),
    "top_lenient": (pl.List(pl.String), "as `top`, read leniently"),
    "refused": (pl.Boolean, "the reply lists nothing and says so, or the server says that the model refused"),
    "unread": (pl.Boolean, "nothing was read of the reply either way, and it is no refusal"),
    "cut": (pl.Boolean, "the reply ends where its tokens ran out; null where the server does not say"),
    "short": (pl.Boolean, "fewer than 20 answers read as published"),
    "asked": (pl.Boolean, "the prompt fitted into the model"),
    "reply": (pl.String, "the reply as it came"),
    "thinking": (pl.String, "what the model thought before it, which no answer is read of"),
    "read_tokens": (pl.Int32, "tokens of the prompt as the server counts them; null where nothing does"),
    "written_tokens": (pl.Int32, "tokens of the reply, thinking included, likewise"),
}
"""Columns of the prompting lens's item table, one row a query."""

ROWS_SCHEMA = schema_of(ROWS_COLUMNS)

_KEPT = "replies.jsonl"


def answered(examples: pl.DataFrame, replies: Replies, folder: Path) -> pl.DataFrame:
    """A row a query in `ROWS_SCHEMA`; each distinct prompt is asked once.

    Args:
        examples: Queries in `sonde.tasks._cloze_columns.QUERY_SCHEMA`.
        replies: Asks the model.
        folder: Where replies are kept.

    Raises:
        StoreError: They cannot be kept.
    """
    queries = examples.to_dicts()
    prompts = [prompt_of(row["language"], row["prefix"], row["suffix"]) for row in queries]
    held = _Kept(folder).to(prompts, replies)
    rows = [_row(row, held[prompt]) for row, prompt in zip(queries, prompts, strict=True)]
    return pl.DataFrame(rows, schema=dict(ROWS_SCHEMA), orient="row")


def _row(query: Mapping[str, Any], reply: Reply | None) -> dict[str, Any]:
    found = read(reply.text if reply else "", query["prefix"], query["suffix"])
    refused = found.refused or (reply is not None and reply.refused)
    return {
        "query_id": query["query_id"],
        "item_id": query["item_id"],
        "rank": _place(query["answer"], found.strict),
        "listed": len(found.strict),
        "top": list(found.strict),
        "rank_lenient": _place(query["answer"], found.lenient),
        "listed_lenient": len(found.lenient),
        "top_lenient": list(found.lenient),
        "refused": refused,
        "unread": reply is not None and not (refused or found.strict or found.lenient),
        "cut": reply.cut if reply else None,
        "short": len(found.strict) < LISTED,
        "asked": reply is not None,
        "reply": reply.text if reply else None,
        "thinking": (reply.thinking or found.thinking if reply else "") or None,
        "read_tokens": (reply.read if reply else 0) or None,
        "written_tokens": (reply.written if reply else 0) or None,
    }


def _place(answer: str, listed: Sequence[str]) -> int | None:
    return listed.index(answer) + 1 if answer in listed else None


class _Kept:
    """Replies by prompt, kept in a file, a line each; a line that a kill cut off is asked for again."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _KEPT
        self._held: dict[str, Reply | None] = {}
        lines = self._path.read_text(encoding="utf-8").split("\n") if self._path.is_file() else []
        whole = lines[:-1]
        for line in whole:
            prompt, reply = json.loads(line)
            self._held[prompt] = Reply(**reply) if reply else None
        if lines and lines[-1]:
            self._path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")

    def to(self, prompts: Iterable[str], replies: Replies) -> dict[str, Reply | None]:
        """The replies to prompts; those that are not kept are asked for, each once."""
        missing = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._held]
        for prompt, reply in replies(missing):
            self._held[prompt] = reply
            self._keep(prompt, reply)
        return self._held

    def _keep(self, prompt: str, reply: Reply | None) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps([prompt, dataclasses.asdict(reply) if reply else None]) + "\n")
        except OSError as error:
            raise StoreError(f"{self._path}: replies cannot be kept: {error.strerror}") from error
