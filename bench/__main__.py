"""Run every benchmark, or those named: ``python -m bench [NAME ...]``."""

import importlib
import os
import pkgutil
import sys
from pathlib import Path


def main(names: list[str]) -> None:
    """Run benchmark modules and print a row a figure."""
    found = sorted(
        module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if module.name[0] != "_"
    )
    print(f"{'benchmark':<12} {'figure':<58} {'value':>10} {'unit':<10} target", flush=True)
    for name in names or found:
        for row in importlib.import_module(f"bench.{name}").run():
            value = f"{row['value']:.3g}" if abs(row["value"]) < 1000 else f"{row['value']:,.0f}"
            line = f"{name:<12} {row['name']:<58} {value:>10} {row['unit']:<10} {row['target'] or ''}"
            if "spread" in row:
                low, high = row["spread"]
                line += f" (rounds: {low:.3g} to {high:.3g})"
            print(line, flush=True)


if __name__ == "__main__":
    # What is timed is the reading, not the finding of what an earlier benchmark has read.
    os.environ.setdefault("SONDE_CACHE_SIZE", "0")
    main(sys.argv[1:])
