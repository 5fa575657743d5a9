"""Scores of observations, as ``scores.parquet``: each lens scores each model, corpus and language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.base.progress import Advance
from sonde.executors import is_on_cluster
from sonde.experiments.datasets import LabelTables
from sonde.experiments.experiment import Execution, get_lens_settings
from sonde.experiments.plan import Part, ScoringJob
from sonde.lenses import LENSES, ControlObservations, ScoringContext
from sonde.lenses.engine.item_tables import scan_inputs
from sonde.lenses.engine.lens import STAGE_RESULT, STAGE_RESULT_KEY
from sonde.models import read_frequencies
from sonde.results.schema import scan_files
from sonde.results.scores import SCHEMA_VERSION, Score, frame_to_scores, scores_to_frame
from sonde.stats.estimate import VERSION as ESTIMATE_VERSION
from sonde.store.checksums import read_receipt
from sonde.store.parts import PartStore
from sonde.store.run_folder import RunDirectory, slug

_NAME = "scores.parquet"


_ANSWERS_FOLDER, _STAGE_RESULT_FOLDER = "answers", "handed"


_PARTS_A_BATCH = 32
"""Tables of a batch of observations; each holds up to 64 items."""


_LEFT_OUT = (
    "corpus",
    "identifier",
    "offset",
    "context",
    "docstring",
    "text",
    "tags",
    "given",
    "cuts",
    "original",
)


def score_all(
    store: PartStore, jobs: Sequence[ScoringJob], execution: Execution, advance: Advance
) -> dict[str, list[Score]]:
    """Score everything that was observed, those answers excepted that are scored already.

    Args:
        store: The tables of the run.
        jobs: What is scored.
        execution: Where lenses hand long work to.
        advance: Is called when a task of one is scored, see `count_tasks`.

    Returns:
        The scores of each answer, by its key.
    """
    scores_by_key: dict[str, list[Score]] = {}
    current_paths: set[str] = set()
    shared: dict[tuple[str, str], dict[str, Any]] = {}
    for number, answer in enumerate(jobs):
        relative, peers = _scores_path(answer), _find_peers(answer, jobs)
        # Models are compared on what all of them could read, so each answer depends on the others.
        peer_keys = sorted(peer.key for peer in peers)
        key = fingerprint("beside", answer.key, peer_keys, ESTIMATE_VERSION, SCHEMA_VERSION)
        counter = _TaskCounter(advance, count_tasks([answer]))
        is_scored = _has_scores(store, relative, key)
        if not is_scored:
            common = shared.setdefault(_get_peer_group(answer), {})
            scores, beside_them = _score_job(store, answer, peers, key, execution, counter, common)
            for name, tables in beside_them.items():
                store.put(_extra_path(name, relative), key, pl.concat(tables), {})
            store.put(relative, key, scores_to_frame(scores), dict.fromkeys(beside_them, True))
        current_paths.add(_extra_path(_ANSWERS_FOLDER, relative))
        scores_by_key[answer.key] = frame_to_scores(scan_files(store.path(relative)).collect())
        counter.finish(reused=is_scored)
        if _get_peer_group(answer) not in map(_get_peer_group, jobs[number + 1 :]):
            # It may be large, and nobody else asks for it.
            shared.pop(_get_peer_group(answer), None)
    for folder in {Path(relative).parent.as_posix() for relative in current_paths}:
        store.remove_unplanned_parts(folder, current_paths)
    return scores_by_key


def count_tasks(jobs: Sequence[ScoringJob]) -> int:
    """Return how many tasks are scored; a lens without tasks counts as one."""
    return sum(max(1, len(job.reading.lens.tasks)) for job in jobs)


class _TaskCounter:
    """Counts the scored tasks of one job; a lens may report them one by one, or none."""

    def __init__(self, advance: Advance, tasks: int) -> None:
        self._advance, self._remaining_tasks = advance, tasks

    def __call__(self, count: int = 1, /, *, remaining: float | None = None, reused: bool = False) -> None:
        count = min(count, self._remaining_tasks)
        self._remaining_tasks -= count
        self._advance(count, remaining=remaining, reused=reused)

    def finish(self, *, reused: bool) -> None:
        """Count the tasks that were not reported, as reused if an earlier run scored them."""
        self(self._remaining_tasks, reused=reused)


def _has_scores(store: PartStore, relative: str, key: str) -> bool:
    """Return whether a job is scored and its extra tables exist."""
    notes = store.notes(relative, key)
    if notes is None:
        return False
    return all(store.notes(_extra_path(name, relative), key) is not None for name in notes)


def stage_output(store: PartStore, answer: ScoringJob) -> dict[str, str]:
    """Return the path and key of the previous stage's result; empty without one."""
    relative = _extra_path(_STAGE_RESULT_FOLDER, _scores_path(answer))
    receipt = read_receipt(store.root, relative)
    return {} if receipt is None else {STAGE_RESULT: relative, STAGE_RESULT_KEY: receipt.content}


def write_scores(store: PartStore, scores: Mapping[str, Sequence[Score]]) -> str:
    """Write ``scores.parquet`` from the scores of all answers, in their order.

    Returns:
        The key of the table; it changes when any score can.
    """
    key = fingerprint("scores", list(scores), ESTIMATE_VERSION, SCHEMA_VERSION)
    if store.notes(_NAME, key) is None:
        store.put(
            _NAME, key, scores_to_frame(score for job_scores in scores.values() for score in job_scores), {}
        )
    return key


def _scores_path(answer: ScoringJob) -> str:
    lens, group = answer.reading.lens, answer.reading.group
    return f"scores/lens={lens.folder}/model={slug(answer.model.name)}/{group.prefix}.parquet"


def _extra_path(name: str, relative: str) -> str:
    """Return the path of an extra table, given the path of its scores."""
    return f"{name}{relative.removeprefix('scores')}"


def _find_peers(answer: ScoringJob, answers: Sequence[ScoringJob]) -> list[ScoringJob]:
    """Return the jobs of other models for the same lens, stage and group."""
    return [
        peer
        for peer in answers
        if peer.model != answer.model and _get_peer_group(peer) == _get_peer_group(answer)
    ]


def _get_peer_group(answer: ScoringJob) -> tuple[str, str]:
    """Return what the jobs of models that are compared with each other have in common."""
    return answer.reading.lens.folder, answer.reading.group.prefix


def _score_job(
    store: PartStore,
    answer: ScoringJob,
    peers: Sequence[ScoringJob],
    key: str,
    execution: Execution,
    advance: Advance,
    shared: dict[str, Any],
) -> tuple[list[Score], dict[str, list[pl.DataFrame]]]:
    """Score a job; return its scores and its extra tables by folder."""
    model, lens_input = answer.model, answer.reading
    lens, group = lens_input.lens, lens_input.group
    unseen_ids = [item.item_id for item in lens_input.inputs if item.item_id not in model.seen]
    template = Score(
        model=model.name,
        revision=model.revision,
        lens=lens.name,
        language=group.language,
        corpus_hash=group.corpus_hash,
        item_set=fingerprint("item set", sorted(unseen_ids)),
        metric="",
        value=float("nan"),
        n=0,
        n_clusters=0,
        seed=lens.seed,
        mode=lens.mode,
        fingerprint=key,
    )
    inputs = scan_inputs(RunDirectory(store.root.absolute()), group.corpus, group.language)
    items = inputs.filter(_filter_ids([item.item_id for item in lens_input.inputs]))
    is_seen = _filter_ids(sorted(model.seen)).alias("seen")
    scoring = ScoringContext(
        observations=_scan_parts(store, answer.parts),
        items=items.drop(_LEFT_OUT).with_columns(is_seen).collect(),
        template=template,
        settings=get_lens_settings(lens, str(store.root.absolute())),
        labels=LabelTables(store, lens.tasks, group, lens.labels),
        texts=items.select("item_id", "text"),
        frequencies=read_frequencies(model.spec.name),
        controls=tuple(
            ControlObservations(control, _scan_parts(store, parts))
            for control, parts in answer.controls
            if parts
        ),
        beside=tuple(_scan_parts(store, peer.parts) for peer in peers),
        shared=shared,
        tables=tuple(
            _scan_parts(store, answer.parts[begin : begin + _PARTS_A_BATCH])
            for begin in range(0, len(answer.parts), _PARTS_A_BATCH)
        ),
        cluster=execution.executor if is_on_cluster(execution.executor) else "",
        workers=execution.workers,
        root=str(store.root.absolute()),
        device=model.spec.device,
        model=model.spec,
        advance=advance,
    )
    scores = LENSES.load(lens.source).score(scoring)
    tables = {_ANSWERS_FOLDER: scoring.answers, _STAGE_RESULT_FOLDER: scoring.stage_result}
    return scores, {name: rows for name, rows in tables.items() if rows}


def _filter_ids(ids: Sequence[str]) -> pl.Expr:
    return pl.col("item_id").is_in(pl.Series(ids, dtype=pl.String).implode())


def _scan_parts(store: PartStore, parts: Sequence[Part]) -> pl.LazyFrame:
    # Full paths, since another process may read them.
    return scan_files([store.path(part.relative).absolute() for part in parts])
