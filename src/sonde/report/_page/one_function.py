"""The page of ``sonde show``: one function as models read it, from what the command prints as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

import sonde
from sonde.report._any_lens._functions import ExplorerLimits, described
from sonde.report._any_lens.explorer import SCRIPTS, Strings, assembled
from sonde.report._drawing.snippets import Ends, arcs
from sonde.report._drawing.theme import HEAT_STEPS, MODES, MONO, SANS, SERIF, css_variables
from sonde.report._page.templates import asset, templates
from sonde.report._shared.numbers import number
from sonde.report._shared.tokens import AMOUNT, COLOURINGS, LINK, LINKED, Findings
from sonde.results.formats import legible

_WORST = 10

_ITEM = "function"

_CHARACTERS = 20_000
"""Characters of a text that are shown, from its beginning."""

_WAYS = {
    "causal": "each subword from what stands before it",
    "pll": "each subword from both sides, with the rest of its word hidden",
}


def page_of_function(shown: Mapping[str, Any]) -> str:
    """The page as text; every text is escaped, nothing is loaded.

    Args:
        shown: A function with its ``reads``, as ``sonde show --json`` prints it.
    """
    name = legible(shown["name"] or PurePath(shown["file"]).name)
    data = _explored(shown, name)
    return (
        templates()
        .get_template("_page/one_function.html.j2")
        .render(
            name=name,
            shown=shown,
            reads=[_read(shown, read) for read in shown["reads"]],
            context={"models": data["models"], "alone": True},
            data=data,
            scripts=SCRIPTS,
            colours={mode: css_variables(mode) for mode in MODES},
            fonts={"sans": Markup(SANS), "serif": Markup(SERIF), "mono": Markup(MONO)},
            heat_steps=HEAT_STEPS,
            version=sonde.__version__,
            asset=asset,
        )
    )


def _explored(shown: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The function for the explorer of tokens, each read as a model of its own."""
    strings, limits = Strings(), ExplorerLimits(characters=_CHARACTERS)
    row = {**shown, "item_id": _ITEM, "name": name, "path": f"{shown['file']}, line {shown['line']}"}
    slugs = {f"read-{place}": read for place, read in enumerate(shown["reads"])}
    surprisal = Findings(
        lens="read",
        label="Surprisal",
        kind=AMOUNT,
        columns=("bits", "rank", "entropy", "subword", "tag", "top"),
        texts=frozenset({"subword", "tag"}),
        facts=(("rank", "rank", ""), ("entropy", "entropy", "bits"), ("stands in", "tag", "")),
        colourings=COLOURINGS,
        rows={slug: {_ITEM: [_token(one) for one in read["tokens"]]} for slug, read in slugs.items()},
        summaries={slug: {_ITEM: round(read["bits_per_byte"], 3)} for slug, read in slugs.items()},
        summary="bits per byte",
        alike={slug: _WAYS[read["objective"]] for slug, read in slugs.items()},
    )
    attention = Findings(
        lens="heads",
        label="Attention",
        kind=LINK,
        columns=LINKED,
        texts=frozenset({"group", "by"}),
        group="relation",
        rows={
            slug: {_ITEM: [link for arc in read["arcs"] if (link := _link(arc))]}
            for slug, read in slugs.items()
            if read["arcs"]
        },
        alike={slug: read["arcs"][0]["side"] for slug, read in slugs.items() if read["arcs"]},
    )
    found = [surprisal, *([attention] if attention.rows else [])]
    models = [(slug, legible(read["model"])) for slug, read in slugs.items()]
    entry = described({**row, "cluster": ""}, "", limits, strings.number)
    return assembled(models, [entry], _ITEM, found, strings)


def _token(row: Mapping[str, Any]) -> list[Any]:
    scored = row["rank"] > 0
    # Which pieces were likelier is known, not by how much.
    top = [part for piece in row["expected"] for part in (legible(piece), None)]
    bits, entropy = (round(row[name], 3) if scored else None for name in ("bits", "entropy"))
    return [row["start"], row["end"], bits, row["rank"] or None, entropy, row["text"], row["kind"], top]


def _link(row: Mapping[str, Any]) -> list[Any] | None:
    """A row of a relation; None where the head looks at nothing, or nothing is looked for."""
    ends = [(row[end], len(row[f"{end}_text"])) for end in ("asked", "picked", "expected")]
    if any(start is None for start, _ in ends):
        return None
    asked, picked, expected = ((start, start + size) for start, size in ends)
    head = f"head {row['layer']}.{row['head']}"
    return [*asked, row["relation"], int(row["found"]), head, *picked, *expected]


def _read(shown: Mapping[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
    """What of one model stands in tables."""
    worst = sorted((row for row in read["tokens"] if row["rank"] > 0), key=lambda row: -row["bits"])
    return {
        "model": legible(read["model"]),
        "bits": number(read["bits_per_byte"]),
        "way": _WAYS[read["objective"]],
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
    }


def _line(shown: Mapping[str, Any], place: int) -> int:
    return shown["line"] + shown["text"].count("\n", 0, place)


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
