"""Sums of observations are the same in one batch, in several, and wherever they are added up."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sonde.lenses.engine.observations import BatchSums
from sonde.lenses.surprisal.score import Sums, collect_sums
from sonde.results.schema import OBSERVATIONS_SCHEMA

ITEMS, ROWS = 60, 40
KINDS = ["identifier", "keyword", "operator"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Six tables of ten items each, whose numbers no sum of floats would repeat in another order."""
    folder, draw = tmp_path_factory.mktemp("parts"), np.random.default_rng(0)
    paths: list[Path] = []
    for part in range(6):
        number = ITEMS * ROWS // 6
        place = np.arange(number)
        nats = draw.lognormal(0, 2, number).astype(np.float32)
        frame = pl.DataFrame(
            {
                "item_id": [f"i{part * 10 + one // ROWS}" for one in place],
                "cluster": [f"c{draw.integers(9)}" for _ in place],
                "language": ["python"] * number,
                "start": place % ROWS * 3,
                "end": place % ROWS * 3 + 3,
                "subword": [f"s{one}" for one in draw.integers(0, 50, number)],
                "subword_id": draw.integers(0, 50, number),
                "nats": nats,
                "rank": draw.integers(1, 30, number),
                "entropy": draw.gamma(2, 1, number),
                "text_characters": [3] * number,
                "text_bytes": [3] * number,
                "covered": [3] * number,
                "kind": draw.choice(KINDS, number),
                "tag": draw.choice(["a -> b", "b -> c"], number),
                "merged": [1] * number,
                "token": place % ROWS,
                "word": draw.choice(["x", "y", "z"], number),
                "ancestors": draw.choice(["a/b", "b", ""], number),
                "top_nats": [[float(one) / 2, float(one)] for one in nats],
            }
        )
        missing = [name for name in OBSERVATIONS_SCHEMA if name not in frame.columns]
        texts = [name for name in missing if OBSERVATIONS_SCHEMA[name] == pl.String]
        frame = frame.with_columns(
            *(pl.lit("").alias(name) for name in texts),
            *(pl.lit(None).alias(name) for name in missing if name not in texts),
        ).select(pl.col(name).cast(kind) for name, kind in OBSERVATIONS_SCHEMA.items())
        paths.append(folder / f"{part}.parquet")
        frame.write_parquet(paths[-1])
    return paths


def tables(sums: Sums) -> Iterator[tuple[str, pl.DataFrame]]:
    yield from sums.slices.items()
    for name in ("names", "characters", "calls", "calibration", "vocabulary"):
        yield name, getattr(sums, name)


def must_be_equal(one: Sums, other: Sums) -> None:
    held = dict(tables(other))
    for name, table in tables(one):
        assert table.equals(held[name]), name
    assert one.slices["subword"].height > 300 and one.names.height > 20 and one.calibration.height > 50


def batches(parts: list[Path], size: int) -> tuple[pl.LazyFrame, ...]:
    return tuple(pl.scan_parquet(parts[at : at + size]) for at in range(0, len(parts), size))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("size", [1, 4])
def test_sums_do_not_depend_on_batches_and_processes(parts: list[Path], size: int, workers: int) -> None:
    whole = collect_sums(BatchSums(batches(parts, 6)))
    several = BatchSums(batches(parts, size), workers=workers)
    must_be_equal(whole, collect_sums(several))
    must_be_equal(whole, collect_sums(BatchSums(batches(parts[::-1], size))))


@pytest.mark.slow
def test_sums_on_a_cluster_are_those_of_this_machine(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    whole = collect_sums(BatchSums(batches(parts, 6)))
    try:
        there = BatchSums(batches(parts, 1), "ray", workers=2, root=str(parts[0].parent))
        must_be_equal(whole, collect_sums(there))
    finally:
        ray.shutdown()
    assert not list(parts[0].parent.glob(".seen-*"))
