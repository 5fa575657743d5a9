"""Which of the words that compete a model prefers, where the right one is not published."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from sonde.base.files import write_atomic
from sonde.corpora.codexglue import predictions
from sonde.lenses.cloze.plan import candidate_ids
from sonde.lenses.cloze.rates import by_library
from sonde.results import Mean, Score
from sonde.results.columns import scan_files
from sonde.store.rundir import RunDirectory, slug
from sonde.tasks._cloze_given import GIVEN, TASK

_ENTRY = ["library", "name"]
"""What tells an entry from others: its folder with its number, and its number, which is not its own."""


def preferred(answers: pl.DataFrame, labels: pl.DataFrame) -> pl.DataFrame:
    """``library, name, word``: the likeliest word of each entry, in the order of the queries.

    Of equally likely words the first by alphabet is taken, whatever order they were asked in.

    Entries of which a word could not be asked for are left out.

    Args:
        answers: Observations in `sonde.lenses.cloze.observe.ANSWERS_SCHEMA`.
        labels: Queries in `sonde.tasks._cloze_columns.QUERY_SCHEMA`.
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
            words = preferred(answers, asked).select("name", "word").rows()
            path = root / "predictions" / f"model={slug(model['name'])}" / folder / "predictions.txt"
            write_atomic(path, predictions(sorted(words, key=lambda row: _place(row[0]))))
            written.append((path, len(words), asked.select(_ENTRY).n_unique()))
    return written


def _by_folder(queries: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    named = queries.with_columns(_folder=pl.col("library").str.replace(r"/[^/]*$", ""))
    for (folder,), part in named.partition_by("_folder", as_dict=True, include_key=False).items():
        yield str(folder), part


def _place(number: str) -> tuple[str, int, str]:
    """Numbers in the order of their entries: ``maxmin-2`` before ``maxmin-10``."""
    kind, _, count = number.rpartition("-")
    return (kind, int(count), "") if count.isdecimal() else (number, 0, count)


def prediction_scores(answers: pl.DataFrame, labels: pl.DataFrame, template: Score) -> Iterator[Score]:
    """How often each word is preferred; the published answers would say how often rightly."""
    found = preferred(answers, labels)
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
