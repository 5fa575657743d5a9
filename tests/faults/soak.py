"""A soak: the same commands over more and more functions, with their time, their memory and the page.

    python -m tests.faults.soak --functions 1000 10000 100000

The decoder has one layer and random weights: what is measured is sonde, that is reading a corpus, labels,
alignment, capture, scores and page. Seconds are those of the processor, over all processes of a command, so
that other work on the machine weighs less; memory is that of the largest process. The corpus is what is
installed beside this interpreter.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from sonde.models import ModelSpec, load_tokenizer
from tests.report.browser import opened

CORPUS = "-c environment --language python"
RUN = f"run -m ./tiny -l surprisal {CORPUS} --per-cluster 0 --no-report"
LABEL = f"label len {CORPUS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a command took.

    Attributes:
        wall: Seconds.
        processor: Seconds of the processor, of all its processes together.
        memory: Resident memory of the largest of them, in MiB.
    """

    wall: float
    processor: float
    memory: float


def measured(words: Sequence[str], place: Path) -> Cost:
    """Run a command of sonde and see what it takes.

    Raises:
        RuntimeError: It did not end well.
    """
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", "from sonde.cli.commands import main; main()", *words],
        cwd=place,
        env={**os.environ, "SONDE_CACHE_SIZE": "0", "SONDE_CACHE": str(place / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # A wait of one's own: it gives what this command took, its own processes included, and no other.
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)}: ended with {process.returncode}")
    return Cost(
        wall=time.monotonic() - begin,
        processor=used.ru_utime + used.ru_stime,
        memory=used.ru_maxrss / 1024,
    )


def tiny_decoder(folder: Path) -> None:
    """A decoder of one layer with random weights, which reads with the tokenizer of the bundled one."""
    tokenizer = load_tokenizer(ModelSpec(name="sonde/mini-decoder"))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=512,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def seconds_to_open(page: Path, place: Path) -> float:
    """Until a browser that reads a page has drawn its first chart and has answered a click."""
    with opened(page.read_text(encoding="utf-8"), place) as shown:
        begin = time.monotonic()
        shown.reload()
        shown.locator("[data-chart] svg.marks").first.wait_for()
        shown.mouse.click(5, 5)
        return time.monotonic() - begin


def main() -> int:
    """Print the table as Markdown, a row a number of functions."""
    parser = argparse.ArgumentParser(description="The same commands over more and more functions.")
    parser.add_argument("--functions", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        tiny_decoder(place / "tiny")
        # Where functions stand in the files of the corpus is found once and kept.
        measured([*RUN.split(), "--limit", "10", "-o", "first"], place)
        sys.stdout.write(
            "| functions read | subwords | label, s | observe and score, s | page, s | largest process, MiB "
            "| page, MB | opens in, s |\n|---|---|---|---|---|---|---|---|\n"
        )
        for count in given.functions:
            folder = place / f"run-{count}"
            size = ["--limit", str(count)]
            label = measured([*LABEL.split(), *size, "--raw", "-o", f"labels-{count}.jsonl"], place)
            whole = measured([*RUN.split(), *size, "-o", str(folder)], place)
            drawn = measured(["report", str(folder)], place)
            facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
            items = sum(one["items"] for one in facts["corpus"])
            subwords = sum(one.get("subwords", 0) for one in facts["alignment"].values())
            most = max(label.memory, whole.memory, drawn.memory)
            sys.stdout.write(
                f"| {items:,} | {subwords:,} | {label.processor:.0f} | {whole.processor:.0f} "
                f"| {drawn.processor:.0f} | {most:,.0f} "
                f"| {(folder / 'report.html').stat().st_size / 1e6:.1f} "
                f"| {seconds_to_open(folder / 'report.html', place):.1f} |\n"
            )
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
