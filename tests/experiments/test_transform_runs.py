"""Runs over the same programs in other words, and what a comparison with the run without makes of them."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import shlex
import textwrap
import tokenize
from pathlib import Path

import polars as pl
import pytest

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.progress import NullProgress
from sonde.comparison.compare import compare, write_comparison
from sonde.corpora import Selection, SkipCounter, item_id, read_items, select
from sonde.experiments import Execution, Experiment
from sonde.experiments.datasets import exclude_training_items
from sonde.experiments.plan import Group
from sonde.experiments.progress import Session
from sonde.experiments.resolve import resolve_models
from sonde.experiments.run import run
from sonde.models.engine import model_names
from sonde.report.comparison_page import write_comparison_page
from tests.slices import slice_of, with_slices

TRANSFORMS = ("rename", "shuffle", "mislead", "layout", "comments", "docstrings", "swap")


def experiment(model: Path, project: Path, transform: str = "none", lens: str = "surprisal") -> Experiment:
    return Experiment(
        models=(str(model),),
        lenses=(lens,),
        corpora=(f"local:{project}",),
        selection=Selection(limit=40, transform=transform, near_duplicates=False),
    )


@pytest.fixture(scope="module")
def runs(decoder: Path, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for transform in ("none", "rename"):
        run(experiment(decoder, project, transform), Execution(output=folder / transform))
    return folder


def test_the_same_items_are_chosen_and_each_knows_its_original(runs: Path, project: Path) -> None:
    written, changed = (pl.read_parquet(runs / name / "items.parquet") for name in ("none", "rename"))
    assert set(written["original"]) == {""}
    assert set(changed["original"]) == set(written["item_id"])
    both = changed.join(written, left_on="original", right_on="item_id", suffix="_written")
    assert (both["text"] != both["text_written"]).all()
    assert both.select(pl.col("path") == pl.col("path_written")).to_series().all()
    for row in changed.iter_rows(named=True):
        assert row["item_id"] == item_id(row["text"], "python", "function")
        assert "v0" in row["text"]
    # Labels lie where the changed texts have them.
    rows = pl.read_parquet(runs / "rename" / "observations" / "**" / "*.parquet")
    names = dict(changed.select("item_id", "text").iter_rows())
    for name, start, end, word in (
        rows.filter(pl.col("word") == "v0").select("item_id", "start", "end", "word").iter_rows()
    ):
        assert names[name][start:end].strip() in word


def test_a_comparison_pairs_programs_by_their_originals(runs: Path) -> None:
    (found,) = compare([runs / "none", runs / "rename"])
    assert [(one["shared"], one["base"], one["model"]) for one in found.coverage] == [(40, 40, 40)]
    held = {(one.score.metric, slice_of(one.score.dimensions)): one for one in found.differences}
    assert {metric for metric, _ in held} == {"nats_per_token"}
    whole = held["nats_per_token", "all"]
    tables = [with_slices(pl.read_parquet(runs / name / "scores.parquet")) for name in ("none", "rename")]
    values = [
        table.filter((pl.col("metric") == "nats_per_token") & (pl.col("slice") == "all"))["value"].item()
        for table in tables
    ]
    assert whole.value == pytest.approx(values[1] - values[0], abs=1e-6)
    assert whole.low < whole.value < whole.high
    assert whole.n_clusters == 11
    assert found.changed_items == []


def test_runs_in_the_same_words_are_compared_as_ever(runs: Path, decoder: Path, project: Path) -> None:
    run(experiment(decoder, project, "rename"), Execution(output=runs / "again"))
    (found,) = compare([runs / "rename", runs / "again"])
    assert {one.score.metric for one in found.differences} == {
        "bits", "accepted_characters", "accepted_line"
    }  # fmt: skip
    assert all(one.value == 0 for one in found.differences)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Some modules of the standard library."""
    folder = tmp_path_factory.mktemp("modules")
    for module in (argparse, shlex, textwrap, tokenize):
        (folder / f"{module.__name__}.py").write_text(inspect.getsource(module), encoding="utf-8")
    return f"local:{folder}"


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_every_transform_changes_texts_and_accounts_for_what_it_leaves_out(
    transform: str, modules: str
) -> None:
    originals = {item.item_id: item for item in select(modules, Selection()).items}
    found = select(modules, Selection(transform=transform))
    assert {item.original for item in found.items} <= originals.keys()
    assert len(found.items) + sum(found.left_out.values()) == found.found
    assert all(item.text != originals[item.original].text for item in found.items)
    if transform != "mislead":
        # Names that mislead come from the functions behind one, of which a smaller limit has others.
        fewer = select(modules, Selection(limit=60, transform=transform))
        assert {item.item_id for item in fewer.items} <= {item.item_id for item in found.items}


def test_who_has_read_the_original_has_seen_the_other_words(
    project: Path, decoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = f"local:{project}"
    chosen = select(corpus, Selection(limit=10, near_duplicates=False, transform="rename"))
    read = chosen.items[0].original
    held = {item.item_id for item in read_items(corpus, SkipCounter())}
    assert read in held

    def seen(name: str, ids: object) -> frozenset[str]:
        return frozenset({read} & set(ids))  # type: ignore[call-overload]

    monkeypatch.setattr("sonde.experiments.datasets.seen_items", seen)
    group = Group(corpus=corpus, corpus_hash="", language="python", items=chosen.items)
    assert model_names.bundled_names()
    assert [item.original for item in exclude_training_items(group.items)] == [
        item.original for item in chosen.items[1:]
    ]
    monkeypatch.setattr("sonde.experiments.resolve.seen_items", seen)

    class Reading:
        inputs = chosen.items

    asked = experiment(decoder, project, "rename")
    session = Session(
        experiment=asked,
        execution=Execution(output=Path("unused")),
        progress=NullProgress(),
        models={"surprisal": (str(decoder),)},
    )
    (model,) = resolve_models(session, [Reading()])  # type: ignore[list-item]
    assert model.seen == {chosen.items[0].item_id}


def both_ways(asked: Experiment, folder: Path, transform: str = "rename") -> list[Path]:
    """An experiment on the code as it was written, and in other words."""
    for one in ("none", transform):
        chosen = dataclasses.replace(asked.selection, transform=one)
        run(dataclasses.replace(asked, selection=chosen), Execution(output=folder / one))
    return [folder / "none", folder / transform]


def label_tables(folder: Path, task: str) -> pl.DataFrame:
    """The data set of a task."""
    found = [one for one in folder.rglob("*.parquet") if "labels" in one.parts and task in str(one)]
    (path,) = (one for one in found if not one.name.endswith(".inputs.parquet"))
    return pl.read_parquet(path)


def test_minimal_pairs_are_paired_with_those_of_the_code_as_written(
    decoder: Path, modules: str, tmp_path: Path
) -> None:
    asked = dataclasses.replace(
        experiment(decoder, Path("unused")), corpora=(modules,), options={"surprisal": {"pairs": "sri"}}
    )
    folders = both_ways(asked, tmp_path)
    written, changed = (label_tables(one, "sri") for one in folders)
    assert set(changed["example_id"]) <= set(written["example_id"])
    assert set(changed["item_id"]).isdisjoint(written["item_id"])
    (found,) = compare(folders)
    assert found.unpaired == []
    assert {one["shared"] for one in found.coverage} == {changed["item_id"].n_unique()}
    assert {one.score.metric for one in found.differences} >= {"preferred"}
    assert all(one.score.n <= changed.height for one in found.differences)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["idn", "sri"])
def test_a_probe_is_held_against_the_same_examples_transformed(
    task: str, decoder: Path, modules: str, tmp_path: Path
) -> None:
    asked = dataclasses.replace(
        experiment(decoder, Path("unused"), lens="probe"),
        corpora=(modules,),
        tasks=(task,),
        selection=Selection(limit=120),
        options={"probe": {"controls": False}},
    )
    folders = both_ways(asked, tmp_path)
    written, changed = (label_tables(one, task) for one in folders)
    both = written.join(changed, on="example_id", suffix="_changed")
    assert both.height == changed.height > 0.6 * written.height
    assert both.select(pl.col("cluster") == pl.col("cluster_changed")).to_series().all()
    assert both.select(pl.col("split") == pl.col("split_changed")).to_series().all()
    texts = {
        item: text
        for folder in folders
        for name in ("items", "inputs")
        for item, text in pl.read_parquet(folder / f"{name}.parquet").select("item_id", "text").iter_rows()
    }
    for row in both.iter_rows(named=True):
        before = texts[row["item_id"]][row["start"] : row["end"]]
        after = texts[row["item_id_changed"]][row["start_changed"] : row["end_changed"]]
        assert before == after or "v" in after
    (found,) = compare(folders)
    assert {one.score.metric for one in found.differences} >= {"accuracy"}
    assert not [one for one in found.unpaired if "in common" in one.reason]
    told = json.loads((folders[1] / "run.json").read_text())["data_sets"]
    (report,) = (one for group in told.values() for one in group.values())
    assert sum(report["transform"].values()) == written.height


@pytest.mark.slow
def test_a_fine_tuning_is_held_against_the_same_examples_transformed(
    encoder: Path, modules: str, tmp_path: Path
) -> None:
    asked = dataclasses.replace(
        experiment(encoder, Path("unused"), lens="finetune"),
        corpora=(modules,),
        tasks=("misuse_repair",),
        selection=Selection(limit=60),
        options={
            "finetune": {
                "methods": "pretrained,bag_of_tokens",
                "rates": "1e-3",
                "epochs": "1",
                "seeds": 2,
                "cut": "window",
            }
        },
    )
    folders = both_ways(asked, tmp_path)
    (found,) = compare(folders)
    assert found.differences
    assert found.unpaired == []


def test_what_reads_files_is_refused(decoder: Path, project: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reads whole files"):
        run(experiment(decoder, project, "rename", "cloze"), Execution(output=tmp_path))
    before = dataclasses.replace(
        experiment(decoder, project, "rename"), options={"surprisal": {"before": "both"}}
    )
    with pytest.raises(UsageError, match="reads whole files"):
        run(before, Execution(output=tmp_path))
    with pytest.raises(UnknownNameError, match="rename"):
        Selection(transform="renam")


def test_the_page_of_a_comparison_says_which_code_was_changed(runs: Path, tmp_path: Path) -> None:
    write_comparison(compare([runs / "none", runs / "rename"]), tmp_path)
    page = write_comparison_page(tmp_path).read_text(encoding="utf-8")
    assert page.count("code transformed by <code>rename</code>") == 1
