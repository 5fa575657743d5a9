"""Labels of a run: what a lens does not ask for is not read."""

from pathlib import Path

import polars as pl
import pytest

from sonde.experiments import datasets
from sonde.experiments.datasets import LabelTables
from sonde.experiments.plan import Group
from sonde.store.parts import PartStore
from sonde.store.run_folder import label_path


def test_labels_are_read_when_they_are_asked_for_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = Group(corpus="local:a", corpus_hash="", language="python", items=())
    store = PartStore(tmp_path)
    table = pl.DataFrame({"item_id": ["a"], "label": ["x"]})
    store.put(label_path("len", group.prefix), "key", table, {})
    asked: list[str] = []
    real = datasets.read_labels
    monkeypatch.setattr(datasets, "read_labels", lambda *given: asked.append(given[1]) or real(*given))
    held = LabelTables(store, ("len", "absent"), group)
    assert list(held) == ["len", "absent"] and "len" in held and not asked
    assert held["len"].equals(table) and held["len"] is held["len"]
    assert asked == ["len"]
    with pytest.raises(KeyError):
        held["other"]
