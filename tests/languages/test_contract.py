"""What every language owes, whichever are installed."""

from __future__ import annotations

import pickle

import pytest

from sonde.languages import CONSTRUCT_LABELS, LANGUAGES, TOKEN_ROLES, Language, has_facet
from sonde.languages.engine.treesitter import TreeSitterLanguage


@pytest.mark.parametrize("name", LANGUAGES.names())
def test_a_language_keeps_the_protocol(name: str, samples, check) -> None:
    language = LANGUAGES.load(name)
    assert isinstance(language, Language)
    assert language.name == name
    assert language.version
    assert language.suffixes and all(suffix.startswith(".") for suffix in language.suffixes)
    for text in ("", " \n", *samples.values()):
        check(language, text)


@pytest.mark.parametrize("name", LANGUAGES.names())
def test_a_language_survives_the_way_to_another_process(name: str) -> None:
    language = LANGUAGES.load(name)
    language.parse("x")
    assert pickle.loads(pickle.dumps(language)).parse("x").text == "x"


def test_every_header_has_a_summary_and_suffixes_belong_to_one_language() -> None:
    assert all(header.summary for header in LANGUAGES.headers())
    suffixes = [suffix for name in LANGUAGES.names() for suffix in LANGUAGES.load(name).suffixes]
    assert len(suffixes) == len(set(suffixes))


@pytest.mark.parametrize("name", [name for name in LANGUAGES.names() if has_facet(name, "tokens")])
def test_the_sample_parses_cleanly(name: str, samples) -> None:
    assert not LANGUAGES.load(name).parse(samples[name]).has_error


@pytest.mark.parametrize("name", LANGUAGES.names())
def test_queries_use_the_labels_and_roles_that_all_languages_share(name: str) -> None:
    language = LANGUAGES.load(name)
    if not isinstance(language, TreeSitterLanguage):
        assert name == "text"
        return
    for file, known in (("constructs", CONSTRUCT_LABELS), ("identifiers", TOKEN_ROLES)):
        query = language.grammar.query(file)
        used = {
            query.capture_name(index).removeprefix("within.").removeprefix("unbound.")
            for index in range(query.capture_count)
        }
        assert used <= set(known)
    assert set(language.settings.tokens.literals.values()) <= set(TOKEN_ROLES)


@pytest.mark.parametrize("name", [name for name in LANGUAGES.names() if has_facet(name, "tokens")])
def test_every_leaf_that_a_grammar_spells_with_letters_has_a_kind(name: str) -> None:
    language = LANGUAGES.load(name)
    assert isinstance(language, TreeSitterLanguage)
    grammar, rules = language.grammar.language, language.settings.tokens
    spelled = {
        grammar.node_kind_for_id(number) or ""
        for number in range(grammar.node_kind_count)
        if grammar.node_kind_is_visible(number) and not grammar.node_kind_is_named(number)
    }
    known = rules.keywords | rules.identifiers | rules.literals.keys() | {"is not", "not in"}
    assert {word for word in spelled if word[:1].isalpha()} <= known
