"""How full the batches of an accelerator are, and how fast inputs are prepared for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context

from sonde.base.process import safe_path_environment
from sonde.capture.requests import prepare_items
from sonde.capture.windows import batch_by_length
from sonde.corpora import Item, Selection
from sonde.corpora.engine.select import select
from sonde.experiments.plan import cut_chunks
from sonde.models import ModelSpec, load_tokenizer

Row = dict[str, str | float | None]

_BUDGET, _FILL, _JOBS, _CONTEXT = 32_768, 0.85, 16, 1024
_PROCESSES = (1, 2, 4, 8, 16)
_MODEL = ModelSpec(name="sonde/mini-decoder")


def run() -> Iterator[Row]:
    """Measure everything; rows of name, value, unit, target."""
    jobs = list(cut_chunks(select("stdlib", Selection(limit=2000, languages=("python",))).items))
    tokenizer = load_tokenizer(_MODEL)
    items = list(chain(*jobs))
    prepare_items(tokenizer, items[:8])
    begun = time.process_time()
    lengths = [
        [min(len(one.alignment.subwords) + 1, _CONTEXT) for one in prepare_items(tokenizer, job)]
        for job in jobs
    ]
    spent = 1e3 * (time.process_time() - begun) / len(items)
    yield _row("CPU time to prepare a function", spent, "ms", "<= 1")
    for together, fill in ((1, 0.0), (_JOBS, _FILL)):
        yield from _batches(lengths, together, fill)
    parts = [items[at : at + 64] for at in range(0, len(items), 64)]
    cores = os.cpu_count() or 1
    for number in [one for one in _PROCESSES if 1 < one <= cores]:
        # A machine that others use gives several processes less than as many cores: loops tell how much.
        gains: list[float] = []
        for work in (_prepared, _looped):
            paces = {one: _pace(work, parts, one) for one in (1, number)}
            gains.append(paces[number] / paces[1])
        yield _row(f"functions prepared by {number} processes / by one", gains[0], "x", None)
        yield _row("that, of what loops that share nothing gain", gains[0] / gains[1], "", ">= 0.8")


def _batches(lengths: list[list[int]], together: int, fill: float) -> Iterator[Row]:
    real = padded = number = 0
    for at in range(0, len(lengths), together):
        mine = list(chain(*lengths[at : at + together]))
        for batch in batch_by_length(mine, [str(row) for row in range(len(mine))], _BUDGET, fill):
            real += sum(mine[row] for row in batch)
            padded += len(batch) * max(mine[row] for row in batch)
            number += 1
    what = f"batches of {together} jobs together"
    yield _row(f"{what}: real subwords", real / padded, "", ">= 0.85" if fill else None)
    yield _row(f"{what}: subwords of a batch", padded / number, "", None)


def _pace(work: Callable[[list[Item]], int], parts: list[list[Item]], processes: int) -> float:
    """Functions a second, by processes that are up and have read the tokenizer."""
    with safe_path_environment(), ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        list(pool.map(_prepared, [parts[0][:8]] * 4 * processes))
        begun = time.perf_counter()
        done = sum(pool.map(work, parts))
        return done / (time.perf_counter() - begun)


def _prepared(items: list[Item]) -> int:
    return len(prepare_items(load_tokenizer(_MODEL), items))


def _looped(items: list[Item]) -> int:
    """As long as preparing takes, about."""
    return min(len(items), sum(1 for _ in range(15_000 * len(items))))


def _row(name: str, value: float, unit: str, target: str | None) -> Row:
    return {"name": name, "value": value, "unit": unit, "target": target}
