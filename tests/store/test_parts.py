from pathlib import Path

import polars as pl
import pytest

from sonde.store.parts import PartStore

FRAME = pl.DataFrame({"a": [1, 2, 3]})


@pytest.fixture
def store(tmp_path: Path) -> PartStore:
    store = PartStore(tmp_path)
    store.put("folder/part.parquet", "key", FRAME, {"items": 3})
    return store


def test_a_part_is_found_by_its_key_alone(store: PartStore) -> None:
    assert store.notes("folder/part.parquet", "key") == {"items": 3}
    assert store.notes("folder/part.parquet", "other") is None
    assert store.notes("folder/absent.parquet", "key") is None
    assert pl.read_parquet(store.path("folder/part.parquet")).equals(FRAME)
    assert store.damaged == []


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "receipt"])
def test_damage_reads_as_absent_and_is_named(store: PartStore, damage: str) -> None:
    path = store.path("folder/part.parquet")
    content = path.read_bytes()
    if damage == "flip":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "remove":
        path.unlink()
    else:
        next(store.root.glob("receipts/**/*.json")).write_text("{")
    assert store.notes("folder/part.parquet", "key") is None
    assert store.damaged == ["folder/part.parquet"]
    store.put("folder/part.parquet", "key", FRAME, {})
    assert store.notes("folder/part.parquet", "key") == {}


def test_a_part_without_receipt_is_computed_again(store: PartStore) -> None:
    """The state that a kill between the two writes leaves behind."""
    next(store.root.glob("receipts/**/*.json")).unlink()
    assert store.notes("folder/part.parquet", "key") is None
    assert store.damaged == []


def test_stale_parts_go_with_their_receipts(store: PartStore) -> None:
    store.put("folder/kept.parquet", "key", FRAME, {})
    store.remove_unplanned_parts("folder", {"folder/kept.parquet"})
    assert [path.name for path in (store.root / "folder").iterdir()] == ["kept.parquet"]
    assert len(list(store.root.glob("receipts/**/*.json"))) == 1
