"""CuBERT's six tasks and program tokens: functions a second, and what 20,000 functions take in all."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice

from sonde.base.fingerprint import unit_hash
from sonde.corpora import Item, SkipCounter, read_items
from sonde.corpora.engine.parallel import ParallelMap
from sonde.languages import get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.program_tokens import ProgramLexer, tokenize, untokenize
from sonde.tasks import build
from sonde.tasks.engine.bugs import BugTask, make_choice
from sonde.tasks.engine.sampling import build_pool
from sonde.tasks.engine.task import TASKS

_TASKS = (
    *("variable_misuse", "wrong_operator", "swapped_operand", "function_docstring", "exception_type"),
    "misuse_repair",
)
_FUNCTIONS = 20_000
_SAMPLE = 2_000
_SHARE = 0.06
_WORKERS = 2


def run() -> Iterable[dict[str, str | float | None]]:
    """Measure on functions of installed packages; rows of name, value, unit, target."""
    items = _items()
    sample = items[:_SAMPLE]
    for name in _TASKS:
        task = TASKS.load(name)
        if isinstance(task, BugTask) and name != "function_docstring":
            yield _row(f"{name}, one process", len(sample) / _variants(task, sample), "functions/s")
    program = get_facet("python", "program", ProgramLexer)
    begun = time.perf_counter()
    pieces = [tokenize(program, item.text) for item in sample]
    yield _row("program tokens", sum(map(len, pieces)) / (time.perf_counter() - begun), "pieces/s")
    begun = time.perf_counter()
    for one in pieces:
        untokenize(program, one)
    yield _row("programs of tokens", sum(map(len, pieces)) / (time.perf_counter() - begun), "pieces/s")
    begun = time.perf_counter()
    build_pool(items, "python", 0)
    for name in _TASKS:
        build(name, items, size=2 * len(items), language="python", parallel=ParallelMap(workers=_WORKERS))
    name = f"six data sets of {len(items):,} functions, {_WORKERS} processes"
    yield {**_row(name, time.perf_counter() - begun, "s"), "target": "< 180"}


def _items() -> list[Item]:
    """Functions spread over the packages by hash."""
    every = read_items("environment", SkipCounter(), languages=("python",))
    return list(islice((item for item in every if unit_hash("bench", item.path) < _SHARE), _FUNCTIONS))


def _variants(task: BugTask, items: list[Item]) -> float:
    bugs = get_facet("python", "bugs", BugSites)
    begun = time.perf_counter()
    for item in items:
        task.variants(item.text, bugs, make_choice(0, item))
    return time.perf_counter() - begun


def _row(name: str, value: float, unit: str) -> dict[str, str | float | None]:
    return {"name": name, "value": value, "unit": unit, "target": None}
