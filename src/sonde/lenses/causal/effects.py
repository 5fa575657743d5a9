"""Effects of interventions on surprisal: their measurement, and their excess over controls.

Surprisal is measured with nothing changed and with each change. A decoder is asked for every subword. A
masked model reads the function with 15 % of its code tokens hidden at once, as in its pre-training, and is
asked for these: one forward pass per function and change, where a pseudo-log-likelihood would need one per
subword. An encoder-decoder fills a few gaps of one token each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from sonde.base.fingerprint import unit_hash
from sonde.capture.interventions import Change
from sonde.capture.requests import Changed, ItemCapture, Masked, Pass, Plain, Prepared, Request, TokenScores
from sonde.languages import LANGUAGES
from sonde.lenses.causal.interventions import CONTROL, FittedIntervention, RowBuilder
from sonde.lenses.engine.lens import CapturedItem, ScoringContext
from sonde.lenses.engine.observations import find_overlapping_subwords
from sonde.results import Mean, Score, means
from sonde.results.schema import SELECTION

BEST = (SELECTION, "best")
"""Dimension of numbers of what was chosen on validation."""


BITS, EXCESS, DIFFERENCE = "bits", "excess", "apart"
"""Metrics: how much surprisal rises a subword; by how much more than with a control; and how much further
that is in one construct than elsewhere (a difference in differences)."""


BASELINE = "bits_before"
"""Metric: surprisal a subword with nothing changed, which says how large a cost is."""


@dataclass(frozen=True, slots=True)
class EffectMetrics:
    """Metrics in which an effect on a model's predictions is measured.

    Attributes:
        cost: Metric of the cost of an intervention.
        excess: Metric of the difference to the cost of a control.
        subtrahend: Column of the item table that is subtracted.
        minuend: Column of the item table that it is subtracted from.
        factor: Factor from the column's unit to the metric's.
    """

    cost: str
    excess: str
    subtrahend: str
    minuend: str
    factor: float = 1.0


SURPRISAL = EffectMetrics(BITS, EXCESS, "before", "after", 1 / math.log(2))


ANSWERS = EffectMetrics("top1_lost", "top1_excess", "right_after", "right_before")
"""The share of the subwords asked for that the model found likeliest, and does so no more."""


_KEYS = ("subject", "layer", "item_id", "cluster", "split", "group", "n", "before")


def compute_effects(
    scoring: ScoringContext, method: str, splits: Mapping[str, str], metrics: EffectMetrics = SURPRISAL
) -> pl.DataFrame:
    """Compute the effect of each intervention on each function and group of subwords.

    Returns:
        A row a subject, layer, function and group, with a column a kind of change: how many nats more, or
        right subwords fewer, all its subwords cost together; of several draws of a control the mean, and a
        column each, as ``random 2``.
    """
    rows = (
        scoring.observations.filter((pl.col("what") == "effect") & (pl.col("method") == method))
        .select(
            *("item_id", "subject", "kind", "layer", "group", "n", "before"),
            delta=(pl.col(metrics.minuend) - pl.col(metrics.subtrahend)).cast(pl.Float64),
        )
        .collect()
    )
    effects = (
        join_splits(rows, scoring, splits)
        .group_by(*_KEYS, "kind", maintain_order=True)
        .agg(pl.col("delta").mean())
    )
    control_means = (
        effects.filter(pl.col("kind") != CONTROL)
        .group_by(*_KEYS, kind=CONTROL, maintain_order=True)
        .agg(pl.col("delta").mean())
    )
    kinds = pl.concat([effects, control_means.select(effects.columns)])
    return kinds.pivot("kind", index=list(_KEYS), values="delta").sort(_KEYS)


def join_splits(rows: pl.DataFrame, scoring: ScoringContext, splits: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of functions that have a split, with ``split`` and ``cluster``."""
    split_rows = pl.DataFrame(list(splits.items()), {"item_id": pl.String, "split": pl.String}, orient="row")
    return rows.join(split_rows, on="item_id").join(scoring.items.select("item_id", "cluster"), on="item_id")


def list_controls(effects: pl.DataFrame, kind: str) -> list[str]:
    """Return the controls of an intervention that have effects."""
    names = [name for name in effects.columns if name not in (*_KEYS, kind) and not _parse_draw(name)]
    return [name for name in names if effects[name].is_not_null().any()]


def list_draws(effects: pl.DataFrame, control: str) -> list[str]:
    """Return the columns of the draws of a control that have effects."""
    names = [name for name in effects.columns if _parse_draw(name) == control]
    return [name for name in names if effects[name].is_not_null().any()]


def _parse_draw(column: str) -> str:
    """Return the control whose draw a column holds; empty for other columns."""
    return column.partition(" ")[0] if column.rpartition(" ")[2].isdigit() else ""


def mean_change(
    metric: str, value: pl.Expr, control: str | None, draws: Sequence[pl.Expr] = (), factor: float = 1.0
) -> Mean:
    """Build a mean over subwords."""
    fields = {"control": control}
    return Mean(metric, value, "real", per=pl.col("n"), draws=draws, factor=factor, fields=fields)


def excess_over_control(
    effects: pl.DataFrame, kind: str, control: str, metric: str = EXCESS, metrics: EffectMetrics = SURPRISAL
) -> Mean:
    """Build the mean excess of an effect over that of a control, whose draws differ by seed."""
    draws = [pl.col(kind) - pl.col(name) for name in list_draws(effects, control)]
    return mean_change(metric, pl.col(kind) - pl.col(control), control, draws, metrics.factor)


def effect_means(
    effects: pl.DataFrame,
    kind: str,
    metrics: EffectMetrics = SURPRISAL,
    control_names: Sequence[str] | None = None,
) -> list[Mean]:
    """Build the means of an effect, of its controls' effects, and of the excess over each of them.

    Args:
        effects: See `compute_effects`.
        kind: The kind of intervention.
        metrics: The metrics of the effect.
        control_names: Its controls; None takes every other kind.
    """
    available = list_controls(effects, kind)
    controls = available if control_names is None else [name for name in control_names if name in available]
    draws = {name: [pl.col(column) for column in list_draws(effects, name)] for name in controls}
    return [
        mean_change(metrics.cost, pl.col(kind), None, factor=metrics.factor),
        *(mean_change(metrics.cost, pl.col(name), name, draws[name], metrics.factor) for name in controls),
        *(excess_over_control(effects, kind, name, metrics.excess, metrics) for name in controls),
    ]


def baseline_scores(effects: pl.DataFrame, template: Score) -> list[Score]:
    """Score the surprisal of a subject's subwords without interventions, split by split."""
    # Every layer was changed in the same functions, which are the same before.
    first_layer = effects.filter(pl.col("layer") == pl.col("layer").min())
    metrics = [mean_change(BASELINE, pl.col("before"), None, factor=SURPRISAL.factor)]
    return list(means(first_layer, metrics, template, columns=("split",)))


def layer_scores(
    effects: pl.DataFrame,
    kind: str,
    template: Score,
    metrics: EffectMetrics = SURPRISAL,
    control_names: Sequence[str] = (),
) -> list[Score]:
    """Score one subject by layer, on validation and on test."""
    return list(
        means(
            effects, effect_means(effects, kind, metrics, control_names), template, columns=("split", "layer")
        )
    )


def select_layer(scores: Sequence[Score], noticeable: float) -> int | None:
    """Select the layer that represents a property, on validation.

    Where a change exceeds the dearest of its controls by what is noticeable, it is the layer at which it does
    so the most; where it does so nowhere, the layer at which it costs the most.

    Args:
        scores: Of `layer_scores`, and of `baseline_scores`.
        noticeable: Share of the surprisal that counts.
    """
    valid_scores = [score for score in scores if score.split == "valid"]
    cost = {
        score.layer: score.value for score in valid_scores if score.metric == BITS and score.control is None
    }
    if not cost:
        return None
    excess: dict[int | None, float] = {}
    for score in valid_scores:
        if score.metric == EXCESS:
            excess[score.layer] = min(score.value, excess.get(score.layer, math.inf))
    minimum = noticeable * next((score.value for score in valid_scores if score.metric == BASELINE), math.inf)
    noticeable_excess = {layer: value for layer, value in excess.items() if value >= minimum}
    return max(noticeable_excess or cost, key=lambda layer: (noticeable_excess or cost)[layer])


HIDDEN_SHARE = 0.15
"""Share of the code tokens that a masked model is asked for."""


LONGEST, MAXIMUM_SUBWORDS = 12, 48
"""Subwords of a token, and of all tokens of a function together, that are hidden at most: a long string or
function would leave a short context nothing to see."""


GAPS = 3
"""Gaps of a function that an encoder-decoder fills."""


_SCORES = TokenScores(top_k=1)


def hidden_tokens(prepared_item: Prepared) -> list[tuple[int, ...]]:
    """Sample the code tokens to hide, and return the subwords of each in random order."""
    tokens = prepared_item.tokens
    spans = list(zip(tokens.start.tolist(), tokens.end.tolist(), strict=True))
    if not spans:
        return []
    first, stop = find_overlapping_subwords(spans, prepared_item.alignment.subwords)
    order = sorted(
        range(len(spans)), key=lambda token: unit_hash("hidden", prepared_item.item.item_id, token)
    )
    gaps: list[tuple[int, ...]] = []
    union: set[int] = set()
    for token in order:
        subwords = tuple(range(first[token], stop[token]))
        if 0 < len(subwords) <= min(LONGEST, MAXIMUM_SUBWORDS - len(union)) and not union.intersection(
            subwords
        ):
            gaps.append(subwords)
            union.update(subwords)
    return gaps[: max(1, round(HIDDEN_SHARE * len(spans)))]


def surprisal_requests(
    prepared_items: Sequence[Prepared],
    changes: Mapping[str, tuple[Change, ...]],
    items: frozenset[str],
    requests: tuple[Request, ...] = (_SCORES,),
) -> list[Pass]:
    """Request the surprisal of some items, without and with each intervention.

    Args:
        prepared_items: The items of a job.
        changes: What is changed, by name.
        items: Ids of those that are asked.
        requests: What is asked of each input.
    """
    hidden_by_item = {
        prepared_item.item.item_id: hidden_tokens(prepared_item)
        for prepared_item in prepared_items
        if prepared_item.item.item_id in items
    }
    all_gaps = {item: (tuple(sorted(sum(gaps, ()))),) for item, gaps in hidden_by_item.items() if gaps}
    single_gaps = {item: tuple(gaps[:GAPS]) for item, gaps in hidden_by_item.items()}
    passes: list[Pass] = []
    for kind, variant in (
        ("decoder", Plain()),
        ("encoder", Masked(all_gaps)),
        ("encoder-decoder", Masked(single_gaps)),
    ):
        passes.append(Pass(variant, requests, (kind,), items))
        passes += [
            Pass(Changed(variant, item_changes, name), requests, (kind,), items)
            for name, item_changes in changes.items()
        ]
    return passes


def merge_scores(
    captures: Sequence[ItemCapture], subwords: int
) -> tuple[Float[np.ndarray, " subword"], Bool[np.ndarray, " subword"]]:
    """Merge the scores of captures of one function.

    Returns:
        Surprisal in nats, NaN for the others; and whether the model finds the subword likeliest.
    """
    nats, is_top = np.full(subwords, np.nan), np.zeros(subwords, dtype=np.bool_)
    for capture in captures:
        if capture.scores is not None:
            is_scored = capture.scores.scored
            nats[is_scored], is_top[is_scored] = (
                capture.scores.nats[is_scored],
                capture.scores.rank[is_scored] == 1,
            )
    return nats, is_top


def assign_constructs(prepared_item: Prepared) -> tuple[list[str], Int[np.ndarray, " subword"]]:
    """Assign each subword its keyword, or the innermost construct around it.

    Returns:
        Names, and of each subword the number of its name.
    """
    text, alignment = prepared_item.item.text, prepared_item.alignment
    spans = sorted(
        LANGUAGES.load(prepared_item.tree.language).constructs(prepared_item.tree),
        key=lambda span: span.start - span.end,
    )
    innermost = np.full(len(text) + 1, -1)
    names: dict[str, int] = {}
    for span in spans:
        innermost[span.start : span.end] = names.setdefault(span.label, len(names))
    groups = np.empty(len(alignment.subwords), dtype=np.int64)
    edges = zip(alignment.subwords.start.tolist(), alignment.subwords.end.tolist(), strict=True)
    for position, (start, end) in enumerate(edges):
        word = text[start:end]
        text_start = start + len(word) - len(word.lstrip())
        if not word.strip():
            label = "layout"
        elif alignment.kind[position] == "keyword":
            label = f"`{word.strip()}`"
        else:
            groups[position] = innermost[min(text_start, len(text))]
            if groups[position] >= 0:
                continue
            label = "other"
        groups[position] = names.setdefault(label, len(names))
    return list(names), groups


def group_captures(observed: CapturedItem) -> dict[str, list[ItemCapture]]:
    """Group the captures of a function by the name of the change."""
    captures: dict[str, list[ItemCapture]] = {}
    for capture in observed.captures:
        captures.setdefault(capture.change, []).append(capture)
    return captures


def add_effects(
    rows: RowBuilder,
    item: str,
    fits: Sequence[FittedIntervention],
    captures: Mapping[str, Sequence[ItemCapture]],
    groups: tuple[Sequence[str], Sequence[Int[np.ndarray, " subword"]]],
) -> None:
    """Add the effects of interventions on the surprisal of a function, by group of its subwords.

    Args:
        rows: Where to.
        item: The function.
        fits: The changes.
        captures: Its captures by the name of the change, with nothing changed by an empty one.
        groups: Names of groups, and arrays that give each subword the number of one of them, -1 for none.
    """
    names, arrays = groups
    size = len(arrays[0]) if arrays else 0
    nats_before, is_top_before = merge_scores(captures.get("", ()), size)
    for fit in fits:
        if fit.name not in captures:
            continue
        nats_after, is_top_after = merge_scores(captures[fit.name], size)
        for group in arrays:
            is_known = np.isfinite(nats_before) & np.isfinite(nats_after) & (group >= 0)
            count = np.bincount(group[is_known], minlength=len(names))
            sum_before, sum_after, top_count_before, top_count_after = (
                np.bincount(group[is_known], values[is_known], minlength=len(names))
                for values in (nats_before, nats_after, is_top_before, is_top_after)
            )
            for number in np.flatnonzero(count).tolist():
                rows.add(
                    item_id=item, what="effect", method=fit.method, subject=fit.subject, kind=fit.kind,
                    layer=None if fit.together else fit.layer, group=names[number], n=int(count[number]),
                    before=float(sum_before[number]), after=float(sum_after[number]),
                    right_before=int(top_count_before[number]), right_after=int(top_count_after[number]),
                )  # fmt: skip
