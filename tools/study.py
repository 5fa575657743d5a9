"""Make the runs of the study of real models, and store what its claims need.

    python -m tools.study                    # all runs of recipes/studies/real-models/runs.toml
    python -m tools.study calls probes       # some of them
    python -m tools.study --plan             # minutes, what is missing, and the power of each claim
    python -m tools.study --draw             # draw the samples and write their hashes to locks.json

A run lies in `runs/studies/real-models/NAME-SAMPLE`. An interrupted call resumes, and a finished run is only
read. A run whose models or packages are not there is skipped with one line.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.base.formatting import plural
from sonde.corpora import Item, ItemSet, select, write_lock
from sonde.experiments.experiment import load_experiment
from tools.claims import SAMPLES, STUDY, Row, load_claims, select_tests, summarise
from tools.gallery import find_obstacle, make_each, read_figures

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "runs" / "studies" / "real-models"
RESULTS = ROOT / "docs" / "measured" / "study.json"
LOCKS = STUDY / "locks.json"
DRAWN = 3
"""So many times the items of a sample are drawn, so that either half of the clusters has enough."""

TEST_COLUMNS = (
    "model", "language", "task", "metric", "value", "ci_low", "ci_high", "ci_method", "n", "n_clusters",
    "effective_clusters", "n_eff", "df", "p_value", "seeds",
)  # fmt: skip


def load_runs() -> dict[str, dict[str, Any]]:
    """Load the runs by name."""
    return tomllib.loads((STUDY / "runs.toml").read_text(encoding="utf-8"))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; of a file that is not there an empty one."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object."""
    # Lists of numbers stay on one line.
    text = re.sub(
        r"\[[\d,\s]+\]",
        lambda match: "".join(match[0].split()),
        json.dumps(content, indent=1, ensure_ascii=False),
    )
    path.write_text(f"{text}\n", encoding="utf-8")


def split_clusters(items: Iterable[Item], count: int) -> dict[str, list[Item]]:
    """Split items into samples that share no cluster.

    Clusters take turns in the order of their hashes, and the first items of each language are taken.

    Args:
        items: Items in the order of selection.
        count: Most items of a language in a sample.
    """
    kept = list(items)
    ordered = sorted({item.cluster for item in kept}, key=lambda name: hashlib.sha256(name.encode()).digest())
    side = {cluster: SAMPLES[place % len(SAMPLES)] for place, cluster in enumerate(ordered)}
    samples: dict[str, list[Item]] = {sample: [] for sample in SAMPLES}
    taken: Counter[tuple[str, str]] = Counter()
    for item in kept:
        sample = side[item.cluster]
        if taken[sample, item.language] < count:
            taken[sample, item.language] += 1
            samples[sample].append(item)
    return samples


def draw_samples(name: str, recipe: Mapping[str, Any]) -> dict[str, ItemSet]:
    """Draw both samples of a run from its corpus."""
    experiment = load_experiment(STUDY / f"{recipe.get('draw', name)}.toml")
    count = recipe.get("items", experiment.selection.limit)
    item_set = select(experiment.corpora[0], dataclasses.replace(experiment.selection, limit=DRAWN * count))
    samples = split_clusters(item_set.items, count)
    return {sample: dataclasses.replace(item_set, items=tuple(items)) for sample, items in samples.items()}


def describe_sample(items: Sequence[Item]) -> dict[str, Any]:
    """Return what locks a sample: sizes of its clusters, and the hash of its item ids."""
    ids = "\n".join(sorted(item.item_id for item in items))
    sizes = sorted(Counter((item.language, item.cluster) for item in items).values(), reverse=True)
    return {"clusters": sizes, "sha256": hashlib.sha256(ids.encode()).hexdigest()}


def lock_samples(names: Iterable[str], recipes: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw the samples of runs and store what locks them."""
    locks = read_json(LOCKS).get("samples", {})
    for name in names:
        if not is_drawn(recipes[name]):
            continue
        if obstacle := find_obstacle({"debian": recipes[name].get("debian", ())}):
            print(f"{name}: not drawn: {obstacle}", flush=True)
            continue
        samples = draw_samples(name, recipes[name])
        locks[name] = {sample: describe_sample(item_set.items) for sample, item_set in samples.items()}
        for sample, lock in locks[name].items():
            size = plural(sum(lock["clusters"]), "item")
            print(
                f"{name}, {sample}: {size} of {len(lock['clusters'])} clusters, {lock['sha256']}", flush=True
            )
        store_locks(locks)


def store_locks(locks: Mapping[str, Any]) -> None:
    """Store what locks the samples, and the smallest difference that each claim can detect with them."""
    detectable: dict[str, dict[str, float]] = {}
    recipes = load_runs()
    for claim_name, claim in load_claims().items():
        for run in claim.runs:
            drawn = locks.get(recipes[run].get("draw", run), {}).values()
            if sizes := [claim.detectable(lock["clusters"]) for lock in drawn]:
                detectable.setdefault(claim_name, {})[run] = float(f"{max(sizes):.2g}")
    ordered = {name: locks[name] for name in recipes if name in locks}
    write_json(LOCKS, {"samples": ordered, "detectable": detectable})


def is_drawn(recipe: Mapping[str, Any]) -> bool:
    """Return whether a run has samples of its own that are drawn and locked."""
    return recipe.get("lock", True) and not {"left_out", "draw"} & recipe.keys()


def make(name: str, recipe: Mapping[str, Any]) -> None:
    """Make a run on both samples, or resume it, and store what its claims need.

    Raises:
        RuntimeError: The run is left out.
        subprocess.CalledProcessError: A command failed.
    """
    if reason := recipe.get("left_out"):
        print(f"  left out: {reason}", flush=True)
        return
    for copy, model in recipe.get("random", {}).items():
        if not (ROOT / copy).exists():
            run_sonde("convert", model, copy, "--weights", "random")
    samples = draw_samples(name, recipe) if recipe.get("lock", True) else {}
    locks = read_json(LOCKS).get("samples", {}).get(recipe.get("draw", name), {})
    for number, sample in enumerate(SAMPLES):
        folder = RUNS / f"{name}-{sample}"
        command = ["run", "-f", str(STUDY / f"{name}.toml"), "-o", str(folder)]
        is_locked = False
        if sample in samples:
            RUNS.mkdir(parents=True, exist_ok=True)
            lock = RUNS / f"{name}-{sample}.lock.jsonl"
            write_lock(samples[sample], lock)
            command += ["--lock", str(lock)]
            is_locked = describe_sample(samples[sample].items) == locks.get(sample)
            if not is_locked:
                print(
                    "  this machine's code is not that of locks.json: the sample is another one", flush=True
                )
        else:
            command += ["--seed", str(number)]
        run_sonde(*command)
        store(name, sample, folder, is_locked=is_locked)


def run_sonde(*arguments: str) -> None:
    """Run a command of sonde.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    subprocess.run([sys.executable, "-m", "sonde", *arguments], cwd=ROOT, check=True)


def store(name: str, sample: str, folder: Path, *, is_locked: bool) -> None:
    """Store the headlines and tests of a finished run, and the verdicts of all claims as they are now."""
    claims, stored = load_claims(), read_json(RESULTS)
    runs = stored.setdefault("runs", {})
    figures = read_figures(folder)
    runs.setdefault(name, {})[sample] = {
        **{key: figures[key] for key in ("version", "seconds", "answers")},
        "locked": is_locked,
        "tests": {
            claim_name: [
                {column: row.get(column) for column in TEST_COLUMNS} for row in select_tests(claim, folder)
            ]
            for claim_name, claim in claims.items()
            if name in claim.runs
        },
    }
    tests = {sample: gather_tests(runs, sample) for sample in SAMPLES}
    stored["verdicts"] = summarise(claims, tests)
    stored["claims_sha256"] = hashlib.sha256((STUDY / "claims.toml").read_bytes()).hexdigest()
    write_json(RESULTS, stored)


def gather_tests(runs: Mapping[str, Mapping[str, Any]], sample: str) -> dict[str, list[Row]]:
    """Gather the stored tests of a sample by claim."""
    tests: dict[str, list[Row]] = {}
    for made in runs.values():
        for claim, rows in made.get(sample, {}).get("tests", {}).items():
            tests.setdefault(claim, []).extend(rows)
    return tests


def plan(names: Iterable[str], recipes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a plan: what is missing and its minutes, then the power of each claim."""
    made, total = read_json(RESULTS).get("runs", {}), 0
    yield f"{'run':<16}{'minutes':>9}  of two cores, both samples"
    for name in names:
        recipe = recipes[name]
        missing = [sample for sample in SAMPLES if sample not in made.get(name, {})]
        reason = recipe.get("left_out") or find_obstacle(recipe)
        minutes = len(missing) * recipe["minutes"]
        total += 0 if reason else minutes
        status = "to be made" if missing else "made"
        yield f"{name:<16}{minutes:>9}  {f'skipped: {reason}' if reason else status}"
    yield f"{'together':<16}{total:>9}"
    yield ""
    yield "Smallest difference that four of five samples show, as assumed in claims.toml:"
    claims = load_claims()
    for name, by_run in read_json(LOCKS).get("detectable", {}).items():
        for run, size in by_run.items():
            yield f"  {name:<20}{run:<16}{size:>9g}  (matters: {claims[name].least:g})"


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the named runs, or all of them; plan or draw them if asked to."""
    recipes = load_runs()
    parser = argparse.ArgumentParser(prog="python -m tools.study", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(recipes)}; default: all")
    parser.add_argument("--plan", action="store_true", help="print minutes and power, and run nothing")
    parser.add_argument("--draw", action="store_true", help="draw the samples and store their hashes")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in recipes]:
        parser.error(f"no run {unknown[0]!r}; there are {', '.join(recipes)}")
    names = options.names or list(recipes)
    if options.plan:
        print(*plan(names, recipes), sep="\n")
    elif options.draw:
        lock_samples(names, recipes)
    elif failed := make_each(names, recipes, make):
        sys.exit(f"failed: {', '.join(failed)}; the same command resumes")


if __name__ == "__main__":
    main()
