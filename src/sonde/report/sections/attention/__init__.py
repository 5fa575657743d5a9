"""Sections of the lens `attention`: their title, and the scores and best heads that they show.

The token explorer shows where the best head of each relation leads in single functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from sonde.report.run_tables import ModelInfo, RunData
from sonde.report.section import (
    LINK,
    LINK_COLUMNS,
    CrossLensNumber,
    LensTitle,
    Rows,
    TokenFindings,
    TokenLens,
)
from sonde.results.headlines import HeadlineMetric
from sonde.results.schema import dimension_value, has_dimension_names, has_dimensions
from sonde.results.tables import Column
from sonde.results.text_format import COUNT
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


LEGEND = {"" if name == MODEL else name: words for name, words in PREDICTORS.items()}
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


RELATION_COLUMN = Column(
    title="Relation", value="label", help="The relation between two words in the syntax."
)


HEAD_COLUMNS = (
    Column(title="Layer", value="layer", format=COUNT, help="Counted from 0, the lowest."),
    Column(title="Head", value="head", format=COUNT, help="Its number in the layer, from 0."),
)


SNIPPET = "-snippet"
"""Ends the id of a snippet that the user gave, which is read beside the items."""


def read_hits(run: RunData, where: pl.Expr | None = None, *, by: str | None = None) -> pl.DataFrame:
    """Read the shares of edges that are hit, on test, with columns ``predictor`` and ``subject``."""
    rows = run.scores(metrics=list(HITS), lens=LENS, controls=True, where=where, by=by)
    rows = rows.filter(pl.col("split") == "test")
    return add_subject(rows, run).with_columns(predictor=pl.col("control").fill_null(MODEL))


def read_gains(run: RunData, where: pl.Expr | None = None, *, by: str | None = None) -> pl.DataFrame:
    """Read how far the best heads are ahead of both rules at the first try, or else of an offset."""
    rows = run.scores(metrics=[f"{metric}_gain" for metric in HITS], lens=LENS, where=where, by=by)
    combined, offset = (rows.filter(pl.col("compared_to") == name) for name in ("combined", "offset"))
    gains = add_subject(combined if combined.height else offset, run).filter(pl.col("k") == 1)
    return gains.with_columns(metric=pl.col("metric").str.strip_suffix("_gain"))


def add_subject(rows: pl.DataFrame, run: RunData) -> pl.DataFrame:
    """Add whom rows are about as ``subject``: model, language and side, where there are several."""
    parts = [run.subject]
    if rows["side"].n_unique() > 1:
        parts.append(pl.col("side"))
    return rows.with_columns(subject=pl.concat_str(parts, separator=", "))


def find_best_heads(run: RunData) -> dict[str, dict[tuple[int, int], list[str]]]:
    """Find the relations that each head (layer, head) of a subject was chosen for, most edges first."""
    rows = read_hits(run, by=RELATION).filter(metric="first_hit", k=1, predictor=MODEL)
    relations: dict[str, dict[tuple[int, int], list[str]]] = {}
    for row in rows.sort("n", "label", descending=[True, False]).iter_rows(named=True):
        by_head = relations.setdefault(row["subject"], {})
        by_head.setdefault((row["layer"], row["head"]), []).append(row["label"])
    return relations


def format_head(row: Mapping[str, Any]) -> str:
    """Format a head as layer and number in the layer, both counted from 0."""
    return f"{row['layer']}.{row['head']}"


SIDES = {
    "decoder": (
        "A word of a decoder sees only the text before it, so dependents are asked for their head. Do not "
        "compare scores of a decoder with those of an encoder."
    ),
    "cross": "Cross-attention goes from the decoder's words to the encoder's.",
}
"""What the sides of models can see."""


STAGE = f"{LENS}.1"
"""Observations of the second stage, which reads single edges."""


_TARGETS = 5
"""Tokens shown of those that a token attends to."""


_MIN_PERCENT = 2.0
"""Per cent of the attention below which a token is not shown."""


def _iterate_tables(run: RunData) -> Iterator[tuple[ModelInfo, pl.LazyFrame]]:
    for model in run.models:
        table = run.table(STAGE, model)
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
        observations = table.filter(pl.col("item_id").is_in(list(items))).collect()
        edges = observations.filter(pl.col("words").is_null() & (pl.col("asked_start") < characters))
        is_decoder = observations["side"].unique().to_list() == ["decoder"]
        sides[model.slug] = "the text before a word" if is_decoder else "the whole text"
        rows[model.slug] = {
            str(item): [_encode_edge(row) for row in part.iter_rows(named=True)]
            for (item,), part in edges.sort("asked_start", "relation")
            .partition_by("item_id", as_dict=True, maintain_order=True)
            .items()
        }
        by_item = weights.setdefault(model.slug, {})
        for row in observations.filter(pl.col("words").is_not_null()).iter_rows(named=True):
            head_weights = list(_strongest_weights(row, characters))
            by_item.setdefault(row["item_id"], {})[_encode_head(row)] = head_weights
    if not rows:
        return None
    return TokenFindings(
        lens=LENS,
        label="Attention",
        kind=LINK,
        columns=LINK_COLUMNS,
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
    ends = [row[name] for name in ("picked_start", "picked_end", "expected_start", "expected_end")]
    edge = [row["asked_start"], row["asked_end"], row["relation"], int(row["hit"])]
    return [*edge, _encode_head(row), *ends]


def _strongest_weights(row: Mapping[str, Any], characters: int) -> Iterator[list[Any]]:
    """Yield for each word the words that it attends to most, in per cent of its attention."""
    starts = np.array(row["starts"], np.int64)
    ends = starts + np.array([len(word) for word in row["words"]], np.int64)
    weights = np.frombuffer(row["weights"], np.float16).astype(np.float64).reshape(len(starts), len(starts))
    shares = 100 * np.nan_to_num(weights)
    for word in np.flatnonzero((starts < characters) & (ends > starts)).tolist():
        best = np.argsort(-shares[word], kind="stable")[:_TARGETS]
        targets = [
            [int(starts[target]), int(ends[target]), round(float(shares[word, target]), 1)]
            for target in best.tolist()
            if shares[word, target] >= _MIN_PERCENT and ends[target] > starts[target]
        ]
        yield [int(starts[word]), targets]


title = LensTitle(
    name="Attention heads",
    question="Do attention heads follow syntax? Each word is asked for the one that it belongs to.",
    counts={"": "edge", "sink_first": "function", "sink_separator": "function", "items": "function"},
    in_float32="attention rows",
    cites=("shen2022codesyntax",),
    cross_lens=CrossLensNumber(
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
    tokens=TokenLens(known=_list_item_ids, findings=_read_findings),
)
