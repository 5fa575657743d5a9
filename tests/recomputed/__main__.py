"""``python -m tests.recomputed RUN_FOLDER``: print a table of agreement for each model; 1 where one fails."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.recomputed import ablate, attention, cloze, erase, patch, probe, surprisal
from tests.recomputed.agreement import HEADING, Agreement, format_row
from tests.recomputed.plain_model import PlainModel
from tests.recomputed.run_folder import RunFolder

NUMBERS = {
    "surprisal": ("surprisal", surprisal),
    "probe": ("probe", probe),
    "attention": ("attention", attention),
    "cloze": ("cloze", cloze),
    "erase": ("causal.1", erase),
    "ablate": ("causal.1", ablate),
    "patch": ("causal.1", patch),
}
"""What is computed again: the lens that has to have observed something, and the module."""


def recompute(run: RunFolder, numbers: list[str], most: int) -> Iterator[Agreement]:
    """Compute the numbers of one model again, those of the lenses that observed it."""
    plain = PlainModel(run.facts)
    for name in numbers:
        lens, module = NUMBERS[name]
        if run.has(lens):
            yield from module.recompute(run, plain, most)


def main(arguments: list[str]) -> int:
    """Print a table for each model of a run."""
    parser = argparse.ArgumentParser(prog="python -m tests.recomputed", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("--items", type=int, default=10**9, help="most functions of surprisal and attention")
    parser.add_argument("--only", nargs="*", choices=list(NUMBERS), default=list(NUMBERS))
    asked = parser.parse_args(arguments)
    agrees = True
    for model in range(len(RunFolder(asked.run).summary["models"])):
        run = RunFolder(asked.run, model)
        print(f"{run.facts['name']}\n\n{HEADING}", flush=True)
        found = 0
        for agreement in recompute(run, asked.only, asked.items):
            print(format_row(agreement), flush=True)
            agrees &= agreement.agrees
            found += 1
        print()
        agrees &= found > 0
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
