"""How often interventions call a property used that is not, and miss what was planted.

On real code labels by coin, and thirds of the functions by length, say nothing that the bundled decoder could
use: a *used* is false. In models that were trained on strings of which is known what decides them, a property
of tokens and one of whole strings are used, one is only encoded, and one costs much under something as wide.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sonde
from sonde.capture import prepare
from sonde.capture.requests import Prepared
from sonde.corpora import Selection, select
from sonde.lenses.causal.findings import collect_erasures
from sonde.models import LoadedModel
from sonde.results.scores import scores_to_frame
from tests.calibration import Row, at_least, at_most_by_chance
from tests.lenses.planted import (
    HELD,
    ORDER,
    USED,
    Kind,
    first_letters_of,
    labels_of,
    orders_of,
    planted,
    run_lens,
    some_items,
)

DRAWS, SHORT = 20, 1

_FUNCTIONS, _LONGEST, _MEASURED = 150, 900, 60
"""Functions of the standard library, their characters at most, and those that costs are measured on."""

_STRINGS: dict[Kind, int] = {"halves": 160, "orders": 400, "rivals": 280}
_NAMED = 0.9
"""Share of the draws in which what was planted is named rightly."""

Labels = dict[str, pl.DataFrame]


def run(draws: int, seed: int) -> list[Row]:
    """False verdicts on real code, then what was planted."""
    rows = [
        Row(f"{name}: used", draws, kinds["used"], at_most_by_chance(draws))
        for name, kinds in _on_code(draws, seed)
    ]
    planned: list[tuple[Kind, Callable[[list[Prepared]], Labels], dict[str, str]]] = [
        ("halves", labels_of, {USED: "used", HELD: "held"}),
        ("orders", orders_of, {ORDER: "used"}),
        ("rivals", first_letters_of, {USED: "between"}),
    ]
    if not at_least(_NAMED, draws).least:
        # Of one draw nothing is asked, and the tests of the lens find what is planted.
        return rows
    for kind, labels, wanted in planned:
        found = [_planted(kind, labels, seed + at) for at in range(draws)]
        for task, right in wanted.items():
            count = sum(one.get(task) == right for one in found)
            rows.append(Row(f"planted, {kind}: {task} is {right}", draws, count, at_least(_NAMED, draws)))
    return rows


def _planted(kind: Kind, labels: Callable[[list[Prepared]], Labels], seed: int) -> dict[str, str]:
    items = some_items(_STRINGS[kind], kind, seed)
    return _kinds(planted(kind), items, labels(items), {"methods": ("erase",)}, seed)


def _on_code(draws: int, seed: int) -> list[tuple[str, Counter[str]]]:
    """What is said of labels that say nothing, in the bundled decoder."""
    loaded = sonde.load_model("sonde/mini-decoder")
    some = select("stdlib", Selection(limit=3 * _FUNCTIONS, languages=("python",))).items
    prepared = prepare(loaded, [one for one in some if len(one.text) <= _LONGEST][:_FUNCTIONS])
    options = {"methods": ("erase",), "items": _MEASURED}
    found: list[tuple[str, Counter[str]]] = []
    for name, labels in (("coins", _coins), ("thirds of the length", _thirds)):
        kinds = [
            _kinds(loaded, prepared, labels(prepared, seed + at), options, seed + at).get(ORDER, "")
            for at in range(draws)
        ]
        found.append((name, Counter(kinds)))
    return found


def _kinds(
    loaded: LoadedModel, items: Sequence[Prepared], labels: Labels, options: Mapping[str, Any], seed: int
) -> dict[str, str]:
    """What is said of each property; those that were left out are not there."""
    with tempfile.TemporaryDirectory() as folder:
        ran = run_lens(loaded, [*items], labels, options, Path(folder), seed)
    return {
        one.task: one.kind for _, _, held in collect_erasures(scores_to_frame(ran.scores)) for one in held
    }


def _coins(items: Sequence[Prepared], seed: int) -> Labels:
    return _of_functions(items, np.random.default_rng(seed).integers(0, 2, len(items)))


def _thirds(items: Sequence[Prepared], seed: int) -> Labels:
    """Thirds by length, with a little noise that makes draws differ."""
    noise = np.random.default_rng(seed).normal(0, 0.1, len(items))
    length = np.log([len(one.item.text) for one in items]) + noise
    return _of_functions(items, np.argsort(np.argsort(length)) * 3 // len(items))


def _of_functions(items: Sequence[Prepared], classes: np.ndarray) -> Labels:
    rows = [(one.item.item_id, str(number)) for one, number in zip(items, classes.tolist(), strict=True)]
    return {ORDER: pl.DataFrame(rows, schema={"item_id": pl.String, "label": pl.String}, orient="row")}
