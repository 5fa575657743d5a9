"""The scores of the attention lens as its sections read them: who predicts, of which relation, at which k."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from sonde.report._shared.run import RunData
from sonde.results.dimensions import dimensions_are
from sonde.tasks import TASKS

LENS = "attention"
MODEL = "heads"

HITS = {"first_hit": "first word", "any_hit": "any word", "last_hit": "last word"}
"""Metrics, as a reader knows them."""

PREDICTORS = {
    MODEL: "best head",
    "one_head": "one head for all relations",
    "offset": "offset",
    "keyword": "keyword",
    "combined": "offset or keyword",
    "longest": "longest word",
    "chance": "chance",
    "random_weights": "best head, random weights",
}
"""Controls beside the model itself, in the order in which they are shown."""

MEANT = {"" if name == MODEL else name: words for name, words in PREDICTORS.items()}
"""The same by the name of the control, the model's own heads under the empty name."""

SHOWN_K = (1, 3, 10, 20)
"""As in tables 3 to 5 of the paper."""

RELATION = "relation"
"""Dimension of the scores of one relation."""

DISTANCE = "distance"
"""Dimension of near and far relations."""

FOLLOWED = "followed"
"""Dimension of the scores of one head: the relation that it follows best."""

AVERAGE = dimensions_are({})
"""Scores that are means over relations."""

EDGES = dimensions_are({"average": "edges"})
"""Scores over all edges with equal weight."""

BY_HEAD = "by_head"
"""Dimension of the scores of any head: the relation whose edges it finds."""

_CONSTRUCTS = {
    "assignment": ("Assign", "AugAssign"),
    "attribute_access": ("Attribute",),
    "branch": ("If", "IfExp", "Switch"),
    "call": ("Call",),
    "collection": ("Dict",),
    "comprehension": ("DictComp", "GeneratorExp", "ListComp", "SetComp", "comprehension"),
    "exception_handling": ("Try",),
    "loop": ("Do", "For", "While"),
    "operator_expression": ("BinOp", "BoolOp", "Compare", "InfixExpr", "InstanceofExpr"),
    "resource": ("With",),
    "subscript": ("Slice", "Subscript"),
}
"""Constructs that all languages share, with the nodes that relations of CodeSyntax begin with."""

_BY_NODE = {node: construct for construct, nodes in _CONSTRUCTS.items() for node in nodes}

CONSTRUCTS = {
    relation: (_BY_NODE[node],)
    for relation in TASKS.load("syntax_relations").labels
    if (node := relation.partition(":")[0]) in _BY_NODE
}
"""The construct of each relation; those between any two neighbours in the tree have none."""

SNIPPET = "-snippet"
"""Ends the id of a snippet that the user gave, which is read beside the items."""


def hits(run: RunData, where: pl.Expr | None = None, *, by: str | None = None) -> pl.DataFrame:
    """Shares of edges that are hit, on test, with columns ``predictor`` and ``subject``."""
    rows = run.scores(metrics=list(HITS), lens=LENS, controls=True, where=where, by=by)
    rows = rows.filter(pl.col("split") == "test")
    return with_subject(rows, run).with_columns(predictor=pl.col("control").fill_null(MODEL))


def gains(run: RunData, over: str, where: pl.Expr | None = None, *, by: str | None = None) -> pl.DataFrame:
    """How far the best heads are ahead of a control."""
    metrics = [f"{metric}_gain" for metric in HITS]
    rows = run.scores(metrics=metrics, lens=LENS, where=where, by=by)
    rows = rows.filter(pl.col("compared_to") == over)
    return with_subject(rows, run).with_columns(metric=pl.col("metric").str.strip_suffix("_gain"))


def with_subject(rows: pl.DataFrame, run: RunData) -> pl.DataFrame:
    """Rows with whom they are about: model, language and side, where there are several."""
    parts = [run.subject]
    if rows["side"].n_unique() > 1:
        parts.append(pl.col("side"))
    return rows.with_columns(subject=pl.concat_str(parts, separator=", "))


def best_of(run: RunData) -> dict[str, dict[tuple[int, int], list[str]]]:
    """By subject and head (layer, head) the relations that it was chosen for, those with most edges first."""
    rows = hits(run, by=RELATION).filter(
        (pl.col("metric") == "first_hit") & (pl.col("k") == 1) & (pl.col("predictor") == MODEL)
    )
    found: dict[str, dict[tuple[int, int], list[str]]] = {}
    for row in rows.sort("n", "label", descending=[True, False]).iter_rows(named=True):
        held = found.setdefault(row["subject"], {})
        held.setdefault((row["layer"], row["head"]), []).append(row["label"])
    return found


def head_name(row: Mapping[str, Any]) -> str:
    """A head as layer and number in the layer, both counted from 0."""
    return f"{row['layer']}.{row['head']}"


def sides_note(rows: pl.DataFrame) -> list[str]:
    """What the sides of the models in these rows can see."""
    notes = {
        "decoder": (
            "A decoder's word sees only what stands before it: there the dependent's words are asked for the "
            "head, and its scores are not to be ranked beside those of an encoder."
        ),
        "cross": "Cross-attention is asked from the decoder's words to the encoder's.",
    }
    present = set(rows["side"].to_list())
    return [note for side, note in notes.items() if side in present]
