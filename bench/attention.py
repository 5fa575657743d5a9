"""The attention lens: against the bare forward, against loops in Python, its memory and its baselines.

Ratios are of paired rounds within one run; the models' random weights do not change what anything costs.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
import transformers

from bench._paired import BUDGET, batched, forward, paired
from sonde.capture.attention_backend import pick_rows
from sonde.capture.requests import RankRules, WordLookups, WordRanks, prepare
from sonde.capture.windows import batch_by_length
from sonde.capture.word_attention import RowWords, rank_words
from sonde.corpora import Item, Selection, SkipCounter, read_items
from sonde.experiments import Execution, Experiment
from sonde.experiments.observe import read_job_items
from sonde.experiments.plan import ObserveJob
from sonde.experiments.run import run as carry_out
from sonde.languages import get_facet
from sonde.languages.engine.relations import Relations
from sonde.lenses import LensSettings
from sonde.lenses.attention.observe import (
    PICKS,
    build_table,
    clamp_ranks,
    find_word_subwords,
    read_item,
    side_rows,
)
from sonde.lenses.attention.predictors import (
    collect_hits,
    hits_by_k,
    predict_keywords,
    predict_offsets,
    select_better_predictor,
)
from sonde.models import ModelSpec, load_model, load_tokenizer
from sonde.tasks.engine.task import TASKS

_BUNDLED = "sonde/mini-encoder"
_LOOPED = 60
_EVERY = 10
# CodeSyntax's functions have 72 edges on average; those of the standard library are shorter.
_EDGES = 40
_MANY = 10_000
_LISTS = "sorted lists in Python"


def run() -> list[dict[str, Any]]:
    """All figures of the lens; rows of name, value, unit, target."""
    with tempfile.TemporaryDirectory() as folder:
        large = _large(Path(folder) / "large")
        rows = [("bundled encoder", _BUNDLED, 64), ("12x12x768 encoder", str(large), 12)]
        whole = [
            _row(
                f"whole lens / bare forward of the body, {name}",
                _ratio(model, items, Path(folder) / f"run-{items}"),
                "x",
                1.5,
            )
            for name, model, items in rows
        ]
    few, many = _peak(200), _peak(2_000)
    return [
        *whole,
        *_against_loops(),
        _row("peak memory, 200 functions", few, "MiB", None),
        _row("peak memory, 2,000 functions", many, "MiB", None),
        _row("ratio of the two", many / few, "x", "0.9 to 1.1"),
        *_baselines(),
    ]


def _row(name: str, value: float, unit: str, target: float | str | None) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "target": target}


def _large(folder: Path) -> Path:
    """Build an encoder of RoBERTa's size that reads the bundled vocabulary."""
    tokenizer = load_tokenizer(ModelSpec(name=_BUNDLED))
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer), max_position_embeddings=514, pad_token_id=tokenizer.pad_token_id
    )
    transformers.RobertaForMaskedLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _ratio(model: str, items: int, folder: Path) -> float:
    selection = Selection(limit=items, languages=("python",))
    experiment = Experiment(models=(model,), lenses=("attention",), selection=selection)
    outcome = carry_out(experiment, Execution(output=folder))
    # The first job is the model's own; its control's and the second stage's come behind it.
    return _paired(outcome.jobs[0], folder)


def _paired(job: ObserveJob, folder: Path) -> float:
    loaded = load_model(job.model)
    prepared = prepare(loaded, read_job_items(job))
    special = loaded.special
    rows = [np.array([*special.prefix, *one.alignment.subwords.ids, *special.suffix]) for one in prepared]
    keys = [one.item.item_id for one in prepared]
    fitting = [place for place, row in enumerate(rows) if len(row) <= loaded.capabilities.context]
    rows, keys = [rows[place] for place in fitting], [keys[place] for place in fitting]
    batches = batched(rows, keys)
    return paired(job, folder, lambda: forward(loaded.model.base_model, batches))


def _functions(limit: int) -> list[Item]:
    return list(itertools.islice(read_items("stdlib", SkipCounter(), languages=("python",)), limit))


def _against_loops() -> list[dict[str, Any]]:
    """All begin with the same attention of 12 x 12 heads and end with hits by head and k."""
    threads = torch.get_num_threads()
    # The loops use one CPU core; so do we.
    torch.set_num_threads(1)
    loaded, task = load_model(ModelSpec(name=_BUNDLED)), TASKS.load("syntax_relations")
    asked: list[tuple[int, WordLookups]] = []
    for one in prepare(loaded, _functions(_LOOPED * _EVERY)[::_EVERY]):
        rows = task.label([one.item], {})[one.item.item_id].filter(pl.col("label").is_not_null())
        size = len(one.alignment.subwords)
        if len(rows) >= _EDGES and size <= loaded.capabilities.context:
            words, edges = read_item(one.item, rows, LensSettings())
            spans = find_word_subwords(words, one.alignment.subwords)
            asked.append(
                (
                    size,
                    WordLookups(*spans, words.candidate, edges.bidirectional_lookups, edges.causal_lookups),
                )
            )
    ways = {_LISTS: _by_sorted_lists, "numpy's argsort, as published": _by_argsort}
    ours, theirs = 0.0, dict.fromkeys(ways, 0.0)
    for batch in batch_by_length([size for size, _ in asked], [str(at) for at in range(len(asked))], BUDGET):
        width = max(asked[at][0] for at in batch)
        layers = torch.rand((12, len(batch), 12, width, width)).softmax(-1)
        begun = time.process_time()
        _ranked(layers, [asked[at][1] for at in batch])
        ours += time.process_time() - begun
        for name, ranked in ways.items():
            begun = time.process_time()
            for place, at in enumerate(batch):
                _looped(layers[:, place].numpy(), asked[at][1], ranked)
            theirs[name] += time.process_time() - begun
    torch.set_num_threads(threads)
    words = statistics.mean(len(one.first) for _, one in asked)
    edges = statistics.mean(len(one.ahead) for _, one in asked)
    size = f"{words:.0f} words and {edges:.0f} edges per function"
    return [
        _row(f"word loops and {name} / scoring, {size}", seconds / ours, "x", 20 if name == _LISTS else None)
        for name, seconds in theirs.items()
    ]


def _ranked(layers: torch.Tensor, lookups: list[WordLookups]) -> None:
    asked = [RowWords(one, one.ahead, 0, 0) for one in lookups]
    for found in rank_words(
        "encoder", asked, RankRules(), False, lambda columns: (pick_rows(layer, columns) for layer in layers)
    ):
        assert found is not None
        hits_by_k(clamp_ranks(found))


def _by_argsort(words: np.ndarray) -> list[list[int]]:
    return np.flip(np.argsort(words, axis=-1), axis=-1)[:, :20].tolist()


def _by_sorted_lists(words: np.ndarray) -> list[list[int]]:
    return [sorted(range(len(row)), key=row.__getitem__, reverse=True)[:20] for row in words.tolist()]


def _looped(
    layers: np.ndarray, lookups: WordLookups, ranked: Callable[[np.ndarray], list[list[int]]]
) -> None:
    """Words by a loop over words, hits by a loop over edges and candidates, head by head, as published."""
    spans = zip(lookups.first.tolist(), lookups.stop.tolist(), strict=True)
    owned = [list(range(start, stop)) for start, stop in spans]
    asked = [part.tolist() for part in (lookups.ahead.query, lookups.ahead.first, lookups.ahead.last)]
    hits = np.zeros((*layers.shape[:2], 3, 20), dtype=np.int64)
    for at_layer, heads in enumerate(layers):
        for at_head, matrix in enumerate(heads):
            columns = np.zeros((len(matrix), len(owned)))
            for word, mine in enumerate(owned):
                columns[:, word] = matrix[:, mine].sum(axis=-1)
            words = np.zeros((len(owned), len(owned)))
            for word, mine in enumerate(owned):
                if mine:
                    words[word] = np.mean(columns[mine], axis=0)
            np.fill_diagonal(words, 0.0)
            best = ranked(words)
            for query, first, last in zip(*asked, strict=True):
                for metric in range(3):
                    for k, picked in enumerate(best[query]):
                        if (picked == first, picked == last, first <= picked <= last)[metric]:
                            hits[at_layer, at_head, metric, k:] += 1
                            break


_CODE = """
import sys
from pathlib import Path
from sonde.corpora import Selection
from sonde.experiments import Execution, Experiment
from sonde.experiments.run import run
limit, folder = int(sys.argv[1]), Path(sys.argv[2])
selection = Selection(limit=limit, languages=("python",), per_cluster=0, near_duplicates=False)
experiment = Experiment(models=("sonde/mini-encoder",), lenses=("attention",), selection=selection)
run(experiment, Execution(output=folder))
"""


def _peak(limit: int) -> float:
    """Peak resident memory of a whole run in a process of its own, in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", _CODE, str(limit), str(Path(folder) / "run")]
        # A child of its own for each figure: the operating system keeps the largest of all children.
        wrapper = (
            "import resource, subprocess, sys; "
            "subprocess.run(sys.argv[1:], check=True, capture_output=True); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        done = subprocess.run(
            [sys.executable, "-c", wrapper, *command], check=True, capture_output=True, text=True
        )
    return int(done.stdout) / 1024


def _baselines() -> list[dict[str, Any]]:
    """Offsets, keywords and their combination on many functions, from their labels on."""
    items = _functions(_MANY)
    labels = TASKS.load("syntax_relations").label(items, {})
    settings, facet = LensSettings(), get_facet("python", "relations", Relations)
    begun = time.perf_counter()
    rows: list[dict[str, Any]] = []
    edges_in_all = 0
    for item in items:
        named = labels[item.item_id].filter(pl.col("label").is_not_null())
        if named.is_empty():
            continue
        words, edges = read_item(item, named, settings)
        edges_in_all += len(edges)
        nothing = WordRanks(np.zeros((1, 1, len(edges), 3), np.uint16))
        blind = np.zeros((len(edges), 3, 1 + PICKS), np.uint8)
        start = {"item_id": item.item_id, "language": "python", "split": ""}
        rows += [{**start, **row} for row in side_rows("encoder", nothing, blind, words, edges, "python")]
    table = build_table(rows)
    splits = {item.item_id: "test" if place % 3 else "valid" for place, item in enumerate(items)}
    for relation in collect_hits(table.lazy(), splits, {}).values():
        by_offset = predict_offsets(relation, settings)
        by_keyword = predict_keywords(relation, facet.keywords, settings)
        select_better_predictor(by_offset, by_keyword, ("offset", "keyword"))
    seconds = time.perf_counter() - begun
    return [_row(f"baselines, {len(items):,} functions, {edges_in_all:,} edges", seconds, "s", 180)]
