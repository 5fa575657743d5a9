"""What every sentence of a report has to keep to, written without the code that makes the sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

NO_DIFFERENCE, TOO_LITTLE, NO_VARIATION = "no difference found", "too little data", "no variation"

_REGULAR = """
    answer cell cluster construct control draw edge example exchange fault function head item kind language
    layer lineage model name number observation pair point question reason relation row seed statement subword
    task text time training use value word
"""
_NOUNS = {
    **{noun: f"{noun}s" for noun in _REGULAR.split()},
    "lens": "lenses",
    "library": "libraries",
    "miss": "misses",
    "query": "queries",
}
_NUMBER = r"(?<![\w.,@=+−:/-])"
_BETWEEN = "(?:[a-z]+[a-z-]* )?"

SLIPS: Mapping[str, re.Pattern[str]] = {
    "what is no number": re.compile(r"\b(nan|NaN|inf|null|None(?! rests?\b))\b|∞"),
    "empty brackets": re.compile(r"\(\s*\)|\[\s*\]|“”"),
    "doubled blanks": re.compile(r"\S  +\S"),
    "a blank before a stop": re.compile(r"\s[,;:.](\s|$)"),
    "doubled stops": re.compile(r"[,;:]\s*[,;:.]|(?<!\.)\.\.(?!\.)"),
    "a signed zero": re.compile(r"[-−]0(\.0+)?(?![\d.])"),
    "one of several": re.compile(rf"{_NUMBER}1 {_BETWEEN}(?:{'|'.join(_NOUNS.values())})\b(?! is\b)"),
    "several of one": re.compile(
        rf"{_NUMBER}(?:0|[2-9]|\d[\d,]*\d) {_BETWEEN}(?:{'|'.join(_NOUNS)})\b(?! of)"
    ),
    "a verb of several": re.compile(rf"{_NUMBER}1 (?:are|have|rest|differ|allow|lie|stand|rank)\b"),
    "a verb of one": re.compile(
        rf"{_NUMBER}(?:[2-9]|\d\d+)(?<!of \d)(?<!of \d\d) (?:rests|differs|allows|lies|stands|ranks)\b"
    ),
    "a need that is met": re.compile(r"\b(\d+)(\.0)? [a-z ]+, a verdict needs \1\b"),
}
"""Slips of the pen, by what they are."""

_NEUTRAL = re.compile(
    "|".join(
        (
            r"more than half there|pay more|\b0 (of \d+ )?surely( pays?| less)*",
            r"surely costs more [a-z ]* in 0, less in 0",
            r"(more|further) in the table|\d+ further controls?|further repositories|not more of the same",
            r"more (independent|seeds|items|epochs)|(read|train from|take) more|fewer than",
            r"is (at least|at most|below|above) -?\d|more than \d+ entries|no verdict below|below \d+ seeds",
            r"at (least|most) (\d+|its)|the most (subwords|edges)|it finds most of|most frequent answers",
            r"better and worse are decided by|the better of|best (control|heads?|rule|surface)|first \d+",
            r"or the other way round|the (highest|lowest) of \d+, of which \d+ are not distinguishable",
            r"(stands|is|measured|read) behind|behind its file|the (text|code) above|something above",
            r"helps, not",
            r"may (give|want|need) more|may be better|may be encoded in another way|never used",
            r"than (the model would|their mutants)|has less surprisal than|less likely",
            r"original(s| is)? likelier|likelier originals|the likelier one",
            r"less the same with|code less older|among the first",
            r"cost less than one bit|four or more|\d+ names called most|least of all could be matched",
            r"\d+ highest( and \d+ lowest)?( means)?|(of|to) (the )?\d[\d,]* uses|the uses by|many uses",
            r"uses were|less sure than usual|differs\. whether two names",
            r"\b(un)?seen (ones|libraries|before|and)|unseen",
            r"none is surely ahead of all others|(in|for) 0 of|in 0\b|, 0 (are|is)|0 better|are 0",
            r"above every surface baseline: none",
            r"won less lost|answers won and lost",
        )
    )
)
"""Parts of sentences, in small letters, with words of comparison that compare no numbers or count none."""

COMPARES = re.compile(
    r"\b(more|less|fewer|better|worse|beats?|ahead|behind|above|below|uses|used|holds?|helps?|hurts?|loses?|most"
    r"|least|highest|lowest|further|surely|clearly|differs?|apart|seen|likelier)\b"
)
"""Words of sentences that say that something is unlike something else."""

TRIPLE = re.compile(r"([-+−]?\d[\d,]*(?:\.\d+)?) \[([-+−]?\d[\d,]*(?:\.\d+)?), ([-+−]?\d[\d,]*(?:\.\d+)?)\]")
"""A number with its interval."""


def find_slips(text: str) -> Iterator[str]:
    """Find slips of the pen in a text, apart from the code that it quotes."""
    text = re.sub("“[^”]+”", "“code”", text)
    for name, pattern in SLIPS.items():
        if (found := pattern.search(text)) is not None:
            yield f"{name}: {found[0]!r}"


def allows_verdict(row: Mapping[str, Any]) -> bool:
    """Whether a score allows a verdict, by the rule as docs/statistics.md has it."""
    low, high, share = row["ci_low"], row["ci_high"], row["value"]
    clusters = row["n_clusters"] if row["effective_clusters"] is None else row["effective_clusters"]
    if clusters < 10 or low is None or high is None or not math.isfinite(high - low):
        return False
    width = high - low
    too_wide = width > 0.3 or (width > 0.05 and width > 1.3 * min(share, 1 - share))
    if row["n_eff"] is not None and (row["n_eff"] < 30 or too_wide):
        return False
    return row["seeds"] is None or row["seeds"] >= 5


class Figures:
    """The numbers of a table of scores as sentences may write them: in their unit, in per cent, in bits."""

    def __init__(self, scores: pl.DataFrame) -> None:
        rows = scores.drop_nulls(["value", "ci_low", "ci_high"])
        table = rows.select("value", "ci_low", "ci_high").to_numpy()
        scales = np.array([1.0, 100.0, 1 / math.log(2)])
        held = (table[:, None, :] * scales[:, None]).reshape(-1, 3)
        allowed = np.repeat([allows_verdict(row) for row in rows.iter_rows(named=True)], len(scales))
        self._held = np.concatenate([held, -held[:, [0, 2, 1]]])
        self._allowed = np.concatenate([allowed, allowed]).astype(bool)

    def find(self, text: str) -> Iterator[tuple[str, bool, bool]]:
        """Find each number with an interval: whether a score is so, and whether one such allows a verdict."""
        for found in TRIPLE.finditer(text):
            shown = np.array([float(one.replace(",", "").replace("−", "-")) for one in found.groups()])
            digits = np.array([len(one.partition(".")[2]) for one in found.groups()])
            # Ends that would be printed alike are rounded outwards, by a whole step.
            step = 0.5001 * 10.0**-digits * np.array([1, 2, 2])
            same = (np.abs(self._held - shown) <= step + 1e-9 * np.abs(self._held)).all(axis=1)
            yield found[0], bool(same.any()), bool(self._allowed[same].any())


def find_strange_figures(text: str, figures: Figures) -> Iterator[str]:
    """Numbers with an interval that no score has; or that all allow no verdict, of which nothing is said."""
    found = list(figures.find(text))
    yield from (f"no score is {shown}" for shown, is_known, _ in found if not is_known)
    is_said = _says_few(text) or NO_VARIATION in text
    if found and not is_said and not any(allows or not is_known for _, is_known, allows in found):
        yield f"an estimate, and not that it rests on too little data: {found[0][0]}"


def find_false_outcomes(text: str, *, allows: bool | None, apart: bool | None) -> Iterator[str]:
    """Yield outcomes in a sentence that are false for its numbers.

    Args:
        text: The sentence.
        allows: Whether all numbers that it can speak of allow a verdict; None where some do.
        apart: Whether all of them differ from what they are compared with.
    """
    low = text.lower()
    if low.startswith("too little data for a verdict: "):
        # The meanings of the marks.
        return
    says_level, says_few = NO_DIFFERENCE in low, _says_few(text)
    if says_level and not re.search(r"would have been|would be|no variation", low):
        yield "no difference found, and not what would have been"
    compares = COMPARES.search(_without(low))
    if allows is False:
        if says_level:
            yield "no difference found, though nothing allows a verdict"
        if says_few and not _has_estimate(low):
            yield "too little data, and no estimate"
        if re.search(r"\bsurely\b", _without(low)):
            yield "sure, though nothing allows a verdict"
        if compares and not says_few:
            yield f"{compares[0]!r}, though nothing allows a verdict"
    if allows is True and says_few:
        yield "too little data, though everything allows a verdict"
    if (
        allows is True
        and apart is False
        and compares
        and not says_level
        and not re.search("cannot be told|is unclear", low)
    ):
        yield f"{compares[0]!r}, though nothing is told from what it is held against"
    if allows is True and apart is True and says_level:
        yield "no difference found, though all are told from what they are held against"


def _says_few(text: str) -> bool:
    """Whether a text says of a number that it rests on too little, in words or by a mark."""
    return TOO_LITTLE in text.lower() or any(mark in text for mark in "†‡§¶")


def _without(text: str) -> str:
    """A text without its brackets on what would have been found, and without what compares no numbers."""
    return _NEUTRAL.sub("", re.sub(r"\([^()]* or more would have been[^()]*\)", "", text))


def _has_estimate(text: str) -> bool:
    """Whether a number stands beside "too little data", or it is counted over what is listed elsewhere."""
    outside = re.sub(
        r"\d+(\.\d+)? [a-z ]+, a verdict needs \d+|an interval of [\d.]+ points[^;):]*", "", text
    )
    return bool(
        re.search(r"\d\.\d|\d+ %|\d+ \[|\d+ points|too little data in [\d,]+|their estimates|–", outside)
    )
