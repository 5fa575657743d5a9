"""What CodeSyntax's scoring code does otherwise than sonde, each by a name; docs/paper-modes.md says more.

The quirks of its labellers are the languages' own.
"""

from __future__ import annotations

from collections.abc import Mapping

from sonde.capture.requests import RankRules
from sonde.lenses._lens import LensSettings

LATER_WINS = "codesyntax.later_wins"
SELF_COMPETES = "codesyntax.self_competes"
ORACLE = "codesyntax.oracle_heads"
LARGER_HEAD = "codesyntax.larger_head"
FITTED_ON_TEST = "codesyntax.baselines_fitted_on_test"
SELECTED_RELATIONS = "codesyntax.selected_relations"

QUIRKS: Mapping[str, str] = {
    LATER_WINS: "of words with the same attention the later one ranks first; else ties count as misses",
    SELF_COMPETES: "a word ranks among its own candidates, without weight; else it is left out",
    ORACLE: "the best head is chosen on the scored edges, anew for each k; else once on validation",
    LARGER_HEAD: "of heads with the same score the later one is best; else the earlier one",
    FITTED_ON_TEST: "baselines are chosen on the edges that they are scored on; else on validation",
    SELECTED_RELATIONS: "the average is over the relations that the paper's plots keep; else over all",
}


def rules_of(settings: LensSettings) -> RankRules:
    """How words are ranked."""
    quirks = settings.active(QUIRKS)
    return RankRules(LATER_WINS in quirks, SELF_COMPETES in quirks, picks=settings.stage > 0)
