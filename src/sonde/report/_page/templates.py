"""The templates of the pages, and what these may hold of a run: escaped text, and JSON that is safe."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from sonde.report._page.terms import with_terms


def templates() -> Environment:
    """The templates of this package; all texts are escaped."""
    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["json"] = embedded_json
    environment.filters["terms"] = with_terms
    return environment


def embedded_json(value: Any) -> Markup:
    r"""JSON that may stand in a script element: no character of it can end the element or open a comment.

    >>> print(embedded_json("</script><!-- & -->"))
    "\u003c/script\u003e\u003c!-- \u0026 --\u003e"
    """
    text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(text)


def _finite(value: Any) -> Any:
    """The value with null for every number that JSON cannot hold."""
    # The data of a page are hundreds of thousands of texts and numbers, and few of anything else.
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is dict or isinstance(value, Mapping):
        return {key: _finite(held) for key, held in value.items()}
    if kind is list or kind is tuple or isinstance(value, list | tuple):
        return [_finite(held) for held in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _template(name: str) -> str:
    return (files("sonde.report") / name).read_text(encoding="utf-8")


def asset(name: str) -> Markup:
    """A style sheet or script of this package, as it is."""
    return Markup(_template(name))
