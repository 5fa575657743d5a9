"""Quirks of PERPLEXED and CODETOKENIZERS: their scoring, origins of calls and tags of subwords.

Each is what they do otherwise than the lens `surprisal`, beside the rule that replaces it. The rule for tags
is that of `sonde.alignment.align`: a subword belongs to whatever its non-blank characters lie in. The quirks
of tags are those of code_tokenizers 0.0.6, described in "PERPLEXED: Understanding When Large Language Models
Are Confused", section 2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Int

from sonde.alignment.align import join_tags, trim_spans
from sonde.alignment.subwords import Subwords
from sonde.base.errors import UnknownNameError
from sonde.capture.requests import Prepared
from sonde.languages import Tree
from sonde.languages.engine.text import whitespace_mask
from sonde.languages.engine.tokens import find_token_rows
from sonde.lenses.engine.layout import Layout, keep_strings, shortest_spans
from sonde.lenses.surprisal.observe import (
    CALLS,
    FILED,
    FIRST_APART,
    ORIGINS,
    SUBWORD,
    TAGS,
    SubwordLabels,
    TagRule,
)
from sonde.lenses.surprisal.origin import SUMMARY, OriginSummary
from sonde.lenses.surprisal.score import NONE_FIRST, SUMS, Sums
from sonde.papers.quirks import build_paper_preset, describe_quirks

BYTE_COLUMNS = "codetokenizers.byte_columns"


FIRST_OVERLAP = "codetokenizers.first_overlap"


NOT_AVAILABLE = "codetokenizers.not_available"


PADS = "codetokenizers.pads"


WHOLE_STRINGS = "codetokenizers.whole_strings"


TAG_QUIRKS: Mapping[str, str] = describe_quirks(
    __name__, BYTE_COLUMNS, FIRST_OVERLAP, NOT_AVAILABLE, PADS, WHOLE_STRINGS
)


_LAYOUT = "layout"


def compute_quirky_tags(subwords: Subwords, tree: Tree, quirks: Set[str]) -> tuple[str, ...]:
    """Compute tags as ``<parent -> node>`` with the given quirks.

    With none they go by the rule of `sonde.alignment.align.align` on leaves.

    Args:
        subwords: What a tokenizer made of the text.
        tree: The syntax tree of the same text.
        quirks: Names out of `TAG_QUIRKS`.

    Raises:
        UnknownNameError: A quirk that does not exist.
    """
    for quirk in sorted(quirks - TAG_QUIRKS.keys()):
        raise UnknownNameError("quirk", quirk, TAG_QUIRKS)
    leaves = find_token_rows(tree, {"string"} if WHOLE_STRINGS in quirks else frozenset())
    start, end = tree.start[leaves], tree.end[leaves]
    if BYTE_COLUMNS in quirks:
        start, end = byte_columns(tree.text, start), byte_columns(tree.text, end)
    find = _first_overlap if FIRST_OVERLAP in quirks else _all_overlaps
    if FIRST_OVERLAP in quirks:
        left, right = subwords.start, subwords.end
    else:
        left, right = trim_spans(subwords.start, subwords.end, ~whitespace_mask(subwords.text))
    empty_tag = "< N/A >" if NOT_AVAILABLE in quirks else _LAYOUT
    tags: list[str] = []
    for index in range(len(subwords)):
        empty = subwords.start[index] == subwords.end[index]
        overlap = np.zeros(0, np.int64)
        if not empty:
            overlap = find(int(left[index]), int(right[index]), start, end)
        elif PADS in quirks:
            overlap = _first_overlap(int(subwords.start[index]), int(subwords.end[index]), start, end)
        names = [_format_tag(tree, int(leaves[leaf])) for leaf in overlap.tolist()]
        tags.append(f"<{join_tags(names)}>" if names else empty_tag)
    return tuple(tags)


def byte_columns(text: str, positions: Int[np.ndarray, " position"]) -> Int[np.ndarray, " position"]:
    """Move positions to where they lie if their columns are counted in bytes and applied to characters.

    A column beyond its line is cut at the line's end, as a slice of the line is.

    >>> byte_columns("\u00e9 = b", np.array([0, 4, 5])).tolist()
    [0, 5, 5]
    """
    lengths = np.array([len(character.encode("utf-8", "surrogatepass")) for character in text], np.int64)
    byte_offsets = np.concatenate([[0], np.cumsum(lengths)])
    breaks = np.flatnonzero(np.array([character == "\n" for character in text], np.bool_))
    line = np.searchsorted(breaks, positions, side="left")
    begin, end = np.append(0, breaks + 1)[line], np.append(breaks, len(text))[line]
    return np.minimum(begin + byte_offsets[positions] - byte_offsets[begin], end)


def _first_overlap(
    left: int, right: int, start: Int[np.ndarray, " leaf"], end: Int[np.ndarray, " leaf"]
) -> Int[np.ndarray, " leaf"]:
    holds_start = (start <= left) & (left < end)
    holds_end = (start < right) & (right <= end)
    return np.flatnonzero(holds_start | holds_end)[:1]


def _all_overlaps(
    left: int, right: int, start: Int[np.ndarray, " leaf"], end: Int[np.ndarray, " leaf"]
) -> Int[np.ndarray, " leaf"]:
    return np.flatnonzero((start < right) & (left < end)) if left < right else np.zeros(0, np.int64)


def _format_tag(tree: Tree, row: int) -> str:
    parent = int(tree.parent[row])
    return f"{tree.kind_name(parent)} -> {tree.kind_name(row)}" if parent >= 0 else tree.kind_name(row)


@dataclass(frozen=True, slots=True)
class QuirkyTags:
    """Tags an item with some quirks on."""

    quirks: frozenset[str]

    def __call__(self, prepared_item: Prepared) -> tuple[str, ...]:
        """Return the tag of each subword."""
        return compute_quirky_tags(prepared_item.alignment.subwords, prepared_item.tree, self.quirks)


def make_tag_rule(quirk: str) -> Callable[[TagRule], TagRule]:
    """Build the rule for tags with a quirk on."""

    def add_quirk(rule: TagRule) -> TagRule:
        quirks = rule.quirks if isinstance(rule, QuirkyTags) else frozenset[str]()
        return QuirkyTags(quirks | {quirk})

    return add_quirk


TAG_RULES = {quirk: TAGS.quirk(make_tag_rule(quirk)) for quirk in TAG_QUIRKS}


_ARGUMENT_NAMES = "argument_names"


_CALL_TAGS = r"^<?(call|argument_list) -> "


def shift(subword_labels: SubwordLabels, layout: Layout) -> SubwordLabels:
    """File every score under the labels of the subword before it, the first of an item under none."""
    rows = np.arange(len(layout.item))
    previous_rows, follows = np.maximum(rows - 1, 0), rows > layout.row[layout.item]

    def of_previous(column: pl.Series) -> pl.Series:
        return keep_strings(column[previous_rows], follows)

    return subword_labels.map(of_previous)


def local_is_external(calls: pl.DataFrame) -> pl.DataFrame:
    """Make calls of what the same file defines external."""
    return calls.with_columns(pl.col("label").replace("local", "external"))


def bare_calls_only(calls: pl.DataFrame) -> pl.DataFrame:
    """Make method calls external, never internal."""
    internal = (pl.col("label") == "internal") & (pl.col("call_form") == "method")
    return calls.with_columns(label=pl.when(internal).then(pl.lit("external")).otherwise("label"))


def argument_names(origin: pl.Series, labels: Mapping[str, pl.DataFrame], layout: Layout) -> pl.Series:
    """Make arguments named like a definition of another file internal, whatever is called."""
    arguments, pieces = layout.labels(labels[_ARGUMENT_NAMES]), layout.pieces
    is_argument = (
        shortest_spans(arguments["start"].to_numpy(), arguments["end"].to_numpy(), pieces.length) >= 0
    )
    counts = np.concatenate([[0], np.cumsum(is_argument)])
    contains_argument = counts[pieces.end] > counts[pieces.start]
    return keep_strings(origin, ~contains_argument, "internal")


def decode_merge(subword: pl.Expr) -> pl.Expr:
    """Count ids that decode alike as one subword."""
    return pl.col("subword")


def first_in_tables(first: pl.Expr) -> pl.Expr:
    """Include the first subword of a text in every table."""
    return NONE_FIRST


def call_tags(sums: Sums) -> Sums:
    """Compare only subwords whose tag's parent is a call or an argument list."""
    return dataclasses.replace(sums, calls=sums.calls.filter(pl.col("tag").str.contains(_CALL_TAGS)))


def unweighted(summary: OriginSummary) -> OriginSummary:
    """Report only the plain mean of all tag means, however rare a tag is."""
    return OriginSummary(minimum=1, weightings=("unweighted",))


published = build_paper_preset(
    "perplexed",
    "surprisal",
    {
        "perplexed.shift": FILED.quirk(shift),
        "perplexed.decode_merge": SUBWORD.quirk(decode_merge),
        "perplexed.first_in_tables": FIRST_APART.quirk(first_in_tables),
        "perplexed.unweighted": SUMMARY.quirk(unweighted),
        "perplexed.call_tags": SUMS.quirk(call_tags),
        "perplexed.local_is_external": CALLS.quirk(local_is_external),
        "codetokenizers.bare_calls_only": CALLS.quirk(bare_calls_only),
        "codetokenizers.argument_names": ORIGINS.quirk(argument_names, _ARGUMENT_NAMES),
        **TAG_RULES,
    },
)
