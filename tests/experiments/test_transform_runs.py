"""Runs over the same programs in other words, and what a comparison with the run without makes of them."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import shlex
import textwrap
import tokenize
from pathlib import Path

import polars as pl
import pytest

from sonde.base.errors import UnknownNameError, UsageError
from sonde.corpora import Intake, Selection, item_id, read_items, select
from sonde.experiments import Execution, Experiment
from sonde.experiments.choices import model_choices
from sonde.experiments.comparing import compare
from sonde.experiments.drawing import unseen
from sonde.experiments.plan import Group
from sonde.experiments.run import run
from sonde.models import _bundled

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
    assert [(one.shared, one.base, one.model) for one in found.covered] == [(40, 40, 40)]
    held = {(one.score.metric, one.score.slice): one for one in found.differences}
    assert {metric for metric, _ in held} == {"nats_per_token"}
    whole = held["nats_per_token", "all"]
    tables = [pl.read_parquet(runs / name / "scores.parquet") for name in ("none", "rename")]
    values = [
        table.filter((pl.col("metric") == "nats_per_token") & (pl.col("slice") == "all"))["value"].item()
        for table in tables
    ]
    assert whole.value == pytest.approx(values[1] - values[0], abs=1e-6)
    assert whole.low < whole.value < whole.high
    assert whole.n_clusters == 11
    assert found.moved == []


def test_runs_in_the_same_words_are_compared_as_ever(runs: Path, decoder: Path, project: Path) -> None:
    run(experiment(decoder, project, "rename"), Execution(output=runs / "again"))
    (found,) = compare([runs / "rename", runs / "again"])
    assert {one.score.metric for one in found.differences} == {"bits"}
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
    held = {item.item_id for item in read_items(corpus, Intake())}
    assert read in held

    def seen(name: str, ids: object) -> frozenset[str]:
        return frozenset({read} & set(ids))  # type: ignore[call-overload]

    monkeypatch.setattr("sonde.experiments.drawing.seen_items", seen)
    group = Group(corpus=corpus, corpus_hash="", language="python", items=chosen.items)
    assert _bundled.bundled_names()
    assert [item.original for item in unseen(group)] == [item.original for item in chosen.items[1:]]
    monkeypatch.setattr("sonde.experiments.choices.seen_items", seen)

    class Reading:
        inputs = chosen.items

    asked = experiment(decoder, project, "rename")
    (model,) = model_choices(asked, Execution(output=Path("unused")), [Reading()], {str(decoder)})  # type: ignore[list-item]
    assert model.seen == {chosen.items[0].item_id}


def test_pairs_in_other_words_are_other_pairs(decoder: Path, project: Path, tmp_path: Path) -> None:
    for transform in ("none", "rename"):
        asked = experiment(decoder, project, transform)
        run(
            dataclasses.replace(asked, options={"surprisal": {"pairs": "sri"}}),
            Execution(output=tmp_path / transform),
        )
    (found,) = compare([tmp_path / "none", tmp_path / "rename"])
    assert list(found.differences) == []
    assert {one.reason for one in found.unpaired} == {"the data sets have no example in common"}


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
