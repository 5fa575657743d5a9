"""The tables against a slow and obvious version over random observations."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np
import polars as pl
import pytest
from scipy import stats

from sonde.results import group_means
from sonde.results.schema import OBSERVATIONS_SCHEMA

Row = dict[str, object]


def random_observations(seed: int, items: int = 40) -> pl.DataFrame:
    """Items of whole tokens, tokens in parts, layout and merged pieces, with columns drawn at random."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for item in range(items):
        position = end = token = 0
        while token < 25:
            case = rng.choice(["whole", "parts", "layout", "merged"], p=[0.6, 0.2, 0.1, 0.1])
            pieces = {"parts": int(rng.integers(2, 4))}.get(case, 1)
            kind, tag = (
                str(rng.choice(["identifier", "keyword"])),
                f"p{rng.integers(4)} -> n{rng.integers(3)}",
            )
            word, origin = f"w{rng.integers(6)}", str(rng.choice(["", "internal", "external", "builtin"]))
            above = str(rng.choice(["module", "module/block", "module/block/call"]))
            part, form = str(rng.choice(["name", "arguments"])), str(rng.choice(["bare", "method"]))
            for _ in range(pieces):
                size, layout, merged = int(rng.integers(1, 5)), case == "layout", case == "merged"
                subword = int(rng.integers(12))
                rows.append(
                    {
                        "item_id": f"i{item}", "file": "f", "cluster": f"c{item % 14}", "language": "python",
                        "position": position, "start": end, "end": end + size, "subword": f"s{subword // 2}",
                        "subword_id": subword, "nats": float(np.float32(rng.exponential(2.0))),
                        "rank": int(rng.integers(1, 9)), "entropy": float(np.float32(rng.random())),
                        "context": position, "bytes": size,
                        "text_characters": size, "text_bytes": size, "covered": size,
                        "token": -1 if layout else token,
                        "merged": 0 if layout else 2 if merged else 1,
                        "kind": "layout" if layout else "merged" if merged else kind,
                        "role": str(rng.choice(["", "call"])),
                        "tag": "layout" if layout else "a -> b + c -> d" if merged else tag,
                        "word": "" if layout or merged else word, "construct": str(rng.choice(["", "loop"])),
                        "ancestors": "" if layout else above,
                        "origin": "" if layout else origin, "origin_part": part, "call_form": form,
                        "library": str(rng.choice(["", "json", "os"])),
                        "user_tag": str(rng.choice(["", "A", "A|B"])), "top": ["x"],
                        "top_nats": [float(np.float32(rng.exponential(1.0)))],
                    }
                )  # fmt: skip
                position, end = position + 1, end + size
            token += {"layout": 0, "merged": int(rng.integers(1, 3))}.get(case, 1)
    return pl.DataFrame(rows, schema=dict(OBSERVATIONS_SCHEMA))


def new_tokens(rows: list[Row]) -> list[int]:
    """How many tokens begin in each row, by remembering every token that was met."""
    met: set[tuple[object, int]] = set()
    counts: list[int] = []
    for row in rows:
        first = int(row["token"])  # type: ignore[call-overload]
        tokens = {(row["item_id"], first + k) for k in range(int(row["merged"]))} if first >= 0 else set()  # type: ignore[call-overload]
        counts.append(len(tokens - met))
        met |= tokens
    return counts


def begun_first(rows: list[Row]) -> list[bool]:
    """Whether each row lies in a token that the first piece of its item begins."""
    reached: dict[object, int] = {}
    for row in rows:
        if row["position"] == 0 and row["token"] != -1:
            reached[row["item_id"]] = int(row["token"]) + int(row["merged"])  # type: ignore[call-overload]
    return [0 <= int(row["token"]) < reached.get(row["item_id"], 0) for row in rows]  # type: ignore[call-overload]


def slices_of(row: Row) -> Iterable[str]:
    yield "all"
    yield "layout" if row["token"] == -1 else "code"
    if row["position"] == 0:
        yield "text=first"
        return
    yield f"subword={row['subword']}#{row['subword_id']}"
    for name in ("tag", "construct", "kind", "role", "library"):
        if row[name]:
            yield f"{name}={row[name]}"
    for name, column, mark in (("ancestor", "ancestors", "/"), ("user_tag", "user_tag", "|")):
        yield from (f"{name}={part}" for part in str(row[column]).split(mark) if part)


def interval(parts: Iterable[tuple[object, float, float]]) -> tuple[float, float, int]:
    """Value, lower end and clusters of a ratio, leaving out one cluster at a time."""
    x: dict[object, float] = defaultdict(float)
    w: dict[object, float] = defaultdict(float)
    for cluster, over, under in parts:
        x[cluster] += over
        w[cluster] += under
    value = sum(x.values()) / sum(w.values())
    held = [c for c in w if w[c] or x[c]]
    size = sum(1 for c in w if w[c])
    if size < 2:
        return value, math.nan, size
    moved = [(sum(x.values()) - x[c]) / (sum(w.values()) - w[c]) - value for c in held]
    effective = sum(w.values()) ** 2 / sum(v**2 for v in w.values())
    half = stats.t.ppf(0.975, effective - 1) * math.sqrt((size - 1) / size * sum(m * m for m in moved))
    return value, value - half, size


METRICS: dict[str, Callable[[Row, int], tuple[float, float]]] = {
    "nats": lambda row, new: (float(row["nats"]), 1),  # type: ignore[arg-type]
    "bits": lambda row, new: (float(row["nats"]) / math.log(2), 1),  # type: ignore[arg-type]
    "entropy": lambda row, new: (float(row["entropy"]), 1),  # type: ignore[arg-type]
    "mrr": lambda row, new: (1 / int(row["rank"]), 1),  # type: ignore[call-overload]
    "top1": lambda row, new: (row["rank"] == 1, 1),
    "top5": lambda row, new: (int(row["rank"]) <= 5, 1),  # type: ignore[call-overload]
    "nats_per_token": lambda row, new: (float(row["nats"]), new),  # type: ignore[arg-type]
    "bits_per_byte": lambda row, new: (float(row["nats"]) / math.log(2), int(row["bytes"])),  # type: ignore[arg-type,call-overload]
}


def test_tables_equal_the_slow_version(study, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small batches, so that items lie across their borders and partial sums are added up.
    monkeypatch.setattr(group_means, "_BATCH_ROWS", 400)
    monkeypatch.setattr(group_means, "_PENDING_ROWS", 40)
    observations = random_observations(0)
    scores = study(options={"min_count": 1}).score(observations)
    ratios = scores.filter(
        (pl.col("task") == "") & (pl.col("ci_method").str.contains("^clustered jackknife|^Korn-Graubard"))
    )
    found = {(row["slice"], row["metric"]): row for row in ratios.iter_rows(named=True)}

    rows = observations.to_dicts()
    grouped: dict[str, list[tuple[Row, int]]] = defaultdict(list)
    apart: dict[str, list[int]] = defaultdict(list)
    for row, new, first in zip(rows, new_tokens(rows), begun_first(rows), strict=True):
        for name in slices_of(row):
            whole = name in ("all", "code", "layout")
            grouped[name].append((row, new if whole or not first else 0))
            if first and not whole:
                apart[name].append(len(grouped[name]) - 1)
    checked = 0
    for name, members in grouped.items():
        for metric, parts in METRICS.items():
            if (name, metric) not in found:
                continue
            told = [
                (row["cluster"], *parts(row, new))
                for at, (row, new) in enumerate(members)
                # What a token costs is that of all its pieces.
                if metric != "nats_per_token" or at not in apart[name]
            ]
            value, low, size = interval(told)
            row = found[name, metric]
            assert row["value"] == pytest.approx(value), (name, metric)
            assert row["n_clusters"] == size
            if row["ci_low"] is not None:
                assert row["ci_low"] <= row["value"] <= row["ci_high"], (name, metric)
            if row["ci_low"] is not None and row["ci_method"] == "clustered jackknife":
                assert row["ci_low"] == pytest.approx(max(low, 0.0)), (name, metric)
            checked += 1
    # Every slice is there, and nothing but ratios of slices, characters, names and confidences is left.
    assert {
        name for name, _ in found if "=" not in name or name.split("=")[0] not in ("name", "confidence")
    } == set(grouped)
    assert checked > 200


def test_names_equal_the_slow_version(study) -> None:
    observations = random_observations(2)
    scores = study(options={"min_count": 1}).score(observations)
    rows = observations.to_dicts()
    tokens: dict[tuple[object, object], list[tuple[Row, int]]] = defaultdict(list)
    for row, new, first in zip(rows, new_tokens(rows), begun_first(rows), strict=True):
        if row["token"] != -1 and not first:
            tokens[row["item_id"], row["token"]].append((row, new))
    totals: dict[object, list[float]] = defaultdict(list)
    for members in tokens.values():
        first, begins = members[0]
        if first["kind"] == "identifier" and begins and all(row["merged"] == 1 for row, _ in members):
            totals[first["word"]].append(sum(float(row["nats"]) for row, _ in members))  # type: ignore[arg-type]
    named = scores.filter(pl.col("slice").str.starts_with("name="))
    assert dict(named.select("slice", "value").iter_rows()) == {
        f"name={word}": pytest.approx(np.mean(values)) for word, values in totals.items()
    }


def test_calibration_equals_the_slow_version(study) -> None:
    observations = random_observations(3)
    scores = study().score(observations)
    rows = [(math.exp(-row["top_nats"][0]), row["rank"] == 1) for row in observations.to_dicts()]
    error = 0.0
    for index in range(10):
        held = [(p, hit) for p, hit in rows if index <= p * 10 < index + 1 or (index == 9 and p == 1)]
        confidence, accuracy = (np.mean([pair[side] for pair in held]) for side in (0, 1))
        where = f"confidence={index / 10:.4g}-{(index + 1) / 10:.4g}"
        assert study.value(scores, where, "accuracy") == pytest.approx(accuracy)
        assert study.value(scores, where, "confidence") == pytest.approx(confidence)
        error += len(held) / len(rows) * abs(accuracy - confidence)
    assert study.value(scores, "all", "ece", "equal_width") == pytest.approx(error)
    row = scores.filter((pl.col("metric") == "ece") & (pl.col("name") == "equal_mass")).row(0, named=True)
    assert 0 <= row["ci_low"] <= row["value"] <= row["ci_high"] <= 1
    assert row["ci_method"] == "clustered bootstrap, logit"
    assert row["k"] == 10


def test_frequency_equals_scipy_in_the_corpus_and_in_training(study) -> None:
    observations = random_observations(4)
    trained = pl.DataFrame(
        {"subword_id": list(range(10)), "count": [100 - 7 * (i % 5) - i for i in range(10)]}
    )
    least = int(
        observations.filter(pl.col("position") > 0)["subword_id"].value_counts()["count"].quantile(0.4)
    )  # type: ignore[arg-type]
    both = study(options={"min_count": least}).score(observations, frequencies=trained)
    scores = both.filter(pl.col("k").is_null())
    by_id = (
        observations.filter(pl.col("position") > 0)
        .group_by("subword_id")
        .agg(pl.col("nats").mean(), pl.len())
        .sort("subword_id")
    )
    expected = stats.spearmanr(by_id["nats"], by_id["len"]).statistic
    assert study.value(scores, "all", "spearman_frequency_corpus", "subword") == pytest.approx(expected)
    kept = by_id.filter(pl.col("len") >= least)
    assert 3 < kept.height < by_id.height
    often = both.filter(
        (pl.col("metric") == "spearman_frequency_corpus")
        & (pl.col("k") == least)
        & (pl.col("name") == "subword")
    ).row(0, named=True)
    assert often["value"] == pytest.approx(stats.spearmanr(kept["nats"], kept["len"]).statistic)
    assert often["n"] == kept.height
    seen = [*trained["count"].to_list(), 0, 0]
    expected = stats.spearmanr(by_id["nats"], seen).statistic
    assert study.value(scores, "all", "spearman_frequency_training", "subword") == pytest.approx(expected)
    assert study().score(observations).filter(pl.col("metric") == "spearman_frequency_training").is_empty()


def test_the_same_observations_give_the_same_scores_in_any_order_of_items(study) -> None:
    observations = random_observations(5)
    scores = study().score(observations)
    assert scores.equals(study().score(observations))
    items = observations.partition_by("item_id", maintain_order=True)
    assert scores.equals(study().score(*items[::-1]))


def test_scores_are_read_from_files_as_from_memory(study, tmp_path) -> None:
    observations = random_observations(6)
    for index, part in enumerate(observations.partition_by("cluster", maintain_order=True)):
        part.write_parquet(tmp_path / f"{index:02}.parquet")
    read = pl.scan_parquet(tmp_path / "*.parquet").collect()
    columns = ["slice", "metric", "name", "value", "ci_low"]
    a, b = (
        study().score(table).select(columns).sort("slice", "metric", "name") for table in (observations, read)
    )
    assert a.equals(b)


def test_the_study_filter_keeps_items_with_an_internal_call(study) -> None:
    quiet = pl.col("item_id").is_in([f"i{index}" for index in range(0, 40, 3)])
    rows = random_observations(5).with_columns(
        pl.when(quiet & (pl.col("origin") == "internal"))
        .then(pl.lit("external"))
        .otherwise("origin")
        .alias("origin")
    )
    calling = set(rows.filter(pl.col("origin") == "internal")["item_id"])
    assert 0 < len(calling) < rows["item_id"].n_unique()
    filtered = study(options={"min_count": 1, "with_internal_calls": True}).score(rows)
    expected = study(options={"min_count": 1}).score(rows.filter(pl.col("item_id").is_in(list(calling))))
    assert filtered.equals(expected)
