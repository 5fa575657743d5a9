"""From observations to ``scores.parquet``: each lens scores each model on each corpus and language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.experiments._progress import Advance
from sonde.experiments.plan import Group, LensChoice, ModelChoice, ObserveJob, Part, settings_of
from sonde.lenses import LENSES, Scoring
from sonde.models import frequencies
from sonde.stats.scores import Score, scores_frame
from sonde.store.parts import PartStore
from sonde.store.rundir import RunDirectory

_NAME = "scores.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """One model, lens and group, with the parts that answer it."""

    model: ModelChoice
    lens: LensChoice
    group: Group
    parts: tuple[Part, ...]

    @property
    def key(self) -> str:
        return fingerprint("score", self.lens, [part.key for part in self.parts])


def score_all(
    store: PartStore,
    jobs: Sequence[ObserveJob],
    groups: Sequence[Group],
    models: Sequence[ModelChoice],
    lenses: Sequence[LensChoice],
    advance: Advance,
) -> str:
    """Score everything that was observed, unless the table is there already.

    Returns:
        The key of the table; it changes when any score can.
    """
    questions = list(_questions(jobs, groups, models, lenses))
    key = fingerprint("scores", [question.key for question in questions])
    if store.notes(_NAME, key) is None:
        scores: list[Score] = []
        for question in questions:
            scores += _answer(store, question)
            advance()
        store.put(_NAME, key, scores_frame(scores), {})
    return key


def _questions(
    jobs: Sequence[ObserveJob],
    groups: Sequence[Group],
    models: Sequence[ModelChoice],
    lenses: Sequence[LensChoice],
) -> Iterator[_Question]:
    for model in models:
        for lens in lenses:
            for group in groups:
                parts = tuple(
                    part
                    for job in jobs
                    if job.model == model.spec
                    and job.corpus == group.corpus
                    and job.language == group.language
                    for part in job.parts
                    if part.lens == lens
                )
                if parts:
                    yield _Question(model=model, lens=lens, group=group, parts=parts)


def _answer(store: PartStore, question: _Question) -> list[Score]:
    model, lens, group = question.model, question.lens, question.group
    scored = [item.item_id for item in group.items if item.item_id not in model.seen]
    items = _items(store.root, group, model)
    template = Score(
        model=model.name,
        revision=model.revision,
        lens=lens.name,
        language=group.language,
        corpus_hash=group.corpus_hash,
        item_set=fingerprint("item set", sorted(scored)),
        metric="",
        value=float("nan"),
        n=0,
        n_clusters=0,
        seed=lens.seed,
        mode=lens.mode,
        fingerprint=question.key,
    )
    scoring = Scoring(
        observations=pl.scan_parquet([store.path(part.relative) for part in question.parts]),
        items=items,
        template=template,
        settings=settings_of(lens),
        frequencies=frequencies(model.spec.name),
    )
    return LENSES.load(lens.name).score(scoring)


def _items(root: Path, group: Group, model: ModelChoice) -> pl.DataFrame:
    left_out = ("corpus", "identifier", "offset", "context", "docstring", "text", "tags", "given")
    table = pl.scan_parquet(RunDirectory(root).items)
    mine = table.filter((pl.col("corpus") == group.corpus) & (pl.col("language") == group.language))
    seen = pl.col("item_id").is_in(list(model.seen)).alias("seen")
    return mine.drop(left_out).with_columns(seen).collect()
