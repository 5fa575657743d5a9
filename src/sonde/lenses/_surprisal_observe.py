"""The item table of the surprisal lens: one row a scored subword, with all that is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np
import polars as pl
import pyarrow as pa
from jaxtyping import Int

from sonde.alignment.quirks import QUIRKS as TAG_QUIRKS
from sonde.alignment.quirks import quirky_tags
from sonde.capture.requests import Prepared, ScoredSubwords
from sonde.corpora import Tag
from sonde.languages import LANGUAGES, Tree
from sonde.lenses._surprisal_calls import CallColumns, call_columns
from sonde.lenses._surprisal_spans import Pieces, innermost, touched
from sonde.stats.observations import OBSERVATIONS_SCHEMA

SHIFT = "perplexed.shift"
FIRST_UNSCORED = "perplexed.first_unscored"


def observe_item(
    prepared: Prepared,
    scores: ScoredSubwords,
    labels: Mapping[str, pl.DataFrame],
    quirks: Set[str],
    surfaces: Sequence[str],
) -> pl.DataFrame:
    """The rows of one item in `OBSERVATIONS_SCHEMA`.

    Args:
        prepared: The item with tree, tokens and alignment.
        scores: What the model said, one row a subword.
        labels: Label rows of the tasks of the lens.
        quirks: Those of the published code that are on.
        surfaces: Readable surface of each vocabulary id.
    """
    item, alignment = prepared.item, prepared.alignment
    subwords, layout = alignment.subwords, alignment.layout
    pieces = Pieces.of(item.text, subwords.start, subwords.end)
    calls = call_columns(labels, pieces, quirks)
    calls = CallColumns(*(_without(layout, column) for column in (calls.origin, calls.part, calls.form)))
    tags = alignment.tag
    if quirks & TAG_QUIRKS.keys():
        tags = quirky_tags(subwords, prepared.tree, quirks & TAG_QUIRKS.keys())
    if SHIFT in quirks:
        tags, calls = _filed_under_previous(tags), _calls_of_previous(calls)
    size = len(subwords)
    columns = {
        "item_id": [item.item_id] * size,
        "file": [item.path] * size,
        "cluster": [item.cluster] * size,
        "language": [item.language] * size,
        "position": np.arange(size),
        "start": subwords.start,
        "end": subwords.end,
        "subword": subwords.surface,
        "subword_id": subwords.ids,
        "nats": scores.nats,
        "rank": scores.rank,
        "entropy": scores.entropy,
        "context": scores.context,
        "bytes": subwords.bytes,
        "kind": alignment.kind,
        "role": alignment.role,
        "tag": tags,
        "merged": alignment.last - alignment.first,
        "token": np.where(layout, -1, alignment.first),
        "word": _words(prepared),
        "construct": _without(layout, _constructs(prepared, pieces)),
        "ancestors": _ancestors(prepared.tree, alignment.node, alignment.last - alignment.first > 1),
        "origin": calls.origin,
        "origin_part": calls.part,
        "call_form": calls.form,
        "user_tag": _without(layout, _user_tags(item.tags, pieces)),
    }
    kept = np.flatnonzero(_kept(scores, quirks))
    series = [_column(name, values, kept) for name, values in columns.items()]
    return pl.DataFrame([*series, *alternatives(scores, kept, surfaces)])


def _column(name: str, values: Sequence[str] | np.ndarray, kept: Int[np.ndarray, " row"]) -> pl.Series:
    column = pl.Series(name, values, dtype=OBSERVATIONS_SCHEMA[name])
    return column if len(kept) == len(column) else column.gather(kept)


def _kept(scores: ScoredSubwords, quirks: Set[str]) -> np.ndarray:
    if FIRST_UNSCORED not in quirks:
        return scores.scored
    # Where a later window had to be opened, the model saw less than everything before the piece.
    positions = np.arange(len(scores.scored))
    return scores.scored & (positions > 0) & (scores.context == positions)


def _filed_under_previous(values: Sequence[str]) -> list[str]:
    return ["", *values[:-1]] if values else []


def _calls_of_previous(calls: CallColumns) -> CallColumns:
    return CallColumns(*(_filed_under_previous(column) for column in (calls.origin, calls.part, calls.form)))


def _without(layout: np.ndarray, values: Sequence[str]) -> list[str]:
    return ["" if blank else value for blank, value in zip(layout.tolist(), values, strict=True)]


def _words(prepared: Prepared) -> list[str]:
    text, alignment, tokens = prepared.item.text, prepared.alignment, prepared.tokens
    starts, ends = tokens.start.tolist(), tokens.end.tolist()
    return [
        text[starts[first] : ends[first]] if last - first == 1 else ""
        for first, last in zip(alignment.first.tolist(), alignment.last.tolist(), strict=True)
    ]


def _constructs(prepared: Prepared, pieces: Pieces) -> list[str]:
    found = LANGUAGES.load(prepared.tree.language).constructs(prepared.tree)
    labels = [construct.label for construct in found] + [""]
    start = np.fromiter((construct.start for construct in found), np.int32, len(found))
    end = np.fromiter((construct.end for construct in found), np.int32, len(found))
    return [labels[span] for span in innermost(start, end, pieces).tolist()]


def _ancestors(tree: Tree, nodes: Int[np.ndarray, " piece"], holds_several: np.ndarray) -> list[str]:
    """Distinct kinds above each piece, outermost first; the node of a merged piece is above it already."""
    paths: dict[int, tuple[str, ...]] = {-1: ()}

    def path(node: int) -> tuple[str, ...]:
        below: list[int] = []
        while node not in paths:
            below.append(node)
            node = int(tree.parent[node])
        found = paths[node]
        for row in reversed(below):
            kind = tree.kind_name(row)
            found = paths[row] = found if kind in found else (*found, kind)
        return found

    joined: dict[int, str] = {-1: ""}
    above = np.where(holds_several, nodes, np.append(tree.parent, -1)[nodes]).tolist()
    for node in set(above):
        joined[node] = "/".join(path(node))
    return [joined[node] for node in above]


def _user_tags(tags: Sequence[Tag], pieces: Pieces) -> list[str]:
    found: list[list[str]] = [[] for _ in range(len(pieces.start))]
    for tag in sorted(tags, key=lambda tag: (tag.start, tag.end, tag.label)):
        for piece in np.flatnonzero(touched(tag.start, tag.end, pieces)).tolist():
            if tag.label not in found[piece]:
                found[piece].append(tag.label)
    return ["|".join(labels) for labels in found]


def alternatives(
    scores: ScoredSubwords, rows: Int[np.ndarray, " row"], surfaces: Sequence[str]
) -> tuple[pl.Series, pl.Series]:
    """The columns ``top`` and ``top_nats`` of some rows of scores."""
    ids, nats = scores.top_ids[rows], scores.top_nats[rows]
    borders = pa.array(np.arange(len(rows) + 1) * ids.shape[1], pa.int32())
    names = pa.array([surfaces[index] for index in ids.ravel().tolist()], pa.string())
    values = pa.array(nats.ravel().astype(np.float32), pa.float32())
    return (
        pl.Series("top", pa.ListArray.from_arrays(borders, names)),
        pl.Series("top_nats", pa.ListArray.from_arrays(borders, values)),
    )
