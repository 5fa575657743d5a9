"""The item table of the attention lens and what is counted from it, against loops over its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sonde.lenses.attention import predictors
from sonde.lenses.attention.observe import METRICS, OBSERVATIONS, PICKS, build_table
from sonde.lenses.attention.predictors import (
    TOP,
    collect_hits,
    follow_heads,
    predict_chance,
    predict_longest,
)

LAYERS, HEADS = 2, 3
SPLITS = {f"item-{number}": "test" if number % 3 else "valid" for number in range(9)}
CLUSTERS = {item: f"cluster-{number // 2}" for number, item in enumerate(SPLITS)}
LISTS = ("offset_first", "offset_last", "keyword_first", "keyword_last", "keyword_any", "keyword_any_edge")


def make_rows() -> list[dict[str, Any]]:
    """Rows of nine items in two relations on two sides, and one item that was dropped."""
    rng = np.random.default_rng(7)
    rows: list[dict[str, Any]] = []
    for item in SPLITS:
        for side in ("encoder", "cross"):
            for relation in ("call", "if"):
                edges, hits = int(rng.integers(1, 5)), int(rng.integers(0, 3))
                row = {"item_id": item, "language": "python", "relation": relation, "side": side}
                row |= {"split": "", "dropped": "", "backwards": False, "sinks": None}
                row |= {"edges": edges, "layers": LAYERS, "heads": HEADS}
                for name, shape in (("ranks", (3, LAYERS, HEADS)), ("blind", (3, 1 + PICKS))):
                    row[name] = rng.integers(1, 30, (edges, *shape)).astype(np.uint8).tobytes()
                row |= {name: rng.integers(-5, 6, edges) for name in ("offset_first", "offset_last")}
                row |= {name: rng.integers(-1, 4, edges) for name in ("keyword_first", "keyword_last")}
                row["keyword_any_edge"] = rng.integers(0, edges, hits)
                row["keyword_any"] = rng.integers(0, 4, hits)
                rows.append(row)
    rows.append({"item_id": "item-9", "side": "", "relation": "", "edges": 4, "dropped": "does not parse"})
    return rows


def test_a_table_holds_its_rows() -> None:
    rows = make_rows()
    table = build_table(rows)
    assert dict(table.schema) == dict(OBSERVATIONS)
    expected = [
        {name: np.asarray(value).tolist() if name in LISTS else value for name, value in row.items()}
        for row in rows
    ]
    assert table.to_dicts() == [{name: row.get(name) for name in OBSERVATIONS} for row in expected]


def test_a_table_of_nothing_and_one_of_dropped_items_have_all_columns() -> None:
    assert build_table([]).is_empty()
    assert dict(build_table([]).schema) == dict(OBSERVATIONS)
    dropped = build_table(make_rows()[-1:])
    assert dict(dropped.schema) == dict(OBSERVATIONS)
    assert dropped["offset_first"].to_list() == [None]


@pytest.mark.parametrize("batch_rows", [3, 1000])
def test_hits_equal_loops_over_rows_however_many_are_read_at_once(
    batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictors, "_BATCH_ROWS", batch_rows)
    rows = make_rows()
    table = build_table(rows)
    found = collect_hits(table.lazy(), SPLITS, CLUSTERS)
    heads = {key: np.full((1, 3, TOP), 4) for key in found}
    followed = follow_heads(table.lazy(), SPLITS, heads)
    assert set(found) == {(side, name) for side in ("encoder", "cross") for name in ("call", "if")}
    for (side, name), relation in found.items():
        mine = [row for row in rows if (row["side"], row["relation"]) == (side, name)]
        for column in ("offset_first", "offset_last"):
            np.testing.assert_array_equal(
                getattr(relation, column), np.concatenate([row[column] for row in mine])
            )
        tested = [SPLITS[row["item_id"]] == "test" for row in mine]
        assert relation.test.tolist() == tested
        assert relation.edges.tolist() == [row["edges"] for row in mine]
        ranks = [
            np.frombuffer(row["ranks"], np.uint8).reshape(-1, 3, LAYERS * HEADS).astype(int) for row in mine
        ]
        for split, wanted in enumerate((False, True)):
            chosen = np.concatenate(
                [one for one, is_test in zip(ranks, tested, strict=True) if is_test == wanted]
            )
            for metric in range(3):
                for k in range(1, TOP + 1):
                    count = [int((chosen[:, metric, head] <= k).sum()) for head in range(LAYERS * HEADS)]
                    assert relation.hits[split, metric, k - 1].tolist() == count
        chosen = np.concatenate([one for one, is_test in zip(ranks, tested, strict=True) if is_test])
        expected = chosen[:, :, 4, None] <= np.arange(1, TOP + 1)
        np.testing.assert_array_equal(followed[side, name][:, 0], expected)
        starts = np.cumsum([0, *(row["edges"] for row in mine)])
        pairs = [
            (start + edge, keyword)
            for start, row in zip(starts.tolist(), mine, strict=False)
            for edge, keyword in zip(
                row["keyword_any_edge"].tolist(), row["keyword_any"].tolist(), strict=True
            )
        ]
        anywhere = relation.keywords[METRICS.index("any_hit")]
        assert list(zip(anywhere.edge.tolist(), anywhere.predictor.tolist(), strict=True)) == pairs


def test_orders_hit_as_often_as_their_ranks_say() -> None:
    rows = make_rows()
    relation = collect_hits(build_table(rows).lazy(), SPLITS, CLUSTERS)["encoder", "if"]
    chance, longest = predict_chance(relation), predict_longest(relation)
    scored = relation.blind[relation.test[relation.row]].astype(int)
    for k in range(1, TOP + 1):
        np.testing.assert_array_equal(longest.edges[:, :, k - 1], scored[:, :, 0] <= k)
        np.testing.assert_array_equal(
            chance.edges[:, :, k - 1], (scored[:, :, 1:] <= k).mean(2, dtype=np.float32)
        )
    unscored = relation.blind[~relation.test[relation.row]].astype(int)
    expected = [(unscored[:, :, 1:] <= k).mean(2).sum(0) for k in range(1, TOP + 1)]
    np.testing.assert_allclose(chance.fitted, np.stack(expected, axis=1))
