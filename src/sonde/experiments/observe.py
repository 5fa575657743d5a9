"""The observation job: keys in, tables out. Runs in this process or in any other with the run's folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sonde.alignment.align import align
from sonde.alignment.subwords import encode, surfaces
from sonde.capture.forward import observe as observe_items
from sonde.capture.requests import ItemCapture, Pass, Prepared
from sonde.corpora import Item
from sonde.experiments.labels import label_path
from sonde.experiments.plan import LensChoice, ObserveJob, Part, group_prefix
from sonde.experiments.tables import items_from
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES, LensSettings
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.store.parts import PartStore
from sonde.store.rundir import RunDirectory

Labels = Mapping[str, Mapping[str, pl.DataFrame]]
"""Label tables by task and item id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a job reports back; small and plain.

    Attributes:
        items: Items observed.
        computed: Whether a forward pass was needed.
        damaged: Parts that were found damaged.
    """

    items: int
    computed: bool
    damaged: tuple[str, ...] = ()


@functools.lru_cache(maxsize=1)
def _model(spec: ModelSpec) -> LoadedModel:
    return load_model(spec)


@functools.lru_cache(maxsize=1)
def _vocabulary(spec: ModelSpec) -> tuple[str, ...]:
    return surfaces(_model(spec).tokenizer)


def observe_job(job: ObserveJob) -> Observed:
    """Observe a job's items and write one table a lens.

    Raises:
        SondeError: The model cannot be loaded or gave something that must not be scored.
        StoreError: A table could not be written.
    """
    store = PartStore(Path(job.root))
    missing = [part for part in job.parts if store.notes(part.relative, part.key) is None]
    if not missing:
        return Observed(items=len(job.item_ids), computed=False)
    loaded = _model(job.model)
    prepared = _prepare(loaded, _items(job), job.language)
    labels = _labels(job)
    captures, counts = _captures(loaded, prepared, [part.lens for part in missing])
    coverage = _coverage(prepared)
    for part in missing:
        frame = _frame(part, prepared, captures[part.lens.name], labels, _vocabulary(job.model))
        store.put(part.relative, part.key, frame, {"coverage": coverage, "forwards": counts})
    return Observed(items=len(prepared), computed=True, damaged=tuple(store.damaged))


def _items(job: ObserveJob) -> list[Item]:
    table = pl.scan_parquet(RunDirectory(Path(job.root)).items)
    wanted = pl.DataFrame({"item_id": job.item_ids, "order": range(len(job.item_ids))})
    chosen = table.filter(pl.col("corpus") == job.corpus).join(wanted.lazy(), on="item_id").sort("order")
    return items_from(chosen.collect())


def _labels(job: ObserveJob) -> Labels:
    prefix = group_prefix(job.corpus, job.language)
    names = {task for part in job.parts for task in part.lens.tasks}
    found: dict[str, dict[str, pl.DataFrame]] = {}
    for name in sorted(names):
        table = pl.scan_parquet(Path(job.root) / label_path(name, prefix))
        mine = table.filter(pl.col("item_id").is_in(list(job.item_ids))).collect()
        empty = mine.clear().drop("item_id")
        by_item = mine.partition_by("item_id", as_dict=True, include_key=False)
        found[name] = {item: by_item.get((item,), empty) for item in job.item_ids}
    return found


def _prepare(loaded: LoadedModel, items: Sequence[Item], language_name: str) -> list[Prepared]:
    language = LANGUAGES.load(language_name)
    prepared: list[Prepared] = []
    for item in items:
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        alignment = align(encode(loaded.tokenizer, item.text), tree, tokens)
        prepared.append(Prepared(item, tree, tokens, alignment))
    return prepared
