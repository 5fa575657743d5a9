from sonde.corpora import Item, Tag
from sonde.experiments.tables import items_frame, items_from


def test_items_come_back_as_they_were() -> None:
    item = Item(
        item_id="id",
        text="é = '\U0001f600'\r\n",
        language="python",
        unit="function",
        path="a/b.py",
        name="n",
        offset=3,
        cluster="c",
        repository="r",
        licence="MIT",
        context="",
        docstring="d",
        identifier="mine",
        tags=(Tag(0, 1, "NOUN"),),
    )
    frame = items_frame([("stdlib", [item])])
    assert items_from(frame) == [item]
    assert frame["characters"].item() == len(item.text)
    assert frame["bytes"].item() == len(item.text.encode())


def test_no_items_is_a_table_too() -> None:
    assert items_from(items_frame([])) == []
