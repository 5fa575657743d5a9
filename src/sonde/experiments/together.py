"""Two sides of a comparison scored together: one lens over what both of them read, and nothing else.

Nothing is forwarded: the lens scores the observations that the runs hold once more, each side beside the
other, on the items and examples that both have, so that a difference is never one of the items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from sonde.base.fingerprint import fingerprint
from sonde.experiments.moved import moved
from sonde.experiments.plan import group_prefix
from sonde.experiments.sides import RunModel
from sonde.experiments.tables import SCORED_ITEMS, scan_inputs
from sonde.lenses import LENSES, Lens, LensSettings, Scoring
from sonde.models import frequencies
from sonde.results.pairing import Unpaired
from sonde.results.scores import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """What two sides have in common of one lens, corpus and language.

    Attributes:
        lens: Public name of the lens.
        corpus: Name of the corpus.
        language: Public name.
        shared: Items that both models read.
        base: Items that the model read that is held against.
        model: Items that the other read.
    """

    lens: str
    corpus: str
    language: str
    shared: int
    base: int
    model: int


class Together:
    """One lens over one corpus and language, on what two sides share.

    Args:
        base: The side that is held against.
        side: The other.
        lens: Public name of the lens.
        group: What ``run.json`` of the base says of the corpus.
        other: What that of the other says.
    """

    def __init__(
        self, base: RunModel, side: RunModel, lens: str, group: Mapping[str, Any], other: Mapping[str, Any]
    ) -> None:
        self.lens, self.refused, self._group = lens, list[Unpaired](), group
        self._sides = (base, side)
        self._prefixes = [group_prefix(one["name"], one["language"]) for one in (group, other)]
        self._corpora = [str(one["name"]) for one in (group, other)]

    @cached_property
    def _observed(self) -> list[pl.LazyFrame]:
        held = zip(self._sides, self._prefixes, strict=True)
        found = [side.observations(self.lens, prefix) for side, prefix in held]
        return [self._by_original(at, one) for at, one in enumerate(found) if one is not None]

    @property
    def changed(self) -> bool:
        """Whether the sides read the same programs in other words."""
        return len({side.transform for side in self._sides}) > 1

    @cached_property
    def _originals(self) -> list[Mapping[str, str]]:
        """By side, from the id of a changed item to that of the item that it was."""
        found: list[Mapping[str, str]] = []
        for side, corpus in zip(self._sides, self._corpora, strict=True):
            inputs = scan_inputs(side.run, corpus, str(self._group["language"]))
            if side.transform == "none":
                found.append({})
                continue
            held = inputs.filter(pl.col("original") != "").select("item_id", "original").collect()
            found.append(dict(held.iter_rows()))
        return found

    def _by_original(self, at: int, frame: pl.LazyFrame) -> pl.LazyFrame:
        """A table of a side under the ids of the items as they stand in their files."""
        names = self._originals[at]
        if not names:
            return frame
        return frame.with_columns(pl.col("item_id").replace(list(names), list(names.values())))

    @cached_property
    def _read(self) -> list[pl.Series]:
        return [one.select(pl.col("item_id").unique()).collect()["item_id"] for one in self._observed]

    @cached_property
    def items(self) -> pl.Series:
        """Ids of what both models read; none where one read nothing."""
        if len(self._observed) < len(self._sides):
            return pl.Series("item_id", [], pl.String)
        first, second = self._read
        return first.filter(first.is_in(second.implode())).sort()

    @cached_property
    def _read_by_one(self) -> pl.Series:
        """Ids of what one of the models read and the other did not."""
        every = pl.concat(self._read).unique()
        return every.filter(~every.is_in(self.items.implode()))

    @property
    def covered(self) -> Covered:
        """How much of either side that is."""
        return Covered(
            lens=self.lens,
            corpus=self._corpora[0],
            language=str(self._group["language"]),
            shared=len(self.items),
            base=len(self._read[0]),
            model=len(self._read[1]),
        )

    @cached_property
    def same_tokens(self) -> bool:
        """Whether both read the items in the same subwords, as far as the lens says where these lie."""
        place = ["item_id", "position", "start", "end"]
        tables = [self._shared(one) for one in self._observed]
        if not all({*place, "subword_id"} <= set(one.collect_schema().names()) for one in tables):
            return True
        first, second = (one.select(place).sort(place).collect() for one in tables)
        return first.equals(second)

    def scores(self) -> tuple[list[Score], list[Score]]:
        """The scores of both sides, each beside the other, on what they share."""
        observations = [self._shared(one) for one in self._observed]
        settings = self._settings()
        labels = self._labels()
        first, second = (
            self._scored(at, observations, labels[at], settings) for at in range(len(self._sides))
        )
        return first, second

    def moved(self) -> pl.DataFrame | None:
        """The places and items that moved most, where the lens says how likely they are."""
        if self.changed:
            return None
        base, side = self._sides
        inputs = self._shared(scan_inputs(base.run, self._corpora[0], str(self._group["language"])))
        found = moved([self._shared(one) for one in self._observed], inputs)
        if found is None:
            return None
        return found.select(
            pl.lit(base.label).alias("base"),
            pl.lit(side.label).alias("model"),
            pl.lit(self.lens).alias("lens"),
            pl.all(),
        )

    def _scored(
        self,
        at: int,
        observations: Sequence[pl.LazyFrame],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
    ) -> list[Score]:
        side, lens = self._sides[at], self._lens
        read = scan_inputs(side.run, self._corpora[at], str(self._group["language"]))
        inputs = self._shared(self._by_original(at, read))
        template = Score(
            model=side.label,
            revision=str(side.model.get("revision") or ""),
            lens=self.lens,
            language=str(self._group["language"]),
            corpus_hash=str(self._group["hash"]),
            item_set=fingerprint("item set", self.items.to_list()),
            metric="",
            value=float("nan"),
            n=0,
            n_clusters=0,
            seed=settings.seed,
            mode=settings.mode,
        )
        return lens.score(
            Scoring(
                observations=observations[at],
                items=inputs.select(SCORED_ITEMS).with_columns(seen=pl.lit(value=False)).collect(),
                template=template,
                settings=settings,
                labels=labels,
                texts=inputs.select("item_id", "text"),
                frequencies=frequencies(side.name),
                # Places in texts that differ say nothing of each other.
                beside=()
                if self.changed
                else tuple(one for place, one in enumerate(observations) if place != at),
            )
        )

    @cached_property
    def _lens(self) -> Lens:
        held = self._sides[0].lens(self.lens)
        assert held is not None
        return LENSES.load(str(held["source"]))

    def _settings(self) -> LensSettings:
        """The settings of both, without what qualifies numbers that are not compared."""
        held = self._sides[0].lens(self.lens)
        assert held is not None
        return LensSettings(
            mode=held["mode"],
            quirks=frozenset(held["quirks"]),
            options={**dict(held["options"]), **self._lens.compared_with},
            seed=held["seed"],
        )

    def _labels(self) -> tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame]]:
        """The labels of the shared items by side and task.

        A task of which the sides say otherwise is refused; of texts in other words each side has its own.
        """
        found: tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame]] = ({}, {})
        for task in self._lens_tasks():
            tables = [
                side.labels(task, prefix, self.lens)
                for side, prefix in zip(self._sides, self._prefixes, strict=True)
            ]
            first, second = (
                None if one is None else self._by_original(at, one.lazy()).collect()
                for at, one in enumerate(tables)
            )
            if first is None or second is None:
                self._refuse(task, "only one of the runs has labels of this task")
                continue
            key = next((name for name in ("example_id", "query_id") if name in first.columns), None)
            if key is None:
                first, second = (self._shared(one.lazy()).collect() for one in (first, second))
                if not self.changed and not _alike(first, second):
                    self._refuse(task, "the labels of the same items differ")
                    continue
            else:
                # What is read for an example may have other ids: a statement has one with each candidate.
                first = first.filter(~pl.col("item_id").is_in(self._read_by_one.implode()))
                first = first.join(second.select(key), on=key, how="semi", maintain_order="left")
                second = first.select(key).join(second, on=key, how="inner", maintain_order="left")
                if first.is_empty():
                    self._refuse(task, "the data sets have no example in common")
                    continue
            found[0][task] = first
            found[1][task] = second if self.changed else first
        return found

    def _lens_tasks(self) -> list[str]:
        ours, theirs = (side.lens(self.lens) or {} for side in self._sides)
        return [task for task in ours.get("tasks") or () if task in (theirs.get("tasks") or ())]

    def _refuse(self, task: str, reason: str) -> None:
        self.refused.append(Unpaired(self.lens, reason, 1, task))

    def _shared(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.filter(pl.col("item_id").is_in(self.items.implode()))


def _alike(first: pl.DataFrame, second: pl.DataFrame) -> bool:
    if first.columns != second.columns or first.height != second.height:
        return False
    order = [name for name, kind in first.schema.items() if not kind.is_nested()]
    return first.sort(order).equals(second.sort(order))
