"""What a corpus is built from, and how: the options, checked before anything is read."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sonde.base.errors import UnknownNameError, UsageError
from sonde.corpora._licences import AllowList
from sonde.corpora._near import EXACT, METHODS, MINHASH, library
from sonde.corpora._splits import check_fractions
from sonde.languages import LANGUAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """What to build.

    Attributes:
        corpora: Where files come from, as named on the command line.
        held_out: Corpora of which no file, and no near-duplicate of one, may stay.
        languages: Public names; empty means all that the corpora hold.
        licences: What may stay, see `AllowList`; empty keeps all.
        parses: Leave out what does not parse.
        written: Leave out what was generated, see `sonde.corpora._generated`.
        min_chars: Shorter files are left out.
        max_chars: Longer files are left out.
        limit: At most this many files a language; a larger limit contains a smaller one.
        method: ``"exact"`` or ``"minhash"``: how near-duplicates are found.
        fractions: Shares of train, valid and test.
        seed: Other survivors among near-duplicates, another sample, other splits.
    """

    corpora: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()
    parses: bool = True
    written: bool = True
    min_chars: int = 1
    max_chars: int = 1_000_000
    limit: int | None = None
    method: str = EXACT
    fractions: tuple[float, float, float] = (0.6, 0.2, 0.2)
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot work.

        Raises:
            UsageError: No corpus, an unknown method, language or licence (the nearest is named), shares that
                are none, or a range of lengths that holds none.
            InputError: The method's library is not installed.
        """
        if not self.corpora:
            raise UsageError("nothing to build a corpus from; name one with -c, see `sonde list corpora`")
        if self.method not in METHODS:
            raise UnknownNameError("method", self.method, METHODS)
        if self.method == MINHASH:
            library()
        for name in self.languages:
            LANGUAGES.load(name)
        if self.min_chars > self.max_chars:
            raise UsageError(
                f"no file is at least {self.min_chars} and at most {self.max_chars} characters long; "
                "give --min-chars and --max-chars the other way round"
            )
        check_fractions(self.fractions)
        AllowList(self.licences)

    def plain(self) -> dict[str, Any]:
        """The options as JSON has them."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def folders(corpora: Sequence[str]) -> list[str]:
    """What a path begins with, for each corpus: nothing where there is one, else the scheme, numbered.

    >>> folders(["stdlib", "local:a", "local:b"])
    ['stdlib/', 'local-1/', 'local-2/']
    """
    schemes = [name.partition(":")[0] for name in corpora]
    if len(schemes) == 1:
        return [""]
    total, seen = Counter(schemes), Counter[str]()
    found: list[str] = []
    for scheme in schemes:
        seen[scheme] += 1
        found.append(f"{scheme}-{seen[scheme]}/" if total[scheme] > 1 else f"{scheme}/")
    return found
