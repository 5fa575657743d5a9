"""Sections of the lens `fidelity`, and the flips that the token explorer shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from sonde.base.formatting import plural
from sonde.languages import format_language
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import ANSWER, LensTitle, PageHeader, TokenFindings, TokenLens
from sonde.results.fidelity import (
    LENS,
    Ladder,
    build_ladder,
    describe_row,
    describe_smallest,
    find_smallest,
)

__all__ = ["title"]

_PLACES = (
    "item_id", "start", "end", "subword", "choice", "base_choice", "kl", "nats", "base_nats", "won", "lost",
    "slice",
)  # fmt: skip


def read_places(run: RunData, model: ModelInfo) -> pl.LazyFrame:
    """Read the places of single functions where a model differs most from its base."""
    table = run.table(LENS, model)
    if table is None or not {*_PLACES, "dimension"} <= set(table.collect_schema().names()):
        return pl.LazyFrame(schema=dict.fromkeys(_PLACES, pl.String))
    return table.filter(pl.col("dimension") == "place").select(_PLACES)


def _list_item_ids(run: RunData) -> list[str]:
    ids = [read_places(run, model).select("item_id") for model in run.models]
    return pl.concat(ids).collect()["item_id"].unique().to_list() if ids else []


def _read_findings(run: RunData, items: Sequence[str], characters: int) -> TokenFindings | None:
    rows: dict[str, dict[str, list[list[Any]]]] = {}
    for model in run.models:
        places = read_places(run, model).filter(pl.col("item_id").is_in(list(items))).collect()
        if places.is_empty():
            continue
        by_item = rows[model.slug] = {}
        for row in places.filter(pl.col("start") < characters).sort("item_id", "start").iter_rows(named=True):
            group = "answer won" if row["won"] else "answer lost" if row["lost"] else "far from the base"
            choices = f"{row['choice']} (base: {row['base_choice']})"
            entry = [group, choices, row["subword"], int(row["choice"] == row["subword"])]
            by_item.setdefault(row["item_id"], []).append([row["start"], row["end"], *entry])
    if not rows:
        return None
    return TokenFindings(
        lens=LENS,
        label="Fidelity",
        kind=ANSWER,
        columns=("group", "said", "right", "hit"),
        texts=frozenset({"group", "said", "right"}),
        group="change",
        rows=rows,
        note=(
            "of each function at most six answers that the model won or lost compared with its base, and the "
            "two places where it is farthest from it"
        ),
    )


def read_ladders(run: RunData) -> list[Ladder]:
    """Read the models of a run, compared with their base, by language."""
    if LENS not in run.scored_lenses:
        return []
    # A base that no other lens reads is no model of the run.
    bases = run.every_score.filter(pl.col("lens") == LENS)["compared_to"].drop_nulls().unique().to_list()
    names = {base: base.rstrip("/").rpartition("/")[2] or base for base in bases}
    return list(build_ladder(run.every_score, {**names, **run.labels}))


def _build_header(run: RunData) -> PageHeader | None:
    """Build the answer for each language: which model is not worse, and the numbers of all."""
    ladders = read_ladders(run)
    if not ladders:
        return None
    lines = [
        f"{format_language(ladder.language)}: {line}" if len(ladders) > 1 else line
        for ladder in ladders
        for line in (describe_smallest(ladder), *map(describe_row, ladder.rows))
    ]
    return PageHeader(headline=_format_headline(ladders), lines=lines)


def _format_headline(ladders: Sequence[Ladder]) -> str:
    first = ladders[0]
    base, models = first.rows[-1]["shown"], [row for row in first.rows if not row["is_base"]]
    if len(ladders) > 1:
        return f"{plural(len(models), 'model')} compared with {base} on {plural(len(ladders), 'language')}"
    fine = find_smallest(first)
    if fine is None:
        return f"No model is known to be as good as {base}"
    return f"{fine['shown']} is not worse than {base}"


title = LensTitle(
    name="Fidelity",
    question="How far is the model from its base? Both read the same code side by side.",
    counts={"": "subword", "bits_per_byte_change": "byte", "bytes": "weight", "bits_per_weight": "weight"},
    method_text=(
        "Both models read the same subwords, and their predictions are compared at each of them. The "
        "divergence is KL(base ‖ model) over the whole vocabulary. A flip is a subword that is the first "
        "choice of one of the two models alone."
    ),
    in_float32="divergences and probabilities",
    cites=("dutta2024flips", "nikolic2026displacement"),
    tokens=TokenLens(known=_list_item_ids, findings=_read_findings),
    top=_build_header,
)
