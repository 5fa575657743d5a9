"""Glossary of the terms on pages and in the docs: tooltips on the page, a list in the docs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def load_glossary() -> Mapping[str, str]:
    """Load the meaning of each term, in one clause, in alphabetical order."""
    return tomllib.loads((files("sonde.results") / "glossary.toml").read_text(encoding="utf-8"))
