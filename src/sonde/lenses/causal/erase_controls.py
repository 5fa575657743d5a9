"""Erase, last stage: each property at the layer chosen for it, beside all draws of its controls, on test."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from sonde.capture.requests import Changed, ItemCapture, Pass, Plain, Prepared, WordAttention
from sonde.lenses.causal.ablate import HEADS, edges_of, lookups_of
from sonde.lenses.causal.ablate import NAME as ABLATE
from sonde.lenses.causal.effects import (
    ANSWERS,
    APART,
    BEST,
    SURPRISAL,
    EffectMetrics,
    add_effects,
    asked_of,
    asking,
    constructs_of,
    effects_of,
    excess_of,
)
from sonde.lenses.causal.erase import (
    ERASED,
    ERASED_PROPERTY,
    AppliedPlaces,
    add_behind,
    applied_places,
    by_change,
    changes_of,
    cross_fitted,
    place_states,
    places_read,
    states_behind,
)
from sonde.lenses.causal.erase_maps import (
    LEACE,
    NAME,
    PERMUTED,
    PERMUTED_SURFACE,
    SURFACE,
    UNIFORM,
    WIDE,
    controls,
    draw,
)
from sonde.lenses.causal.interventions import CONTROL, Fits, FittedChange, Rows
from sonde.lenses.causal.properties import PropertyExamples, subjects
from sonde.lenses.engine.lens import Captured, LensSettings, Scoring
from sonde.results import Mean, Score, mean_differences, mean_rows, means, trained_rows
from sonde.training.erasure import Eraser, overlap_of

HIT = "hit"
"""What rows of it are."""


LOST, EXCESS = "hits_lost", "hits_excess"
"""Metrics: the share of edges that heads hit with nothing changed less that with something erased; and by how
much more that is than with a subspace as wide."""


RELATION = "relation"


FEWEST_EDGES = 30
"""Edges of a relation below which nothing is said of it."""


def followed(fits: Fits) -> dict[str, tuple[int, int]]:
    """The layer and head that follow each relation."""
    return {
        one.subject: (one.layer, one.heads[0])
        for one in fits.of(ABLATE)
        if one.kind == HEADS and not one.together
    }


def request(
    fits: Fits, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame]
) -> WordAttention | None:
    """The attention along the edges of relations that heads follow; None where there is nothing to ask."""
    heads, edges = followed(fits), edges_of(labels)
    found = {
        one.item.item_id: held[0]
        for one in prepared
        if one.item.item_id in fits.measured and (held := lookups_of(one, edges.get(one.item.item_id, ())))
    }
    return WordAttention(found) if heads and found else None


def lies_before(change: FittedChange, fits: Fits) -> bool:
    """Whether a head that follows a relation reads states behind a change."""
    return any(layer >= change.layer for layer, _ in followed(fits).values())


def add_hits(
    rows: Rows,
    item: str,
    relations: Sequence[str],
    captures: Sequence[ItemCapture],
    heads: Mapping[str, tuple[int, int]],
    change: FittedChange | None,
) -> None:
    """Add how many edges of each relation its head hits.

    Args:
        rows: Where to.
        item: The function.
        relations: Of each of its edges that was looked up.
        captures: Of the function with the change.
        heads: The layer and head that follow each relation.
        change: What was changed; None for nothing.
    """
    words = next((words for held in captures if (words := held.words)), {})
    side = words.get("encoder") or words.get("decoder")
    if side is None:
        return
    about: dict[str, object] = {}
    if change is not None:
        about = {
            "method": change.method, "subject": change.subject, "kind": change.kind, "layer": change.layer,
        }  # fmt: skip
    for relation, (layer, head) in heads.items():
        mine = [at for at, name in enumerate(relations) if name == relation]
        if mine and (change is None or layer >= change.layer):
            hits = int((side.ranks[layer, head, mine, 0] == 1).sum())
            rows.add(item_id=item, what=HIT, group=relation, n=len(mine), hits=hits, **about)


def score_downstream_heads(
    scoring: Scoring, task: str, own: str, splits: Mapping[str, str], template: Score
) -> Iterator[Score]:
    """What is lost of the edges of all relations by layer, and of each relation at each layer, on test.

    Args:
        scoring: With the rows of `add_hits`.
        task: The property that is erased.
        own: The kind of its change.
        splits: Of the functions.
        template: What the scores share.
    """
    test = [item for item, side in splits.items() if side == "test"]
    rows = (
        scoring.observations.filter(
            (pl.col("what") == HIT) & pl.col("item_id").is_in(pl.Series(test, dtype=pl.String).implode())
        )
        .collect()
        .join(scoring.items.select("item_id", "cluster"), on="item_id")
    )
    plain = rows.filter(pl.col("method").is_null()).select("item_id", "group", before="hits")
    changed = rows.filter(pl.col("subject") == task).with_columns(kind=CONTROL)
    if plain.is_empty() or changed.is_empty():
        return
    keys = ["item_id", "cluster", "group", "layer", "n"]
    both = changed.pivot("kind", index=keys, values="hits").join(plain, on=["item_id", "group"])
    controls = [name for name in both.columns if name not in (*keys, "before", own)]
    asked = [_lost(own, None), *(_lost(name, name) for name in controls)]
    asked += [_mean(EXCESS, pl.col(name) - pl.col(own), name) for name in controls]
    yield from means(both, asked, template, columns=("layer",))
    yield from means(
        both, asked, template, by={RELATION: pl.col("group")}, columns=("layer",), minimum=FEWEST_EDGES,
        counted=pl.col("n"),
    )  # fmt: skip


def _lost(kind: str, control: str | None) -> Mean:
    return _mean(LOST, pl.col("before") - pl.col(kind), control)


def _mean(metric: str, value: pl.Expr, control: str | None) -> Mean:
    return Mean(metric, value, "real", per=pl.col("n"), fields={"control": control})


WITH = "with"
"""Dimension: what labels of functions are erased together with."""


OVERLAP, REALISED = "overlap", "realised_change"
"""Metrics of subspaces: mean squared canonical correlation of two draws, and mean squared change of states at
the places where the map is applied, over that of the property's own map."""


MOVED = "moved"
"""What rows of squared changes are."""


READ = (LEACE, draw(WIDE))
"""Kinds behind which states and heads are read."""


FEWEST = 30
"""Subwords of a construct, on validation and on test, below which nothing is said of it."""


def second_passes(
    fits: Fits, prepared: Sequence[Prepared], labels: Mapping[str, pl.DataFrame], settings: LensSettings
) -> list[Pass]:
    """Surprisal of measured functions with every draw, and what is left behind an erasure."""
    changes = changes_of(fits, prepared, labels)
    sides = {
        side: frozenset(item for item in fits.measured if fits.splits[item] == side)
        for side in ("valid", "test")
    }
    found = asking(prepared, changes, sides["test"])
    # Where an erasure costs the most is chosen on validation.
    where = {one.name: changes[one.name] for one in fits.of(NAME) if one.name in changes and _locates(one)}
    found += asking(prepared, where, sides["valid"])
    found.append(places_read(fits, prepared, changes, tuple(sorted({one.layer for one in fits.of(NAME)}))))
    attention = request(fits, prepared, labels)
    if attention is not None:
        found.append(Pass(Plain(), (attention,), items=fits.measured))
    behind = states_behind(fits, prepared, labels)
    for one in fits.of(NAME):
        if one.kind in READ and one.name in changes:
            held = Changed(Plain(), changes[one.name], one.name)
            if attention is not None and lies_before(one, fits):
                found.append(Pass(held, (attention,), items=fits.measured))
            found.append(Pass(held, (behind,), items=fits.unfitted))
    return found


def _locates(one: FittedChange) -> bool:
    """Whether a change has a part in choosing the construct where a property costs the most."""
    return one.control in (LEACE, WIDE)


def second_rows(
    fits: Fits,
    observed: Sequence[Captured],
    labels: Mapping[str, pl.DataFrame],
    settings: LensSettings,
    rows: Rows,
) -> None:
    """Add what changed, how far states moved, and states and heads behind changes."""
    edges, heads = edges_of(labels), followed(fits)
    changes = changes_of(fits, [one.prepared for one in observed], labels)
    read = [one for one in fits.of(NAME) if one.kind in READ]
    for one in observed:
        item, held = one.prepared.item.item_id, by_change(one)
        add_behind(rows, one.prepared, held, read, labels)
        if item not in fits.measured:
            continue
        asked = lookups_of(one.prepared, edges.get(item, ())) if heads else None
        for made in (None, *read) if asked else ():
            captures = held.get("" if made is None else made.name, [])
            add_hits(rows, item, asked[1] if asked else (), captures, heads, made)
        names, group = constructs_of(one.prepared)
        add_effects(rows, item, fits.of(NAME), held, (names, [group]))
        _add_moved(rows, item, applied_places(one.prepared, changes, fits), held.get("", ()), fits)


def _add_moved(
    rows: Rows,
    item: str,
    places: Mapping[str, AppliedPlaces],
    captures: Sequence[ItemCapture],
    fits: Fits,
) -> None:
    """Add by how much maps move the states of a function where they are applied."""
    states, layers = place_states(places, captures), sorted({one.layer for one in fits.of(NAME)})
    for made in fits.of(NAME):
        if made.subject not in states or made.control not in (LEACE, UNIFORM, WIDE):
            continue
        assert made.eraser is not None
        own, held = places[made.subject], states[made.subject][layers.index(made.layer)].astype(np.float64)
        moved = float(((held - made.eraser(held)) ** 2).sum()) * own.total / len(own.read)
        rows.add(
            item_id=item, what=MOVED, method=NAME, subject=made.subject, kind=made.kind, layer=made.layer,
            n=own.total, after=moved,
        )  # fmt: skip


def score(fits: Fits, scoring: Scoring) -> Iterator[Score]:
    """Every number of the properties that are held against all draws of their controls."""
    effects, answers = (effects_of(scoring, NAME, fits.splits, of) for of in (SURPRISAL, ANSWERS))
    rows = scoring.observations.filter(pl.col("what").is_in(["mean", "token"])).collect()
    texts = dict(scoring.texts.collect().iter_rows())
    examples = {
        task: PropertyExamples.of(task, scoring, fits.splits, texts) for task in subjects(scoring.labels)
    }
    for made in (one for one in fits.of(NAME) if one.kind == LEACE):
        task, layer = made.subject, made.layer
        template = dataclasses.replace(
            scoring.template, task=task, split="test", method=NAME, layer=layer, dimensions=(BEST,)
        )
        mine = effects.filter(pl.col("subject") == task)
        if mine.is_empty():
            continue
        yield from _beyond(mine, template, SURPRISAL)
        yield from _beyond(answers.filter(pl.col("subject") == task), template, ANSWERS)
        yield from _with_surface(mine, template)
        plain = dataclasses.replace(template, dimensions=())
        yield from _constructs(mine, plain)
        yield from _subspaces(fits, scoring, task, template)
        yield from score_downstream_heads(scoring, task, LEACE, fits.splits, plain)
        behind = rows.filter((pl.col("subject") == task) & (pl.col("layer") == layer))
        for other, held in examples.items():
            if other != task:
                own = dataclasses.replace(plain, task=other).within(
                    (ERASED, str(layer)), (ERASED_PROPERTY, task)
                )
                yield from _others(behind, held, own, layer)


def _beyond(effects: pl.DataFrame, template: Score, of: EffectMetrics) -> Iterator[Score]:
    """What each control costs on test, and by how much the property exceeds it."""
    test = effects.filter(pl.col("split") == "test")
    # What the property costs alone is known of every layer, this one among them.
    _, *asked = asked_of(test, LEACE, of, controls(template.task))
    yield from means(test, asked, template)


def _with_surface(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """What labels of functions cost together with the surface, and beyond labels in another order with it."""
    test = effects.filter(pl.col("split") == "test")
    if SURFACE in test.columns and test[SURFACE].is_not_null().any():
        asked = [
            dataclasses.replace(one, fields={"control": PERMUTED if one.fields["control"] else None})
            for one in asked_of(test, SURFACE, among=(PERMUTED_SURFACE,))
        ]
        yield from means(test, asked, template.within((WITH, SURFACE)))


def _constructs(effects: pl.DataFrame, template: Score) -> Iterator[Score]:
    """By construct on test; and how much further it is where the effect is largest on validation."""
    excess = [excess_of(effects, LEACE, WIDE)]
    sides = {side: effects.filter(pl.col("split") == side) for side in ("valid", "test")}
    if WIDE not in effects.columns:
        return
    by = {"construct": pl.col("group")}
    counted = pl.col("n")
    test = sides["test"]
    asked = asked_of(test, LEACE, among=(WIDE,))
    yield from means(test, asked, template, by=by, minimum=FEWEST, counted=counted)
    valid = list(means(sides["valid"], excess, template, by=by, minimum=FEWEST, counted=counted))
    if not valid:
        return
    largest = dict(max(valid, key=lambda score: score.value).dimensions)["construct"]
    where = pl.when(pl.col("group") == largest).then(pl.lit("here")).otherwise(pl.lit("elsewhere"))
    apart = [excess_of(effects, LEACE, WIDE, APART)]
    of = template.within(BEST, ("construct", largest))
    yield from mean_differences(test.with_columns(where=where), apart, of, ("where", "here", "elsewhere"))


def _subspaces(fits: Fits, scoring: Scoring, task: str, template: Score) -> Iterator[Score]:
    """How alike the draws of subspaces are, and how far they move states compared with the property's map."""
    moved = (
        scoring.observations.filter((pl.col("what") == MOVED) & (pl.col("subject") == task))
        .select("item_id", "kind", "after").collect()
        .with_columns(control=CONTROL)
        .group_by("item_id", "control", maintain_order=True).agg(pl.col("after").mean())
        .join(scoring.items.select("item_id", "cluster"), on="item_id")
        .pivot("control", index=["item_id", "cluster"], values="after").sort("item_id")
    )  # fmt: skip
    for kind in (UNIFORM, WIDE):
        held = [
            _widened(one.eraser)
            for one in fits.of(NAME)
            if one.subject == task and one.control == kind and one.eraser is not None
        ]
        if not held:
            continue
        own = dataclasses.replace(template, control=kind)
        yield dataclasses.replace(own, metric=OVERLAP, value=overlap_of(held), n=len(held), n_clusters=0)
        if kind in moved.columns:
            fields = {"control": kind}
            ratio = Mean(REALISED, pl.col(kind), "nonnegative", per=pl.col(LEACE), fields=fields)
            for one in means(moved, [ratio], template):
                # What is counted are functions, not what their states are moved by.
                yield dataclasses.replace(one, n=moved.height, contributions=None)


def _widened(one: Eraser) -> Eraser:
    return Eraser(one.down.astype(np.float64), one.up.astype(np.float64), one.centre)


def _others(behind: pl.DataFrame, examples: PropertyExamples, template: Score, layer: int) -> Iterator[Score]:
    """What new probes find of another property behind an erasure, less than behind a subspace as wide."""
    found = [cross_fitted(behind.filter(pl.col("kind") == kind), examples, template.seed) for kind in READ]
    if any(one is None for one in found):
        return
    (gold, clusters, own), (_, _, beside) = (one for one in found if one is not None)
    accuracy = dataclasses.replace(template, metric="accuracy")
    fields = [{"layer": layer + later} for later in range(len(own))]
    yield from mean_rows(accuracy, own == gold, clusters, fields)
    yield from mean_rows(dataclasses.replace(accuracy, control=WIDE), beside == gold, clusters, fields)
    for later, (mine, theirs) in enumerate(zip(own, beside, strict=True)):
        gain = dataclasses.replace(template, metric="gain", control=WIDE, layer=layer + later)
        yield from trained_rows(gain, mine == gold, clusters, less=theirs == gold)
