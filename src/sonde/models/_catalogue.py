"""Known checkpoints, for listings and for the nearest match of a mistyped name."""

from __future__ import annotations

import json
import tomllib
from functools import lru_cache
from importlib.resources import files

from sonde.base.registry import Header
from sonde.models._bundled import bundled_folder, bundled_names


@lru_cache(maxsize=1)
def known_models() -> tuple[Header, ...]:
    """The bundled models, then the catalogue, each with its family and a line."""
    table = tomllib.loads((files("sonde.models") / "catalogue.toml").read_text(encoding="utf-8"))
    known = [Header(name, f"{family}: {line}") for name, (family, line) in table["models"].items()]
    return (*(Header(name, _bundled_line(name)) for name in bundled_names()), *known)


def _bundled_line(name: str) -> str:
    folder = bundled_folder(name)
    assert folder is not None, name
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    layers, width = config.get("num_hidden_layers"), config.get("hidden_size")
    return f"{config['model_type']}: bundled, {layers} x {width}, {size / 1e6:.0f} MB; needs no network"
