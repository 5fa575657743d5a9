"""The page of ``sonde show``: one function as models read it, from what the command prints as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

import sonde
from sonde.report._drawing.snippets import Ends, arcs
from sonde.report._drawing.theme import (
    HEAT_EDGES,
    HEAT_STEPS,
    MODES,
    MONO,
    SANS,
    SERIF,
    css_variables,
)
from sonde.report._page.templates import asset, templates
from sonde.report._shared.numbers import number
from sonde.results.formats import legible

_WORST = 10

_WAYS = {
    "causal": "each subword from what stands before it",
    "pll": "each subword from both sides, with the rest of its word hidden",
}


def page_of_function(shown: Mapping[str, Any]) -> str:
    """The page as text; every text is escaped, nothing is loaded.

    Args:
        shown: A function with its ``reads``, as ``sonde show --json`` prints it.
    """
    name = shown["name"] or PurePath(shown["file"]).name
    return (
        templates()
        .get_template("_page/one_function.html.j2")
        .render(
            name=legible(name),
            shown=shown,
            reads=[_read(shown, read) for read in shown["reads"]],
            legend=[("below " + number(HEAT_EDGES[0], 1)), *(f"{edge:g}" for edge in HEAT_EDGES)],
            colours={mode: css_variables(mode) for mode in MODES},
            fonts={"sans": Markup(SANS), "serif": Markup(SERIF), "mono": Markup(MONO)},
            heat_steps=HEAT_STEPS,
            version=sonde.__version__,
            asset=asset,
        )
    )


def _read(shown: Mapping[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
    """What of one model the template shows."""
    worst = sorted((row for row in read["tokens"] if row["rank"] > 0), key=lambda row: -row["bits"])
    return {
        "model": legible(read["model"]),
        "bits": number(read["bits_per_byte"]),
        "way": _WAYS[read["objective"]],
        "pieces": list(_pieces(shown["text"], read["tokens"])),
        "worst": [
            {
                "line": _line(shown, row["start"]),
                "text": legible(row["text"]),
                "bits": number(row["bits"], 1),
                "rank": number(row["rank"], 0),
                "kind": row["kind"],
                "expected": ", ".join(legible(one) for one in row["expected"][:3]),
            }
            for row in worst[:_WORST]
        ],
        "relations": read["relations"],
        "arcs": _picture(shown["text"], read["arcs"]) if read["arcs"] else None,
        "without": read["without"],
        "nodes": [
            {
                "depth": row["depth"],
                "kind": row["kind"],
                "bits": number(row["bits"], 1),
                "text": legible(shown["text"][row["start"] : row["end"]].split("\n", 1)[0][:60]),
            }
            for row in read["nodes"]
        ],
    }


def _line(shown: Mapping[str, Any], place: int) -> int:
    return shown["line"] + shown["text"].count("\n", 0, place)


def _pieces(text: str, tokens: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int | None, str]]:
    """The text in parts: what it is, its step of colour, and what is said of it; of gaps nothing is."""
    at = 0
    for row in tokens:
        if row["start"] > at:
            yield legible(text[at : row["start"]]), None, ""
        part = text[max(at, row["start"]) : row["end"]]
        at = max(at, row["end"])
        if not row["rank"]:
            yield legible(part), None, ""
            continue
        step = sum(row["bits"] >= edge for edge in HEAT_EDGES)
        expected = ", ".join(legible(one) for one in row["expected"][:3])
        said = f"{number(row['bits'], 1)} bits, rank {number(row['rank'], 0)}; expected {expected}"
        yield legible(part), step, said
    if at < len(text):
        yield legible(text[at:]), None, ""


def _picture(text: str, rows: Sequence[Mapping[str, Any]]) -> Markup:
    # What stands around it says what the picture is.
    return Markup(arcs(*_drawn(text, rows)).replace("<svg ", '<svg aria-hidden="true" ', 1))


def _drawn(text: str, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], range, list[Ends]]:
    """The words that relations join, in their order, and the relations between them."""
    ends = ("asked", "expected", "picked")
    known = {row[end]: row[f"{end}_text"] for row in rows for end in ends if row[end] is not None}
    place = {start: at for at, start in enumerate(sorted(known))}
    edges: list[Ends] = []
    for row in rows:
        if all(row[end] is not None for end in ends):
            asked, expected, picked = (place[row[end]] for end in ends)
            told = f"{row['relation']} (head {row['head']} of layer {row['layer']})"
            edges.append((told, asked, expected, picked))
    return [known[start] for start in sorted(known)], range(len(place)), edges
