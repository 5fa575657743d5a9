"""The row schema of the surprisal lens's item table."""

from __future__ import annotations

import polars as pl

from sonde.results.columns import Columns, schema_of

OBSERVATIONS_COLUMNS: Columns = {
    "item_id": (pl.String, "the item"),
    "file": (pl.String, "its path"),
    "cluster": (pl.String, "its unit of resampling"),
    "language": (pl.String, "public name"),
    "position": (pl.Int32, "index among the item's subwords"),
    "start": (pl.Int32, "first character, in the item"),
    "end": (pl.Int32, "end of its characters, exclusive"),
    "subword": (pl.String, "readable surface"),
    "subword_id": (pl.Int32, "its id in the vocabulary"),
    "nats": (pl.Float32, "surprisal"),
    "rank": (
        pl.Int32,
        "rank among the vocabulary: 1 = best, near-ties pessimistic; null beyond what a server tells",
    ),
    "entropy": (pl.Float32, "entropy of the prediction, in nats; null where a server does not tell it"),
    "context": (pl.Int32, "subwords of the item that the model could see"),
    "bytes": (pl.Int16, "UTF-8 bytes that the subword stands for"),
    "text_characters": (
        pl.Int32,
        "size of the text from the end of the subword before it to its own end, so that they add up to the "
        "text whatever a tokenizer leaves out",
    ),
    "text_bytes": (pl.Int32, "the same in UTF-8 bytes"),
    "covered": (
        pl.Int32,
        "of `text_characters` those that the subword itself stands for; 0 for the unknown subword",
    ),
    "file_nats": (
        pl.Float32,
        "`nats` behind the text of the item's file; null, as the next four, where that was not asked for",
    ),
    "file_rank": (pl.Int32, "`rank` there"),
    "file_entropy": (pl.Float32, "`entropy` there"),
    "file_context": (pl.Int32, "subwords that the model could see there, those of the file included"),
    "file_top_nats": (pl.Float32, "surprisal of the best alternative there"),
    "kind": (pl.String, "token kind; `layout` for blanks, `merged` for subwords over several tokens"),
    "role": (pl.String, "token role"),
    "tag": (pl.String, "`parent -> node`"),
    "merged": (pl.Int16, "number of code tokens in the subword"),
    "token": (pl.Int32, "index of the (first) code token, -1 for layout"),
    "word": (pl.String, "its text where the subword lies in one token"),
    "construct": (pl.String, "innermost construct"),
    "ancestors": (pl.String, "distinct kinds of the ancestors, outermost first, joined by `/`"),
    "origin": (pl.String, "of a call: `internal`, `local`, `builtin`, `external` or empty"),
    "origin_part": (pl.String, "of a call: `name` or `arguments`"),
    "call_form": (pl.String, "of a call: `bare` or `method`"),
    "user_tag": (pl.String, "the user's labels on it, joined by a vertical bar"),
    "top": (pl.List(pl.String), "best alternatives, best first"),
    "top_nats": (pl.List(pl.Float32), "their surprisal"),
}
"""Columns of the surprisal lens's item table, one row a scored subword."""

OBSERVATIONS_SCHEMA = schema_of(OBSERVATIONS_COLUMNS)

FILE_COLUMNS = tuple(name for name in OBSERVATIONS_SCHEMA if name.startswith("file_"))
"""What a subword cost behind the text of its file; null where that was not asked for."""

FIRST = (pl.col("context") == 0).fill_null(value=False)
"""Whether a model that reads from left to right had nothing of the text before a subword."""

FIRST_PART = ("text", "first")
"""Dimension of the scores of these subwords; they are in no other slice."""

SHARED_TOKENS = ("shared", "tokens")
"""Dimension, before the others, of scores over the code tokens that every model of a run has whole."""
