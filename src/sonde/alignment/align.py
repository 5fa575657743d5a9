"""Alignment of subwords with code tokens and syntax nodes, and the token table of a text.

Visible characters are those that are not whitespace. A piece (subword) belongs to the tokens that contain its
visible characters: `` [`` belongs to ``[``, not to the token before the space, and ``):`` belongs to both of
its tokens, never only to the first. All steps are vectorised binary searches over token boundaries; no loop
runs over nodes. The invariants are checked for every alignment, so that no result rests on misplaced spans.

The token table has a row per subword, or a row per syntax leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from sonde.alignment.subwords import Alignment, Coverage, Subwords, encode
from sonde.base.errors import CaptureError
from sonde.languages import LANGUAGES, TOKEN_KINDS, CodeTokens, Tree
from sonde.languages.engine.text import whitespace_mask

VERSION = 1
"""Version of the results; raise it with every change, so that stored observations are recomputed."""


_LAYOUT_NAME = "layout"


_ERROR_NAME = "error"


_MERGED_NAME = "merged"


_MAXIMUM_TAGS = 3


def align(subwords: Subwords, tree: Tree, tokens: CodeTokens, *, item: str = "") -> Alignment:
    """Align the subwords of a text with its code tokens and syntax nodes.

    Args:
        subwords: Subwords of the text.
        tree: Syntax tree of the same text.
        tokens: Code tokens of the same text.
        item: Name of the text in error messages.

    Raises:
        CaptureError: The spans do not describe the text.
    """
    visible = VisibleCharacters.of(~whitespace_mask(subwords.text))
    visible_start, visible_end = visible.trim_spans(subwords.start, subwords.end)
    is_visible = visible_start < visible_end
    first = np.where(is_visible, np.searchsorted(tokens.end, visible_start, side="right"), 0)
    last = np.where(is_visible, np.searchsorted(tokens.start, visible_end - 1, side="right"), 0)
    is_misplaced = is_visible & (last <= first)
    last = np.where(is_misplaced, first, last)
    size = last - first
    node = np.full(len(subwords), -1)
    single_rows = np.flatnonzero(size == 1)
    node[single_rows] = tokens.node[first[single_rows]]
    merged_rows = np.flatnonzero(size > 1)
    if len(merged_rows):
        node[merged_rows] = find_common_ancestors(tree, tokens.node, first[merged_rows], last[merged_rows])
    kinds, tags = [TOKEN_KINDS[kind] for kind in tokens.kind.tolist()], build_token_tags(tree, tokens.node)
    spans = list(zip(first.tolist(), size.tolist(), strict=True))
    kind = [
        kinds[position] if count == 1 else _MERGED_NAME if count else _LAYOUT_NAME
        for position, count in spans
    ]
    tag = [
        tags[position]
        if count == 1
        else join_tags(tags[position : position + count])
        if count
        else _LAYOUT_NAME
        for position, count in spans
    ]
    for row in np.flatnonzero(is_misplaced).tolist():
        kind[row] = tag[row] = _ERROR_NAME
    role = tokens.role or ("",) * len(tokens)
    alignment = Alignment(
        subwords=subwords,
        first=first,
        last=last,
        node=node,
        kind=tuple(kind),
        role=tuple([role[position] if count == 1 else "" for position, count in spans]),
        tag=tuple(tag),
        coverage=Coverage(
            characters=len(subwords.text),
            covered=count_covered_characters(subwords),
            subwords=len(subwords),
            merged=len(merged_rows),
            layout=len(subwords) - int(np.count_nonzero(is_visible)),
            unknown=subwords.unknown,
            tokens=len(tokens),
            tokens_whole=_count_whole_tokens(
                tokens, visible, visible_start[is_visible], visible_end[is_visible]
            ),
        ),
    )
    check_alignment(alignment, item)
    return alignment


@dataclass(frozen=True, slots=True, eq=False)
class VisibleCharacters:
    """Lookup of the nearest visible character for each position in a text.

    Attributes:
        after: First visible character at or after each position; the text's length if there is none.
        before: One past the last visible character before each position; 0 if there is none.
    """

    after: Int[np.ndarray, " character_and_end"]
    before: Int[np.ndarray, " character_and_end"]

    @classmethod
    def of(cls, visible: Bool[np.ndarray, " character"]) -> VisibleCharacters:
        """Build the lookup from a mask of visible characters."""
        size = len(visible)
        positions = np.arange(1, size + 1)
        next_start, previous_end = np.full(size + 1, size), np.zeros(size + 1, np.int64)
        np.maximum.accumulate(np.where(visible, positions, 0), out=previous_end[1:])
        np.minimum.accumulate(np.where(visible, positions - 1, size)[::-1], out=next_start[-2::-1])
        return cls(next_start, previous_end)

    def trim_spans(
        self, start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"]
    ) -> tuple[Int[np.ndarray, " span"], Int[np.ndarray, " span"]]:
        """Strip whitespace from both ends of spans; a span of whitespace gets an end before its start."""
        return self.after[start], np.where(end > start, self.before[end], 0)


def trim_spans(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], visible: Bool[np.ndarray, " character"]
) -> tuple[Int[np.ndarray, " span"], Int[np.ndarray, " span"]]:
    """Strip whitespace from both ends of spans, see `VisibleCharacters.trim_spans`."""
    return VisibleCharacters.of(visible).trim_spans(start, end)


def build_token_tags(tree: Tree, nodes: Int[np.ndarray, " token"]) -> list[str]:
    """Build the tag ``parent -> node`` of each token's node; the root has no parent."""
    parents = tree.parent[nodes]
    codes = (np.where(parents >= 0, tree.kind[parents] + 1, 0) * len(tree.kinds) + tree.kind[nodes]).tolist()
    names = {code: _format_tag(tree.kinds, code) for code in set(codes)}
    return [names[code] for code in codes]


def _format_tag(kinds: tuple[str, ...], code: int) -> str:
    parent_code, kind = divmod(code, len(kinds))
    return f"{kinds[parent_code - 1]} -> {kinds[kind]}" if parent_code else kinds[kind]


def join_tags(tags: list[str]) -> str:
    """Join the tags of a piece over several tokens; at most three are shown.

    >>> join_tags(["parameters -> )", "function_definition -> :"])
    'parameters -> ) + function_definition -> :'
    """
    text = " + ".join(tags[:_MAXIMUM_TAGS])
    return f"{text} + {len(tags) - _MAXIMUM_TAGS} more" if len(tags) > _MAXIMUM_TAGS else text


def is_token_label(label: str) -> bool:
    """Return whether a kind or tag can be that of one code token: not layout, nor a piece over several.

    >>> [is_token_label(label) for label in ("identifier", "layout", "if -> ( + call -> identifier")]
    [True, False, False]
    """
    return label not in (_LAYOUT_NAME, _MERGED_NAME) and " + " not in label


def find_common_ancestors(
    tree: Tree,
    nodes: Int[np.ndarray, " token"],
    first: Int[np.ndarray, " piece"],
    last: Int[np.ndarray, " piece"],
) -> Int[np.ndarray, " piece"]:
    """Find the lowest common ancestor of the nodes of tokens ``first .. last - 1``.

    In pre-order, a node contains others if and only if it is not after their minimum and its subtree ends
    after their maximum, so the search climbs from the minimum.
    """
    borders = np.stack([first, last], axis=1).reshape(-1)
    nodes_with_end = np.append(nodes, 0)
    minimum = np.minimum.reduceat(nodes_with_end, borders)[::2]
    maximum = np.maximum.reduceat(nodes_with_end, borders)[::2]
    ancestors = minimum
    while (is_too_small := tree.last[ancestors] <= maximum).any():
        ancestors = np.where(is_too_small, tree.parent[ancestors], ancestors)
    return ancestors


def _count_whole_tokens(
    tokens: CodeTokens,
    visible: VisibleCharacters,
    visible_start: Int[np.ndarray, " written"],
    visible_end: Int[np.ndarray, " written"],
) -> int:
    """Count code tokens whose visible characters start and end at piece boundaries."""
    begins, ends = np.zeros((2, len(visible.after)), np.bool_)
    begins[visible_start] = ends[visible_end] = True
    start, end = visible.trim_spans(tokens.start, tokens.end)
    return int(np.count_nonzero((start < end) & begins[start] & ends[end]))


def count_covered_characters(subwords: Subwords) -> int:
    """Count the characters that at least one piece covers; spans are in order."""
    start, end = subwords.start, subwords.end
    if not len(end):
        return 0
    begin = start.copy()
    np.maximum(begin[1:], end[:-1], out=begin[1:])
    return int(np.maximum(end - begin, 0).sum())


def check_alignment(alignment: Alignment, item: str = "") -> None:
    """Check the invariants of an alignment.

    Every subword has a span inside the text; starts, ends and code tokens are in order; the pieces of a
    lossless tokenizer cover every character and add up to its bytes.

    Raises:
        CaptureError: An invariant fails; the message names it and the item.
    """
    for violation in _find_violations(alignment):
        subject = f"item {item}" if item else f"text {alignment.subwords.text[:40]!r}"
        raise CaptureError(f"{subject}: alignment is broken: {violation}; report the tokenizer and the text")


def _find_violations(alignment: Alignment) -> Iterator[str]:
    subwords = alignment.subwords
    size, start, end = len(subwords.text), subwords.start, subwords.end
    if not len(start) == len(end) == len(subwords.bytes) == len(subwords.surface) == len(alignment.first):
        yield "columns differ in length"
        return
    if len(start) and (start.min() < 0 or end.max() > size or (end < start).any()):
        yield "a subword is outside the text"
    if (start[1:] < start[:-1]).any() or (end[1:] < end[:-1]).any():
        yield "subwords are out of order"
    if (subwords.bytes < 0).any():
        yield "a subword has a negative number of bytes"
    if subwords.lossless:
        if subwords.bytes.sum() != len(subwords.text.encode("utf-8", "surrogatepass")):
            yield "bytes do not add up to the text's"
        if alignment.coverage.covered != size:
            yield "characters are not covered"
    first, last = alignment.first, alignment.last
    if (last < first).any() or (last > alignment.coverage.tokens).any():
        yield "code tokens are out of range"
    is_visible = last > first
    first, last = first[is_visible], last[is_visible]
    if (first[1:] < first[:-1]).any() or (last[1:] < last[:-1]).any():
        yield "code tokens are out of order"
    if ((alignment.node >= 0) != is_visible).any():
        yield "a subword in a token has no node, or one outside has"


def align_table(tokenizer: Any, text: str, language: str, *, merge_leaves: bool = False) -> pl.DataFrame:
    """Align a text and return a table with a row per subword.

    Args:
        tokenizer: A fast transformers tokenizer.
        text: The text.
        language: Public name of its language.
        merge_leaves: Whether to merge consecutive subwords of one syntax leaf into a row, as CODETOKENIZERS'
            ``merged_ast`` does; a piece over several leaves stays a row of its own.

    Returns:
        ``subword, id, bytes, start, end, token, node, parent, tag, kind, role``; ``start`` and ``end`` are
        characters, ``token`` is the text of the code tokens. With `merge_leaves`, ``subwords`` counts the
        pieces and ``ids`` lists them in place of ``id``.

    Raises:
        InputError: The tokenizer gives no offsets.
        UnknownNameError: No language has this name.
    """
    parser = LANGUAGES.load(language)
    tree = parser.parse(text)
    tokens = parser.tokens(tree)
    alignment = align(encode(tokenizer, text), tree, tokens)
    table = _build_table(alignment, tree, tokens)
    return _merge_rows(table, alignment) if merge_leaves else table


def _build_table(alignment: Alignment, tree: Tree, tokens: CodeTokens) -> pl.DataFrame:
    subwords, node = alignment.subwords, alignment.node
    names = np.array([*tree.kinds, ""], object)
    parents = np.where(node >= 0, tree.parent[node], -1)
    return pl.DataFrame(
        {
            "subword": subwords.surface,
            "id": subwords.ids,
            "bytes": subwords.bytes,
            "start": subwords.start,
            "end": subwords.end,
            "token": _get_token_texts(alignment, tokens),
            "node": names[np.where(node >= 0, tree.kind[node], -1)].tolist(),
            "parent": names[np.where(parents >= 0, tree.kind[parents], -1)].tolist(),
            "tag": alignment.tag,
            "kind": alignment.kind,
            "role": alignment.role,
        }
    )


def _get_token_texts(alignment: Alignment, tokens: CodeTokens) -> pl.Series:
    """Return the text of each subword's code tokens, shared by all pieces of a long comment or string."""
    text = alignment.subwords.text
    starts, ends = tokens.start.tolist(), tokens.end.tolist()
    pairs = list(zip(alignment.first.tolist(), alignment.last.tolist(), strict=True))
    index_by_pair = {pair: index for index, pair in enumerate(dict.fromkeys(pairs))}
    token_texts = [
        text[starts[first] : ends[last - 1]] if last > first else "" for first, last in index_by_pair
    ]
    return pl.Series(token_texts, dtype=pl.String).gather([index_by_pair[pair] for pair in pairs])


def _merge_rows(table: pl.DataFrame, alignment: Alignment) -> pl.DataFrame:
    """Merge the runs of consecutive subwords in the same code token."""
    constant_columns = ("token", "node", "parent", "tag", "kind", "role")
    first, last = pl.Series(alignment.first), pl.Series(alignment.last)
    continues = (first == first.shift(1)) & (last == last.shift(1)) & (last - first == 1)
    return (
        table.with_columns(group=(~continues.fill_null(value=False)).cum_sum())
        .group_by("group", maintain_order=True)
        .agg(
            pl.col("subword").str.join(""),
            pl.len().alias("subwords"),
            pl.col("id").alias("ids"),
            pl.col("bytes").sum(),
            pl.col("start").min(),
            pl.col("end").max(),
            *(pl.col(column).first() for column in constant_columns),
        )
        .drop("group")
    )
