"""Comparison of finished runs: both models are scored together, on the items that both read.

No model is run: the lenses score the stored observations again, on the items and examples that both runs
have, so that a difference is never one of the items.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl

from sonde.base.errors import InputError
from sonde.base.fingerprint import fingerprint
from sonde.base.progress import Progress, Silent
from sonde.comparison.differences import Difference, adjusted, compared, differences_frame
from sonde.comparison.run_models import RunModel, checkpoints, sides_of
from sonde.comparison.summary import series_frame
from sonde.lenses import LENSES, Lens, LensSettings, Scoring
from sonde.lenses.engine.item_tables import SCORED_ITEMS, scan_inputs
from sonde.models import frequencies
from sonde.results.headlines import findings
from sonde.results.pairing import Compared, Direction, Unpaired, paired
from sonde.results.schema import REASON, Columns, schema_of
from sonde.results.scores import LEFT_OUT, SCHEMA_VERSION, Score, read_scores, scores_frame
from sonde.stats.verdict import check_sizes
from sonde.store.checksums import verify, write_with_receipt
from sonde.store.run_folder import group_prefix, slug

MOVED_COLUMNS: Columns = {
    "base": (pl.String, "the model that is held against"),
    "model": (pl.String, "the other model"),
    "lens": (pl.String, "what measured it"),
    "of": (pl.String, "`place` (a subword, an answer) or `item` (the mean over its places)"),
    "item_id": (pl.String, "the item"),
    "path": (pl.String, "path of its file inside the corpus"),
    "name": (pl.String, "its qualified name"),
    "start": (pl.Int32, "first character of the place, in the item; null for an item or an answer"),
    "end": (pl.Int32, "end of its characters, exclusive; null likewise"),
    "text": (pl.String, "the place, or the beginning of the item"),
    "before": (pl.String, "what stands before it"),
    "after": (pl.String, "what stands behind it"),
    "n": (pl.Int64, "places that the value is a mean over"),
    "base_bits": (pl.Float64, "negative log-probability under the base, in bits"),
    "bits": (pl.Float64, "the same under the model"),
    "difference": (pl.Float64, "`bits` minus `base_bits`: above 0 the model is less sure"),
}
"""Columns of ``moved.parquet``, one row a place or item, those that moved most in either direction."""


KEPT = 50
"""Places, and items, that are kept in either direction."""


_AROUND = 48


_BITS = 1.4426950408889634


_FEWEST = 10
"""Places that an item needs for its mean to be looked at."""


def moved(tables: Sequence[pl.LazyFrame], items: pl.LazyFrame) -> pl.DataFrame | None:
    """Find the largest changes between two item tables over the same items.

    Args:
        tables: Table of the base model, and table of the other.
        items: ``item_id, path, name, text``.

    Returns:
        Rows of `CHANGED_ITEM_COLUMNS` without ``base``, ``model`` and ``lens``; None where the tables hold no
        negative log-probabilities by place.
    """
    columns = [set(table.collect_schema().names()) for table in tables]
    key = next((one for one in ("position", "query_id") if all(one in held for held in columns)), None)
    if key is None or not all("nats" in held for held in columns):
        return None
    place = [name for name in ("start", "end") if key == "position"]
    first, second = (
        table.filter(pl.col(key).is_not_null()).select(
            "item_id", key, *place, bits=pl.col("nats").cast(pl.Float64) * _BITS
        )
        for table in tables
    )
    on = ["item_id", key, *place]
    joined = first.rename({"bits": "base_bits"}).join(second, on=on, how="inner")
    apart = joined.with_columns(difference=pl.col("bits") - pl.col("base_bits"))
    named = items.select("item_id", "path", "name", pl.col("text").alias("_text")).unique("item_id")
    by_item = apart.group_by("item_id").agg(
        pl.len().alias("n"), pl.col("base_bits", "bits", "difference").mean()
    )
    parts = [
        _ends(apart.with_columns(n=pl.lit(1, pl.Int64)), "place"),
        _ends(by_item.filter(pl.col("n") >= _FEWEST), "item"),
    ]
    found = pl.concat(parts, how="diagonal_relaxed").lazy().join(named, on="item_id", how="left")
    order = {"item": 1, "place": 0}
    wanted = [name for name in MOVED_COLUMNS if name not in ("base", "model", "lens")]
    schema = schema_of(MOVED_COLUMNS)
    lacking = [pl.lit(None).alias(name) for name in ("start", "end") if not place]
    return (
        found.with_columns(*lacking)
        .with_columns(*_context_columns())
        .sort(pl.col("of").replace_strict(order), "difference", "item_id", descending=[False, True, False])
        .select(pl.col(name).cast(schema[name]) for name in wanted)
        .collect()
    )


def _ends(rows: pl.LazyFrame, of: str) -> pl.DataFrame:
    """Select the rows with the largest changes in either direction."""
    ends = [rows.bottom_k(KEPT, by="difference"), rows.top_k(KEPT, by="difference")]
    found = pl.concat([end.collect(engine="streaming") for end in ends]).unique()
    return found.with_columns(of=pl.lit(of))


def _context_columns() -> list[pl.Expr]:
    """Return the text of a position with its context; of an item or queried statement, the beginning."""
    text, start, end = pl.col("_text").fill_null(""), pl.col("start"), pl.col("end")
    whole = start.is_null()
    before = (start - _AROUND).clip(0)
    return [
        pl.when(whole)
        .then(text.str.slice(0, 2 * _AROUND))
        .otherwise(text.str.slice(start, end - start))
        .alias("text"),
        pl.when(whole).then(pl.lit("")).otherwise(text.str.slice(before, start - before)).alias("before"),
        pl.when(whole).then(pl.lit("")).otherwise(text.str.slice(end, _AROUND)).alias("after"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """Items that two runs share for one lens, corpus and language.

    Attributes:
        lens: Public name of the lens.
        corpus: Name of the corpus.
        language: Public name.
        shared: Number of items that both models read.
        base: Number of items that the base model read.
        model: Number of items that the other model read.
    """

    lens: str
    corpus: str
    language: str
    shared: int
    base: int
    model: int


class Together:
    """Scorer of one lens over the items of one corpus and language that two runs share.

    Args:
        base: The base model.
        side: The other model.
        lens: Public name of the lens.
        base_group: Entry of the corpus in ``run.json`` of the base.
        other_group: Entry of the corpus in ``run.json`` of the other.
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
        """Return whether the runs read the same programs with different transformations."""
        return len({side.transform for side in self._sides}) > 1

    @cached_property
    def _originals(self) -> list[Mapping[str, str]]:
        """Map ids of transformed items to those of the original items, by run."""
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
        """Replace the ids of transformed items by those of the original items."""
        names = self._originals[at]
        if not names:
            return frame
        return frame.with_columns(pl.col("item_id").replace(list(names), list(names.values())))

    @cached_property
    def _read(self) -> list[pl.Series]:
        return [one.select(pl.col("item_id").unique()).collect()["item_id"] for one in self._observed]

    @cached_property
    def items(self) -> pl.Series:
        """Return the ids of the items that both models read; empty if one read nothing."""
        if len(self._observed) < len(self._sides):
            return pl.Series("item_id", [], pl.String)
        first, second = self._read
        return first.filter(first.is_in(second.implode())).sort()

    @cached_property
    def _read_by_one(self) -> pl.Series:
        """Return the ids of the items that only one model read."""
        every = pl.concat(self._read).unique()
        return every.filter(~every.is_in(self.items.implode()))

    @property
    def covered(self) -> Covered:
        """Return how many items each model read, and how many they share."""
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
        """Return whether both read the items with the same subwords, as far as their offsets are recorded."""
        place = ["item_id", "position", "start", "end"]
        tables = [self._shared(one) for one in self._observed]
        if not all({*place, "subword_id"} <= set(one.collect_schema().names()) for one in tables):
            return True
        first, second = (one.select(place).sort(place).collect() for one in tables)
        return first.equals(second)

    def scores(self) -> tuple[list[Score], list[Score]]:
        """Score both models, with each other's observations, on the shared items."""
        observations = [self._shared(one) for one in self._observed]
        settings = self._settings()
        labels = self._labels()
        first, second = (
            self._scored(at, observations, labels[at], settings) for at in range(len(self._sides))
        )
        return first, second

    def moved(self) -> pl.DataFrame | None:
        """Find the positions and items that changed most, if the lens records their likelihood."""
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
        """Return the common settings, without options that only qualify numbers that are not compared."""
        held = self._sides[0].lens(self.lens)
        assert held is not None
        return LensSettings(
            mode=held["mode"],
            quirks=frozenset(held["quirks"]),
            options={**dict(held["options"]), **self._lens.compared_with},
            seed=held["seed"],
        )

    def _labels(self) -> tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame]]:
        """Return the labels of the shared items by run and task.

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


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Comparison of a model with a base.

    Attributes:
        base: The base model.
        side: The other model.
        differences: Every pair of scores that could be compared, tested together.
        unpaired: Scores that could not be compared, by lens and reason.
        covered: Items that both runs share.
        changed_items: Largest changes, one table for each lens that records them.
    """

    base: RunModel
    side: RunModel
    differences: Sequence[Difference] = ()
    unpaired: list[Unpaired] = field(default_factory=list[Unpaired])
    covered: list[Covered] = field(default_factory=list[Covered])
    moved: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])


def compare(
    directories: Sequence[Path],
    progress: Progress | None = None,
    *,
    series: str = "",
    least: Mapping[str, float] = MappingProxyType({}),
) -> list[Comparison]:
    """Compare the models of one run with its first, or those of further runs with the first run's.

    Args:
        directories: Folders of finished runs.
        progress: Receives the progress.
        series: For checkpoints of one training, the regular expression whose group is the step in the names
            of models or runs: the last is compared with the first.
        least: Smallest difference that matters, by metric and in its unit; the default is in
            `sonde.stats.verdict`.

    Returns:
        One comparison a pair of models; p-values are adjusted over all of them together.

    Raises:
        InputError: A folder holds no run, or two have nothing in common.
        UsageError: There is one model only, or a size is given of a metric that is not compared.
    """
    if series:
        (_, first), *_, (_, last) = checkpoints(directories, series)
        sides = [(first, last)]
    else:
        sides = sides_of(directories)
    teller = progress or Silent()
    found: list[Comparison] = []
    with teller.stage("comparing", len(sides)) as advance:
        for base, side in sides:
            found.append(_compared(base, side, least))
            advance()
    metrics = {one.score.metric: one for comparison in found for one in comparison.differences}
    check_sizes(least, metrics)
    together = iter(adjusted([one for comparison in found for one in comparison.differences]))
    for comparison in found:
        comparison.differences = [next(together) for _ in comparison.differences]
    return found


def _compared(base: RunModel, side: RunModel, least: Mapping[str, float]) -> Comparison:
    """Score two models together and test every difference."""
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
            together = Together(base, side, name, *groups)
            if together.items.is_empty():
                continue
            found.covered.append(together.covered)
            bases, scores = together.scores()
            found.unpaired += together.refused
            if not (bases or scores or together.refused):
                reason = "its numbers are not made from what the runs hold alone; see each run's own page"
                found.unpaired.append(Unpaired(name, reason, 1, name))
                continue
            wanted = LENSES.load(str(ours["source"])).compared or _speaking(bases)
            held = paired(bases, scores, wanted, same_tokens=together.same_tokens, changed=together.changed)
            pairs += held.pairs
            if together.same_tokens and (most := together.moved()) is not None:
                found.moved.append(most)
            found.unpaired += held.unpaired
            found.unpaired += [_not_scored(one) for one in (*bases, *scores) if one.metric == LEFT_OUT]
    if not found.covered and not found.unpaired:
        raise InputError(f"{base.run.root} and {side.run.root} have no lens over the same items in common")
    found.differences = compared(pairs, least)
    return found


def _speaking(scores: Sequence[Score]) -> tuple[Compared, ...]:
    """Return the headline metric, for a lens that declares no metrics to compare."""
    found = findings(scores_frame(scores))
    return tuple(Compared(metric=metric) for metric in dict.fromkeys(one.row["metric"] for one in found))


def _not_scored(score: Score) -> Unpaired:
    about = " ".join(filter(None, (score.task, score.control)))
    return Unpaired(score.lens, f"not scored: {dict(score.dimensions).get(REASON, '')}", 1, about)


def _apart_in(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Return the first difference between two settings of a lens, in words; empty without any."""
    for name in ("version", "mode", "quirks", "seed", "capture"):
        if (one := ours.get(name)) != (two := theirs.get(name)):
            return f"{name} differs: {_format_setting(one)} against {_format_setting(two)}"
    first, second = dict(ours.get("options") or ()), dict(theirs.get("options") or ())
    for name in sorted({*first, *second}):
        if first.get(name) != second.get(name):
            return (
                f"option {name} differs: {_format_setting(first.get(name))} "
                f"against {_format_setting(second.get(name))}"
            )
    return ""


def _format_setting(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_setting(one)}" for name, one in value.items())
    return (
        ", ".join(map(str, value)) if isinstance(value, list) else "default" if value is None else str(value)
    )


def _groups(base: RunModel, side: RunModel) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Pair the corpora of two runs in one language: by name, else the only ones in that language."""
    ours, theirs = (list(one.summary.get("corpus") or ()) for one in (base, side))
    for group in ours:
        there = [one for one in theirs if one["language"] == group["language"]]
        same = [one for one in there if one["name"] == group["name"]]
        alone = len([one for one in ours if one["language"] == group["language"]]) == len(there) == 1
        for other in same or (there if alone else []):
            yield group, other


def write_series(
    directories: Sequence[Path],
    pattern: str,
    output: Path,
    *,
    least: Mapping[str, float] = MappingProxyType({}),
) -> Path:
    """Write ``series.parquet``: the compared metrics of every checkpoint, with their best controls.

    Raises:
        InputError: A folder holds no run, or one without scores.
        UsageError: See `load_checkpoints`.
        StoreError: The file cannot be written.
    """
    found = checkpoints(directories, pattern)
    wanted = {
        str(one["name"]): LENSES.load(str(one["source"])).compared
        for _, side in found
        for one in side.summary.get("lenses") or ()
    }
    scores = [
        (step, read_scores(side.run.scores).filter(pl.col("model") == side.name))
        for step, side in found
        if side.run.holds(side.run.scores)
    ]
    if len(scores) < len(found):
        raise InputError("a run of the series has no scores; run it again with the same arguments")
    buffer = io.BytesIO()
    series_frame(scores, wanted, least).write_parquet(buffer, compression="zstd", statistics=False)
    write_with_receipt(output, "series.parquet", buffer.getvalue())
    return output


def compared_before(folder: Path) -> str:
    """Load the key of the scores that the comparison in a folder is based on; empty if it is incomplete."""
    try:
        if verify(folder).damaged:
            return ""
        return str(json.loads((folder / "comparison.json").read_text(encoding="utf-8"))["of"])
    except (OSError, ValueError, KeyError, InputError):
        return ""


def write_comparison(found: Sequence[Comparison], output: Path, *, of: str = "") -> Path:
    """Write ``comparison.parquet``, ``moved.parquet`` and ``comparison.json``; create the folder if needed.

    Args:
        comparisons: The comparisons.
        output: The folder.
        scores_key: Key of the scores of the run whose models are compared.

    Raises:
        StoreError: A file cannot be written.
    """
    buffer = io.BytesIO()
    every = [one for comparison in found for one in comparison.differences]
    differences_frame(every).write_parquet(buffer, compression="zstd", statistics=False)
    write_with_receipt(output, "comparison.parquet", buffer.getvalue())
    tables = [table for comparison in found for table in comparison.moved]
    buffer = io.BytesIO()
    pl.concat([pl.DataFrame(schema=schema_of(MOVED_COLUMNS)), *tables]).write_parquet(buffer)
    write_with_receipt(output, "moved.parquet", buffer.getvalue())
    about = [
        {
            "base": comparison.base.facts(),
            "model": comparison.side.facts(),
            "covered": [dataclasses.asdict(one) for one in comparison.covered],
            "unpaired": [dataclasses.asdict(one) for one in comparison.unpaired],
        }
        for comparison in found
    ]
    content = {"schema_version": SCHEMA_VERSION, "of": of, "comparisons": about}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_with_receipt(output, "comparison.json", text)
    return output


def default_output(directories: Sequence[Path]) -> Path:
    """Return the default folder of a comparison: inside the one run, else next to the first."""
    if len(directories) == 1:
        return directories[0] / "comparison"
    names = "-".join(slug(directory.resolve().name) for directory in directories)
    return directories[0].parent / slug(f"compare-{names}")
