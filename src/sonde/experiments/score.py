"""From observations to ``scores.parquet``: each lens scores each model on each corpus and language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

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


_ANSWERED, _HANDED = "answers", "handed"


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
        advance: Is called when one is done.

    Returns:
        The scores of each answer, by its key.
    """
    found: dict[str, list[Score]] = {}
    kept: set[str] = set()
    for answer in jobs:
        relative, beside = _scores_path(answer), _find_peers(answer, jobs)
        # Models are compared on what all of them could read, so each answer depends on the others.
        others = sorted(other.key for other in beside)
        key = fingerprint("beside", answer.key, others, ESTIMATE_VERSION, SCHEMA_VERSION)
        if not _has_scores(store, relative, key):
            scores, beside_them = _score_job(store, answer, beside, key, execution)
            for name, tables in beside_them.items():
                store.put(_extra_path(name, relative), key, pl.concat(tables), {})
            store.put(relative, key, scores_to_frame(scores), dict.fromkeys(beside_them, True))
        kept.add(_extra_path(_ANSWERED, relative))
        found[answer.key] = frame_to_scores(scan_files(store.path(relative)).collect())
        advance()
    for folder in {Path(relative).parent.as_posix() for relative in kept}:
        store.remove_unplanned_parts(folder, kept)
    return found


def _has_scores(store: PartStore, relative: str, key: str) -> bool:
    """Whether an answer is scored, and what it kept beside its scores is there as well."""
    notes = store.notes(relative, key)
    if notes is None:
        return False
    return all(store.notes(_extra_path(name, relative), key) is not None for name in notes)


def stage_output(store: PartStore, answer: ScoringJob) -> dict[str, str]:
    """Where a scored stage left what the next one is to have, and its fingerprint; empty for nothing."""
    relative = _extra_path(_HANDED, _scores_path(answer))
    receipt = read_receipt(store.root, relative)
    return {} if receipt is None else {STAGE_RESULT: relative, STAGE_RESULT_KEY: receipt.content}


def write_scores(store: PartStore, scores: Mapping[str, Sequence[Score]]) -> str:
    """Write ``scores.parquet`` from the scores of all answers, in their order.

    Returns:
        The key of the table; it changes when any score can.
    """
    key = fingerprint("scores", list(scores), ESTIMATE_VERSION, SCHEMA_VERSION)
    if store.notes(_NAME, key) is None:
        store.put(_NAME, key, scores_to_frame(score for some in scores.values() for score in some), {})
    return key


def _scores_path(answer: ScoringJob) -> str:
    lens, group = answer.reading.lens, answer.reading.group
    return f"scores/lens={lens.folder}/model={slug(answer.model.name)}/{group.prefix}.parquet"


def _extra_path(name: str, relative: str) -> str:
    """Where answers to single examples, or what is handed on, lie, given where their scores do."""
    return f"{name}{relative.removeprefix('scores')}"


def _find_peers(answer: ScoringJob, answers: Sequence[ScoringJob]) -> list[ScoringJob]:
    """What the other models answer to the same lens, at the same stage, over the same group."""
    lens, group = answer.reading.lens.folder, answer.reading.group.prefix
    return [
        other
        for other in answers
        if other.model != answer.model
        and (other.reading.lens.folder, other.reading.group.prefix) == (lens, group)
    ]


def _score_job(
    store: PartStore, answer: ScoringJob, beside: Sequence[ScoringJob], key: str, execution: Execution
) -> tuple[list[Score], dict[str, list[pl.DataFrame]]]:
    """The scores of an answer, and the tables that the lens keeps beside them, by what they are."""
    model, reading = answer.model, answer.reading
    lens, group = reading.lens, reading.group
    shown = [item.item_id for item in reading.inputs if item.item_id not in model.seen]
    template = Score(
        model=model.name,
        revision=model.revision,
        lens=lens.name,
        language=group.language,
        corpus_hash=group.corpus_hash,
        item_set=fingerprint("item set", sorted(shown)),
        metric="",
        value=float("nan"),
        n=0,
        n_clusters=0,
        seed=lens.seed,
        mode=lens.mode,
        fingerprint=key,
    )
    inputs = scan_inputs(RunDirectory(store.root.absolute()), group.corpus, group.language)
    held = inputs.filter(_filter_ids([item.item_id for item in reading.inputs]))
    seen = _filter_ids(sorted(model.seen)).alias("seen")
    scoring = ScoringContext(
        observations=_scan_parts(store, answer.parts),
        items=held.drop(_LEFT_OUT).with_columns(seen).collect(),
        template=template,
        settings=get_lens_settings(lens, str(store.root.absolute())),
        labels=LabelTables(store, lens.tasks, group, lens.labels),
        texts=held.select("item_id", "text"),
        frequencies=read_frequencies(model.spec.name),
        controls=tuple(
            ControlObservations(control, _scan_parts(store, parts))
            for control, parts in answer.controls
            if parts
        ),
        beside=tuple(_scan_parts(store, other.parts) for other in beside),
        tables=tuple(
            _scan_parts(store, answer.parts[begin : begin + _PARTS_A_BATCH])
            for begin in range(0, len(answer.parts), _PARTS_A_BATCH)
        ),
        cluster=execution.executor if is_on_cluster(execution.executor) else "",
        workers=execution.workers,
        root=str(store.root.absolute()),
        device=model.spec.device,
        model=model.spec,
    )
    scores = LENSES.load(lens.source).score(scoring)
    tables = {_ANSWERED: scoring.answers, _HANDED: scoring.stage_result}
    return scores, {name: held for name, held in tables.items() if held}


def _filter_ids(ids: Sequence[str]) -> pl.Expr:
    return pl.col("item_id").is_in(pl.Series(ids, dtype=pl.String).implode())


def _scan_parts(store: PartStore, parts: Sequence[Part]) -> pl.LazyFrame:
    # Full paths, since another process may read them.
    return scan_files([store.path(part.relative).absolute() for part in parts])
