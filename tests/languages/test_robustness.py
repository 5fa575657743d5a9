"""Any text at all: no crash, and every promise about positions kept."""

from __future__ import annotations

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sonde.languages import LANGUAGES

NAMES = LANGUAGES.names()
CAREFUL = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

SCRAPS = [
    "\n", "\r\n", "\r", "\t", "\f", "\u000b", "\0", "\ufeff", "\u200b", "\u2028", "\u00a0",
    "\ud800", "é", "ｗ", "🎉", "\\", "\\\n", "\"", "'", "\"\"\"", "(", ")", "{", "}", "[", "]", ":",
    ";", ",", "#", "//", "/*", "*/", "/**", "@", "f'{", "\\N{", "def f():\n ", "class A:\n ",
    "if x:\n  ", "lambda", "return", "type(x).a = 1\n", "print >>f, x\n", "`", "$", "?", "€",
    "class A {", "void f() {", "new X() {", "->", "case 1:", "    ", " ", "x", "1e5", "0x", "f(x)",
    "a.b(", "*", "=", "...",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@CAREFUL
@given(text=st.text(st.characters(exclude_categories=())))
def test_any_text(name: str, text: str, check) -> None:
    check(LANGUAGES.load(name), text)


@pytest.mark.parametrize("name", NAMES)
@CAREFUL
@given(scraps=st.lists(st.sampled_from(SCRAPS), max_size=40))
def test_scraps_of_code(name: str, scraps: list[str], check) -> None:
    check(LANGUAGES.load(name), "".join(scraps))


@pytest.mark.parametrize("name", NAMES)
@CAREFUL
@given(data=st.data())
def test_mutated_code(name: str, data: st.DataObject, samples, check) -> None:
    text = samples[name]
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        text = text[:start] + data.draw(st.sampled_from(["", *SCRAPS])) + text[end:]
    check(LANGUAGES.load(name), text)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_other_newlines(name: str, newline: str, samples, check) -> None:
    text = samples[name].replace("\n", newline)
    check(LANGUAGES.load(name), text)
    check(LANGUAGES.load(name), "\ufeff" + text)
    check(LANGUAGES.load(name), text.rstrip())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_megabyte_on_one_line(name: str) -> None:
    statement, tail = "é = f(x) + y; ", "s + '" + "é " * 400_000 + "'"
    text = statement * 16_384 + tail
    language = LANGUAGES.load(name)
    tree = language.parse(text)
    tokens = language.tokens(tree)
    assert len(tokens) > 9 * 16_384
    assert int(tokens.end[-1]) == len(text)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pair", ["()", "{}"])
def test_deep_nesting(name: str, pair: str) -> None:
    depth = 50_000
    text = "x = " + pair[0] * depth + pair[1] * depth
    language = LANGUAGES.load(name)
    tree = language.parse(text)
    assert len(language.tokens(tree)) == 2 * depth + 2
    language.constructs(tree), language.functions(text), language.definitions(text), language.calls(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("link", ["a.b.", "f(x) ", "1 + "])
def test_a_chain_of_a_hundred_thousand_links_takes_no_time_worth_naming(name: str, link: str) -> None:
    # Left-recursive rules make a chain as deep as it is long; without a bound this is minutes.
    language = LANGUAGES.load(name)
    text = link * 100_000 + "x"
    language.tokens(language.parse(text)), language.functions(text), language.calls(text)


def test_threads_have_parsers_of_their_own(samples) -> None:
    language = LANGUAGES.load("python")
    texts = [samples["python"] + f"x{index} = {index}\n" for index in range(50)]
    expected = [language.parse(text).kind.tolist() for text in texts]
    found: dict[int, list[list[int]]] = {}

    def work(worker: int) -> None:
        found[worker] = [language.parse(text).kind.tolist() for text in texts]

    workers = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(found[index] == expected for index in range(4))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scrap", ["(", "{", "$ "])
def test_a_wide_error_takes_no_time_worth_naming(name: str, scrap: str, check) -> None:
    # A query over the children of one ERROR node is quadratic: without care this is minutes.
    check(LANGUAGES.load(name), "f(x)\n" + scrap * 20_000)


def test_a_function_whose_name_the_grammar_had_to_put_in_is_none(check) -> None:
    text = "@void f() { class A { int g() { return 1; } } }\n"
    java = LANGUAGES.load("java")
    check(java, text)
    assert java.functions(text) == ()
    assert [definition.name for definition in java.definitions(text)] == ["A", "g"]


@pytest.mark.parametrize(
    ("name", "text", "called"),
    [
        ("python", "x = a.(b)\nf(x)\n", ["f"]),
        ("java", "class A { void f() { super.(x); g(x); } }\n", ["g"]),
    ],
)
def test_a_call_whose_name_the_grammar_had_to_put_in_is_none(name, text, called, check) -> None:
    language = LANGUAGES.load(name)
    check(language, text)
    assert [call.name for call in language.calls(text)] == called
