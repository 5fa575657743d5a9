"""The token table of one text: one row a subword, or one a syntax leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.alignment.align import align
from sonde.alignment.spans import Alignment
from sonde.alignment.subwords import encode
from sonde.languages import LANGUAGES, CodeTokens, Tree


def align_table(tokenizer: Any, text: str, language: str, *, merged: bool = False) -> pl.DataFrame:
    """Align a text and lay it out as a table.

    Args:
        tokenizer: A fast transformers tokenizer.
        text: The text.
        language: Public name of its language.
        merged: Join consecutive subwords of one syntax leaf into a row, as CODETOKENIZERS' ``merged_ast``
            does; a piece over several leaves stays a row of its own.

    Returns:
        ``subword, id, bytes, start, end, token, node, parent, tag, kind, role``; ``start`` and ``end`` are
        characters, ``token`` is the text of the code tokens. Merged: ``subwords`` counts the pieces and
        ``ids`` lists them in place of ``id``.

    Raises:
        InputError: The tokenizer gives no offsets.
        UnknownNameError: No language has this name.
    """
    parser = LANGUAGES.load(language)
    tree = parser.parse(text)
    tokens = parser.tokens(tree)
    alignment = align(encode(tokenizer, text), tree, tokens)
    table = _rows(alignment, tree, tokens)
    return _merged(table, alignment) if merged else table


def _rows(alignment: Alignment, tree: Tree, tokens: CodeTokens) -> pl.DataFrame:
    subwords, node = alignment.subwords, alignment.node
    names = np.array([*tree.kinds, ""], object)
    above = np.where(node >= 0, tree.parent[node], -1)
    return pl.DataFrame(
        {
            "subword": subwords.surface,
            "id": subwords.ids,
            "bytes": subwords.bytes,
            "start": subwords.start,
            "end": subwords.end,
            "token": _words(alignment, tokens),
            "node": names[np.where(node >= 0, tree.kind[node], -1)].tolist(),
            "parent": names[np.where(above >= 0, tree.kind[above], -1)].tolist(),
            "tag": alignment.tag,
            "kind": alignment.kind,
            "role": alignment.role,
        }
    )


def _words(alignment: Alignment, tokens: CodeTokens) -> pl.Series:
    """The text of each subword's code tokens, held once for all the pieces of one long comment or string."""
    text = alignment.subwords.text
    starts, ends = tokens.start.tolist(), tokens.end.tolist()
    pairs = list(zip(alignment.first.tolist(), alignment.last.tolist(), strict=True))
    places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    spelled = [text[starts[first] : ends[last - 1]] if last > first else "" for first, last in places]
    return pl.Series(spelled, dtype=pl.String).gather([places[pair] for pair in pairs])


def merge_groups(alignment: Alignment) -> Int[np.ndarray, " subword"]:
    """A number for each run of subwords that lie in one and the same code token."""
    apart = (np.diff(alignment.first) != 0) | (np.diff(alignment.last) != 0)
    single = alignment.last - alignment.first == 1
    return np.cumsum(np.append(0, apart | ~single[1:])) if len(single) else np.zeros(0, np.int64)


def _merged(table: pl.DataFrame, alignment: Alignment) -> pl.DataFrame:
    same = ("token", "node", "parent", "tag", "kind", "role")
    return (
        table.with_columns(pl.Series("group", merge_groups(alignment)))
        .group_by("group", maintain_order=True)
        .agg(
            pl.col("subword").str.join(""),
            pl.len().alias("subwords"),
            pl.col("id").alias("ids"),
            pl.col("bytes").sum(),
            pl.col("start").min(),
            pl.col("end").max(),
            *(pl.col(column).first() for column in same),
        )
        .drop("group")
    )
