"""Joining subwords with code tokens and syntax nodes by the characters that are not blank.

A piece belongs to the tokens that its non-blank characters lie in: `` [`` belongs to ``[``, not to what
stands before the space, and ``):`` belongs to both of its tokens and is never silently given to the first.
Everything is sorted searches over token borders; no loop runs over nodes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int

from sonde.alignment._check import check
from sonde.alignment.spans import Alignment, Coverage, Subwords
from sonde.languages import TOKEN_KINDS, CodeTokens, Tree
from sonde.languages._text import blank

VERSION = 1
"""Changes with every change of an alignment's result, so that stored observations are computed again."""

_KINDS = np.array([*TOKEN_KINDS, "merged"], object)
_LAYOUT = TOKEN_KINDS.index("layout")
_ERROR = TOKEN_KINDS.index("error")
_MERGED = len(TOKEN_KINDS)
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
    visible = ~blank(subwords.text)
    left, right = inked(subwords.start, subwords.end, visible)
    written = left < right
    first = np.where(written, np.searchsorted(tokens.end, left, side="right"), 0)
    last = np.where(written, np.searchsorted(tokens.start, right - 1, side="right"), 0)
    astray = written & (last <= first)
    last = np.where(astray, first, last)
    size = last - first
    tags = token_tags(tree, tokens.node)
    kind = np.full(len(subwords), _LAYOUT)
    role, tag = np.full((2, len(subwords)), "", object)
    tag[~written] = "layout"
    node = np.full(len(subwords), -1)
    one = np.flatnonzero(size == 1)
    kind[one] = tokens.kind[first[one]]
    tag[one] = tags[first[one]]
    node[one] = tokens.node[first[one]]
    if tokens.role:
        role[one] = np.array(tokens.role, object)[first[one]]
    several = np.flatnonzero(size > 1)
    if len(several):
        kind[several] = _MERGED
        tag[several] = [
            joined(tags[begin:beyond].tolist())
            for begin, beyond in zip(first[several].tolist(), last[several].tolist(), strict=True)
        ]
        node[several] = common_ancestors(tree, tokens.node, first[several], last[several])
    kind[astray] = _ERROR
    tag[astray] = "error"
    alignment = Alignment(
        subwords=subwords,
        first=first,
        last=last,
        node=node,
        kind=tuple(_KINDS[kind].tolist()),
        role=tuple(role.tolist()),
        tag=tuple(tag.tolist()),
        coverage=_coverage(subwords, tokens, size, written, left, right, visible),
    )
    check(alignment, item)
    return alignment


def inked(
    start: Int[np.ndarray, " span"], end: Int[np.ndarray, " span"], visible: Bool[np.ndarray, " character"]
) -> tuple[Int[np.ndarray, " span"], Int[np.ndarray, " span"]]:
    """Spans without their leading and trailing blanks; a span of blanks gets an end before its start."""
    places = np.arange(len(visible))
    after = np.append(
        np.minimum.accumulate(np.where(visible, places, len(visible))[::-1])[::-1], len(visible)
    )
    before = np.concatenate([[0], np.maximum.accumulate(np.where(visible, places + 1, 0))])
    left, right = after[start], before[end]
    return left, np.where(end > start, right, 0)


def token_tags(tree: Tree, nodes: Int[np.ndarray, " token"]) -> np.ndarray:
    """``parent -> node`` of each token's node as an array of strings; the root stands alone."""
    above = tree.parent[nodes]
    codes = (np.where(above >= 0, tree.kind[above] + 1, 0) * len(tree.kinds) + tree.kind[nodes]).tolist()
    names = {code: _tag(tree.kinds, code) for code in set(codes)}
    tags = np.empty(len(codes), object)
    tags[:] = [names[code] for code in codes]
    return tags


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


def _coverage(
    subwords: Subwords,
    tokens: CodeTokens,
    size: Int[np.ndarray, " subword"],
    written: Bool[np.ndarray, " subword"],
    left: Int[np.ndarray, " subword"],
    right: Int[np.ndarray, " subword"],
    visible: Bool[np.ndarray, " character"],
) -> Coverage:
    begins, ends = np.zeros((2, len(visible) + 1), np.bool_)
    begins[left[written]] = ends[right[written]] = True
    token_left, token_right = inked(tokens.start, tokens.end, visible)
    whole = (token_left < token_right) & begins[token_left] & ends[token_right]
    return Coverage(
        characters=len(visible),
        covered=covered(subwords),
        subwords=len(subwords),
        merged=int((size > 1).sum()),
        layout=int((~written).sum()),
        unknown=subwords.unknown,
        tokens=len(tokens),
        tokens_whole=int(whole.sum()),
    )


def covered(subwords: Subwords) -> int:
    """Characters that some piece covers; spans are in order."""
    if not len(subwords):
        return 0
    reached = np.concatenate([[0], subwords.end[:-1]])
    return int(np.maximum(subwords.end - np.maximum(subwords.start, reached), 0).sum())
