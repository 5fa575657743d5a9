"""Pairing of the scores of two models that answer the same question, and reasons where none does."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sonde.base.formatting import bracket
from sonde.results.schema import Dimensions, format_dimensions
from sonde.results.scores import Score

Direction = Literal["higher", "lower", ""]
"""Which values of a metric are better; empty where neither is."""


IDENTITY_COLUMNS = (
    "lens", "task", "language", "split", "dimensions", "side", "pooling", "metric", "of_metric",
    "compared_to", "k", "method", "matching", "aggregation", "objective", "weighting", "binning", "unit",
    "mode",
)  # fmt: skip
"""Columns that define a number, without layer and head, which a model may select."""


_POSITION_COLUMNS = ("layer", "head")


_BY_SUBWORD = "tokenizers differ, and it is counted by subword"


_UNBOUNDED_KINDS = ("nonnegative", "real")
"""Kinds of numbers whose observations may be others in other words: each is a ratio of its own sums."""


_DEFINITION = ("pooling", "objective", "matching", "aggregation", "method", "weighting", "side", "k", "mode")
"""Columns by which two numbers may differ that look alike otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparableMetric:
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
        excludes: Which scores are not compared and not missed: other forms of numbers that are compared, such
            as weighted means and differences inside one model.
        gated: Whether a gate on checkpoints tests it; each further metric costs the others power.
        of_subwords: Which scores are of subwords that are no code tokens, and so have no counterpart between
            tokenizers.
    """

    metric: str
    direction: Direction = ""
    k: int | None = None
    method: str | None = None
    without: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    tokenizers: Literal["same", "other", "changed", ""] = ""
    excludes: Callable[[Score], bool] | None = None
    of_subwords: Callable[[Score], bool] | None = None
    gated: bool = True

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
            and not (self.excludes is not None and self.excludes(score))
        )


@dataclass(frozen=True, slots=True)
class UnmatchedScores:
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
class ScorePairs:
    """Pairs of scores of two models that answer the same question.

    Attributes:
        pairs: Score of the base, score of the model, and which values are better.
        unpaired: Scores of either side that could not be paired, by lens and reason.
    """

    pairs: list[tuple[Score, Score, Direction]] = field(default_factory=list[tuple[Score, Score, Direction]])
    unpaired: list[UnmatchedScores] = field(default_factory=list[UnmatchedScores])


def pair_scores(
    bases: Iterable[Score],
    scores: Iterable[Score],
    metrics: Sequence[ComparableMetric],
    *,
    same_tokens: bool,
    texts_differ: bool = False,
) -> ScorePairs:
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
    tokenizers = "changed" if texts_differ else "same" if same_tokens else "other"
    result = ScorePairs()
    replaced: set[Dimensions] = set()
    unmatched_scores: dict[tuple[str, str], list[Score]] = {}
    for metric in metrics:
        sides = [
            _index_by_question(score for score in side if metric.takes(score)) for side in (bases, scores)
        ]
        first, second = sides
        reasons: list[tuple[Score, str]] = []
        if metric.tokenizers not in ("", tokenizers):
            if tokenizers == "other" and metric.tokenizers == "same":
                reasons = [
                    (score, _BY_SUBWORD)
                    for score in second.values()
                    if metric.of_subwords is None or not metric.of_subwords(score)
                ]
            first = second = {}
        near_matches = [_index_near_matches(side) for side in (first, second)]
        for question in dict.fromkeys((*first, *second)):
            base, score = first.get(question), second.get(question)
            if base is None or score is None:
                for member, matches in ((score, near_matches[0]), (base, near_matches[1])):
                    if member is not None:
                        reasons.append((member, _unmatched_reason(question, matches)))
            elif base.contributions is None or score.contributions is None:
                reasons.append((score, "no paired test is known for this number"))
            elif "difference" in (base.contributions.kind, score.contributions.kind):
                reasons.append((score, "a difference is not compared once more"))
            elif not (texts_differ and base.contributions.kind in _UNBOUNDED_KINDS) and not (
                base.contributions.has_same_clusters(score.contributions)
            ):
                reasons.append((score, f"observations differ: {base.n:,} against {score.n:,}"))
            else:
                result.pairs.append((base, score, metric.direction))
                if metric.tokenizers:
                    replaced.add(_strip_dimensions(score, metric.within))
        for score, reason in reasons:
            unmatched_scores.setdefault((score.lens, reason), []).append(score)
    by_subword = [key for key in unmatched_scores if key[1] == _BY_SUBWORD]
    for key in by_subword:
        remaining = [score for score in unmatched_scores[key] if score.dimensions not in replaced]
        unmatched_scores[key] = remaining
        if not remaining:
            del unmatched_scores[key]
    result.unpaired = [
        UnmatchedScores(lens, reason, len(members), _describe_score(members[0]))
        for (lens, reason), members in unmatched_scores.items()
    ]
    return result


def merge_unmatched_scores(unmatched_scores: Iterable[UnmatchedScores]) -> list[UnmatchedScores]:
    """Add up scores with the same lens and reason; the first example stays."""
    merged: dict[tuple[str, str], UnmatchedScores] = {}
    for scores in unmatched_scores:
        key = scores.lens, scores.reason
        count = scores.count + (merged[key].count if key in merged else 0)
        merged[key] = replace(merged.get(key, scores), count=count)
    return list(merged.values())


def _strip_dimensions(score: Score, names: Sequence[str]) -> Dimensions:
    return tuple(dimension for dimension in score.dimensions if dimension[0] not in names)


def merge_identical_pairs(
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
    groups: dict[Hashable, list[int]] = {}
    for index, pair in enumerate(pairs):
        groups.setdefault(_content_key(pair) or index, []).append(index)
    duplicate_names: dict[int, tuple[Dimensions, ...]] = {}
    for indices in groups.values():
        names = {index: pairs[index][1].dimensions for index in indices}
        first, *duplicates = sorted(indices, key=lambda index: (len(names[index]), names[index]))
        duplicate_names[first] = tuple(names[index] for index in duplicates)
    return [(pairs[index], duplicate_names[index]) for index in sorted(duplicate_names)]


def _content_key(pair: tuple[Score, Score, Direction]) -> Hashable:
    """Return the key of a pair of numbers without its dimensions; None if it is not unique."""
    contributions = [side.contributions for side in pair[:2]]
    parts = [contribution.content for contribution in contributions if contribution is not None]
    if None in parts or len(parts) < len(contributions):
        return None
    identity = tuple(getattr(pair[1], name) for name in IDENTITY_COLUMNS if name != "dimensions")
    positions = tuple(getattr(side, name) for side in pair[:2] for name in _POSITION_COLUMNS)
    return identity, positions, tuple((side.value, side.n) for side in pair[:2]), tuple(parts)


_Question = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Question of a score: its `IDENTITY_COLUMNS`, and layer and head where these are a part of it."""


def _index_by_question(scores: Iterable[Score]) -> dict[_Question, Score]:
    """Index scores by the question that they answer."""
    groups: dict[tuple[Any, ...], list[Score]] = {}
    for score in scores:
        groups.setdefault(tuple(getattr(score, name) for name in IDENTITY_COLUMNS), []).append(score)
    scores_by_question: dict[_Question, Score] = {}
    for question, members in groups.items():
        for score in members:
            position = () if len(members) == 1 else tuple(getattr(score, name) for name in _POSITION_COLUMNS)
            scores_by_question.setdefault((question, position), score)
    return scores_by_question


def _index_near_matches(questions: Iterable[_Question]) -> dict[Hashable, _Question]:
    """Index answered questions by what is left without one of their columns."""
    index: dict[Hashable, _Question] = {}
    for question in questions:
        for key in _mask_each_column(question):
            index.setdefault(key, question)
    return index


def _unmatched_reason(question: _Question, near_matches: Mapping[Hashable, _Question]) -> str:
    """Return the one column that keeps a question from being answered, in words."""
    for key in _mask_each_column(question):
        if (match := near_matches.get(key)) is not None:
            index = IDENTITY_COLUMNS.index(key[0])
            values = sorted(_format_value(candidate[0][index]) for candidate in (question, match))
            return f"{key[0]} differs: {' against '.join(values)}"
    return "only one side has such a number"


def _mask_each_column(question: _Question) -> Iterator[tuple[str, Hashable]]:
    values, position = question
    for name in _DEFINITION:
        index = IDENTITY_COLUMNS.index(name)
        yield name, (values[:index], values[index + 1 :], position)


def _format_value(value: object) -> str:
    return "none" if value in (None, "", ()) else str(value)


def _describe_score(score: Score) -> str:
    return f"{score.task} {score.metric}".strip() + bracket(format_dimensions(score.dimensions))
