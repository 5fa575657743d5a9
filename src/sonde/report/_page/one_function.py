"""The page of ``sonde show``: one function as models read it, from what the command prints as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from markupsafe import Markup

from sonde.languages._text import line_breaks
from sonde.report._any_lens._functions import ExplorerLimits, described
from sonde.report._any_lens.explorer import SCRIPTS, Strings, assembled
from sonde.report._drawing.snippets import Ends, arcs
from sonde.report._drawing.theme import HEAT_STEPS, MODES, MONO, SANS, SERIF, css_variables
from sonde.report._page.templates import asset, templates
from sonde.report._shared.numbers import number
from sonde.report._shared.tokens import WAYS, Findings
from sonde.results.formats import legible
from sonde.version import __version__

_WORST = 10

ONE = "function"
"""Id of the function on its page."""

_CHARACTERS = 20_000
"""Characters of a text that are shown, from its beginning."""


def page_of_function(shown: Mapping[str, Any], found: Sequence[Findings]) -> str:
    """The page as text; every text is escaped, nothing is loaded.

    Args:
        shown: A function with its ``reads``, as ``sonde show --json`` prints it.
        found: What was found at its places, by `read_slug` and with `ONE` as its id.
    """
    name = legible(shown["name"] or PurePath(shown["file"]).name)
    data = _explored(shown, name, found)
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
            version=__version__,
            asset=asset,
        )
    )


def _explored(shown: Mapping[str, Any], name: str, found: Sequence[Findings]) -> dict[str, Any]:
    """The function for the explorer of tokens, each read as a model of its own."""
    strings, limits = Strings(), ExplorerLimits(characters=_CHARACTERS)
    place = f"{shown['file']}, line {shown['line']}"
    row = {**shown, "item_id": ONE, "name": name, "path": place, "cluster": ""}
    models = [(read_slug(number), legible(read["model"])) for number, read in enumerate(shown["reads"])]
    return assembled(models, [described(row, "", limits, strings.number)], ONE, found, strings)


def read_slug(number: int) -> str:
    """What a read is called in `Findings`, by its place among the reads."""
    return f"read-{number}"


def _read(shown: Mapping[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
    """What of one model stands in tables."""
    worst = sorted((row for row in read["tokens"] if row["rank"] > 0), key=lambda row: -row["bits"])
    return {
        "model": legible(read["model"]),
        "bits": "" if read["unscored"] else number(read["bits_per_byte"]),
        "way": "" if read["unscored"] else WAYS[read["objective"]],
        "unscored": legible(read["unscored"]),
        "head": legible(read["head"]),
        "seen": read["seen"],
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
    return shown["line"] + line_breaks(shown["text"], 0, place)


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
