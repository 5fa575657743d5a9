"""Lenses that ask the same tasks each in their own way give in one run what each gives alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import sonde
from sonde.base.options import Option
from sonde.experiments import Experiment
from sonde.experiments.resolve import resolve_lenses
from sonde.lenses import LENSES
from sonde.report import RunData, write_report
from tests.experiments.test_causal_runs import code as code
from tests.experiments.test_causal_runs import save

OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "causal": {
        "methods": "erase,ablate,patch",
        "draws": 1,
        "items": 20,
        "patched_cells": 4,
        "drawn_cells": 2,
    },
    "cloze": {"candidates": 3, "scope": "all", "templates": "import", "frames": 0},
    "probe": {"controls": False, "curves": False},
    "finetune": {"epochs": 1, "length": 64, "cut": "keep", "methods": "pretrained,bag_of_tokens"},
    "surprisal": {"pairs": "wrong_operator"},
}
"""Options by which a lens takes seconds; prompting asks a server and fidelity reads two models."""
TASKS = {
    "attention": (),
    "causal": ("idn", "syntax_relations"),
    "cloze": ("api_cloze",),
    "probe": ("idn", "wrong_operator"),
    "finetune": ("wrong_operator",),
    "surprisal": (),
}
_APART = ["fingerprint"]


def asked(*lenses: str) -> Experiment:
    tasks = dict.fromkeys(task for lens in lenses for task in TASKS[lens])
    return Experiment(
        models=("sonde/mini-decoder",),
        lenses=lenses,
        tasks=tuple(tasks),
        options={lens: OPTIONS[lens] for lens in lenses if lens in OPTIONS},
    )


def test_every_lens_is_asked() -> None:
    assert {*TASKS, "prompting", "fidelity"} == set(LENSES.names())


def test_each_way_to_ask_a_task_has_tables_of_its_own() -> None:
    found = {one.name: one.labels for one in resolve_lenses(asked(*TASKS))}
    assert found == dict.fromkeys(TASKS, "") | {"probe": "probe", "surprisal": "surprisal"}
    assert {one.labels for lens in TASKS for one in resolve_lenses(asked(lens))} == {""}


@pytest.mark.parametrize("lens", [name for name in LENSES.names() if not LENSES.load(name).targets])
def test_a_lens_may_be_asked_for_the_tasks_that_are_its_own(lens: str) -> None:
    tasks = LENSES.load(lens).tasks
    for task in tasks:
        named = Experiment(models=("sonde/mini-decoder",), lenses=(lens,), tasks=(task,))
        assert [one.tasks for one in resolve_lenses(named)] == [tuple(tasks)]


def test_names_of_tables_are_no_part_of_what_is_observed() -> None:
    (alone,), both = resolve_lenses(asked("probe")), resolve_lenses(asked("causal", "probe"))
    assert both[1].observation_lens == alone.observation_lens and both[1] != alone


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_lenses_together_give_what_each_gives_alone(kind: str, code: Path, tmp_path: Path) -> None:
    model = save(kind, tmp_path / "model", code)

    def ran(*lenses: str) -> sonde.Run:
        return sonde.run(
            models=model,
            lenses=lenses,
            tasks=asked(*lenses).tasks or None,
            corpora=f"local:{code}",
            limit=60,
            output=tmp_path / "-".join(lenses),
            options={lens: OPTIONS[lens] for lens in lenses if lens in OPTIONS},
            include_seen=True,
            workers=1,
        )

    together = ran(*TASKS)
    for lens in TASKS:
        alone = ran(lens).scores.filter(pl.col("lens") == lens)
        own = together.scores.filter(pl.col("lens") == lens)
        assert own.height == alone.height > 0, lens
        keys = [name for name, kind in own.schema.items() if name not in _APART and not kind.is_float()]
        floats = [name for name, kind in own.schema.items() if kind.is_float()]
        by = [name for name in keys if name != "dimensions"]
        frames = [one.with_columns(about=pl.Series(map(str, one["dimensions"]))) for one in (own, alone)]
        first, second = (one.sort(*by, "about").select(*by, "about", *floats) for one in frames)
        assert_frame_equal(first.drop("df"), second.drop("df"), abs_tol=1e-4, rel_tol=1e-4)
        # A ratio of squared variances multiplies the noise of another batch.
        assert_frame_equal(first.select("df"), second.select("df"), rel_tol=1e-3)
    assert "Fine-tuning" in write_report(together.directory).read_text(encoding="utf-8")
    assert (
        RunData(together.directory).directory.label_tables("idn", "probe")[0].name.endswith(".probe.parquet")
    )
