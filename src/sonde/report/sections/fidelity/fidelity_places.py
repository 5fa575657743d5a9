"""Single places where a model is farthest from its base, and the answers that it won or lost there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sonde.base.formatting import count
from sonde.report.run_tables import RunData
from sonde.report.section import Figure, SectionPlot
from sonde.report.sections.fidelity import read_places
from sonde.results.fidelity import LENS
from sonde.results.tables import MODEL, Column, Table
from sonde.results.text_format import BITS_PER_NAT, Number

_MAX_PLACES = 25
"""Most places that are shown of each model."""


def _find_places(run: RunData) -> Iterator[dict[str, Any]]:
    for model in run.models:
        places = (
            read_places(run, model)
            .sort("kl", "item_id", "start", descending=[True, False, False])
            .head(_MAX_PLACES)
            .collect()
        )
        items = {row["item_id"]: row for row in run.items(places["item_id"].to_list()).to_dicts()}
        for row in places.to_dicts():
            if (item := items.get(row["item_id"])) is not None:
                before, after = _get_line_parts(item["text"] or "", row["start"], row["end"])
                change = "won" if row["won"] else "lost" if row["lost"] else ""
                place = {"path": item["path"], "before": before, "after": after, "change": change}
                yield {**row, **place, "shown": model.label}


def _get_line_parts(text: str, start: int, end: int) -> tuple[str, str]:
    r"""Return the text of the line before a span, and the span with the rest of its line.

    >>> _get_line_parts("a = 1\nreturn b + c\n", 13, 14)
    ('return ', 'b + c')
    """
    stop = text.find("\n", end)
    return text[text.rfind("\n", 0, start) + 1 : start].lstrip(), text[start : stop if stop >= 0 else None]


def _draw(run: RunData, rows: Sequence[dict[str, Any]]) -> Figure:
    return Figure(
        table=Table(
            summary=f"{count(len(rows))} places, sorted by divergence",
            columns=[
                *([MODEL] if run.several else []),
                Column(title="File", value="path"),
                Column(title="Before", value="before"),
                Column(title="As it was written", value="after"),
                Column(title="Base", value="base_choice", help="First choice of the base."),
                Column(title="Model", value="choice", help="First choice of the model."),
                Column(title="Answer", value="change", help="Whether the model won or lost the answer."),
                Column(title="KL, nats", value="kl", format=Number()),
                Column(
                    title="Bits of the base",
                    value=lambda row: row["base_nats"] * BITS_PER_NAT,
                    format=Number(),
                ),
                Column(title="Bits", value=lambda row: row["nats"] * BITS_PER_NAT, format=Number()),
            ],
            rows=rows,
        )
    )


plot = SectionPlot(
    title="Fidelity: the places that differ most",
    lens=LENS,
    order=642,
    caption=(
        "The subwords at which a model is farthest from its base, with the text before them on the line. "
        "The explorer shows the answers won and lost in their functions."
    ),
    select=lambda run: list(_find_places(run)),
    figure=_draw,
)
