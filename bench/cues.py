"""How well words and their neighbours predict each task about tokens; writes ``docs/measured/cues.json``.

On the first corpus of each language in `sonde.languages.list_corpora`; missing corpora are named in the file.
Folds, settings and the test of every example once are as in `bench.baselines`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.baselines import FOLDS, estimate
from sonde.base.errors import SondeError
from sonde.corpora import Item, Selection, SkipCounter, read_files, select
from sonde.executors import EXECUTORS, count_cores
from sonde.languages import LANGUAGES, has_facet, list_corpora
from sonde.tasks import Dataset, Repository, Task, build, index_imports, needs_imports, repositories
from sonde.tasks.engine.surface import predict_local_cues
from sonde.tasks.engine.task import TASKS
from sonde.tasks.engine.user_labels import UserLabels
from sonde.training.probes.splits import make_grouped_folds

FUNCTIONS = 3_000
SIZE = 500
TARGETS = ("span", "pair")
MEASURED = Path(__file__).parents[1] / "docs" / "measured" / "cues.json"

Cell = dict[str, str | int | float]


def run() -> Iterator[dict[str, str | float | None]]:
    """Fit local cues and write what was measured; a row per language and task: its accuracy above chance."""
    names = [name for name in LANGUAGES.names() if has_facet(name, "tokens")]
    measured: list[Cell] = []
    for cells in dict(EXECUTORS.load("local").map(_measure_language, names, workers=count_cores())).values():
        measured += cells
        for cell in cells:
            if not cell["why"]:
                gain = 100 * (float(cell["value"]) - 1 / int(cell["classes"]))
                name = f"{cell['task']} in {cell['language']}: local cues above chance"
                yield {"name": name, "value": gain, "unit": "points", "target": None}
    measured.sort(key=lambda cell: (cell["task"], cell["language"]))
    MEASURED.write_text(
        json.dumps({"size": SIZE, "functions": FUNCTIONS, "cells": measured}, indent=1) + "\n"
    )


def _measure_language(language: str) -> list[Cell]:
    """Measure every task about tokens in a language; runs in any process."""
    tasks = {name: TASKS.load(name) for name in TASKS.names()}
    tasks = {name: task for name, task in tasks.items() if task.target in TARGETS and is_labelled(task)}
    corpus = list_corpora(language)[0]
    shown = {"language": language, "corpus": corpus}
    try:
        selection = Selection(languages=(language,), per_cluster=0, limit=FUNCTIONS)
        items = select(corpus, selection).items
        files = list(read_files(corpus, (language,), SkipCounter()))
    except SondeError as error:
        return [{"task": name, **shown, "why": str(error)} for name in tasks]
    around = {"repositories": repositories(files), "imports": index_imports(files), "": {}}
    cells: list[Cell] = []
    for name, task in tasks.items():
        kind = "repositories" if task.needs_repository else "imports" if needs_imports(task) else ""
        cells.append({"task": name, **shown, **_measure(name, task, items, language, around[kind])})
    return cells


def is_labelled(task: Task) -> bool:
    """Whether a task labels code by itself, in two classes or more."""
    return not isinstance(task, UserLabels) and len(task.labels) != 1


def _measure(
    name: str, task: Task, items: Sequence[Item], language: str, around: Mapping[str, Repository]
) -> dict[str, Any]:
    try:
        data = build(name, items, size=SIZE, language=language, repositories=around)
        frame = data.examples
        labels = np.unique(frame["label"].to_numpy(), return_inverse=True)[1]
        clusters = np.unique(frame["cluster"].to_numpy(), return_inverse=True)[1]
        folds = [(one.train, one.valid, one.test) for one in make_grouped_folds(labels, clusters, FOLDS, 0)]
    except SondeError as error:
        return {"why": str(error)}
    table = predict_local_cues(Dataset(name, task.version, frame, data.inputs), items, folds)
    found = estimate(table, dict(zip(frame["example_id"].to_list(), clusters.tolist(), strict=True)))
    ends = {end: round(float(getattr(found, end)[0]), 4) for end in ("value", "low", "high")}
    return {"examples": frame.height, "classes": len(np.unique(labels)), **ends, "why": ""}
