"""Classes of tokens by hand."""

from __future__ import annotations

import itertools
import keyword
import token

import pytest

from sonde.base.registry import load_published_object
from sonde.corpora import Item
from sonde.languages import get_facet
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.tagging import AST_CLASSES, IDN_CLASSES, KTX_CLASSES, TaggedToken, Tagger
from sonde.tasks.engine.task import GROUP

JAVA = """\
@Override public <T> void run(int a, java.util.List<T> b) throws E {
    this.a = b.isEmpty() ? -a : a - 1;
    if (o instanceof Foo && a <= MAX) { list.a.go(Math.abs(~a << 2)); }
    for (X x : xs) synchronized (x) { java.util.Objects.hash(new Foo(null, 'c')); }
}
"""

PYTHON = """\
async def run(self, n: int = 3, *rest):
    import json.decoder as jd
    x = os.path.join(n, sep=-1) if not n in rest else np.zeros(int(n))
    await jd.go(x.os, Foo.bar(~n))
    raise Error("no") from x
"""


def words(text: str, tags: tuple[TaggedToken, ...]) -> list[tuple[str, str]]:
    return [(text[start:end], label) for start, end, label in tags]


def facet(language: str) -> Tagger:
    return get_facet(language, "tagging", Tagger)


def test_keywords_of_java_by_their_place() -> None:
    found = [pair for pair in words(JAVA, facet("java").keywords(JAVA)) if pair[1] != "SYM"]
    assert found == [
        *(("public", "KMD"), ("int", "KPT"), ("throws", "KEH"), ("=", "OAS"), ("?", "OUT"), ("-", "OUT")),
        *((":", "OUT"), ("-", "OAR"), ("if", "KFC"), ("instanceof", "ORE"), ("&&", "OLB"), ("<=", "ORE")),
        *(("~", "OUT"), ("<<", "OLB"), ("for", "KFC"), ("synchronized", "KFC")),
    ]


def released(task: str, text: str) -> tuple[TaggedToken, ...]:
    """The tokens of a Java text as INSPECT published their classes."""
    item = Item("i", text, "java", "function", "A.java", "f", 0, "c", "r")
    return load_published_object(GROUP, task).tags(item, "")


def test_keywords_of_the_released_file_by_their_text() -> None:
    found = dict(words(JAVA, released("ktx", JAVA)))
    expected = {"instanceof": "KFC", "new": "KMD", "synchronized": "KMD", ":": "OUT", "-": "OAR", "<": "ORE"}
    assert {text: found[text] for text in expected} == expected
    assert "this" not in found and "<<" not in found


@pytest.mark.parametrize("text", ["catch", "?", "}", "|=", "boolean", "throws", "--"])
def test_a_token_alone_has_its_released_class(text: str) -> None:
    classes = {
        "catch": "KEH",
        "?": "OUT",
        "}": "SYM",
        "|=": "OAS",
        "boolean": "KPT",
        "throws": "KEH",
        "--": "OUT",
    }
    assert words(text, released("ktx", text)) == [(text, classes[text])]


def test_keywords_of_python() -> None:
    found = [pair for pair in words(PYTHON, facet("python").keywords(PYTHON)) if pair[1] != "SYM"]
    assert found == [
        *(("async", "KMD"), ("def", "KMD"), ("int", "KPT"), ("=", "OAS"), ("-", "OUT"), ("if", "KFC")),
        *(("not", "OUT"), ("in", "ORE"), ("else", "KFC"), ("int", "KPT"), ("await", "OUT"), ("~", "OUT")),
        ("raise", "KEH"),
    ]


def test_every_keyword_and_sign_of_python_is_in_the_tables() -> None:
    tables = facet("python")
    left_out = {"True", "False", "None", "import", "from", "as"}
    assert set(keyword.kwlist) - left_out <= set(tables.classes)
    assert set(token.EXACT_TOKEN_TYPES) - {"...", "!"} <= set(tables.classes)


def test_identifiers_of_java() -> None:
    found = words(JAVA, facet("java").identifiers(JAVA, "import java.io.File;"))
    assert found == [
        *(("Override", "IDC"), ("T", "IDC"), ("run", "IDM"), ("a", "IDV"), ("java", "IDP"), ("util", "IDP")),
        *(("List", "IDC"), ("T", "IDC"), ("b", "IDV"), ("E", "IDC"), ("a", "IDV"), ("b", "IDV")),
        *(("isEmpty", "IDM"), ("a", "IDV"), ("a", "IDV"), ("o", "IDV"), ("Foo", "IDC"), ("a", "IDV")),
        *(("MAX", "IDV"), ("list", "IDV"), ("a", "IDV"), ("go", "IDM"), ("Math", "IDC"), ("abs", "IDM")),
        *(("a", "IDV"), ("X", "IDC"), ("x", "IDV"), ("xs", "IDV"), ("x", "IDV"), ("java", "IDP")),
        *(("util", "IDP"), ("Objects", "IDC"), ("hash", "IDM"), ("Foo", "IDC")),
    ]
    # Without the file's imports nothing tells that `java` is no variable.
    assert ("java", "IDV") in words(JAVA, facet("java").identifiers(JAVA))


def test_a_variable_named_like_a_package_is_a_variable() -> None:
    text = "void f(A java) { java.go(); }"
    assert ("java", "IDP") not in words(text, facet("java").identifiers(text, "import java.io.File;"))


def test_identifiers_of_python() -> None:
    found = words(PYTHON, facet("python").identifiers(PYTHON, "import os.path\nimport numpy as np"))
    assert found == [
        *(("run", "IDM"), ("self", "IDV"), ("n", "IDV"), ("int", "IDC"), ("rest", "IDV"), ("json", "IDP")),
        *(("decoder", "IDP"), ("jd", "IDP"), ("x", "IDV"), ("os", "IDP"), ("path", "IDP"), ("join", "IDM")),
        *(("n", "IDV"), ("sep", "IDV"), ("n", "IDV"), ("rest", "IDV"), ("np", "IDP"), ("zeros", "IDM")),
        *(("int", "IDC"), ("n", "IDV"), ("jd", "IDP"), ("go", "IDM"), ("x", "IDV"), ("os", "IDV")),
        *(("Foo", "IDC"), ("bar", "IDM"), ("n", "IDV"), ("Error", "IDC"), ("x", "IDV")),
    ]


def test_imports_are_packages() -> None:
    text = "package a.b;\nimport c.d.Foo;\nimport static e.Bar.baz;\nclass X { }\n"
    assert facet("java").imports(text) == "import c.d.Foo;\nimport static e.Bar.baz;"
    assert words(text, facet("java").identifiers(text)) == [
        *(
            ("a", "IDP"),
            ("b", "IDP"),
            ("c", "IDP"),
            ("d", "IDP"),
            ("Foo", "IDC"),
            ("e", "IDP"),
            ("Bar", "IDC"),
        ),
        ("X", "IDC"),
    ]
    text = "from a.b import Foo, bar\nimport c as d, e.f\ndef g(): import h\n"
    assert facet("python").imports(text) == "from a.b import Foo, bar\nimport c as d, e.f\nimport h"
    assert [pair for pair in words(text, facet("python").identifiers(text)) if pair[1] != "IDM"] == [
        *(("a", "IDP"), ("b", "IDP"), ("Foo", "IDC"), ("c", "IDP"), ("d", "IDP"), ("e", "IDP"), ("f", "IDP")),
        ("h", "IDP"),
    ]


def test_in_the_released_labels_a_package_leads_a_dotted_expression() -> None:
    text = "void f() { System.out.println(a.b); c(); }"
    found = words(text, released("idn", text))
    assert [word for word, label in found if label == "IDP"] == ["System", "a"]


def test_nodes_have_keywords_names_and_literals() -> None:
    text = "class A extends B { int f() { return new C(this, null, \"d\", 1) == true ? 'e' : 2.0; } }"
    found = [pair for pair in words(text, facet("java").nodes(text)) if pair[1] != "SYM"]
    assert found == [
        *(("class", "KMD"), ("A", "IDC"), ("extends", "KMD"), ("B", "IDC"), ("int", "KPT"), ("f", "IDM")),
        *(("return", "KFC"), ("new", "KOB"), ("C", "IDC"), ("this", "KOB"), ("null", "KOT"), ('"d"', "STR")),
        *(
            ("1", "NUM"),
            ("==", "ORE"),
            ("true", "KOT"),
            ("?", "OUT"),
            ("'e'", "STR"),
            (":", "OUT"),
            ("2.0", "NUM"),
        ),
    ]
    assert "KMD" not in dict(words("x = A.class;", facet("java").nodes("x = A.class;"))).values()
    text = "def f(self): return super().g(None, ...) or import_ + 'x'\nfrom a import b as c\n"
    found = dict(words(text, facet("python").nodes(text)))
    expected = {
        "def": "KMD",
        "self": "KOB",
        "super": "KOB",
        "None": "KOT",
        "...": "KOT",
        "'x'": "STR",
    }
    assert {word: found[word] for word in expected} == expected


@pytest.mark.parametrize("language", ["python", "java"])
def test_every_class_can_occur(language: str) -> None:
    tables = facet(language)
    reachable = {*tables.classes.values(), *tables.words.values()}
    reachable |= {label for under in tables.parent_overrides.values() for label in under.values() if label}
    assert reachable == set(KTX_CLASSES)
    assert reachable | set(tables.extra_classes.values()) | set(IDN_CLASSES) == set(AST_CLASSES)


LABELS_OF_JUMPS = {
    "java": "void f() { outer: for (;;) { if (a) break outer; continue outer; } }",
    "go": "func f() {\nouter:\n\tfor {\n\t\tif a { break outer }\n\t\tcontinue outer\n\t}\n\tgoto outer\n}\n",
    "javascript": "function f() { outer: for (;;) { if (a) break outer; continue outer; } }",
    "php": "function f() { outer: if ($a) { goto outer; } }",
}


@pytest.mark.parametrize("language", LABELS_OF_JUMPS)
def test_labels_of_jumps_name_nothing(language: str) -> None:
    text = LABELS_OF_JUMPS[language]
    for tags in (facet(language).identifiers(text), facet(language).nodes(text)):
        found = dict(words(text, tags))
        assert (
            "outer" not in found
            and found["f"] == "IDM"
            and found["$a" if language == "php" else "a"] == "IDV"
        )


TAKES = {
    "python": "def f(NAME): return NAME\n",
    "java": "int f(int NAME) { return NAME; }",
    "go": "func f(NAME int) int { return NAME }",
    "javascript": "function f(NAME) { return NAME }",
    "php": "function f($a) { return $a->NAME; }",
    "ruby": "def f(NAME)\n  NAME\nend",
}
"""A function with a name, which may be spelt as a grammar's kind of literals is: `string`, `number`."""


@pytest.mark.parametrize("language", TAKES)
def test_a_name_spelt_as_a_kind_is_no_literal(language: str) -> None:
    tables = facet(language)
    names = get_facet(language, "tokens", Metrics).identifiers
    tried = 0
    for word in tables.extra_classes.keys() - tables.extra_words.keys() - tables.words.keys():
        text = TAKES[language].replace("NAME", word)
        if word.isidentifier() and names(text).count(word) == TAKES[language].count("NAME"):
            tried += 1
            found = {label for name, label in words(text, facet(language).nodes(text)) if name == word}
            assert found == {"IDV"}, text
    assert tried >= 1


@pytest.mark.parametrize("language", TAKES)
def test_no_kind_of_leaf_is_in_two_lists(language: str) -> None:
    rules = facet(language).rules  # type: ignore[attr-defined]
    lists = (rules.keywords, rules.identifiers, rules.operators, rules.comments, rules.layout, rules.literals)
    for one, other in itertools.combinations(lists, 2):
        assert not set(one) & set(other)


MISTAKEN = [
    ("php", "function f() { return new self('a', null, 1.5) ?? new static() ?? new parent(); }", 1, 8),
    ("php", "function f(?parent $a): static { return $a instanceof self || $a->self; }", 5, 6),
    ("go", "func f(x any) { switch x.(type) { case nil: g() } }", 5, 4),
    ("ruby", "def f\n  a[__FILE__]\n  g __FILE__, __LINE__\nend", 3, 5),
]
"""Texts with words that a grammar takes for names, the number of names and of reserved words in them."""


@pytest.mark.parametrize(("language", "text", "names", "reserved"), MISTAKEN)
def test_a_reserved_word_is_none_of_the_names(language: str, text: str, names: int, reserved: int) -> None:
    tokens = get_facet(language, "tokens", Metrics)
    assert len(tokens.identifiers(text)) == names and tokens.keywords(text) == reserved
    assert len(facet(language).identifiers(text)) == names


def test_a_method_of_ruby_with_a_capital_is_a_method() -> None:
    text = "def CSV(a) = URI(a)\ndef Digest\nend\n"
    found = dict(words(text, facet("ruby").identifiers(text)))
    assert found == {"CSV": "IDM", "a": "IDV", "URI": "IDM", "Digest": "IDM"}


def test_constraints_of_go_operate_on_nothing() -> None:
    tokens = get_facet("go", "tokens", Metrics)
    assert tokens.operators("func f[T int | ~string](a T) T { return a | b }") == ("|",)
    assert ("|", "SYM") in words(GENERIC, facet("go").keywords(GENERIC))


GENERIC = "func f[T int | string](a T) { }"
