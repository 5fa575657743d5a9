"""Peers on the same functions as sonde: each in an environment of its own, made from the package index.

Both sides read the same texts with the same weights on the CPU. *Reading* is what is measured once the
model is loaded: sonde's covers parsing, alignment and its tables, a peer's its numbers alone. *Whole* is the
command from its start to its end: sonde's makes scores with intervals and the page, a peer's none of that.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.corpora import Item, Selection, select
from sonde.models import ModelSpec, load_tokenizer
from sonde.models.engine.model_names import bundled_folder

SIZES = tuple(int(size) for size in os.environ.get("SONDE_BENCH_SIZES", "1000").split(","))
"""Functions that each side reads; `make bench-full` gives more than one."""

ROUNDS = int(os.environ.get("SONDE_BENCH_ROUNDS", "3"))

_ROOT = Path(__file__).parents[1]
ENVIRONMENTS = _ROOT / "build" / "peers"
_MOST_SUBWORDS = 400
"""Longer functions are left to nobody: peers cut them off or fail, sonde reads them in windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A package that measures something of the same kind.

    Attributes:
        package: Its name and version.
        script: What it is asked, below `_peers`.
        lens: The lens that answers the same.
        model: A bundled model.
        most: Functions that it is given at most, since more would take it half an hour or longer.
        what: What is compared, for the table.
    """

    package: str
    script: str
    lens: str
    model: str
    what: str
    maximum: int = 100_000

    @property
    def name(self) -> str:
        """Its name alone."""
        return self.package.partition("==")[0]


PEERS = (
    Peer(
        package="minicons==0.3.39",
        script="score_minicons.py",
        lens="surprisal",
        model="sonde/mini-decoder",
        what="surprisal of each subword",
    ),
    Peer(
        package="perplexed==0.0.1",
        script="score_perplexed.py",
        lens="surprisal",
        model="sonde/mini-decoder",
        what="mean loss of each kind of subword",
        maximum=1_000,
    ),
    Peer(
        package="interpkit==0.7.0",
        script="attend_interpkit.py",
        lens="attention",
        model="sonde/mini-decoder",
        what="attention of every head",
        maximum=1_000,
    ),
)


def run() -> Iterator[dict[str, Any]]:
    """For each peer and size: sonde's time over the peer's, reading and whole."""
    for peer in PEERS:
        try:
            python = _environment(peer)
        except subprocess.CalledProcessError as error:
            print(f"  {peer.package} does not install: {error.stderr.decode()[-300:]}", file=sys.stderr)
            continue
        for size in (size for size in SIZES if size <= peer.maximum):
            yield from _compared(peer, python, size)


def _environment(peer: Peer) -> Path:
    """Return the interpreter of an environment that holds a peer, which is made where there is none."""
    folder = ENVIRONMENTS / peer.package.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        # The same torch as ours, installed first: resolved with others it is the build for accelerators.
        torch = f"torch=={_version('torch')}"
        subprocess.run([*pip, torch], check=True, capture_output=True)
        subprocess.run([*pip, torch, peer.package], check=True, capture_output=True)
        (folder / "made").touch()
    return python


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package).partition("+")[0]


def _compared(peer: Peer, python: Path, size: int) -> Iterator[dict[str, Any]]:
    items = _short(size, peer.model)
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / "texts.json").write_text(json.dumps([item.text for item in items]), encoding="utf-8")
        (place / "texts.jsonl").write_text("".join(map(_line, items)), encoding="utf-8")
        folder = str(bundled_folder(peer.model))
        told: dict[str, list[float]] = {"reading": [], "whole": []}
        for number in range(ROUNDS):
            reading, whole = _sonde(peer, place, number)
            scoring, theirs = _theirs(
                [str(python), str(Path(__file__).parent / "_peers" / peer.script), folder], place
            )
            told["reading"].append(reading / scoring)
            told["whole"].append(whole / theirs)
    for what, ratios in told.items():
        yield {
            "name": f"{what}, {len(items):,} functions, {peer.lens} / {peer.name} ({peer.what})",
            "value": statistics.median(ratios),
            "spread": [min(ratios), max(ratios)],
            "unit": "x",
            "target": "<= 1.0",
        }


def _short(size: int, model: str) -> list[Item]:
    """Select `size` installed functions, none of which is too long for a peer."""
    tokenizer = load_tokenizer(ModelSpec(name=model))
    found: list[Item] = []
    for corpus in ("stdlib", "environment"):
        for item in select(corpus, Selection(limit=2 * size, languages=("python",), per_cluster=0)).items:
            if len(found) < size and len(tokenizer(item.text)["input_ids"]) <= _MOST_SUBWORDS:
                found.append(item)
    return found


def _line(item: Item) -> str:
    row = {
        "id": item.item_id,
        "code": item.text,
        "language": "python",
        "unit": "function",
        "cluster": item.cluster,
    }
    return json.dumps(row) + "\n"


def _sonde(peer: Peer, place: Path, number: int) -> tuple[float, float]:
    """Seconds of observing, and of the whole command with its page."""
    folder = place / f"run-{number}"
    words = (
        f"run -m {peer.model} -l {peer.lens} -c jsonl:{place / 'texts.jsonl'} --per-cluster 0 --include-seen"
    )
    begun = time.perf_counter()
    subprocess.run(
        [
            sys.executable,
            "-c",
            "from sonde.cli import main; main()",
            *words.split(),
            "-o",
            str(folder),
        ],
        check=True,
        capture_output=True,
        env={**os.environ, "SONDE_CACHE_SIZE": "0"},
    )
    whole = time.perf_counter() - begun
    timing = json.loads((folder / "run.json").read_text(encoding="utf-8"))["timing"]
    return sum(seconds for stage, seconds in timing.items() if stage.startswith("observe")), whole


def _theirs(command: list[str], place: Path) -> tuple[float, float]:
    """Seconds of a peer's scoring, and of its whole script."""
    begun = time.perf_counter()
    done = subprocess.run([*command, str(place / "texts.json")], check=True, capture_output=True, text=True)
    whole = time.perf_counter() - begun
    return float(json.loads(done.stdout.splitlines()[-1])["scoring"]), whole
