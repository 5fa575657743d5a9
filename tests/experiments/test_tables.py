from pathlib import Path

from sonde.corpora import Item, Tag
from sonde.lenses.engine.item_tables import frame_to_items, items_to_frame, read_inputs
from sonde.store.run_folder import RunDirectory


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
    frame = items_to_frame([("stdlib", [item])])
    assert frame_to_items(frame) == [item]
    assert frame["characters"].item() == len(item.text)
    assert frame["bytes"].item() == len(item.text.encode())


def test_no_items_is_a_table_too() -> None:
    assert frame_to_items(items_to_frame([])) == []


def test_some_inputs_are_read_in_the_order_asked_for(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)

    def item(number: int, language: str = "python") -> Item:
        return Item(f"i{number}", f"text {number}", language, "function")

    here = [item(number) for number in range(9)]
    # Of two corpora that hold one item, and of two languages, only what was asked for.
    items_to_frame([("a", here), ("b", here), ("a", [item(3, "java")])]).write_parquet(
        run.items, row_group_size=2
    )
    items_to_frame([("a", [item(10)])]).write_parquet(run.inputs)
    for corpus in ("a", "b"):
        assert read_inputs(run, corpus, "python", ["i7", "i2", "i3"]) == [here[7], here[2], here[3]]
    assert read_inputs(run, "a", "python", ["i10", "i0"]) == [item(10), here[0]]
    assert read_inputs(run, "a", "java", ["i3"]) == [item(3, "java")]
    assert read_inputs(run, "c", "python", ["i3"]) == read_inputs(run, "a", "python", []) == []
