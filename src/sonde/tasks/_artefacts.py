"""What the making of a data set may leave in it: signs by which a label is told without knowing the code.

Each rule gives a number an example. A rule that tells labels apart better than chance is a leak; all of them
together, in a shallow tree, are a baseline of `sonde.tasks._surface`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sonde.corpora import Item
from sonde.languages import LANGUAGES, facet_of, has_facet
from sonde.languages._edits import Edits
from sonde.languages._flow import Flow
from sonde.languages._objections import OBJECTIONS
from sonde.tasks._pool import edits_of

PARSES, HEAD, OVERLAP, OWN_NAME, MARKS = "parses", "head", "overlap", "own_name", "marks"
RULES = (PARSES, *OBJECTIONS, HEAD, OVERLAP, OWN_NAME, MARKS)
"""The code parses; how often a compiler objects to it, by kind; how rare the first keyword of its head is
among the examples; the share of the words of the pair's second side that stand in the first; the name of the
function among the words about it; how many of the two marks stand on no declaration."""

Rows = Sequence[Mapping[str, Any]]

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAMED = re.compile(r"\w+")


def artefact_features(rows: Rows, texts: Mapping[str, Item]) -> list[tuple[float, ...]]:
    """Return the numbers of `RULES` for each example; 0 where a rule says nothing of it.

    Args:
        rows: Examples in `EXAMPLE_SCHEMA`.
        texts: Their items by id.
    """
    # Where only some have another end, as functions with a bug have, that would be the label itself.
    paired = all(row["other_start"] is not None for row in rows)
    found = [_of_one(row, texts[row["item_id"]], paired=paired) for row in rows]
    heads = Counter(head for head, _ in found)
    place = RULES.index(HEAD)
    return [(*numbers[:place], 1 - heads[head] / len(found), *numbers[place:]) for head, numbers in found]


def _of_one(row: Mapping[str, Any], item: Item, *, paired: bool) -> tuple[str, tuple[float, ...]]:
    """The first keyword of the head, and the numbers of all other rules."""
    edits = edits_of(item.language)
    whole = row["start"] == 0
    code = code_of(row, item.text, paired=paired)
    sides = [item.text[row["start"] : row["end"]], item.text[row["other_start"] : row["other_end"]]]
    overlap = _overlap(*sides) if paired else 0.0
    own = float(paired and whole and _holds_name(sides[1], code, item.language))
    if edits is None:
        return "", (0.0,) * (1 + len(OBJECTIONS)) + (overlap, own, 0.0)
    said = edits.objections(code)
    kinds = Counter[str]()
    for (kind, _), times in said.items():
        kinds[kind] += times
    marks = 0.0
    if paired and not whole and has_facet(item.language, "flow"):
        held = _declared(code, item.language)
        marks = float(sum((row[side] not in held) for side in ("start", "other_start")))
    numbers = (float(edits.parses(code)), *(float(kinds[kind]) for kind in OBJECTIONS), overlap, own, marks)
    return _first_keyword(code, edits), numbers


def code_of(row: Mapping[str, Any], text: str, *, paired: bool) -> str:
    """The code of an example: of a function beside words, which stand behind it, the function alone."""
    return text[: row["end"]] if paired and row["start"] == 0 else text


def _first_keyword(code: str, edits: Edits) -> str:
    return next((place.surface for place in edits.keyword_places(code)), "")


def _declared(code: str, language: str) -> frozenset[int]:
    """Where the declarations of variables stand."""
    return frozenset(one.declaration.start for one in facet_of(language, "flow", Flow).variables(code))


def _overlap(code: str, words: str) -> float:
    """The share of the words of the second side that stand in the first."""
    held = {word.lower() for word in _WORD.findall(code)}
    asked = [word.lower() for word in _WORD.findall(words)]
    return sum(word in held for word in asked) / len(asked) if asked else 0.0


def _holds_name(words: str, code: str, language: str) -> bool:
    functions = LANGUAGES.load(language).functions(code)
    name = functions[0].name if functions else ""
    return not {*_bare(name)}.isdisjoint(_bare(words))


def _bare(text: str) -> list[str]:
    """The words of a text in lower case, without the underscores around them."""
    return [word.lower().strip("_") for word in _NAMED.findall(text) if word.strip("_")]
