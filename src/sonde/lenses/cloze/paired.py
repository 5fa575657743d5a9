"""Paired comparisons of cloze queries (aliases, preceding words, frames, seen names) and statements.

The same query is asked in other ways, and queries about seen names are compared with those about unseen
ones. Two tables describe the queries themselves: answers that seen and unseen names share, and aliases of a
name. For pairs of statements one of which is better, the margin is by how much a model finds that one
likelier; it is reported with how often it does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl
from jaxtyping import Float

from sonde.lenses.cloze.observe import CAUSAL, PLL, iterate_candidate_scores
from sonde.lenses.cloze.ranks import (
    IS_PLAIN,
    KS,
    NAME_MODES,
    RANDOM_WEIGHTS,
    by_library,
    is_hit,
    precision_at_k,
    split_by_template,
)
from sonde.lenses.engine.lens import ScoringContext
from sonde.results import Mean, Score, cells, mean_differences, statistic_rows
from sonde.results.group_means import GroupBy
from sonde.stats.estimate import Statistic
from sonde.stats.intervals import Kind
from sonde.tasks.engine.cloze_queries import IMPORTS, PAIRS

PLAIN = "plain"
"""The statement without a frame, in addition to the frames of its language."""


ALL_FRAMES = "every"
"""The mean over the statement alone and its frames."""


ALIASES_APART = "alias-adversarial"
"""The template of differences between an alias and adversarial ones."""


_CHANGE_SUFFIX = ".changed"
"""Suffix of columns of the changed query."""


def paired_aliases(frame: pl.DataFrame, single: Score) -> Iterator[Score]:
    """Score alias queries against the same queries under adversarial aliases, paired."""
    template = pl.col("template")
    pairs = _pair_changed(frame, template == "alias", template == "adversarial")
    differences = {k: pl.col(str(k)) - pl.col(f"{k}{_CHANGE_SUFFIX}") for k in KS}
    yield from by_library(
        pairs,
        _at_ks(differences, "difference"),
        single.within(("template", ALIASES_APART)),
    )


def _pair_changed(frame: pl.DataFrame, is_original: pl.Expr, is_changed: pl.Expr) -> pl.DataFrame:
    """Join hits of answered queries with those of the same queries changed, averaged per query."""
    answered = frame.filter(pl.col("rank").is_not_null() & pl.col("mode").is_in(NAME_MODES))
    variants = answered.filter(is_changed).select("base_id", *_hits(frame))
    means = variants.group_by("base_id").agg(pl.all().mean().name.suffix(_CHANGE_SUFFIX))
    originals = answered.filter(is_original).select("query_id", "library", "template", *_hits(frame))
    return originals.join(means, left_on="query_id", right_on="base_id")


def score_wordings(frame: pl.DataFrame, single: Score) -> Iterator[Score]:
    """Score queries after words, averaged per query, against the same queries without."""
    yield from _score_paired_change(frame, single, "words", pl.col("context") != "", pl.col("frame") == "")


def score_import_context(frame: pl.DataFrame, single: Score) -> Iterator[Score]:
    """Score calls after the imports of a file that makes them, against the same calls without imports.

    ``imports_hide`` is the same over the calls whose answer these imports do not show.
    """
    follows_imports = pl.col("frame") == IMPORTS
    hidden_queries = frame.filter(~(follows_imports & pl.col("visible")))
    for dimension, queries in (("imports", frame), ("imports_hide", hidden_queries)):
        yield from _score_paired_change(queries, single, dimension, follows_imports, pl.col("context") == "")


def _score_paired_change(
    frame: pl.DataFrame, single: Score, dimension: str, is_changed: pl.Expr, scope: pl.Expr
) -> Iterator[Score]:
    """Score changed queries, averaged per query, against the same queries, and the difference."""
    pairs = _pair_changed(frame, IS_PLAIN, is_changed & scope)
    worded_by, alone_by = ({k: pl.col(f"{k}{side}") for k in KS} for side in (_CHANGE_SUFFIX, ""))
    sides = {
        "with": _at_ks(worded_by, "unit"),
        "without": _at_ks(alone_by, "unit"),
        "with-without": _at_ks({k: worded_by[k] - alone_by[k] for k in KS}, "difference"),
    }
    for side, mean_specs in sides.items():
        for template, part in split_by_template(pairs, single):
            yield from by_library(part, mean_specs, template.within((dimension, side)))


def score_frames(frame: pl.DataFrame, single: Score) -> Iterator[Score]:
    """Score P@k in each frame, over queries answered in all frames, and its spread over frames.

    ``p_at_k`` by the dimension ``frame`` (``plain``: the statement alone; ``every``: the mean over all);
    ``p_at_k_sd`` and ``p_at_k_range`` are the standard deviation and the range over the frames.
    """
    answered = frame.filter(
        pl.col("rank").is_not_null()
        & pl.col("mode").is_in(NAME_MODES)
        & (pl.col("context") == "")
        & (pl.col("frame") != IMPORTS)
    ).select("query_id", "base_id", "library", "template", "frame", *_hits(frame))
    framed_queries = answered.filter(pl.col("frame") != "")
    plain_queries = answered.filter(
        (pl.col("frame") == "") & pl.col("query_id").is_in(framed_queries["base_id"].implode())
    )
    all_queries = pl.concat([plain_queries.with_columns(frame=pl.lit(PLAIN)), framed_queries])
    hits = {k: pl.col(str(k)) for k in KS}
    for template, part in split_by_template(all_queries, single):
        count = part["frame"].n_unique()
        complete = part.filter(pl.col("frame").n_unique().over("base_id") == count)
        if complete.is_empty():
            continue
        yield from by_library(complete, _at_ks(hits), template, by="frame")
        means_by_query = complete.group_by("base_id", "library", maintain_order=True).agg(
            pl.col(list(map(str, KS))).mean()
        )
        yield from by_library(means_by_query, _at_ks(hits, "unit"), template.within(("frame", ALL_FRAMES)))
        yield from _score_range(complete, template)


def score_seen_libraries(frame: pl.DataFrame, single: Score) -> Iterator[Score]:
    """Score the difference between queries about libraries of the training data and others."""
    classified = frame.filter(pl.col("rank").is_not_null() & pl.col("seen").is_not_null())
    for template, part in split_by_template(classified, single):
        scores = mean_differences(
            part, precision_at_k(part, "rank"), template, ("seen", True, False), cluster="library"
        )
        for score in scores:
            yield dataclasses.replace(score, n=part.height)


def score_overlap(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Score the share of answers of unseen names that seen names have too (INK, section 5.3).

    ``answers`` counts the distinct answers of either side.
    """
    classified = frame.filter(pl.col("seen").is_not_null())
    for template, part in split_by_template(classified, base):
        sides = {is_seen: set(part.filter(pl.col("seen") == is_seen)["answer"]) for is_seen in (True, False)}
        if not all(sides.values()):
            continue
        libraries = part.filter(~pl.col("seen"))["library"].n_unique()
        yield dataclasses.replace(
            template.within(("seen", "false")),
            metric="answer_overlap",
            value=len(sides[True] & sides[False]) / len(sides[False]),
            n=len(sides[False]),
            n_clusters=libraries,
        )
        for is_seen, answers in sides.items():
            count = part.filter(pl.col("seen") == is_seen)
            yield dataclasses.replace(
                template.within(("seen", str(is_seen).lower())),
                metric="answers",
                value=float(len(answers)),
                n=count.height,
                n_clusters=count["library"].n_unique(),
            )


def aliases_of_names(labels: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Score the number of aliases of names that have any, and the share with several (INK, section 5.2)."""
    names = labels.filter(pl.col("aliases") > 0).unique(["language", "name", "kind"], maintain_order=True)
    mean_specs = [
        Mean("aliases", pl.col("aliases"), "nonnegative"),
        Mean("share_several_aliases", pl.col("aliases") > 1),
    ]
    return by_library(names, mean_specs, base.within(("names", "aliased")))


def _score_range(queries: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score how far the rates of the frames lie apart."""
    metrics: Mapping[str, Statistic] = {
        "p_at_k_sd": lambda sums: np.std(_rates(sums), axis=1, ddof=1),
        "p_at_k_range": lambda sums: np.ptp(_rates(sums), axis=1),
    }
    frames = queries["frame"].n_unique()
    for k in KS:
        hits = pl.col(str(k))
        rows = queries.filter(hits.is_not_null())
        if rows.is_empty():
            continue
        sums = cells(rows, [hits, hits.is_not_null()], ["frame"], cluster="library").toarray()
        # Every query is answered in every frame.
        weight = sums[:, frames]
        for metric, statistic in metrics.items():
            score_template = dataclasses.replace(template, metric=metric, k=k)
            yield from statistic_rows(score_template, statistic, sums, weight, "nonnegative")


def _rates(sums: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, "replicate frame"]:
    hits, queries = np.split(sums, 2, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return hits / queries


def _hits(frame: pl.DataFrame) -> list[pl.Expr]:
    return [is_hit(frame, "rank", k).cast(pl.Float64).alias(str(k)) for k in KS]


def _at_ks(values: Mapping[int, pl.Expr], kind: Kind = "proportion") -> list[Mean]:
    return [Mean("p_at_k", value, kind, fields={"k": k}) for k, value in values.items()]


MARGIN_TASKS = ("api_deprecated", "api_fakes")


_TIE = 1e-4


def margins(answers: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Add ``sum`` and ``mean`` to pairs: log-probability of the better statement less the other.

    In nats, summed over the statement's subwords or averaged over them. A pair of which a statement was not
    scored is left out.

    Args:
        answers: Observations in `sonde.lenses.cloze.observe.ANSWERS_SCHEMA`.
        labels: Pairs as `sonde.tasks.engine.cloze_queries` makes them.
    """
    rows = [
        (row["query_id"], float(sums[1] - sums[0]), float(means[1] - means[0]))
        for row, _, sums, means in iterate_candidate_scores(answers, labels)
    ]
    schema = {"query_id": pl.String, "sum": pl.Float64, "mean": pl.Float64}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return labels.join(table, on="query_id", how="inner", maintain_order="left")


def score_margins(scoring: ScoringContext, task: str) -> Iterator[Score]:
    """Score mean margins and how often the better statement is preferred, with controls.

    ``objective`` says what was summed: ``"causal"`` log-probabilities or pseudo-log-likelihoods
    (``"pll"``), which never share a table; ``aggregation`` whether pieces were summed or averaged.
    """
    labels = scoring.labels[task]
    answers = scoring.observations.collect()
    measure = PLL if PLL in answers["measure"] else CAUSAL
    base = dataclasses.replace(scoring.template, task=task, objective=measure)
    frame = margins(answers, labels)
    controls = [margins(control.observations.collect(), labels) for control in scoring.controls]
    for pair in PAIRS:
        template = base.within(("pair", pair))
        part = frame.filter(pl.col("template") == pair)
        for keys in ({}, {"form": pl.col("mode")}):
            yield from _of_model(part, template, keys)
            for control, preference in _CONTROLS.items():
                control_template = dataclasses.replace(template, control=control)
                yield from by_library(part, [Mean("preferred", preference)], control_template, by=keys)
            yield from _by_chance(part, template, keys)
        control_template = dataclasses.replace(template, control=RANDOM_WEIGHTS)
        for control in controls:
            yield from _of_model(control.filter(pl.col("template") == pair), control_template, {})


def _of_model(frame: pl.DataFrame, template: Score, keys: GroupBy) -> Iterator[Score]:
    for aggregation in ("sum", "mean"):
        score_template = dataclasses.replace(template, aggregation=aggregation)
        margin = pl.col(aggregation)
        # What is as likely as the better one counts against it.
        mean_specs = [Mean("margin", margin, "real"), Mean("preferred", margin > _TIE)]
        yield from by_library(frame, mean_specs, score_template, by=keys)


def _by_chance(frame: pl.DataFrame, template: Score, keys: GroupBy) -> Iterator[Score]:
    """Score one of two at random; it is known and has no interval."""
    chance_template = dataclasses.replace(template, control="chance")
    chance = Mean("preferred", pl.col("sum").is_not_null() * 0.5)
    for score in by_library(frame, [chance], chance_template, by=keys):
        yield dataclasses.replace(score, value=0.5, ci_low=None, ci_high=None, ci_method="")


_BETTER_LENGTH, _WORSE_LENGTH = (
    pl.col("candidates").list.get(index).str.len_chars().cast(pl.Int32) for index in (0, 1)
)


_CONTROLS: Mapping[str, pl.Expr] = {
    "length": ((_WORSE_LENGTH - _BETTER_LENGTH).sign() + 1) / 2,
    "spelling": pl.col("spelling") > 0,
}
"""How often the better statement is the shorter one, equal ones half (what summing favours by itself), and
how often the better name is the one that is likelier by its spelling, where that is known."""
