"""Items that may be chosen: what is written down of them is what they are."""

import errno
from contextlib import closing
from pathlib import Path

import pytest

from sonde.base.errors import StoreError
from sonde.corpora import Given, Item, Tag
from sonde.corpora.engine import candidates
from sonde.corpora.engine.candidates import TextFile

ITEMS = [
    Item(
        "a", "def f():\n    return '\ud800 \u2028 ç'\n", "python", "function", path="a.py", name="f", offset=7
    ),
    Item(
        "b",
        "x = 1",
        "python",
        "file",
        cluster="one",
        repository="r",
        licence="MIT",
        context="before",
        docstring="What\nit does.",
        identifier="7",
        tags=(Tag(0, 1, "N"),),
        given=(Given("len", "3", 0, 5, value=3.5, group="g"),),
        cuts=(2, 4),
        split="train",
        oldest="2020-01-01",
        newest="2021-01-01",
        period="before",
    ),
    Item("c", "", "java", "file"),
]


@pytest.mark.parametrize("in_memory", [1, 1_000_000])
def test_items_come_back_as_they_were(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_IN_MEMORY", in_memory)
    with closing(TextFile()) as texts:
        added = [texts.add(item) for item in ITEMS]
        assert [one.item() for one in reversed(added)] == ITEMS[::-1]
        assert [one.text for one in added] == [item.text for item in ITEMS]
        added[1].cluster = "other"
        assert added[1].item().cluster == "other"
        # What is written after something was read stands behind all that was written.
        assert texts.add(ITEMS[0]).item() == ITEMS[0] and added[2].item() == ITEMS[2]


def test_a_full_disk_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with closing(TextFile()) as texts:
        monkeypatch.setattr(texts._handle, "write", full, raising=False)
        with pytest.raises(StoreError, match=r"No space left on device; free space there, or name .* TMPDIR"):
            texts.add(ITEMS[0])
