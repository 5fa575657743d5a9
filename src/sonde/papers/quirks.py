"""Quirks that papers declare: the text of each, from its ``modes.toml``, and its rule for a lens.

``modes.toml`` is the only place where the text of a paper's quirks is written. The page on paper modes and
the presets that lenses receive (`build_paper_preset`) are both made from it.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sonde.base.options import Option
from sonde.lenses.engine.lens import PaperPreset, PublishedRule, Quirk


def iterate_declarations() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield paper and section, in the order of the page."""
    entries: list[tuple[int, str, Mapping[str, Any]]] = []
    for path in sorted(Path(__file__).parent.glob("*/modes.toml")):
        sections = tomllib.loads(path.read_text(encoding="utf-8"))["sections"]
        entries += [(section["order"], path.parent.name, section) for section in sections]
    for _, paper, section in sorted(entries, key=lambda entry: entry[0]):
        yield paper, section


@functools.cache
def list_quirks() -> tuple[Mapping[str, Any], ...]:
    """List every quirk that a paper declares, in the order of the page, with ``lens`` if a lens has it."""
    return tuple(
        {**({"lens": part["lens"]} if "lens" in part else {}), **quirk, "paper": paper}
        for paper, section in iterate_declarations()
        for part in section["parts"]
        for quirk in part.get("quirks", ())
    )


def describe_quirks(module: str, *names: str) -> Mapping[str, str]:
    """Describe the published code, for the quirks that a module has or some of them, by name."""
    file = module.replace(".", "/")
    file_paths = (f"src/{file}.py", f"src/{file}/__init__.py")
    descriptions = {
        quirk["name"]: quirk["published"] for quirk in list_quirks() if quirk["where"] in file_paths
    }
    return MappingProxyType({name: descriptions[name] for name in names or descriptions})


def set_fields(**values: Any) -> Callable[[Any], Any]:
    """Build the rule of a quirk that only sets fields of the corrected dataclass."""
    return lambda corrected: dataclasses.replace(corrected, **values)


def build_paper_preset(
    paper: str, lens: str, rules: Mapping[str, PublishedRule], options: Mapping[str, Option] | None = None
) -> PaperPreset:
    """Build the preset of a paper for a lens: its quirks with the rules at their hooks.

    Args:
        paper: The paper's folder.
        lens: Public name of the lens.
        rules: By the names of quirks.
        options: The values that options of the lens have in paper mode.
    """
    declarations = [
        declaration
        for declaration in list_quirks()
        if (declaration["paper"], declaration.get("lens")) == (paper, lens)
    ]
    quirks = tuple(
        Quirk(declaration["name"], declaration["published"], rules.get(declaration["name"]))
        for declaration in declarations
    )
    assert rules.keys() <= {quirk.name for quirk in quirks}, f"{paper}/modes.toml lacks quirks of {lens}"
    return PaperPreset(quirks, options or {})
