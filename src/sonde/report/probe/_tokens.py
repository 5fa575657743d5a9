"""What probes say of single functions and their tokens, for the explorer of tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from sonde.report._shared.asked import label_of
from sonde.report._shared.run import RunData
from sonde.report._shared.tokens import ANSWER, Findings, Rows, TokenLens
from sonde.report.probe._scores import LENS

_COLUMNS = ("group", "said", "right", "hit", "layer")


def _known(run: RunData) -> list[str]:
    tables = [run.answers(LENS, model).select("item_id") for model in run.models]
    return pl.concat(tables)["item_id"].unique().to_list() if tables else []


def _findings(run: RunData, items: Sequence[str], characters: int) -> Findings | None:
    rows: dict[str, Mapping[str, Rows]] = {}
    whole: dict[str, Mapping[str, Rows]] = {}
    for model in run.models:
        held = run.answers(LENS, model).filter(pl.col("item_id").is_in(list(items)))
        if held.is_empty():
            continue
        places: defaultdict[str, list[list[Any]]] = defaultdict(list)
        wholes: defaultdict[str, list[list[Any]]] = defaultdict(list)
        for row in held.sort("item_id", "start", "task").iter_rows(named=True):
            said = [label_of(row["task"]), row["said"], row["label"], int(row["said"] == row["label"])]
            if row["whole"]:
                wholes[row["item_id"]].append(said)
            elif row["start"] < characters:
                places[row["item_id"]].append([row["start"], row["end"], *said, row["layer"]])
        rows[model.slug], whole[model.slug] = places, wholes
    if not rows:
        return None
    return Findings(
        lens=LENS,
        label="Probes",
        kind=ANSWER,
        columns=_COLUMNS,
        texts=frozenset({"group", "said", "right"}),
        facts=(("layer", "layer", ""),),
        group="task",
        rows=rows,
        whole=whole,
        note=(
            "a task asks about one token of a function or about the whole of it; what is shown was answered "
            "by the chosen layer of a probe that learned from other code"
        ),
    )


tokens = TokenLens(known=_known, findings=_findings)
