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

from sonde.lenses.cloze.observe import CAUSAL, PLL, candidate_ids
from sonde.lenses.cloze.ranks import (
    KS,
    PUBLISHED_MODES,
    RANDOM_WEIGHTS,
    by_library,
    is_hit,
    precision_at_k,
    split_by_template,
)
from sonde.lenses.engine.lens import ScoringContext
from sonde.results import Mean, Score, cells, mean_differences, statistic_rows
from sonde.results.group_means import GroupBy
from sonde.stats.intervals import Kind
from sonde.tasks.engine.cloze_margins import PAIRS
from sonde.tasks.engine.cloze_queries import IMPORTS

PLAIN = "plain"
"""The statement alone, beside the frames of its language."""


EVERY = "every"
"""The mean over the statement alone and its frames."""


ALIASES_APART = "alias-adversarial"
"""The template of differences between an alias and adversarial ones."""


_MODES = [*PUBLISHED_MODES, "whole"]


_CHANGED = ".changed"
"""Suffix of what is said of the same query changed."""


def paired_aliases(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Alias queries against the same queries under adversarial aliases, each query its own pair."""
    template = pl.col("template")
    pairs = _pair_changed(frame, template == "alias", template == "adversarial")
    apart = {k: pl.col(str(k)) - pl.col(f"{k}{_CHANGED}") for k in KS}
    yield from by_library(
        pairs, _at_ks(apart, "difference"), single_answer_score(base).within(("template", ALIASES_APART))
    )


def _pair_changed(frame: pl.DataFrame, unchanged: pl.Expr, changed: pl.Expr) -> pl.DataFrame:
    """Hits of queries that were answered, beside those of the same queries changed, averaged within each."""
    asked = frame.filter(pl.col("rank").is_not_null() & pl.col("mode").is_in(_MODES))
    others = asked.filter(changed).select("base_id", *_hits(frame))
    averaged = others.group_by("base_id").agg(pl.all().mean().name.suffix(_CHANGED))
    own = asked.filter(unchanged).select("query_id", "library", "template", *_hits(frame))
    return own.join(averaged, left_on="query_id", right_on="base_id")


def score_wordings(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Queries behind words, averaged within a query, against the same queries alone."""
    yield from _score_paired_change(frame, base, "words", pl.col("context") != "", pl.col("frame") == "")


def score_import_context(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Calls behind the imports of a file that makes them, against the same calls alone.

    ``imports_hide`` is the same over the calls whose answer these imports do not show.
    """
    behind = pl.col("frame") == IMPORTS
    yield from _score_paired_change(frame, base, "imports", behind, pl.col("context") == "")
    hidden = frame.filter(~(behind & pl.col("visible")))
    yield from _score_paired_change(hidden, base, "imports_hide", behind, pl.col("context") == "")


def _score_paired_change(
    frame: pl.DataFrame, base: Score, dimension: str, changed: pl.Expr, among: pl.Expr
) -> Iterator[Score]:
    """Changed queries, averaged within a query, against the same queries alone, and the difference."""
    alone = (pl.col("context") == "") & (pl.col("frame") == "")
    pairs = _pair_changed(frame, alone, changed & among)
    worded_by, alone_by = ({k: pl.col(f"{k}{side}") for k in KS} for side in (_CHANGED, ""))
    sides = {
        "with": _at_ks(worded_by, "unit"),
        "without": _at_ks(alone_by, "unit"),
        "with-without": _at_ks({k: worded_by[k] - alone_by[k] for k in KS}, "difference"),
    }
    for side, wanted in sides.items():
        for template, part in split_by_template(pairs, single_answer_score(base)):
            yield from by_library(part, wanted, template.within((dimension, side)))


def score_frames(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """P@k in each frame, over queries that were answered in all frames, and the spread over the frames.

    ``p_at_k`` by the dimension ``frame`` (``plain``: the statement alone; ``every``: the mean over all);
    ``p_at_k_sd`` and ``p_at_k_range`` are the standard deviation and the range over the frames.
    """
    asked = frame.filter(
        pl.col("rank").is_not_null()
        & pl.col("mode").is_in(_MODES)
        & (pl.col("context") == "")
        & (pl.col("frame") != IMPORTS)
    ).select("query_id", "base_id", "library", "template", "frame", *_hits(frame))
    framed = asked.filter(pl.col("frame") != "")
    alone = asked.filter((pl.col("frame") == "") & pl.col("query_id").is_in(framed["base_id"].implode()))
    every = pl.concat([alone.with_columns(frame=pl.lit(PLAIN)), framed])
    hits = {k: pl.col(str(k)) for k in KS}
    for template, part in split_by_template(every, single_answer_score(base)):
        count = part["frame"].n_unique()
        whole = part.filter(pl.col("frame").n_unique().over("base_id") == count)
        if whole.is_empty():
            continue
        yield from by_library(whole, _at_ks(hits), template, by="frame")
        averaged = whole.group_by("base_id", "library", maintain_order=True).agg(
            pl.col(list(map(str, KS))).mean()
        )
        yield from by_library(averaged, _at_ks(hits, "unit"), template.within(("frame", EVERY)))
        yield from _score_range(whole, template)


def score_seen_libraries(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """How much better queries about libraries of the training data are answered than others."""
    known = frame.filter(pl.col("rank").is_not_null() & pl.col("seen").is_not_null())
    for template, part in split_by_template(known, single_answer_score(base)):
        apart = mean_differences(
            part, precision_at_k(part, "rank"), template, ("seen", True, False), cluster="library"
        )
        for score in apart:
            yield dataclasses.replace(score, n=part.height)


def score_overlap(frame: pl.DataFrame, base: Score) -> Iterator[Score]:
    """Of the distinct answers of unseen names, the share that seen names have as well (INK, section 5.3).

    ``answers`` counts the distinct answers of either side.
    """
    known = frame.filter(pl.col("seen").is_not_null())
    for template, part in split_by_template(known, base):
        sides = {seen: set(part.filter(pl.col("seen") == seen)["answer"]) for seen in (True, False)}
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
        for seen, answers in sides.items():
            count = part.filter(pl.col("seen") == seen)
            yield dataclasses.replace(
                template.within(("seen", str(seen).lower())),
                metric="answers",
                value=float(len(answers)),
                n=count.height,
                n_clusters=count["library"].n_unique(),
            )


def aliases_of_names(labels: pl.DataFrame, base: Score) -> Iterator[Score]:
    """How many aliases a name has that has any, and the share with several (INK, section 5.2)."""
    names = labels.filter(pl.col("aliases") > 0).unique(["language", "name", "kind"], maintain_order=True)
    wanted = [
        Mean("aliases", pl.col("aliases"), "nonnegative"),
        Mean("share_several_aliases", pl.col("aliases") > 1),
    ]
    return by_library(names, wanted, base.within(("names", "aliased")))


def _score_range(whole: pl.DataFrame, template: Score) -> Iterator[Score]:
    frames = whole["frame"].n_unique()
    for k in KS:
        hits = pl.col(str(k))
        held = whole.filter(hits.is_not_null())
        if held.is_empty():
            continue
        sums = cells(held, [hits, hits.is_not_null()], ["frame"], cluster="library").toarray()
        # Every query is answered in every frame.
        weight = sums[:, frames]
        for metric, statistic in (("p_at_k_sd", _deviation), ("p_at_k_range", _range)):
            named = dataclasses.replace(template, metric=metric, k=k)
            yield from statistic_rows(named, statistic, sums, weight, "nonnegative")


def _deviation(sums: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
    """Standard deviation of the rates over the frames."""
    return np.std(_rates(sums), axis=1, ddof=1)


def _range(sums: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, " replicate"]:
    """Best frame less worst frame."""
    return np.ptp(_rates(sums), axis=1)


def _rates(sums: Float[np.ndarray, "replicate total"]) -> Float[np.ndarray, "replicate frame"]:
    hits, queries = np.split(sums, 2, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return hits / queries


def single_answer_score(base: Score) -> Score:
    """Scores of the single right answer."""
    return dataclasses.replace(base, matching="single")


def _hits(frame: pl.DataFrame) -> list[pl.Expr]:
    return [is_hit(frame, "rank", k).cast(pl.Float64).alias(str(k)) for k in KS]


def _at_ks(values: Mapping[int, pl.Expr], kind: Kind = "proportion") -> list[Mean]:
    return [Mean("p_at_k", value, kind, fields={"k": k}) for k, value in values.items()]


MARGIN_TASKS = ("api_deprecated", "api_fakes")


_FORM = "form"
"""Dimension of what is asked: a call or an import."""


LENGTH, SPELLING = "length", "spelling"


_TIE = 1e-4


_SCHEMA: Mapping[str, type[pl.DataType]] = {"query_id": pl.String, "sum": pl.Float64, "mean": pl.Float64}


def margins(answers: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """The pairs with ``sum`` and ``mean``: log-probability of the better statement less that of the other.

    In nats, summed over the statement's subwords or averaged over them. A pair of which a statement was not
    scored is left out.

    Args:
        answers: Observations in `sonde.lenses.cloze.observe.ANSWERS_SCHEMA`.
        labels: Pairs as `sonde.tasks.engine.cloze_margins` makes them.
    """
    texts = answers.filter(pl.col("query_id").is_null()).unique("item_id", keep="first")
    found = {
        item: (nats, pieces) for item, nats, pieces in texts.select("item_id", "nats", "pieces").iter_rows()
    }
    rows: list[tuple[str, float, float]] = []
    for row in labels.iter_rows(named=True):
        better, worse = (found.get(item) for item in candidate_ids(row))
        if better is not None and worse is not None:
            means_of = [nats / max(pieces, 1) for nats, pieces in (better, worse)]
            rows.append((row["query_id"], worse[0] - better[0], means_of[1] - means_of[0]))
    table = pl.DataFrame(rows, schema=dict(_SCHEMA), orient="row")
    return labels.join(table, on="query_id", how="inner", maintain_order="left")


def score_margins(scoring: ScoringContext, task: str) -> Iterator[Score]:
    """Mean margins and how often the better statement is preferred, by pair and form, beside the controls.

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
        for by in ({}, {_FORM: pl.col("mode")}):
            yield from _of_model(part, template, by)
            for control, preferred in _CONTROLS.items():
                named = dataclasses.replace(template, control=control)
                yield from by_library(part, [Mean("preferred", preferred)], named, by=by)
            yield from _by_chance(part, template, by)
        named = dataclasses.replace(template, control=RANDOM_WEIGHTS)
        for control in controls:
            yield from _of_model(control.filter(pl.col("template") == pair), named, {})


def _of_model(frame: pl.DataFrame, template: Score, by: GroupBy) -> Iterator[Score]:
    for aggregation in ("sum", "mean"):
        named = dataclasses.replace(template, aggregation=aggregation)
        margin = pl.col(aggregation)
        # What is as likely as the better one counts against it.
        wanted = [Mean("margin", margin, "real"), Mean("preferred", margin > _TIE)]
        yield from by_library(frame, wanted, named, by=by)


def _by_chance(frame: pl.DataFrame, template: Score, by: GroupBy) -> Iterator[Score]:
    """One of two at random; it is known and has no interval."""
    named = dataclasses.replace(template, control="chance")
    chance = Mean("preferred", pl.col("sum").is_not_null() * 0.5)
    for score in by_library(frame, [chance], named, by=by):
        yield dataclasses.replace(score, value=0.5, ci_low=None, ci_high=None, ci_method="")


_BETTER, _WORSE = (pl.col("candidates").list.get(at).str.len_chars().cast(pl.Int32) for at in (0, 1))


_CONTROLS: Mapping[str, pl.Expr] = {
    LENGTH: ((_WORSE - _BETTER).sign() + 1) / 2,
    SPELLING: pl.col("spelling") > 0,
}
"""How often the better statement is the shorter one, equal ones half (what summing favours by itself), and
how often the better name is the one that is likelier by its spelling, where that is known."""
