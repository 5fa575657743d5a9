"""``make calibrate``: all calibrations in full; ``python -m tests.calibration [--short] [NAMES]``: some."""

from __future__ import annotations

import argparse
import sys

from tests.calibration import Row, calibrations


def main(arguments: list[str]) -> int:
    """Print a table of every calibration; 1 where a bound is broken."""
    known = calibrations()
    parser = argparse.ArgumentParser(prog="python -m tests.calibration", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAMES", help=", ".join(one.name for one in known))
    parser.add_argument("--short", action="store_true", help="as few draws as in the tests")
    parser.add_argument("--draws", type=int, help="this many draws of each")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - {one.name for one in known}:
        parser.error(f"no calibration is called {', '.join(sorted(unknown))}")
    broken = 0
    for one in known:
        if asked.names and one.name not in asked.names:
            continue
        draws = asked.draws or (one.short if asked.short else one.draws)
        print(one.name, flush=True)
        for row in one.run(draws, asked.seed):
            print(in_line(row), flush=True)
            broken += not row.holds
    print(f"calibration: {broken or 'no'} bounds are broken")
    return 1 if broken else 0


def in_line(row: Row) -> str:
    """A row as one line of the table."""
    verdict = "" if row.holds else "  BROKEN"
    return f"  {row.name:<78} {row.count:>7.4g} of {row.draws:>5}  {row.bound}{verdict}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
