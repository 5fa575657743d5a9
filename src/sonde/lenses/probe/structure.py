"""Structural probes on the syntax trees of whole functions, beside a chain of neighbours."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from sonde.base.errors import InputError
from sonde.corpora import Item, split
from sonde.languages import LANGUAGES, CodeTokens, Tree
from sonde.lenses._lens import Scoring
from sonde.lenses._states import unpack
from sonde.lenses.probe.fit import BEST
from sonde.lenses.probe.observe import SPAN, looked_at
from sonde.lenses.probe.options import Probing
from sonde.results import Score, left_out, mean_rows
from sonde.results.intervals import Kind

if TYPE_CHECKING:
    from sonde.training.probes.structural import Sentence

TASK = "syntax_tree"
"""The task column of these rows."""

_AT_ONCE = 128

NEIGHBOURS, CEILING = "neighbours", "gold_distances"
"""Controls: a chain of neighbours, and the tree's own distances and depths, above which nothing can come."""

METRICS = ("distance_spearman", "uuas", "depth_spearman")


def structure(scoring: Scoring, options: Probing) -> Iterator[Score]:
    """Rank correlations of distances and depths, and the share of links found, of every layer."""
    template = dataclasses.replace(scoring.template, task=TASK, split="test", pooling=SPAN)
    try:
        yield from _measured(scoring.observations, scoring, options, template)
        for control in scoring.controls:
            own = dataclasses.replace(template, control="random_weights", seed=control.control.seed)
            yield from _measured(control.observations, scoring, options, own)
    except InputError as error:
        yield left_out(template, str(error))


def _measured(
    observations: pl.LazyFrame, scoring: Scoring, options: Probing, template: Score
) -> Iterator[Score]:
    from sonde.training.probes.structural import compare, probe_structure

    texts = _sentences(observations, scoring, options.structural)
    facts = scoring.items.filter(pl.col("item_id").is_in(list(texts))).unique("item_id").sort("item_id")
    items = [
        Item(name, "", language, "function", cluster=cluster)
        for name, language, cluster in facts.select("item_id", "language", "cluster").iter_rows()
    ]
    sides = split(items, seed=template.seed)
    order = [item.item_id for item in items]
    found = probe_structure(
        [texts[item] for item in order], [sides[item] for item in order], device=options.device
    )
    test = [item for item in order if sides[item] == "test"]
    cluster = {item.item_id: item.cluster for item in items}
    clusters = np.unique([cluster[item] for item in test], return_inverse=True)[1]
    chains: list[tuple[float, float, float]] = []
    own_trees: list[tuple[float, float, float]] = []
    for text in (texts[item] for item in test):
        place = np.arange(len(text.depth), dtype=np.float64)
        chains.append(compare(np.abs(place[:, None] - place), place, text))
        own_trees.append(compare(text.distance.astype(np.float64), text.depth.astype(np.float64), text))
    controls = {NEIGHBOURS: np.array(chains), CEILING: np.array(own_trees)}
    for at, metric in enumerate(METRICS):
        values = getattr(found, metric)
        own = dataclasses.replace(template, metric=metric)
        kind: Kind = "unit" if metric == "uuas" else "correlation"
        layers = [{"layer": at} for at in range(len(values))]
        yield from mean_rows(own, values, clusters, layers, kind)
        best = [{"layer": found.best, "dimensions": (BEST,)}]
        yield from mean_rows(own, values[[found.best]], clusters, best, kind)
        for name, measured in controls.items() if template.control is None else ():
            control = dataclasses.replace(own, control=name)
            yield from mean_rows(control, measured[None, :, at], clusters, [{"dimensions": (BEST,)}], kind)


def _sentences(observations: pl.LazyFrame, scoring: Scoring, share: float) -> dict[str, Sentence]:
    """The functions whose code tokens all have a state, and whose code parses."""
    from sonde.training.probes.structural import Sentence, tree_of

    units: Mapping[str, str] = dict(scoring.items.select("item_id", "unit").iter_rows())
    language = LANGUAGES.load(scoring.template.language)
    chosen: dict[str, tuple[Tree, CodeTokens]] = {}
    for item, text in scoring.texts.select("item_id", "text").collect().unique("item_id").iter_rows():
        tree = language.parse(text)
        tokens = language.tokens(tree)
        # A node around interpolations may be several tokens, of which a tree knows one place only.
        whole = not tree.has_error and len(np.unique(tokens.node)) == len(tokens)
        if item in units and whole and looked_at(item, units[item], len(tokens), share):
            chosen[item] = tree, tokens
    found: dict[str, Sentence] = {}
    order = sorted(chosen)
    for begin in range(0, len(order), _AT_ONCE):
        few = order[begin : begin + _AT_ONCE]
        spans = observations.filter((pl.col("pooling") == SPAN) & pl.col("item_id").is_in(few))
        for (item,), rows in spans.collect().partition_by("item_id", as_dict=True).items():
            tree, tokens = chosen[str(item)]
            places = pl.DataFrame({"start": tokens.start, "end": tokens.end}).cast(pl.Int32)
            held = rows.unique(["start", "end"])
            joined = places.join(held, on=["start", "end"], how="left", maintain_order="left")
            if not joined["states"].null_count():
                scale = np.array(joined["scale"].to_list(), dtype=np.float32)
                states = unpack(joined["states"].to_list(), scale)
                found[str(item)] = Sentence(states, *tree_of(tree.parent, tokens.node))
    if not found:
        raise InputError(
            "structural probe: no function is short enough and has every token; raise structural"
        )
    return found
