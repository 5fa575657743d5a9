"""The lens's words follow whatever the labels were made with: quirks, ablations, and the source's own."""

from __future__ import annotations

import polars as pl
import pytest

from sonde.corpora import Item
from sonde.lenses import LensSettings
from sonde.lenses.attention.observe import read_item
from sonde.tasks.engine.task import TASKS, resolve_task

JAVA = '''int f(int a) {
    String s = """
        two words
        """;
    while (a > 0) { a = g(a); }
    return a + 1;
}
'''
PYTHON = "def f(a):\n    if a:\n        b = g(a)\n        return b\n    return a.c\n"


def item(text: str, language: str) -> Item:
    bare = dict.fromkeys(("path", "name", "repository"), "")
    return Item(
        **bare, item_id=language, text=text, language=language, unit="function", offset=0, cluster=""
    )  # fmt: skip


def labelled(one: Item, settings: LensSettings) -> pl.DataFrame:
    task = resolve_task(TASKS.load("syntax_relations"), settings.mode, settings.quirks)
    return task.label([one], {})[one.item_id]


@pytest.mark.parametrize("mode", ["corrected", "paper"])
@pytest.mark.parametrize(
    ("text", "language", "quirk"),
    [
        (JAVA, "java", "codesyntax.javalang_strings"),
        (JAVA, "java", "codesyntax.no_semicolons"),
        (JAVA, "java", "codesyntax.glued"),
        (PYTHON, "python", "codesyntax.newlines"),
        (PYTHON, "python", "codesyntax.layout_ends"),
    ],
)
def test_the_words_of_edges_stand_where_the_labels_say(
    text: str, language: str, quirk: str, mode: str
) -> None:
    settings = LensSettings(mode=mode, quirks=frozenset([quirk]))
    one = item(text, language)
    rows = labelled(one, settings)
    words, edges = read_item(one, rows, settings)
    assert len(edges) > 3
    assert words.start[edges.head].tolist() == rows["start"].to_list()
    assert words.end[edges.head].tolist() == rows["end"].to_list()
    assert words.start[edges.first].tolist() == rows["other_start"].to_list()
    assert words.end[edges.last].tolist() == rows["other_end"].to_list()


def test_a_quirk_of_the_words_moves_the_edges_behind_it() -> None:
    one, quirk = item(JAVA, "java"), frozenset(["codesyntax.javalang_strings"])
    plain, other = (
        read_item(one, labelled(one, settings), settings)[0]
        for settings in (LensSettings(), LensSettings(quirks=quirk))
    )
    # A text block is one word, or three as javalang reads it.
    assert len(other) == len(plain) + 2


@pytest.mark.parametrize(
    ("text", "language", "quirk", "word", "masked"),
    [
        (JAVA, "java", None, ";", False),
        (JAVA, "java", "codesyntax.no_semicolons", ";", True),
        (PYTHON, "python", None, "\n", True),
        (PYTHON, "python", "codesyntax.newlines", "\n", False),
    ],
)
def test_what_no_dependent_ends_in_is_masked_and_nothing_else(
    text: str, language: str, quirk: str | None, word: str, masked: bool
) -> None:
    quirks = frozenset([quirk]) if quirk else frozenset[str]()
    settings = LensSettings(quirks=quirks, options={"mask_delimiters": True})
    one = item(text, language)
    words, edges = read_item(one, labelled(one, settings), settings)
    candidate = {
        bool(held) for held, surface in zip(words.candidate, words.surface, strict=True) if surface == word
    }
    assert candidate == {not masked}
    ends = {words.surface[last] for last in edges.last.tolist()}
    assert (word in ends) == (not masked)
    # Without the mask every word that is not empty competes.
    free = LensSettings(quirks=quirks)
    words, _ = read_item(one, labelled(one, free), free)
    assert words.candidate.tolist() == [surface != "" for surface in words.surface]
