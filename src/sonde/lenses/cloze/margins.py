"""Pairs of statements of which one is better: by how much a model finds it likelier, and how often."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import polars as pl

from sonde.lenses._lens import Scoring
from sonde.lenses.cloze.observe import CAUSAL, PLL
from sonde.lenses.cloze.plan import candidate_ids
from sonde.lenses.cloze.ranked import RANDOM_WEIGHTS
from sonde.lenses.cloze.rates import by_library
from sonde.results import Mean, Score
from sonde.results.grouped import By
from sonde.tasks._cloze_margins import PAIRS

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
        labels: Pairs as `sonde.tasks._cloze_margins` makes them.
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


def score_margins(scoring: Scoring, task: str) -> Iterator[Score]:
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


def _of_model(frame: pl.DataFrame, template: Score, by: By) -> Iterator[Score]:
    for aggregation in ("sum", "mean"):
        named = dataclasses.replace(template, aggregation=aggregation)
        margin = pl.col(aggregation)
        # What is as likely as the better one counts against it.
        wanted = [Mean("margin", margin, "real"), Mean("preferred", margin > _TIE)]
        yield from by_library(frame, wanted, named, by=by)


def _by_chance(frame: pl.DataFrame, template: Score, by: By) -> Iterator[Score]:
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
