"""Deviations of CodeSyntax's scoring code from the lens `attention`, each from the corrected rule."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from sonde.lenses.attention.observe import AVERAGED, BASELINES, RANKS
from sonde.lenses.attention.predictors import HEAD_CHOICE, RelationEdges
from sonde.papers.quirks import build_paper_preset, set_fields


def _has_test_edges(relation: RelationEdges) -> bool:
    return bool(relation.edges[relation.test].sum() > 0)


def _count_test_hits(relation: RelationEdges) -> Int[np.ndarray, "metric k head"]:
    return relation.hits[1]


def _at_each_k(hits: Int[np.ndarray, "metric k head"]) -> Int[np.ndarray, "metric k head"]:
    return hits


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
        "codesyntax.later_wins": RANKS.quirk(set_fields(later_wins=True)),
        "codesyntax.self_competes": RANKS.quirk(set_fields(self_competes=True)),
        # The best head is chosen on the scored edges, anew for each k.
        "codesyntax.oracle_heads": HEAD_CHOICE.quirk(
            set_fields(usable=_has_test_edges, hits=_count_test_hits, worth=_at_each_k)
        ),
        "codesyntax.larger_head": HEAD_CHOICE.quirk(set_fields(best=_last_of_equals)),
        "codesyntax.baselines_fitted_on_test": BASELINES.quirk(baselines_fitted_on_test),
        "codesyntax.selected_relations": AVERAGED.quirk(selected_relations),
    },
)
