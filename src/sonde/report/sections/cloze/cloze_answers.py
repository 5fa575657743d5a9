"""Queries with what the model answers, wrong ones first: an explorer, and the same as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sonde.base.formatting import number
from sonde.report.charts import TEMPLATES
from sonde.report.run_tables import RunData
from sonde.report.section import EmbeddedView, Figure, SectionPlot
from sonde.report.sections.cloze import ANSWERS, LENS, read_answers
from sonde.report.text import collapse_blanks
from sonde.results.tables import Column, Table
from sonde.results.text_format import COUNT


def _draw(run: RunData, examples: list[dict[str, Any]]) -> Figure:
    """Show the most called names of each model's wrong answers, then of its right ones."""
    models = list(dict.fromkeys(row["model"] for row in examples))
    present = {row[name] for row in examples for name in ("template", "mode")}
    queries = [
        {
            **row,
            "model": models.index(row["model"]),
            "top": [[text, round(share, 4), right] for text, share, right in row["top"]],
        }
        for row in examples
    ]
    return Figure(
        embed=EmbeddedView(
            template="sections/cloze/queries.html.j2",
            data={
                "templates": dict(TEMPLATES),
                "places": {"top": "library", "inner": "module", "member": "last level"},
                "queries": queries,
            },
            context={
                "models": models,
                "templates": [pair for pair in TEMPLATES.items() if pair[0] in present],
                "modes": [mode for mode in ("full", "first", "middle", "last", "whole") if mode in present],
                "answers": ANSWERS,
            },
        ),
        table=Table(
            summary="The same as a table",
            columns=[
                Column(title="Model", value="model"),
                Column(title="Statement", value=lambda row: f"{TEMPLATES[row['template']]}, {row['mode']}"),
                Column(
                    title="Cloze query",
                    value=lambda row: collapse_blanks(
                        f"{row['before']}[?]{row['behind']}".replace("\n", "↵")
                    ),
                    help="The code, with [?] in place of the name.",
                ),
                Column(title="Answer", value="answer", help="The actual name."),
                Column(title="Answered", value=_format_top, help="The likeliest names and probabilities."),
                Column(title="Rank", value="rank", format=COUNT, help="Place of the name among all answers."),
                Column(title="Calls", value="calls", format=COUNT, help="How often the corpus calls it."),
            ],
            rows=examples,
        ),
        notes=["Among whole statements, a probability is that of a name among its candidates."]
        * any(row["competing"] for row in examples),
    )


def _read_examples(run: RunData) -> list[dict[str, Any]]:
    return [row for answers in read_answers(run) for row in answers.list_examples()]


def _format_top(row: Mapping[str, Any]) -> str | None:
    top = (f"{collapse_blanks(text.replace(' ', '␣'))} {number(share, 2)}" for text, share, _ in row["top"])
    return ", ".join(top) or None


plot = SectionPlot(
    title="Names of APIs: what is answered",
    lens=LENS,
    order=420,
    caption=(
        "Cloze queries with the first answers and their probabilities. Wrong ones come first, and among "
        "them the names that the corpus calls most. The gap is the part asked for; the right answer is "
        "marked if it is shown."
    ),
    select=_read_examples,
    figure=_draw,
)
