"""Whether a training was long enough and its grid wide enough; grids of one's own; learning curves."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from sonde.lenses import LensSettings, load_training_lens
from sonde.lenses.finetune.data import split_examples
from sonde.lenses.finetune.options import FinetuneOptions, variants
from sonde.lenses.finetune.score import AT_EDGE, AT_END, convergence_lines, stopped_early
from sonde.results.scores import Score, scores_to_frame

LENS = load_training_lens("finetune")


def epochs(chosen: tuple[float, int, int], rates: list[float], most: list[int]) -> pl.DataFrame:
    """All epochs of a grid of rates and of most epochs; ``chosen`` is a rate, its most and its best epoch."""
    rows = [
        {"rate": rate, "epochs": many, "epoch": epoch, "chosen": (rate, many, epoch) == chosen}
        for rate in rates
        for many in most
        for epoch in range(1, many + 1)
    ]
    return pl.DataFrame(rows)


@pytest.mark.parametrize(
    ("chosen", "rates", "most", "expected"),
    [
        # The only rate, and best after the last epoch of all.
        ((1e-3, 4, 4), [1e-3], [4], (True, True)),
        # Inside of the grid; validation fell again.
        ((1e-3, 4, 3), [1e-4, 1e-3, 1e-2], [4], (False, False)),
        # A shorter training is best at its own end, and the longer one was tried and was no better.
        ((1e-3, 4, 4), [1e-4, 1e-3, 1e-2], [4, 8], (False, False)),
        ((1e-3, 8, 8), [1e-4, 1e-3, 1e-2], [4, 8], (True, False)),
        ((1e-2, 4, 2), [1e-4, 1e-3, 1e-2], [4, 8], (False, True)),
        ((1e-4, 4, 2), [1e-4, 1e-2], [4], (False, True)),
    ],
)
def test_the_ends_of_a_grid_are_known(
    chosen: tuple[float, int, int], rates: list[float], most: list[int], expected: tuple[bool, bool]
) -> None:
    assert stopped_early(epochs(chosen, rates, most)) == expected


def row(metric: str, value: float, control: str | None = None, **more: Any) -> Score:
    fields: dict[str, Any] = {"split": "valid", "n": 3, "n_clusters": 0, **more}
    about: dict[str, Any] = {"model": "m", "lens": "finetune", "task": "wrong_operator"}
    return Score(**about, metric=metric, value=value, control=control, **fields)


def test_a_run_prints_what_may_want_more_and_what_collapsed() -> None:
    listed = [
        *(row(AT_END, value, seed=seed) for seed, value in enumerate([1.0, 1.0, 0.0])),
        *(row(AT_EDGE, 0.0, seed=seed) for seed in range(3)),
        row(AT_END, 0.0, "scratch"),
        row(AT_EDGE, 0.0, "scratch"),
        row("commonest_answer", 0.6, split="test", dimensions=(("seed", "0"),)),
        row("commonest_answer", 1.0, "scratch", split="test", dimensions=(("seed", "1"),)),
    ]
    assert list(convergence_lines(scores_to_frame(listed))) == [
        "wrong_operator, m: pretrained may need more: best after its last epoch in 2 of 3 trainings; "
        "scratch was trained enough",
        "wrong_operator, m: gives the same answer to everything (collapsed): scratch in 1 of 1 training",
    ]
    assert list(LENS.details(scores_to_frame(listed))) == list(convergence_lines(scores_to_frame(listed)))


def test_a_model_from_scratch_has_a_grid_of_its_own() -> None:
    settings = LensSettings(options={"rates": "1e-4,2e-4", "scratch_rates": "1e-3", "scratch_epochs": "5,50"})
    methods = {one.name: dict(one.options) for one in LENS.methods(("wrong_operator",), settings)}
    assert methods["pretrained"] == {"rates": "1e-4,2e-4"}
    # What its own grid replaces is in no key, so that other rates of the model train it no second time.
    assert methods["scratch"] == {"scratch_rates": "1e-3", "scratch_epochs": "5,50"}
    read = FinetuneOptions.read(settings.options)
    recipe = read.recipe(settings)
    assert (recipe.rates, recipe.epochs) == ((1e-4, 2e-4), 3)
    own = recipe.with_grid(read.scratch_rates, read.scratch_epochs)
    assert (own.rates, own.epochs, own.other_epochs) == ((1e-3,), 5, (50,))
    plain = FinetuneOptions.read({"rates": "1e-4"})
    recipe = plain.recipe(LensSettings())
    assert recipe.with_grid(plain.scratch_rates, plain.scratch_epochs) == recipe


def examples(size: int) -> pl.DataFrame:
    names = [f"{number}{side}" for number in range(size // 2) for side in "ab"]
    return pl.DataFrame(
        {
            "example_id": names,
            "group": [name[:-1] for name in names],
            "split": ["train"] * (size - 4) + ["valid", "valid", "test", "test"],
        }
    )


def test_fewer_examples_are_whole_pairs_and_among_more() -> None:
    table = examples(104)
    drawn = {size: split_examples(table, 1.0, 99, size, 3)["train"] for size in (10, 11, 40, 0, 500)}
    assert [part.height for part in drawn.values()] == [10, 10, 40, 100, 100]
    for part in drawn.values():
        assert set(part.group_by("group").len()["len"]) == {2}
    assert set(drawn[10]["example_id"]) < set(drawn[40]["example_id"])
    other = split_examples(table, 1.0, 99, 10, 4)["train"]
    assert set(other["example_id"]) != set(drawn[10]["example_id"])


def test_a_learning_curve_is_a_sweep_that_ends_with_all() -> None:
    found = variants(LensSettings(options={"sweep": "examples: 250, 1000, all"}))
    assert [one.name for one in found] == ["examples=250", "examples=1000", "examples=all"]
    assert [one.options["examples"] for one in found] == [250, 1000, 0]
    assert found[-1].dimensions == (("examples", "all"),)
