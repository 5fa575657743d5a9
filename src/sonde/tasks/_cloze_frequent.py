"""What answers without knowing the name: the answers and the pieces that a whole corpus has most often.

Both are learned from all names and files of a corpus, however few are asked about, and are the same for all
models.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Int

from sonde.tasks._cloze_candidates import place
from sonde.tasks._cloze_segments import blanks, segments
from sonde.tasks._names import Name

NEVER = 2**31 - 1
"""Rank of an answer that is nowhere else."""

ALIASED = "alias"
"""Cell of the answers behind an alias; the other cell, of calls and imports, is the empty string."""

_WORD = re.compile(r"[^\W\d]\w*")
_IDENTIFIER_LIKE = re.compile(r"\w*[^\W\d]\w*")

_Cell = tuple[str, str, str]


class FrequentAnswers:
    """How often each answer is right in a corpus, the library that is asked about left out.

    Args:
        names: All names of the corpus.
        pieces: The pieces of each level that has them.
    """

    def __init__(self, names: Iterable[Name], pieces: Mapping[str, Sequence[str]]) -> None:
        total: defaultdict[_Cell, Counter[str]] = defaultdict(Counter)
        own: defaultdict[tuple[_Cell, str], Counter[str]] = defaultdict(Counter)
        called: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        called_own: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        for name in names:
            levels = name.name.split(".")
            behind = [alias.imported.count(".") + 1 for alias in name.aliases]
            for number, level in enumerate(levels):
                where = place(number, len(levels))
                called[name.language, where][level] += name.calls
                called_own[name.language, where, name.library][level] += name.calls
                aliased = sum(count <= number for count in behind)
                for mode, (start, end) in blanks(tuple(pieces.get(level, ()))).items():
                    for cell, count in (("", 1), (ALIASED, aliased)):
                        key = (name.language, cell, mode)
                        if count:
                            total[key][level[start:end]] += count
                            own[key, name.library][level[start:end]] += count
        self._total, self._own = dict(total), dict(own)
        self._called, self._called_own = dict(called), dict(called_own)
        self._ordered = {key: _ordered(counts) for key, counts in total.items()}

    def rank(self, language: str, cell: str, mode: str, answer: str, library: str) -> int:
        """Rank of an answer by its count over the other libraries; ties count against it."""
        key = (language, cell, mode)
        total, own = self._total[key], self._own.get((key, library), Counter[str]())
        count = total[answer] - own[answer]
        if not count:
            return NEVER
        at_least = len(total) - int(np.searchsorted(self._ordered[key], count))
        return at_least - sum(total[one] >= count > total[one] - mine for one, mine in own.items())

    def rank_among(self, candidates: Sequence[str], language: str, where: str, library: str) -> int:
        """Rank of the first of some names by the calls of other libraries' names, at one place of a name."""
        total = self._called[language, where]
        own = self._called_own.get((language, where, library), Counter[str]())
        counts = [total[one] - own[one] for one in candidates]
        return sum(count >= counts[0] for count in counts)


class FrequentPieces:
    """How often each identifier-like piece stands in the files of a corpus.

    Args:
        texts: The files.
        reference: What cuts words into pieces.
    """

    def __init__(self, texts: Iterable[str], reference: str) -> None:
        words: Counter[str] = Counter()
        for text in texts:
            words.update(_WORD.findall(text))
        self._counts: Counter[str] = Counter()
        for word, pieces in segments(words, reference).items():
            for piece in pieces:
                if _IDENTIFIER_LIKE.fullmatch(piece):
                    self._counts[piece] += words[word]
        self._ordered = _ordered(self._counts)

    def rank(self, answer: str) -> int:
        """Rank of a piece by its count; ties count against it."""
        count = self._counts[answer]
        return len(self._ordered) - int(np.searchsorted(self._ordered, count)) if count else NEVER


def _ordered(counts: Counter[str]) -> Int[np.ndarray, " answer"]:
    return np.sort(np.fromiter(counts.values(), np.int64, len(counts)))
