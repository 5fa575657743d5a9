"""Syntax tags (parent and node) that surprise most and least."""

from __future__ import annotations

from sonde.report.sections.surprisal._scores import RankedDimension, ranking_section


def format_tag(label: str) -> str:
    """Format a tag for display as ``parent → node``."""
    return label.replace(" -> ", " → ")


plot = ranking_section(
    RankedDimension(dimension="tag", what="syntax tag", surface=format_tag),
    title="Syntax: which nodes surprise it",
    order=20,
    caption=(
        "A tag is the syntax node of a subword after the node's parent: call → identifier is the name of a "
        "called function. Dots are mean surprisal in bits, lines 95 % intervals clustered by repository or "
        "module. A subword that spans several tokens has a joint tag."
    ),
)
