"""The page of ``sonde show``: what models read of one function, for the explorer of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sonde.report import page_of_function
from sonde.report.explorer import ONE, read_slug
from sonde.report.section import AMOUNT, COLOURINGS, LINK, LINKED, WAYS, Findings
from sonde.results.formats import legible


def page_of(shown: Mapping[str, Any]) -> str:
    """The page as text.

    Args:
        shown: A function with its ``reads``, as ``sonde show --json`` prints it.
    """
    reads = {read_slug(number): read for number, read in enumerate(shown["reads"])}
    attended = {slug: read for slug, read in reads.items() if read["arcs"]}
    scored = {slug: read for slug, read in reads.items() if not read["unscored"]}
    found = [*([_surprisal(scored)] if scored else []), *([_attention(attended)] if attended else [])]
    return page_of_function(shown, found)


def _surprisal(reads: Mapping[str, Mapping[str, Any]]) -> Findings:
    return Findings(
        lens="surprisal",
        label="Surprisal",
        kind=AMOUNT,
        columns=("bits", "rank", "entropy", "subword", "tag", "top"),
        texts=frozenset({"subword", "tag"}),
        facts=(("rank", "rank", ""), ("entropy", "entropy", "bits"), ("stands in", "tag", "")),
        colourings=COLOURINGS,
        rows={slug: {ONE: [_token(row) for row in read["tokens"]]} for slug, read in reads.items()},
        summaries={slug: {ONE: round(read["bits_per_byte"], 3)} for slug, read in reads.items()},
        summary="bits per byte",
        alike={slug: WAYS[read["objective"]] for slug, read in reads.items()},
    )


def _attention(reads: Mapping[str, Mapping[str, Any]]) -> Findings:
    return Findings(
        lens="attention",
        label="Attention",
        kind=LINK,
        columns=LINKED,
        texts=frozenset({"group", "by"}),
        group="relation",
        rows={
            slug: {ONE: [link for arc in read["arcs"] if (link := _link(arc))]}
            for slug, read in reads.items()
        },
        alike={slug: str(read["arcs"][0]["side"]) for slug, read in reads.items()},
    )


def _token(row: Mapping[str, Any]) -> list[Any]:
    scored = row["rank"] > 0
    # Which pieces were likelier is known, not by how much.
    top = [part for piece in row["expected"] for part in (legible(piece), None)]
    bits, entropy = (round(row[name], 3) if scored else None for name in ("bits", "entropy"))
    return [row["start"], row["end"], bits, row["rank"] or None, entropy, row["text"], row["kind"], top]


def _link(row: Mapping[str, Any]) -> list[Any] | None:
    """A row of a relation; None where the head looks at nothing, or nothing is looked for."""
    ends = [(row[end], len(row[f"{end}_text"])) for end in ("asked", "picked", "expected")]
    if any(start is None for start, _ in ends):
        return None
    asked, picked, expected = ((start, start + size) for start, size in ends)
    head = f"head {row['layer']}.{row['head']}"
    return [*asked, row["relation"], int(row["found"]), head, *picked, *expected]
