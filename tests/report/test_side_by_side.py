"""What a page sets side by side of several models is over the text that all of them cover."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.report.synthetic import Source, write_run

from sonde.lenses import LENSES
from sonde.report import PLOTS
from sonde.report.card import build_card
from sonde.report.headlines import answer_by_lens, load_titles
from sonde.report.run_tables import RunData
from sonde.report.sections.surprisal import kinds, origin, user_tags, worst_best_constructs, worst_best_tags
from sonde.report.sections.surprisal._scores import MIN_COUNT, RankedDimension, build_ranking, read_slices
from sonde.results.schema import dimension_value

MODELS = {"org/words": 1.0, "org/threes": 1.4}
THREES = re.compile(r"(?s).{1,3}")
RANKED = {"construct": worst_best_constructs, "tag": worst_best_tags, "kind": kinds}
SECTIONS = sorted(header.name for header in PLOTS.headers())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, sources: list[Source]) -> Path:
    """Two models whose tokenizers cut differently; made-up surprisal over real code."""
    return write_run(tmp_path_factory.mktemp("side") / "two", sources, MODELS, {"org/threes": THREES})


def tables(root: Path) -> list[pl.DataFrame]:
    run = RunData(root)
    return [table.collect() for model in run.models if (table := run.table("surprisal", model)) is not None]


def whole_tokens(rows: pl.DataFrame) -> pl.DataFrame:
    """Code tokens that begin and end where subwords do, with the whitespace before them, and their cost."""
    units = rows.select("item_id", "units").drop_nulls().explode("units").unnest("units")
    return units.drop_nulls("piece_nats")


def test_a_code_token_costs_what_its_subwords_and_the_whitespace_before_it_do(root: Path) -> None:
    for rows in tables(root):
        costs = whole_tokens(rows)
        assert costs.height > 100
        pieces = rows.select("item_id", "nats", "position", piece_start="start", piece_end="end")
        begin = pl.col("start") - (pl.col("bytes") - pl.col("word").str.len_bytes())
        spans = costs.select("item_id", "unit", "piece_nats", "end", begin=begin)
        inside = spans.join(pieces, on="item_id").filter(
            pl.col("piece_start") >= pl.col("begin"), pl.col("piece_end") <= pl.col("end")
        )
        sums = inside.group_by("item_id", "unit").agg(pl.col("nats").sum(), pl.col("piece_nats").first())
        assert sums.height == costs.height
        assert float((sums["nats"] - sums["piece_nats"]).abs().max()) < 1e-4  # type: ignore[arg-type]
        assert inside["position"].min() != 0


def expected(root: Path, grouping: str) -> dict[tuple[str, str], tuple[int, float]]:
    """By model and value: tokens and mean bits, straight from both observation tables."""
    first, second = map(whole_tokens, tables(root))
    common = first.join(second, on=["item_id", "unit"], how="semi").select("item_id", "unit")
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for model, costs in zip(RunData(root).models, (first, second), strict=True):
        rows = costs.join(common, on=["item_id", "unit"], how="semi").group_by(grouping)
        for value, n, nats in rows.agg(pl.len(), pl.col("piece_nats").mean()).iter_rows():
            found[model.label, value] = (n, nats / math.log(2))
    return found


@pytest.mark.parametrize("grouping", ["construct", "tag", "kind", "role"])
def test_a_ranking_is_over_the_same_tokens_of_both(root: Path, grouping: str) -> None:
    figure = build_ranking(RunData(root), RankedDimension(dimension=grouping, what=grouping))
    assert figure is not None and figure.table is not None
    wanted = {key: one for key, one in expected(root, grouping).items() if one[0] >= MIN_COUNT and key[1]}
    rows = figure.table.records()
    found = {(row["shown"], row["label"]): (row["n"], row["value"]) for row in rows}
    assert found == {key: (n, pytest.approx(bits, rel=1e-5)) for key, (n, bits) in wanted.items()}
    for label in {label for _, label in found}:
        (n,) = {count for (_, other), (count, _) in found.items() if other == label}
        assert n >= MIN_COUNT
    assert any("code tokens that every model of the run scores" in note for note in figure.notes)


def test_over_their_own_text_the_numbers_would_be_others(root: Path) -> None:
    run = RunData(root)
    own = run.scores(lens="surprisal", metrics=["nats_per_token"], by="construct")
    held = read_slices(run, "construct").rows
    both = own.join(held, on=["model", "label"])
    assert both.height > 6 and (both["n"] > both["n_right"]).any()
    assert float((both["value"] / math.log(2) - both["value_right"]).abs().max()) > 0.5  # type: ignore[arg-type]


@pytest.mark.parametrize("section", [worst_best_constructs, worst_best_tags, kinds, user_tags, origin])
def test_sections_that_compare_say_over_what(root: Path, section: Any) -> None:
    figure = section.plot.draw(RunData(root))
    if figure is None:
        assert section is user_tags
        return
    assert any("every model of the run scores" in note for note in figure.notes)
    assert "bits per code token" in str([chart.spec for chart in figure.charts])
    assert "bits per subword" not in str([chart.spec for chart in figure.charts])


@pytest.mark.parametrize("name", SECTIONS)
def test_a_table_of_several_models_is_over_one_text_or_says_that_it_is_not(root: Path, name: str) -> None:
    plot = PLOTS.load(name)
    figure = plot.draw(RunData(root)) if plot.lens == "surprisal" else None
    if figure is None or figure.table is None:
        return
    said = " ".join((plot.caption, *figure.notes))
    if re.search("one tokenizer|own subwords|own tokenizer", said):
        return
    counts: dict[Any, set[int]] = {}
    for row in figure.table.records():
        if "model" in row and ({"label", "n"} <= {*row} or "calls" in row):
            about = tuple(
                row.get(name) for name in ("label", "language", "weighting", "name", "word", "origin")
            )
            counts.setdefault(about, set()).add(row["calls"] if "calls" in row else row["n"])
    assert counts and all(len(n) == 1 for n in counts.values()), name


def test_what_speaks_for_the_lens_is_over_the_same_bytes(root: Path) -> None:
    run = RunData(root)
    held = [one.number for one in build_card(run).headlines if not one.number.task]
    assert [number.slice for number in held] == [{"text": "shared"}] * 2
    counts = {one.row["n"] for one in answer_by_lens(run)} | {number.n for number in held}
    assert len(answer_by_lens(run)) == len(held) == 2 and len(counts) == 1
    top = load_titles(run)["surprisal"].top(run)
    assert top is not None and "all models of the run cover" in top.lines[0]


def test_what_a_run_prints_is_over_the_same_tokens(root: Path) -> None:
    scores = RunData(root).every_row
    lines = "\n".join(LENSES.load("surprisal").details(scores))
    assert lines.count("bits per code token:") == 2
    alone = scores.filter(pl.col("model") == "org/words", dimension_value("shared").is_null())
    assert "bits per subword" in "\n".join(LENSES.load("surprisal").details(alone))


def test_without_shared_rows_each_model_is_ranked_by_itself(
    root: Path, tmp_path: Path, sources: list[Source]
) -> None:
    folder = write_run(tmp_path / "old", sources[:20], MODELS, {"org/threes": THREES})
    path = folder / "scores.parquet"
    pl.read_parquet(path).filter(dimension_value("shared").is_null()).write_parquet(path)
    figure = worst_best_tags.plot.draw(RunData(folder))
    assert figure is not None and "own subwords" in " ".join(figure.notes)
    assert {chart.name.rpartition("-")[0] for chart in figure.charts} == {"tag-words", "tag-threes"}
