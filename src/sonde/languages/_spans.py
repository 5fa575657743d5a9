"""Construct spans from the captures of `constructs.scm`: each capture name is a label."""

from __future__ import annotations

from collections.abc import Iterable

import tree_sitter

from sonde.languages._text import EncodedText
from sonde.languages._tree import Construct


def construct_spans(
    captures: Iterable[tuple[str, list[tree_sitter.Node]]], source: EncodedText
) -> tuple[Construct, ...]:
    """The labelled spans, each once, by start and outer before inner; empty spans are left out."""
    found = {
        (node.start_byte, -node.end_byte, label)
        for label, nodes in captures
        for node in nodes
        if node.end_byte > node.start_byte
    }
    return tuple(
        Construct(label, source.at(start), source.at(-negative_end))
        for start, negative_end, label in sorted(found)
    )
