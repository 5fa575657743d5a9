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

from sonde.results.text_format import load_glossary

MODES = ("light", "dark")


SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"


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
    },
    "dark": {
        "paper": "#141618",
        "raised": "#1b1e21",
        "ink": "#e9e6df",
        "muted": "#a19d94",
        "line": "#33373c",
        "accent": "#7db8ea",
    },
}


def oklch_to_hex(lightness: float, chroma: float, hue: float) -> str:
    """A colour of the perceptually uniform OKLCH space as ``#rrggbb``, clipped to sRGB.

    Args:
        lightness: 0 (black) to 1 (white).
        chroma: 0 (grey) to about 0.3.
        hue: Degrees.

    Source: B. Ottosson, "A perceptual color space for image processing" (2020), matrices as published.
    """
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(max(value, 0.0), 1.0))):02x}" for value in linear)


def _gamma(value: float) -> float:
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def compute_luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` (WCAG 2.2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def compute_contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2); text needs 4.5."""
    high, low = sorted((compute_luminance(one), compute_luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def heat_colours(mode: str) -> list[tuple[str, str]]:
    """Background and text of each step from certain to surprised: lightness moves evenly from the paper."""
    steps: list[tuple[str, str]] = []
    for step in range(HEAT_STEPS):
        share = step / (HEAT_STEPS - 1)
        if mode == "light":
            background = oklch_to_hex(0.985 - 0.47 * share, 0.015 + 0.165 * share**0.8, 95 - 70 * share)
        else:
            background = oklch_to_hex(0.225 + 0.56 * share, 0.01 + 0.13 * share**0.8, 25 + 62 * share)
        text = max(("#000000", "#ffffff"), key=lambda candidate: compute_contrast(background, candidate))
        steps.append((background, text))
    return steps


def word_cloud_colours(mode: str) -> list[str]:
    """Text colours of the word clouds, from certain (cool) to surprised (warm), legible on the paper."""
    lightness = (0.60, 0.46) if mode == "light" else (0.66, 0.80)
    colours: list[str] = []
    for step in range(HEAT_STEPS):
        share = step / (HEAT_STEPS - 1)
        light = lightness[0] + (lightness[1] - lightness[0]) * share
        colours.append(oklch_to_hex(light, 0.05 + 0.13 * share, 245 if share < 0.35 else 60 - 35 * share))
    return colours


_MEANINGS: dict[str, tuple[float, float, float]] = {
    # The model itself, and one head of it.
    "": (0.52, 0.13, 248),
    "one_head": (0.60, 0.07, 215),
    # What reads no model: rules, frequencies, the surface of the code.
    "combined": (0.46, 0.10, 50),
    "offset": (0.55, 0.12, 70),
    "keyword": (0.60, 0.11, 95),
    "longest": (0.58, 0.05, 75),
    "majority": (0.55, 0.12, 70),
    "unigram": (0.60, 0.11, 95),
    "bag_of_tokens": (0.46, 0.10, 50),
    "bag_of_bigrams": (0.50, 0.11, 30),
    "ngram_surprisal": (0.62, 0.09, 120),
    "length": (0.60, 0.11, 95),
    "parse_error": (0.58, 0.05, 75),
    "artefacts": (0.52, 0.08, 40),
    "surface": (0.55, 0.12, 70),
    # The same model without its training, before and after training on the task's own examples.
    "random_weights": (0.47, 0.0, 0),
    "scratch": (0.47, 0.0, 0),
    "chance": (0.60, 0.0, 0),
    # Other models, trained from scratch.
    "bilstm": (0.52, 0.10, 330),
    "transformer": (0.52, 0.10, 300),
    "lstm_pointer": (0.52, 0.10, 10),
    "word2vec_cbow_ns": (0.58, 0.07, 330),
    "word2vec_cbow_hs": (0.58, 0.07, 350),
    "word2vec_skipgram_ns": (0.58, 0.07, 310),
    "word2vec_skipgram_hs": (0.58, 0.07, 290),
}


MEANING_RANGE: Literal["diverging"] = "diverging"


KIND_RANGE: Literal["ramp"] = "ramp"
"""Under which names `meaning_colours` and `kind_colours` are found; Vega-Lite allows but eight names."""


MEANINGS = tuple(_MEANINGS)
"""What has a colour of its own on every chart: the model (the empty name) and controls by name."""


def meaning_colours(mode: str) -> list[str]:
    """Colours of `MEANINGS`: the model blue, what reads no model ochre, untrained weights and chance grey."""
    return [
        oklch_to_hex(lightness if mode == "light" else 1.28 - lightness, chroma, hue)
        for lightness, chroma, hue in _MEANINGS.values()
    ]


def model_colours(mode: str) -> list[str]:
    """Colours of the models of a run, equally strong, told apart without red against green.

    The first is that of a run's only model; none is the colour of a control, see `MEANINGS`.
    """
    lightness = 0.52 if mode == "light" else 0.76
    return [oklch_to_hex(lightness, 0.13, hue) for hue in (248, 340, 170, 295, 210, 130)]


def kind_colours(mode: str) -> list[str]:
    """Colours of what is neither a model nor a control, such as kinds of token: paler than both."""
    return [oklch_to_hex(light if mode == "light" else 1.28 - light, 0.06, hue) for light, hue in _KINDS]


_KINDS = (
    (0.44, 265), (0.62, 190), (0.54, 320), (0.60, 140), (0.48, 225), (0.58, 20), (0.40, 160), (0.50, 70),
)  # fmt: skip


def build_css_variables(mode: str) -> dict[str, str]:
    """Custom properties of the page in one mode."""
    variables = dict(_SURFACES[mode])
    for step, (background, text) in enumerate(heat_colours(mode)):
        variables[f"heat-{step}"] = background
        variables[f"heat-text-{step}"] = text
    variables |= {f"word-{step}": colour for step, colour in enumerate(word_cloud_colours(mode))}
    lightness = 0.52 if mode == "light" else 0.76
    variables |= {"wrong": oklch_to_hex(lightness, 0.14, 35), "right": oklch_to_hex(lightness, 0.11, 150)}
    return variables | {f"model-{i}": colour for i, colour in enumerate(model_colours(mode))}


def build_vega_config(mode: str) -> dict[str, Any]:
    """Configuration of every chart in one mode; charts name styles, never colours."""
    surface = _SURFACES[mode]
    ink, muted, line, paper = surface["ink"], surface["muted"], surface["line"], surface["paper"]
    colours = model_colours(mode)
    named = dict(zip(MEANINGS, meaning_colours(mode), strict=True))
    ramp = [background for background, _ in heat_colours(mode)][2:]
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
            MEANING_RANGE: meaning_colours(mode),
            KIND_RANGE: kind_colours(mode),
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
            "surface": {"color": named["surface"], "thickness": 2.4, "size": 13},
            "random": {"color": named["random_weights"], "size": 60, "filled": False, "strokeWidth": 1.6},
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


def recolour_model(config: dict[str, Any], place: int) -> dict[str, Any]:
    """A configuration whose model has the colour of the run's model at a place; `page.js` does the same."""
    colour = config["range"]["category"][place % len(config["range"]["category"])]
    style = config["style"]
    return {
        **config,
        "mark": {**config["mark"], "color": colour},
        "range": {**config["range"], MEANING_RANGE: [colour, *config["range"][MEANING_RANGE][1:]]},
        "style": {**style, **{name: {**style[name], "color": colour} for name in ("interval", "whisker")}},
    }


@cache
def _term_pattern() -> re.Pattern[str]:
    # Longer terms first: a control task is not a control.
    terms = "|".join(re.escape(term) for term in sorted(load_glossary(), key=len, reverse=True))
    return re.compile(rf"\b({terms})(s|es)?\b", re.IGNORECASE)


def mark_terms(text: str) -> Markup:
    """A text, escaped, with the first mention of each term marked.

    >>> print(mark_terms("Chance & Chances"))
    <abbr title="what answering at random reaches">Chance</abbr> &amp; Chances
    """
    meanings = {term.lower(): meaning for term, meaning in load_glossary().items()}
    seen: set[str] = set()
    parts: list[Markup] = []
    end = 0
    for found in _term_pattern().finditer(text):
        term = found[1].lower()
        mark = Markup('<abbr title="{}">{}</abbr>').format(meanings[term], found[0])
        parts += [escape(text[end : found.start()]), escape(found[0]) if term in seen else mark]
        seen.add(term)
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def load_templates() -> Environment:
    """The templates of this package; all texts are escaped."""
    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["json"] = to_embedded_json
    environment.filters["terms"] = mark_terms
    return environment


def to_embedded_json(value: Any) -> Markup:
    r"""JSON that may stand in a script element: no character of it can end the element or open a comment.

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
    """The value with null for every number that JSON cannot hold."""
    # The data of a page are hundreds of thousands of texts and numbers, and few of anything else.
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {key: _replace_non_finite(held) for key, held in value.items()}
    if kind is list or kind is tuple or isinstance(value, list | tuple):
        return [_replace_non_finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _template(name: str) -> str:
    return (files("sonde.report") / name).read_text(encoding="utf-8")


def load_asset(name: str) -> Markup:
    """A style sheet or script of this package, as it is."""
    return Markup(_template(name))
