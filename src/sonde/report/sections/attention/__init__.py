"""Sections of the lens `attention`: their title, and the scores and best heads that they show.

The token explorer shows where the best head of each relation leads in single functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import LINK, LINKED, CrossLensNumber, LensTitle, Rows, TokenFindings, TokenLens
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import dimension_value, has_dimension_names, has_dimensions
from sonde.tasks.engine.task import TASKS

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


AVERAGE = has_dimensions({})
"""Scores that are means over relations."""


EDGES = has_dimensions({"average": "edges"})
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


def read_hits(run: RunData, where: pl.Expr | None = None, *, by: str | None = None) -> pl.DataFrame:
    """Shares of edges that are hit, on test, with columns ``predictor`` and ``subject``."""
    rows = run.scores(metrics=list(HITS), lens=LENS, controls=True, where=where, by=by)
    rows = rows.filter(pl.col("split") == "test")
    return add_subject(rows, run).with_columns(predictor=pl.col("control").fill_null(MODEL))


def read_gains(
    run: RunData, over: str, where: pl.Expr | None = None, *, by: str | None = None
) -> pl.DataFrame:
    """How far the best heads are ahead of a control."""
    metrics = [f"{metric}_gain" for metric in HITS]
    rows = run.scores(metrics=metrics, lens=LENS, where=where, by=by)
    rows = rows.filter(pl.col("compared_to") == over)
    return add_subject(rows, run).with_columns(metric=pl.col("metric").str.strip_suffix("_gain"))


def add_subject(rows: pl.DataFrame, run: RunData) -> pl.DataFrame:
    """Rows with whom they are about: model, language and side, where there are several."""
    parts = [run.subject]
    if rows["side"].n_unique() > 1:
        parts.append(pl.col("side"))
    return rows.with_columns(subject=pl.concat_str(parts, separator=", "))


def find_best_heads(run: RunData) -> dict[str, dict[tuple[int, int], list[str]]]:
    """By subject and head (layer, head) the relations that it was chosen for, those with most edges first."""
    rows = read_hits(run, by=RELATION).filter(
        (pl.col("metric") == "first_hit") & (pl.col("k") == 1) & (pl.col("predictor") == MODEL)
    )
    found: dict[str, dict[tuple[int, int], list[str]]] = {}
    for row in rows.sort("n", "label", descending=[True, False]).iter_rows(named=True):
        held = found.setdefault(row["subject"], {})
        held.setdefault((row["layer"], row["head"]), []).append(row["label"])
    return found


def format_head(row: Mapping[str, Any]) -> str:
    """A head as layer and number in the layer, both counted from 0."""
    return f"{row['layer']}.{row['head']}"


def describe_sides(rows: pl.DataFrame) -> list[str]:
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


_STAGE = f"{LENS}.1"


_MOST = 5
"""Tokens kept of those that a token attends to."""


_LEAST = 2.0
"""Per cent of the attention below which a token is not kept."""


def _iterate_tables(run: RunData) -> Iterator[tuple[ModelInfo, pl.LazyFrame]]:
    for model in run.models:
        table = run.table(_STAGE, model)
        if table is not None and {"asked_end", "words"} <= set(table.collect_schema()):
            yield model, table.filter(~pl.col("item_id").str.ends_with(SNIPPET))


def _list_item_ids(run: RunData) -> list[str]:
    ids = [table.select(pl.col("item_id").unique()) for _, table in _iterate_tables(run)]
    return pl.concat(ids).collect()["item_id"].unique().to_list() if ids else []


def _read_findings(run: RunData, items: Sequence[str], characters: int) -> TokenFindings | None:
    rows: dict[str, dict[str, Rows]] = {}
    weights: dict[str, dict[str, dict[str, Rows]]] = {}
    sides: dict[str, str] = {}
    for model, table in _iterate_tables(run):
        held = table.filter(pl.col("item_id").is_in(list(items))).collect()
        edges = held.filter(pl.col("words").is_null() & (pl.col("asked_start") < characters))
        looks = held["side"].unique().to_list()
        sides[model.slug] = "what stands before a word" if looks == ["decoder"] else "the whole text"
        rows[model.slug] = {
            str(item): [_encode_edge(row) for row in part.iter_rows(named=True)]
            for (item,), part in edges.sort("asked_start", "relation")
            .partition_by("item_id", as_dict=True, maintain_order=True)
            .items()
        }
        whole = weights.setdefault(model.slug, {})
        for row in held.filter(pl.col("words").is_not_null()).iter_rows(named=True):
            whole.setdefault(row["item_id"], {})[_encode_head(row)] = list(
                _strongest_weights(row, characters)
            )
    if not rows:
        return None
    return TokenFindings(
        lens=LENS,
        label="Attention",
        kind=LINK,
        columns=LINKED,
        texts=frozenset({"group", "by"}),
        group="relation",
        rows=rows,
        weights=weights,
        alike=sides,
        note=(
            "each relation is shown in the head that does best on other functions; what that head attends to "
            "from every token was kept of a few functions of the random sample"
        ),
    )


def _encode_head(row: Mapping[str, Any]) -> str:
    side = "" if row["side"] in ("encoder", "decoder") else f", {row['side']}"
    return f"head {row['layer']}.{row['head']}{side}"


def _encode_edge(row: Mapping[str, Any]) -> list[Any]:
    return [
        row["asked_start"],
        row["asked_end"],
        row["relation"],
        int(row["hit"]),
        _encode_head(row),
        row["picked_start"],
        row["picked_end"],
        row["expected_start"],
        row["expected_end"],
    ]


def _strongest_weights(row: Mapping[str, Any], characters: int) -> Iterator[list[Any]]:
    """Of each word the words that it attends to most, in per cent of its attention."""
    starts = np.array(row["starts"], np.int64)
    ends = starts + np.array([len(word) for word in row["words"]], np.int64)
    paid = np.frombuffer(row["weights"], np.float16).astype(np.float64).reshape(len(starts), len(starts))
    shares = 100 * np.nan_to_num(paid)
    for word in np.flatnonzero((starts < characters) & (ends > starts)).tolist():
        best = np.argsort(-shares[word], kind="stable")[:_MOST]
        kept = [
            [int(starts[other]), int(ends[other]), round(float(shares[word, other]), 1)]
            for other in best.tolist()
            if shares[word, other] >= _LEAST and ends[other] > starts[other]
        ]
        yield [int(starts[word]), kept]


tokens = TokenLens(known=_list_item_ids, findings=_read_findings)


title = LensTitle(
    name="Attention heads",
    in_float32="attention rows",
    cites=("shen2022codesyntax",),
    joined=CrossLensNumber(
        title="Best head, edges found",
        question=HeadlineMetric(
            subject="The best head",
            measure="edges",
            metrics=("first_hit",),
            where=has_dimension_names(RELATION) & (pl.col("split") == "test") & (pl.col("k") == 1),
        ),
        fact=dimension_value(RELATION),
        constructs=CONSTRUCTS,
        against="the best rule or other control",
        inside=True,
        same="of attention, the relations that it is the head of, each by the head chosen on validation",
    ),
    tokens=tokens,
)
