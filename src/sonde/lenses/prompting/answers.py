"""Queries to replies to rows; replies are kept as they come, so that a killed run goes on behind the last."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import StoreError
from sonde.lenses.prompting.prompt import LISTED, listed, prompt_of
from sonde.results.columns import Columns, schema_of

Replies = Callable[[Sequence[str]], Iterable[tuple[str, str | None]]]
"""From prompts to each with what is replied, in any order; None where the model could not be asked."""

ROWS_COLUMNS: Columns = {
    "query_id": (pl.String, "the query"),
    "rank": (pl.Int32, "place of the right answer in the list; null where it is not there"),
    "listed": (pl.Int32, "distinct answers, at most 20"),
    "refused": (pl.Boolean, "nothing was listed"),
    "short": (pl.Boolean, "fewer than 20 answers"),
    "asked": (pl.Boolean, "the prompt fitted into the model"),
    "top": (pl.List(pl.String), "the answers in their order"),
    "reply": (pl.String, "the reply as it came"),
}
"""Columns of the prompting lens's item table, one row a query."""

ROWS_SCHEMA = schema_of(ROWS_COLUMNS)

_KEPT = "replies.jsonl"


def answered(examples: pl.DataFrame, replies: Replies, folder: Path) -> pl.DataFrame:
    """A row a query in `ROWS_SCHEMA`; each distinct prompt is asked once.

    - ``rank``: place of the right answer in the list, null where it is not there.
    - ``listed``: distinct answers, at most `LISTED`; ``short``: fewer than that.
    - ``refused``: nothing was listed; ``asked``: whether the prompt fitted into the model at all.

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
    rows: list[dict[str, Any]] = []
    for row, prompt in zip(queries, prompts, strict=True):
        text = held[prompt]
        found = listed(text or "")
        place = found.answers.index(row["answer"]) + 1 if row["answer"] in found.answers else None
        rows.append(
            {
                "query_id": row["query_id"],
                "rank": place,
                "listed": len(found.answers),
                "refused": found.refused,
                "short": len(found.answers) < LISTED,
                "asked": text is not None,
                "top": list(found.answers),
                "reply": text,
            }
        )
    return pl.DataFrame(rows, schema=dict(ROWS_SCHEMA), orient="row")


class _Kept:
    """Replies by prompt, kept in a file, a line each; a line that a kill cut off is asked for again."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _KEPT
        self._held: dict[str, str | None] = {}
        lines = self._path.read_text(encoding="utf-8").split("\n") if self._path.is_file() else []
        whole = lines[:-1]
        for line in whole:
            prompt, text = json.loads(line)
            self._held[prompt] = text
        if lines and lines[-1]:
            self._path.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")

    def to(self, prompts: Iterable[str], replies: Replies) -> dict[str, str | None]:
        """The replies to prompts; those that are not kept are asked for, each once."""
        missing = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._held]
        for prompt, text in replies(missing):
            self._held[prompt] = text
            self._keep(prompt)
        return self._held

    def _keep(self, prompt: str) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps([prompt, self._held[prompt]]) + "\n")
        except OSError as error:
            raise StoreError(f"{self._path}: replies cannot be kept: {error.strerror}") from error
