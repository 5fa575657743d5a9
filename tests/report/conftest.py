"""Synthetic runs for the report's tests."""

from __future__ import annotations

import argparse
import ast
import bisect
import configparser
import csv
import dataclasses
import functools
import gettext
import heapq
import inspect
import json.encoder
import shlex
import shutil
import string
import textwrap
import zipfile
from pathlib import Path

import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.report import test_accepted as accepted
from tests.report import test_attention_sections as attention
from tests.report import test_behind_file as behind
from tests.report import test_causal_depth_sections as depth
from tests.report import test_causal_sections as causal
from tests.report import test_cloze_sections as cloze
from tests.report import test_finetune_examples as examples
from tests.report import test_finetune_sections as finetune
from tests.report import test_periods as periods
from tests.report import test_probe_sections as probe
from tests.report import test_prompted as prompted
from tests.report.synthetic import HOSTILE, Source, dims, functions_of, write_run

import sonde
from sonde.models.engine.model_names import bundled_folder
from sonde.report import RunData, write_report
from sonde.results.scores import scores_to_frame
from sonde.store.run_folder import RunDirectory

MODULES = (argparse, ast, bisect, configparser, csv, functools, gettext)
MORE_MODULES = (heapq, json.encoder, shlex, string, textwrap, zipfile)

attention_root, examples_folder, cloze_run = attention.root, examples.folder, cloze.run


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Functions of 13 modules, and one whose text attacks the page."""
    return [
        *functions_of(*MODULES, *MORE_MODULES, limit=6),
        Source("hostile.py", "f</script><img src=x>", "hostile", HOSTILE),
    ]


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory, sources: list[Source]) -> Path:
    """A run of one model."""
    return write_run(tmp_path_factory.mktemp("runs") / "one", sources, {"sonde/mini-decoder": 1.0})


@pytest.fixture(scope="session")
def report(run_directory: Path) -> Path:
    """The page of the run of one model."""
    return write_report(run_directory, figures=True)


@pytest.fixture(scope="session")
def pair_directory(tmp_path_factory: pytest.TempPathFactory, sources: list[Source]) -> Path:
    """A run of two models."""
    models = {"sonde/mini-decoder": 1.0, "org/other model": 0.7}
    return write_run(tmp_path_factory.mktemp("runs") / "two", sources[::3], models)


@pytest.fixture(scope="session")
def ladder_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the bundled decoder, and beside it a copy with noise on its weights."""
    root = tmp_path_factory.mktemp("ladder")
    bundled = bundled_folder("sonde/mini-decoder")
    assert bundled is not None
    shutil.copytree(bundled, root / "noisy")
    weights = load_file(bundled / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    noisy = {
        name: weight + 0.1 * weight.float().std().to(weight.dtype) * _draw(weight, generator)
        for name, weight in weights.items()
    }
    save_file(noisy, root / "noisy" / "model.safetensors", metadata={"format": "pt"})
    (root / "code").mkdir()
    for module in (ast, csv, shlex, textwrap):
        (root / "code" / f"{module.__name__}_copy.py").write_text(inspect.getsource(module))
    run = sonde.run(
        ["sonde/mini-decoder", str(root / "noisy")],
        f"local:{root / 'code'}",
        lens="fidelity",
        limit=40,
        output=root / "run",
    )
    return run.directory


def _draw(weight: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(weight.shape, generator=generator).to(weight.dtype)


@pytest.fixture(scope="session")
def full_runs(
    tmp_path_factory: pytest.TempPathFactory,
    pair_directory: Path,
    run_directory: Path,
    attention_root: Path,
    examples_folder: Path,
    cloze_run: RunData,
    ladder_run: Path,
    sources: list[Source],
) -> list[RunData]:
    """Runs that hold something to draw for every plot, between them."""
    scored = write_run(tmp_path_factory.mktemp("runs") / "scored", [], {**probe.MODELS, "org/m": 1.0})
    rows = [row for model in probe.MODELS for row in probe.scores_of(model)]
    told = [prompted.score(where, "p_at_k", 0.4, 20) for where in ((), dims(template="call"))]
    classes = [("KeyError", "OSError"), ("OSError", "OSError"), ("KeyError", "KeyError")]
    confused = [
        finetune.row("exception_type", "confusion", 0.5, dimensions=dims(gold=gold, predicted=said), n=20)
        for gold, said in classes
    ]
    tags = [
        dataclasses.replace(rows[0], lens="surprisal", metric="bits", dimensions=dims(user_tag=name), task="")
        for name in ("NOUN", "VERB", "if")
    ]
    listed = [
        *rows,
        *told,
        *accepted.told("sonde/mini-decoder"),
        *behind.told("sonde/mini-decoder"),
        *periods.told(0.3, 0.1, model="sonde/mini-decoder"),
        *confused,
        *tags,
        *finetune.scores(),
        *finetune.swept(),
        *causal.scores(25.0),
        *(dataclasses.replace(one, model="org/m") for one in (*depth.layered(), *depth.patched(6.0))),
        *(
            dataclasses.replace(tags[0], metric="preferred", dimensions=dims(**part), task="variable_misuse")
            for part in ({}, {"operator": "=="}, {"operator": "!="})
        ),
    ]
    scores_to_frame(listed).write_parquet(RunDirectory(scored).scores)
    runs = [run_directory, pair_directory, attention_root, examples_folder, scored, ladder_run]
    return [cloze_run, *map(RunData, runs), _write_pairs(tmp_path_factory.mktemp("runs") / "pairs", sources)]


def _write_pairs(root: Path, sources: list[Source]) -> RunData:
    """Write the run of a masked model that finds the second function likelier than the first."""
    run = RunDirectory(write_run(root, sources[:2], {"m": 1.0}))
    pl.read_parquet(run.scores).with_columns(objective=pl.lit("pll")).write_parquet(run.scores)
    pair = {
        "task": "wrong_operator",
        "source_id": "s",
        "file": "f.py",
        "start": 4,
        "end": 5,
        "before_nats": 1.0,
    }
    rows = [
        {**pair, "item_id": source.item_id, "original": original, "nats": nats, "before_nats": 1.0}
        for source, original, nats in zip(sources, (True, False), (5.0, 2.0), strict=False)
    ]
    pl.DataFrame(rows).write_parquet(root / run.observations("surprisal", "m") / "part-0.parquet")
    return RunData(root)
