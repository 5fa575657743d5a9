"""Write the page on performance, with the benchmarks that were measured last."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]


def render_page() -> str:
    """Return the template with the figures of ``docs/measured/``."""
    page = (DOCS / "performance.template.md").read_text(encoding="utf-8")
    medians: dict[str, str] = {}
    for name, file in (("cpu", "processor"), ("real", "real"), ("accelerator", "accelerator")):
        found, places = _measured(file), dict[str, str]()
        rows = [_figure(one, row, places) for one in found for row in one["rows"]]
        medians |= {row["name"]: _ratio(row["values"]) for one in found for row in one["rows"]}
        machines = "".join(f"- **{letter}**: {place}\n" for place, letter in places.items())
        page = page.replace(f"{{{name}: count}}", str(len(rows)))
        page = page.replace(f"{{{name}: figures}}\n", "".join(rows) or "| none was at hand | | | | | |\n")
        page = page.replace(f"{{{name}: machines}}\n", machines)
    return re.sub(r"\{ratio: ([^}]+)\}", lambda match: medians[match[1]], page)


def _ratio(values: Sequence[float]) -> str:
    """Format a median in bold, with the range of several rounds."""
    shown = f"**{statistics.median(values):.2f}**"
    return f"{shown} [{min(values):.2f}, {max(values):.2f}]" if len(values) > 1 else shown


def _measured(name: str) -> list[dict[str, Any]]:
    path = DOCS / "measured" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def _figure(found: dict[str, Any], row: dict[str, Any], places: dict[str, str]) -> str:
    """Format a line of a table; where it was measured is a letter."""
    letter = places.setdefault(_place(found), chr(ord("A") + len(places)))
    values = row["values"]
    shown = f"{_digits(statistics.median(values))} {row['unit']}".strip()
    spread = f"{_digits(min(values))} to {_digits(max(values))}" if len(values) > 1 else ""
    target = "" if row["target"] is None else row["target"]
    return f"| {row['name']} | {shown} | {spread} | {target} | `{found['command']}` | {letter} |\n"


def _digits(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _place(found: dict[str, Any]) -> str:
    held = found["machine"]
    named = [held["accelerator"], held["processor"], f"{held['cores']} cores, {held['memory_gib']} GiB"]
    known = {"accelerator", "processor", "cores", "memory_gib"}
    named += [f"{name} {version}" for name, version in held.items() if name not in known and version]
    load = f"; load of the machine in the last quarter of an hour {found['load']}" if found["load"] else ""
    return f"{found['when']}, {', '.join(filter(None, named))}; rounds: {found['rounds']}{load}"
