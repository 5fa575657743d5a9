"""Reports name an extreme only where their numbers tell one: lenses on noise, and all texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom, t
from tests.report.extreme_words import (
    IDIOMS,
    REVIEWED,
    is_reviewed,
    modules,
    names_extreme,
    pieces,
    sentences,
)
from tests.report.extreme_words import texts as every_text
from tests.report.generated_scores import SCORES as EVERY
from tests.report.generated_scores import write_scores
from tests.report.synthetic import Source

from sonde.lenses import LENSES
from sonde.report import PLOTS, RunData, build_section
from sonde.report.headlines import answer_by_task, load_titles
from sonde.report.run_summary import describe_run
from sonde.results.scores import Score
from sonde.store.run_folder import RunDirectory

DRAWS = 6
CLUSTERS = 30
ERROR = 0.02

ELSEWHERE = {"causal", "fidelity"}
"""Lenses whose sentences have tests of their own."""

CLAUSES = re.compile(
    r"([Ww]hich (of the )?[^.;:]*?, and which [^.;:]*?, is unclear"
    r"|[Ww]hich [^.;:]*? is unclear"
    r"|cannot be told apart at the (top|bottom)( of [\w ]+)?"
    r"|highest accuracy lies, by the third of the depth, (cannot be told|in more than one third)[^.;]*"
    r"|none is surely ahead of all others)"
)


SCORES: dict[str, Callable[[], list[Score]]] = {
    name: build for name, build in EVERY.items() if name not in ELSEWHERE
}
"""Scores with the rows that each lens writes, by lens; ``any`` is of lenses that a user hands in."""


def noise(scores: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The same rows with numbers that are all equal in truth; differences are around 0."""
    size = scores.height
    error = ERROR * np.sqrt(rng.chisquare(CLUSTERS - 1, size) / (CLUSTERS - 1))
    half = t.ppf(0.975, CLUSTERS - 1) * error
    is_difference = pl.col("metric").str.contains("gain|change|selectivity|margin") | (
        pl.col("compared_to").is_not_null()
    )
    drawn = pl.when(is_difference).then(0.0).otherwise(0.5) + pl.lit(pl.Series(ERROR * rng.normal(size=size)))
    has_interval = pl.col("ci_low").is_not_null()
    width = pl.lit(pl.Series(half))
    return (
        scores.with_columns(value=pl.when(has_interval).then(drawn).otherwise("value"))
        .with_columns(
            ci_low=pl.when(has_interval).then(pl.col("value") - width),
            ci_high=pl.when(has_interval).then(pl.col("value") + width),
            df=pl.lit(CLUSTERS - 1.0),
            effective_clusters=pl.lit(float(CLUSTERS)),
            n_clusters=pl.lit(CLUSTERS),
            n=pl.col("n").clip(500),
            n_eff=pl.lit(None, pl.Float64),
            seeds=pl.lit(None, pl.Int64),
        )
        .cast(dict(scores.schema))
    )


def texts(folder: Path) -> Iterator[str]:
    """Every sentence that the run has for a reader: sections, first screen, headlines, terminal, card."""
    run = RunData(folder)
    yield from describe_run(run)
    yield from (answer.verdict for answer in answer_by_task(run))
    for title in load_titles(run).values():
        if (top := title.top(run)) is not None:
            yield top.headline
            yield from top.lines
    lenses = run.scored_lenses
    names = [name for name in PLOTS.names() if PLOTS.load(name).lens in lenses]
    outside = [f"numbers_{lens}" for lens in lenses if lens not in LENSES.names()]
    for name in [*names, *outside]:
        if (section := build_section(run, name)) is not None:
            yield section.figure.lead
            yield from section.figure.answer.splitlines()
            yield from section.figure.notes


def named(text: str) -> bool:
    """Whether a sentence names an extreme of measured numbers, and does not say that it cannot be told."""
    return names_extreme(CLAUSES.sub("", text)) and not is_reviewed(text)


def test_every_lens_is_looked_at() -> None:
    assert set(SCORES) == (set(LENSES.names()) - ELSEWHERE) | {"any"}


@pytest.mark.slow
@pytest.mark.parametrize("lens", sorted(SCORES))
def test_numbers_that_are_equal_name_no_extreme(lens: str, tmp_path: Path, sources: list[Source]) -> None:
    rng = np.random.default_rng([len(lens), 7])
    folder = tmp_path / "run"
    scores = write_scores(folder, lens, sources)
    told, untold = [], 0
    for _ in range(DRAWS):
        noise(scores, rng).write_parquet(RunDirectory(folder).scores)
        for text in texts(folder):
            told += [text] if named(text) else []
            untold += len(CLAUSES.findall(text))
    assert len(told) <= binom.ppf(0.999, max(untold, 1), 0.05), told
    # Where a lens can name an extreme, these numbers made it say that there is none.
    assert untold or lens in ("finetune", "prompting")


def test_one_that_is_far_ahead_is_named(tmp_path: Path, sources: list[Source]) -> None:
    folder = tmp_path / "run"
    scores = noise(write_scores(folder, "surprisal", sources), np.random.default_rng(3))
    is_call = pl.col("dimensions").list.eval(pl.element().struct.field("value")).list.first() == "call"
    ends = [pl.when(is_call).then(pl.col(end) + 1.0).otherwise(end) for end in ("value", "ci_low", "ci_high")]
    scores.with_columns(ends).write_parquet(RunDirectory(folder).scores)
    said = [text for text in texts(folder) if "surprises most" in text]
    assert [text for text in said if re.search(r"“?call”? \([^)]*\) surprises most", text)]


def test_texts_that_name_an_extreme_go_through_one_place() -> None:
    left = [
        f"{name}:{line}: {text}"
        for name, path in modules()
        for line, text in [*sentences(path), *pieces(path)]
        if names_extreme(text) and not is_reviewed(text)
    ]
    assert left == [], "go through sonde.results.extremes, or list the text with its reason in extreme_words"


def test_nothing_is_reviewed_that_no_longer_exists() -> None:
    every = [text for _, path in modules() for _, text in [*every_text(path), *pieces(path)]]
    assert [fragment for fragment in REVIEWED if not any(fragment in text for text in every)] == []
    assert [idiom for idiom in IDIOMS if not any(re.search(idiom, text) for text in every)] == []
