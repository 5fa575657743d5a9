"""A snippet that the user gave: what the best heads rank first in it, and how their attention spreads."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from sonde.base.formatting import count
from sonde.report.charts import render_arcs, render_heat_map
from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import Figure, SectionPlot, SvgImage
from sonde.report.sections.attention import LENS, SNIPPET, STAGE, format_head
from sonde.results.tables import Column, Table

_MAPS = 3


def _draw(run: RunData, models: object) -> Figure | None:
    """Draw the snippet for every model and side."""
    path = run.summary.get("arguments", {}).get("options", {}).get(LENS, {}).get("snippet")
    if path is None:
        return None
    name = str(path).replace("\\", "/").rsplit("/", 1)[-1]
    answers: list[str] = []
    drawings: list[SvgImage] = []
    records: list[dict[str, Any]] = []
    for model in run.models:
        rows = _read_rows(run, model)
        if rows.is_empty():
            answers.append(
                f"{model.label}: {name} is not drawn, since no relation of it has a best head here; "
                "read more functions in its language."
            )
        elif rows["words"].null_count() == len(rows):
            reason = rows["situation"][0]
            answers.append(f"{model.label}: {name} is not read, it is {reason}; give a shorter one.")
        for (side,), part in (
            rows.filter(pl.col("side").is_not_null())
            .partition_by("side", as_dict=True, maintain_order=True)
            .items()
        ):
            subject = f"{model.label}, {side}"
            edges = part.filter(pl.col("words").is_null())
            hit_count = int(edges["hit"].sum())
            answers.append(
                f"{subject}: of {count(len(edges))} edges in {name} the best heads find {count(hit_count)} "
                "at once (first word of the dependent)."
            )
            drawings += _render_images(part, f"{model.slug}-{side}", subject)
            records += [_format_row(row, subject) for row in edges.iter_rows(named=True)]
    table = Table(
        summary="Every edge of the snippet",
        columns=[
            Column(title="Relation", value="relation"),
            Column(title="Of", value="subject"),
            Column(
                title="Layer.head",
                value=format_head,
                help="The best head of the relation, counted from 0.",
            ),
            Column(title="Asked", value="asked", help="The word whose attention is read."),
            Column(title="Looked for", value="expected", help="The other end of the edge."),
            Column(title="Ranked first", value="picked", help="The word that is attended to most."),
            Column(title="Found", value=lambda row: "yes" if row["hit"] else f"no: {row['situation']}"),
        ],
        rows=records,
    )
    return Figure(answer="\n".join(answers), drawings=drawings, table=table if records else None)


def _read_rows(run: RunData, model: ModelInfo) -> pl.DataFrame:
    """Read the rows of the snippet: those with words are of heads, the others of edges."""
    table = run.table(STAGE, model)
    if table is None or "words" not in table.collect_schema().names():
        return pl.DataFrame()
    order = ["side", "asked_start", "relation", "layer", "head"]
    return table.filter(pl.col("item_id").str.ends_with(SNIPPET)).sort(order).collect()


def _render_images(rows: pl.DataFrame, stem: str, subject: str) -> list[SvgImage]:
    heads = rows.filter(pl.col("words").is_not_null())
    edges = rows.filter(pl.col("words").is_null())
    words = heads["words"][0].to_list()
    positions = zip(heads["starts"][0].to_list(), words, strict=True)
    word_indices = {position: index for index, position in enumerate(positions)}
    visible = [index for index, word in enumerate(words) if word]
    images = [
        SvgImage(
            name=f"attention-snippet-{stem}",
            title=f"What the best heads rank first, {subject}",
            svg=render_arcs(
                words, visible, [_build_arc(row, word_indices) for row in edges.iter_rows(named=True)]
            ),
            description=f"{len(edges)} relations between {len(visible)} words, {subject}",
        )
    ]
    top_heads = (
        edges.group_by("layer", "head")
        .agg(pl.len().alias("edges"), pl.col("relation").unique().sort().alias("relations"))
        .sort(["edges", "layer", "head"], descending=[True, False, False])
        .head(_MAPS)
    )
    for layer, head, _, relations in top_heads.iter_rows():
        buffer = heads.filter((pl.col("layer") == layer) & (pl.col("head") == head))["weights"][0]
        weights = np.frombuffer(buffer, np.float16).reshape(len(words), len(words)).astype(np.float64)
        title = f"Head {head} of layer {layer} ({', '.join(relations)}), {subject}"
        images.append(
            SvgImage(
                name=f"attention-snippet-{stem}-{layer}-{head}",
                title=title,
                svg=render_heat_map(words, visible, weights),
                description=f"{title}: attention between {len(visible)} words",
            )
        )
    return images


def _build_arc(row: dict[str, Any], word_indices: dict[tuple[int, str], int]) -> tuple[str, int, int, int]:
    """Return the relation with its head, and the indices of the asked, the expected and the picked word."""
    source, target, choice = (
        word_indices[row[f"{name}_start"], row[name]] for name in ("asked", "expected", "picked")
    )
    return f"{row['relation']} (head {row['head']} of layer {row['layer']})", source, target, choice


def _format_row(row: dict[str, Any], subject: str) -> dict[str, Any]:
    words = {name: row[name].replace("\n", "↵").replace(" ", "␣") for name in ("asked", "expected", "picked")}
    return {**row, **words, "subject": subject}


plot = SectionPlot(
    title="Attention: the snippet",
    lens=LENS,
    order=360,
    caption=(
        "The words of the snippet from top to bottom. On the right, an arc leads from each word asked "
        "about to the word that the best head of the relation ranks first: solid if that is the first word "
        "looked for, dashed if not. On the left, an arc leads to the word that was looked for and missed. "
        "Heat maps show how much attention each word (row) pays to each other word (column), from 2 % on, "
        "without special tokens and the word itself. Point at an arc or a field for names and numbers."
    ),
    select=lambda run: run.models,
    figure=_draw,
)
