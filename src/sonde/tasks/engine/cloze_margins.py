"""Margins between two names, one of them the better: rows of statements, made-up names, and spelling.

A row holds two statements that differ in a name. It is a query with two candidates, the better statement
first, so it is scored as other statements are.

`FakeNames` makes names that could exist and do not. A fake keeps the beginning or the end of the name that it
is compared with, and takes the rest from another real name of the same position. So it has real parts, the
same style and, within two characters, the same length. What occurs as a word anywhere in the corpus is not
made up and is not taken. A fake is about as likely as its name to a model of spelling (`SpellingModel`) that
knows the real names except the one in question.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import polars as pl

from sonde.base.fingerprint import derive_seed, fingerprint, unit_hash
from sonde.corpora import Item
from sonde.tasks.engine.cloze_queries import QUERY_SCHEMA, prompt_id
from sonde.tasks.engine.cloze_statements import CALL, IMPORT, make_plain_statement, make_statement_item

REPLACEMENT, FAKE_PACKAGE, FAKE_NAME = "replacement", "fake_package", "fake_name"


PAIRS: Mapping[str, str] = {
    REPLACEMENT: "the replacement of a deprecated name against the deprecated one",
    FAKE_PACKAGE: "a package of the corpus against a made-up one",
    FAKE_NAME: "a name of the corpus against a made-up one of the same module",
}
"""What is set against what; the better one first."""


FORMS = (CALL, IMPORT)


def margin_rows(
    pair: str,
    better: str,
    worse: str,
    *,
    language: str,
    library: str,
    templates: Mapping[str, str],
    forms: Sequence[str] = FORMS,
    calls: int = 1,
    spelling: float | None = None,
) -> list[dict[str, Any]]:
    """The rows of two names, one a form of statement, in `QUERY_SCHEMA`.

    Args:
        pair: Of `PAIRS`.
        better: The name that should be preferred, fully qualified.
        worse: The other.
        language: Public name of the language.
        library: Unit of resampling.
        templates: The language's statements of one kind of call.
        forms: Of `FORMS`.
        calls: How often the corpus has the better one.
        spelling: By how many nats its spelling is the likelier one; None where that is not known.
    """
    return [
        {
            **_row(pair, form, better, worse, templates[form], language, library, calls),
            "spelling": spelling,
        }
        for form in forms
        if "." in better and "." in worse
    ]


def _row(
    pair: str, form: str, better: str, worse: str, template: str, language: str, library: str, calls: int
) -> dict[str, Any]:
    texts = [make_plain_statement(template, name.split(".")).text for name in (better, worse)]
    number = fingerprint("margin", pair, form, language, *texts)
    levels = better.count(".") + 1
    return {
        "item_id": prompt_id(texts[0], language),
        "query_id": number,
        "base_id": number,
        "template": pair,
        "mode": form,
        "name": better,
        "kind": worse,
        "language": language,
        "library": library,
        "level": levels - 1,
        "levels": levels,
        "pieces": 1,
        "context": "",
        "frame": "",
        "prefix": "",
        "answer": texts[0],
        "suffix": "",
        "start": 0,
        "end": len(texts[0]),
        "level_start": 0,
        "level_end": len(texts[0]),
        "alias": "",
        "aliases": 0,
        "visible": False,
        "calls": calls,
        "files": 1,
        "repositories": 1,
        "paths": [],
        "candidates": texts,
    }


def margin_table(pairs: Sequence[Sequence[Mapping[str, Any]]], size: int | None, seed: int) -> pl.DataFrame:
    """The rows of pairs in an order by hash, each pair with all of its forms, at most ``size`` rows."""
    order = sorted(
        (rows for rows in pairs if rows), key=lambda rows: unit_hash("margins", seed, rows[0]["query_id"])
    )
    taken: list[Mapping[str, Any]] = []
    for rows in order:
        if size is not None and len(taken) + len(rows) > size:
            break
        taken += rows
    table = pl.DataFrame(taken, schema=dict(QUERY_SCHEMA), orient="row")
    return table.unique("query_id", keep="first", maintain_order=True)


def margin_items(table: pl.DataFrame) -> list[Item]:
    """The better statements as items; the others are made when they are scored."""
    first = table.unique("item_id", keep="first", maintain_order=True)
    return [make_statement_item(row, row["item_id"], row["answer"]) for row in first.iter_rows(named=True)]


def to_label_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as ``sonde label`` writes it."""
    return {
        "pair": row["template"],
        "form": row["mode"],
        "better": row["name"],
        "worse": row["kind"],
        "better_statement": row["candidates"][0],
        "worse_statement": row["candidates"][1],
        "language": row["language"],
        "library": row["library"],
        "calls": row["calls"],
    }


SLACK = 2
"""Characters by which a fake may be longer or shorter than the name that it stands against."""


NEAR = 1.0
"""Nats by which the spelling of a fake may be likelier or less likely than that of its name."""


TRIED = 40
"""Recombinations of a name that are tried."""


_Parts = dict[tuple[tuple[bool, ...], int], list[str]]


_LEAST = 3


_WORD = re.compile(r"[^\W\d]\w*")


_PARTS = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def collect_words(texts: Iterable[str]) -> set[str]:
    """All words of some texts, in small letters."""
    found: set[str] = set()
    for text in texts:
        found.update(word.lower() for word in _WORD.findall(text))
    return found


def split_name(name: str, pieces: Sequence[str]) -> tuple[list[tuple[str, str]], bool]:
    """The ways to cut a name in two, and whether it has parts to cut between.

    A name of one part is cut between its pieces, where three characters and more are on both sides.

    >>> split_name("read_csv", ["read", "_csv"])
    ([('read_', 'csv')], True)
    >>> split_name("OrderedDict", ["Ordered", "Dict"])
    ([('Ordered', 'Dict')], True)
    >>> split_name("requests", ["request", "s"]), split_name("weakref", ["weak", "ref"])
    (([], False), ([('weak', 'ref')], False))
    """
    inner = name.lstrip("_")
    before = len(name) - len(inner)
    cuts = [before + found.end() for found in _PARTS.finditer(inner) if 0 < found.end() < len(inner)]
    if cuts:
        return [(name[:cut], name[cut:]) for cut in cuts], True
    within = np.cumsum([len(piece) for piece in pieces[:-1]]).tolist()
    return [(name[:cut], name[cut:]) for cut in within if _LEAST <= cut <= len(name) - _LEAST], False


class FakeNames:
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
        self._spelling = SpellingModel(names)
        self._known = known | {name.lower() for name in names}
        self._sides: dict[bool, tuple[_Parts, _Parts]] = {}
        cut = [split_name(name, pieces.get(name, ())) for name in sorted(set(names))]
        for of_parts in (True, False):
            held = [found for some, parts in cut if parts == of_parts for found in some]
            self._sides[of_parts] = (_by_style(one[0] for one in held), _by_style(one[1] for one in held))

    def make_fake(self, name: str) -> tuple[str, float] | None:
        """A fake of a name and by how much its spelling is less likely; the same for a seed.

        Of the recombinations that are new, of the name's length and as well spelled as it, one is taken that
        is nearest in spelling, on the side that a coin says: so spelling does not tell them apart. None where
        there is none. The name itself and its parts are unknown to the spelling model.
        """
        rng = np.random.default_rng(derive_seed("fake", self._seed, name))
        left_out = self._spelling.exclude_name(name)
        own = self._spelling.score(name, left_out)
        margins = {made: own - self._spelling.score(made, left_out) for made in self._recombine(name, rng)}
        passing = {made: margin for made, margin in margins.items() if abs(margin) <= NEAR}
        if not passing:
            return None
        likelier = bool(rng.integers(2))
        side = {made: margin for made, margin in passing.items() if (margin > 0) == likelier}
        return min((side or passing).items(), key=lambda one: (abs(one[1]), one[0]))

    def _recombine(self, name: str, rng: np.random.Generator) -> list[str]:
        """At most `TRIED` recombinations of a name that are new and of its length, in a random order."""
        cuts, of_parts = split_name(name, self._pieces.get(name, ()))
        heads, tails = self._sides[of_parts]
        made: list[str] = []
        for head, tail in cuts:
            made += [head + other for other in _select_similar_parts(tails, tail)]
            made += [other + tail for other in _select_similar_parts(heads, head)]
        found: list[str] = []
        for number in rng.permutation(len(made)).tolist():
            one = made[number]
            if one.lower() not in self._known and one.isidentifier():
                found.append(one)
            if len(found) == TRIED:
                break
        return found


def _by_style(parts: Iterable[str]) -> _Parts:
    found: _Parts = {}
    for part in sorted(set(parts)):
        found.setdefault((_style(part), len(part)), []).append(part)
    return found


def _select_similar_parts(parts: _Parts, part: str) -> list[str]:
    """Parts in the style of one and of about its length."""
    lengths = range(len(part) - SLACK, len(part) + SLACK + 1)
    return [one for length in lengths for one in parts.get((_style(part), length), ())]


def _style(part: str) -> tuple[bool, ...]:
    """How a part is written: capitals, small letters, underscores at its ends."""
    return (
        part[0].isupper(),
        part.isupper(),
        "_" in part.strip("_"),
        part.startswith("_"),
        part.endswith("_"),
    )


ORDER = 4
"""Characters of an n-gram, the predicted one included."""


LeftOut = dict[str, Counter[str]]


_START, _END = "\x02", "\x03"


class SpellingModel:
    """An n-gram model of characters, interpolated as Witten and Bell (1991) do.

    Args:
        names: Real names; each counts once.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name in self._names:
            for context, character in _grams(name):
                self._counts[context][character] += 1
        self._alphabet = len(self._counts[""]) + 1
        self._totals = {context: sum(counts.values()) for context, counts in self._counts.items()}

    def exclude_name(self, name: str) -> LeftOut:
        """What the model knows from one real name alone."""
        left_out: LeftOut = {}
        for context, character in _grams(name) if name in self._names else ():
            left_out.setdefault(context, Counter())[character] += 1
        return left_out

    def score(self, name: str, left_out: LeftOut) -> float:
        """Log-probability of a name in nats, its end included.

        Args:
            name: Any name.
            left_out: What the model is not to know, from `exclude_name`.
        """
        text = _START * (ORDER - 1) + name + _END
        return sum(
            math.log(self._probability(text[at - ORDER + 1 : at], text[at], left_out))
            for at in range(ORDER - 1, len(text))
        )

    def _probability(self, context: str, character: str, left_out: LeftOut) -> float:
        found = 1 / self._alphabet
        for length in range(len(context) + 1):
            shorter = context[len(context) - length :]
            counts = self._counts.get(shorter)
            if counts is None:
                break
            mine = left_out.get(shorter)
            total, kinds, count = self._totals[shorter], len(counts), counts.get(character, 0)
            if mine is not None:
                total -= sum(mine.values())
                kinds -= sum(counts[one] == number for one, number in mine.items())
                count -= mine.get(character, 0)
            if total == 0:
                break
            found = (count + kinds * found) / (total + kinds)
        return found


def _grams(name: str) -> Iterator[tuple[str, str]]:
    """Every context, of no character up to the longest, with the character behind it."""
    text = _START * (ORDER - 1) + name + _END
    for at in range(ORDER - 1, len(text)):
        for length in range(ORDER):
            yield text[at - length : at], text[at]
