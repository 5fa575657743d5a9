"""Run every benchmark, or those named: ``python -m bench [--json] [NAME ...]``."""

import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def main(names: list[str], *, as_json: bool) -> None:
    """Run benchmark modules and print a row per figure, as a table or as JSON lines."""
    found = sorted(
        module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.name[0] != "_"
    )
    if not as_json:
        print(f"{'benchmark':<12} {'figure':<58} {'value':>10} {'unit':<10} target", flush=True)
    for name in names or found:
        for row in importlib.import_module(f"bench.{name}").run():
            print(json.dumps(row) if as_json else _line(name, row), flush=True)


def _line(name: str, row: Mapping[str, Any]) -> str:
    value = f"{row['value']:.3g}" if abs(row["value"]) < 1000 else f"{row['value']:,.0f}"
    line = f"{name:<12} {row['name']:<58} {value:>10} {row['unit']:<10} {row['target'] or ''}"
    return f"{line} (rounds: {row['spread'][0]:.3g} to {row['spread'][1]:.3g})" if "spread" in row else line


if __name__ == "__main__":
    # Reading is timed, not lookups of what an earlier benchmark has read.
    os.environ.setdefault("SONDE_CACHE_SIZE", "0")
    main([word for word in sys.argv[1:] if word != "--json"], as_json="--json" in sys.argv)
