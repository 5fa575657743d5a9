"""Joining subwords with code tokens and syntax nodes by the characters that are not blank.

A piece belongs to the tokens that its non-blank characters lie in: `` [`` belongs to ``[``, not to what
stands before the space, and ``):`` belongs to both of its tokens and is never silently given to the first.
Everything is sorted searches over token borders; no loop runs over nodes. The invariants of an alignment are
checked every time: a figure on misplaced spans must not exist.
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
"""Changes with every change of an alignment's result, so that stored observations are computed again."""


_LAYOUT = "layout"


_ERROR = "error"


_MERGED = "merged"


_SHOWN = 3


def align(subwords: Subwords, tree: Tree, tokens: CodeTokens, *, item: str = "") -> Alignment:
    """Join the subwords of a text with its code tokens and nodes.

    Args:
        subwords: What a tokenizer made of the text.
        tree: The syntax tree of the same text.
        tokens: Its code tokens.
        item: What to call the text if an invariant fails.

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
    """Where the characters that are not blank lie in a text.

    Attributes:
        after: The first of them at or after each place; the text's length where none is.
        before: One past the last of them before each place; 0 where none is.
    """

    after: Int[np.ndarray, " character_and_end"]
    before: Int[np.ndarray, " character_and_end"]

    @classmethod
    def of(cls, visible: Bool[np.ndarray, " character"]) -> Ink:
        """From whether each character is not blank."""
        size = len(visible)
        places = np.arange(1, size + 1)
        after, before = np.full(size + 1, size), np.zeros(size + 1, np.int64)
        np.maximum.accumulate(np.where(visible, places, 0), out=before[1:])
        np.minimum.accumulate(np.where(visible, places - 1, size)[::-1], out=after[-2::-1])
        return cls(after, before)

    def of_spans(
        self, start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"]
    ) -> tuple[Int[np.ndarray, " span"], Int[np.ndarray, " span"]]:
        """Spans without the blanks at their ends; a span of blanks gets an end before its start."""
        return self.after[start], np.where(end > start, self.before[end], 0)


def inked(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], visible: Bool[np.ndarray, " character"]
) -> tuple[Int[np.ndarray, " span"], Int[np.ndarray, " span"]]:
    """Spans without the blanks at their ends, see `Ink.of_spans`."""
    return Ink.of(visible).of_spans(start, end)


def token_tags(tree: Tree, nodes: Int[np.ndarray, " token"]) -> list[str]:
    """``parent -> node`` of each token's node; the root stands alone."""
    above = tree.parent[nodes]
    codes = (np.where(above >= 0, tree.kind[above] + 1, 0) * len(tree.kinds) + tree.kind[nodes]).tolist()
    names = {code: _tag(tree.kinds, code) for code in set(codes)}
    return [names[code] for code in codes]


def _tag(kinds: tuple[str, ...], code: int) -> str:
    above, kind = divmod(code, len(kinds))
    return f"{kinds[above - 1]} -> {kinds[kind]}" if above else kinds[kind]


def joined(tags: list[str]) -> str:
    """The tag of a piece over several tokens; at most three are spelled out.

    >>> joined(["parameters -> )", "function_definition -> :"])
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
    """Lowest node over the nodes of tokens ``first .. last - 1``.

    In pre-order a node holds several others exactly if it is not after the least of them and its subtree ends
    after the greatest, so the least climbs until it does.
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
    """Code tokens whose ink begins where that of a piece begins, and ends where that of one ends."""
    begins, ends = np.zeros((2, len(ink.after)), np.bool_)
    begins[left] = ends[right] = True
    first, beyond = ink.of_spans(tokens.start, tokens.end)
    return int(np.count_nonzero((first < beyond) & begins[first] & ends[beyond]))


def covered(subwords: Subwords) -> int:
    """Characters that some piece covers; spans are in order."""
    start, end = subwords.start, subwords.end
    if not len(end):
        return 0
    begin = start.copy()
    np.maximum(begin[1:], end[:-1], out=begin[1:])
    return int(np.maximum(end - begin, 0).sum())


def check(alignment: Alignment, item: str = "") -> None:
    """Hold an alignment to its invariants.

    Every subword has a span inside the text; starts and ends never go back; its code tokens are in order;
    the pieces of a lossless tokenizer cover every character and spell its bytes.

    Raises:
        CaptureError: One of them fails; names the item and the invariant.
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
