"""Real models side by side with scripts by hand, kept as data that docs/performance.md is made from.

    python -m bench._real [--limit 200] [--rounds 5] [--into docs/measured/real.json] [MODEL ...]

Every figure is of whole processes, imports included. The sides of a comparison take turns, in an order that
changes from round to round, and what they compute is compared before their times count. Each round of a
comparison is kept as soon as it is done (`ROUNDS_FILE`), so that an interrupted call goes on with the next
one; rounds of another revision, limit or model are left alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tools.fetch_models import MODELS

from bench._commands import took
from bench._full import keep_entry, machine
from bench.peers import ENVIRONMENTS
from sonde.corpora import Selection, select
from sonde.models.engine.gguf import convert_gguf

_BENCH = Path(__file__).parent
_ROOT = _BENCH.parent
_SONDE = str(Path(sys.executable).with_name("sonde"))
WORK_FOLDER = _ROOT / "build" / "real"
ROUNDS_FILE = "rounds.jsonl"

LIMITS = {"smollm2": 200, "gemma": 200, "qwen": 30}
"""Functions that each model reads."""

_ROW_STEP = 8
"""Every so many subwords the attention of one is asked for."""

_FEWEST_PROBED = 10

Check = Callable[[], dict[str, tuple[float, str]]]
"""Differences between what two sides computed, by what they are in, with their unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is computed by sonde and by others.

    Attributes:
        name: What is computed.
        sides: The command of each side; sonde's is the first.
        clear: A folder of sonde's side that must not be there before it begins.
        target: The most that sonde's time over that of each other side should be.
        memory_target: The same of its peak memory.
        check: Compares what the sides computed; None where nothing can be compared.
    """

    name: str
    sides: Mapping[str, Sequence[str]]
    clear: Path | None = None
    target: Mapping[str, float] = field(default_factory=dict[str, float])
    memory_target: Mapping[str, float] = field(default_factory=dict[str, float])
    check: Check | None = None


def main(arguments: Sequence[str]) -> int:
    """Measure the models that are there, and write what comes of it into the file."""
    parser = argparse.ArgumentParser(description="Measure real models side by side for docs/performance.md.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(LIMITS)}; default: all")
    parser.add_argument("--limit", type=int, help=f"functions; default by model: {LIMITS}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--into", type=Path, default=_ROOT / "docs" / "measured" / "real.json")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.models) - set(LIMITS)):
        parser.error(f"model {unknown[0]!r} is not one of {', '.join(LIMITS)}")
    for model in given.models or LIMITS:
        if not MODELS[model].place.exists():
            print(f"{model}: left out, since it is not there; make models NAMES={model}", flush=True)
            continue
        _measure_model(model, given.limit or LIMITS[model], given.rounds, given.into)
    return 0


def _measure_model(model: str, limit: int, rounds: int, into: Path) -> None:
    folder = WORK_FOLDER / f"{model}-{limit}"
    folder.mkdir(parents=True, exist_ok=True)
    place = MODELS[model].place
    checkpoint = convert_gguf(place, model) if MODELS[model].is_file else place
    functions = folder / "functions.jsonl"
    if not functions.exists():
        chosen = select("stdlib", Selection(limit=limit, languages=("python",))).items
        table = pl.DataFrame(
            {"item_id": [item.item_id for item in chosen], "text": [item.text for item in chosen]}
        )
        table.write_ndjson(functions.with_suffix(".part"))
        functions.with_suffix(".part").replace(functions)
    kept = _KeptRounds(folder / ROUNDS_FILE, _describe_revision())
    comparisons = list(list_comparisons(str(checkpoint), limit, folder, functions))
    for number in range(rounds):
        for comparison in comparisons:
            if kept.has(comparison.name, number):
                continue
            print(f"{model}, {comparison.name}: round {number + 1} of {rounds}", flush=True)
            kept.add(comparison.name, number, measure_round(comparison, folder, number))
            keep_entry(_build_entry(model, limit, kept, list(build_rows(model, comparisons, kept))), into)


def _run_command(checkpoint: str, limit: int, output: Path, *options: str) -> list[str]:
    selection = ["-c", "stdlib", "--language", "python", "--limit", str(limit)]
    return [_SONDE, "run", "-m", checkpoint, *selection, *options, "-o", str(output)]


def _environment(folder: Path) -> dict[str, str]:
    """Return a cache of the benchmark's own for what is found in corpora, and none for what models say."""
    return {"SONDE_CACHE": str(folder / "cache"), "SONDE_CACHE_SIZE": "0"}


def list_comparisons(checkpoint: str, limit: int, folder: Path, functions: Path) -> Iterator[Comparison]:
    """Yield all comparisons of a model.

    Args:
        checkpoint: Folder of the model.
        limit: Functions that it reads.
        folder: Where its sides write.
        functions: The functions, for scripts.
    """
    for dtype in ("float32", "bfloat16"):
        yield _compare_surprisal(checkpoint, limit, folder, functions, dtype)
    states = {name: folder / f"states-{name}.npz" for name in ("sonde", "script", "extraction")}
    given = (checkpoint, str(functions))
    yield Comparison(
        name="hidden states",
        sides={
            "sonde": _script("_with_sonde/states.py", *given, states["sonde"]),
            "a script": _script("_by_hand/states.py", *given, states["script"]),
            "feature extraction of transformers": _script(
                "_by_hand/extraction.py", *given, states["extraction"]
            ),
        },
        target={"a script": 0.95, "feature extraction of transformers": 0.95},
        memory_target={"a script": 1.2},
        check=lambda: {"a script": (_compare_arrays(states["sonde"], states["script"]), "of the largest")},
    )
    rows = {name: folder / f"rows-{name}.npz" for name in ("sonde", "script")}
    yield Comparison(
        name="attention rows",
        sides={
            "sonde": _script("_with_sonde/attention_rows.py", *given, rows["sonde"], _ROW_STEP),
            "output_attentions": _script("_by_hand/attention_rows.py", *given, rows["script"], _ROW_STEP),
        },
        target={"output_attentions": 1.2},
        check=lambda: {
            "output_attentions": (_compare_arrays(rows["sonde"], rows["script"]), "of the largest")
        },
    )
    if limit < _FEWEST_PROBED:
        print(f"probes: left out, since they need {_FEWEST_PROBED} functions", flush=True)
        return
    accuracy = {name: folder / f"accuracy-{name}.json" for name in ("sonde", "sklearn")}
    given = (states["sonde"], str(functions))
    yield Comparison(
        name="probes of all layers",
        sides={
            "sonde": _script("_with_sonde/probe_states.py", *given, accuracy["sonde"]),
            "scikit-learn": _script("_by_hand/probe_states.py", *given, accuracy["sklearn"]),
        },
        target={"scikit-learn": 1.0},
        check=lambda: {"scikit-learn": (_compare_accuracy(accuracy["sonde"], accuracy["sklearn"]), "points")},
    )


def _compare_surprisal(checkpoint: str, limit: int, folder: Path, functions: Path, dtype: str) -> Comparison:
    run, table = folder / f"run-{dtype}", folder / f"surprisal-{dtype}.parquet"
    script = _script("_by_hand/surprisal.py", checkpoint, functions, table, dtype)
    bare = _script("_by_hand/bare.py", checkpoint, functions, folder / "bare.json", dtype)
    sides: dict[str, Sequence[str]] = {
        "sonde": _run_command(checkpoint, limit, run, "-l", "surprisal", "--dtype", dtype),
        "a script": script,
        "the bare forward pass": bare,
    }
    if dtype == "float32" and (python := _find_minicons()) is not None:
        texts = folder / "texts.json"
        rows = [json.loads(line)["text"] for line in functions.read_text(encoding="utf-8").splitlines()]
        texts.write_text(json.dumps(rows), encoding="utf-8")
        sides["minicons"] = [python, str(_BENCH / "_peers" / "score_minicons.py"), checkpoint, str(texts)]
    return Comparison(
        name=f"surprisal in {dtype}",
        sides=sides,
        clear=run,
        target={"a script": 1.0, "minicons": 0.8},
        memory_target={"the bare forward pass": 1.2},
        check=lambda: {"a script": (_compare_nats(run, table), "nats")},
    )


def _script(name: str, *arguments: object) -> list[str]:
    return [sys.executable, str(_BENCH / name), *map(str, arguments)]


def _find_minicons() -> str | None:
    """Return an interpreter that has minicons: that of `bench.peers`, or this one."""
    for python in sorted(ENVIRONMENTS.glob("minicons-*/bin/python")):
        return str(python)
    if importlib.util.find_spec("minicons"):
        return sys.executable
    print("minicons: left out, since it is not installed; python -m bench peers installs it", flush=True)
    return None


def _compare_nats(run: Path, table: Path) -> float:
    """Return the largest difference of a subword's nats, over all that both sides scored.

    Raises:
        ValueError: They scored different subwords.
    """
    ours = pl.concat([pl.read_parquet(file) for file in sorted((run / "observations").rglob("*.parquet"))])
    keys = ["item_id", "position"]
    joined = (
        ours.select(*keys, "nats")
        .drop_nulls("nats")
        .join(pl.read_parquet(table).select("item_id", pl.col("position").cast(pl.Int32), "nats"), on=keys)
    )
    if not ours["nats"].count() == pl.read_parquet(table).height == joined.height:
        raise ValueError(f"{run.name} and {table.name} score different subwords")
    return float((joined["nats"] - joined["nats_right"]).abs().max())  # pyright: ignore[reportArgumentType]


def _compare_arrays(ours: Path, theirs: Path) -> float:
    """Return the largest difference of two files' arrays, as a share of the largest number of its layer.

    Raises:
        ValueError: They hold different arrays.
    """
    with np.load(ours) as left, np.load(theirs) as right:
        if set(left.files) != set(right.files):
            raise ValueError(f"{ours.name} and {theirs.name} are of different functions")
        worst = 0.0
        for name in left.files:
            first, second = (side[name].reshape(len(side[name]), -1) for side in (left, right))
            if first.size:
                largest = np.maximum(np.abs(second).max(1, keepdims=True), 1e-9)
                worst = max(worst, float((np.abs(first - second) / largest).max()))
        return worst


def _compare_accuracy(ours: Path, theirs: Path) -> float:
    """Return the points by which the best layer of ours is less accurate."""
    left, right = (json.loads(file.read_text(encoding="utf-8")) for file in (ours, theirs))
    return 100 * (max(right) - max(left))


def measure_round(comparison: Comparison, folder: Path, number: int) -> dict[str, Any]:
    """Run every side once, in an order that depends on the round, and compare what they computed."""
    sides: dict[str, dict[str, float]] = {}
    names = list(comparison.sides)
    for name in names if number % 2 else reversed(names):
        if name == names[0] and comparison.clear is not None:
            shutil.rmtree(comparison.clear, ignore_errors=True)
        taken = took(comparison.sides[name], folder, _environment(folder))
        sides[name] = {"wall": taken.wall, "processor": taken.processor, "memory": taken.memory}
    return {"sides": sides, "checks": comparison.check() if comparison.check else {}}


class _KeptRounds:
    """The rounds of a model that were measured so far.

    Args:
        file: Where they are.
        revision: That of the code; rounds of another one do not count.
    """

    def __init__(self, file: Path, revision: str) -> None:
        self._file, self._revision = file, revision
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        # A call that is killed leaves half a line at most, which is measured again.
        rounds = [json.loads(line) for line in lines if line.endswith("}")]
        self.rounds = [one for one in rounds if one["revision"] == revision]

    def has(self, comparison: str, number: int) -> bool:
        """Return whether a round was measured."""
        return any((one["comparison"], one["round"]) == (comparison, number) for one in self.rounds)

    def add(self, comparison: str, number: int, measured: Mapping[str, Any]) -> None:
        """Keep a round."""
        when = datetime.now(UTC).date().isoformat()
        one = {
            "comparison": comparison,
            "round": number,
            "revision": self._revision,
            "when": when,
            **measured,
        }
        self.rounds.append(one)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(one) + "\n")

    def of(self, comparison: str) -> list[dict[str, Any]]:
        """Return the rounds of a comparison."""
        return [one for one in self.rounds if one["comparison"] == comparison]


def _describe_revision() -> str:
    """Return the commit of the code, with a mark if files of it have changed since."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "unknown"


def build_rows(model: str, comparisons: Sequence[Comparison], kept: _KeptRounds) -> Iterator[dict[str, Any]]:
    """Yield the figures of a model's comparisons, each with its value in every round."""
    for comparison in comparisons:
        rounds = kept.of(comparison.name)
        if not rounds:
            continue
        subject, ours = f"{model}, {comparison.name}", next(iter(comparison.sides))
        for other in [name for name in comparison.sides if name != ours]:
            both = [one["sides"] for one in rounds if other in one["sides"]]
            if not both:
                continue
            for measure, what, targets in (
                ("wall", "time", comparison.target),
                ("processor", "CPU time", {}),
                ("memory", "peak memory", comparison.memory_target),
            ):
                values = [one[ours][measure] / one[other][measure] for one in both]
                yield _row(f"{subject}: {what}, {ours} / {other}", values, "x", targets.get(other))
        for side in comparison.sides:
            values = [one["sides"][side]["wall"] for one in rounds if side in one["sides"]]
            if values:
                yield _row(f"{subject}: {side}", values, "s", None)
        for other in rounds[-1]["checks"]:
            unit = rounds[-1]["checks"][other][1]
            values = [one["checks"][other][0] for one in rounds if other in one["checks"]]
            yield _row(f"{subject}: largest difference from {other}", values, unit, None)


def _row(name: str, values: Sequence[float], unit: str, target: float | None) -> dict[str, Any]:
    return {
        "name": name,
        "unit": unit,
        "target": None if target is None else f"<= {target}",
        "values": list(values),
    }


def _build_entry(
    model: str, limit: int, kept: _KeptRounds, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "benchmark": f"real {model}",
        "command": f"python -m bench._real {model} --limit {limit}",
        "rounds": max(one["round"] for one in kept.rounds) + 1,
        "load": round(os.getloadavg()[2], 1),
        "when": kept.rounds[-1]["when"],
        "machine": machine(),
        "rows": list(rows),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
