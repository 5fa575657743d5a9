"""What every sentence of a report has to keep to, written without the code that makes the sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

NO_DIFFERENCE, TOO_LITTLE = "no difference found", "too little data"

_NOUNS = (
    "answer", "cluster", "construct", "control", "draw", "edge", "example", "fault", "function", "head", "item",
    "kind", "language", "layer", "lens", "librar", "lineage", "miss", "model", "name", "number", "observation",
    "one", "pair", "point", "question", "reason", "relation", "row", "seed", "statement", "subword", "task",
    "time", "training", "value", "word",
)  # fmt: skip
_PLURAL = {"librar": "libraries", "miss": "misses", "lens": "lenses"}
_SINGULAR = {"librar": "library"}
_PLURALS = "|".join(_PLURAL.get(noun, f"{noun}s") for noun in _NOUNS)
_SINGULARS = "|".join(_SINGULAR.get(noun, noun) for noun in _NOUNS)
_NUMBER = r"(?<![\w.,@=+−/-])"

SLIPS: Mapping[str, re.Pattern[str]] = {
    "what is no number": re.compile(r"\b(nan|NaN|inf|None|null)\b|∞"),
    "empty brackets": re.compile(r"\(\s*\)|\[\s*\]|“”"),
    "doubled blanks": re.compile(r"\S  +\S"),
    "a blank before a stop": re.compile(r"\s[,;:.](\s|$)"),
    "doubled stops": re.compile(r"[,;:]\s*[,;:.]|(?<!\.)\.\.(?!\.)"),
    "a signed zero": re.compile(r"[-−]0(\.0+)?(?![\d.])"),
    "one of several": re.compile(rf"{_NUMBER}1 (?:[a-z-]+ )?(?:{_PLURALS})\b(?! is\b)"),
    "several of one": re.compile(rf"{_NUMBER}(?:0|[2-9]|\d[\d,]+) (?:[a-z-]+ )?(?:{_SINGULARS})\b(?! of)"),
    "a verb of several": re.compile(rf"{_NUMBER}1 (?:are|have|rest|differ|allow|lie|stand|rank)\b"),
    "a verb of one": re.compile(rf"{_NUMBER}(?:[2-9]|\d\d+) (?:rests|differs|allows|lies|stands|ranks)\b"),
    "a needed number that is reached": re.compile(r"\b(\d+) [a-z ]+, a verdict needs \1\b"),
}
"""Slips of the pen, by what they are."""

_NEUTRAL = re.compile(
    r"[Mm]ore than half there|\b[0-9]+ further controls?\b|\bat (least|most) \d+|first \d+|\bchosen on validation"
    r"|or more would have been|more in the table|fewer than \d+|than \d+ (effective|seeds|misses)"
    r"|below \d+ (seeds|clusters)|[Nn]ot more of the same|allows? no verdict|\d+ (times )?or more\b"
    r"|lower end|upper end|of all others|best (control|heads?)|best attention|most frequent answers"
)
COMPARES = re.compile(
    r"\b(more|less|fewer|better|worse|beats?|ahead|behind|above|below|uses|used|holds?|helps?|hurts?|loses?|most"
    r"|least|highest|lowest|further|surely|clearly|differs?|apart|seen|likelier)\b"
)
"""Words of sentences that say that something is unlike something else."""


def find_slips(text: str) -> Iterator[str]:
    """Slips of the pen in a text."""
    for name, pattern in SLIPS.items():
        if (found := pattern.search(text)) is not None:
            yield f"{name}: {found[0]!r}"


TRIPLE = re.compile(r"([-+−]?\d[\d,]*(?:\.\d+)?) \[([-+−]?\d[\d,]*(?:\.\d+)?), ([-+−]?\d[\d,]*(?:\.\d+)?)\]")


def find_strange_figures(text: str, scores: pl.DataFrame) -> Iterator[str]:
    """Numbers with an interval that none of the scores has, in its own unit, in per cent or in bits."""
    table = scores.select("value", "ci_low", "ci_high").drop_nulls().to_numpy()
    scales = np.array([1.0, 100.0, 1 / math.log(2)])
    held = (table[:, None, :] * scales[:, None]).reshape(-1, 3)
    held = np.concatenate([held, -held[:, [0, 2, 1]]])
    for found in TRIPLE.finditer(text):
        shown = np.array([float(one.replace(",", "").replace("−", "-")) for one in found.groups()])
        digits = np.array([len(one.partition(".")[2]) for one in found.groups()])
        # Ends that would be printed alike are rounded outwards, by a whole step.
        allowed = 0.5001 * 10.0 ** -digits * np.array([1, 2, 2])
        if not (np.abs(held - shown) <= allowed + 1e-9 * np.abs(held)).all(axis=1).any():
            yield f"no score is {found[0]}"


def find_false_outcomes(text: str, *, allows: bool | None, apart: bool | None) -> Iterator[str]:
    """Outcomes that are said of numbers of which another one is true.

    Args:
        text: The sentence.
        allows: Whether all numbers that it can speak of allow a verdict; None where some do.
        apart: Whether all of them are told from what they are held against.
    """
    low = text.lower()
    if NO_DIFFERENCE in low and "would have been" not in low and "no variation" not in low:
        yield "no difference found, and not what would have been"
    if TOO_LITTLE in low and not re.search(r"\d+(\.\d+)?( \[|%| %| points)|\d\.\d|in [\d,]+\b|needs \d+", low):
        yield "too little data, and no estimate"
    compares = COMPARES.search(_NEUTRAL.sub("", text))
    if allows is False:
        if NO_DIFFERENCE in low:
            yield "no difference found, though nothing allows a verdict"
        if re.search(r"(?<!0 )\bsurely\b(?! ahead of all others in any)", _counted_none(low)):
            yield "sure, though nothing allows a verdict"
        if compares and TOO_LITTLE not in low:
            yield f"{compares[0]!r}, though nothing allows a verdict"
    if allows is True and TOO_LITTLE in low:
        yield "too little data, though everything allows a verdict"
    if allows is True and apart is False and compares:
        if NO_DIFFERENCE not in low and "cannot be told" not in low and "not seen" not in low:
            yield f"{compares[0]!r}, though nothing is told from what it is held against"
    if allows is True and apart is True and NO_DIFFERENCE in low:
        yield "no difference found, though all are told from what they are held against"


def _counted_none(text: str) -> str:
    """A text without counts of none."""
    return re.sub(r"\b0 of \d+ surely|surely [a-z ]+ in 0\b|\b0 surely", "", text)
