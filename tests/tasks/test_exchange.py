"""Two variables exchanged everywhere except at a place; compared with Python's own parser."""

from __future__ import annotations

import ast

import pytest

from sonde.tasks.engine.bugs import RandomChoice
from sonde.tasks.engine.pairs import VariableExchange, iterate_exchanges

PYTHON = """\
def total(prices, rate):
    amount = 0
    for price in prices:
        amount = amount + price * rate
    return amount
"""


def found(text: str, language: str = "python", seed: int = 0) -> list[VariableExchange]:
    return list(iterate_exchanges(text, language, RandomChoice(seed, text)))


def renamed(text: str, one: str, two: str) -> str:
    """What the exchange of two names is to Python's parser, by names of variables and parameters alone."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = {one: two, two: one}.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg = {one: two, two: one}.get(node.arg, node.arg)
    return ast.dump(tree)


def test_all_but_the_place_is_exchanged() -> None:
    exchanged = found(PYTHON)
    assert len(exchanged) == len({one.place for one in exchanged}) > 3
    for one in exchanged:
        assert one.clean == PYTHON
        assert PYTHON[one.place.start : one.place.end] == one.right != one.other
        # With the place exchanged as well, it is the same program with two names exchanged.
        shift = one.corrupt.count("\n", 0)
        assert shift == PYTHON.count("\n")
        at = place_in_corrupt(one)
        assert one.corrupt[at : at + len(one.right)] == one.right
        whole = one.corrupt[:at] + one.other + one.corrupt[at + len(one.right) :]
        assert ast.dump(ast.parse(whole)) == renamed(PYTHON, one.right, one.other)
        assert one.make_misuse() == PYTHON[: one.place.start] + one.other + PYTHON[one.place.end :]


def place_in_corrupt(one: VariableExchange) -> int:
    """The place in the corrupt text, by what stands before it there."""
    before = [*(place for place in (one.definition, *one.uses) if place.start < one.place.start)]
    rivals = [place for place in one.rival if place.start < one.place.start]
    longer = len(one.other) - len(one.right)
    return one.place.start + longer * (len(before) - len(rivals))


def test_roles_are_where_the_two_variables_stand() -> None:
    for one in found(PYTHON):
        for place in (one.definition, *one.uses):
            assert PYTHON[place.start : place.end] == one.right
        assert one.definition.start < one.place.start
        assert one.place not in one.uses
        assert all(PYTHON[place.start : place.end] == one.other for place in one.rival)
        assert min(place.start for place in one.rival) < one.place.start
        nodes = [node for node in ast.walk(ast.parse(PYTHON)) if isinstance(node, ast.Name | ast.arg)]
        named = [node.id if isinstance(node, ast.Name) else node.arg for node in nodes]
        places = len(one.uses) + len(one.rival) + 2
        assert places == named.count(one.right) + named.count(one.other)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        # The word stands for something else as well: an attribute, a text, a comment, a variable further in.
        ("def f(a, b):\n    return a + b + a.b\n", {"b"}),
        ('def f(a, b):\n    return a + b + "a"\n', {"a"}),
        ("def f(a, b):\n    # adds a\n    return a + b\n", {"a"}),
        ("def f(a, b):\n    return (lambda a: a)(a) + b\n", {"a"}),
    ],
)
def test_names_that_mean_something_else_are_left_alone(text: str, names: set[str]) -> None:
    assert not any({one.right, one.other} & names for one in found(text))


def test_java_is_exchanged_by_its_own_rules() -> None:
    text = "int f(int left, int right) {\n  int sum = left;\n  return sum + right;\n}\n"
    held = {(one.right, one.other) for seed in range(8) for one in found(text, "java", seed)}
    assert ("left", "right") in held
    for one in found(text, "java"):
        assert one.corrupt.count(one.right) + one.corrupt.count(one.other) == text.count(
            one.right
        ) + text.count(one.other)


def test_the_order_is_drawn_by_the_function_alone() -> None:
    assert found(PYTHON) == found(PYTHON)
    orders = {tuple(one.place.start for one in found(PYTHON, seed=seed)) for seed in range(6)}
    assert len(orders) > 1
