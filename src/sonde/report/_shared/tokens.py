"""What a lens says at the places of single functions, declared by the folder of its sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from sonde.report._drawing.theme import HEAT_EDGES
from sonde.report._shared.run import RunData

AMOUNT: Literal["amount"] = "amount"
ANSWER: Literal["answer"] = "answer"
LINK: Literal["link"] = "link"

Rows = Sequence[Sequence[Any]]
"""What is said of one function, a row a place: first character, end of the characters, then each column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Colouring:
    """A way to colour a function.

    Attributes:
        label: What the colour stands for, as a reader picks it.
        column: The column that it is.
        edges: Of numbers: where the colour changes, ascending.
        unit: Of numbers: behind the number.
        combined: How the numbers of several rows at one place become one.
        differs: Whether the difference between two models means something.
    """

    label: str
    column: str
    edges: Sequence[float]
    unit: str
    combined: Literal["sum", "largest"] = "sum"
    differs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What one lens found at the places of some functions.

    Attributes:
        lens: Public name.
        label: What it is called beside a token.
        kind: `AMOUNT`: numbers of subwords, which are the parts that are shown; `ANSWER`: what was said of a
            place, what is right, and whether it is (columns ``group``, ``said``, ``right``, ``hit``); `LINK`:
            where a place leads (columns ``group``, ``hit``, ``by``, ``picked_start``, ``picked_end``,
            ``expected_start``, ``expected_end``).
        columns: Names of the columns behind start and end.
        texts: Those that are texts.
        facts: Of numbers: what else is told of a place, a name and a column each, and a unit or nothing.
        colourings: Of numbers: what the colour may be.
        group: What the values of the column ``group`` are, such as ``"relation"``.
        rows: By model (its folder name) and function.
        whole: By model and function what is said of it as a whole: ``group``, ``said``, ``right``, ``hit``.
        weights: By model and function, of some heads (as ``by`` names them), the tokens that each token
            attends to most: ``[start, [[start, end, share], ...]]`` a token.
        summaries: By model and function, a number of the function as a whole.
        summary: What that number is.
        alike: By model, what has to be equal for numbers of two models to be subtracted.
        note: What a reader has to know of it, a sentence.
    """

    lens: str
    label: str
    kind: Literal["amount", "answer", "link"]
    columns: Sequence[str]
    texts: frozenset[str] = frozenset()
    facts: Sequence[tuple[str, str, str]] = ()
    colourings: Sequence[Colouring] = ()
    group: str = ""
    rows: Mapping[str, Mapping[str, Rows]] = field(default_factory=dict[str, Mapping[str, Rows]])
    whole: Mapping[str, Mapping[str, Rows]] = field(default_factory=dict[str, Mapping[str, Rows]])
    weights: Mapping[str, Mapping[str, Mapping[str, Rows]]] = field(
        default_factory=dict[str, Mapping[str, Mapping[str, Rows]]]
    )
    summaries: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    summary: str = ""
    alike: Mapping[str, str] = field(default_factory=dict[str, str])
    note: str = ""


COLOURINGS = (
    Colouring(label="Bits", column="bits", edges=HEAT_EDGES, unit="bits", differs=True),
    Colouring(
        label="Rank", column="rank", edges=(2, 3, 6, 11, 51, 101, 501, 1001), unit="rank", combined="largest"
    ),
    Colouring(label="Entropy", column="entropy", edges=HEAT_EDGES, unit="bits", combined="largest"),
)
"""What subwords are coloured by: of ranks the first, the second, those among five, among ten and so on."""

WAYS = {
    "causal": "each subword from what stands before it",
    "pll": "each subword from both sides, with the rest of its word hidden",
    "infill": "each code token left out, and written from both sides",
}
"""From what subwords are scored, in words: numbers of two are not comparable."""

LINKED = (
    "group", "hit", "by", "picked_start", "picked_end", "expected_start", "expected_end",
)  # fmt: skip
"""Columns of `LINK`."""


def no_difficulty(run: RunData) -> pl.DataFrame | None:
    """A lens that does not say which functions are hard."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLens:
    """What a lens offers for the explorer of tokens.

    Attributes:
        known: Ids of the functions that it says something of, in no particular order.
        findings: What it says of some functions, of each at most its first characters; None for nothing.
        difficulty: ``item_id, difficulty, subwords`` of the functions that every model of the lens read, the
            number that orders them and how many subwords are behind it; None where the lens has none.
    """

    known: Callable[[RunData], Sequence[str]]
    findings: Callable[[RunData, Sequence[str], int], Findings | None]
    difficulty: Callable[[RunData], pl.DataFrame | None] = no_difficulty
