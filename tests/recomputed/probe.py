"""Probes: the states that they read, and one of them by scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.recomputed.agreement import HALF, Agreement, compare
from tests.recomputed.plain_model import PlainModel
from tests.recomputed.run_folder import RunFolder, unpack_states

KEYS = ["item_id", "start", "end"]

NEAR_TIE = 0.01
"""Probability within which two classes tie: states of half precision may turn them over."""


def recompute(run: RunFolder, plain: PlainModel, most: int) -> Iterator[Agreement]:
    """Compare states, then what the probe at the chosen layer answers and how often it is right."""
    rows = run.observations("probe").filter(pl.col("pooling") == "span")
    states: dict[tuple[str, int, int], Float[np.ndarray, "layer width"]] = {}
    for part in rows.partition_by("item_id", maintain_order=True):
        item = part["item_id"][0]
        encoded = plain.encode(run.texts[item])
        if not plain.fits(encoded):
            continue
        layers = plain.states(encoded.ids)
        for start, end in part.select("start", "end").iter_rows():
            states[item, start, end] = layers[:, encoded.sharing(start, end)].mean(1)
    kept = dict(zip(rows.select(KEYS).iter_rows(), unpack_states(rows), strict=True))
    stored, own = (np.stack([one[key] for key in states]) for one in (kept, states))
    # Half precision keeps eleven digits of two, of the largest entry of a layer.
    largest = np.abs(own).max(2, keepdims=True)
    yield compare("state of a token, over the largest entry", stored / largest, own / largest, tolerance=HALF)
    for task in run.tasks("probe"):
        labels = run.labels(task, "probe")
        # Texts longer than the context are read in windows: their states are the run's.
        if labels["other_start"].is_null().all() and set(labels.select(KEYS).iter_rows()) <= set(kept):
            yield from _probe(run, task, labels, kept | states)


def _probe(
    run: RunFolder,
    task: str,
    labels: pl.DataFrame,
    states: dict[tuple[str, int, int], Float[np.ndarray, "layer width"]],
) -> Iterator[Agreement]:
    scores = run.scores.filter(
        (pl.col("lens") == "probe")
        & (pl.col("task") == task)
        & (pl.col("metric") == "accuracy")
        & (pl.col("split") == "test")
        & (pl.col("method") == "linear")
        & pl.col("control").is_null()
    )
    best = scores.filter(pl.col("slice") == "best").row(0, named=True)
    if best["fold_layers"] is not None:
        return
    accuracies, right = [], []
    tested = labels.filter(pl.col("split") == "test")
    said: dict[tuple[str, int, int], set[str]] = {}
    for row in scores.filter(pl.col("slice") == "all").sort("layer").iter_rows(named=True):
        probe = _fit(labels, states, row["layer"], row["l2"])
        features = np.stack([states[key][row["layer"]] for key in tested.select(KEYS).iter_rows()])
        answers = probe.predict(features)
        right.append(float((answers == tested["label"].to_numpy()).mean()))
        accuracies.append(row["value"])
        if row["layer"] == best["layer"]:
            likely = probe.predict_proba(features)
            for key, chances in zip(tested.select(KEYS).iter_rows(), likely, strict=True):
                said[key] = set(probe.classes_[chances >= chances.max() - NEAR_TIE])
    told = run.answers("probe").filter(pl.col("task") == task)
    same = [
        row["said"] in said[row["item_id"], row["start"], row["end"]] for row in told.iter_rows(named=True)
    ]
    yield compare(f"{task}: answer of a probe", np.ones(len(same)), same, tolerance=0, share=0.02)
    yield compare(f"{task}: accuracy at a layer", accuracies, right, tolerance=0.02 + 1 / tested.height)


def _fit(
    labels: pl.DataFrame,
    states: dict[tuple[str, int, int], Float[np.ndarray, "layer width"]],
    layer: int,
    penalty: float,
) -> Any:
    """Fit a softmax regression to the standardised states of the training part."""
    train = labels.filter(pl.col("split") == "train")
    features = np.stack([states[key][layer] for key in train.select(KEYS).iter_rows()])
    probe = LogisticRegression(C=1 / (len(features) * penalty), tol=1e-6, max_iter=5000)
    return make_pipeline(StandardScaler(), probe).fit(features, train["label"].to_numpy())
