"""Python by hand: what each answer has to be, read off the text."""

from __future__ import annotations

import pytest

from sonde.languages import LANGUAGES, TOKEN_KINDS

PYTHON = LANGUAGES.load("python")


def tokens(text: str) -> list[tuple[str, str, str]]:
    found = PYTHON.tokens(PYTHON.parse(text))
    columns = (found.start.tolist(), found.end.tolist(), found.kind.tolist(), found.role)
    return [(text[a:b], TOKEN_KINDS[kind], role) for a, b, kind, role in zip(*columns, strict=True)]


def roles(text: str) -> list[tuple[str, str]]:
    return [(word, role) for word, kind, role in tokens(text) if kind == "identifier"]


def spans(text: str, label: str) -> list[str]:
    return [text[c.start : c.end] for c in PYTHON.constructs(PYTHON.parse(text)) if c.label == label]


def test_functions_with_no_enclosing_function_in_text_order() -> None:
    text = (
        "@a.b\n@c\ndef first():\n    def inner(): pass\n    class Local:\n        def hidden(self): pass\n"
        "class Été:\n    class Deep:\n        @p\n        async def go(self): return 1\n"
        "    if x:\n        def maybe(self): pass\n"
        "f = lambda: 0\n"
    )
    found = PYTHON.functions(text)
    assert [function.qualified_name for function in found] == ["first", "Été.Deep.go", "Été.maybe"]
    assert [function.name for function in found] == ["first", "go", "maybe"]
    assert text[found[0].start :].startswith("@a.b\n@c\ndef first")
    assert text[found[1].start : found[1].end] == "@p\n        async def go(self): return 1"


@pytest.mark.parametrize(
    ("body", "documentation"),
    [
        ('"""One."""', "One."),
        ('"""One.\n\n        Two\n          three.\n    """', "One.\n\nTwo\n  three."),
        ("'a' \"b\"", "ab"),
        (r'r"\d"', r"\d"),
        (r'"a\n\"q\""', r"a\n\"q\""),
        ('# c\n    "d"', "d"),
        ('b"no"', ""),
        ('f"no"', ""),
        ('pass\n    "no"', ""),
        ('"no" + x', ""),
        ('""', ""),
    ],
)
def test_docstrings(body: str, documentation: str) -> None:
    assert [f.docstring for f in PYTHON.functions(f"def f():\n    {body}\n")] == [documentation]


def test_definitions_and_their_names() -> None:
    text = "class A:\n  def m(self):\n    def n(): pass\n    class B: pass\ndef f(): pass\n"
    found = [(d.name, d.kind, text[d.start : d.end]) for d in PYTHON.definitions(text)]
    assert found == [
        ("A", "class", "A"),
        ("m", "method", "m"),
        ("n", "function", "n"),
        ("B", "class", "B"),
        ("f", "function", "f"),
    ]


def test_calls_by_name() -> None:
    text = "é.g(f(x), *h(1))(2)\na[0](3)\n[*k(1)]\ntype(x).a = sum(i for i in y)\n@d\n@e(1)\ndef z(): pass\n"
    found = [(c.name, c.is_method, text[c.arguments_start : c.arguments_end]) for c in PYTHON.calls(text)]
    assert found == [
        ("g", True, "(f(x), *h(1))"),
        ("f", False, "(x)"),
        ("h", False, "(1)"),
        ("k", False, "(1)"),
        ("type", False, "(x)"),
        ("sum", False, "(i for i in y)"),
        ("e", False, "(1)"),
    ]
    assert not any(call.in_error for call in PYTHON.calls(text))


def test_calls_in_errors_are_marked() -> None:
    found = {call.name: call.in_error for call in PYTHON.calls("f(1)\n) g(2) ] ]\n")}
    assert found["f"] is not found["g"]


def test_kinds_of_tokens() -> None:
    assert tokens("if not x in {1.5, None}: y += f(*a) # é") == [
        ("if", "keyword", ""),
        ("not", "keyword", ""),
        ("x", "identifier", "variable"),
        ("in", "keyword", ""),
        ("{", "punctuation", ""),
        ("1.5", "literal", "number"),
        (",", "punctuation", ""),
        ("None", "literal", "none"),
        ("}", "punctuation", ""),
        (":", "punctuation", ""),
        ("y", "identifier", "variable"),
        ("+=", "operator", ""),
        ("f", "identifier", "call"),
        ("(", "punctuation", ""),
        ("*", "operator", ""),
        ("a", "identifier", "variable"),
        (")", "punctuation", ""),
        ("# é", "comment", ""),
    ]


def test_strings_are_literals_but_for_what_they_interpolate() -> None:
    assert tokens("f'a\\n b{c!r:>{w}d}'") == [
        ("f'", "literal", "string"),
        ("a", "literal", "string"),
        ("\\n", "literal", "string"),
        (" b", "literal", "string"),
        ("{", "punctuation", ""),
        ("c", "identifier", "variable"),
        ("!r", "literal", "string"),
        (":", "punctuation", ""),
        (">", "literal", "string"),
        ("{", "punctuation", ""),
        ("w", "identifier", "variable"),
        ("}", "punctuation", ""),
        ("d", "literal", "string"),
        ("}", "punctuation", ""),
        ("'", "literal", "string"),
    ]


def test_held_text_points_at_the_node_that_holds_it() -> None:
    text = "'a\\n b'"
    tree = PYTHON.parse(text)
    found = PYTHON.tokens(tree)
    assert [tree.kind_name(row) for row in found.node.tolist()] == [
        "string_start",
        "string_content",
        "escape_sequence",
        "string_content",
        "string_end",
    ]


def test_line_joining_is_layout_and_stray_signs_are_errors() -> None:
    assert ("\\", "layout") in [(word.strip(), kind) for word, kind, _ in tokens("x = 1 \\\n + 2\n")]
    assert ("?", "error", "") in tokens("x = ? 1\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a.b as c", [("a", "module"), ("b", "module"), ("c", "module")]),
        ("from .a import b", [("a", "module"), ("b", "module")]),
        ("def f(a, b=c, *d, e: T = g, **h): 0", list(zip("fabcdeTgh", "fppvpptvp", strict=True))),
        ("class A(B, m=C): 0", [("A", "c"), ("B", "t"), ("m", "k"), ("C", "v")]),
        ("@d.e(x)\ndef f() -> A[b.C]: 0", list(zip("dexfAbC", "vDafttA", strict=True))),
        ("x.y.z(w, k=v)", list(zip("xyzwkv", "vACakv", strict=True))),
        ("lambda a, *b: a", list(zip("aba", "ppv", strict=True))),
        ("x: int = y", [("x", "v"), ("int", "t"), ("y", "v")]),
    ],
)
def test_roles_of_names(text: str, expected: list[tuple[str, str]]) -> None:
    short = {
        "f": "function",
        "c": "class",
        "p": "parameter",
        "v": "variable",
        "t": "type",
        "k": "keyword_argument",
        "a": "argument",
        "A": "attribute",
        "C": "call",
        "D": "decorator",
    }
    assert roles(text) == [(word, short.get(role, role)) for word, role in expected]


def test_constructs_of_control_flow() -> None:
    text = "for i in x:\n    if a < b: pass\n    elif c: pass\n    else: return 1\nwhile d: raise E\n"
    assert spans(text, "loop") == [text[: text.index("while")].rstrip(), "while d: raise E"]
    assert spans(text, "condition") == ["a < b", "c", "d"]
    assert [span.split()[0] for span in spans(text, "branch")] == ["if", "elif", "else:"]
    assert spans(text, "return") == ["return 1"]
    assert spans(text, "raise") == ["raise E"]
    assert spans(text, "operator_expression") == ["a < b"]


def test_constructs_of_definitions() -> None:
    text = '@d\ndef f(a: int):\n    "doc"\n    x = [y(i) for i in "s"]\n    assert x[0].b, {**z}\n'
    expected = {
        "annotation": ["@d"],
        "parameters": ["(a: int)"],
        "type": ["int"],
        "docstring": ['"doc"'],
        "string": ['"doc"', '"s"'],
        "assignment": ['x = [y(i) for i in "s"]'],
        "comprehension": ['[y(i) for i in "s"]'],
        "call": ["y(i)"],
        "arguments": ["(i)"],
        "subscript": ["x[0]"],
        "attribute_access": ["x[0].b"],
        "assertion": ["assert x[0].b, {**z}"],
        "number": ["0"],
        "error": [],
    }
    assert {label: spans(text, label) for label in expected} == expected


def test_builtins_are_a_fixed_list() -> None:
    assert {"print", "ValueError", "dict", "NotImplemented", "anext"} <= PYTHON.builtins
    assert not {"copyright", "__name__", "PythonFinalizationError"} & PYTHON.builtins
