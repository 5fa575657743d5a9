"""Whole commands, from the corpus to the page, compared with plain scripts that compute the same.

Every figure is of processes of their own, imports included. The scripts in ``bench/_by_hand`` get the very
functions that the command chooses, so they neither find nor choose any. Both sides take turns; a figure is
the median of the ratios of the rounds, with the smallest and the largest. CPU time is given as well, since
other work on the machine changes only wall time.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bench._commands import Took, took
from sonde.lenses import LensSettings
from sonde.lenses.attention.observe import TASK, read_item
from sonde.lenses.engine.item_tables import frame_to_items
from sonde.models.engine.model_names import bundled_folder
from sonde.tasks.engine.task import TASKS

_SCRIPTS = Path(__file__).parent / "_by_hand"
_SONDE = str(Path(sys.executable).with_name("sonde"))
_ROUNDS = 5
_FEW, _MANY = 300, 10_000
_PROBED = "cpx"


@dataclass(frozen=True, slots=True)
class Pair:
    """A command of sonde and the plain script that does the same.

    Attributes:
        name: What is compared.
        script: The script's name.
        model: The model, by its public name.
        arguments: Of ``sonde run``.
        given: Writes what the script reads, from the folder of a run.
        target: The most that the ratio should be.
        rounds: How often the two take turns.
        cold: Whether nothing that an earlier run found in the corpus is there.
    """

    name: str
    script: str
    model: str
    arguments: tuple[str, ...]
    given: Callable[[Path, Path], None]
    target: float
    rounds: int = _ROUNDS
    cold: bool = False


def run() -> Iterator[dict[str, Any]]:
    """Each comparison in turn: a row of wall time and one of CPU time."""
    surprisal = ("-l", "surprisal", "-c", "stdlib")
    few = (*surprisal, "--limit", str(_FEW))
    attention = ("-l", "attention", "-c", "stdlib", "--limit", str(_FEW))
    probe = ("-l", "probe", "-t", _PROBED, "-c", "stdlib")
    decoder, encoder = "sonde/mini-decoder", "sonde/mini-encoder"
    many = (*surprisal, "--limit", str(_MANY), "--per-cluster", "0")
    for pair in (
        Pair(f"surprisal, {_FEW} functions", "surprisal", decoder, few, _functions, 1.0),
        Pair(
            f"surprisal, {_FEW} functions, corpus read for the first time",
            "surprisal",
            decoder,
            few,
            _functions,
            1.0,
            cold=True,
        ),
        Pair(f"attention, {_FEW} functions", "attention", encoder, attention, _edges, 1.5),
        Pair(f"probes of one task ({_PROBED})", "probe", encoder, probe, _examples, 1.3, rounds=2),
        Pair(f"surprisal, {_MANY:,} functions", "surprisal", decoder, many, _functions, 0.6, rounds=1),
    ):
        yield from compared(pair)


def compared(pair: Pair) -> Iterator[dict[str, Any]]:
    """Let both sides take turns."""
    folder = bundled_folder(pair.model)
    assert folder is not None
    with tempfile.TemporaryDirectory() as held:
        place = Path(held)
        source = place / "given.jsonl"
        command = [_SONDE, "run", "-m", pair.model, *pair.arguments, "-o", str(place / "run")]
        by_hand = [sys.executable, str(_SCRIPTS / f"{pair.script}.py"), str(folder), str(source)]
        by_hand.append(str(place / "by-hand.parquet"))
        # The first round reads what the files of the packages hold, and says what the script is given.
        _sonde(command, place, cold=pair.cold)
        pair.given(place / "run", source)
        _timed(by_hand, place)
        ours: list[Took] = []
        theirs: list[Took] = []
        for turn in range(pair.rounds):
            sides = [
                lambda: ours.append(_sonde(command, place, cold=pair.cold)),
                lambda: theirs.append(_timed(by_hand, place)),
            ]
            for side in sides if turn % 2 else reversed(sides):
                side()
    yield _row(f"{pair.name}: whole command / plain script", _ratios(ours, theirs, "wall"), pair.target)
    yield _row(f"{pair.name}: the same, CPU time", _ratios(ours, theirs, "processor"), None)
    seconds = statistics.median(one.wall for one in ours)
    yield {"name": f"{pair.name}: whole command", "value": seconds, "unit": "s", "target": None}


def _ratios(ours: Sequence[Took], theirs: Sequence[Took], of: str) -> list[float]:
    return [getattr(one, of) / getattr(other, of) for one, other in zip(ours, theirs, strict=True)]


def _row(name: str, ratios: Sequence[float], target: float | None) -> dict[str, Any]:
    return {
        "name": name,
        "value": statistics.median(ratios),
        "unit": "x",
        "target": target,
        "spread": (min(ratios), max(ratios)),
    }


def _sonde(command: Sequence[str], place: Path, *, cold: bool) -> Took:
    """Run a command in a folder that holds no run."""
    shutil.rmtree(place / "run", ignore_errors=True)
    if cold:
        shutil.rmtree(place / "cache", ignore_errors=True)
    return _timed(command, place)


def _timed(command: Sequence[str], place: Path) -> Took:
    """Run a command with a cache of its own for what it finds in corpora, and none for what models say."""
    return took(command, place, {"SONDE_CACHE": str(place / "cache"), "SONDE_CACHE_SIZE": "0"})


def _functions(run: Path, target: Path) -> None:
    pl.read_parquet(run / "items.parquet").select("item_id", "text").write_ndjson(target)


def _edges(run: Path, target: Path) -> None:
    """Words and edges of each function that has some."""
    items, settings = frame_to_items(pl.read_parquet(run / "items.parquet")), LensSettings()
    labels = TASKS.load(TASK).label(items, {})
    rows: list[dict[str, Any]] = []
    for item in items:
        named = labels[item.item_id].filter(pl.col("label").is_not_null())
        if named.is_empty():
            continue
        words, edges = read_item(item, named, settings)
        rows.append(
            {
                "item_id": item.item_id,
                "text": item.text,
                "words": list(zip(words.start.tolist(), words.end.tolist(), strict=True)),
                "relation": list(edges.relation),
                "head": edges.head.tolist(),
                "first": edges.first.tolist(),
                "last": edges.last.tolist(),
            }
        )
    pl.DataFrame(rows).write_ndjson(target)


def _examples(run: Path, target: Path) -> None:
    """Labels and clusters of the examples of the task, with their texts."""
    (labels,) = (run / "labels" / f"task={_PROBED}").glob("*[!s].parquet")
    examples = pl.read_parquet(labels).filter(pl.col("label").is_not_null())
    texts = pl.read_parquet([run / "items.parquet", run / "inputs.parquet"]).select("item_id", "text")
    joined = examples.select("item_id", "label", "cluster").join(texts.unique("item_id"), on="item_id")
    joined.write_ndjson(target)
