"""Score tables of the cloze lens: P@k, MRR and log-probabilities by every cut, with controls.

The module also holds the options of the lens. The headline of a run is how often each model knows the name,
compared with the best control. If the right word is not published, the tables show which of the competing
words a model prefers, and `write_predictions` writes these for the published evaluator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import polars as pl

from sonde.base.files import write_atomic
from sonde.base.options import Count, OneOf, option
from sonde.corpora.sources.codexglue import predictions
from sonde.languages import format_language
from sonde.lenses.cloze.libraries import scores_by_release, scores_by_use
from sonde.lenses.cloze.observe import ANSWER, CUT, ONE, RESPELLED, SEVERAL, candidate_ids
from sonde.lenses.cloze.paired import (
    ALIASES_APART,
    aliases_of_names,
    paired_aliases,
    score_frames,
    score_import_context,
    score_overlap,
    score_seen_libraries,
    score_wordings,
)
from sonde.lenses.cloze.ranks import (
    COMPETING,
    KS,
    MATCHINGS,
    NAMES,
    PUBLISHED_MODES,
    RANDOM_WEIGHTS,
    SHARED,
    by_library,
    is_hit,
    mean_reciprocal_rank,
    precision_at_k,
    rank_answers,
    rank_statements,
    score_chance,
    shared_surfaces,
    split_by_template,
    with_agreement,
    with_common,
    with_random_weights,
    with_seen_libraries,
)
from sonde.lenses.engine.lens import ScoringContext
from sonde.results import Mean, Score, means
from sonde.results.schema import dimension_value, has_dimension_names, scan_files
from sonde.results.scores import split_by_model
from sonde.results.tables import Column, Table, estimate_columns, sample_size_column
from sonde.results.text_format import Row, with_interval
from sonde.store.run_folder import RunDirectory, slug
from sonde.tasks.engine.cloze_options import ANSWERS, GIVEN, TASK, StatementOptions

BOTH, UNIFIED = "both", "unified"


class ClozeOptions(StatementOptions):
    """The options of the lens, beside those of its tasks."""

    unified: tuple[str, ...] = option(
        (),
        "models whose shared vocabulary is ranked beside the model's own",
        unset="the models of the run, where there are several",
    )
    ranking: Annotated[str, OneOf((BOTH, UNIFIED))] = option(
        BOTH,
        f"{BOTH}: ranks and probabilities over each model's own vocabulary and over the shared one; "
        f"{UNIFIED}: of answers of one subtoken over the shared one alone, faster",
    )
    min_count: Count = option(20, "fewest cloze queries that a library needs for a row of its own")


_ENTRY = ["library", "name"]
"""What tells an entry from others: its folder with its number, and its number, which is not its own."""


def select_preferred_words(answers: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """``library, name, word``: the likeliest word of each entry, in the order of the queries.

    Of equally likely words the first by alphabet is taken, whatever order they were asked in.

    Entries of which a word could not be asked for are left out.

    Args:
        answers: Observations in `sonde.lenses.cloze.observe.ANSWERS_SCHEMA`.
        labels: Queries in `sonde.tasks.engine.cloze_queries.QUERY_SCHEMA`.
    """
    given = labels.filter(pl.col("template") == GIVEN)
    texts = pl.Series("text_id", [candidate_ids(row)[0] for row in given.iter_rows(named=True)], pl.String)
    by_query = answers.filter(pl.col("query_id").is_not_null()).select("query_id", asked=pl.col("nats"))
    by_text = answers.filter(pl.col("query_id").is_null()).select(text_id="item_id", scored=pl.col("nats"))
    joined = (
        given.select(*_ENTRY, "query_id", word="answer")
        .with_columns(texts)
        .join(by_query, on="query_id", how="left", maintain_order="left")
        .join(by_text, on="text_id", how="left", maintain_order="left")
        .with_columns(nats=pl.coalesce("asked", "scored"))
    )
    whole = joined.filter(pl.col("nats").is_not_null().all().over(_ENTRY))
    best = whole.sort("nats", "word", maintain_order=True).unique(_ENTRY, keep="first", maintain_order=True)
    entries = given.select(_ENTRY).unique(maintain_order=True)
    return entries.join(best.select(*_ENTRY, "word"), on=_ENTRY, how="inner", maintain_order="left")


def write_predictions(run: RunDirectory) -> list[tuple[Path, int, int]]:
    """Write what the published evaluator takes, for each model and folder of entries of a run.

    ``predictions/model=M`` is what the evaluator's option ``--predictions`` names; in it lies
    ``FOLDER/predictions.txt``, a line an entry in the order of their numbers.

    Args:
        run: The folder of a run, observed to its end.

    Returns:
        Each file with the entries in it and the entries asked; none where the run asked no such test.

    Raises:
        InputError: The folder holds no run.
        StoreError: A file cannot be written.
    """
    root = run.root
    tables = run.label_tables(TASK, "cloze")
    labels = [scan_files([one]).filter(pl.col("template") == GIVEN).collect() for one in tables]
    queries = pl.concat(labels) if labels else pl.DataFrame()
    if queries.is_empty():
        return []
    written: list[tuple[Path, int, int]] = []
    for model in run.read_summary()["models"]:
        parts = run.tables(run.observations("cloze", model["name"]))
        if not parts:
            continue
        answers = scan_files(parts).collect()
        for folder, asked in _by_folder(queries):
            words = select_preferred_words(answers, asked).select("name", "word").rows()
            path = root / "predictions" / f"model={slug(model['name'])}" / folder / "predictions.txt"
            write_atomic(path, predictions(sorted(words, key=lambda row: _entry_sort_key(row[0]))))
            written.append((path, len(words), asked.select(_ENTRY).n_unique()))
    return written


def _by_folder(queries: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    named = queries.with_columns(_folder=pl.col("library").str.replace(r"/[^/]*$", ""))
    for (folder,), part in named.partition_by("_folder", as_dict=True, include_key=False).items():
        yield str(folder), part


def _entry_sort_key(number: str) -> tuple[str, int, str]:
    """Numbers in the order of their entries: ``maxmin-2`` before ``maxmin-10``."""
    kind, _, count = number.rpartition("-")
    return (kind, int(count), "") if count.isdecimal() else (number, 0, count)


def prediction_scores(answers: pl.DataFrame, labels: pl.DataFrame, template: Score) -> Iterator[Score]:
    """How often each word is preferred; the published answers would say how often rightly."""
    found = select_preferred_words(answers, labels)
    base = template.within(("template", GIVEN))
    words = sorted(set(found["word"]))
    for word in words:
        one = base.within(("word", word))
        yield from by_library(found, [Mean("preferred", pl.col("word") == word)], one)
    # As often at random as there are words to choose from.
    count = labels.filter(pl.col("template") == GIVEN).group_by(_ENTRY).agg(_words=pl.len())
    at_random = found.join(count, on=_ENTRY).with_columns(chance=1 / pl.col("_words"))
    for word in words:
        one = dataclasses.replace(base, control="chance").within(("word", word))
        yield from by_library(at_random, [Mean("preferred", pl.col("chance"), "unit")], one)


_CUTS: Mapping[str, str] = {
    "place": "place",
    "calls": "bucket",
    "visible": "visible",
    "agree": "agree",
}
"""Name of the dimension, and the column that makes the groups."""


_CONTROLS: Mapping[str, str] = {
    "unigram": "unigram",
    "majority": "majority",
    RANDOM_WEIGHTS: "rank_random_weights",
}
"""What answers without knowing a name (common answers and subwords of the corpus, random weights), with
the column of its ranks."""


_OF_STATEMENTS: Mapping[str, tuple[str, str]] = {
    "rank": ("candidates", "sum"),
    "rank_per_piece": ("candidates", "mean"),
    "rank_unified": ("unified", "sum"),
    "rank_common": ("common", "sum"),
}
"""Columns of ranks among candidates, with ``matching`` and ``aggregation`` of their scores."""


def score_masked_model(scoring: ScoringContext, labels: pl.DataFrame) -> Iterator[Score]:
    """Every table of a masked model."""
    base = dataclasses.replace(scoring.template, task="api_cloze")
    if GIVEN in labels["template"]:
        yield from prediction_scores(scoring.observations.collect(), labels, base)
        return
    frame = _prepare_answers(scoring, labels)
    alone = frame.filter(_ALONE)
    published = alone.filter(pl.col("mode").is_in(PUBLISHED_MODES))
    names = published.filter(pl.col("template").is_in(NAMES))
    ranked = [matching for matching in MATCHINGS if MATCHINGS[matching] in frame.columns]
    yield from _ranks(names, base, ranked)
    for template, part in split_by_template(published, base):
        yield from _ranks(part, template, ranked)
        yield from _cuts(part, template, ClozeOptions.read(scoring.settings.options).min_count)
    for template, part in split_by_template(alone, base):
        yield from _ranks(part, template, ["single"], by=["mode"])
        yield from _answers(part, template)
        if "asked_of_all" in part.columns:
            shared = dataclasses.replace(template, matching="common")
            yield from _answers(part.filter("asked_of_all"), shared)
        yield from _coverage(part, template)
    for template, part in ((base, names), *split_by_template(published, base)):
        yield from _controls(part, dataclasses.replace(template, matching="single"))
    minimum = ClozeOptions.read(scoring.settings.options).min_count
    yield from _score_comparisons(frame, names, labels, base, minimum)


def score_candidates(scoring: ScoringContext, labels: pl.DataFrame) -> Iterator[Score]:
    """Every table of a model that scores whole statements."""
    answers = scoring.observations.collect()
    base = dataclasses.replace(scoring.template, task="api_cloze")
    if GIVEN in labels["template"]:
        yield from prediction_scores(answers, labels, base)
        return
    if ANSWER in answers["status"]:
        base = dataclasses.replace(base, objective=ANSWERS)
    compared = ClozeOptions.read(scoring.settings.options).unified
    shared = shared_surfaces(compared) if compared else frozenset[str]()
    contest = rank_statements(answers, labels, shared, scoring.beside)
    frame = with_seen_libraries(contest, scoring.template.model).with_columns(status=pl.lit(ONE))
    frame = with_agreement(frame, compared) if compared else frame
    frame = with_random_weights(frame, scoring, labels, rank_statements)
    alone = frame.filter(_ALONE)
    names = alone.filter(pl.col("template").is_in(NAMES))
    for template, part in ((base, names), *split_by_template(alone, base)):
        for column, (matching, aggregation) in _OF_STATEMENTS.items():
            named = dataclasses.replace(template, matching=matching, aggregation=aggregation)
            among = SHARED if column == "rank_unified" else COMPETING
            yield from by_library(
                part, [*precision_at_k(part, column, among), mean_reciprocal_rank(column)], named
            )
        summed = dataclasses.replace(template, matching="candidates", aggregation="sum")
        yield from score_chance(part, summed)
        yield from _controls(part, summed)
    for template, part in split_by_template(alone, base):
        summed = dataclasses.replace(template, matching="candidates", aggregation="sum")
        yield from by_library(part, precision_at_k(part, "rank"), summed, by="mode")
        yield from _cuts(part, template, ClozeOptions.read(scoring.settings.options).min_count)
    minimum = ClozeOptions.read(scoring.settings.options).min_count
    yield from _score_comparisons(frame, names, labels, base, minimum)


_ALONE = (pl.col("context") == "") & (pl.col("frame") == "")
"""The statement and nothing else."""


def _score_comparisons(
    frame: pl.DataFrame, names: pl.DataFrame, labels: pl.DataFrame, base: Score, minimum: int
) -> Iterator[Score]:
    """What is said of pairs of queries and of the queries themselves, however they are scored."""
    yield from paired_aliases(frame, base)
    yield from score_wordings(frame, base)
    yield from score_import_context(frame, base)
    yield from score_frames(frame, base)
    yield from scores_by_use(names, base, minimum)
    yield from scores_by_release(names, base)
    yield from score_seen_libraries(names, base)
    yield from score_overlap(names, base)
    yield from aliases_of_names(labels, base)


def _prepare_answers(scoring: ScoringContext, labels: pl.DataFrame) -> pl.DataFrame:
    model = scoring.template.model
    frame = with_common(rank_answers(scoring.observations.collect(), labels), scoring.beside)
    frame = with_seen_libraries(frame, model)
    frame = with_random_weights(frame, scoring, labels, rank_answers)
    compared = ClozeOptions.read(scoring.settings.options).unified
    return with_agreement(frame, compared) if compared else frame


def _ranks(
    frame: pl.DataFrame, template: Score, matchings: list[str], by: Sequence[str] = ()
) -> Iterator[Score]:
    for matching in matchings:
        column, named = MATCHINGS[matching], dataclasses.replace(template, matching=matching)
        yield from by_library(
            frame, [*precision_at_k(frame, column), mean_reciprocal_rank(column)], named, by=by
        )


def _cuts(frame: pl.DataFrame, template: Score, minimum: int) -> Iterator[Score]:
    """P@1, P@10 and MRR of the single answer by every cut; every k by whether the library was seen."""
    single = dataclasses.replace(template, matching="single")
    first_ten = [*precision_at_k(frame, "rank", ks=(1, 10)), mean_reciprocal_rank("rank")]
    for cut, column in _CUTS.items():
        if column in frame.columns:
            yield from by_library(frame, first_ten, single, by={cut: pl.col(column)})
    yield from by_library(frame, precision_at_k(frame, "rank"), single, by="seen")
    # A library has no other to be resampled with: within it, names are taken as independent.
    for score in means(frame, first_ten, single, by="library", cluster="name", minimum=minimum):
        yield dataclasses.replace(score, ci_method=f"by name, {score.ci_method}")


def _answers(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Log-probabilities, and how often all pieces of an answer rank first one after the other."""
    wanted = [
        Mean("nats", pl.col("nats"), "nonnegative"),
        Mean("nats_per_character", pl.col("nats") / pl.col("characters"), "nonnegative"),
        Mean("greedy", pl.col("greedy")),
    ]
    return by_library(frame, wanted, template, by="mode")


def _coverage(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """How the model's tokenizer cuts the answers that the reference cuts into one piece."""
    one_piece = frame.filter(pl.col("mode") != "whole")
    wanted = [
        Mean(f"share_{status.replace(' ', '_')}", pl.col("status") == status)
        for status in (ONE, SEVERAL, CUT, RESPELLED)
    ]
    return by_library(one_piece, wanted, template)


def _controls(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """P@k of the controls on the queries that they and the model answer, and the model's gain over them."""
    for control, column in _CONTROLS.items():
        if column not in frame.columns:
            continue
        both = frame.filter(pl.col("rank").is_not_null() & pl.col(column).is_not_null())
        gains = [
            Mean(
                "p_at_k_gain",
                is_hit(both, "rank", k).cast(pl.Int8) - is_hit(both, column, k).cast(pl.Int8),
                "difference",
                fields={"k": k},
            )
            for k in KS
        ]
        named = dataclasses.replace(template, control=control)
        yield from by_library(both, [*precision_at_k(both, column), *gains], named)


_K = (1, 10)


def list_statements(scores: pl.DataFrame) -> Iterator[str]:
    """Yield how often names are right by kind of statement, and which of two statements is preferred."""
    summed = pl.col("aggregation").fill_null("sum") == "sum"
    rates = scores.filter((pl.col("metric") == "p_at_k") & summed)
    single = rates.filter(pl.col("matching").is_in(["single", "candidates"]))
    # A run may have ranked among what its models share alone.
    table = (rates.filter(pl.col("matching") == "unified") if single.is_empty() else single).with_columns(
        template=dimension_value("template")
    )
    plain = has_dimension_names("template") & (pl.col("template") != ALIASES_APART)
    table = table.filter(pl.col("k").is_in(_K) & plain)
    for model, language, rows in split_by_model(table.filter(pl.col("control").is_null())):
        yield ""
        yield f"{model} on names of {format_language(language)} APIs: right among the first k, in %"
        statements = (
            Column(title="Statement", value="template"),
            Column(title="k", value=lambda row: f"k={row['k']}"),
        )
        yield from _table(rows.sort("template", "k"), *statements, controls=table)
    whole = has_dimension_names("pair") & (pl.col("aggregation") == "sum") & pl.col("control").is_null()
    pairs = scores.filter((pl.col("metric") == "preferred") & whole)
    for model, language, rows in split_by_model(pairs.with_columns(pair=dimension_value("pair"))):
        yield ""
        yield f"{model}, statements in {format_language(language)}: the better of two preferred, in %"
        pair = Column(title="Pair", value=lambda row: row["pair"].replace("_", " "))
        yield from _table(rows.sort("pair"), pair)


def _table(rows: pl.DataFrame, *about: Column, controls: pl.DataFrame | None = None) -> list[str]:
    """A line a row: what it is about, its share with the interval, what it rests on, and the best control."""
    rests = sample_size_column("library", "libraries")
    beside = Column(
        title=rests.title,
        value=lambda row: rests.cell(row).text + ("" if controls is None else _best_control(controls, row)),
    )
    columns = (*about, *estimate_columns("%", 1, 100), beside)
    return Table(summary="Right, in %", columns=columns, rows=rows).lines(header=False, indent=2)


def _best_control(table: pl.DataFrame, row: Row) -> str:
    same = [pl.col(name) == row[name] for name in ("model", "language", "template", "k")]
    found = table.filter(pl.col("control").is_not_null(), *same).sort("value", descending=True).head(1)
    best = "".join(f"{one['control']} {with_interval(one, 100, 1)}" for one in found.iter_rows(named=True))
    return f"  best control: {best}" if best else ""
