from collections.abc import Mapping

import pytest

from sonde.base.errors import UsageError
from sonde.corpora import Given, Item, item_id
from sonde.languages.engine.relations import RelationOptions
from sonde.tasks.engine.task import TASKS, resolve_task
from sonde.tasks.syntax.syntax_relations import relation_rows, relation_words

CODE = "def f(x):\n    if x:\n        y = g(x)\n"


def item(text: str, language: str = "python", given: tuple[Given, ...] = ()) -> Item:
    return Item(
        item_id=item_id(text, language, "function"),
        text=text,
        language=language,
        unit="function",
        path="a",
        name="f",
        offset=0,
        cluster="c",
        repository="r",
        given=given,
    )


def written(text: str, row: Mapping[str, int | str]) -> tuple[str, str, str]:
    head = text[int(row["start"]) : int(row["end"])]
    return str(row["label"]), head, text[int(row["other_start"]) : int(row["other_end"])]


def test_rows_stand_on_characters_and_on_words() -> None:
    one = item(CODE)
    rows = TASKS.load("syntax_relations").label([one], {})[one.item_id]
    found = {written(CODE, row) for row in rows.iter_rows(named=True)}
    assert {
        ("If:if->test", "if", "x"),
        ("If:if->body", "if", "y = g(x"),
        ("If:test->body", "x", "y = g(x"),
        ("Assign:target->value", "y", "g(x"),
        ("Call:func->args", "g", "x"),
    } == {edge for edge in found if not edge[0].startswith("children")}
    words = relation_words(one)
    for row in rows.iter_rows(named=True):
        assert words.start[row["head_word"]] == row["start"]
        assert words.end[row["head_word"]] == row["end"]
        assert words.start[row["dep_first"]] == row["other_start"]
        assert words.end[row["dep_last"]] == row["other_end"]


def test_the_newline_ablation_can_be_named_with_the_quirks() -> None:
    one = item(CODE)
    task = TASKS.load("syntax_relations")
    plain = task.label([one], {})[one.item_id]
    longer = resolve_task(task, "corrected", {"codesyntax.newlines"}).label([one], {})[one.item_id]
    ends = {
        CODE[row["other_end"] - 1] for row in longer.iter_rows(named=True) if row["label"] == "If:if->body"
    }
    assert ends == {"\n"}
    assert set(longer["newlines"]) == {True}
    assert set(plain["newlines"]) == {False}


@pytest.mark.parametrize(
    "text", ["def f(:\n", "if\n" * 3, "(" * 5000, "\x00", "x = '", "   ", "def f():\n\tif x:\n  y\n"]
)
@pytest.mark.parametrize("mode", ["corrected", "paper"])
def test_what_does_not_parse_is_one_row_without_a_label(text: str, mode: str) -> None:
    rows = relation_rows(item(text), RelationOptions(mode=mode))
    if text.strip():
        assert rows.select("start", "end", "label").rows() == [(0, len(text), None)]


def test_a_language_without_relations_says_so_in_one_line() -> None:
    with pytest.raises(UsageError, match="no relations") as caught:
        relation_rows(item("Dogs bark.", "text"))
    assert "\n" not in str(caught.value)


def test_relations_that_the_source_brings_are_taken_as_they_are() -> None:
    given = (
        Given("syntax_relations", "nsubj", 5, 9, 0, 4),
        Given("syntax_relations", "punct", 5, 9, 9, 10),
        Given("other_task", "x", 0, 1),
    )
    sentence = item("Dogs bark.", "text", given)
    rows = relation_rows(sentence)
    assert rows.select("label", "head_word", "dep_first", "dep_last").rows() == [
        ("nsubj", 1, 0, 0),
        ("punct", 1, 2, 2),
    ]
    assert relation_words(sentence).surface == ("Dogs", "bark", ".")
