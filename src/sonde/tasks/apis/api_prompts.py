"""Cloze queries about API names as prompts in words, equally many per statement (INK, section 4.5).

The queries are those of ``api_cloze`` with answers of one subtoken; models list candidates for the masked
subtoken.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item, SourceFile
from sonde.tasks.engine.api_names import NameUses, gather_names
from sonde.tasks.engine.cloze_options import PER_LIBRARY, PromptOptions, StatementOptions
from sonde.tasks.engine.cloze_queries import FIRST, FULL, LAST, make_query_table
from sonde.tasks.engine.cloze_statements import make_statement_items, to_label_rows
from sonde.tasks.engine.task import DrawingTask, DrawRequest


class ApiPrompts(DrawingTask):
    """Draws queries for prompts."""

    name = "api_prompts"
    version = "1"

    def collect(self, files: Iterable[SourceFile]) -> list[dict[str, Any]]:
        """Return every such query of a corpus, as of `api_cloze`."""
        return to_label_rows(_order_queries(gather_names(files), PromptOptions(), 0))

    def draw_table(self, request: DrawRequest) -> tuple[pl.DataFrame, list[Item], dict[str, Any]]:
        """Draw as many queries of each template; see `DrawingTask.draw`.

        Raises:
            InputError: No name gives a query.
        """
        uses = gather_names(request.files, parallel=request.parallel)
        table = _order_queries(uses, PromptOptions.among(request.options), request.seed)
        templates = table["template"].unique(maintain_order=True).to_list()
        share = max(request.size // max(len(templates), 1), 1)
        sample = table.group_by("template", maintain_order=True).head(share)
        if sample.is_empty():
            raise InputError(
                f"prompts about API names: {len(uses.names)} names in {uses.files} files of "
                f"{request.language} give none; use a larger corpus"
            )
        examples = sample.with_columns(example_id="query_id")
        return examples, make_statement_items(examples), {"queries": table.height}


def _order_queries(uses: NameUses, options: PromptOptions, seed: int) -> pl.DataFrame:
    """Return the queries ordered by hash."""
    statement_options = StatementOptions.of_every_name(options.templates, options.reference, PER_LIBRARY)
    table = make_query_table(uses, statement_options, None, seed).table.filter(
        pl.col("mode").is_in([FULL, FIRST, LAST])
    )
    order = [unit_hash("prompts", seed, query) for query in table["query_id"].to_list()]
    return (
        table.with_columns(_order=pl.Series(order, dtype=pl.Float64))
        .sort("_order", "query_id")
        .drop("_order")
        .unique("query_id", keep="first", maintain_order=True)
    )


task = ApiPrompts()
