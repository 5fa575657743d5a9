"""Cross-fitted probes: every example is tested once, by probes that saw nothing of its cluster."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lenses.test_probe import LAYERS, functions, noise, observed, one, planted, score, tokens

from sonde.base.errors import InputError
from sonde.executors import EXECUTORS
from sonde.lenses import LENSES, Control, LensSettings
from sonde.lenses.engine.lens import ControlObservations
from sonde.lenses.probe.controls import share_of_classes
from sonde.lenses.probe.data import gather_states
from sonde.lenses.probe.fit import Examples, fit_probes, read_options
from sonde.training.probes.splits import make_grouped_folds

FIVE = {"folds": 5}


def test_every_example_is_tested_once_and_every_cluster_counts() -> None:
    frame, observations = planted()
    table = score({"task": frame}, observations, controls=True, **FIVE)
    best = one(table, metric="accuracy", slice="best", split="test", control=None)
    assert (best["n"], best["n_clusters"], best["layer"]) == (400, 40, 1)
    assert best["k"] == 5 and best["fold_layers"] == [1, 1, 1, 1, 1]
    alone = one(score({"task": frame}, observations, folds=1), metric="accuracy", slice="best", split="test")
    assert alone["n_clusters"] == 8 and best["ci_high"] - best["ci_low"] < alone["ci_high"] - alone["ci_low"]
    gain = one(table, metric="gain", slice="best")
    assert (gain["n"], gain["n_clusters"]) == (400, 40)
    baseline = one(table, metric="accuracy", slice="best", split="test", control=gain["control"])
    assert gain["value"] == pytest.approx(best["value"] - baseline["value"])


def test_what_only_memory_of_a_cluster_knows_is_at_chance() -> None:
    """Every cluster has a class and a vector of its own: parted at random a probe would know all."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40, LAYERS, 64))
    of_cluster = rng.permutation(["no", "yes"] * 20)
    cluster = np.arange(400) % 40
    frame = functions(of_cluster[cluster].tolist())
    states = (vectors[cluster] + 0.1 * rng.normal(size=(400, LAYERS, 64))).astype(np.float32)
    observations = observed(frame["item_id"].to_list(), states)
    best = one(score({"task": frame}, observations, **FIVE), metric="accuracy", slice="best", split="test")
    assert best["ci_low"] <= 0.5 <= best["ci_high"] and abs(best["value"] - 0.5) < 0.2
    loose = frame.with_columns(cluster=pl.Series([f"own{at}" for at in range(400)]))
    leaked = one(score({"task": loose}, observations, **FIVE), metric="accuracy", slice="best", split="test")
    assert leaked["value"] > 0.9


@pytest.mark.parametrize("fold", range(5))
def test_a_fold_chooses_without_its_test_part(fold: int) -> None:
    """Other labels there change neither its layer, nor its penalties, nor what it predicts."""
    frame, observations = planted(strength=0.4)
    examples = Examples.from_frame("task", frame).assign_folds(5, seed=0)
    states, _ = gather_states(observations.lazy(), examples, "mean", language="python", token_pooling="mean")
    options = read_options(LensSettings()).model_copy(update={"device": "cpu"})
    hidden = examples.folds[fold].test
    labels = examples.labels.copy()
    labels[hidden] = np.random.default_rng(1).permutation(1 - labels[hidden])
    changed = Examples(
        examples.task, frame, examples.classes, labels, examples.values, examples.lengths,
        examples.clusters, examples.folds,
    )  # fmt: skip
    before, after = (fit_probes(states, held, options) for held in (examples, changed))
    own = np.repeat(np.arange(5), before.sizes) == fold
    assert before.layers[fold] == after.layers[fold]
    np.testing.assert_array_equal(before.predicted[:, own], after.predicted[:, own])
    assert (before.correct[:, own] != after.correct[:, own]).any()
    seen = {*examples.folds[fold].train.tolist(), *examples.folds[fold].valid.tolist()}
    assert not seen & set(hidden.tolist())
    known = {examples.clusters[row] for row in seen}
    assert not known & set(examples.clusters[hidden].tolist())


def test_folds_are_those_of_scikit_learn_fitted_one_by_one() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold
    from sklearn.preprocessing import StandardScaler

    frame, observations = planted(strength=0.7)
    table = score({"task": frame}, observations, l2="0.05", **FIVE)
    examples = Examples.from_frame("task", frame)
    states, _ = gather_states(observations.lazy(), examples, "mean", language="python", token_pooling="mean")
    labels, groups = examples.labels, frame["cluster"].to_list()
    dealer = StratifiedGroupKFold(n_splits=5, shuffle=True, random_state=0)
    tested = [test for _, test in dealer.split(labels, labels, groups)]
    right = np.zeros((LAYERS, 400))
    valid = np.zeros((5, LAYERS))
    for fold in range(5):
        train = np.setdiff1d(np.arange(400), np.concatenate([tested[fold], tested[(fold + 1) % 5]]))
        for layer in range(LAYERS):
            scaled = StandardScaler().fit(states[layer][train]).transform(states[layer])
            model = LogisticRegression(C=1 / (0.05 * len(train))).fit(scaled[train], labels[train])
            right[layer, tested[fold]] = model.predict(scaled[tested[fold]]) == labels[tested[fold]]
            valid[fold, layer] = model.score(scaled[tested[(fold + 1) % 5]], labels[tested[(fold + 1) % 5]])
    for layer in range(LAYERS):
        row = one(table, metric="accuracy", slice="all", split="test", layer=layer)
        assert row["value"] == pytest.approx(right[layer].mean(), abs=0.006)
    own = np.concatenate([right[valid[fold].argmax(), tested[fold]] for fold in range(5)]).mean()
    best = one(table, metric="accuracy", slice="best", split="test")
    assert best["value"] == pytest.approx(own, abs=0.006)


def test_splits_that_a_source_brings_and_the_published_protocol_are_kept() -> None:
    frame, observations = planted()
    kept = frame.with_columns(given_split=pl.lit(True))
    best = one(score({"task": kept}, observations, **FIVE), metric="accuracy", slice="best", split="test")
    assert (best["n"], best["n_clusters"], best["k"]) == (80, 8, None)
    lens = LENSES.load("probe")
    assert lens.select_test_rows(frame, LensSettings()).height == 400
    assert lens.select_test_rows(kept, LensSettings()).height == 80
    assert lens.select_test_rows(frame, LensSettings(mode="paper")).height == 80
    assert lens.select_test_rows(frame, LensSettings(options={"folds": 1})).height == 80


def test_a_class_may_be_missing_where_it_is_only_tested_and_two_clusters_are_too_few() -> None:
    frame, observations = planted()
    where = pl.col("cluster").is_in(["cluster0", "cluster1"])
    rare = frame.with_columns(label=pl.when(where).then(pl.lit("rare")).otherwise("label"))
    table = score({"task": rare}, observations, **FIVE)
    assert one(table, metric="accuracy", slice="best", split="test")["n"] == 400
    two = frame.with_columns(cluster=pl.Series([f"c{at % 2}" for at in range(400)]))
    (row,) = score({"task": two}, observations, **FIVE).to_dicts()
    assert row["metric"] == "left_out" and "2 clusters, but one to train on" in row["slice"]


def test_numbers_sizes_and_selectivity_are_cross_fitted_too() -> None:
    frame, observations = planted(count=600)
    frame = frame.with_columns(value=pl.Series(np.random.default_rng(2).normal(size=600)))
    table = score({"task": frame}, observations, probe="linear,ridge", curves=True, **FIVE)
    assert one(table, metric="r2", slice="best")["n"] == 600
    assert one(table, metric="spearman", slice="best")["n_clusters"] == 40
    assert one(table, slice="size=100")["n"] == 600
    frame, observations = tokens(np.random.default_rng(0).normal(size=(40, 8)))
    table = score({"task": frame}, observations, controls=True, **FIVE)
    found = one(table, metric="selectivity", slice="best")
    assert (found["n"], found["n_clusters"]) == (600, 40) and found["value"] > 0.1


@settings(deadline=None, max_examples=40)
@given(
    groups=st.lists(st.integers(0, 12), min_size=30, max_size=80),
    folds=st.integers(3, 7),
    seed=st.integers(0, 2**63 - 1),
)
def test_folds_part_no_group_and_test_every_item_once(groups: list[int], folds: int, seed: int) -> None:
    group = np.array(groups)
    labels = np.arange(len(group)) % 3
    if len(set(groups)) < 3:
        with pytest.raises(InputError, match="are needed"):
            make_grouped_folds(labels, group, folds, seed)
        return
    made = make_grouped_folds(labels, group, folds, seed)
    assert len(made) == min(folds, len(set(groups)))
    assert sorted(np.concatenate([parts.test for parts in made]).tolist()) == list(range(len(group)))
    for parts in made:
        sides = [set(group[rows].tolist()) for rows in (parts.train, parts.valid, parts.test)]
        assert sum(map(len, sides)) == len(set(groups)) and all(sides[:2])
    again = make_grouped_folds(labels, group, folds, seed)
    assert all((one.test == two.test).all() for one, two in zip(made, again, strict=True))


def test_random_weights_read_enough_of_every_class_of_a_small_set() -> None:
    labels = {"task": functions([f"class{at % 5}" for at in range(300)])}
    read = set(share_of_classes((), labels, 0.25))
    chosen = labels["task"].filter(pl.col("item_id").is_in(list(read)))
    counts = chosen["label"].value_counts()["count"].to_list()
    assert len(counts) == 5 and min(counts) >= 40
    large = {"task": functions(["no", "yes"] * 400)}
    assert 0.25 <= len(share_of_classes((), large, 0.25)) / large["task"]["item_id"].n_unique() < 0.3
    given_split = large["task"].with_columns(given_split=pl.lit(True))
    chosen = given_split.filter(pl.col("item_id").is_in(list(share_of_classes((), {"t": given_split}, 0.05))))
    assert chosen.group_by("label", "split").len()["len"].min() >= 40
    (first, *_) = LENSES.load("probe").assign_controls((), labels, LensSettings())
    assert set(first.items or ()) == read


def test_random_weights_keep_their_control_on_a_small_set() -> None:
    """Sixty functions: a share by hash alone leaves a split without a class."""
    frame, observations = planted(count=60)
    items = share_of_classes((), {"task": frame}, 0.25)
    held = observations.filter(pl.col("item_id").is_in(list(items)))
    controls = tuple(ControlObservations(Control(seed, 0.25, items), held.lazy()) for seed in range(3))
    table = score({"task": frame}, observations, untrained=controls, controls=True, **FIVE)
    assert one(table, metric="gain", control="random_weights")["n"] == 60
    assert table.filter(pl.col("metric") == "left_out").is_empty()


def test_the_spread_over_random_weights_is_in_the_interval_of_the_gain() -> None:
    """Three draws of the weights that differ widely leave more open than three that agree."""
    frame, observations = planted(count=800)
    names = frame["item_id"].to_list()
    gold = np.where(frame["label"] == "yes", 1, -1)

    def gain(strengths: tuple[float, float, float]) -> dict[str, object]:
        controls: list[ControlObservations] = []
        for seed, strength in enumerate(strengths):
            states = noise(800, 10 + seed)
            states[:, 0, 0] += strength * gold
            controls.append(ControlObservations(Control(seed, 1.0), observed(names, states).lazy()))
        table = score({"task": frame}, observations, untrained=tuple(controls), controls=True, **FIVE)
        return one(table, metric="gain", control="random_weights")

    alike, apart = gain((0.7, 0.7, 0.7)), gain((0.0, 0.4, 2.0))
    widths = [row["ci_high"] - row["ci_low"] for row in (alike, apart)]
    assert widths[1] > 3 * widths[0]
    assert "seeds" in apart["ci_method"] and apart["df"] < alike["df"]


def test_what_another_task_had_read_is_in_no_share_of_this_one() -> None:
    frame, observations = planted(count=800)
    names, labels = frame["item_id"].to_list(), frame["label"].to_list()
    # All of one class were read, as untouched functions are that several tasks of faults have in common.
    inputs = share_of_classes((), {"task": frame}, 0.25)
    read = [name for name, label in zip(names, labels, strict=True) if label == labels[0] or name in inputs]
    held = observed(read, noise(len(read), 3))
    controls = tuple(ControlObservations(Control(seed, 0.25), held.lazy()) for seed in range(3))
    table = score({"task": frame}, observations, untrained=controls, controls=True, **FIVE)
    gain = one(table, metric="gain", control="random_weights")
    assert gain["n"] == len(inputs) < len(read)


@pytest.mark.slow
def test_tasks_side_by_side_are_those_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, observations = planted()
    labels = dict.fromkeys(("a", "b", "c"), frame)
    made: list[pl.DataFrame] = []
    spread_out: list[int] = []
    real = EXECUTORS.load("local").map
    monkeypatch.setattr(
        EXECUTORS.load("local"),
        "map",
        lambda *told, workers: spread_out.append(workers) or real(*told, workers=workers),
    )
    monkeypatch.setattr("sonde.lenses.probe.score._WORTH_PROCESSES", 0)
    for number in (1, 2):
        monkeypatch.setattr("sonde.lenses.probe.score.count_cores", lambda number=number: number)
        made.append(score(labels, observations, controls=True, **FIVE))
    assert spread_out == [2]
    assert made[0]["task"].to_list() == made[1]["task"].to_list()
    assert made[0]["value"].to_list() == pytest.approx(made[1]["value"].to_list(), abs=0.01)
