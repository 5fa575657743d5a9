"""Knowledge of libraries, name by name and weighted by use, and of a release.

A name is asked for by its last level, in calls and imports, and known where the right answer ranks first.
Within a library a query counts once for every other repository of the corpus (of `environment`: every other
distribution) that calls its name, and these repositories are what is resampled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from sonde.base.files import write_atomic
from sonde.lenses.cloze.observe import read_answers
from sonde.lenses.cloze.ranks import (
    CANDIDATE_COUNT,
    IS_PLAIN,
    NAME_MODES,
    NAMES,
    PUBLISHED_MODES,
    each_control,
    gain_over,
    is_hit,
    precision_at_k,
    rank_answers,
    rank_statements,
)
from sonde.results import Mean, Score, mean_differences, means
from sonde.results.schema import scan_files
from sonde.store.run_folder import RunDirectory
from sonde.tasks.engine.cloze_options import PROVIDED_TEMPLATE, TASK
from sonde.tasks.engine.cloze_statements import MEMBER

_KS = (1, 10)
_MINIMUM_NAMES = 10
"""Fewest names that are divided into deciles."""


_CSV_COLUMNS = {
    **{name: name for name in ("library", "name", "decile", "used_by", "calls", "release")},
    "statement": "template",
    "asked": "mode",
    "answer": "answer",
    "rank": "rank",
    "rank_by_frequency": "majority",
}


def scores_by_use(names: pl.DataFrame, base: Score, minimum: int) -> Iterator[Score]:
    """Score how many of each library's uses are of known names, by decile of use, with controls.

    ``known_by_use`` (of what was ranked), ``asked_by_use`` (the share that was), ``names`` (how many there
    are), of ``library=L`` and, from ten names on, ``library=L;decile=D``, 1 being the names used most.

    Args:
        names: Queries with their ranks: calls and imports, nothing around them.
        base: What the scores share.
        minimum: Queries that a library needs.
    """
    queries = _members(names)
    enough = pl.len().over("library") >= minimum
    used = queries.filter(enough & (pl.col("used_by") > 0)).explode("users")
    if used.is_empty():
        return
    for groups in (["library"], ["library", "decile"]):
        part = used.drop_nulls(groups)
        mean_specs = [
            Mean("known_by_use", is_hit(part, "rank", 1)),
            Mean("asked_by_use", pl.col("rank").is_not_null()),
        ]
        yield from means(part, mean_specs, base, by=groups, cluster="users")
        yield from _controls(part, base, groups)
        for key, rows in part.group_by(groups, maintain_order=True):
            dimensions = tuple(zip(groups, (str(value) for value in key), strict=True))
            yield dataclasses.replace(
                base.within(*dimensions),
                metric="names",
                value=float(rows["name"].n_unique()),
                n=rows["query_id"].n_unique(),
                n_clusters=rows["users"].n_unique(),
            )


def scores_by_release(names: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Score names that appeared with a release and those it kept, with differences and controls.

    ``release=new|kept|new-kept``; within one library names are taken as independent. ``asked_in_release``
    is the share of the queries that were ranked. The controls' own difference says how much harder the new
    names are to guess; ``p_at_k_gain`` is the model less a control, paired.
    """
    if names["release"].is_null().all():
        return
    queries = _members(names)
    share = Mean("asked_in_release", pl.col("rank").is_not_null())
    yield from means(queries, [share], base, by="release", cluster="name")
    yield from _on_both_sides(queries, precision_at_k(queries, "rank", ks=_KS), base)
    for control, answered, rates in each_control(queries, _KS):
        gains = [gain_over(rate, answered) for rate in rates]
        yield from _on_both_sides(answered, [*rates, *gains], dataclasses.replace(base, control=control))


def _on_both_sides(frame: pl.DataFrame, mean_specs: list[Mean], template: Score) -> Iterator[Score]:
    yield from means(frame, mean_specs, template, by="release", cluster="name")
    yield from mean_differences(
        frame,
        [spec for spec in mean_specs if spec.metric == "p_at_k"],
        template,
        ("release", "new", "kept"),
        cluster="name",
    )


def write_libraries(run: RunDirectory) -> Iterator[tuple[Path, int]]:
    """Write ``libraries/model=M/names.csv``: a line a query of a name, with its use and its rank.

    Args:
        run: The folder of a run, observed to its end.

    Yields:
        Each file with its names; none where no name is called by another repository or belongs to a release.

    Raises:
        InputError: The folder holds no run.
        StoreError: A file cannot be written.
    """
    tables = run.label_tables(TASK, "cloze")
    if not tables:
        return
    labels = scan_files(tables).collect()
    if PROVIDED_TEMPLATE in labels["template"]:
        return
    labels = labels.filter(IS_PLAIN, pl.col("template").is_in(NAMES))
    for folder, answers in read_answers(run):
        asks_pieces = answers["query_id"].is_not_null().any()
        frame = _members((rank_answers if asks_pieces else rank_statements)(answers, labels))
        if frame.is_empty():
            continue
        path = run.root / "libraries" / f"model={folder}" / "names.csv"
        rows = frame.sort(
            "library", "used_by", "name", "template", "mode", descending=[False, True, False, False, False]
        )
        write_atomic(
            path, rows.select(pl.col(name).alias(title) for title, name in _CSV_COLUMNS.items()).write_csv()
        )
        yield path, frame["name"].n_unique()


def _members(names: pl.DataFrame) -> pl.DataFrame:
    """Return queries for the last level of a name, with ``used_by`` and ``decile`` of the name."""
    modes = NAME_MODES if CANDIDATE_COUNT in names.columns else PUBLISHED_MODES
    queries = names.filter((pl.col("place") == MEMBER) & pl.col("mode").is_in(modes)).with_columns(
        used_by=pl.col("users").list.len().fill_null(0)
    )
    # Names that nobody else uses are in no decile: they weigh nothing.
    order = (
        queries.filter(pl.col("used_by") > 0)
        .select("language", "library", "name", "used_by")
        .unique(["language", "library", "name"], keep="first", maintain_order=True)
        .sort("used_by", "name", descending=[True, False])
        .with_columns(
            at=pl.int_range(pl.len()).over("language", "library"),
            size=pl.len().over("language", "library"),
        )
    )
    deciles = order.select(
        "language",
        "library",
        "name",
        decile=pl.when(pl.col("size") >= _MINIMUM_NAMES).then(1 + 10 * pl.col("at") // pl.col("size")),
    )
    return queries.join(deciles, on=["language", "library", "name"], how="left", maintain_order="left")


def _controls(used: pl.DataFrame, base: Score, keys: list[str]) -> Iterator[Score]:
    """Score the controls on the queries that they and the model answer, and the paired gain."""
    for control, answered, (first,) in each_control(used, (1,)):
        if not answered.is_empty():
            rate = Mean("known_by_use", first.of, first.kind)
            mean_specs = [rate, Mean("known_by_use_gain", gain_over(first, answered).of, "difference")]
            yield from means(
                answered, mean_specs, dataclasses.replace(base, control=control), by=keys, cluster="users"
            )
