"""The observation job: keys in, tables out. Runs in this process or in any other with the run's folder."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from sonde.alignment import align, encode, surfaces
from sonde.capture.forward import Observed as ObservedItem
from sonde.capture.forward import observe_lenses
from sonde.capture.requests import Pass, Prepared
from sonde.corpora import Item
from sonde.experiments.labels import label_path
from sonde.experiments.plan import LensChoice, ObserveJob, group_prefix, settings_of
from sonde.experiments.tables import items_from
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES
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
    loaded = _model(spec)
    # A model may score more ids than its tokenizer holds: vocabularies are padded to round numbers.
    return surfaces(loaded.tokenizer, loaded.capabilities.vocab)


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
    prepared = prepare(loaded, _items(job), job.language)
    labels = _labels(job)
    frames: dict[str, list[pl.DataFrame]] = {part.lens.name: [] for part in missing}
    forwards: Counter[str] = Counter()
    for seen in _observed(loaded, prepared, [part.lens for part in missing]):
        forwards.update(run=seen.inputs, shared=seen.shared)
        mine = {task: table[seen.prepared.item.item_id] for task, table in labels.items()}
        for part in missing:
            lens = LENSES.load(part.lens.name)
            captures = seen.captures[part.lens.name]
            settings = settings_of(part.lens)
            frames[lens.name].append(
                lens.observe(seen.prepared, captures, mine, settings, _vocabulary(job.model))
            )
    notes = {"coverage": _coverage(prepared), "forwards": dict(forwards)}
    for part in missing:
        store.put(part.relative, part.key, pl.concat(frames[part.lens.name]), notes)
    return Observed(items=len(prepared), computed=True, damaged=tuple(store.damaged))


def _observed(
    loaded: LoadedModel, prepared: Sequence[Prepared], lenses: Sequence[LensChoice]
) -> Iterator[ObservedItem]:
    """One forward a distinct input for all passes of all lenses."""
    items = [one.item for one in prepared]
    return observe_lenses(loaded, prepared, {lens.name: _passes(lens, items) for lens in lenses})


def _passes(choice: LensChoice, items: Sequence[Item]) -> list[Pass]:
    lens, settings = LENSES.load(choice.name), settings_of(choice)
    passes: list[Pass] = []
    for number in itertools.count():
        more = lens.passes(items, number, settings)
        if more is None:
            return passes
        passes += more
    raise AssertionError("unreachable")


def _coverage(prepared: Sequence[Prepared]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in prepared:
        counts.update(dataclasses.asdict(one.alignment.coverage))
    return dict(counts)


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


def prepare(loaded: LoadedModel, items: Sequence[Item], language_name: str) -> list[Prepared]:
    """Parse, tokenize and align items for a model."""
    language = LANGUAGES.load(language_name)
    prepared: list[Prepared] = []
    for item in items:
        tree = language.parse(item.text)
        tokens = language.tokens(tree)
        alignment = align(encode(loaded.tokenizer, item.text), tree, tokens, item=item.path)
        prepared.append(Prepared(item, tree, tokens, alignment))
    return prepared
