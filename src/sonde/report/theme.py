"""Colours and type of the report in light and dark, its templates, and the marking of glossary terms.

The colours and type of the report and its figures are stated only here. Templates hold of a run only escaped
text, and JSON that is safe. Terms of the glossary are marked in a text, so that a reader who points at one is
shown its meaning.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from sonde.results.text_format import MARK_GROUP, MARK_MEANINGS, TOO_LITTLE, load_glossary, mark_reasons

MODES = ("light", "dark")


FIGURE_SANS = "'Liberation Sans', Arial, Helvetica, sans-serif"
"""Fonts of SVG files. Their letters are equally wide, and texts are placed by these widths."""
SANS = f"system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', {FIGURE_SANS}"


SERIF = "'Iowan Old Style', 'Palatino Linotype', Palatino, P052, 'URW Palladio L', Georgia, serif"


MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace"


HEAT_EDGES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0)
"""Bits at which a token's colour changes; nine steps, finer where most tokens are."""


HEAT_STEPS = len(HEAT_EDGES) + 1


_SURFACES = {
    "light": {
        "paper": "#fcfbf8",
        "raised": "#ffffff",
        "ink": "#1d1c1a",
        "muted": "#65625b",
        "line": "#e3dfd6",
        "accent": "#1f5f99",
        "wrong": "#aa442b",
        "right": "#317a45",
    },
    "dark": {
        "paper": "#141618",
        "raised": "#1b1e21",
        "ink": "#e9e6df",
        "muted": "#a19d94",
        "line": "#33373c",
        "accent": "#7db8ea",
        "wrong": "#fc8e72",
        "right": "#7cc58c",
    },
}


HEAT_COLOURS = {
    "light": (
        ("#fdfaef", "#000000"), ("#f4e5c4", "#000000"), ("#edcea0", "#000000"),
        ("#e7b680", "#000000"), ("#e19d64", "#000000"), ("#da834c", "#000000"),
        ("#d1673a", "#000000"), ("#c64a30", "#ffffff"), ("#b9292d", "#ffffff"),
    ),
    "dark": (
        ("#201a19", "#ffffff"), ("#3c2621", "#ffffff"), ("#563529", "#ffffff"),
        ("#70452e", "#ffffff"), ("#895732", "#ffffff"), ("#a26b34", "#000000"),
        ("#b88136", "#000000"), ("#cd9938", "#000000"), ("#dfb23c", "#000000"),
    ),
}  # fmt: skip
"""Background and text of each step from certain to surprised: lightness moves evenly from the paper."""


WORD_COLOURS = {
    "light": (
        "#67849d", "#597fa0", "#4a7ba3", "#9f5d3c", "#a25231",
        "#a34628", "#a53821", "#a5281d", "#a50d1c",
    ),
    "dark": (
        "#7996af", "#759cbe", "#71a3cd", "#d58f6c", "#e48f6c",
        "#f38e6e", "#ff8d72", "#ff8b79", "#ff8981",
    ),
}  # fmt: skip
"""Text colours of the word clouds, from certain (cool) to surprised (warm), legible on the paper."""


MODEL_COLOURS = {
    "light": ("#166daf", "#984780", "#00805d", "#6f57ab", "#007b92", "#4f7715"),
    "dark": ("#69b7ff", "#e88fcb", "#43cba4", "#b7a0fb", "#0ec7de", "#96c166"),
}  # fmt: skip
"""Colours of the models of a run, equally strong, told apart without red against green.

The first is that of a run's only model; none is the colour of a control, see `MEANINGS`.
"""


KIND_COLOURS = {
    "light": ("#425274", "#5a928e", "#7e6385", "#6d8967", "#356577", "#9b6c6c", "#28523c", "#795d3c"),
    "dark": ("#b8cbf3", "#669e9a", "#bc9fc3", "#85a27f", "#94c7db", "#c1908f", "#b6e4ca", "#d1b18e"),
}  # fmt: skip
"""Colours of what is neither a model nor a control, such as kinds of token: paler than both."""


_MEANINGS = {
    # The model itself, and one head of it.
    "": ("#166daf", "#69b7ff"),
    "one_head": ("#4a8b9a", "#63a4b3"),
    # What reads no model: rules, frequencies, the surface of the code.
    "combined": ("#83451e", "#f9b189"),
    "offset": ("#9d6300", "#d8994c"),
    "keyword": ("#957f23", "#ae9740"),
    "longest": ("#8c7659", "#b19b7c"),
    "majority": ("#9d6300", "#d8994c"),
    "unigram": ("#957f23", "#ae9740"),
    "bag_of_tokens": ("#83451e", "#f9b189"),
    "bag_of_bigrams": ("#98483c", "#f69c8d"),
    "ngram_surprisal": ("#7f8e4e", "#8b9b5a"),
    "length": ("#957f23", "#ae9740"),
    "parse_error": ("#8c7659", "#b19b7c"),
    "artefacts": ("#905845", "#dea08b"),
    "surface": ("#9d6300", "#d8994c"),
    # The same model without its training, before and after training on the task's own examples.
    "random_weights": ("#5b5b5b", "#c1c1c1"),
    "scratch": ("#5b5b5b", "#c1c1c1"),
    "chance": ("#808080", "#989898"),
    # Other models, trained from scratch.
    "bilstm": ("#895284", "#d59acf"),
    "transformer": ("#725b9a", "#bba3e8"),
    "lstm_pointer": ("#994f5c", "#e996a2"),
    "word2vec_cbow_ns": ("#926b8e", "#b88fb3"),
    "word2vec_cbow_hs": ("#9a6980", "#c18da5"),
    "word2vec_skipgram_ns": ("#876f9a", "#ac93bf"),
    "word2vec_skipgram_hs": ("#7973a1", "#9d97c8"),
}


MEANING_RANGE: Literal["diverging"] = "diverging"


KIND_RANGE: Literal["ramp"] = "ramp"
"""Under which names `MEANING_COLOURS` and `KIND_COLOURS` are found; Vega-Lite allows but eight names."""


MEANINGS = tuple(_MEANINGS)
"""What has a colour of its own on every chart: the model (the empty name) and controls by name."""


MEANING_COLOURS = {mode: [pair[index] for pair in _MEANINGS.values()] for index, mode in enumerate(MODES)}
"""Colours of `MEANINGS`: the model blue, what reads no model ochre, untrained weights and chance grey."""


def build_css_variables(mode: str) -> dict[str, str]:
    """Build the custom properties of the page in one mode."""
    colours = {
        "heat": [background for background, _ in HEAT_COLOURS[mode]],
        "heat-text": [text for _, text in HEAT_COLOURS[mode]],
        "word": WORD_COLOURS[mode],
        "model": MODEL_COLOURS[mode],
    }
    steps = {
        f"{name}-{step}": colour for name, shades in colours.items() for step, colour in enumerate(shades)
    }
    return {**_SURFACES[mode], **steps}


def build_vega_config(mode: str) -> dict[str, Any]:
    """Build the configuration of every chart in one mode; charts name styles, never colours."""
    surface = _SURFACES[mode]
    ink, muted, line, paper = surface["ink"], surface["muted"], surface["line"], surface["paper"]
    colours = MODEL_COLOURS[mode]
    meaning_colours = dict(zip(MEANINGS, MEANING_COLOURS[mode], strict=True))
    ramp = [background for background, _ in HEAT_COLOURS[mode]][2:]
    return {
        "background": "transparent" if mode == "dark" else paper,
        "font": SANS,
        "padding": 4,
        "view": {"stroke": None},
        "mark": {"color": colours[0]},
        "range": {
            "category": colours,
            "heatmap": ramp,
            "ordinal": ramp,
            MEANING_RANGE: MEANING_COLOURS[mode],
            KIND_RANGE: KIND_COLOURS[mode],
        },
        "axis": {
            "domain": False,
            "ticks": False,
            "grid": False,
            "labelColor": ink,
            "labelFontSize": 12,
            "labelPadding": 8,
            "labelLimit": 240,
            "titleColor": muted,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 10,
            "gridColor": line,
        },
        "axisQuantitative": {"grid": True, "labelColor": muted, "tickCount": 6, "labelFlush": False},
        "legend": {
            "labelColor": ink,
            "titleColor": muted,
            "titleFontWeight": "normal",
            "labelFontSize": 12,
            "titleFontSize": 12,
            "orient": "top",
            "symbolType": "circle",
            "columns": 2,
            "labelLimit": 320,
        },
        "title": {"color": ink, "fontSize": 13, "anchor": "start", "fontWeight": 600},
        "header": {"labelColor": ink, "titleColor": muted},
        "style": {
            "dot": {"size": 70, "opacity": 1, "filled": True},
            "few": {"size": 60, "opacity": 1, "filled": False, "strokeWidth": 1.6},
            "interval": {"color": colours[0], "strokeWidth": 1.8, "opacity": 0.6, "strokeCap": "round"},
            "spread": {"strokeWidth": 1.8, "opacity": 0.6, "strokeCap": "round"},
            "joint": {"color": line, "strokeWidth": 3, "strokeCap": "round"},
            # The best surface baseline, and random weights, where they stand beside a number as a mark.
            "surface": {"color": meaning_colours["surface"], "thickness": 2.4, "size": 13},
            "random": {
                "color": meaning_colours["random_weights"],
                "size": 60,
                "filled": False,
                "strokeWidth": 1.6,
            },
            "neutral": {"color": muted},
            "reference": {"color": muted, "strokeWidth": 1, "strokeDash": [3, 3]},
            "note": {"color": muted, "fontSize": 11, "fontWeight": "normal"},
            # Names in a picture, on the paper and pale cells, and on strong ones.
            "name": {"color": ink, "fontSize": 11, "fontWeight": "normal"},
            "reversed": {"color": paper, "fontSize": 11, "fontWeight": "normal"},
            "cloud": {"size": 14, "opacity": 0.28, "filled": True},
            "trend": {"strokeWidth": 2.4},
            "band": {"opacity": 0.16},
            "columns": {"opacity": 0.5},
            "box": {"opacity": 0.35, "cornerRadius": 2},
            "whisker": {"color": colours[0], "strokeWidth": 1.2, "opacity": 0.8},
        },
    }


def recolour_model(config: dict[str, Any], index: int) -> dict[str, Any]:
    """Return `config` with the colour of the run's model `index` for its model; `page.js` does the same."""
    colour = config["range"]["category"][index % len(config["range"]["category"])]
    style = config["style"]
    return {
        **config,
        "mark": {**config["mark"], "color": colour},
        "range": {**config["range"], MEANING_RANGE: [colour, *config["range"][MEANING_RANGE][1:]]},
        "style": {**style, **{name: {**style[name], "color": colour} for name in ("interval", "whisker")}},
    }


@cache
def _build_term_pattern() -> re.Pattern[str]:
    # Longer terms first: a control task is not a control.
    terms = "|".join(re.escape(term) for term in sorted(load_glossary(), key=len, reverse=True))
    return re.compile(rf"\b({terms})(s|es)?\b", re.IGNORECASE)


def mark_terms(text: str) -> Markup:
    """Escape a text and mark the first mention of each term.

    >>> print(mark_terms("Chance & Chances"))
    <abbr title="what answering at random reaches">Chance</abbr> &amp; Chances
    """
    meanings = {term.lower(): meaning for term, meaning in load_glossary().items()}
    mentions: set[str] = set()
    parts: list[Markup] = []
    end = 0
    for match in _build_term_pattern().finditer(text):
        term = match[1].lower()
        mark = Markup('<abbr title="{}">{}</abbr>').format(meanings[term], match[0])
        parts += [escape(text[end : match.start()]), escape(match[0]) if term in mentions else mark]
        mentions.add(term)
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def explain_marks(text: str) -> Markup:
    """Escape a text and mark each number that allows no verdict, with an explanation of the mark.

    >>> print(explain_marks("a < b †"))
    a &lt; b <abbr title="too little data for a verdict: fewer than 10 effective clusters">†</abbr>
    """
    escaped = str(escape(mark_reasons(text)))

    def explain(match: re.Match[str]) -> str:
        titles = [escape(f"{TOO_LITTLE} for a verdict: {MARK_MEANINGS[mark]}") for mark in match[0]]
        marks = zip(match[0], titles, strict=True)
        return "".join(f'<abbr title="{title}">{mark}</abbr>' for mark, title in marks)

    return Markup(MARK_GROUP.sub(explain, escaped))


def load_templates() -> Environment:
    """Load the templates of this package; all texts are escaped."""
    environment = Environment(
        loader=FunctionLoader(_read_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["json"] = to_embedded_json
    environment.filters["terms"] = mark_terms
    environment.filters["marks"] = explain_marks
    return environment


def to_embedded_json(value: Any) -> Markup:
    r"""Write JSON that may stand in a script element: no character can end the element or open a comment.

    >>> print(to_embedded_json("</script><!-- & -->"))
    "\u003c/script\u003e\u003c!-- \u0026 --\u003e"
    """
    text = json.dumps(
        _replace_non_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str
    )
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def _replace_non_finite(value: Any) -> Any:
    """Replace every number that JSON cannot hold by null."""
    # The data of a page are hundreds of thousands of texts and numbers, and few of anything else.
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {key: _replace_non_finite(item) for key, item in value.items()}
    if kind is list or kind is tuple or isinstance(value, list | tuple):
        return [_replace_non_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read_file(name: str) -> str:
    return (files("sonde.report") / name).read_text(encoding="utf-8")


def load_asset(name: str) -> Markup:
    """Load a style sheet or script of this package, as it is."""
    return Markup(_read_file(name))
