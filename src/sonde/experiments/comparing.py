"""From finished runs to a paired comparison: two sides are scored together, on what both of them read.

Nothing is forwarded: the lenses score the observations that the runs hold once more, each side beside the
other, on the items and examples that both have, so that a difference is never one of the items.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.base.files import write_atomic
from sonde.base.fingerprint import fingerprint
from sonde.experiments._progress import Progress, Silent
from sonde.experiments.plan import group_prefix
from sonde.experiments.sides import RunModel, sides_of
from sonde.experiments.tables import SCORED_ITEMS, scan_inputs
from sonde.lenses import LENSES, Lens, LensSettings, Scoring
from sonde.models import frequencies
from sonde.results.comparison import Difference, adjusted, compared
from sonde.results.differences import differences_frame
from sonde.results.dimensions import REASON
from sonde.results.pairing import Direction, Unpaired, paired
from sonde.results.scores import LEFT_OUT, SCHEMA_VERSION, Score
from sonde.store.rundir import slug


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


@dataclass(slots=True, kw_only=True)
class Comparison:
    """A model held against another.

    Attributes:
        base: The side that is held against.
        side: The other.
        differences: Every pair of scores that could be compared, tested together.
        unpaired: Scores that could not, by lens and reason.
        covered: What both sides have in common.
    """

    base: RunModel
    side: RunModel
    differences: Sequence[Difference] = ()
    unpaired: list[Unpaired] = field(default_factory=list[Unpaired])
    covered: list[Covered] = field(default_factory=list[Covered])


def compare(directories: Sequence[Path], progress: Progress | None = None) -> list[Comparison]:
    """Compare the models of one run with its first, or those of further runs with the first run's.

    Args:
        directories: Folders of finished runs.
        progress: Is told how far it is.

    Returns:
        One comparison a pair of models; p-values are adjusted over all of them together.

    Raises:
        InputError: A folder holds no run, or two have nothing in common.
        UsageError: There is one model only.
    """
    sides = sides_of(directories)
    teller = progress or Silent()
    found: list[Comparison] = []
    with teller.stage("comparing", len(sides)) as advance:
        for base, side in sides:
            found.append(_compared(base, side))
            advance()
    together = iter(adjusted([one for comparison in found for one in comparison.differences]))
    for comparison in found:
        comparison.differences = [next(together) for _ in comparison.differences]
    return found


def _compared(base: RunModel, side: RunModel) -> Comparison:
    """Score two sides together and test every difference."""
    found = Comparison(base=base, side=side)
    pairs: list[tuple[Score, Score, Direction]] = []
    lenses = [str(one["name"]) for one in base.summary.get("lenses") or ()]
    for name in lenses:
        ours, theirs = base.lens(name), side.lens(name)
        if ours is None or theirs is None:
            found.unpaired.append(Unpaired(name, "only one of the runs has this lens", 1, name))
            continue
        if reason := _apart_in(ours, theirs):
            found.unpaired.append(Unpaired(name, reason, 1, name))
            continue
        for groups in _groups(base, side):
            together = _Together(base, side, name, *groups)
            if together.items.is_empty():
                continue
            found.covered.append(together.covered)
            found.unpaired += together.refused
            bases, scores = together.scores()
            lens = LENSES.load(str(ours["source"]))
            held = paired(bases, scores, lens.compared, same_tokens=together.same_tokens)
            pairs += held.pairs
            found.unpaired += held.unpaired
            found.unpaired += [_not_scored(one) for one in (*bases, *scores) if one.metric == LEFT_OUT]
    if not found.covered and not found.unpaired:
        raise InputError(f"{base.run.root} and {side.run.root} have no lens over the same items in common")
    found.differences = compared(pairs)
    return found


def _not_scored(score: Score) -> Unpaired:
    about = " ".join(filter(None, (score.task, score.control)))
    return Unpaired(score.lens, f"not scored: {dict(score.dimensions).get(REASON, '')}", 1, about)


def _apart_in(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """What of a lens's settings differs, in words; empty where its numbers mean the same."""
    for name in ("version", "mode", "quirks", "seed", "capture"):
        if (one := ours.get(name)) != (two := theirs.get(name)):
            return f"{name} differs: {_shown(one)} against {_shown(two)}"
    first, second = dict(ours.get("options") or ()), dict(theirs.get("options") or ())
    for name in sorted({*first, *second}):
        if first.get(name) != second.get(name):
            return f"option {name} differs: {_shown(first.get(name))} against {_shown(second.get(name))}"
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    return (
        ", ".join(map(str, value)) if isinstance(value, list) else "default" if value is None else str(value)
    )


def _groups(base: RunModel, side: RunModel) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Corpora in one language that both runs have: of one name, else the only ones in that language."""
    ours, theirs = (list(one.summary.get("corpus") or ()) for one in (base, side))
    for group in ours:
        there = [one for one in theirs if one["language"] == group["language"]]
        same = [one for one in there if one["name"] == group["name"]]
        alone = len([one for one in ours if one["language"] == group["language"]]) == len(there) == 1
        for other in same or (there if alone else []):
            yield group, other


class _Together:
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
        return [one for one in found if one is not None]

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
        first, second = (self._scored(at, observations, labels, settings) for at in range(len(self._sides)))
        return first, second

    def _scored(
        self,
        at: int,
        observations: Sequence[pl.LazyFrame],
        labels: Mapping[str, pl.DataFrame],
        settings: LensSettings,
    ) -> list[Score]:
        side, lens = self._sides[at], self._lens
        inputs = self._shared(scan_inputs(side.run, self._corpora[at], str(self._group["language"])))
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
                beside=tuple(one for place, one in enumerate(observations) if place != at),
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

    def _labels(self) -> dict[str, pl.DataFrame]:
        """The labels of the shared items by task; a task of which the sides say otherwise is refused."""
        found: dict[str, pl.DataFrame] = {}
        for task in self._lens_tasks():
            tables = [
                side.labels(task, prefix) for side, prefix in zip(self._sides, self._prefixes, strict=True)
            ]
            first, second = (None if one is None else self._shared(one.lazy()).collect() for one in tables)
            if first is None or second is None:
                self._refuse(task, "only one of the runs has labels of this task")
                continue
            key = next((name for name in ("example_id", "query_id") if name in first.columns), None)
            if key is not None:
                first = first.join(second.select(key), on=key, how="semi", maintain_order="left")
                if first.is_empty():
                    self._refuse(task, "the data sets have no example in common")
                    continue
            elif not _alike(first, second):
                self._refuse(task, "the labels of the same items differ")
                continue
            found[task] = first
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


def write_comparison(found: Sequence[Comparison], output: Path) -> Path:
    """Write ``comparison.parquet`` and ``comparison.json`` into a folder, which is made where it is missing.

    Raises:
        StoreError: A file cannot be written.
    """
    buffer = io.BytesIO()
    every = [one for comparison in found for one in comparison.differences]
    differences_frame(every).write_parquet(buffer, compression="zstd", statistics=False)
    write_atomic(output / "comparison.parquet", buffer.getvalue())
    about = [
        {
            "base": comparison.base.facts(),
            "model": comparison.side.facts(),
            "covered": [dataclasses.asdict(one) for one in comparison.covered],
            "unpaired": [dataclasses.asdict(one) for one in comparison.unpaired],
        }
        for comparison in found
    ]
    content = {"schema_version": SCHEMA_VERSION, "comparisons": about}
    write_atomic(output / "comparison.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return output


def default_output(directories: Sequence[Path]) -> Path:
    """Where a comparison is written: into the one run, else beside the first."""
    if len(directories) == 1:
        return directories[0] / "comparison"
    names = "-".join(slug(directory.resolve().name) for directory in directories)
    return directories[0].parent / slug(f"compare-{names}")
