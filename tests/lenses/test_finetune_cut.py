"""What lies beyond the limit: pairs that cannot be told apart are left out or read elsewhere, and counted."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.lenses.test_finetune import OPTIONS, encoder, experiment, project
from tests.slices import with_slices

from sonde.base.errors import InputError, SondeError
from sonde.corpora import Item, SkipCounter, read_items
from sonde.experiments import Execution
from sonde.experiments.run import run
from sonde.lenses import LensSettings, load_training_lens
from sonde.lenses.finetune.data import build_training_data, find_difference, with_evidence
from sonde.lenses.finetune.options import FinetuneOptions
from sonde.lenses.finetune.score import accuracy_ceilings
from sonde.models import LoadedModel, ModelSpec, load_model
from sonde.report import write_report
from sonde.tasks import build
from sonde.training.finetune.data import EncodedExample, Sample, build_text_encoder, encode_samples

__all__ = ["encoder", "project"]

PAIRS = ("variable_misuse", "wrong_operator", "swapped_operand", "misuse_repair", "function_docstring")
LENGTH = 128


@cache
def functions() -> list[Item]:
    found = {item.item_id: item for item in read_items("stdlib", SkipCounter(), languages=("python",))}
    return [found[name] for name in sorted(found)[:1500]]


@cache
def model() -> LoadedModel:
    return load_model(ModelSpec(name="sonde/mini-encoder"))


@cache
def samples(task: str) -> list[Sample]:
    """All examples of a task drawn from the standard library."""
    made = build(task, functions(), size=400 if task != "exception_type" else 100, language="python")
    texts = {item.item_id: item.text for item in (*functions(), *made.inputs)}
    table = made.examples.with_columns(text=pl.col("item_id").replace_strict(texts, return_dtype=pl.String))
    found = with_evidence(table)
    data = build_training_data(task, dict.fromkeys(("train", "valid", "test"), found), "python")
    return list(data.train)


def encoded(task: str, cut: str) -> list[EncodedExample]:
    loaded = model()
    return encode_samples(
        samples(task), build_text_encoder(loaded.tokenizer, loaded.special, "encoder"), LENGTH, cut
    )


def paired(task: str, cut: str) -> list[tuple[tuple[Sample, EncodedExample], tuple[Sample, EncodedExample]]]:
    both = sorted(zip(samples(task), encoded(task, cut), strict=True), key=lambda one: one[0].group)
    assert all(one.group for one, _ in both)
    return [(both[at], both[at + 1]) for at in range(0, len(both), 2)]


@pytest.mark.slow
@pytest.mark.parametrize("task", PAIRS)
def test_no_pair_that_counts_is_the_same_in_subwords(task: str) -> None:
    same = 0
    for one, other in paired(task, "keep"):
        assert one[0].group == other[0].group
        assert one[0].target != other[0].target
        equal = np.array_equal(one[1].ids, other[1].ids)
        same += equal
        assert one[1].reached == other[1].reached
        assert not (equal and one[1].reached)
    assert same >= 0.2 * len(samples(task)) / 2 or task == "function_docstring"
    kept = [pair for pair in paired(task, "window") if pair[0][1].reached]
    # A repair may lie outside of the window around its error.
    assert len(kept) >= (0.85 if task == "misuse_repair" else 0.97) * len(samples(task)) / 2
    for one, other in kept:
        assert not np.array_equal(one[1].ids, other[1].ids)


@pytest.mark.slow
@pytest.mark.parametrize("task", [*PAIRS[:4], "exception_type"])
def test_what_a_label_rests_on_is_read_as_a_plain_tokenizer_reads(task: str) -> None:
    """Within reach is what the tokenizer's own cut keeps the last differing character of."""
    tokenizer = model().tokenizer
    for sample, one in zip(samples(task), encoded(task, "keep"), strict=True):
        assert sample.evidence is not None
        plain = tokenizer(sample.text, truncation=True, max_length=LENGTH, return_offsets_mapping=True)
        assert plain["input_ids"] == one.ids.tolist()
        seen = max(end for _, end in plain["offset_mapping"])
        if seen < sample.evidence[1]:
            assert one.reached is False
        if one.reached is False and not sample.group:
            assert seen < sample.evidence[1]


@pytest.mark.parametrize("task", PAIRS[:4])
def test_a_window_begins_at_the_same_character_of_both(task: str) -> None:
    shares: list[float] = []
    moved = 0
    for (first, one), (second, other) in paired(task, "window"):
        assert one.spans is not None and other.spans is not None
        starts = [spans[spans[:, 0] >= 0][0, 0] for spans in (one.spans, other.spans)]
        assert starts[0] == starts[1]
        assert max(len(one.ids), len(other.ids)) <= LENGTH
        if starts[0] == 0 or not one.reached:
            continue
        moved += 1
        for sample, read in ((first, one), (second, other)):
            assert sample.evidence is not None and read.spans is not None
            assert read.spans[:, 1].max() >= sample.evidence[1]
            assert first.text[: starts[0]] == second.text[: starts[0]]
        assert first.evidence is not None
        text = one.spans[one.spans[:, 0] >= 0]
        if text[-1, 1] < len(first.text):
            shares.append(float((text[:, 1] <= first.evidence[0]).mean()))
    assert moved >= 20
    if task == "misuse_repair":
        # The place of the error in the window says nothing.
        assert np.std(shares) > 0.2
    else:
        assert np.abs(np.array(shares) - 0.5).max() < 0.35
        assert abs(np.median(shares) - 0.5) < 0.1


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a - b", "b - a", ((0, 5), (0, 5))),
        ("f(aa)", "f(ab)", ((3, 4), (3, 4))),
        ("aa", "a", ((1, 2), (1, 1))),
        ("x", "x", ((1, 1), (1, 1))),
        ("", "x", ((0, 0), (0, 1))),
    ],
)
def test_texts_differ_between_their_common_ends(one: str, other: str, expected: Any) -> None:
    assert find_difference(one, other) == expected
    (start, end), (_, last) = expected
    assert one[:start] == other[:start]
    assert one[end:] == other[last:]


def slow_ceiling(rows: list[dict[str, Any]], right: Callable[[dict[str, Any], bool], bool]) -> float:
    """The best of all ways to answer, where what is read the same is answered the same."""
    best = 0
    reads = sorted({row["read"] for row in rows})
    for answers in itertools.product((False, True), repeat=len(reads)):
        said = dict(zip(reads, answers, strict=True))
        best = max(best, sum(right(row, said[row["read"]]) for row in rows))
    return best / len(rows)


def test_ceilings_are_those_of_the_best_answers_there_are() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = [
            {
                "example_id": f"{number}", "seed": 0, "read": f"{rng.integers(8)}",
                "label": str(bool(rng.integers(2))), "buggy": None, "truncated": False, "locatable": None,
            }
            for number in range(12)
        ]  # fmt: skip
        schema = {"buggy": pl.Boolean, "locatable": pl.Boolean}
        found = accuracy_ceilings(pl.DataFrame(rows, schema_overrides=schema))
        assert found == {"accuracy": slow_ceiling(rows, lambda row, said: row["label"] == str(said))}
        # Of a pointer: an error that is not read looks like the function without it.
        pointed: list[dict[str, Any]] = []
        for number in range(6):
            far, repair = rng.random() < 0.5, rng.random() < 0.3
            for buggy in (False, True):
                read = f"{number}" if far or not buggy else f"{number}b"
                pointed.append(
                    {
                        "example_id": f"{number}{buggy}",
                        "seed": 0,
                        "read": read,
                        "label": str(buggy),
                        "buggy": buggy,
                        "truncated": buggy and (far or repair),
                        "locatable": not (buggy and far),
                    }
                )
        found = accuracy_ceilings(pl.DataFrame(pointed))
        wrong = [row for row in pointed if row["buggy"]]
        assert found["classification"] == slow_ceiling(pointed, lambda row, said: row["buggy"] == said)
        assert found["localisation"] == sum(row["locatable"] for row in wrong) / 6
        assert found["localisation_repair"] == sum(not row["truncated"] for row in wrong) / 6
        assert found["accuracy"] == (6 + sum(not row["truncated"] for row in wrong)) / 12


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, project: Path, encoder: Path) -> dict[str, Path]:
    """One run for each cut, with half of the functions' errors beyond the limit."""
    found: dict[str, Path] = {}
    for cut in ("drop", "keep", "window"):
        asked = experiment(project, encoder)
        options = {**OPTIONS, "length": 64, "seeds": 1, "cut": cut}
        asked = dataclasses.replace(
            asked, tasks=("variable_misuse", "misuse_repair"), options={"finetune": options}
        )
        found[cut] = tmp_path_factory.mktemp("runs") / cut
        assert not run(asked, Execution(output=found[cut])).refused
    return found


def scores_of(folder: Path) -> pl.DataFrame:
    table = with_slices(pl.read_parquet(folder / "scores.parquet"))
    return table.filter(pl.col("split") == "test")


@pytest.mark.slow
def test_scores_say_what_could_be_right_and_what_is_out_of_reach(runs: dict[str, Path]) -> None:
    for task in ("variable_misuse", "misuse_repair"):
        kept, dropped, seen = (
            scores_of(runs[cut]).filter(pl.col("task") == task) for cut in ("keep", "drop", "window")
        )
        rows = pl.read_parquet(runs["keep"] / "observations/lens=finetune/*/*.parquet")
        rows = rows.filter(
            (pl.col("task") == task) & (pl.col("kind") == "example") & (pl.col("split") == "test")
        )
        own = rows.filter(pl.col("method") == "pretrained")
        out = own.filter(~pl.col("reached"))
        assert 0 < out.height < own.height
        for scores in (kept, dropped):
            share = scores.filter(pl.col("metric") == "out_of_reach")
            assert share["value"].to_list() == [pytest.approx(out.height / own.height)]
            assert share["n"].to_list() == [own.height]
        right = {
            name: own.filter(pl.col("reached") if name == "drop" else pl.lit(value=True))["correct"].mean()
            for name in ("keep", "drop")
        }
        whole = kept.filter((pl.col("metric") == "accuracy") & pl.col("control").is_null())
        sliced = dict(whole.select("slice", "value").iter_rows())
        assert sliced == {"all": pytest.approx(right["keep"]), "reachable=true": pytest.approx(right["drop"])}
        counted = dropped.filter((pl.col("metric") == "accuracy") & (pl.col("slice") == "all"))
        assert set(counted["n"]) == {own.height - out.height}
        assert dropped.filter(pl.col("slice").str.contains("reachable")).is_empty()
        bound = kept.filter((pl.col("metric") == "ceiling") & (pl.col("of_metric") == "accuracy"))
        assert bound.filter(pl.col("value") < 1).height == bound.height
        bound = dropped.filter(pl.col("metric") == "ceiling")
        assert bound["value"].to_list() == [1.0] * bound.height
        left = seen.filter(pl.col("metric") == "out_of_reach")["value"].item()
        assert left == 0 if task == "variable_misuse" else left < out.height / own.height
    cut = scores_of(runs["keep"]).filter((pl.col("metric") == "truncated") & (pl.col("task") == task))
    assert cut["n"].to_list() == [own["buggy"].sum()]
    assert cut["value"].to_list() == [pytest.approx(own.filter("buggy")["truncated"].mean())]


@pytest.mark.slow
def test_a_run_says_what_is_left_out(runs: dict[str, Path]) -> None:
    lens = load_training_lens("finetune")
    for cut, words in (("keep", "and are included"), ("drop", "and are left out")):
        lines = [
            line
            for line in lens.details(pl.read_parquet(runs[cut] / "scores.parquet"))
            if "beyond the length" in line
        ]
        assert lines and all(words in line for line in lines)
        assert all(("at most" in line) == (cut == "keep") for line in lines)
        page = write_report(runs[cut]).read_text(encoding="utf-8")
        assert "rests on lies beyond the length limit in" in page
        assert ("which are left out" in page) == (cut == "drop")
        assert ("% can be right" in page) == (cut == "keep")


def test_nothing_within_reach_is_one_line(project: Path, encoder: Path, tmp_path: Path) -> None:
    asked = experiment(project, encoder)
    options = {**OPTIONS, "length": 8, "methods": "pretrained"}
    asked = dataclasses.replace(asked, tasks=("variable_misuse",), options={"finetune": options})
    with pytest.raises(InputError, match=r"the code of its label within 8 subwords; raise finetune\.length"):
        run(asked, Execution(output=tmp_path))


@pytest.mark.parametrize(
    ("mode", "options", "expected"),
    [
        ("corrected", {}, "drop"),
        ("paper", {}, "keep"),
        ("paper", {"cut": "window"}, "window"),
        ("corrected", {"cut": "keep"}, "keep"),
    ],
)
def test_the_default_leaves_out_and_the_paper_keeps(mode: str, options: Any, expected: str) -> None:
    settings = LensSettings(mode=mode, options=options)
    assert FinetuneOptions.read(settings.options).recipe(settings).cut == expected


def test_another_cut_is_refused() -> None:
    with pytest.raises(SondeError, match="drop"):
        FinetuneOptions.read({"cut": "dorp"})
