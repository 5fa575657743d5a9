"""Units of two models joined, and the places at which they differ most, against plain loops over the rows."""

from __future__ import annotations

import math
import random

import polars as pl
import pytest

from sonde.results.units import PLACES_PER_ITEM, compare_units, select_changed_places

Cost = tuple[float, str, float | None]


def units(rows: dict[tuple[str, int], Cost]) -> pl.DataFrame:
    """Units of three characters each, the last one of an item without any."""
    return pl.DataFrame(
        [
            {
                "item_id": item,
                "unit": unit,
                "start": 4 * unit,
                "end": 4 * unit + 3 * (part != "rest"),
                "nats": nats,
                "part": "exact" if part == "rest" else part,
                "piece_nats": pieces,
            }
            for (item, unit), (nats, part, pieces) in rows.items()
        ]
    )


def test_costs_are_compared_if_both_models_have_them() -> None:
    base = {
        ("a", 0): (1.0, "first", None),
        ("a", 1): (2.0, "exact", 2.5),
        ("a", 2): (3.0, "mixed", None),
        ("a", 3): (4.0, "exact", None),
        ("a", 4): (5.0, "rest", None),
        ("b", 1): (1.0, "exact", 1.0),
    }
    other = {
        key: (2 * nats, "exact" if part == "mixed" else part, 9.0) for key, (nats, part, _) in base.items()
    }
    rows = compare_units(units(base), units(other)).rows(named=True)
    # What begins a text, what one model cannot divide, and what follows the last code token are left out.
    assert [(row["item_id"], row["position"], row["start"], row["end"]) for row in rows] == [
        ("a", 1, 4, 7),
        ("a", 3, 12, 15),
        ("b", 1, 4, 7),
    ]
    assert [row["base_bits"] for row in rows] == pytest.approx(
        [nats / math.log(2) for nats in (2.0, 4.0, 1.0)]
    )
    assert [row["bits"] for row in rows] == pytest.approx([nats / math.log(2) for nats in (4.0, 8.0, 2.0)])


def test_without_logits_the_costs_are_those_of_subwords() -> None:
    base = {("a", 1): (2.0, "exact", 2.5), ("a", 2): (3.0, "exact", None)}
    other = {("a", 1): (7.0, "mixed", 6.0), ("a", 2): (3.0, "mixed", 1.0)}
    (row,) = compare_units(units(base), units(other)).rows(named=True)
    assert row["position"] == 1
    assert (row["base_bits"], row["bits"]) == pytest.approx((2.5 / math.log(2), 6.0 / math.log(2)))


@pytest.mark.parametrize("seed", range(5))
def test_an_item_has_at_most_two_places_in_either_direction(seed: int) -> None:
    draw = random.Random(seed)
    rows = [
        {"item_id": f"i{draw.randrange(6)}", "position": place, "difference": float(draw.randrange(-3, 4))}
        for place in range(60)
    ]
    rows.append({"item_id": "i0", "position": 60, "difference": math.nan})
    found = select_changed_places(pl.LazyFrame(rows)).collect()
    wanted: set[tuple[str, int]] = set()
    for item in {row["item_id"] for row in rows}:
        for sign in (1, -1):
            mine = [row for row in rows if row["item_id"] == item and row["difference"] * sign > 0]
            mine.sort(key=lambda row: (-abs(row["difference"]), row["position"]))
            wanted |= {(item, row["position"]) for row in mine[:PLACES_PER_ITEM]}
    assert found.height == len(wanted)
    assert set(found.select("item_id", "position").rows()) == wanted
