"""Pairing of the scores of two models that answer the same question, and reasons where none does."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sonde.results.schema import Dimensions
from sonde.results.scores import Score

Direction = Literal["higher", "lower", ""]
"""Which values of a metric are better; empty where neither is."""


IDENTITY = (
    "lens", "task", "language", "split", "dimensions", "side", "pooling", "metric", "of_metric",
    "compared_to", "k", "method", "matching", "aggregation", "objective", "weighting", "binning", "unit",
    "mode",
)  # fmt: skip
"""Columns that define a number, without layer and head, which a model may select."""


_PLACE = ("layer", "head")


_UNBOUNDED = ("nonnegative", "real")
"""Kinds of numbers whose observations may be others in other words: each is a ratio of its own sums."""


_DEFINITION = ("pooling", "objective", "matching", "aggregation", "method", "weighting", "side", "k", "mode")
"""Columns by which two numbers may differ that look alike otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Metric that a lens declares comparable between models: one for each thing that it measures.

    Attributes:
        metric: The metric.
        direction: Which values are better; empty where neither is.
        k: Required ``k``; None for any.
        method: Required method; None for any.
        without: Dimensions that the rows must not have.
        within: Dimensions that the rows must have, for a part of the text that both models read.
        tokenizers: ``same`` for numbers of subwords, which mean the same within one tokenizer alone;
            ``other`` for their substitute between tokenizers, ``changed`` between texts of one program in
            other words; empty for what does not depend on it.
    """

    metric: str
    better: Direction = ""
    k: int | None = None
    method: str | None = None
    without: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    tokenizers: Literal["same", "other", "changed", ""] = ""

    def takes(self, score: Score) -> bool:
        """Return whether a score is of this metric: of the model itself, and not of training data."""
        return (
            score.metric == self.metric
            and score.control is None
            and score.split not in ("train", "valid")
            and self.k in (None, score.k)
            and self.method in (None, score.method)
            and not any(name in self.without for name, _ in score.dimensions)
            and {*self.within} <= {name for name, _ in score.dimensions}
        )


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Scores without a counterpart, and why.

    Attributes:
        lens: Public name.
        reason: Reason, in words.
        count: Number of scores.
        example: Description of one of them.
    """

    lens: str
    reason: str
    count: int
    example: str


@dataclass(slots=True)
class Pairs:
    """Pairs of scores of two models that answer the same question.

    Attributes:
        pairs: Score of the base, score of the model, and which values are better.
        unpaired: Scores of either side that could not be paired, by lens and reason.
    """

    pairs: list[tuple[Score, Score, Direction]] = field(default_factory=list[tuple[Score, Score, Direction]])
    unpaired: list[Unpaired] = field(default_factory=list[Unpaired])


def paired(
    bases: Iterable[Score],
    scores: Iterable[Score],
    wanted: Sequence[Compared],
    *,
    same_tokens: bool,
    changed: bool = False,
) -> Pairs:
    """Pair the scores of two models over the same items.

    A layer or head is a part of the question where a model has several such scores; where each has one, it is
    what the model chose.

    Args:
        bases: Scores of the base model, all of one lens, corpus and language.
        scores: Scores of the other model.
        metrics: The metrics to compare.
        same_tokens: Whether both models read the items with the same subwords.
        texts_differ: Whether they read the same programs with different transformations.
    """
    read = "changed" if changed else "same" if same_tokens else "other"
    found = Pairs()
    for one in wanted:
        sides = [_by_question(score for score in side if one.takes(score)) for side in (bases, scores)]
        if one.tokenizers not in ("", read):
            if read == "other" and one.tokenizers == "same":
                _leave(found, [*sides[1].values()], "tokenizers differ, and it is counted by subword")
            continue
        first, second = sides
        nearly = [_Nearly(side) for side in sides]
        for question in dict.fromkeys((*first, *second)):
            base, score = first.get(question), second.get(question)
            if base is None or score is None:
                for alone, others in ((score, nearly[0]), (base, nearly[1])):
                    if alone is not None:
                        _leave(found, [alone], others.why_alone(question))
            elif base.contributions is None or score.contributions is None:
                _leave(found, [score], "no paired test is known for this number")
            elif "difference" in (base.contributions.kind, score.contributions.kind):
                _leave(found, [score], "a difference is not compared once more")
            elif not (changed and base.contributions.kind in _UNBOUNDED) and not (
                base.contributions.over_the_same(score.contributions)
            ):
                _leave(found, [score], f"observations differ: {base.n:,} against {score.n:,}")
            else:
                found.pairs.append((base, score, one.better))
    return found


def merge_same_numbers(
    pairs: Sequence[tuple[Score, Score, Direction]],
) -> list[tuple[tuple[Score, Score, Direction], tuple[Dimensions, ...]]]:
    """Merge pairs that are one number under several names, such as a tag and the role that it always has.

    Names are told by their numbers alone: both sides have the same value, to the last bit, from the same sums
    and sizes in the same clusters. Of whole numbers that is no proof, since counts of other observations
    are often the same, so that these are left as they are.

    Returns:
        In their order, each pair that is tested, under the name with the fewest dimensions (then the first in
        the order of letters), and the other names of its number.
    """
    held: dict[Hashable, list[int]] = {}
    for place, pair in enumerate(pairs):
        held.setdefault(_content(pair) or place, []).append(place)
    kept: dict[int, tuple[Dimensions, ...]] = {}
    for places in held.values():
        first, *others = sorted(places, key=lambda place: _by_name(pairs[place][1].dimensions))
        kept[first] = tuple(pairs[place][1].dimensions for place in others)
    return [(pairs[place], kept[place]) for place in sorted(kept)]


def _by_name(dimensions: Dimensions) -> tuple[int, Dimensions]:
    return len(dimensions), dimensions


def _content(pair: tuple[Score, Score, Direction]) -> Hashable:
    """Return the key of a pair of numbers without its dimensions; None if it is not unique."""
    held = [side.contributions for side in pair[:2]]
    parts = [one.content for one in held if one is not None]
    if None in parts or len(parts) < len(held):
        return None
    about = tuple(getattr(pair[1], name) for name in IDENTITY if name != "dimensions")
    places = tuple(getattr(side, name) for side in pair[:2] for name in _PLACE)
    return about, places, tuple((side.value, side.n) for side in pair[:2]), tuple(parts)


_Question = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Question of a score: its `IDENTITY_COLUMNS`, and layer and head where these are a part of it."""


def _by_question(scores: Iterable[Score]) -> dict[_Question, Score]:
    """Index scores by the question that they answer."""
    held: dict[tuple[Any, ...], list[Score]] = {}
    for score in scores:
        held.setdefault(tuple(getattr(score, name) for name in IDENTITY), []).append(score)
    found: dict[_Question, Score] = {}
    for question, some in held.items():
        for score in some:
            place = () if len(some) == 1 else tuple(getattr(score, name) for name in _PLACE)
            found.setdefault((question, place), score)
    return found


class _Nearly:
    """Index of answered questions that finds those which differ in one column only."""

    def __init__(self, answered: Iterable[_Question]) -> None:
        self._held: dict[Hashable, _Question] = {}
        for question in answered:
            for name, rest in self._but_one(question):
                self._held.setdefault((name, rest), question)

    def why_alone(self, question: _Question) -> str:
        """Return the one column that keeps a question from being answered, in words."""
        for name, rest in self._but_one(question):
            if (other := self._held.get((name, rest))) is not None:
                place = IDENTITY.index(name)
                shown = sorted(_shown(one[0][place]) for one in (question, other))
                return f"{name} differs: {' against '.join(shown)}"
        return "only one side has such a number"

    @staticmethod
    def _but_one(question: _Question) -> Iterable[tuple[str, Hashable]]:
        values, place = question
        for name in _DEFINITION:
            at = IDENTITY.index(name)
            yield name, (values[:at], values[at + 1 :], place)


def _shown(value: object) -> str:
    return "none" if value in (None, "", ()) else str(value)


def _leave(found: Pairs, scores: Sequence[Score], reason: str) -> None:
    """Count scores without a counterpart under their reason."""
    for score in scores:
        for at, one in enumerate(found.unpaired):
            if (one.lens, one.reason) == (score.lens, reason):
                found.unpaired[at] = Unpaired(one.lens, reason, one.count + 1, one.example)
                break
        else:
            found.unpaired.append(Unpaired(score.lens, reason, 1, _in_words(score)))


def _in_words(score: Score) -> str:
    about = ", ".join(f"{name} {value}" for name, value in score.dimensions)
    return " ".join(filter(None, (score.task, score.metric, f"({about})" if about else "")))
