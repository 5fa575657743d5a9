"""Test examples to be read, wrong ones first, with the error and what the model points at."""

from __future__ import annotations

from typing import Any

import polars as pl

from sonde.base.formatting import count
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import EmbeddedView, Figure, SectionPlot
from sonde.report.sections.finetune import (
    LENS,
    RIGHT,
    SPLITS,
    WRONG,
    build_examples,
    read_predictions,
    select_examples,
)


def _draw(run: RunData, groups: list[dict[str, Any]]) -> Figure:
    """Show the examples of every model, from its first seed."""
    pointers = any(example["found"] for group in groups for example in group["examples"])
    return Figure(
        embed=EmbeddedView(
            template="sections/finetune/finetune_examples.html.j2",
            data={},
            context={"groups": groups, "pointers": pointers},
        ),
        notes=[
            f"At most {WRONG} wrong and {RIGHT} right answers of each, from the first seed; of long "
            "functions the lines around what is marked. The code was not run."
        ],
    )


def _read_groups(run: RunData) -> list[dict[str, Any]]:
    return [
        _build_group(run, model, part, str(task), str(split))
        for model in run.models
        if not (rows := read_predictions(run, model)).is_empty()
        for (task, split), part in (
            rows.partition_by("task", "split", as_dict=True, maintain_order=True).items()
        )
    ]


def _build_group(run: RunData, model: ModelInfo, rows: pl.DataFrame, task: str, split: str) -> dict[str, Any]:
    wrong_count = int((~rows["correct"]).sum())
    title_parts = [task.replace("_", " "), *([model.label] if run.several else [])]
    title_parts += [SPLITS[split]] if SPLITS[split] else []
    return {
        "title": ", ".join(title_parts).capitalize(),
        "counts": f"{count(wrong_count)} of {count(rows.height)} wrong",
        "examples": list(build_examples(run, select_examples(rows))),
    }


plot = SectionPlot(
    title="Fine-tuning: examples, wrong ones first",
    lens=LENS,
    order=430,
    caption=(
        "Functions of the test set with the predictions of the fine-tuned model. Those that it gets wrong "
        "come first, the most confident ones at the top, then a few that it gets right. Open one to read "
        "it. A bug in it is underlined; the place that the model points at is framed."
    ),
    select=_read_groups,
    figure=_draw,
)
