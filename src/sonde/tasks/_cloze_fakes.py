"""Names that could exist and do not: one part of a real name beside a part of another.

A fake keeps the beginning or the end of the name that it stands against and takes its other side from another
real name of the same place, so it has real parts, the same style and, within two characters, the same length.
What occurs as a word anywhere in the corpus is not made up and is not taken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

import numpy as np

from sonde.base.fingerprint import derive_seed

SLACK = 2
"""Characters by which a fake may be longer or shorter than the name that it stands against."""

_LEAST = 3

_WORD = re.compile(r"[^\W\d]\w*")
_PARTS = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words_of(texts: Iterable[str]) -> set[str]:
    """All words of some texts, in small letters."""
    found: set[str] = set()
    for text in texts:
        found.update(word.lower() for word in _WORD.findall(text))
    return found


def halves(name: str, pieces: Sequence[str]) -> tuple[list[tuple[str, str]], bool]:
    """The ways to cut a name in two, and whether it has parts to cut between.

    A name of one part is cut between its pieces, where three characters and more are on both sides.

    >>> halves("read_csv", ["read", "_csv"])
    ([('read_', 'csv')], True)
    >>> halves("OrderedDict", ["Ordered", "Dict"])
    ([('Ordered', 'Dict')], True)
    >>> halves("requests", ["request", "s"]), halves("weakref", ["weak", "ref"])
    (([], False), ([('weak', 'ref')], False))
    """
    inner = name.lstrip("_")
    before = len(name) - len(inner)
    cuts = [before + found.end() for found in _PARTS.finditer(inner) if 0 < found.end() < len(inner)]
    if cuts:
        return [(name[:cut], name[cut:]) for cut in cuts], True
    within = np.cumsum([len(piece) for piece in pieces[:-1]]).tolist()
    return [(name[:cut], name[cut:]) for cut in within if _LEAST <= cut <= len(name) - _LEAST], False


class Fakes:
    """Makes fakes of the names of one place.

    Args:
        names: Real names.
        pieces: The pieces of the reference segmentation for each name that has them.
        known: Words of the corpus, in small letters; none of them is a fake.
        seed: Makes other fakes.
    """

    def __init__(
        self, names: Collection[str], pieces: Mapping[str, Sequence[str]], known: Set[str], seed: int
    ) -> None:
        self._pieces, self._seed = pieces, seed
        self._known = known | {name.lower() for name in names}
        self._sides: dict[bool, tuple[list[str], list[str]]] = {}
        cut = [halves(name, pieces.get(name, ())) for name in sorted(set(names))]
        for of_parts in (True, False):
            held = [found for some, parts in cut if parts == of_parts for found in some]
            self._sides[of_parts] = (sorted({one[0] for one in held}), sorted({one[1] for one in held}))

    def of(self, name: str) -> str | None:
        """A fake of a name, the same for a seed; None where no recombination is new and of its length."""
        rng = np.random.default_rng(derive_seed("fake", self._seed, name))
        cuts, of_parts = halves(name, self._pieces.get(name, ()))
        heads, tails = self._sides[of_parts]
        ways = [(head, tail, tails) for head, tail in cuts] + [(head, tail, heads) for head, tail in cuts]
        for way in rng.permutation(len(ways)).tolist():
            head, tail, others = ways[way]
            left = tail if others is tails else head
            fitting = [one for one in others if abs(len(one) - len(left)) <= SLACK and _alike(one, left)]
            for number in rng.permutation(len(fitting)).tolist():
                made = head + fitting[number] if others is tails else fitting[number] + tail
                if made.lower() not in self._known and made.isidentifier():
                    return made
        return None


def _alike(one: str, other: str) -> bool:
    """Whether two parts are written in one style: capitals, small letters, underscores at their ends."""
    return (
        one[0].isupper() == other[0].isupper()
        and one.isupper() == other.isupper()
        and ("_" in one.strip("_")) == ("_" in other.strip("_"))
        and one.startswith("_") == other.startswith("_")
        and one.endswith("_") == other.endswith("_")
    )
