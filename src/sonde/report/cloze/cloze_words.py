"""Which word a model prefers where a published test leaves one out and keeps the answers to itself."""

from __future__ import annotations

import polars as pl

from sonde.report._shared.at_k import TEMPLATE
from sonde.report._shared.numbers import DASH, count, number, score_cells
from sonde.report._shared.plot import Cell, Figure, Table
from sonde.report._shared.run import RunData
from sonde.report.cloze._scores import LENS
from sonde.results.dimensions import dimension, dimensions_named

_SAME = ("model", "corpus_hash", "label")


class ClozeWords:
    """A line a word."""

    title = "ClozeTest: words that are preferred"
    lens = LENS
    order = 408
    caption = (
        "CodeXGLUE's ClozeTest leaves a word out of a function. Its answers are not published, so what can "
        "be said here is how often each word is found likeliest."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Nothing where the run read no such test."""
        of_words = dimensions_named(TEMPLATE, "word")
        rows = run.scores(metrics=["preferred"], where=of_words, lens=LENS, controls=True)
        rows = rows.with_columns(subject=run.subject, label=dimension("word"))
        at_random = {
            tuple(row[key] for key in _SAME): row["value"]
            for row in rows.filter(pl.col("control") == "chance").iter_rows(named=True)
        }
        rows = rows.filter(pl.col("control").is_null())
        if rows.is_empty():
            return None
        columns = ["Of", "Corpus", "Word", "At random, %", "Preferred, %", "95 % interval", "n", "Entries"]
        corpora = {entry["hash"]: entry["name"] for entry in run.summary.get("corpus") or ()}
        cells = [
            [
                Cell(row["subject"]),
                Cell(str(corpora.get(row["corpus_hash"], ""))),
                Cell(row["label"]),
                _share(at_random.get(tuple(row[key] for key in _SAME))),
                *score_cells(row, 100, 1),
            ]
            for row in rows.sort("subject", "corpus_hash", pl.col("value"), descending=[False, False, True])
            .iter_rows(named=True)
        ]  # fmt: skip
        table = Table(summary="Every word", columns=columns, rows=cells, numeric=frozenset(columns[3:]))
        note = (
            "The likeliest word of every entry lies in predictions/, a folder a model, in the form that the "
            "published evaluator takes (option --predictions)."
        )
        row = rows.sort("value", descending=True).row(0, named=True)
        lead = f"{row['shown']} finds “{row['label']}” likeliest in {number(100 * row['value'], 1)} % of "
        return Figure(lead=f"{lead}{count(row['n'])} entries of ClozeTest.", table=table, notes=(note,))


def _share(value: float | None) -> Cell:
    return Cell(DASH) if value is None else Cell(number(100 * value, 1), value)


plot = ClozeWords()
