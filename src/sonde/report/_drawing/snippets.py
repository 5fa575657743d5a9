"""Words of a snippet as pictures: arcs between them, and a heat map of what each pays to each other."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np
from jaxtyping import Float

from sonde.report._drawing.theme import MONO, categories, heat
from sonde.report._shared.numbers import number, readable

STEPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8)
"""Shares of what a word pays at which the colour of a field changes; less is not drawn."""

_LINE = 16
_MIDDLE = 320
_SIDE = 200
_CELL = 11
_LABEL = 120
_LONGEST = 16

_FOUND = f"var(--model-0, {categories('light')[0]})"
_OTHER = f"var(--model-1, {categories('light')[1]})"
_MISSED = "var(--muted, #65625b)"
_INK = "var(--ink, #1d1c1a)"

Ends = tuple[str, int, int, int]
"""A relation, and the places of the words asked, looked for and ranked first."""


def arcs(words: Sequence[str], shown: Sequence[int], edges: Sequence[Ends]) -> str:
    """Words from top to bottom; arcs to what is ranked first on the right, to what is missed on the left.

    Args:
        words: All words.
        shown: Places of those that are drawn.
        edges: The edges; those with a word that is not drawn are left out.
    """
    width, height = _MIDDLE * 2, _LINE * (len(shown) + 1)
    root = _svg(width, height)
    line = {at: _LINE * (row + 1) for row, at in enumerate(shown)}
    for at in shown:
        _text(root, words[at], _MIDDLE, line[at] + 4, "middle", 12)
    for name, asked, expected, picked in edges:
        if not {asked, expected, picked} <= line.keys():
            continue
        found = expected == picked
        told = f"{name}: from “{label(words[asked])}” to “{label(words[picked])}”"
        style = {"stroke": _FOUND} if found else {"stroke": _OTHER, "stroke-dasharray": "4 3"}
        _arc(root, line[asked], line[picked], 1, style, told)
        if not found:
            told = f"{name}: from “{label(words[asked])}”, looked for “{label(words[expected])}”"
            _arc(root, line[asked], line[expected], -1, {"stroke": _MISSED}, told)
    return ElementTree.tostring(root, encoding="unicode")


def heat_map(words: Sequence[str], shown: Sequence[int], weights: Float[np.ndarray, "word word"]) -> str:
    """Rows are the words that pay, columns those that are paid.

    Args:
        words: All words.
        shown: Places of those that are drawn.
        weights: Shares of what a word pays; NaN where there is nothing to show.
    """
    size = _LABEL + _CELL * len(shown) + 4
    root = _svg(size, size)
    colours = [background for background, _ in heat("light")]
    for row, at in enumerate(shown):
        middle = _LABEL + _CELL * row + _CELL / 2
        _text(root, words[at], _LABEL - 4, middle + 3, "end", 9)
        _text(root, words[at], 0, 3, "start", 9, f"translate({middle} {_LABEL - 4}) rotate(-90)")
        for column, other in enumerate(shown):
            share = float(weights[at, other])
            # NaN is never at or above a bound.
            step = sum(share >= bound for bound in STEPS)
            if not step:
                continue
            place = {"x": str(_LABEL + _CELL * column), "y": str(_LABEL + _CELL * row)}
            fill = f"var(--heat-{step}, {colours[step]})"
            side = {"width": str(_CELL), "height": str(_CELL)}
            field = ElementTree.SubElement(root, "rect", {**place, **side, "fill": fill})
            told = ElementTree.SubElement(field, "title")
            told.text = f"“{label(words[at])}” to “{label(words[other])}”: {number(100 * share, 0)} %"
    frame = {"x": str(_LABEL), "y": str(_LABEL), "fill": "none", "stroke": "var(--line, #e3dfd6)"}
    inner = str(_CELL * len(shown))
    ElementTree.SubElement(root, "rect", {**frame, "width": inner, "height": inner})
    return ElementTree.tostring(root, encoding="unicode")


def label(word: str) -> str:
    r"""A word as it can be shown: blanks as signs, long ones cut, nothing that XML does not hold.

    >>> label("    "), label("x" * 20), label("a\x0cb")
    ('␣␣␣␣', 'xxxxxxxxxxxxxxx…', 'a·b')
    """
    signs = word.replace("\r\n", "↵").replace("\n", "↵").replace("\t", "⇥").replace(" ", "␣")
    clean = readable("".join(sign if sign.isprintable() else "·" for sign in signs))
    return clean if len(clean) <= _LONGEST else f"{clean[: _LONGEST - 1]}…"


def _svg(width: int, height: int) -> ElementTree.Element:
    shape = {"viewBox": f"0 0 {width} {height}", "width": str(width), "height": str(height)}
    more = {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "font-family": MONO}
    return ElementTree.Element("svg", {**more, **shape})


def _text(
    root: ElementTree.Element, word: str, x: float, y: float, anchor: str, size: int, moved: str = ""
) -> None:
    place = {"x": str(x), "y": str(y), "text-anchor": anchor, "font-size": str(size), "fill": _INK}
    element = ElementTree.SubElement(root, "text", {**place, **({"transform": moved} if moved else {})})
    element.text = label(word)


def _arc(
    root: ElementTree.Element, start: int, end: int, direction: int, style: dict[str, str], told: str
) -> None:
    edge = _MIDDLE + direction * 75
    reach = edge + direction * min(_SIDE, 12 + abs(end - start) // 2)
    path = f"M {edge} {start} C {reach} {start} {reach} {end} {edge} {end}"
    arc = ElementTree.SubElement(root, "path", {"d": path, "fill": "none", "stroke-width": "1.6", **style})
    dot = {"cx": str(edge), "cy": str(end), "r": "2.5", "fill": style["stroke"]}
    ElementTree.SubElement(root, "circle", dot)
    ElementTree.SubElement(arc, "title").text = told
