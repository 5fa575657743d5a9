"""What the words of pages and docs mean: the page shows it on hover, and the docs list it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def glossary() -> Mapping[str, str]:
    """Each term with its meaning in one clause, by alphabet."""
    return tomllib.loads((files("sonde.results") / "glossary.toml").read_text(encoding="utf-8"))
