"""Alignment of subwords with code tokens and syntax nodes by their visible characters.

Visible characters are those that are not whitespace. A piece (subword) belongs to the tokens that contain its
visible characters: `` [`` belongs to ``[``, not to the token before the space, and ``):`` belongs to both of
its tokens. All steps are vectorised binary searches over token boundaries. The invariants are checked for
every alignment, so that no result rests on misplaced spans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from sonde.alignment.spans import Alignment, Coverage, Subwords
from sonde.alignment.subwords import encode
from sonde.base.errors import CaptureError
from sonde.languages import LANGUAGES, TOKEN_KINDS, CodeTokens, Tree
from sonde.languages.engine.text import blank

VERSION = 1
"""Version of the results; raise it with every change, so that stored observations are recomputed."""


_LAYOUT = "layout"


_ERROR = "error"


_MERGED = "merged"


_SHOWN = 3


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
    ink = Ink.of(~blank(subwords.text))
    left, right = ink.of_spans(subwords.start, subwords.end)
    written = left < right
    first = np.where(written, np.searchsorted(tokens.end, left, side="right"), 0)
    last = np.where(written, np.searchsorted(tokens.start, right - 1, side="right"), 0)
    astray = written & (last <= first)
    last = np.where(astray, first, last)
    size = last - first
    node = np.full(len(subwords), -1)
    one = np.flatnonzero(size == 1)
    node[one] = tokens.node[first[one]]
    several = np.flatnonzero(size > 1)
    if len(several):
        node[several] = common_ancestors(tree, tokens.node, first[several], last[several])
    kinds, tags = [TOKEN_KINDS[kind] for kind in tokens.kind.tolist()], token_tags(tree, tokens.node)
    spans = list(zip(first.tolist(), size.tolist(), strict=True))
    kind = [kinds[at] if count == 1 else _MERGED if count else _LAYOUT for at, count in spans]
    tag = [
        tags[at] if count == 1 else joined(tags[at : at + count]) if count else _LAYOUT for at, count in spans
    ]
    for place in np.flatnonzero(astray).tolist():
        kind[place] = tag[place] = _ERROR
    role = tokens.role or ("",) * len(tokens)
    alignment = Alignment(
        subwords=subwords,
        first=first,
        last=last,
        node=node,
        kind=tuple(kind),
        role=tuple([role[at] if count == 1 else "" for at, count in spans]),
        tag=tuple(tag),
        coverage=Coverage(
            characters=len(subwords.text),
            covered=covered(subwords),
            subwords=len(subwords),
            merged=len(several),
            layout=len(subwords) - int(np.count_nonzero(written)),
            unknown=subwords.unknown,
            tokens=len(tokens),
            tokens_whole=_whole(tokens, ink, left[written], right[written]),
        ),
    )
    check(alignment, item)
    return alignment


@dataclass(frozen=True, slots=True, eq=False)
class Ink:
    """Lookup of the nearest visible character for each position in a text.

    Attributes:
        after: First visible character at or after each position; the text's length if there is none.
        before: One past the last visible character before each position; 0 if there is none.
    """

    after: Int[np.ndarray, " character_and_end"]
    before: Int[np.ndarray, " character_and_end"]

    @classmethod
    def of(cls, visible: Bool[np.ndarray, " character"]) -> Ink:
        """Build the lookup from a mask of visible characters."""
        size = len(visible)
        places = np.arange(1, size + 1)
        after, before = np.full(size + 1, size), np.zeros(size + 1, np.int64)
        np.maximum.accumulate(np.where(visible, places, 0), out=before[1:])
        np.minimum.accumulate(np.where(visible, places - 1, size)[::-1], out=after[-2::-1])
        return cls(after, before)

    def of_spans(
        self, start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"]
    ) -> tuple[Int[np.ndarray, " span"], Int[np.ndarray, " span"]]:
        """Strip whitespace from both ends of spans; a span of whitespace gets an end before its start."""
        return self.after[start], np.where(end > start, self.before[end], 0)


def inked(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], visible: Bool[np.ndarray, " character"]
) -> tuple[Int[np.ndarray, " span"], Int[np.ndarray, " span"]]:
    """Strip whitespace from both ends of spans, see `VisibleCharacters.trim_spans`."""
    return Ink.of(visible).of_spans(start, end)


def token_tags(tree: Tree, nodes: Int[np.ndarray, " token"]) -> list[str]:
    """Build the tag ``parent -> node`` of each token's node; the root has no parent."""
    above = tree.parent[nodes]
    codes = (np.where(above >= 0, tree.kind[above] + 1, 0) * len(tree.kinds) + tree.kind[nodes]).tolist()
    names = {code: _tag(tree.kinds, code) for code in set(codes)}
    return [names[code] for code in codes]


def _tag(kinds: tuple[str, ...], code: int) -> str:
    above, kind = divmod(code, len(kinds))
    return f"{kinds[above - 1]} -> {kinds[kind]}" if above else kinds[kind]


def joined(tags: list[str]) -> str:
    """Join the tags of a piece over several tokens; at most three are shown.

    >>> join_tags(["parameters -> )", "function_definition -> :"])
    'parameters -> ) + function_definition -> :'
    """
    shown = " + ".join(tags[:_SHOWN])
    return f"{shown} + {len(tags) - _SHOWN} more" if len(tags) > _SHOWN else shown


def common_ancestors(
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
    padded = np.append(nodes, 0)
    least = np.minimum.reduceat(padded, borders)[::2]
    greatest = np.maximum.reduceat(padded, borders)[::2]
    found = least
    while (outside := tree.last[found] <= greatest).any():
        found = np.where(outside, tree.parent[found], found)
    return found


def _whole(
    tokens: CodeTokens, ink: Ink, left: Int[np.ndarray, " written"], right: Int[np.ndarray, " written"]
) -> int:
    """Count code tokens whose visible characters start and end at piece boundaries."""
    begins, ends = np.zeros((2, len(ink.after)), np.bool_)
    begins[left] = ends[right] = True
    first, beyond = ink.of_spans(tokens.start, tokens.end)
    return int(np.count_nonzero((first < beyond) & begins[first] & ends[beyond]))


def covered(subwords: Subwords) -> int:
    """Count the characters that at least one piece covers; spans are in order."""
    start, end = subwords.start, subwords.end
    if not len(end):
        return 0
    begin = start.copy()
    np.maximum(begin[1:], end[:-1], out=begin[1:])
    return int(np.maximum(end - begin, 0).sum())


def check(alignment: Alignment, item: str = "") -> None:
    """Check the invariants of an alignment.

    Every subword has a span inside the text; starts, ends and code tokens are in order; the pieces of a
    lossless tokenizer cover every character and add up to its bytes.

    Raises:
        CaptureError: An invariant fails; the message names it and the item.
    """
    for broken in _broken(alignment):
        where = f"item {item}" if item else f"text {alignment.subwords.text[:40]!r}"
        raise CaptureError(f"{where}: alignment is broken: {broken}; report the tokenizer and the text")


def _broken(alignment: Alignment) -> Iterator[str]:
    subwords = alignment.subwords
    size, start, end = len(subwords.text), subwords.start, subwords.end
    if not len(start) == len(end) == len(subwords.bytes) == len(subwords.surface) == len(alignment.first):
        yield "columns differ in length"
        return
    if len(start) and (start.min() < 0 or end.max() > size or (end < start).any()):
        yield "a subword lies outside the text"
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
    written = last > first
    first, last = first[written], last[written]
    if (first[1:] < first[:-1]).any() or (last[1:] < last[:-1]).any():
        yield "code tokens are out of order"
    if ((alignment.node >= 0) != written).any():
        yield "a subword in a token has no node, or one outside has"


def align_table(tokenizer: Any, text: str, language: str, *, merged: bool = False) -> pl.DataFrame:
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
    """Return the text of each subword's code tokens, shared by all pieces of a long comment or string."""
    text = alignment.subwords.text
    starts, ends = tokens.start.tolist(), tokens.end.tolist()
    pairs = list(zip(alignment.first.tolist(), alignment.last.tolist(), strict=True))
    places = {pair: place for place, pair in enumerate(dict.fromkeys(pairs))}
    spelled = [text[starts[first] : ends[last - 1]] if last > first else "" for first, last in places]
    return pl.Series(spelled, dtype=pl.String).gather([places[pair] for pair in pairs])


def merge_groups(alignment: Alignment) -> Int[np.ndarray, " subword"]:
    """Number the runs of consecutive subwords in the same code token."""
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
