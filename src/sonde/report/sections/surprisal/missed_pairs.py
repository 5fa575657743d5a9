"""Minimal pairs whose mutant is likelier than the original: what the model would rather have read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sonde.base.formatting import count
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.surprisal._scores import BITS_PER_NAT, LENS
from sonde.report.text import task_label
from sonde.results.schema import scan_files
from sonde.results.tables import MODEL, Column, Table
from sonde.results.text_format import Number

_MAX_PAIRS = 25
"""Maximum number of pairs shown per model."""


_CONTEXT_CHARACTERS = 60
"""Maximum number of characters of the line shown on either side of a span."""


_COLUMNS = ("item_id", "task", "source_id", "original", "file", "start", "end", "nats", "before_nats")


def _find_missed_pairs(run: RunData, model: ModelInfo) -> Iterator[dict[str, Any]]:
    table = run.table(LENS, model)
    if table is None or not set(_COLUMNS) <= set(table.collect_schema().names()):
        return
    rows = table.select(_COLUMNS).collect()
    originals, mutants = rows.filter("original"), rows.filter(~pl.col("original"))
    pairs = originals.join(mutants, on=["task", "source_id"], suffix="_mutant")
    # What stands before the place is the same, and cancels.
    totals = [pl.col(f"nats{side}") + pl.col(f"before_nats{side}") for side in ("", "_mutant")]
    worst = (
        pairs.with_columns(bits=(totals[0] - totals[1]) * BITS_PER_NAT)
        .filter(pl.col("bits") > 0)
        .sort("bits", "task", "source_id", descending=[True, False, False])
        .head(_MAX_PAIRS)
    )
    texts = _read_texts(run, [*worst["item_id"], *worst["item_id_mutant"]])
    for row in worst.to_dicts():
        if row["item_id"] in texts and row["item_id_mutant"] in texts:
            yield {
                **row,
                "shown": model.label,
                "written": _format_line(texts[row["item_id"]], row["start"], row["end"]),
                "mutant": _format_line(texts[row["item_id_mutant"]], row["start_mutant"], row["end_mutant"]),
            }


def _read_texts(run: RunData, identifiers: list[str]) -> dict[str, str]:
    paths = run.directory.texts()
    if not paths:
        return {}
    rows = scan_files(paths).filter(pl.col("item_id").is_in(identifiers)).select("item_id", "text")
    return dict(rows.collect().iter_rows())


def _format_line(text: str, start: int, end: int) -> str:
    r"""Format the span from `start` to `end` with its context on the line; shorten a long span.

    >>> _format_line("a = 1\nreturn b + c\n", 13, 14)
    'return ⟨b⟩ + c'
    """
    first = max(text.rfind("\n", 0, start) + 1, start - _CONTEXT_CHARACTERS)
    stop = text.find("\n", end)
    last = min(len(text) if stop < 0 else stop, end + _CONTEXT_CHARACTERS)
    span = text[start:end]
    if len(span) > 2 * _CONTEXT_CHARACTERS:
        span = f"{span[:_CONTEXT_CHARACTERS]} … {span[-_CONTEXT_CHARACTERS:]}"
    return f"{text[first:start].lstrip()}⟨{span}⟩{text[end:last].rstrip()}"


plot = SectionPlot(
    title="Minimal pairs: where the fault is likelier",
    lens=LENS,
    order=6,
    caption=(
        "The pairs for which a model most prefers the mutant. Each is shown with the line in which the "
        "texts differ; angle brackets mark the place. Some are faults that a reader would miss too, or "
        "code whose original is unusual."
    ),
    select=lambda run: [row for model in run.models for row in _find_missed_pairs(run, model)],
    figure=lambda run, rows: Figure(
        table=Table(
            summary=f"The {count(len(rows))} pairs of which the mutant is likelier by most",
            columns=[
                *([MODEL] if run.several else []),
                Column(title="Fault", value=lambda row: task_label(row["task"])),
                Column(title="File", value="file"),
                Column(title="As it was written", value="written"),
                Column(title="Mutant", value="mutant"),
                Column(
                    title="Bits",
                    value="bits",
                    format=Number(),
                    help="By how much the original has more surprisal than the mutant.",
                ),
            ],
            rows=rows,
        )
    ),
)
