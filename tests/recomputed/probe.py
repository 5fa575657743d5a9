"""Probes: the states that they read, and one of them by scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from jaxtyping import Float
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from tests.recomputed.agreement import HALF, Agreement, compare
from tests.recomputed.plain_model import PlainModel
from tests.recomputed.run_folder import RunFolder, unpack_states

KEYS = ["item_id", "start", "end"]


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
    said: dict[tuple[str, int, int], str] = {}
    for row in scores.filter(pl.col("slice") == "all").sort("layer").iter_rows(named=True):
        answers = _answer(labels, states, row["layer"], row["l2"])
        right.append(float((answers == tested["label"].to_numpy()).mean()))
        accuracies.append(row["value"])
        if row["layer"] == best["layer"]:
            said = dict(zip(tested.select(KEYS).rows(), answers, strict=True))
    told = run.answers("probe").filter(pl.col("task") == task)
    same = [
        said[row["item_id"], row["start"], row["end"]] == row["said"] for row in told.iter_rows(named=True)
    ]
    yield compare(f"{task}: answer of a probe", np.ones(len(same)), same, tolerance=0, share=0.02)
    yield compare(f"{task}: accuracy at a layer", accuracies, right, tolerance=0.02 + 1 / tested.height)


def _answer(
    labels: pl.DataFrame,
    states: dict[tuple[str, int, int], Float[np.ndarray, "layer width"]],
    layer: int,
    penalty: float,
) -> np.ndarray:
    """Return what a softmax regression on standardised states says of the tested examples."""
    parts = {name: labels.filter(pl.col("split") == name) for name in ("train", "test")}
    features = {
        name: np.stack([states[row][layer] for row in part.select(KEYS).iter_rows()])
        for name, part in parts.items()
    }
    scaler = StandardScaler().fit(features["train"])
    probe = LogisticRegression(C=1 / (len(features["train"]) * penalty), tol=1e-6, max_iter=5000)
    probe.fit(scaler.transform(features["train"]), parts["train"]["label"].to_numpy())
    return np.asarray(probe.predict(scaler.transform(features["test"])))
