"""Meanings and units of the metrics of a lens, from the file ``metrics.toml`` in its folder."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.base.registry import Registry


@dataclass(frozen=True, slots=True)
class MetricDescription:
    """What a number of a lens means, and its unit."""

    unit: str
    means: str


def read_metrics(lenses: Registry[Any], lens: str) -> Mapping[str, MetricDescription]:
    """Read the metrics of a lens; empty if its folder has no file of them.

    Args:
        lenses: The lenses.
        lens: Name of one.

    Raises:
        UnknownNameError: There is no such lens; the nearest is named.
    """
    module = importlib.import_module(lenses.module_name(lens))
    assert module.__file__ is not None, lens
    file = Path(module.__file__).with_name("metrics.toml")
    if Path(module.__file__).name != "__init__.py" or not file.is_file():
        return {}
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    return {name: MetricDescription(**row) for name, row in table.items()}
