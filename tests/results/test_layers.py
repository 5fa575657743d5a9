"""Where a task is encoded: what the account of layers says of rows written by hand, case by case."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from sonde.results.layers import (
    LAYER_DIFFERENCE,
    LAYER_GAIN,
    STATUSES,
    LayerSummary,
    Status,
    summarise_layers,
)
from sonde.results.scores import Score, scores_to_frame

HALF = 0.02
BEST = (("selection", "best"),)


def row(metric: str, value: float, **more: Any) -> Score:
    fields: dict[str, Any] = {
        "model": "m", "lens": "probe", "task": "idn", "language": "python", "split": "test",
        "pooling": "mean", "method": "linear",
        "n": 400, "n_clusters": 40, "effective_clusters": 40.0, "df": 39.0,
        "ci_low": value - HALF, "ci_high": value + HALF,
        "ci_method": "paired clustered jackknife, Fisher's z",
    }  # fmt: skip
    return Score(metric=metric, value=value, **(fields | more))


def rows_of(
    accuracies: tuple[float, ...], chosen: int, control: float | None, gain: float | None = None, **more: Any
) -> list[Score]:
    """Rows as the lens writes them; ``gain`` is that of the chosen layers, where it is not the difference."""
    best = accuracies[chosen]
    rows = [row("accuracy", value, layer=layer, **more) for layer, value in enumerate(accuracies)]
    rows.append(row("accuracy", best, layer=chosen, dimensions=BEST, **more))
    for layer, value in enumerate(accuracies):
        if layer != chosen:
            rows.append(row(LAYER_DIFFERENCE, value - best, layer=layer, **more))
        if control is not None:
            rows.append(row(LAYER_GAIN, value - control, layer=layer, control="length", **more))
    if control is not None:
        found = best - control if gain is None else gain
        rows.append(row("gain", found, layer=chosen, control="length", dimensions=BEST, **more))
        rows.append(row("accuracy", control, control="length", dimensions=BEST, **more))
    return rows


def account(rows: list[Score]) -> LayerSummary:
    (found,) = summarise_layers(scores_to_frame(rows))
    return found


CASES: dict[str, tuple[list[Score], Status, tuple[int, ...], str]] = {
    "one layer is ahead": (
        rows_of((0.5, 0.5, 0.6, 0.9, 0.6), 3, 0.5), "encoded", (3,),
        "encoded: layer 3, every other layer is surely less accurate (middle third)",
    ),
    "two are level": (
        rows_of((0.9, 0.91, 0.6, 0.6, 0.6, 0.6), 1, 0.5), "encoded", (0, 1),
        "encoded: layer 1, layer 0 is not surely less accurate (early third)",
    ),
    "over more than one third": (
        rows_of((0.6, 0.9, 0.9, 0.9, 0.9, 0.9), 2, 0.5), "encoded", (1, 2, 3, 4, 5),
        "encoded: layer 2, layers 1 and 3 to 5 are not surely less accurate",
    ),
    "all are level": (
        rows_of((0.9, 0.9, 0.9), 2, 0.5), "encoded", (0, 1, 2),
        "encoded: layer 2, no other layer is surely less accurate",
    ),
    "a layer is surely better than the chosen one": (
        rows_of((0.6, 0.8, 0.95), 1, 0.5), "encoded", (1, 2),
        "encoded: layer 1, layer 2 is not surely less accurate",
    ),
    "one layer alone": (rows_of((0.9,), 0, 0.5), "encoded", (0,), "encoded: layer 0, the only one"),
    "two layers have no thirds": (
        rows_of((0.5, 0.9), 1, 0.5), "encoded", (1,),
        "encoded: layer 1, every other layer is surely less accurate",
    ),
    "as the surface": (
        rows_of((0.5, 0.51, 0.5), 1, 0.5), "absent", (), "not encoded beyond its controls",
    ),
    "worse than the surface": (
        rows_of((0.5, 0.51, 0.5), 1, 0.8), "absent", (), "not encoded beyond its controls",
    ),
    "one layer as the surface": (rows_of((0.51,), 0, 0.5), "absent", (), "not encoded beyond its controls"),
    "surely, by less than matters": (
        rows_of((0.5, 0.508, 0.5), 1, 0.5, ci_low=0.005, ci_high=0.009), "slight", (),
        "beyond its controls by less than matters: layer 1",
    ),
    "at another layer alone": (
        rows_of((0.5, 0.51, 0.8), 1, 0.5), "elsewhere", (2,),
        "encoded at layer 2, but not surely at the layer that validation chose (layer 1)",
    ),
    "at another layer, by folds": (
        rows_of((0.5, 0.51, 0.8), 1, 0.5, fold_layers=(1, 1, 0)), "elsewhere", (2,),
        "encoded at layer 2, but not surely at the layers that validation chose in each fold "
        "(most often layer 1)",
    ),
    "at another layer for one look, not for three": (
        rows_of((0.5, 0.505, 0.521), 1, 0.5), "absent", (), "not encoded beyond its controls",
    ),
    "too few clusters": (
        rows_of((0.5, 0.6, 0.9), 2, 0.5, effective_clusters=4.2, df=3.2), "open", (),
        "too little data to say whether it is encoded",
    ),
    "no interval": (
        rows_of((0.5, 0.6, 0.9), 2, 0.5, ci_low=None, ci_high=None), "open", (),
        "too little data to say whether it is encoded",
    ),
    "too few clusters, controls turned off": (
        rows_of((0.5, 0.6, 0.9), 2, None, effective_clusters=1.0, df=None), "open", (),
        "too little data to say whether it is encoded",
    ),
    "controls turned off": (
        rows_of((0.5, 0.6, 0.9), 2, None), "alone", (), "no control to say whether it is encoded",
    ),
    "as published": (
        rows_of((0.5, 0.5, 0.6, 0.9, 0.6), 3, 0.5, method="paper", mode="paper"), "encoded", (3,),
        "encoded: layer 3, every other layer is surely less accurate (middle third)",
    ),
    "layers that were not compared": (
        [one for one in rows_of((0.5, 0.9, 0.6), 1, 0.5) if not one.metric.startswith("layer")],
        "encoded", (1,), "encoded: layer 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_account_says_what_the_rows_allow(case: str) -> None:
    rows, status, named, text = CASES[case]
    found = account(rows)
    assert (found.status, found.named, found.describe()) == (status, named, text)
    assert found.chosen in (found.tied or (found.chosen,))


def test_every_status_is_met_and_described() -> None:
    assert {status for _, status, _, _ in CASES.values()} == set(get_args(Status)) == set(STATUSES)


@pytest.mark.parametrize("half", [0.001, 0.02, 0.06, 0.2])
@pytest.mark.parametrize("layers", [2, 7, 13, 49])
def test_the_set_is_that_of_intervals_widened_for_all_layers_together(half: float, layers: int) -> None:
    """By the definition of Bonferroni: out is what its widened interval holds below 0."""
    from scipy.stats import t

    behind = [-0.0101 * layer for layer in range(layers)]
    rows = rows_of(tuple(0.9 + value for value in behind), 0, 0.0)
    rows = [one for one in rows if one.metric != LAYER_DIFFERENCE]
    for layer, value in list(enumerate(behind))[1:]:
        ends = {"ci_low": value - half, "ci_high": value + half}
        rows.append(row(LAYER_DIFFERENCE, value, layer=layer, **ends))
    factor = t.ppf(1 - 0.025 / (layers - 1), 39) / t.ppf(0.975, 39)
    wanted = tuple(layer for layer, value in enumerate(behind) if not layer or value + half * factor >= 0)
    assert account(rows).tied == wanted


def test_hidden_layers_other_poolings_other_splits_and_other_corpora_say_nothing() -> None:
    own = rows_of((0.5, 0.9, 0.6), 1, 0.5)
    others: list[Score] = []
    for name, value in (("method", "mlp"), ("pooling", "last"), ("split", "external"), ("corpus_hash", "b")):
        more: dict[str, Any] = {name: value}
        others += rows_of((0.9, 0.5, 0.5), 0, 0.1, **more)
    assert account([*own, *others]) == account(own)


def test_a_table_without_chosen_layers_has_no_account() -> None:
    assert summarise_layers(scores_to_frame([])) == []
    rows = rows_of((0.5, 0.9), 1, 0.5)
    assert summarise_layers(scores_to_frame(one for one in rows if one.dimensions != BEST)) == []
    assert summarise_layers(scores_to_frame([row("accuracy", 0.5, dimensions=BEST)])) == []


def test_every_model_task_and_language_has_its_own() -> None:
    subjects = [("a", "idn", "go"), ("b", "idn", "go"), ("b", "ktx", "go"), ("b", "ktx", "java")]
    rows: list[Score] = []
    for place, (model, task, language) in enumerate(subjects):
        accuracies = [0.5] * len(subjects)
        accuracies[place] = 0.9
        rows += rows_of(tuple(accuracies), place, 0.5, model=model, task=task, language=language)
    found = summarise_layers(scores_to_frame(rows))
    assert [(one.key, one.named) for one in found] == [
        (subject, (place,)) for place, subject in enumerate(subjects)
    ]
