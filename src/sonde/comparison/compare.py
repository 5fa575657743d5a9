"""Comparison of finished runs: paired scores of two models, and the items that changed most.

No model is run: the lenses score the stored observations again, each model next to the other, on the items
and examples that both runs have, so that a difference is never one of the items.

The items and positions with the largest changes in likelihood are found for every lens whose item tables have
a negative log-probability per position (a subword, an answer).
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
from sonde.base.progress import NullProgress, Progress
from sonde.comparison.differences import (
    Difference,
    adjust_differences,
    compute_differences,
    differences_to_frame,
)
from sonde.comparison.run_models import (
    RunModel,
    load_checkpoints,
    load_model_pairs,
    score_observations,
)
from sonde.comparison.summary import build_series
from sonde.lenses import LENSES, Lens
from sonde.lenses.engine.item_tables import scan_inputs
from sonde.results.headlines import find_headlines
from sonde.results.schema import REASON, Columns, to_schema
from sonde.results.score_pairs import (
    ComparableMetric,
    Direction,
    UnmatchedScores,
    merge_unmatched_scores,
    pair_scores,
)
from sonde.results.scores import LEFT_OUT, SCHEMA_VERSION, Score, read_scores, scores_to_frame
from sonde.results.text_format import BITS_PER_NAT
from sonde.results.units import compare_units, read_units, select_changed_places
from sonde.stats.verdict import check_minimum_effects
from sonde.store.checksums import verify_folder, write_with_receipt
from sonde.store.run_folder import group_prefix, slug

CHANGED_ITEM_COLUMNS: Columns = {
    "base": (pl.String, "the base model"),
    "model": (pl.String, "the other model"),
    "lens": (pl.String, "the lens"),
    "of": (
        pl.String,
        "`place` (a subword or code token, an answer) or `item` (the mean over its places)",
    ),
    "item_id": (pl.String, "the item"),
    "path": (pl.String, "path of its file inside the corpus"),
    "name": (pl.String, "its qualified name"),
    "start": (pl.Int32, "first character of the place, in the item; null for an item or an answer"),
    "end": (pl.Int32, "end of its characters, exclusive; null likewise"),
    "text": (pl.String, "the place, or the beginning of the item"),
    "before": (pl.String, "the text before it"),
    "after": (pl.String, "the text after it"),
    "n": (pl.Int64, "places that the value is a mean over"),
    "base_bits": (pl.Float64, "negative log-probability under the base, in bits"),
    "bits": (pl.Float64, "the same under the model"),
    "difference": (pl.Float64, "`bits` minus `base_bits`: above 0 the model is less sure"),
}
"""Columns of ``moved.parquet``: one row per place or item with the largest changes in each direction.

An item has at most `sonde.results.units.PLACES_PER_ITEM` places per direction.
"""


TOP_CHANGES = 50
"""Places, and items, that are kept in either direction."""


_CONTEXT_CHARACTERS = 48


_MIN_POSITIONS = 10
"""Places that an item needs for its mean to be looked at."""


def find_changed_items(
    tables: Sequence[pl.LazyFrame], items: pl.LazyFrame, *, same_tokens: bool = True
) -> pl.DataFrame | None:
    """Find the largest changes between two item tables over the same items.

    Args:
        tables: Table of the base model, and table of the other.
        items: ``item_id, path, name, text``.
        same_tokens: Whether both models read the same subwords; else places are code tokens.

    Returns:
        Rows of `CHANGED_ITEM_COLUMNS` without ``base``, ``model`` and ``lens``; None where the tables hold no
        negative log-probabilities by place.
    """
    key, position_pairs = _pair_positions(tables, same_tokens=same_tokens)
    if position_pairs is None:
        return None
    changes = position_pairs.with_columns(difference=pl.col("bits") - pl.col("base_bits"))
    item_texts = items.select("item_id", "path", "name", pl.col("text").alias("_text")).unique("item_id")
    by_item = changes.group_by("item_id").agg(
        pl.len().alias("n"), pl.col("base_bits", "bits", "difference").mean()
    )
    parts = [
        _select_extremes(select_changed_places(changes, key).with_columns(n=pl.lit(1, pl.Int64)), "place"),
        _select_extremes(by_item.filter(pl.col("n") >= _MIN_POSITIONS), "item"),
    ]
    extremes = pl.concat(parts, how="diagonal_relaxed").lazy().join(item_texts, on="item_id", how="left")
    order = {"item": 1, "place": 0}
    output_columns = [name for name in CHANGED_ITEM_COLUMNS if name not in ("base", "model", "lens")]
    schema = to_schema(CHANGED_ITEM_COLUMNS)
    empty_columns = [pl.lit(None).alias(name) for name in ("start", "end") if key != "position"]
    return (
        extremes.with_columns(*empty_columns)
        .with_columns(*_context_columns())
        .sort(pl.col("of").replace_strict(order), "difference", "item_id", descending=[False, True, False])
        .select(pl.col(name).cast(schema[name]) for name in output_columns)
        .collect()
    )


def _pair_positions(tables: Sequence[pl.LazyFrame], *, same_tokens: bool) -> tuple[str, pl.LazyFrame | None]:
    """Return the key of a place, and the bits of the same places under both models; None without any."""
    columns = [set(table.collect_schema().names()) for table in tables]
    if not same_tokens:
        if not all("units" in names for names in columns):
            return "", None
        base, other = map(read_units, tables)
        return "position", compare_units(base, other).lazy()
    keys = ("position", "query_id")
    key = next((name for name in keys if all(name in names for names in columns)), "")
    if not key or not all("nats" in names for names in columns):
        return "", None
    names = ["item_id", key, *(name for name in ("start", "end") if key == "position")]
    first, second = (
        table.filter(pl.col(key).is_not_null()).select(
            *names, bits=pl.col("nats").cast(pl.Float64) * BITS_PER_NAT
        )
        for table in tables
    )
    return key, first.rename({"bits": "base_bits"}).join(second, on=names, how="inner")


def _select_extremes(rows: pl.LazyFrame, level: str) -> pl.DataFrame:
    """Select the rows with the largest changes in either direction."""
    ends = [rows.bottom_k(TOP_CHANGES, by="difference"), rows.top_k(TOP_CHANGES, by="difference")]
    frame = pl.concat([end.collect(engine="streaming") for end in ends]).unique()
    return frame.with_columns(of=pl.lit(level))


def _context_columns() -> list[pl.Expr]:
    """Return the text of a position with its context; of an item or queried statement, the beginning."""
    text, start, end = pl.col("_text").fill_null(""), pl.col("start"), pl.col("end")
    is_item = start.is_null()
    context_start = (start - _CONTEXT_CHARACTERS).clip(0)
    return [
        pl.when(is_item)
        .then(text.str.slice(0, 2 * _CONTEXT_CHARACTERS))
        .otherwise(text.str.slice(start, end - start))
        .alias("text"),
        pl.when(is_item)
        .then(pl.lit(""))
        .otherwise(text.str.slice(context_start, start - context_start))
        .alias("before"),
        pl.when(is_item).then(pl.lit("")).otherwise(text.str.slice(end, _CONTEXT_CHARACTERS)).alias("after"),
    ]


class PairedScorer:
    """Scorer of one lens over the items of one corpus and language that two runs share.

    Args:
        base: The base model.
        side: The other model.
        settings: Entry of the lens in ``run.json`` of the base.
        base_group: Entry of the corpus in ``run.json`` of the base.
        other_group: Entry of the corpus in ``run.json`` of the other.
    """

    def __init__(
        self,
        base: RunModel,
        side: RunModel,
        settings: Mapping[str, Any],
        base_group: Mapping[str, Any],
        other_group: Mapping[str, Any],
    ) -> None:
        self.name, self.lens, self._entry = (
            str(settings["name"]),
            LENSES.load(str(settings["source"])),
            settings,
        )
        self.refused, self._group = list[UnmatchedScores](), base_group
        self._sides = (base, side)
        self._prefixes = [
            group_prefix(corpus["name"], corpus["language"]) for corpus in (base_group, other_group)
        ]
        self._corpora = [str(corpus["name"]) for corpus in (base_group, other_group)]
        self._shared: dict[str, Any] = {}

    @cached_property
    def _observations(self) -> list[pl.LazyFrame]:
        sides = zip(self._sides, self._prefixes, strict=True)
        tables = [side.observations(self.name, prefix) for side, prefix in sides]
        return [self._by_original(index, table) for index, table in enumerate(tables) if table is not None]

    @property
    def texts_differ(self) -> bool:
        """Return whether the runs read the same programs with different transformations."""
        return len({side.transform for side in self._sides}) > 1

    @cached_property
    def _originals(self) -> list[Mapping[str, str]]:
        """Map ids of transformed items to those of the original items, by run."""
        mappings: list[Mapping[str, str]] = []
        for side, corpus in zip(self._sides, self._corpora, strict=True):
            inputs = scan_inputs(side.run, corpus, str(self._group["language"]))
            if side.transform == "none":
                mappings.append({})
                continue
            originals = inputs.filter(pl.col("original") != "").select("item_id", "original").collect()
            mappings.append(dict(originals.iter_rows()))
        return mappings

    def _by_original(self, index: int, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Replace the ids of transformed items by those of the original items."""
        names = self._originals[index]
        if not names:
            return frame
        return frame.with_columns(pl.col("item_id").replace(list(names), list(names.values())))

    @cached_property
    def _read(self) -> list[pl.Series]:
        return [table.select(pl.col("item_id").unique()).collect()["item_id"] for table in self._observations]

    @cached_property
    def items(self) -> pl.Series:
        """Return the ids of the items that both models read; empty if one read nothing."""
        if len(self._observations) < len(self._sides):
            return pl.Series("item_id", [], pl.String)
        first, second = self._read
        return first.filter(first.is_in(second.implode())).sort()

    @cached_property
    def _exclusive_items(self) -> pl.Series:
        """Return the ids of the items that only one model read."""
        all_items = pl.concat(self._read).unique()
        return all_items.filter(~all_items.is_in(self.items.implode()))

    @property
    def coverage(self) -> dict[str, str | int]:
        """Return how many items each model read, and how many they share."""
        return {
            "lens": self.name,
            "corpus": self._corpora[0],
            "language": str(self._group["language"]),
            "shared": len(self.items),
            "base": len(self._read[0]),
            "model": len(self._read[1]),
        }

    @cached_property
    def same_tokens(self) -> bool:
        """Return whether both read the items with the same subwords, as far as their offsets are recorded."""
        columns = ["item_id", "position", "start", "end"]
        tables = [self._select_shared(table) for table in self._observations]
        if not all({*columns, "subword_id"} <= set(table.collect_schema().names()) for table in tables):
            return True
        first, second = (table.select(columns).sort(columns).collect() for table in tables)
        return first.equals(second)

    def scores(self) -> tuple[list[Score], list[Score]]:
        """Score both models, with each other's observations, on the shared items."""
        observations = [self._select_shared(table) for table in self._observations]
        labels = self._labels()
        first, second = (
            self._score_side(index, observations, labels[index]) for index in range(len(self._sides))
        )
        return first, second

    def find_changed_items(self) -> pl.DataFrame | None:
        """Find the positions and items that changed most, if the lens records their likelihood."""
        if self.texts_differ:
            return None
        base, side = self._sides
        inputs = self._select_shared(scan_inputs(base.run, self._corpora[0], str(self._group["language"])))
        tables = [self._select_shared(table) for table in self._observations]
        changes = find_changed_items(tables, inputs, same_tokens=self.same_tokens)
        if changes is None:
            return None
        return changes.select(
            pl.lit(base.label).alias("base"),
            pl.lit(side.label).alias("model"),
            pl.lit(self.name).alias("lens"),
            pl.all(),
        )

    def _score_side(
        self,
        index: int,
        observations: Sequence[pl.LazyFrame],
        labels: Mapping[str, pl.DataFrame],
    ) -> list[Score]:
        side = self._sides[index]
        read = scan_inputs(side.run, self._corpora[index], str(self._group["language"]))
        inputs = self._select_shared(self._by_original(index, read))
        # Places in texts that differ say nothing of each other.
        beside = () if self.texts_differ else (*observations[:index], *observations[index + 1 :])
        table = observations[index]
        return score_observations(
            side, self._entry, self._group, self.items, table, inputs, labels, beside, self._shared
        )

    def _labels(self) -> tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame]]:
        """Return the labels of the shared items by run and task.

        A task of which the sides say otherwise is refused; of texts in other words each side has its own.
        """
        labels: tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame]] = ({}, {})
        base_tasks, side_tasks = ((side.lens(self.name) or {}).get("tasks") or () for side in self._sides)
        for task in base_tasks:
            if task not in side_tasks:
                continue
            tables = [
                side.labels(task, prefix, self.name)
                for side, prefix in zip(self._sides, self._prefixes, strict=True)
            ]
            first, second = (
                None if table is None else self._by_original(index, table.lazy()).collect()
                for index, table in enumerate(tables)
            )
            if first is None or second is None:
                self._refuse(task, "only one of the runs has labels of this task")
                continue
            key = next((name for name in ("example_id", "query_id") if name in first.columns), None)
            if key is None:
                first, second = (self._select_shared(table.lazy()).collect() for table in (first, second))
                if not self.texts_differ and not _have_same_rows(first, second):
                    self._refuse(task, "the labels of the same items differ")
                    continue
            else:
                # What is read for an example may have other ids: a statement has one with each candidate.
                first = first.filter(~pl.col("item_id").is_in(self._exclusive_items.implode()))
                first = first.join(second.select(key), on=key, how="semi", maintain_order="left")
                second = first.select(key).join(second, on=key, how="inner", maintain_order="left")
                if first.is_empty():
                    self._refuse(task, "the data sets have no example in common")
                    continue
            labels[0][task] = first
            labels[1][task] = second if self.texts_differ else first
        return labels

    def _refuse(self, task: str, reason: str) -> None:
        self.refused.append(UnmatchedScores(self.name, reason, 1, task))

    def _select_shared(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        return frame.filter(pl.col("item_id").is_in(self.items.implode()))


def _have_same_rows(first: pl.DataFrame, second: pl.DataFrame) -> bool:
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
        coverage: Items that both runs share, by lens, corpus and language.
        changed_items: Largest changes, one table for each lens that records them.
    """

    base: RunModel
    side: RunModel
    differences: Sequence[Difference] = ()
    unpaired: list[UnmatchedScores] = field(default_factory=list[UnmatchedScores])
    coverage: list[dict[str, str | int]] = field(default_factory=list[dict[str, str | int]])
    changed_items: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])


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
        (_, first), *_, (_, last) = load_checkpoints(directories, series)
        sides = [(first, last)]
    else:
        sides = load_model_pairs(directories)
    reporter = progress or NullProgress()
    comparisons: list[Comparison] = []
    with reporter.stage("comparing", len(sides)) as advance:
        for base, side in sides:
            comparisons.append(_compare_models(base, side, least))
            advance()
    differences = [difference for comparison in comparisons for difference in comparison.differences]
    check_minimum_effects(least, dict.fromkeys(difference.score.metric for difference in differences))
    adjusted_differences = iter(adjust_differences(differences))
    for comparison in comparisons:
        comparison.differences = [next(adjusted_differences) for _ in comparison.differences]
    return comparisons


def _compare_models(base: RunModel, side: RunModel, minimum_effects: Mapping[str, float]) -> Comparison:
    """Score two models together and test every difference."""
    result = Comparison(base=base, side=side)
    pairs: list[tuple[Score, Score, Direction]] = []
    for base_lens in base.summary.get("lenses") or ():
        name = str(base_lens["name"])
        side_lens = side.lens(name)
        if side_lens is None:
            result.unpaired.append(UnmatchedScores(name, "only one of the runs has this lens", 1, name))
            continue
        if reason := _find_setting_difference(base_lens, side_lens) or _find_older_version(base_lens):
            result.unpaired.append(UnmatchedScores(name, reason, 1, name))
            continue
        for groups in _pair_groups(base, side):
            scoring = PairedScorer(base, side, base_lens, *groups)
            if scoring.items.is_empty():
                continue
            result.coverage.append(scoring.coverage)
            bases, scores = scoring.scores()
            result.unpaired += scoring.refused
            if not (bases or scores or scoring.refused):
                reason = "its scores need more than the runs store; see the report of each run"
                result.unpaired.append(UnmatchedScores(name, reason, 1, name))
                continue
            metrics = scoring.lens.comparable_metrics or _headline_metrics(scoring.lens, bases)
            matches = pair_scores(
                bases, scores, metrics, same_tokens=scoring.same_tokens, texts_differ=scoring.texts_differ
            )
            pairs += matches.pairs
            if (changes := scoring.find_changed_items()) is not None:
                result.changed_items.append(changes)
            result.unpaired += matches.unpaired
            result.unpaired += [
                _describe_unscored_row(score) for score in (*bases, *scores) if score.metric == LEFT_OUT
            ]
    if not result.coverage and not result.unpaired:
        raise InputError(f"{base.run.root} and {side.run.root} have no lens over the same items in common")
    result.differences = compute_differences(pairs, minimum_effects)
    # Each language and corpus has its own list of the same reasons.
    result.unpaired = merge_unmatched_scores(result.unpaired)
    return result


def _headline_metrics(lens: Lens, scores: Sequence[Score]) -> tuple[ComparableMetric, ...]:
    """Return the headline metrics, for a lens that declares no metrics to compare."""
    if (declared := lens.headline) is not None:
        direction: Direction = "lower" if declared.lower else "higher"
        return tuple(ComparableMetric(metric=metric, direction=direction) for metric in declared.metrics)
    headlines = find_headlines(scores_to_frame(scores))
    return tuple(
        ComparableMetric(metric=metric)
        for metric in dict.fromkeys(headline.row["metric"] for headline in headlines)
    )


def _describe_unscored_row(score: Score) -> UnmatchedScores:
    subject = " ".join(filter(None, (score.task, score.control)))
    return UnmatchedScores(score.lens, f"not scored: {dict(score.dimensions).get(REASON, '')}", 1, subject)


def _find_setting_difference(base_lens: Mapping[str, Any], side_lens: Mapping[str, Any]) -> str:
    """Return the first difference between two settings of a lens, in words; empty without any."""
    base_settings, side_settings = _list_settings(base_lens), _list_settings(side_lens)
    for name in dict.fromkeys((*base_settings, *side_settings)):
        values = [_format_setting(settings.get(name)) for settings in (base_settings, side_settings)]
        if base_settings.get(name) != side_settings.get(name):
            return f"{name} differs: {' against '.join(values)}"
    return ""


def _find_older_version(lens: Mapping[str, Any]) -> str:
    """Return in words that another version of sonde's own lens stored the observations; else empty text."""
    source, version = str(lens["source"]), lens.get("version")
    if not LENSES.is_own(source) or version == (current := LENSES.load(source).version):
        return ""
    return f"version {version} of the lens observed it, and sonde has version {current}; run both again"


def _list_settings(lens: Mapping[str, Any]) -> dict[str, Any]:
    settings = {name: lens.get(name) for name in ("version", "mode", "quirks", "seed", "capture")}
    options = dict(lens.get("options") or ())
    return {**settings, **{f"option {name}": options[name] for name in sorted(options)}}


def _format_setting(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_setting(setting)}" for name, setting in value.items())
    return (
        ", ".join(map(str, value)) if isinstance(value, list) else "default" if value is None else str(value)
    )


def _pair_groups(base: RunModel, side: RunModel) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Pair the corpora of two runs in one language: by name, else the only ones in that language."""
    base_groups, side_groups = (list(model.summary.get("corpus") or ()) for model in (base, side))
    for group in base_groups:
        candidates = [candidate for candidate in side_groups if candidate["language"] == group["language"]]
        same_name = [candidate for candidate in candidates if candidate["name"] == group["name"]]
        n_base = sum(candidate["language"] == group["language"] for candidate in base_groups)
        is_only_pair = n_base == len(candidates) == 1
        for side_group in same_name or (candidates if is_only_pair else []):
            yield group, side_group


def write_series(
    directories: Sequence[Path],
    pattern: str,
    output: Path,
    *,
    minimum_effects: Mapping[str, float] = MappingProxyType({}),
) -> Path:
    """Write ``series.parquet``: the compared metrics of every checkpoint, with their best controls.

    Raises:
        InputError: A folder holds no run, or one without scores.
        UsageError: See `load_checkpoints`.
        StoreError: The file cannot be written.
    """
    models = load_checkpoints(directories, pattern)
    metrics = {
        str(lens["name"]): LENSES.load(str(lens["source"])).comparable_metrics
        for _, side in models
        for lens in side.summary.get("lenses") or ()
    }
    scores = [
        (step, read_scores(side.run.scores).filter(pl.col("model") == side.name))
        for step, side in models
        if side.run.holds(side.run.scores)
    ]
    if len(scores) < len(models):
        raise InputError("a run of the series has no scores; run it again with the same arguments")
    _write_table(output, "series", build_series(scores, metrics, minimum_effects))
    return output


def _write_table(folder: Path, name: str, frame: pl.DataFrame) -> None:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=False)
    write_with_receipt(folder, f"{name}.parquet", buffer.getvalue())


def load_compared_key(folder: Path) -> str:
    """Load the key of the scores that the comparison in a folder is based on; empty if it is incomplete."""
    try:
        if verify_folder(folder).damaged:
            return ""
        return str(json.loads((folder / "comparison.json").read_text(encoding="utf-8"))["of"])
    except (OSError, ValueError, KeyError, InputError):
        return ""


def write_comparison(comparisons: Sequence[Comparison], output: Path, *, scores_key: str = "") -> Path:
    """Write ``comparison.parquet``, ``moved.parquet`` and ``comparison.json``; create the folder if needed.

    Args:
        comparisons: The comparisons.
        output: The folder.
        scores_key: Key of the scores of the run whose models are compared.

    Raises:
        StoreError: A file cannot be written.
    """
    differences = [difference for comparison in comparisons for difference in comparison.differences]
    _write_table(output, "comparison", differences_to_frame(differences))
    tables = [table for comparison in comparisons for table in comparison.changed_items]
    _write_table(output, "moved", pl.concat([pl.DataFrame(schema=to_schema(CHANGED_ITEM_COLUMNS)), *tables]))
    entries = [
        {
            "base": comparison.base.facts(),
            "model": comparison.side.facts(),
            "covered": comparison.coverage,
            "unpaired": [dataclasses.asdict(scores) for scores in comparison.unpaired],
        }
        for comparison in comparisons
    ]
    content = {"schema_version": SCHEMA_VERSION, "of": scores_key, "comparisons": entries}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_with_receipt(output, "comparison.json", text)
    return output


def default_output(directories: Sequence[Path]) -> Path:
    """Return the default folder of a comparison: inside the one run, else next to the first."""
    if len(directories) == 1:
        return directories[0] / "comparison"
    names = "-".join(slug(directory.resolve().name) for directory in directories)
    return directories[0].parent / slug(f"compare-{names}")
