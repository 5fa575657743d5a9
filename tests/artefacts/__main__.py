"""``python -m tests.artefacts [TASKS]``: how right rules without any knowledge of code are, task by task.

Each task that makes its examples is drawn in each language from code that the machine has; ``--corpus
php=local:FOLDER`` names other code. A row per task and language: the tree of all rules and the best rule.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.artefacts import CORPORA, LANGUAGES, TREE, Measured, draw_items, made_tasks, measure_all

_HEAD = "| task | language | examples | chance | all rules in a tree | best rule | accuracy |"


def main(arguments: list[str]) -> int:
    """Print the table; 1 where no language could be read."""
    parser = argparse.ArgumentParser(prog="python -m tests.artefacts", description=__doc__)
    parser.add_argument("tasks", nargs="*", metavar="TASKS", help="all that make their examples")
    parser.add_argument("--corpus", action="append", default=[], metavar="LANGUAGE=CORPUS")
    parser.add_argument("--language", action="append", choices=LANGUAGES)
    parser.add_argument("--functions", type=int, default=3000)
    parser.add_argument("--size", type=int, default=500)
    asked = parser.parse_args(arguments)
    corpora = {**CORPORA, **dict(one.split("=", 1) for one in asked.corpus)}
    print(_HEAD + "\n|---|---|--:|--:|--:|---|--:|", flush=True)
    for language in asked.language or LANGUAGES:
        items = draw_items(corpora[language], language, asked.functions)
        for found in measure_all(language, items, asked.size, asked.tasks or made_tasks()):
            print(found if isinstance(found, str) else in_line(found), flush=True)
    return 0


def in_line(found: Sequence[Measured]) -> str:
    """The rules of a task and language as one line of the table."""
    tree = next(one for one in found if one.rule == TREE)
    best = max((one for one in found if one.rule != TREE), key=lambda one: one.accuracy)
    cells = (
        f"`{tree.task}`",
        tree.language,
        f"{tree.examples:,}",
        f"{100 * tree.chance:.1f}",
        _percent(tree),
        best.rule,
        _percent(best),
    )
    return f"| {' | '.join(cells)} |"


def _percent(one: Measured) -> str:
    return f"{100 * one.accuracy:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
