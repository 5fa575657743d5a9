"""Compare every sentence of report, terminal, card, gate and comparison with the rows that it is about."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.report.generated_scores import (
    EDGES,
    MORE,
    SCORES,
    SHAPES,
    mix_edges,
    place_scores,
    read_gate,
    read_texts,
    write_scores,
)
from tests.report.sentence_rules import Figures, find_false_outcomes, find_slips, find_strange_figures
from tests.report.synthetic import Source

from sonde.api.compare import ModelComparison
from sonde.cli.progress import print_comparison
from sonde.comparison.differences import DIFFERENCES_COLUMNS
from sonde.report import write_card, write_comparison_page
from sonde.results.text_format import OUTCOMES, TOO_LITTLE

QUICK = ("better", "level", "sure on few clusters")
"""Edges of the quick tests: one at which each of the three outcomes is true."""

MIXES = 2

DERIVED = {
    "attention_sinks": "means over heads, and sums over sinks",
    "attention_errors": "shares pooled over relations, which may together be worth enough",
    "over_models": "correlations over models, whose verdict is one over lineages",
}
"""Sections whose numbers are made of several rows, which no single row holds; the rest is checked."""

OF_LAYERS = {
    "probe_layers": "which third of the depth is the highest, without the reason",
    "terminal": "1 to 1 effective clusters",
}
"""What is said of layers by the probe, and in its headline."""

Problem = tuple[str, str, str]


def judge(place: str, text: str, figures: Figures, allows: bool | None, apart: bool | None) -> list[str]:
    """What is wrong with a sentence that stands at a place."""
    if place in OF_LAYERS and (place == "probe_layers" or OF_LAYERS[place] in text):
        return []
    is_row = place == "card.md" or text.startswith("  ")
    found = [] if is_row else list(find_slips(text))
    if place in DERIVED:
        return found
    # Of a card the number stands beside the verdict on its difference; a row of a table has several.
    strange = find_strange_figures(text, figures)
    found += [one for one in strange if not (place in ("card", "gate") or is_row) or "no score" in one]
    return [*found, *find_false_outcomes(text, allows=allows, apart=apart)]


def check(folder: Path, scores: pl.DataFrame, allows: bool | None, apart: bool | None) -> list[Problem]:
    """What is wrong with all that is said of some scores."""
    place_scores(folder, scores)
    figures = Figures(scores)
    card = write_card(folder)
    problems: list[Problem] = []
    for place, text in itertools.chain(read_texts(folder, card), read_gate(folder, card)):
        problems += [(place, problem, text) for problem in judge(place, text, figures, allows, apart)]
    return problems


def check_edges(folder: Path, scores: pl.DataFrame, edges: Iterable[str]) -> list[tuple[str, Problem]]:
    rng = np.random.default_rng(1)
    return [
        (name, problem)
        for name in edges
        for problem in check(folder, EDGES[name].move(scores, rng), EDGES[name].allows, EDGES[name].apart)
    ]


@pytest.mark.parametrize("lens", [*SCORES, *MORE])
def test_three_outcomes_are_three_sentences(lens: str, tmp_path: Path, sources: list[Source]) -> None:
    folder = tmp_path / "run"
    scores = write_scores(folder, lens, sources[::3])
    assert check_edges(folder, scores, QUICK) == []


@pytest.mark.slow
@pytest.mark.parametrize("lens", [*SCORES, *MORE])
def test_sentences_are_true_at_every_edge(lens: str, tmp_path: Path, sources: list[Source]) -> None:
    folder = tmp_path / "run"
    scores = write_scores(folder, lens, sources[::3])
    assert check_edges(folder, scores, [name for name in EDGES if name not in QUICK]) == []


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lens", [*SCORES, *MORE])
def test_sentences_are_true_where_every_row_is_at_an_edge_of_its_own(
    lens: str, shape: str, tmp_path: Path, sources: list[Source]
) -> None:
    folder = tmp_path / "run"
    scores = SHAPES[shape](write_scores(folder, lens, sources[::3]))
    rng = np.random.default_rng(len(shape))
    assert [found for _ in range(MIXES) for found in check(folder, mix_edges(scores, rng), None, None)] == []


BAD = {
    "m: accuracy is nan": "what is no number",
    "beats nothing () at all": "empty brackets",
    "two  blanks": "doubled blanks",
    "a stop .": "a blank before a stop",
    "one;, two": "doubled stops",
    "a change of −0.00 points": "a signed zero",
    "Of the 1 numbers": "one of several",
    "over 1 effective clusters": "one of several",
    "of 12 relation": "several of one",
    "1 more rest; 1 are open": "a verb of several",
    "12 rests on little": "a verb of one",
    "worth 30 independent observations, a verdict needs 30": "a need that is met",
}


@pytest.mark.parametrize("text", BAD)
def test_slips_are_found(text: str) -> None:
    assert any(found.startswith(BAD[text]) for found in find_slips(text))


@pytest.mark.parametrize(
    ("text", "allows", "apart", "found"),
    [
        ("Probes beat chance: 60 % against 40 %", False, True, "'beat', though nothing allows a verdict"),
        ("it surely pays (too little data: 4, 0.1)", False, True, "sure, though nothing allows a verdict"),
        ("too little data on probes", False, None, "too little data, and no estimate"),
        ("no difference found from chance", True, False, "no difference found, and not what would"),
        ("no difference found (0.2 would have been)", True, True, "no difference found, though all"),
        ("Probes beat chance", True, False, "'beat', though nothing is told"),
        ("too little data: 0.2", True, False, "too little data, though everything"),
    ],
)
def test_false_outcomes_are_found(text: str, allows: bool, apart: bool | None, found: str) -> None:
    assert any(one.startswith(found) for one in find_false_outcomes(text, allows=allows, apart=apart))


def test_figures_of_no_row_and_estimates_without_a_verdict_are_found() -> None:
    scores = pl.DataFrame(
        {
            "value": [0.5, 0.25], "ci_low": [0.4, 0.2], "ci_high": [0.6, 0.3],
            "effective_clusters": [30.0, 4.0], "n_clusters": [30, 4],
            "n_eff": [None, None], "seeds": [None, None],
        }
    )  # fmt: skip
    figures = Figures(scores)
    assert list(find_strange_figures("it is 50.0 [40.0, 60.0] %", figures)) == []
    assert list(find_strange_figures("it is 51.0 [40.0, 60.0] %", figures)) == [
        "no score is 51.0 [40.0, 60.0]"
    ]
    assert next(find_strange_figures("25 [20, 30] %", figures)).startswith("an estimate, and not that")
    assert list(find_strange_figures("25 [20, 30] % (too little data: 4)", figures)) == []


FEW = "8 effective clusters, a verdict needs 10"
MARK = '<abbr title="too little data for a verdict: fewer than 10 effective clusters">†</abbr>'
ENDS: Mapping[str, tuple[str, float, float, float | None, str]] = {
    **{name: (name, 0.3, 0.1, 0.001, "") for name in ("better", "higher")},
    **{name: (name, -0.3, 0.1, 0.001, "") for name in ("worse", "lower")},
    "slight": ("slight", 0.003, 0.001, 0.001, ""),
    "alike": ("alike", 0.001, 0.004, 0.7, ""),
    "undecided": ("undecided", 0.1, 0.2, 0.3, ""),
    "few": ("undecided", 0.3, 0.1, None, FEW),
}
"""How numbers of a comparison may end: outcome, difference, half its interval, adjusted p, why no verdict."""


def write_comparison(folder: Path, ends: Iterable[str], *, models: int, lenses: int) -> pl.DataFrame:
    """Write a comparison whose numbers end so, of as many models and lenses, and one that is not compared."""
    rows = [
        {
            "base": "old", "model": f"new{model}", "lens": ("probe", "surprisal")[lens], "task": "typ",
            "language": "python", "metric": "accuracy", "base_value": 0.5, "value": 0.5 + value,
            "difference": value, "ci_low": value - half, "ci_high": value + half, "p_adjusted": p,
            "n": 1 if why else 500, "n_clusters": 1 if why else 30,
            "effective_clusters": 8.0 if why else 30.0,
            "detectable": 1.4 * half, "least": 0.01, "outcome": outcome, "why": why, "better": "higher",
            "dimensions": [{"name": "depth", "value": str(place)}], "ci_method": "logit",
        }
        for model in range(models)
        for lens in range(lenses)
        for place, (outcome, value, half, p, why) in enumerate(ENDS[name] for name in ends)
    ]  # fmt: skip
    schema = {name: column[0] for name, column in DIFFERENCES_COLUMNS.items()}
    frame = pl.DataFrame(rows, schema=schema, orient="row", strict=False)
    frame.write_parquet(folder / "comparison.parquet")
    side = {"run": "run", "revision": "abc", "fingerprint": ""}
    content = [
        {
            "base": {"label": "old", "model": "old", **side},
            "model": {"label": f"new{model}", "model": f"new{model}", **side},
            "covered": [],
            "unpaired": [{"lens": "cloze", "reason": "another corpus", "count": 1, "example": "x"}],
        }
        for model in range(models)
    ]
    facts = {"schema_version": 2, "of": "", "comparisons": content}
    (folder / "comparison.json").write_text(json.dumps(facts), encoding="utf-8")
    return frame


CASES = [
    *((ends, 1, 1) for size in (1, 2) for ends in itertools.combinations_with_replacement(ENDS, size)),
    *((tuple(ENDS), models, lenses) for models in (1, 2) for lenses in (1, 2)),
]


@pytest.mark.parametrize(("ends", "models", "lenses"), CASES)
def test_a_comparison_says_of_each_number_what_its_row_does(
    ends: tuple[str, ...], models: int, lenses: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = write_comparison(tmp_path, ends, models=models, lenses=lenses)
    print_comparison(tmp_path, tmp_path / "comparison.html")
    printed = capsys.readouterr().out.splitlines()
    compared = ModelComparison(tmp_path)
    shown = compared._repr_html_().partition("<pre>")[2].splitlines()
    lines = [line.strip() for line in (*printed, *shown) if "; of " in line]
    texts = [*lines, *(text for text in _answers(tmp_path) if text)]
    assert [(text, slip) for text in texts for slip in find_slips(text)] == []
    few = frame.filter(pl.col("why") != "").height // models // lenses
    for line in lines:
        assert (f"{few:,} with too little data" in line) == bool(few)
        for name, words in OUTCOMES.items():
            own = frame.filter((pl.col("outcome") == name) & (pl.col("why") == "")).height // models // lenses
            if name in ("better", "worse", "higher", "lower"):
                assert (f"{own} {words}" in line) == bool(own)
        own = frame.filter((pl.col("outcome") == "undecided") & (pl.col("why") == "")).height
        assert ("with no difference found" in line) == bool(own)
    page = write_comparison_page(tmp_path).read_text(encoding="utf-8")
    assert "cannot be told" not in page and "is unclear" not in page
    only_few = f"Nothing is found to be better or worse: {few:,} with {TOO_LITTLE} {MARK}; of "
    assert (only_few in page) == (set(ends) == {"few"})
    assert (f"with {TOO_LITTLE} {MARK}" in page) == (
        bool(few) and set(ends) <= {"few", "slight", "alike", "undecided"}
    )


def _answers(folder: Path) -> list[str]:
    from sonde.report.comparison_page import build_comparison_sections, read_comparison

    found = list(build_comparison_sections(read_comparison(folder)))
    tables = [part.figure.table.summary for part in found if part.figure.table is not None]
    return [line for part in found for line in part.figure.answer.splitlines()] + tables
