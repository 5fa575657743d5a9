"""Ranks of cloze answers, one row per query, with P@k, MRR and the vocabulary that models share.

Every table of the lens rests on these ranks, and on P@k and MRR of a column of them. A prompt may have
several right answers, each a query of its own. ``rank`` is that of the single gold answer, ``rank_filtered``
leaves the other right answers of the prompt out, ``rank_any`` is that of its best one.

The module also finds what the vocabularies of a run's models share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import polars as pl

from sonde.alignment import get_surfaces
from sonde.alignment.vocabulary import get_vocabulary
from sonde.base.errors import InputError
from sonde.base.files import FileStamp
from sonde.lenses.cloze.observe import ANSWER, ONE_PIECE, iterate_candidate_scores
from sonde.lenses.engine.lens import ScoringContext
from sonde.models import load_tokenizer, manifest, parse_spec, tokenizer_stamps
from sonde.results import Mean, Score, means
from sonde.results.schema import scan_files
from sonde.tasks.engine.cloze_queries import path_number
from sonde.tasks.engine.cloze_statements import level_position

KS = (1, 5, 10, 20, 30, 40, 50)
"""As published (INK, section 4.3)."""


NAMES = ("call", "import")
"""Templates that ask for a name as it is; summaries over all names use these."""


IS_PLAIN = (pl.col("context") == "") & (pl.col("frame") == "")
"""The statement and nothing else."""


by_library = partial(means, cluster="library")
"""Means of queries, of which whole libraries are independent."""


CANDIDATE_COUNT = "competing"
"""Column of how many an answer is ranked among; frames whose answers compete with a vocabulary lack it."""


RANDOM_WEIGHTS, CHANCE = "random_weights", "chance"
"""The controls of random weights, and of ranking at random among those that compete."""


CONTROLS: Mapping[str, str] = {
    "unigram": "unigram",
    "majority": "majority",
    RANDOM_WEIGHTS: "rank_random_weights",
}
"""What answers without knowing a name (common answers and subwords of the corpus, random weights), with
the column of its ranks."""


def is_hit(frame: pl.DataFrame, column: str, k: int, count_column: str = CANDIDATE_COUNT) -> pl.Expr:
    """Return whether a rank is at most k; null if no more than k compete, since all are hits then.

    Args:
        frame: What the expression is for.
        column: The ranks.
        k: The bound.
        count_column: Column that counts what competes.
    """
    hit = pl.col(column) <= k
    return pl.when(pl.col(count_column) > k).then(hit) if count_column in frame.columns else hit


def precision_at_k(
    frame: pl.DataFrame, column: str, count_column: str = CANDIDATE_COUNT, ks: Sequence[int] = KS
) -> list[Mean]:
    """Return P@k for every k that is informative, of a column of ranks."""
    return [Mean("p_at_k", is_hit(frame, column, k, count_column), fields={"k": k}) for k in ks]


def mean_reciprocal_rank(column: str) -> Mean:
    """Return the mean reciprocal rank."""
    return Mean("mrr", 1.0 / pl.col(column), "unit")


def chance_reciprocal_rank(frame: pl.DataFrame) -> Mean:
    """Return the mean reciprocal rank of ranking at random among those that compete."""
    counts: list[int] = frame[CANDIDATE_COUNT].drop_nulls().unique().to_list()
    by_count = {count: sum(1 / rank for rank in range(1, count + 1)) / count for count in counts}
    value = pl.col(CANDIDATE_COUNT).replace_strict(by_count, default=None, return_dtype=pl.Float64)
    return Mean("mrr", value, "unit")


def each_control(
    frame: pl.DataFrame, ks: Sequence[int] = KS
) -> Iterator[tuple[str, pl.DataFrame, list[Mean]]]:
    """Yield P@k of each control, with the queries that it and the model answer; also of chance."""
    model_answers = frame.filter(pl.col("rank").is_not_null())
    for control, column in CONTROLS.items():
        if column in frame.columns:
            answered = model_answers.filter(pl.col(column).is_not_null())
            yield control, answered, precision_at_k(answered, column, ks=ks)
    if CANDIDATE_COUNT in frame.columns:
        # Ranked at random among those that compete.
        count = pl.col(CANDIDATE_COUNT)
        rates = [Mean("p_at_k", pl.when(count > k).then(k / count), "unit", fields={"k": k}) for k in ks]
        yield CHANCE, model_answers, rates


def gain_over(rate: Mean, frame: pl.DataFrame) -> Mean:
    """Return the model's P@k less that of a control, query by query."""
    gain = is_hit(frame, "rank", rate.fields["k"]).cast(pl.Float64) - rate.of.cast(pl.Float64)
    return Mean("p_at_k_gain", gain, "difference", fields=rate.fields)


def split_by_template(frame: pl.DataFrame, base: Score) -> Iterator[tuple[Score, pl.DataFrame]]:
    """Yield the queries of each template, with a score that names it."""
    for template in frame["template"].unique(maintain_order=True).to_list():
        part = frame.filter(pl.col("template") == template)
        yield base.within(("template", template)), part


def shared_surfaces(models: tuple[str, ...]) -> frozenset[str]:
    """Return the surfaces that the vocabularies of all models share, without special tokens.

    Raises:
        InputError: They share none.
    """
    return _intersect_vocabularies(
        models, tuple(tokenizer_stamps(parse_spec(model.strip())) for model in models)
    )


@lru_cache(maxsize=4)
def _intersect_vocabularies(
    models: tuple[str, ...], stamps: tuple[tuple[FileStamp, ...], ...]
) -> frozenset[str]:
    common: frozenset[str] | None = None
    for model in models:
        tokenizer = load_tokenizer(parse_spec(model.strip()))
        special = {str(token) for token in tokenizer.all_special_tokens}
        surfaces = frozenset(get_vocabulary(get_surfaces(tokenizer)).ids) - special
        common = surfaces if common is None else common & surfaces
    if not common:
        raise InputError(
            f"the vocabularies of {', '.join(models) or 'no model'} share no subtoken; compare models whose "
            "tokenizers spell text in the same script"
        )
    return common


def with_agreement(frame: pl.DataFrame, models: Sequence[str]) -> pl.DataFrame:
    """Add ``agree``: whether the tokenizers of all models cut the level alike, blanks and marks aside.

    Args:
        frame: From `rank_answers` or `rank_statements`.
        models: The models that are compared.
    """
    levels = frame.select(
        level=(pl.col("prefix") + pl.col("answer") + pl.col("suffix")).str.slice(
            pl.col("level_start"), pl.col("level_end") - pl.col("level_start")
        )
    )["level"]
    distinct_levels = sorted(set(levels))
    segmentations = [_segment_levels(model, distinct_levels) for model in models]
    agreement = {
        level: len(set(pieces)) == 1 for level, *pieces in zip(distinct_levels, *segmentations, strict=True)
    }
    return frame.with_columns(agree=levels.replace_strict(agreement, return_dtype=pl.Boolean))


def _segment_levels(model: str, levels: Sequence[str]) -> list[tuple[str, ...]]:
    tokenizer = load_tokenizer(parse_spec(model.strip()))
    texts = get_vocabulary(get_surfaces(tokenizer)).texts
    encoded = tokenizer(list(levels), add_special_tokens=False)["input_ids"] if levels else []
    return [tuple(text for number in ids if (text := texts[number])) for ids in encoded]


PUBLISHED_MODES = ("full", "first", "last")
"""The masking modes of the paper; sonde adds the others."""


NAME_MODES = (*PUBLISHED_MODES, "whole")
"""Modes whose answers are levels of names, or their ends."""


SHARED_COUNT = "competing_shared"
"""Column of how many candidates are one shared piece, where whole statements are scored."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """A way of counting an answer.

    Attributes:
        column: Column of its ranks.
        name: Its name in scores, as ``matching``.
        aggregation: How the subwords of a statement count, in scores of whole statements.
        count_column: Column that counts what competes.
    """

    column: str
    name: str
    aggregation: str | None = None
    count_column: str = CANDIDATE_COUNT

    def template(self, base: Score) -> Score:
        """Scores that are counted so."""
        return dataclasses.replace(base, matching=self.name, aggregation=self.aggregation)


PIECE_RANKINGS = (
    Ranking("rank", "single"),
    Ranking("rank_filtered", "filtered"),
    Ranking("rank_any", "any"),
    Ranking("rank_id", "id"),
    Ranking("rank_unified", "unified"),
    Ranking("rank_common", "common"),
)
"""How an answer among all pieces of a vocabulary is counted."""


CANDIDATE_RANKINGS = (
    Ranking("rank", "candidates", "sum"),
    Ranking("rank_per_piece", "candidates", "mean"),
    Ranking("rank_unified", "unified", "sum", SHARED_COUNT),
    Ranking("rank_common", "common", "sum"),
)
"""How an answer among some candidates is counted."""


_CALL_BUCKET = (
    pl.when(pl.col("calls") <= 1)
    .then(pl.lit("1"))
    .when(pl.col("calls") <= 4)
    .then(pl.lit("2-4"))
    .when(pl.col("calls") <= 19)
    .then(pl.lit("5-19"))
    .otherwise(pl.lit("20+"))
)


def rank_answers(answers: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Join the answers of a masked model with their queries and ranks; null if not asked.

    Args:
        answers: Observations in `sonde.lenses.cloze.observe.ANSWERS_SCHEMA`.
        labels: Queries in `sonde.tasks.engine.cloze_queries.QUERY_SCHEMA`.
    """
    table = labels.join(answers.drop("item_id"), on="query_id", how="inner", suffix="_here")
    return _with_groups(_with_other_answers(table))


def with_common(frame: pl.DataFrame, other_answers: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """Add ``rank_common`` and ``asked_of_all``: what every model of a run was asked, and how it ranks.

    ``rank_common`` is the rank where the answer is one piece for every model, ``asked_of_all`` whether every
    model has a log-probability of it. As they are where the run has one model.

    Args:
        frame: From `rank_answers`.
        other_answers: The answers of every other model of the run.
    """
    if not other_answers:
        return frame
    has = {column: pl.col(column).is_not_null() for column in ("nats", "rank")}
    for answers in other_answers:
        rows = answers.select("query_id", "nats", "rank").collect()
        for column in has:
            answered = rows.filter(pl.col(column).is_not_null())["query_id"]
            has[column] &= pl.col("query_id").is_in(answered.implode())
    return frame.with_columns(rank_common=pl.when(has["rank"]).then("rank"), asked_of_all=has["nats"])


def rank_statements(
    answers: pl.DataFrame,
    labels: pl.DataFrame,
    shared_pieces: frozenset[str] = frozenset(),
    other_answers: Sequence[pl.LazyFrame] = (),
) -> pl.DataFrame:
    """Rank the right statement of each query among its candidates.

    ``rank`` is by the statement's summed log-probability, ``rank_per_piece`` by its mean over subwords,
    ``rank_unified`` by the sum among the candidates that are one shared piece, null where the right one is
    none, ``rank_common`` by the sum where every model of the run scored all of its statements. Where the
    name alone was scored, that is its score in place of the statement's. Ties count
    against the right one; a query of which a statement was not scored is left out.

    Args:
        answers: Observations in `sonde.lenses.cloze.observe.ANSWERS_SCHEMA`.
        labels: Queries in `sonde.tasks.engine.cloze_queries.QUERY_SCHEMA`.
        shared_pieces: Pieces that the vocabularies of the models compared share.
        other_answers: The answers of every other model of the run.
    """
    everywhere = [
        set(answers_of_model.select("item_id").collect()["item_id"]) for answers_of_model in other_answers
    ]
    names_only = ANSWER in answers["status"]
    rows: list[dict[str, Any]] = []
    for row, ids, sums, averages in iterate_candidate_scores(answers, labels, names_only=names_only):
        as_likely = sums <= sums[0] + 1e-4
        is_shared = [name in shared_pieces for name in row["candidates"]]
        is_common = other_answers and all(answered.issuperset(ids) for answered in everywhere)
        rows.append(
            {
                "query_id": row["query_id"],
                "rank": as_likely.sum(),
                "rank_per_piece": (averages <= averages[0] + 1e-6).sum(),
                "rank_unified": as_likely[is_shared].sum() if is_shared[0] else None,
                "rank_common": as_likely.sum() if is_common else None,
                "nats": sums[0],
                CANDIDATE_COUNT: len(ids),
                SHARED_COUNT: sum(is_shared),
            }
        )
    schema = {
        "query_id": pl.String,
        "rank": pl.Int32,
        "rank_per_piece": pl.Int32,
        "rank_unified": pl.Int32,
        "rank_common": pl.Int32,
        "nats": pl.Float64,
        CANDIDATE_COUNT: pl.Int32,
        SHARED_COUNT: pl.Int32,
    }
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return _with_groups(labels.join(table, on="query_id", how="inner"))


def with_random_weights(
    frame: pl.DataFrame,
    scoring: ScoringContext,
    labels: pl.DataFrame,
    rank_function: Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame],
) -> pl.DataFrame:
    """Add ``rank_random_weights``: how random weights rank each answer; as it is where none were observed.

    Args:
        frame: From `rank_answers` or `rank_statements`.
        scoring: What the lens scores with.
        labels: The queries.
        rank_function: The same function.
    """
    if not scoring.controls:
        return frame
    control = rank_function(scoring.controls[0].observations.collect(), labels).select(
        "query_id", rank_random_weights="rank"
    )
    return frame.join(control, on="query_id", how="left", maintain_order="left")


def with_seen_libraries(frame: pl.DataFrame, model: str) -> pl.DataFrame:
    """Add ``seen``: whether the library of a name is called in a file that the model was trained on.

    As in the paper the rule is the library's: a name counts as unseen only where nothing of its library was
    seen. Where the model does not say what it was trained on, the corpus counts that the user named for it
    (column ``trained``), and null stands where there is none.
    """
    manifest_files = manifest(model).files
    if manifest_files is None:
        return frame.with_columns(seen=pl.col("trained"))
    files = scan_files(manifest_files).collect()
    training_files = files.filter("seen_in_training") if "seen_in_training" in files.columns else files
    numbers = pl.Series([path_number(path) for path in training_files["path"].unique()], dtype=pl.UInt64)
    paths = frame.select("library", "paths").explode("paths").unique()
    libraries = paths.filter(pl.col("paths").is_in(numbers.implode()))["library"].unique()
    return frame.with_columns(seen=pl.col("library").is_in(libraries.implode()))


def _with_other_answers(frame: pl.DataFrame) -> pl.DataFrame:
    """Ranks that know of the other right answers to a prompt."""
    prompt = ["language", "prefix", "suffix"]
    answered = frame.filter(pl.col("status") == ONE_PIECE).unique([*prompt, "answer"], maintain_order=True)
    ranks = answered.select(
        *prompt,
        "answer",
        better=pl.col("rank").rank("max").over(prompt).cast(pl.Int32) - 1,
        rank_any=pl.col("rank").min().over(prompt),
        answers=pl.len().over(prompt),
    )
    return frame.join(ranks, on=[*prompt, "answer"], how="left", maintain_order="left").with_columns(
        rank_filtered=pl.col("rank") - pl.col("better")
    )


def _with_groups(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the columns that tables group by: position of the level, and calls of the name."""
    levels = frame.select("level", "levels").unique()
    places = pl.Series([level_position(*row) for row in levels.iter_rows()], dtype=pl.String)
    return frame.join(
        levels.with_columns(place=places), on=["level", "levels"], how="left", maintain_order="left"
    ).with_columns(bucket=_CALL_BUCKET)
