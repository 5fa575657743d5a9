"""Metrics of hand-made functions, each figure worked out on paper."""

from __future__ import annotations

import pytest

from sonde.base.registry import load_published_object
from sonde.languages import get_facet
from sonde.languages.engine.metrics import ExecutionPaths, Metrics
from sonde.papers.inspect.labels import list_operator_signs
from sonde.tasks.engine.task import GROUP


def paths(language: str, text: str) -> int:
    return get_facet(language, "npath", ExecutionPaths).count(text)


def value(task: str, text: str, language: str = "java") -> float:
    """The number of a task as INSPECT published it."""
    return load_published_object(GROUP, task).value(text, language)


# Java: text, complexity, NPath as checkstyle counts, decisions and NPath of the released labels.
JAVA = [
    ("void f() { }", 1, 1, 0, 1),
    # if: 1 (then) + 1 (no else) = 2; two in a row: 4.
    ("void f() { if (a) b(); if (c) d(); }", 3, 4, 2, 4),
    # Each operator of a condition is one more path: 1 + 1 + 2.
    ("void f() { if (a && b || c) d(); }", 4, 4, 3, 4),
    # if: 1 + else: (if: 1 + 1) = 3.
    ("void f() { if (a) b(); else if (c) d(); else e(); }", 3, 3, 2, 3),
    ("void f() { while (a) { if (b) c(); } }", 3, 3, 2, 3),
    ("void f() { for (int i = 0; i < 3 && a; i++) b(); for (X x : xs) c(); }", 4, 6, 3, 6),
    ("void f() { do { a(); } while (b || c); }", 3, 3, 2, 3),
    # Three labels and the default, which leads into the last group; labels of one group add up.
    ("void f() { switch (x) { case 1: a(); break; case 2: case 3: b(); break; default: c(); } }", 4, 4, 3, 4),
    ("void f() { switch (x) { case 1: a(); break; case 2: b(); } }", 3, 3, 2, 3),
    ("int f() { return switch (x) { case 1, 2 -> 3; default -> 4; }; }", 2, 4, 1, 2),
    # checkstyle: a return counts as a path even where it has none to choose from, so try makes it two.
    ("int f() { try { return 1; } catch (E e) { throw e; } }", 2, 3, 1, 2),
    ("void f() { try { a(); } catch (E e) { b(); } catch (F e) { c(); } finally { d(); } }", 3, 3, 2, 3),
    # (body 2 + catch 1) * finally 2 as released; checkstyle: (2 + 1) * 2 + 1.
    ("void f() { try { if (a) b(); } catch (E e) { } finally { if (c) d(); } }", 4, 7, 3, 6),
    # ?: is 2 and as much as the operators in it.
    ("void f() { x = a ? b : c; }", 2, 2, 1, 2),
    ("void f() { x = a && b ? c : d ? e : g; }", 4, 5, 3, 4),
    ("boolean f() { return a && b && c; }", 3, 2, 2, 1),
    # In a condition ?: is two operators for checkstyle; the released labels leave it out.
    ("void f() { if (a ? b : c) d(); }", 3, 4, 2, 2),
    # A lambda belongs to the method, a class inside does not.
    ("void f() { g(() -> { if (a) b(); }); }", 2, 2, 1, 2),
    ("void f() { g(new R() { void h() { if (a) b(); } }); }", 1, 1, 1, 2),
    # checkstyle sees 2 here: it forgets the first if, and takes the method inside for the end of this one.
    ("void f() { if (a) b(); g(new R() { void h() { } }); if (c) d(); }", 3, 4, 2, 4),
    # Bodies of do loops are no different from others: 1 + 1 and (?:) 2 in it.
    ("void f() { do { x = a ? b : c; } while (d); }", 3, 3, 2, 3),
    ("Foo(int a) { if (a > 0) b(); }", 2, 2, 1, 2),
    ("int f(int a);", 1, 1, 0, 1),
]


@pytest.fixture
def java() -> Metrics:
    return get_facet("java", "metrics", Metrics)


@pytest.fixture
def python() -> Metrics:
    return get_facet("python", "metrics", Metrics)


@pytest.mark.parametrize(("text", "complexity", "npath", "decisions", "released"), JAVA)
def test_paths_of_java(
    java: Metrics, text: str, complexity: int, npath: int, decisions: int, released: int
) -> None:
    assert java.complexity(text) == complexity
    assert paths("java", text) == npath
    assert value("cpx", text) == decisions
    assert value("npt", text) == released


PYTHON = [
    ("def f(): pass", 1, 1),
    ("def f():\n    if a: b\n    if c: d\n", 3, 4),
    ("def f():\n    if a and b or c: d\n", 4, 4),
    ("def f():\n    if a: b\n    elif c and d: e\n    else: g\n", 4, 4),
    ("def f():\n    while a:\n        if b: c\n", 3, 3),
    # A loop with an else: body 1 + else 2.
    ("def f():\n    for a in b: c\n    else:\n        if d: e\n", 4, 3),
    ("def f():\n    for a in b or c: d\n", 3, 3),
    # match: 1 + 2 (guard) and the one that nothing took; then with a case that takes everything.
    ("def f():\n    match a:\n        case 1: b\n        case c.d if e and g: h\n", 4, 4),
    ("def f():\n    match a:\n        case 1: b\n        case _: c\n", 2, 2),
    ("def f():\n    match a:\n        case b,: c\n        case d: e\n", 2, 2),
    # (body 2 * else 1 + 1 + 1) * finally 2.
    (
        "def f():\n    try:\n        if a: b\n    except E: c\n    except F: d\n    else: e\n"
        "    finally:\n        if g: h\n",
        6,
        8,
    ),
    ("def f():\n    with a:\n        if b: c\n", 2, 2),
    ("def f():\n    x = a if b and c else d\n", 3, 3),
    ("def f():\n    return a and b and c\n", 3, 2),
    ("def f():\n    if (a if b else c): d\n", 3, 4),
    # Comprehensions branch but are one expression; functions inside are not this one.
    ("def f():\n    return [a for b in c if d if e]\n", 4, 1),
    ("def f():\n    def g():\n        if a: b\n    return lambda: c or d\n", 2, 1),
    ("def f(a=b or c):\n    assert d and e\n", 2, 1),
]


@pytest.mark.parametrize(("text", "complexity", "npath"), PYTHON)
def test_paths_of_python(python: Metrics, text: str, complexity: int, npath: int) -> None:
    assert python.complexity(text) == complexity
    assert paths("python", text) == npath
    assert value("cpx", text, "python") >= complexity - 1


# Text, deepest block, deepest brace.
NESTING = [
    ("void f() { }", 1, 1),
    ("void f() { if (a) b(); }", 2, 1),
    ("void f() { if (a) { b(); } else if (c) { d(); } else { e(); } }", 2, 2),
    ("void f() { for (;;) while (a) b(); }", 3, 1),
    ("void f() { int[] a = { { 1 } }; }", 1, 3),
    ("void f() { switch (a) { case 1: { b(); } } }", 3, 3),
    ("void f() { g(new R() { void h() { } }); }", 3, 3),
    ("void f() { try { a(); } finally { b('{'); c(\"{\"); } }", 2, 2),
]


@pytest.mark.parametrize(("text", "blocks", "braces"), NESTING)
def test_nesting_of_java(java: Metrics, text: str, blocks: int, braces: int) -> None:
    assert java.nesting_depth(text) == blocks
    assert value("mxn", text) == braces


def test_operators_of_java_operate_and_the_released_ones_stand_anywhere(java: Metrics) -> None:
    text = (
        "void f() { Map<B, ? extends T> m = a instanceof B ? -c : c; for (X x : xs) x += 1; g(y -> y > 1); }"
    )
    assert java.operators(text) == ("=", "instanceof", "?:", "-", "+=", "->", ">")
    assert list_operator_signs(text, "java") == ("<", "?", ">", "=", "?", "-", ":", ":", "+=", "->", ">")


def test_operators_of_python_are_signs_and_words_that_operate(python: Metrics) -> None:
    text = (
        "def f(a=1, *b, c: d = 2) -> e:\n  x = a not in b and not c is not d\n  g(*b, k=-x) if x else y @ z"
    )
    assert python.operators(text) == ("=", "not in", "and", "not", "is not", "-", "if else", "@")


def test_structures_are_counted_by_kind(java: Metrics, python: Metrics) -> None:
    text = "void f() { if (a) b(); else if (c) d(); do e(); while (g); try (R r = h()) { switch (x) { } } }"
    assert java.count_structures(text) == {"if": 2, "loop": 1, "switch": 1, "try": 1}
    text = "if a: b\nelif c: d\nfor e in g: h\nwith i: j\nmatch k:\n    case 1: l\n"
    assert python.count_structures(text) == {"if": 2, "loop": 1, "switch": 1, "try": 0}


def test_tokens_are_a_lexers(java: Metrics, python: Metrics) -> None:
    text = "int f() { /* no */ return \"a \\n b\" + 'c'; } // no"
    assert [leaf.text for leaf in java.leaves(text)] == [
        *("int", "f", "(", ")", "{", "return", '"a \\n b"', "+", "'c'", ";", "}")
    ]
    text = "def f():\n    # no\n    return a \\\n        + f'{b!r:>{c}}' 'd'\n"
    leaves = python.leaves(text)
    assert [leaf.text for leaf in leaves] == [
        *("def", "f", "(", ")", ":", "return", "a", "+", "f'{b!r:>{c}}'", "'d'")
    ]
    assert all(text[leaf.start : leaf.end] == leaf.text for leaf in leaves)


@pytest.mark.parametrize("text", ["Foo(String é) { this.é = é; }", "Foo { if (é > 0) é = 1; }"])
def test_what_is_no_file_keeps_its_own_characters(java: Metrics, text: str) -> None:
    assert all(text[leaf.start : leaf.end] == leaf.text for leaf in java.leaves(text))
    assert "".join(leaf.text for leaf in java.leaves(text)) == text.replace(" ", "")


def test_text_that_does_not_parse_loses_no_token(java: Metrics) -> None:
    text = "void f ( ) { if ( ( a ; } \\ # }"
    assert "".join(leaf.text for leaf in java.leaves(text)) == text.replace(" ", "")
    assert java.complexity(text) >= 1


def test_deep_code_does_not_end_the_stack(java: Metrics, python: Metrics) -> None:
    depth = 3000
    text = (
        "void f() { x = " + "(" * depth + "a && b" + ")" * depth + "; " + "if (a) { " * 500 + "}" * 500 + " }"
    )
    assert java.complexity(text) == 502
    assert paths("java", text) == 501
    assert java.nesting_depth(text) == 501
    assert java.depth(text) > depth
    text = "def f():\n    return " + " + ".join(["a"] * depth) + "\n"
    assert paths("python", text) == 1
    assert python.depth(text) > depth


def test_depth_counts_named_nodes_on_the_longest_way_down(python: Metrics) -> None:
    # function_definition > block > expression_statement > assignment > binary_operator > identifier
    assert python.depth("def f():\n    x = a + b\n") == 6
    assert python.depth("def f():\n    x = a + b\n    pass\n") == 6
    assert python.depth("@d\ndef f(): pass\n") == 3


PATTERNS = [
    ("java", "void f() { for (;;) { while (a) { if (b) c(); } } f(); }", (1, 1, 0, 1)),
    ("java", "int f() { if (a) return 1; this.f(); other.f(); return 2; }", (0, 0, 1, 1)),
    (
        "python",
        "def f():\n    for a in b:\n        while c: d\n    if e: return 1\n    return f(self.f)\n",
        (1, 0, 1, 1),
    ),
    (
        "python",
        "def f(self):\n    for a in b:\n        if c: pass\n        elif d: pass\n    self.f()\n    x.f()\n",
        (0, 2, 0, 1),
    ),
    ("python", "def f():\n    def g():\n        return 1\n    return g()\n", (0, 0, 0, 0)),
]


@pytest.mark.parametrize(("language", "text", "expected"), PATTERNS)
def test_patterns(language: str, text: str, expected: tuple[int, ...]) -> None:
    found = get_facet(language, "metrics", Metrics).patterns(text)
    assert (
        tuple(found[name] for name in ("nested_loop", "if_in_loop", "early_return", "recursion")) == expected
    )
