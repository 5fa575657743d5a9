"""Attention in the last layer of a fine-tuned model, in a few test examples (CuBERT, figures 1 to 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sonde.base.formatting import number
from sonde.report.charts import render_heat_map, shorten_word
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Figure, SectionPlot, SvgImage
from sonde.report.sections.finetune import (
    LENS,
    get_last_values,
    locate_error,
    read_example_items,
    read_example_labels,
)
from sonde.results.tables import Column, Table

SIGN = "▸"


_TOP_WORDS = 3


def _read_examples(run: RunData) -> list[dict[str, Any]]:
    """List the examples whose attention was kept, each with what is drawn of it."""
    examples: list[dict[str, Any]] = []
    for model in run.models:
        rows = _read_rows(run, model).to_dicts()
        labels = read_example_labels(run, rows)
        items = read_example_items(run, labels)
        for index, row in enumerate(rows):
            name = str(items.get(row["item_id"], {}).get("name") or "")
            size = len(row["words"])
            examples.append(
                {
                    "stem": f"finetune-attention-{model.slug}-{row['task']}-{index}",
                    "about": _describe_example(run, model, row, name),
                    "marked": _mark_words(row, labels.get(row["example_id"]), items),
                    "at": [position for position, word in enumerate(row["words"]) if word.strip()],
                    "shares": np.frombuffer(row["weights"], np.float16).reshape(size, size).astype(float),
                }
            )
    return examples


def _read_rows(run: RunData, model: ModelInfo) -> pl.DataFrame:
    table = run.table(LENS, model)
    if table is None or "words" not in table.collect_schema().names():
        return pl.DataFrame()
    rows = table.filter(pl.col("kind") == "attention").collect()
    if rows.is_empty():
        return rows
    return rows.filter(pl.col("variant") == get_last_values(run, rows)).sort("task", "correct", "example_id")


def _mark_words(
    row: dict[str, Any], label_row: dict[str, Any] | None, items: dict[str, dict[str, Any]]
) -> list[str]:
    """Mark what is wrong among the words of an example with `SIGN`."""
    item = items.get(row["item_id"])
    if label_row is None or item is None:
        return list(row["words"])
    source = items.get(label_row["source_id"], item)
    span = locate_error(label_row, item["text"], source["text"]) or (-1, -1)
    return [
        f"{SIGN}{word}" if span[0] <= start < span[1] else word
        for word, start in zip(row["words"], row["starts"], strict=True)
    ]


def _describe_example(run: RunData, model: ModelInfo, row: dict[str, Any], name: str) -> str:
    parts = [row["task"].replace("_", " ").capitalize(), *([model.label] if run.several else [])]
    edit = name.partition("/")[2]
    verdict = "rightly" if row["correct"] else "wrongly"
    return f"{', '.join(parts)}: {edit or row['label']}, {verdict} taken for {row['predicted']}"


def _format_top_words(words: list[str], indices: list[int], weights: np.ndarray) -> str:
    """Format the words that get most attention on average over the rows."""
    means = weights[np.ix_(indices, indices)].mean(0)
    best = np.argsort(-means, kind="stable")[:_TOP_WORDS]
    return ", ".join(
        f"“{shorten_word(words[indices[index]])}” {number(100 * float(means[index]), 0)} %" for index in best
    )


plot = SectionPlot(
    title="Fine-tuning: where the last layer looks",
    lens=LENS,
    order=440,
    caption=(
        "Attention between the words of a few test examples in the last layer of the fine-tuned model. A "
        "row is the word that attends, a column the word attended to, in the head that attends most. Darker "
        "is more; less than 2 % is not shown. Point at a field for its number. Attention shows where a model "
        f"looks, not why it answers as it does. {SIGN} marks what is wrong or hidden."
    ),
    select=_read_examples,
    figure=lambda run, examples: Figure(
        drawings=[
            SvgImage(
                name=row["stem"],
                title=row["about"],
                svg=render_heat_map(row["marked"], row["at"], row["shares"]),
                description=f"{row['about']}: attention between {len(row['at'])} words",
            )
            for row in examples
        ],
        table=Table(
            summary="The most attended words of each example",
            columns=[
                Column(title="Example", value="about"),
                Column(
                    title="Mean share of a row",
                    value=lambda row: _format_top_words(row["marked"], row["at"], row["shares"]),
                    help="The words that the others attend to most, with the mean share of attention.",
                ),
            ],
            rows=examples,
        ),
        notes=[
            "Subwords of one word are taken together; spaces are left out of the drawing, and what the "
            "model puts around a text is shown as its tokenizer spells it."
        ],
    ),
)
