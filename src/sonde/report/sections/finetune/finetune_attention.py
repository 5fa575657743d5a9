"""Where the last layer of a fine-tuned model looks, in a few test examples (CuBERT, figures 1 to 5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sonde.base.formatting import number
from sonde.report.charts import render_heat_map, shorten_word
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Figure, SvgImage
from sonde.report.sections.finetune import (
    LENS,
    get_last_values,
    locate_error,
    read_example_items,
    read_example_labels,
)
from sonde.results.tables import Column, Table

SIGN = "▸"


_MOST = 3


class FinetuneAttention:
    """One heat map an example."""

    title = "Fine-tuning: where the last layer looks"
    lens = LENS
    order = 440
    caption = (
        "Attention between the words of a few test examples in the last layer of the fine-tuned model: a "
        "row is the word that attends, a column the word attended to, in whichever head attends most. Darker "
        "is more; less than 2 % is not shown. Point at a field for its number. Attention shows where a model "
        f"looks, not why it answers as it does. {SIGN} stands before what is wrong, or hidden."
    )

    def draw(self, run: RunData) -> Figure | None:
        """Drawings of every model and task; the table names the words that are attended to most."""
        drawings: list[SvgImage] = []
        records: list[dict[str, str]] = []
        for model in run.models:
            rows = _read_rows(run, model)
            labels = read_example_labels(run, rows.to_dicts())
            items = read_example_items(run, labels)
            for number_of, row in enumerate(rows.iter_rows(named=True)):
                words = _mark_words(row, labels.get(row["example_id"]), items)
                about = _describe_example(
                    run, model, row, str(items.get(row["item_id"], {}).get("name") or "")
                )
                weights = _weights(row)
                at = [place for place, word in enumerate(row["words"]) if word.strip()]
                drawings.append(
                    SvgImage(
                        name=f"finetune-attention-{model.slug}-{row['task']}-{number_of}",
                        title=about,
                        svg=render_heat_map(words, at, weights),
                        description=f"{about}: attention between {len(at)} words",
                    )
                )
                records.append({"about": about, "most": _format_top_words(words, at, weights)})
        if not drawings:
            return None
        table = Table(
            summary="The most attended words of each example",
            columns=[
                Column(title="Example", value="about"),
                Column(
                    title="Mean share of a row",
                    value="most",
                    help="The words that the others attend to most, with the mean share of attention.",
                ),
            ],
            rows=records,
        )
        return Figure(
            drawings=drawings,
            table=table,
            notes=[
                "Subwords of one word are taken together; blanks are left out of the drawing, and what the "
                "model puts around a text is shown as its tokenizer spells it."
            ],
        )


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
    """The words of an example, what is wrong among them with a sign."""
    item = items.get(row["item_id"])
    if label_row is None or item is None:
        return list(row["words"])
    source = items.get(label_row["source_id"], item)
    span = locate_error(label_row, item["text"], source["text"]) or (-1, -1)
    return [
        f"{SIGN}{word}" if span[0] <= start < span[1] else word
        for word, start in zip(row["words"], row["starts"], strict=True)
    ]


def _weights(row: dict[str, Any]) -> np.ndarray:
    size = len(row["words"])
    return np.frombuffer(row["weights"], np.float16).reshape(size, size).astype(np.float64)


def _describe_example(run: RunData, model: ModelInfo, row: dict[str, Any], name: str) -> str:
    parts = [row["task"].replace("_", " ").capitalize(), *([model.label] if run.several else [])]
    edit = name.partition("/")[2]
    said = "rightly" if row["correct"] else "wrongly"
    return f"{', '.join(parts)}: {edit or row['label']}, {said} taken for {row['predicted']}"


def _format_top_words(words: list[str], at: list[int], weights: np.ndarray) -> str:
    """The words that are paid most on average over the rows."""
    means = weights[np.ix_(at, at)].mean(0)
    best = np.argsort(-means, kind="stable")[:_MOST]
    return ", ".join(
        f"“{shorten_word(words[at[place]])}” {number(100 * float(means[place]), 0)} %" for place in best
    )


plot = FinetuneAttention()
