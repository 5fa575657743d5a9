"""``python -m tests.fuzz``: the long run; the tests do the same with a few of each."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.fuzz import pages, targets

_BATCH = 200


def _codes(batch: range) -> targets.Tally:
    tally = targets.Tally()
    targets.warm()
    for seed in batch:
        tally.attempt(seed, partial(targets.code, seed), targets.limit_s(seed))
    return tally


def _files(batch: range) -> targets.Tally:
    tally = targets.Tally()
    with tempfile.TemporaryDirectory() as folder:
        for seed in batch:
            tally.attempt(seed, partial(targets.data_file, seed, Path(folder)), targets.LIMIT_S)
    return tally


def _pages(batch: range) -> targets.Tally:
    tally = targets.Tally()
    with tempfile.TemporaryDirectory() as folder:
        for seed in batch:
            tally.attempt(seed, partial(pages.page, seed, Path(folder) / str(seed)))
    return tally


def main() -> int:
    """Run what is asked for and print what became of it; 1 where anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    failed = 0
    for name, work, count, size in (
        ("files", _files, asked.files, _BATCH),
        ("inputs", _codes, asked.inputs, _BATCH),
        ("pages", _pages, asked.pages, 4),
    ):
        starts = range(asked.seed, asked.seed + count, size)
        batches = [range(start, min(start + size, asked.seed + count)) for start in starts]
        total = _all(name, work, batches, asked.workers)
        sys.stdout.write(
            f"{name}: {total.done} tried, {total.refused} refused in one line, {len(total.failed)} failed; "
            f"slowest {total.slowest[0]:.2f} s (seed {total.slowest[1]})\n"
        )
        sys.stdout.flush()
        failed += len(total.failed)
    return 1 if failed else 0


def _all(
    name: str, work: Callable[[range], targets.Tally], batches: list[range], workers: int
) -> targets.Tally:
    """Every batch; one that takes its process down with it is a failure of its own."""
    total = targets.Tally()
    while batches:
        with ProcessPoolExecutor(workers) as pool:
            waiting = {batch: pool.submit(work, batch) for batch in batches}
            for batch, future in waiting.items():
                if (error := future.exception()) is not None:
                    total.failed.append(
                        f"seeds {batch.start} to {batch.stop}: {type(error).__name__}: {error}"
                    )
                    sys.stdout.write(f"{name}: {total.failed[-1]}\n")
                    batches = batches[batches.index(batch) + 1 :]
                    break
                tally = future.result()
                total.done += tally.done
                total.refused += tally.refused
                total.failed += tally.failed
                total.slowest = max(total.slowest, tally.slowest)
                sys.stdout.writelines(f"{name}: {line}\n" for line in tally.failed)
                sys.stdout.flush()
            else:
                batches = []
    return total


if __name__ == "__main__":
    sys.exit(main())
