"""Which characters of an item probes ask for, against a loop over the examples."""

from __future__ import annotations

import polars as pl
import pytest
from tests.lenses.conftest import item_of, prepared_of, words_of

from sonde.lenses.probe.data import collect_item_spans, collect_requested_spans

CHARACTERS = 40
TEXT = "def f(a, b, c):\n    return g(a) + b * c"
SCHEMA = {
    "item_id": pl.String, "start": pl.Int32, "end": pl.Int32, "other_start": pl.Int32, "other_end": pl.Int32,
    "characters": pl.Int32,
}  # fmt: skip
ROWS: list[tuple[str, int, int, int | None, int | None]] = [
    ("second", 7, 9, None, None),
    ("first", 0, CHARACTERS, None, None),
    ("first", 3, 5, None, None),
    ("first", 1, 2, None, None),
    ("second", 1, 2, 7, 9),
    ("third", 0, CHARACTERS, None, None),
    ("second", 7, 9, None, None),
    ("fourth", 0, CHARACTERS, 3, 4),
]
LABELS = pl.DataFrame([(*row, CHARACTERS) for row in ROWS], schema=SCHEMA, orient="row")


def by_loop() -> dict[str, tuple[bool, tuple[tuple[int, int], ...]]]:
    found: dict[str, tuple[bool, set[tuple[int, int]]]] = {}
    for item, start, end, other_start, other_end in ROWS:
        is_whole, spans = found.get(item, (False, set()))
        if (start, end) == (0, CHARACTERS) and other_start is None:
            is_whole = True
        else:
            spans = {*spans, (start, end)}
            if other_start is not None and other_end is not None:
                spans = {*spans, (other_start, other_end)}
        found[item] = is_whole, spans
    return {item: (is_whole, tuple(sorted(spans))) for item, (is_whole, spans) in found.items()}


def test_spans_are_those_of_a_loop() -> None:
    assert collect_item_spans(LABELS) == by_loop()


@pytest.mark.parametrize("structural", [0.0, 1.0])
def test_some_items_ask_for_what_they_ask_for_among_all(structural: float) -> None:
    items = [
        prepared_of(item_of(TEXT, item_id=name), words_of(TEXT))
        for name in ("first", "second", "third", "fifth")
    ]
    labels = {"task": LABELS.filter(pl.col("start") == 0), "other": LABELS.filter(pl.col("start") > 0)}
    whole = collect_requested_spans(items, labels, structural)
    for count in (1, 2):
        some = collect_requested_spans(items[:count], labels, structural)
        assert {item: whole[item] for item in some} == some
        assert set(some) == {item.item.item_id for item in items[:count]}
    if structural:
        tokens = {*zip(items[3].tokens.start.tolist(), items[3].tokens.end.tolist(), strict=True)}
        assert set(whole["fifth"][1]) == tokens
        assert set(whole["first"][1]) == tokens | set(by_loop()["first"][1])
    else:
        assert "fifth" not in whole
