"""Items that may be chosen: what is held of them is what they are."""

from sonde.corpora import Given, Item, Tag
from sonde.corpora.engine.candidates import CandidateItem

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


def test_items_come_back_as_they_were() -> None:
    added = [CandidateItem.from_item(item) for item in ITEMS]
    assert [one.item() for one in added] == ITEMS
    assert [one.text for one in added] == [item.text for item in ITEMS]
    added[1].cluster = "other"
    assert added[1].item().cluster == "other"
