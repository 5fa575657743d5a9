"""Effects of interventions on surprisal: their measurement, and their excess over controls.

Surprisal is measured with nothing changed and with each change. A decoder is asked for every subword. A
masked model reads the function with 15 % of its code tokens hidden at once, as in its pre-training, and is
asked for these: one forward pass per function and change, where a pseudo-log-likelihood would need one per
subword. An encoder-decoder fills a few gaps of one token each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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


BITS, EXCESS, APART = "bits", "excess", "apart"
"""Metrics: how much surprisal rises a subword; by how much more than with a control; and how much further
that is in one construct than elsewhere (a difference in differences)."""


BEFORE = "bits_before"
"""Metric: surprisal a subword with nothing changed, which says how large a cost is."""


@dataclass(frozen=True, slots=True)
class EffectMetrics:
    """What of a model's answers an effect is told in.

    Attributes:
        own: Metric of what a change costs.
        excess: Metric of how much more that is than with a control.
        less: Column of the item table that is subtracted.
        more: Column that it is subtracted from.
        factor: To the metric's unit.
    """

    own: str
    excess: str
    less: str
    more: str
    factor: float = 1.0


SURPRISAL = EffectMetrics(BITS, EXCESS, "before", "after", 1 / math.log(2))


ANSWERS = EffectMetrics("top1_lost", "top1_excess", "right_after", "right_before")
"""The share of the subwords asked for that the model found likeliest, and does so no more."""


_KEYS = ("subject", "layer", "item_id", "cluster", "split", "group", "n", "before")


def compute_effects(
    scoring: ScoringContext, method: str, splits: Mapping[str, str], of: EffectMetrics = SURPRISAL
) -> pl.DataFrame:
    """What each change did to each function and group of subwords.

    Returns:
        A row a subject, layer, function and group, with a column a kind of change: how many nats more, or
        right subwords fewer, all its subwords cost together; of several draws of a control the mean, and a
        column each, as ``random 2``.
    """
    rows = (
        scoring.observations.filter((pl.col("what") == "effect") & (pl.col("method") == method))
        .select(
            *("item_id", "subject", "kind", "layer", "group", "n", "before"),
            delta=(pl.col(of.more) - pl.col(of.less)).cast(pl.Float64),
        )
        .collect()
    )
    each = (
        join_splits(rows, scoring, splits)
        .group_by(*_KEYS, "kind", maintain_order=True)
        .agg(pl.col("delta").mean())
    )
    mean = (
        each.filter(pl.col("kind") != CONTROL)
        .group_by(*_KEYS, kind=CONTROL, maintain_order=True)
        .agg(pl.col("delta").mean())
    )
    kinds = pl.concat([each, mean.select(each.columns)])
    return kinds.pivot("kind", index=list(_KEYS), values="delta").sort(_KEYS)


def join_splits(rows: pl.DataFrame, scoring: ScoringContext, splits: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows of functions that have a split, with ``split`` and ``cluster``."""
    sides = pl.DataFrame(list(splits.items()), {"item_id": pl.String, "split": pl.String}, orient="row")
    return rows.join(sides, on="item_id").join(scoring.items.select("item_id", "cluster"), on="item_id")


def list_controls(effects: pl.DataFrame, own: str) -> list[str]:
    """The controls that a subject's changes have beside them."""
    held = [name for name in effects.columns if name not in (*_KEYS, own) and not _parse_draw(name)]
    return [name for name in held if effects[name].is_not_null().any()]


def list_draws(effects: pl.DataFrame, control: str) -> list[str]:
    """The columns of a control's draws that a subject's changes have beside them."""
    held = [name for name in effects.columns if _parse_draw(name) == control]
    return [name for name in held if effects[name].is_not_null().any()]


def _parse_draw(column: str) -> str:
    """Of which control a column is a draw; empty for others."""
    return column.partition(" ")[0] if column.rpartition(" ")[2].isdigit() else ""


def mean_change(
    metric: str, value: pl.Expr, control: str | None, draws: Sequence[pl.Expr] = (), factor: float = 1.0
) -> Mean:
    """A mean over subwords."""
    fields = {"control": control}
    return Mean(metric, value, "real", per=pl.col("n"), draws=draws, factor=factor, fields=fields)


def excess_over_control(
    effects: pl.DataFrame, own: str, control: str, metric: str = EXCESS, of: EffectMetrics = SURPRISAL
) -> Mean:
    """By how much an effect exceeds that of a control, whose draws are others with every seed."""
    draws = [pl.col(own) - pl.col(name) for name in list_draws(effects, control)]
    return mean_change(metric, pl.col(own) - pl.col(control), control, draws, of.factor)


def effect_means(
    effects: pl.DataFrame, own: str, of: EffectMetrics = SURPRISAL, among: Sequence[str] | None = None
) -> list[Mean]:
    """The effect, those of the controls, and by how much it exceeds each of them.

    Args:
        effects: See `compute_effects`.
        own: The kind of change.
        of: What of the answers is meant.
        among: Its controls; None takes every other kind.
    """
    held = list_controls(effects, own)
    controls = held if among is None else [name for name in among if name in held]
    drawn = {name: [pl.col(one) for one in list_draws(effects, name)] for name in controls}
    return [
        mean_change(of.own, pl.col(own), None, factor=of.factor),
        *(mean_change(of.own, pl.col(name), name, drawn[name], of.factor) for name in controls),
        *(excess_over_control(effects, own, name, of.excess, of) for name in controls),
    ]


def baseline_scores(effects: pl.DataFrame, template: Score) -> list[Score]:
    """Surprisal of a subject's subwords with nothing changed, of each split."""
    # Every layer was changed in the same functions, which are the same before.
    once = effects.filter(pl.col("layer") == pl.col("layer").min())
    asked = [mean_change(BEFORE, pl.col("before"), None, factor=SURPRISAL.factor)]
    return list(means(once, asked, template, columns=("split",)))


def layer_scores(
    effects: pl.DataFrame, own: str, template: Score, of: EffectMetrics = SURPRISAL, among: Sequence[str] = ()
) -> list[Score]:
    """Every number of one subject by layer, on validation and on test."""
    return list(means(effects, effect_means(effects, own, of, among), template, columns=("split", "layer")))


def select_layer(scores: Sequence[Score], noticeable: float) -> int | None:
    """The layer that speaks for a property, chosen on validation.

    Where a change exceeds the dearest of its controls by what is noticeable, it is the layer at which it does
    so the most; where it does so nowhere, the layer at which it costs the most.

    Args:
        scores: Of `layer_scores`, and of `baseline_scores`.
        noticeable: Share of the surprisal that counts.
    """
    valid = [one for one in scores if one.split == "valid"]
    cost = {one.layer: one.value for one in valid if one.metric == BITS and one.control is None}
    if not cost:
        return None
    beyond: dict[int | None, float] = {}
    for one in valid:
        if one.metric == EXCESS:
            beyond[one.layer] = min(one.value, beyond.get(one.layer, math.inf))
    least = noticeable * next((one.value for one in valid if one.metric == BEFORE), math.inf)
    noticed = {layer: value for layer, value in beyond.items() if value >= least}
    return max(noticed or cost, key=lambda layer: (noticed or cost)[layer])


def best_layer_scores(scores: Sequence[Score], layer: int | None) -> Iterator[Score]:
    """The numbers of the chosen layer on test, said to be of it."""
    for score in scores:
        if score.split == "test" and score.layer == layer:
            yield score.within(BEST)


HIDDEN = 0.15
"""Share of the code tokens that a masked model is asked for."""


LONGEST, MOST = 12, 48
"""Subwords of a token, and of all tokens of a function together, that are hidden at most: a long string or
function would leave a short context nothing to see."""


GAPS = 3
"""Gaps of a function that an encoder-decoder fills."""


_SCORES = TokenScores(top_k=1)


def hidden_tokens(one: Prepared) -> list[tuple[int, ...]]:
    """The subwords of the code tokens that are hidden, in a random order."""
    tokens = one.tokens
    places = list(zip(tokens.start.tolist(), tokens.end.tolist(), strict=True))
    if not places:
        return []
    first, stop = find_overlapping_subwords(places, one.alignment.subwords)
    order = sorted(range(len(places)), key=lambda at: unit_hash("hidden", one.item.item_id, at))
    found: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for at in order:
        own = tuple(range(first[at], stop[at]))
        if 0 < len(own) <= min(LONGEST, MOST - len(taken)) and not taken.intersection(own):
            found.append(own)
            taken.update(own)
    return found[: max(1, round(HIDDEN * len(places)))]


def surprisal_requests(
    prepared: Sequence[Prepared],
    changes: Mapping[str, tuple[Change, ...]],
    items: frozenset[str],
    requests: tuple[Request, ...] = (_SCORES,),
) -> list[Pass]:
    """Passes that ask for the surprisal of some items, once as they are and once with each change.

    Args:
        prepared: The items of a job.
        changes: What is changed, by name.
        items: Ids of those that are asked.
        requests: What is asked of each input.
    """
    hidden = {one.item.item_id: hidden_tokens(one) for one in prepared if one.item.item_id in items}
    together = {item: (tuple(sorted(sum(held, ()))),) for item, held in hidden.items() if held}
    apart = {item: tuple(held[:GAPS]) for item, held in hidden.items()}
    found: list[Pass] = []
    for kind, of in (
        ("decoder", Plain()),
        ("encoder", Masked(together)),
        ("encoder-decoder", Masked(apart)),
    ):
        found.append(Pass(of, requests, (kind,), items))
        found += [Pass(Changed(of, held, name), requests, (kind,), items) for name, held in changes.items()]
    return found


def merge_scores(
    captures: Sequence[ItemCapture], subwords: int
) -> tuple[Float[np.ndarray, " subword"], Bool[np.ndarray, " subword"]]:
    """What the captures say of each subword that one of them has scored.

    Returns:
        Surprisal in nats, NaN for the others; and whether the model finds the subword likeliest.
    """
    nats, right = np.full(subwords, np.nan), np.zeros(subwords, dtype=np.bool_)
    for one in captures:
        if one.scores is not None:
            scored = one.scores.scored
            nats[scored], right[scored] = one.scores.nats[scored], one.scores.rank[scored] == 1
    return nats, right


def assign_constructs(one: Prepared) -> tuple[list[str], Int[np.ndarray, " subword"]]:
    """What each subword belongs to: keywords are by themselves, others by the innermost construct around.

    Returns:
        Names, and of each subword the number of its name.
    """
    text, alignment = one.item.text, one.alignment
    spans = sorted(
        LANGUAGES.load(one.tree.language).constructs(one.tree), key=lambda span: span.start - span.end
    )
    painted = np.full(len(text) + 1, -1)
    names: dict[str, int] = {}
    for span in spans:
        painted[span.start : span.end] = names.setdefault(span.label, len(names))
    found = np.empty(len(alignment.subwords), dtype=np.int64)
    edges = zip(alignment.subwords.start.tolist(), alignment.subwords.end.tolist(), strict=True)
    for at, (start, end) in enumerate(edges):
        word = text[start:end]
        inked = start + len(word) - len(word.lstrip())
        if not word.strip():
            label = "layout"
        elif alignment.kind[at] == "keyword":
            label = f"`{word.strip()}`"
        else:
            found[at] = painted[min(inked, len(text))]
            if found[at] >= 0:
                continue
            label = "other"
        found[at] = names.setdefault(label, len(names))
    return list(names), found


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
    """Add what changes do to the surprisal of a function, by group of its subwords.

    Args:
        rows: Where to.
        item: The function.
        fits: The changes.
        captures: Its captures by the name of the change, with nothing changed by an empty one.
        groups: Names of groups, and arrays that give each subword the number of one of them, -1 for none.
    """
    names, arrays = groups
    size = len(arrays[0]) if arrays else 0
    before, hit = merge_scores(captures.get("", ()), size)
    for one in fits:
        if one.name not in captures:
            continue
        after, hits = merge_scores(captures[one.name], size)
        for group in arrays:
            told = np.isfinite(before) & np.isfinite(after) & (group >= 0)
            count = np.bincount(group[told], minlength=len(names))
            was, now, right, still = (
                np.bincount(group[told], values[told], minlength=len(names))
                for values in (before, after, hit, hits)
            )
            for at in np.flatnonzero(count).tolist():
                rows.add(
                    item_id=item, what="effect", method=one.method, subject=one.subject, kind=one.kind,
                    layer=None if one.together else one.layer, group=names[at], n=int(count[at]),
                    before=float(was[at]), after=float(now[at]),
                    right_before=int(right[at]), right_after=int(still[at]),
                )  # fmt: skip
