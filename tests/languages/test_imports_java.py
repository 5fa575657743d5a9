"""Scope cases of Java's imports."""
# ruff: noqa: E501 - a case a line is easier to check by eye

import pytest

from sonde.languages import get_facet
from sonde.languages.engine.imports import ImportReader

JAVA = get_facet("java", "imports", ImportReader)

HEAD = "import java.util.List;\nimport java.util.Map;\nimport static java.lang.Math.max;\n"

# Name of the case, members of a class behind `HEAD`, kind and name of the calls in text order.
CASES: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("static method", "int a = List.of(1).size();", [("call", "java.util.List.of")]),
    ("nested type", "Object o = Map.Entry.comparingByKey();", [("call", "java.util.Map.Entry.comparingByKey")]),
    ("constructor", "Object o = new List<String>(1);", [("new", "java.util.List")]),
    ("constructor of a nested type", "Object o = new Map.Entry(1);", [("new", "java.util.Map.Entry")]),
    ("static import", "int a = max(1, 2);", [("call", "java.lang.Math.max")]),
    ("a variable does not hide a method", "void f() { int max = max(1, 2); }", [("call", "java.lang.Math.max")]),
    ("a method hides a static import", "int max(int a) { return max(a); }", []),
    ("a parameter hides a type", "void f(Foo List) { List.of(); }", []),
    ("a lambda's parameter hides a type", "F f = List -> List.of(); F g = (Map) -> Map.of();", []),
    ("a local variable hides in its block", "void f() { { int List = 1; List.of(); } List.of(); }", [("call", "java.util.List.of")]),
    ("a field hides", "Foo List; void f() { List.of(); }", []),
    ("a nested type hides", "class List {} Object o = new List();", []),
    ("a type parameter hides", "<List> void f() { List.of(); }", []),
    ("a loop's variable hides", "void f() { for (Foo List : x) List.of(); Map.of(); }", [("call", "java.util.Map.of")]),
    ("a resource and a caught exception hide", "void f() { try (R List = r()) { List.of(); } catch (E Map) { Map.of(); } }", []),
    ("this, super and calls are no names", "void f() { this.List.of(); super.of(); g().List.of(); }", []),
    ("names written in full are not imported", "Object o = java.util.Set.of();", []),
]  # fmt: skip


@pytest.mark.parametrize(("body", "calls"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_scope_case(body: str, calls: list[tuple[str, str]]) -> None:
    found = JAVA.read(f"{HEAD}class A {{ {body} }}")
    assert [(call.kind, call.name) for call in found.calls] == calls


def test_imports_and_stars() -> None:
    found = JAVA.read(f"{HEAD}import java.io.*;\nimport static java.util.stream.Collectors.*;\nclass A {{}}")
    assert [(one.bound, one.name, one.member) for one in found.imports] == [
        ("List", "java.util.List", False),
        ("Map", "java.util.Map", False),
        ("max", "java.lang.Math.max", True),
    ]
    assert found.stars == ("java.io", "java.util.stream.Collectors")


def test_comments_inside_a_name_do_not_count() -> None:
    found = JAVA.read(f"{HEAD}class A {{ Object o = Map . /* é */ Entry.of(); }}")
    assert [call.name for call in found.calls] == ["java.util.Map.Entry.of"]
