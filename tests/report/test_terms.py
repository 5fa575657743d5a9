"""The glossary on the page: the first mention of a term says on hover what it means."""

from sonde.report.theme import mark_terms
from sonde.results.text_format import load_glossary


def test_the_first_mention_of_a_term_is_marked_and_text_is_escaped() -> None:
    shown = str(mark_terms("Chance < a control; controls, a Control task & chance"))
    chance, control, task = (load_glossary()[term] for term in ("chance", "control", "control task"))
    assert shown == (
        f'<abbr title="{chance}">Chance</abbr> &lt; a <abbr title="{control}">control</abbr>; controls, '
        f'a <abbr title="{task}">Control task</abbr> &amp; chance'
    )


def test_a_part_of_a_word_is_no_term_and_every_term_says_something() -> None:
    assert str(mark_terms("unverdictable lenses")).startswith("unverdictable <abbr")
    assert list(load_glossary()) == sorted(load_glossary(), key=str.lower)
    assert all(meaning and not meaning.endswith(".") for meaning in load_glossary().values())
