"""Real packages and names paired with made-up ones of the same parts: which does the model find likelier?

Models that write code invent plausible packages. This task measures whether a model finds the real name
likelier than an invented one. No invented name occurs as a word of the corpus.

`FakeNames` makes names that could exist and do not. A fake keeps the beginning or the end of the name that it
is compared with, and takes the rest from another real name of the same position. So it has real parts, the
same style and, within two characters, the same length. A word that occurs anywhere in the corpus
is neither made up nor taken. A fake is about as likely as its name to a model of spelling (`SpellingModel`)
that knows the real names except the one in question.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np
import polars as pl

from sonde.base.errors import InputError
from sonde.base.fingerprint import derive_seed
from sonde.corpora import Item, SourceFile
from sonde.languages import get_facet
from sonde.languages.engine.imports import ImportReader
from sonde.tasks.engine.api_names import ALL, PUBLIC, ApiName, NameUses, gather_names
from sonde.tasks.engine.cloze_options import PER_LIBRARY, REFERENCE, PairOptions
from sonde.tasks.engine.cloze_queries import (
    FAKE_NAME,
    FAKE_PACKAGE,
    margin_rows,
    margin_table,
    segments,
    to_margin_rows,
)
from sonde.tasks.engine.cloze_statements import make_statement_items
from sonde.tasks.engine.task import DrawingTask, DrawRequest

SYNONYMS = ("package hallucination", "hallucinated API")


class ApiFakes(DrawingTask):
    """Real names paired with made-up ones."""

    name = "api_fakes"
    version = "2"

    def collect(self, files: Iterable[SourceFile]) -> list[dict[str, Any]]:
        """Return every pair of a corpus with its statements."""
        corpus_files = list(files)
        corpus_words = collect_words(file.text for file in corpus_files)
        pairs, _ = make_fake_pairs(
            gather_names(corpus_files), corpus_words, 0, PER_LIBRARY, REFERENCE, PUBLIC
        )
        return to_margin_rows(margin_table(pairs, None, 0))

    def draw_table(self, request: DrawRequest) -> tuple[pl.DataFrame, list[Item], dict[str, Any]]:
        """Draw at most ``size`` statements of pairs; see `DrawingTask.draw`.

        Raises:
            InputError: No name of the corpus has a fake.
        """
        uses = gather_names(request.files, parallel=request.parallel)
        pair_options = PairOptions.among(request.options)
        corpus_words = collect_words(file.text for file in request.files)
        pairs, left_out = make_fake_pairs(
            uses,
            corpus_words,
            request.seed,
            pair_options.per_library,
            pair_options.reference,
            pair_options.scope,
        )
        examples = margin_table(pairs, request.size, request.seed)
        if examples.is_empty():
            raise InputError(
                f"made-up names in {request.language}: {len(uses.names)} names in {uses.files} files give "
                f"none with a limit of {request.size}; use a larger corpus, or raise the limit"
            )
        details = {
            "names": len(uses.names),
            "words": len(corpus_words),
            "left_out": dict(sorted(left_out.items())),
        }
        return examples, make_statement_items(examples), details


def make_fake_pairs(
    uses: NameUses, corpus_words: set[str], seed: int, per_library: int, reference: str, scope: str
) -> tuple[Sequence[list[dict[str, Any]]], Counter[str]]:
    """Make a pair per library and a pair per public name, and count those without a fake."""
    by_language: dict[str, list[ApiName]] = defaultdict(list)
    for name in sorted(
        uses.names.values(), key=lambda api_name: (-api_name.calls, api_name.name, api_name.kind)
    ):
        levels = name.name.split(".")
        if len(levels) > get_facet(name.language, "imports", ImportReader).library_levels and uses.usable(
            name, PUBLIC if scope == ALL else scope
        ):
            by_language[name.language].append(name)
    pairs: list[list[dict[str, Any]]] = []
    left_out: Counter[str] = Counter()
    for language, names in sorted(by_language.items()):
        facet = get_facet(language, "imports", ImportReader)
        library_level = facet.library_levels - 1
        for pair, level in ((FAKE_PACKAGE, library_level), (FAKE_NAME, -1)):
            selected_names = _select_names(names, 1 if pair == FAKE_PACKAGE else per_library)
            parts = [name.name.split(".")[level] for name in names]
            fakes = FakeNames(parts, segments(parts, reference), corpus_words, seed)
            for name in selected_names:
                levels = name.name.split(".")
                fake = fakes.make_fake(levels[level])
                if fake is None:
                    left_out[f"{pair}: no new name of its length and spelling"] += 1
                    continue
                levels[level], spelling_margin = fake
                pairs.append(
                    margin_rows(
                        pair,
                        name.name,
                        ".".join(levels),
                        language=language,
                        library=name.library,
                        templates=facet.templates[name.kind],
                        calls=name.calls,
                        spelling_margin=spelling_margin,
                    )
                )
    return pairs, left_out


def _select_names(names: Sequence[ApiName], per_library: int) -> list[ApiName]:
    library_counts: Counter[str] = Counter()
    selected_names: list[ApiName] = []
    for name in names:
        library_counts[name.library] += 1
        if library_counts[name.library] <= per_library:
            selected_names.append(name)
    return selected_names


SLACK = 2
"""Characters by which a fake may be longer or shorter than the name that it stands against."""


SPELLING_TOLERANCE = 1.0
"""Nats by which the spelling of a fake may be likelier or less likely than that of its name."""


MAXIMUM_TRIES = 40
"""Recombinations of a name that are tried."""


_Parts = dict[tuple[tuple[bool, ...], int], list[str]]


_MINIMUM_PART_LENGTH = 3


_WORD = re.compile(r"[^\W\d]\w*")


_PARTS = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def collect_words(texts: Iterable[str]) -> set[str]:
    """Return all words of some texts, in lower case."""
    words: set[str] = set()
    for text in texts:
        words.update(word.lower() for word in _WORD.findall(text))
    return words


def split_name(name: str, pieces: Sequence[str]) -> tuple[list[tuple[str, str]], bool]:
    """Return the ways to split a name in two, and whether it has parts to split between.

    A name of one part is cut between its pieces, where three characters and more are on both sides.

    >>> split_name("read_csv", ["read", "_csv"])
    ([('read_', 'csv')], True)
    >>> split_name("OrderedDict", ["Ordered", "Dict"])
    ([('Ordered', 'Dict')], True)
    >>> split_name("requests", ["request", "s"]), split_name("weakref", ["weak", "ref"])
    (([], False), ([('weak', 'ref')], False))
    """
    inner = name.lstrip("_")
    prefix_length = len(name) - len(inner)
    cuts = [
        prefix_length + boundary.end()
        for boundary in _PARTS.finditer(inner)
        if 0 < boundary.end() < len(inner)
    ]
    if cuts:
        return [(name[:cut], name[cut:]) for cut in cuts], True
    offsets = np.cumsum([len(piece) for piece in pieces[:-1]]).tolist()
    return [
        (name[:cut], name[cut:])
        for cut in offsets
        if _MINIMUM_PART_LENGTH <= cut <= len(name) - _MINIMUM_PART_LENGTH
    ], False


class FakeNames:
    """Makes fakes of the names of one place.

    Args:
        names: Real names.
        pieces: The pieces of the reference segmentation for each name that has them.
        corpus_words: Words of the corpus, in small letters; none of them is a fake.
        seed: Makes other fakes.
    """

    def __init__(
        self, names: Collection[str], pieces: Mapping[str, Sequence[str]], corpus_words: Set[str], seed: int
    ) -> None:
        self._pieces, self._seed = pieces, seed
        self._spelling = SpellingModel(names)
        self._known = corpus_words | {name.lower() for name in names}
        self._sides: dict[bool, tuple[_Parts, _Parts]] = {}
        splits = [split_name(name, pieces.get(name, ())) for name in sorted(set(names))]
        for of_parts in (True, False):
            heads_and_tails = [
                head_and_tail
                for name_splits, parts in splits
                if parts == of_parts
                for head_and_tail in name_splits
            ]
            self._sides[of_parts] = (
                _by_style(head_and_tail[0] for head_and_tail in heads_and_tails),
                _by_style(head_and_tail[1] for head_and_tail in heads_and_tails),
            )

    def make_fake(self, name: str) -> tuple[str, float] | None:
        """Make a fake of a name, the same for a seed, and measure how much less likely its spelling is.

        Of the recombinations that are new, of the name's length and as well spelled as it, one is taken that
        is nearest in spelling, on the side that a coin says: so spelling does not tell them apart. None where
        there is none. The name itself and its parts are unknown to the spelling model.
        """
        rng = np.random.default_rng(derive_seed("fake", self._seed, name))
        left_out = self._spelling.exclude_name(name)
        name_score = self._spelling.score(name, left_out)
        margins = {
            fake: name_score - self._spelling.score(fake, left_out) for fake in self._recombine(name, rng)
        }
        candidates = {fake: margin for fake, margin in margins.items() if abs(margin) <= SPELLING_TOLERANCE}
        if not candidates:
            return None
        likelier = bool(rng.integers(2))
        side = {fake: margin for fake, margin in candidates.items() if (margin > 0) == likelier}
        return min((side or candidates).items(), key=lambda entry: (abs(entry[1]), entry[0]))

    def _recombine(self, name: str, rng: np.random.Generator) -> list[str]:
        """Return at most `MAXIMUM_TRIES` new recombinations of a name of its length, in a random order."""
        cuts, of_parts = split_name(name, self._pieces.get(name, ()))
        heads, tails = self._sides[of_parts]
        recombinations: list[str] = []
        for head, tail in cuts:
            recombinations += [head + part for part in _select_similar_parts(tails, tail)]
            recombinations += [part + tail for part in _select_similar_parts(heads, head)]
        fakes: list[str] = []
        for number in rng.permutation(len(recombinations)).tolist():
            candidate = recombinations[number]
            if candidate.lower() not in self._known and candidate.isidentifier():
                fakes.append(candidate)
            if len(fakes) == MAXIMUM_TRIES:
                break
        return fakes


def _by_style(parts: Iterable[str]) -> _Parts:
    groups: _Parts = {}
    for part in sorted(set(parts)):
        groups.setdefault((_style(part), len(part)), []).append(part)
    return groups


def _select_similar_parts(parts: _Parts, part: str) -> list[str]:
    """Return parts in the style of ``part`` and of about its length."""
    lengths = range(len(part) - SLACK, len(part) + SLACK + 1)
    return [candidate for length in lengths for candidate in parts.get((_style(part), length), ())]


def _style(part: str) -> tuple[bool, ...]:
    """Describe how a part is written: upper case, lower case, underscores at its ends."""
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
        """Return the counts that the model has from one real name alone."""
        left_out: LeftOut = {}
        for context, character in _grams(name) if name in self._names else ():
            left_out.setdefault(context, Counter())[character] += 1
        return left_out

    def score(self, name: str, left_out: LeftOut) -> float:
        """Return the log-probability of a name in nats, its end included.

        Args:
            name: Any name.
            left_out: What the model is not to know, from `exclude_name`.
        """
        text = _START * (ORDER - 1) + name + _END
        return sum(
            math.log(self._probability(text[position - ORDER + 1 : position], text[position], left_out))
            for position in range(ORDER - 1, len(text))
        )

    def _probability(self, context: str, character: str, left_out: LeftOut) -> float:
        probability = 1 / self._alphabet
        for length in range(len(context) + 1):
            suffix = context[len(context) - length :]
            counts = self._counts.get(suffix)
            if counts is None:
                break
            excluded_counts = left_out.get(suffix)
            total, kinds, count = self._totals[suffix], len(counts), counts.get(character, 0)
            if excluded_counts is not None:
                total -= sum(excluded_counts.values())
                kinds -= sum(
                    counts[excluded_character] == number
                    for excluded_character, number in excluded_counts.items()
                )
                count -= excluded_counts.get(character, 0)
            if total == 0:
                break
            probability = (count + kinds * probability) / (total + kinds)
        return probability


def _grams(name: str) -> Iterator[tuple[str, str]]:
    """Yield every context, from no character to the longest, with the character after it."""
    text = _START * (ORDER - 1) + name + _END
    for position in range(ORDER - 1, len(text)):
        for length in range(ORDER):
            yield text[position - length : position], text[position]


task = ApiFakes()
