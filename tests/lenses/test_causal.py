"""The lens `causal` on a model of which is known what decides its answers."""

from __future__ import annotations


from pathlib import Path

import numpy as np
import polars as pl
import pytest



from tests.lenses.planted import HELD, USED, Ran, labels_of, loss_at_answers, planted, run_lens, some_items

BEST = (("selection", "best"),)


@pytest.fixture(scope="module")
def erased(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    items = some_items(160)
    options = {"methods": ("erase",), "draws": 3}
    return run_lens(planted(), items, labels_of(items), options, tmp_path_factory.mktemp("run"))


def test_the_model_has_learned_what_was_planted() -> None:
    assert np.mean(list(loss_at_answers(planted(), some_items(160)[:20]))) < 0.02


def test_both_properties_are_decoded(erased: Ran) -> None:
    for task in (USED, HELD):
        best = max(
            score.value
            for score in erased.scores
            if (score.task, score.metric, score.control, score.dimensions) == (task, "accuracy", None, ())
        )
        assert best > 0.97
        assert erased.value(task=task, metric="gain", dimensions=BEST).ci_low > 0.3  # type: ignore[operator]


def test_only_erasing_the_used_one_raises_the_loss(erased: Ran) -> None:
    """A third of the subwords are answers, of one bit each: 0.33 bits a subword, were all of it lost."""
    used = erased.value(task=USED, metric="excess", control="random", dimensions=BEST)
    assert used.value > 0.25
    assert used.ci_low is not None and used.ci_low > 0.2
    for layer in range(3):
        held = erased.value(task=HELD, metric="bits", control=None, split="test", layer=layer, dimensions=())
        assert abs(held.value) < 0.01
    # Where the letter was not fetched yet, there is nothing to erase.
    start = erased.value(task=USED, metric="bits", control=None, split="test", layer=0, dimensions=())
    assert abs(start.value) < 0.01
    for control in ("permuted", "control_task"):
        score = erased.value(task=USED, metric="excess", control=control, dimensions=BEST)
        assert score.ci_low is not None and score.ci_low > 0.2


def test_what_was_erased_is_found_no_more(erased: Ran) -> None:
    """At the layer itself a new probe is at chance; a random subspace of the same size leaves it decodable."""
    for task in (USED, HELD):
        for layer in (1, 2):
            of = {"task": task, "metric": "accuracy", "layer": layer, "dimensions": (("erased", str(layer)),)}
            chance = erased.value(task=task, metric="accuracy", control="majority")
            assert abs(erased.value(**of, control=None).value - chance.value) < 0.1
            assert erased.value(**of, control="random").value > 0.95


def test_effects_are_by_function_and_their_subwords_add_up(erased: Ran) -> None:
    effects = erased.rows.filter(pl.col("what") == "effect")
    sizes = effects.group_by("item_id", "subject", "kind", "layer").agg(pl.col("n").sum())
    assert sizes["n"].unique().to_list() == [18]
    assert effects["item_id"].n_unique() < len(some_items(160))
