"""The main jobs on an accelerator, all in one visit: what share of a bare forward's speed they reach.

The models have random weights: time does not depend on them. A machine without an accelerator measures the
same on its processor with small models, which shows that everything here runs. A part that fails is a row
of its own, so that a visit brings the others home.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from bench import probe
from bench._paired import BUDGET, batched, forward
from bench._shapes import Shape, build_model, capture_all, read_ids
from sonde.capture.requests import prepare
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.observe import observe_batch, read_job_items
from sonde.experiments.plan import ObserveJob, batch_jobs
from sonde.experiments.run import run as carry_out
from sonde.models import load_model
from sonde.training.pretrain.loop import train
from sonde.training.pretrain.objectives import BlockDataset
from sonde.training.pretrain.recipe import read_recipe
from sonde.training.probes.linear import probe_layers

Row = dict[str, str | float | None]

_ON = torch.cuda.is_available()
_ROUNDS = 3
_TARGETS = {"surprisal": ">= 0.9", "probe": ">= 0.9", "attention": ">= 0.7"}
_BUDGET = 32_768 if _ON else BUDGET
_ITEMS = 256 if _ON else 60
_UNIT_ITEMS = 10_000 if _ON else 100
_INSPECT_MODELS = 8
_PROBES = {"device": "cuda" if _ON else "cpu"}
_FEWEST_PROBES = {**_PROBES, "pooling": "mean", "probe": "linear", "controls": False, "curves": False}
"""What the figures of capture wait for: its tables are read, their scores are not."""

_PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12}
"""Products and sums of bfloat16 a second, as the maker gives them."""

_RECIPE = """
[model]
role = "decoder"
architecture = "llama"
context = 1024
[model.settings]
hidden_size = {width}
intermediate_size = {inner}
num_hidden_layers = {layers}
num_attention_heads = {heads}
tie_word_embeddings = true
[[data.corpora]]
name = "environment"
language = "python"
[training]
steps = {steps}
blocks_per_step = {blocks}
blocks_at_once = {blocks}
block = 1024
warmup_steps = 1
log_every = {every}
[optimiser]
hidden_lr = 0.02
lr = 0.003
"""


_LARGE = (
    Shape("125M encoder", ("probe", "attention"), 12, 768, 3072, 12, decoder=False),
    Shape("1B decoder", ("surprisal", "probe", "attention"), 16, 2048, 8192, 32),
    Shape("7B decoder", ("surprisal", "probe"), 32, 4096, 11_008, 32),
)
_SMALL = (
    Shape("small encoder", ("probe", "attention"), 2, 64, 128, 2, decoder=False),
    Shape("small decoder", ("surprisal", "probe", "attention"), 2, 64, 128, 2),
)


def run() -> Iterator[Row]:
    """Measure everything; rows of name, value, unit, target."""
    shapes = _LARGE if _ON else _SMALL
    device = torch.cuda.get_device_name() if _ON else "no accelerator"
    print(f"{device}, torch {torch.__version__}, transformers {transformers.__version__}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for shape in shapes:
            yield from _told(shape.name, lambda one=shape: _observing(one, Path(folder)))
        yield from _told("probes", _probing)
        yield from _told("pre-training", lambda: _pretraining(Path(folder)))
        yield from _told("INSPECT's unit", lambda: _unit(shapes[0], Path(folder)))


def _told(name: str, part: Callable[[], Iterable[Row]]) -> Iterator[Row]:
    """Yield the rows of a part, or one with the error if it fails."""
    try:
        yield from part()
    except Exception:
        traceback.print_exc(file=sys.stderr)
        yield _row(f"{name}: failed, see above", float("nan"), "", None)


def _row(name: str, value: float, unit: str, target: str | None) -> Row:
    return {"name": name, "value": value, "unit": unit, "target": target}


def _observing(shape: Shape, folder: Path) -> Iterator[Row]:
    """Subwords a second of the bare forward, and which share of them each lens reaches."""
    model = str(build_model(shape, folder))
    for lens in shape.lenses:
        if _ON:
            torch.cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        experiment = Experiment(
            models=(model,),
            lenses=(lens,),
            tasks=("csc",) if lens == "probe" else (),
            selection=Selection(limit=_ITEMS, languages=("python",), per_cluster=0),
            options={"probe": _FEWEST_PROBES} if lens == "probe" else {},
        )
        outcome = carry_out(experiment, Execution(output=folder / f"{shape.name} {lens}", dtype="bfloat16"))
        whole = time.perf_counter() - begun
        jobs = [job for job in outcome.jobs if job.model == outcome.jobs[0].model]
        yield from _compared(f"{shape.name}, {lens}", lens, jobs)
        yield _row(f"{shape.name}, {lens}: whole run of {_ITEMS} functions", whole, "s", None)
        if _ON:
            yield _row(
                f"{shape.name}, {lens}: peak memory", torch.cuda.max_memory_allocated() / 2**30, "GiB", None
            )


def _compared(name: str, lens: str, jobs: list[ObserveJob]) -> Iterator[Row]:
    """Jobs against the bare forward: capture alone, items being aligned, and everything a job does."""
    loaded = load_model(jobs[0].model)
    bare_of = loaded.model if lens == "surprisal" else loaded.model.base_model
    together = batch_jobs(jobs)
    prepared = [
        (pool, [one for job in pool.jobs for one in prepare(loaded, read_job_items(job))])
        for pool in together
    ]
    rows = [read_ids(one, loaded) for _, items in prepared for one in items]
    batches = batched(rows, [str(at) for at in range(len(rows))], _BUDGET)
    subwords = sum(len(row) for row in rows)
    times: dict[str, list[float]] = {"bare": [], "capture": [], "job": []}
    for repeat in range(_ROUNDS + 1):
        for job in jobs:
            for part in job.parts:
                (Path(job.root) / part.relative).unlink(missing_ok=True)
        steps: dict[str, Callable[[], Any]] = {
            "bare": lambda: forward(bare_of, batches),
            "capture": lambda: [capture_all(loaded, pool, items) for pool, items in prepared],
            "job": lambda: [observe_batch(pool) for pool in together],
        }
        for step, work in steps.items():
            begun = time.perf_counter()
            work()
            if repeat:  # the first round warms caches, and loads the model that jobs keep
                times[step].append(time.perf_counter() - begun)
    typical = {step: statistics.median(found) for step, found in times.items()}
    padded = sum(len(batch) * max(len(row) for row in batch) for batch in batches)
    yield _row(f"{name}: bare forward", subwords / typical["bare"], "subwords/s", None)
    yield _row(f"{name}: real subwords among padded ones, bare", subwords / padded, "", None)
    yield _row(
        f"{name}: capture, of the bare speed", typical["bare"] / typical["capture"], "", _TARGETS[lens]
    )
    yield _row(f"{name}: whole job, of the bare speed", typical["bare"] / typical["job"], "", None)
    yield _row(f"{name}: whole job", 1e3 * typical["job"] / len(rows), "ms/item", None)


def _probing() -> Iterator[Row]:
    """Probes of 13 layers on the device compared with scikit-learn on the CPU."""
    states, labels, parts = probe.data()
    classes = int(labels.max()) + 1
    times: list[float] = []
    for _ in range(_ROUNDS + 1):
        begun = time.perf_counter()
        probe_layers(states, labels[None], classes, parts, device="cuda" if _ON else "cpu")
        times.append(time.perf_counter() - begun)
    own = statistics.median(times[1:])
    begun = time.perf_counter()
    probe.one_after_another(states[len(states) // 2], labels, parts)
    theirs = (time.perf_counter() - begun) * len(states)
    yield _row(f"probes of {len(states)} layers, {states.shape[1]:,} items", own, "s", None)
    yield _row("scikit-learn, one layer's time for each / probes here", theirs / own, "x", ">= 20")


def _pretraining(folder: Path) -> Iterator[Row]:
    """Time updates of a decoder by recipe: subwords per second, and the share of the device's arithmetic."""
    sizes: dict[str, int] = {
        "width": 768,
        "inner": 3072,
        "layers": 12,
        "heads": 12,
        "blocks": 32,
        "every": 10,
    }
    if not _ON:
        sizes |= {"width": 64, "inner": 128, "layers": 2, "heads": 2, "blocks": 1, "every": 2}
    path = folder / "bench.toml"
    path.write_text(_RECIPE.format(**sizes, steps=4 * sizes["every"]))
    recipe = read_recipe(path)
    draw = np.random.default_rng(0)
    stream = draw.integers(5, recipe.vocabulary.size, 2_000_000).astype(np.uint16)
    moments: list[float] = []
    trained = train(
        recipe,
        BlockDataset(stream, recipe),
        folder / "trained",
        resume=False,
        report=lambda _: moments.append(time.perf_counter()),
    )
    training = recipe.training
    steps = (len(moments) - 1) * sizes["every"]
    speed = steps * training.blocks_per_step * training.block / (moments[-1] - moments[0])
    parameters = sum(one.numel() for one in trained.model.parameters())
    # Six operations a parameter and subword, and those of attention (Chowdhery et al. 2022, appendix B).
    each = 6 * parameters + 12 * sizes["layers"] * sizes["width"] * training.block
    yield _row(f"pre-training, {parameters / 1e6:.0f}M decoder", speed, "subwords/s", None)
    peak = next((most for name, most in _PEAK.items() if _ON and name in torch.cuda.get_device_name()), None)
    if peak is not None:
        yield _row("pre-training: share of the device's arithmetic", speed * each / peak, "", None)


def _unit(shape: Shape, folder: Path) -> Iterator[Row]:
    """One task of INSPECT over 10,000 functions: time and disk of one model, and of eight of its size."""
    output = folder / "unit"
    begun = time.perf_counter()
    outcome = carry_out(
        Experiment(
            models=(str(build_model(shape, folder)),),
            lenses=("probe",),
            tasks=("csc",),
            selection=Selection(
                limit=_UNIT_ITEMS, languages=("python",), per_cluster=0, near_duplicates=False
            ),
            options={"probe": _PROBES},
        ),
        Execution(output=output, dtype="bfloat16"),
    )
    seconds = time.perf_counter() - begun
    size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file()) / 2**30
    yield _row(f"INSPECT's unit: functions read by one {shape.name}", outcome.observed, "", None)
    for stage, taken in outcome.seconds.items():
        yield _row(f"INSPECT's unit: {stage}", taken, "s", None)
    yield _row(
        f"INSPECT's unit: {_INSPECT_MODELS} such models in turn", _INSPECT_MODELS * seconds, "s", "< 600"
    )
    yield _row("INSPECT's unit: disk of one model", size, "GiB", "< 0.3")
