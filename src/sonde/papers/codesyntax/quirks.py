"""Deviations of CodeSyntax's scoring code from the lens `attention`, each from the corrected rule."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Int

from sonde.capture.requests import RankRules
from sonde.lenses.attention.observe import AVERAGED, BASELINES, RANKS
from sonde.lenses.attention.predictors import HEAD_CHOICE, HeadSelection, RelationEdges
from sonde.papers.quirks import build_paper_preset


def later_wins(rules: RankRules) -> RankRules:
    """Rank the later of words with equal attention first."""
    return dataclasses.replace(rules, later_wins=True)


def self_competes(rules: RankRules) -> RankRules:
    """Rank a word among its own candidates."""
    return dataclasses.replace(rules, self_competes=True)


def oracle_heads(choice: HeadSelection) -> HeadSelection:
    """Choose the best head on the scored edges, anew for each k."""
    return dataclasses.replace(choice, usable=_has_test_edges, hits=_count_test_hits, worth=_at_each_k)


def _has_test_edges(relation: RelationEdges) -> bool:
    return bool(relation.edges[relation.test].sum() > 0)


def _count_test_hits(relation: RelationEdges) -> Int[np.ndarray, "metric k head"]:
    return relation.hits[1]


def _at_each_k(hits: Int[np.ndarray, "metric k head"]) -> Int[np.ndarray, "metric k head"]:
    return hits


def larger_head(choice: HeadSelection) -> HeadSelection:
    """Choose the later of heads with equal scores."""
    return dataclasses.replace(choice, best=_last_of_equals)


def _last_of_equals(hits: Int[np.ndarray, "metric k head"]) -> Int[np.ndarray, "metric k"]:
    return hits.shape[2] - 1 - hits[:, :, ::-1].argmax(2)


def baselines_fitted_on_test(
    training_edges: Bool[np.ndarray, " edge"], test_edges: Bool[np.ndarray, " edge"]
) -> Bool[np.ndarray, " edge"]:
    """Choose baselines on the edges on which they are scored."""
    return test_edges


def selected_relations(all_relations: tuple[str, ...], plot_relations: tuple[str, ...]) -> tuple[str, ...]:
    """Average over the relations that the paper's plots keep."""
    return plot_relations


published = build_paper_preset(
    "codesyntax",
    "attention",
    {
        "codesyntax.later_wins": RANKS.quirk(later_wins),
        "codesyntax.self_competes": RANKS.quirk(self_competes),
        "codesyntax.oracle_heads": HEAD_CHOICE.quirk(oracle_heads),
        "codesyntax.larger_head": HEAD_CHOICE.quirk(larger_head),
        "codesyntax.baselines_fitted_on_test": BASELINES.quirk(baselines_fitted_on_test),
        "codesyntax.selected_relations": AVERAGED.quirk(selected_relations),
    },
)
