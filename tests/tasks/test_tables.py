"""Labels of items in their order, whatever of them is held meanwhile."""

import pytest

from sonde.corpora import Item, SourceFile
from sonde.tasks import LabelRequest, label_items, repositories
from sonde.tasks.engine import spans

FILES = [
    SourceFile(
        f"{place}",
        f"def f{place}():\n    f{place % 7}()\n",
        "python",
        repository="ab"[place % 2],
        cluster="c",
    )
    for place in range(11)
]
ITEMS = [
    Item(file.path, file.text, "python", "file", file.path, "", 0, file.cluster, file.repository)
    for file in FILES
]


@pytest.mark.parametrize("window", [1, 4, 11, 100])
def test_labels_that_ask_for_repositories(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "_WINDOW", window)
    asked = LabelRequest("call_origin", 0, "corrected", frozenset(), repositories(FILES))
    found = [(item, table["label"].to_list()) for item, table in label_items(asked, ITEMS)]
    assert [item for item, _ in found] == ITEMS
    for place, (_, labels) in enumerate(found):
        origin = "local" if place == place % 7 else "internal" if (place - place % 7) % 2 == 0 else "external"
        assert labels == [origin, origin], place
