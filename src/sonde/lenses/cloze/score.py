"""Score tables of the cloze lens: P@k, MRR and log-probabilities by every cut, with controls.

The module also holds the options of the lens. The headline of a run is how often each model knows the name,
compared with the best control. If the right word is not published, the tables show which of the competing
words a model prefers, and `write_predictions` writes these for the published evaluator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import polars as pl

from sonde.base.files import write_atomic
from sonde.base.options import Count, OneOf, option
from sonde.corpora.sources.codexglue import predictions
from sonde.languages import format_language
from sonde.lenses.cloze.libraries import scores_by_release, scores_by_use
from sonde.lenses.cloze.observe import (
    ANSWER,
    ONE_PIECE,
    OTHER_SPELLING,
    SEVERAL_PIECES,
    UNSPELLABLE,
    candidate_ids,
    read_answers,
)
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
    CANDIDATE_RANKINGS,
    CHANCE,
    IS_PLAIN,
    NAMES,
    PIECE_RANKINGS,
    PUBLISHED_MODES,
    Ranking,
    by_library,
    chance_reciprocal_rank,
    each_control,
    gain_over,
    mean_reciprocal_rank,
    precision_at_k,
    rank_answers,
    rank_statements,
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
from sonde.store.run_folder import RunDirectory
from sonde.tasks.engine.cloze_options import ANSWERS, MASKED, PROVIDED_TEMPLATE, TASK, StatementOptions

BOTH_VOCABULARIES, SHARED_VOCABULARY = "both", "unified"


class ClozeOptions(StatementOptions):
    """The options of the lens, in addition to those of its tasks."""

    unified: tuple[str, ...] = option(
        (),
        "models whose shared vocabulary is ranked in addition to each model's own",
        unset="the models of the run, where there are several",
    )
    ranking: Annotated[str, OneOf((BOTH_VOCABULARIES, SHARED_VOCABULARY))] = option(
        BOTH_VOCABULARIES,
        f"{BOTH_VOCABULARIES}: ranks and probabilities over each model's own vocabulary and over the shared "
        f"one; {SHARED_VOCABULARY}: of answers of one subtoken over the shared one alone, faster",
    )
    min_count: Count = option(20, "minimum number of queries for a library to have its own row")


_ENTRY = ["library", "name"]
"""What tells an entry from others: its folder with its number, and its number, which is not its own."""


def select_preferred_words(answers: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """Return ``library, name, word``: the likeliest word of each entry, in the order of the queries.

    Of equally likely words the first by alphabet is taken, whatever order they were asked in.

    Entries of which a word could not be asked for are left out.

    Args:
        answers: Observations in `sonde.lenses.cloze.observe.ANSWERS_SCHEMA`.
        labels: Queries in `sonde.tasks.engine.cloze_queries.QUERY_SCHEMA`.
    """
    provided_queries = labels.filter(pl.col("template") == PROVIDED_TEMPLATE)
    texts = pl.Series(
        "text_id", [candidate_ids(row)[0] for row in provided_queries.iter_rows(named=True)], pl.String
    )
    by_query = answers.filter(pl.col("query_id").is_not_null()).select("query_id", asked=pl.col("nats"))
    by_text = answers.filter(pl.col("query_id").is_null()).select(text_id="item_id", scored=pl.col("nats"))
    word_scores = (
        provided_queries.select(*_ENTRY, "query_id", word="answer")
        .with_columns(texts)
        .join(by_query, on="query_id", how="left", maintain_order="left")
        .join(by_text, on="text_id", how="left", maintain_order="left")
        .with_columns(nats=pl.coalesce("asked", "scored"))
    )
    complete = word_scores.filter(pl.col("nats").is_not_null().all().over(_ENTRY))
    best = complete.sort("nats", "word", maintain_order=True).unique(
        _ENTRY, keep="first", maintain_order=True
    )
    entries = provided_queries.select(_ENTRY).unique(maintain_order=True)
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
    tables = run.label_tables(TASK, "cloze")
    labels = [
        scan_files([table]).filter(pl.col("template") == PROVIDED_TEMPLATE).collect() for table in tables
    ]
    if not any(table.height for table in labels):
        return []
    queries = pl.concat(labels).with_columns(_folder=pl.col("library").str.replace(r"/[^/]*$", ""))
    files: list[tuple[Path, int, int]] = []
    for model, answers in read_answers(run):
        for (folder,), folder_queries in queries.partition_by("_folder", as_dict=True).items():
            words = select_preferred_words(answers, folder_queries).select("name", "word").rows()
            path = run.root / "predictions" / f"model={model}" / str(folder) / "predictions.txt"
            write_atomic(path, predictions(sorted(words, key=lambda row: _entry_sort_key(row[0]))))
            files.append((path, len(words), folder_queries.select(_ENTRY).n_unique()))
    return files


def _entry_sort_key(number: str) -> tuple[str, int, str]:
    """Numbers in the order of their entries: ``maxmin-2`` before ``maxmin-10``."""
    kind, _, count = number.rpartition("-")
    return (kind, int(count), "") if count.isdecimal() else (number, 0, count)


def prediction_scores(answers: pl.DataFrame, labels: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score how often each word is preferred; only the published answers would tell how often rightly."""
    preferences = select_preferred_words(answers, labels)
    base = template.within(("template", PROVIDED_TEMPLATE))
    words = sorted(set(preferences["word"]))
    for word in words:
        word_template = base.within(("word", word))
        yield from by_library(preferences, [Mean("preferred", pl.col("word") == word)], word_template)
    # As often at random as there are words to choose from.
    count = labels.filter(pl.col("template") == PROVIDED_TEMPLATE).group_by(_ENTRY).agg(_words=pl.len())
    at_random, chance = preferences.join(count, on=_ENTRY), Mean("preferred", 1 / pl.col("_words"), "unit")
    for word in words:
        word_template = dataclasses.replace(base, control="chance").within(("word", word))
        yield from by_library(at_random, [chance], word_template)


_CUTS = {"place": "place", "calls": "bucket", "visible": "visible", "agree": "agree"}
"""Name of the dimension, and the column that makes the groups."""


def score_queries(scoring: ScoringContext, labels: pl.DataFrame) -> Iterator[Score]:
    """Score all queries, whether pieces of their answers or whole statements were scored."""
    options = ClozeOptions.read(scoring.settings.options)
    base = dataclasses.replace(scoring.template, task=TASK)
    answers = scoring.observations.collect()
    if PROVIDED_TEMPLATE in labels["template"]:
        yield from prediction_scores(answers, labels, base)
        return
    is_masked = options.objective == MASKED
    if is_masked:
        frame = with_common(rank_answers(answers, labels), scoring.beside)
        frame = with_random_weights(frame, scoring, labels, rank_answers)
    else:
        shared_pieces = shared_surfaces(options.unified) if options.unified else frozenset[str]()
        frame = rank_statements(answers, labels, shared_pieces, scoring.beside).with_columns(
            status=pl.lit(ONE_PIECE)
        )
        frame = with_random_weights(frame, scoring, labels, rank_statements)
    if ANSWER in answers["status"]:
        base = dataclasses.replace(base, objective=ANSWERS)
    single = dataclasses.replace(base, matching="single")
    frame = with_seen_libraries(frame, scoring.template.model)
    if options.unified:
        frame = with_agreement(frame, options.unified)
    rankings = PIECE_RANKINGS if is_masked else CANDIDATE_RANKINGS
    rankings = [ranking for ranking in rankings if ranking.column in frame.columns]
    plain_queries = frame.filter(IS_PLAIN)
    ranked_queries = (
        plain_queries.filter(pl.col("mode").is_in(PUBLISHED_MODES)) if is_masked else plain_queries
    )
    names = ranked_queries.filter(pl.col("template").is_in(NAMES))
    for template, part in ((base, names), *split_by_template(ranked_queries, base)):
        yield from _ranks(part, template, rankings)
        yield from _controls(part, rankings[0].template(template))
    for template, part in split_by_template(ranked_queries, single):
        yield from _cuts(part, template, options.min_count)
    for template, part in split_by_template(plain_queries, base):
        if is_masked:
            yield from _ranks(part, template, rankings[:1], keys="mode")
            yield from _answers(part, template)
            if "asked_of_all" in part.columns:
                common = dataclasses.replace(template, matching="common")
                yield from _answers(part.filter("asked_of_all"), common)
            yield from _coverage(part, template)
        else:
            by_mode = rankings[0].template(template)
            yield from by_library(part, precision_at_k(part, "rank"), by_mode, by="mode")
    yield from paired_aliases(frame, single)
    yield from score_wordings(frame, single)
    yield from score_import_context(frame, single)
    yield from score_frames(frame, single)
    yield from scores_by_use(names, base, options.min_count)
    yield from scores_by_release(names, base)
    yield from score_seen_libraries(names, single)
    yield from score_overlap(names, base)
    yield from aliases_of_names(labels, base)


def _ranks(
    frame: pl.DataFrame, template: Score, rankings: Sequence[Ranking], keys: str | tuple[()] = ()
) -> Iterator[Score]:
    for ranking in rankings:
        mean_specs = [
            *precision_at_k(frame, ranking.column, ranking.count_column),
            mean_reciprocal_rank(ranking.column),
        ]
        yield from by_library(frame, mean_specs, ranking.template(template), by=keys)


def _cuts(frame: pl.DataFrame, single: Score, minimum: int) -> Iterator[Score]:
    """Score the single answer by every cut; every k by whether the library was seen."""
    first_ten = [*precision_at_k(frame, "rank", ks=(1, 10)), mean_reciprocal_rank("rank")]
    for dimension, column in _CUTS.items():
        if column in frame.columns:
            yield from by_library(frame, first_ten, single, by={dimension: pl.col(column)})
    yield from by_library(frame, precision_at_k(frame, "rank"), single, by="seen")
    # A library has no other to be resampled with: within it, names are taken as independent.
    for score in means(frame, first_ten, single, by="library", cluster="name", minimum=minimum):
        yield dataclasses.replace(score, ci_method=f"by name, {score.ci_method}")


def _answers(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score log-probabilities, and how often all pieces of an answer rank first in turn."""
    mean_specs = [
        Mean("nats", pl.col("nats"), "nonnegative"),
        Mean("nats_per_character", pl.col("nats") / pl.col("characters"), "nonnegative"),
        Mean("greedy", pl.col("greedy")),
    ]
    return by_library(frame, mean_specs, template, by="mode")


def _coverage(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score how the model's tokenizer cuts answers that the reference cuts into one piece."""
    one_piece = frame.filter(pl.col("mode") != "whole")
    mean_specs = [
        Mean(f"share_{status.replace(' ', '_')}", pl.col("status") == status)
        for status in (ONE_PIECE, SEVERAL_PIECES, UNSPELLABLE, OTHER_SPELLING)
    ]
    return by_library(one_piece, mean_specs, template)


def _controls(frame: pl.DataFrame, template: Score) -> Iterator[Score]:
    """Score the controls on the queries that they and the model answer, and the model's gain."""
    for control, answered, rates in each_control(frame):
        mean_specs = [*rates, *(gain_over(rate, answered) for rate in rates)]
        if control == CHANCE:
            mean_specs.append(chance_reciprocal_rank(answered))
        yield from by_library(answered, mean_specs, dataclasses.replace(template, control=control))


def list_statements(scores: pl.DataFrame) -> Iterator[str]:
    """Yield how often names are right by kind of statement, and which of two statements is preferred."""
    is_sum = pl.col("aggregation").fill_null("sum") == "sum"
    rates = scores.filter((pl.col("metric") == "p_at_k") & is_sum)
    single = rates.filter(pl.col("matching").is_in(["single", "candidates"]))
    # A run may have ranked among what its models share alone.
    table = (rates.filter(pl.col("matching") == "unified") if single.is_empty() else single).with_columns(
        template=dimension_value("template")
    )
    plain = has_dimension_names("template") & (pl.col("template") != ALIASES_APART)
    table = table.filter(pl.col("k").is_in([1, 10]) & plain)
    for model, language, rows in split_by_model(table.filter(pl.col("control").is_null())):
        yield ""
        yield f"{model} on names of {format_language(language)} APIs: right answer among the first k, in %"
        statements = (
            Column(title="Statement", value="template"),
            Column(title="k", value=lambda row: f"k={row['k']}"),
        )
        yield from _table(rows.sort("template", "k"), "query", *statements, controls=table)
    is_summary = has_dimension_names("pair") & (pl.col("aggregation") == "sum") & pl.col("control").is_null()
    pairs = scores.filter((pl.col("metric") == "preferred") & is_summary)
    for model, language, rows in split_by_model(pairs.with_columns(pair=dimension_value("pair"))):
        yield ""
        yield f"{model}, statements in {format_language(language)}: the better of two preferred, in %"
        pair = Column(title="Pair", value=lambda row: row["pair"].replace("_", " "))
        yield from _table(rows.sort("pair"), "statement", pair)


def _table(
    rows: pl.DataFrame, counted: str, *leading_columns: Column, controls: pl.DataFrame | None = None
) -> list[str]:
    """Return one line per row: its subject, share, interval, sample size and best control."""
    rests = sample_size_column(counted, "library")
    size_column = Column(
        title=rests.title,
        value=lambda row: rests.cell(row).text + ("" if controls is None else _best_control(controls, row)),
    )
    columns = (*leading_columns, *estimate_columns("%", 1, 100), size_column)
    return Table(summary="Right, in %", columns=columns, rows=rows).lines(header=False, indent=2)


def _best_control(table: pl.DataFrame, row: Row) -> str:
    conditions = [pl.col(name) == row[name] for name in ("model", "language", "template", "k")]
    best_rows = (
        table.filter(pl.col("control").is_not_null(), *conditions).sort("value", descending=True).head(1)
    )
    return "".join(
        f"  best control: {control_row['control']} {with_interval(control_row, 100, 1)}"
        for control_row in best_rows.iter_rows(named=True)
    )
