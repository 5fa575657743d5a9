"""What every language owes, whichever are installed."""

from __future__ import annotations

import pickle

import pytest

from sonde.languages import LANGUAGES, Language


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


@pytest.mark.parametrize("name", ["java", "python"])
def test_the_sample_parses_cleanly(name: str, samples) -> None:
    assert not LANGUAGES.load(name).parse(samples[name]).has_error
