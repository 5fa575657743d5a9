"""Java by hand: what each answer has to be, read off the text."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import pytest

from sonde.base.fingerprint import unit_hash
from sonde.languages import LANGUAGES, TOKEN_KINDS

JAVA = LANGUAGES.load("java")


def tokens(text: str) -> list[tuple[str, str, str]]:
    found = JAVA.tokens(JAVA.parse(text))
    columns = (found.start.tolist(), found.end.tolist(), found.kind.tolist(), found.role)
    return [(text[a:b], TOKEN_KINDS[kind], role) for a, b, kind, role in zip(*columns, strict=True)]


def spans(text: str, label: str) -> list[str]:
    return [text[c.start : c.end] for c in JAVA.constructs(JAVA.parse(text)) if c.label == label]


def test_functions_with_no_enclosing_function_in_text_order() -> None:
    text = """class Été {
        /** No. */ /** Doc.
          * @param a it
          */
        // between
        @Override public void m(int a) { new Thread() { public void run() {} }; Runnable r = () -> {}; }
        Été() { class Local { void hidden() {} } }
        Object field = new Object() { public String toString() { return ""; } };
        Runnable r = () -> { new A() { void hidden() {} }; };
        abstract void declared();
        enum E { X { void x() {} }; void e() {} }
        record R(int a) { R { check(a); } }
        interface I { default void i() {} void j(); }
    }"""
    found = JAVA.functions(text)
    assert [function.qualified_name for function in found] == [
        "Été.m",
        "Été.Été",
        "Été.toString",
        "Été.E.X.x",
        "Été.E.e",
        "Été.R.R",
        "Été.I.i",
    ]
    assert text[found[0].start :].startswith("@Override public void m")
    assert found[0].docstring == "Doc.\n@param a it"
    assert [function.docstring for function in found[1:]] == [""] * 6


@pytest.mark.parametrize(
    ("comment", "documentation"),
    [
        ("/** One. */", "One."),
        ("/**\n * One.\n *\n *   Two <b>x</b>.\n **/", "One.\n\nTwo <b>x</b>."),
        ("/**\r\n * One.\r\n */", "One."),
        ("/**\n One.\n */", "One."),
        ("/* no */", ""),
        ("/**/", ""),
        ("// no\n", ""),
    ],
)
def test_javadoc(comment: str, documentation: str) -> None:
    assert [f.docstring for f in JAVA.functions(f"class A {{ {comment} void f() {{}} }}")] == [documentation]


def test_definitions() -> None:
    text = (
        "class A { void f() { class B { int g() { return 1; } } }"
        " A() {} abstract void h(); @interface N { int v(); } }"
    )
    assert [(d.name, d.kind) for d in JAVA.definitions(text)] == [
        ("A", "class"),
        ("f", "method"),
        ("B", "class"),
        ("g", "method"),
        ("A", "method"),
        ("h", "method"),
        ("N", "class"),
        ("v", "method"),
    ]


def test_calls_by_name() -> None:
    text = (
        "class A { void f() { é.g(h(x)); this.i(); new B<C>(1); new a.b.D(2); new p.E<F>(); super.k(); }"
        " A() { super(1); } }"
    )
    found = [(c.name, c.is_method, text[c.arguments_start : c.arguments_end]) for c in JAVA.calls(text)]
    assert found == [
        ("g", True, "(h(x))"),
        ("h", False, "(x)"),
        ("i", True, "()"),
        ("B", False, "(1)"),
        ("D", False, "(2)"),
        ("E", False, "()"),
        ("k", True, "()"),
    ]


def test_tokens_with_kind_and_role() -> None:
    text = "class A<T> { @N int f(B<?> b) { return b.c(d, \"é\\n x\", 'c') ? x.y : null; } }"
    assert tokens(text) == [
        ("class", "keyword", ""),
        ("A", "identifier", "class"),
        ("<", "punctuation", ""),
        ("T", "identifier", "class"),
        (">", "punctuation", ""),
        ("{", "punctuation", ""),
        ("@", "punctuation", ""),
        ("N", "identifier", "decorator"),
        ("int", "keyword", ""),
        ("f", "identifier", "function"),
        ("(", "punctuation", ""),
        ("B", "identifier", "type"),
        ("<", "punctuation", ""),
        ("?", "punctuation", ""),
        (">", "punctuation", ""),
        ("b", "identifier", "parameter"),
        (")", "punctuation", ""),
        ("{", "punctuation", ""),
        ("return", "keyword", ""),
        ("b", "identifier", "variable"),
        (".", "punctuation", ""),
        ("c", "identifier", "call"),
        ("(", "punctuation", ""),
        ("d", "identifier", "argument"),
        (",", "punctuation", ""),
        ('"', "literal", "string"),
        ("é", "literal", "string"),
        ("\\n", "literal", "string"),
        (" x", "literal", "string"),
        ('"', "literal", "string"),
        (",", "punctuation", ""),
        ("'c'", "literal", "character"),
        (")", "punctuation", ""),
        ("?", "operator", ""),
        ("x", "identifier", "variable"),
        (".", "punctuation", ""),
        ("y", "identifier", "attribute"),
        (":", "operator", ""),
        ("null", "literal", "none"),
        (";", "punctuation", ""),
        ("}", "punctuation", ""),
        ("}", "punctuation", ""),
    ]


def test_constructs() -> None:
    text = (
        "import a.B;\n/** d */ class A { @N int[] f(int x) {"
        " for (int i = 0; i < x; i++) { if (p(i)) { throw e; } else { a[0] = b.c; } }"
        " try { assert q; } catch (E e) { }"
        ' switch (x) { case 1: break; default: } return g -> "s"; } }'
    )
    expected = {
        "import": ["import a.B;"],
        "docstring": ["/** d */"],
        "comment": ["/** d */"],
        "annotation": ["@N"],
        "parameters": ["(int x)"],
        "loop": [text[text.index("for") : text.index(" try")]],
        "condition": ["i < x", "(p(i))"],
        "operator_expression": ["i < x"],
        "call": ["p(i)"],
        "arguments": ["(i)"],
        "raise": ["throw e;"],
        "subscript": ["a[0]"],
        "attribute_access": ["b.c"],
        "assignment": ["i = 0", "i++", "a[0] = b.c"],
        "exception_handling": ["try { assert q; } catch (E e) { }", "catch (E e) { }"],
        "assertion": ["assert q;"],
        "jump": ["break;"],
        "return": ['return g -> "s";'],
        "lambda": ['g -> "s"'],
        "string": ['"s"'],
        "number": ["0", "0", "1"],
        "error": [],
    }
    assert {label: spans(text, label) for label in expected} == expected


def test_builtins_are_the_types_of_java_lang() -> None:
    assert {"String", "Math", "System", "Override", "StringBuffer"} <= JAVA.builtins
    assert not {"List", "println", "int"} & JAVA.builtins


SOURCES = [
    path
    for pattern in ("/usr/lib/jvm/*/lib/src.zip", "/opt/*/lib/src.zip")
    for path in sorted(Path("/").glob(pattern.removeprefix("/")))
]


@pytest.mark.skipif(not SOURCES, reason="no Java development kit with its sources here")
def test_the_development_kit_parses_and_keeps_every_promise(check) -> None:
    with zipfile.ZipFile(SOURCES[0]) as archive:
        names = sorted((n for n in archive.namelist() if n.endswith(".java")), key=unit_hash)[:30]
        texts = [archive.read(name).decode("utf-8") for name in names]
    for name, text in zip(names, texts, strict=True):
        if len(text) > 100_000:
            continue
        tree = JAVA.parse(text)
        assert not tree.has_error, name
        check(JAVA, text)
        kinds = Counter(TOKEN_KINDS[kind] for kind in JAVA.tokens(tree).kind.tolist())
        assert kinds["error"] == kinds["layout"] == 0, name
