"""Columns of cloze queries, with what each holds."""

from __future__ import annotations

import polars as pl

from sonde.results.columns import Columns, schema_of

QUERY_COLUMNS: Columns = {
    "item_id": (
        pl.String,
        "the statement with its answer, and where no subword may go on; several queries may share one",
    ),
    "query_id": (pl.String, "the query"),
    "base_id": (
        pl.String,
        "the plain query that it is compared with (adversarial, behind words, in a frame), else itself",
    ),
    "template": (
        pl.String,
        "`call`, `import`, `alias`, `adversarial`; `clozetest`; of pairs `replacement`, `fake_package`, "
        "`fake_name`",
    ),
    "mode": (
        pl.String,
        "`full` (a level of one subword), `first`, `middle`, `last`, `whole` (several subwords at once); of "
        "pairs the form of the statement",
    ),
    "name": (pl.String, "fully qualified name"),
    "kind": (pl.String, "kind of call; of pairs the worse name"),
    "language": (pl.String, "public name"),
    "library": (pl.String, "leading levels of the name: the unit of resampling"),
    "level": (pl.Int32, "level asked for, from 0"),
    "levels": (pl.Int32, "levels of the name"),
    "pieces": (pl.Int32, "subwords of the level in the reference segmentation"),
    "context": (pl.String, "words before the statement; empty for the statement alone"),
    "frame": (
        pl.String,
        "name of the other code around it, `imports` for those of a file that calls it; empty for the "
        "statement alone",
    ),
    "prefix": (pl.String, "the text before the answer"),
    "answer": (pl.String, "the answer"),
    "suffix": (pl.String, "the text behind the answer"),
    "start": (pl.Int32, "first character of the answer in the text"),
    "end": (pl.Int32, "end of the answer, exclusive"),
    "level_start": (pl.Int32, "first character of its level in the text"),
    "level_end": (pl.Int32, "end of the level, exclusive"),
    "alias": (pl.String, "the alias in the statement"),
    "aliases": (pl.Int32, "distinct aliases that the corpus has for the name"),
    "visible": (pl.Boolean, "the answer also stands elsewhere in the text"),
    "calls": (pl.Int64, "how often the corpus calls the name"),
    "files": (pl.Int32, "in how many files"),
    "repositories": (pl.Int32, "in how many repositories"),
    "users": (
        pl.List(pl.String),
        "the repositories that call it, without those that hold its library",
    ),
    "release": (
        pl.String,
        "of two releases named: `new` where the name appeared between them, `kept` where both have it",
    ),
    "paths": (
        pl.List(pl.UInt64),
        "hashed paths of the files that call it; told apart from a manifest's they say what was seen",
    ),
    "trained": (
        pl.Boolean,
        "its library is called in the corpus of the option `training`; null where none is named",
    ),
    "candidates": (
        pl.List(pl.String),
        "names that compete for the level, the right one first; empty for masked models",
    ),
    "majority": (
        pl.Int32,
        "rank of the answer by how often it is right over the names of all other libraries of the corpus;"
        " among `candidates` by their calls; null behind words and in frames",
    ),
    "unigram": (
        pl.Int32,
        "rank of the answer by how often it stands in the corpus, among the identifier-like subwords of the"
        " reference segmentation; null for `whole` and `candidates`",
    ),
    "spelling": (
        pl.Float64,
        "of made-up names: nats by which a 4-gram model of characters that knows all real names but this "
        "one finds the real one likelier",
    ),
}
"""Columns of queries, one row a query."""

QUERY_SCHEMA = schema_of(QUERY_COLUMNS)
