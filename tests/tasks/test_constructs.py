"""The task about language-neutral constructs."""

from __future__ import annotations

import pytest

from sonde.corpora import Item
from sonde.languages import CONSTRUCT_LABELS
from sonde.tasks import LABEL_SCHEMA, build
from sonde.tasks.engine.task import TASKS


def test_constructs_are_spans_of_the_item() -> None:
    text = "def f(a):\n    while a > 1:\n        a = g(a)\n"
    item = Item("id", text, "python", "function", "f.py", "f", 0, "c", "r")
    task = TASKS.load("constructs")
    table = task.label([item], {})["id"]
    assert dict(table.schema) == dict(LABEL_SCHEMA)
    rows = table.select("start", "end", "label").iter_rows()
    found = {(label, text[start:end]) for start, end, label in rows}
    assert {("condition", "a > 1"), ("call", "g(a)"), ("assignment", "a = g(a)")} <= found
    assert {label for label, _ in found} <= set(CONSTRUCT_LABELS) == set(task.labels)


# A function about a number and a name, and the constructs that it has besides those of all languages.
FUNCTIONS = {
    "python": "def f{0}(a{0}, b{0}):\n    # about {0}\n    for i{0} in a{0}:\n        if i{0} > {0}:\n"
    "            return b{0}[i{0}] + {0}\n    x{0} = 'text {0}'\n    raise Error{0}(x{0})\n",
    "java": "int f{0}(int[] a{0}, int b{0}) {{ /* about {0} */ for (int i{0} : a{0}) {{ if (i{0} > {0}) {{"
    ' return a{0}[i{0}] + {0}; }} }} String x{0} = "text {0}"; throw new Error{0}(x{0}); }}',
    "go": "func f{0}(a{0} []int, b{0} int) int {{ // about {0}\nfor i{0} := range a{0} {{ if i{0} > {0} {{"
    ' return a{0}[i{0}] + {0} }} }}\nx{0} := "text {0}"\npanic(x{0})\n}}',
    "javascript": "function f{0}(a{0}, b{0}) {{ /* at {0} */ for (const i{0} of a{0}) {{ if (i{0} > {0}) {{"
    " return a{0}[i{0}] + {0} }} }} const x{0} = 'text {0}'; throw new Error{0}(x{0}) }}",
    "php": "function f{0}($a{0}, $b{0}) {{ /* about {0} */ foreach ($a{0} as $i{0}) {{ if ($i{0} > {0}) {{"
    " return $a{0}[$i{0}] + {0}; }} }} $x{0} = 'text {0}'; throw new Error{0}($x{0}); }}",
    "ruby": "def f{0}(a{0}, b{0})\n  # about {0}\n  for i{0} in a{0}\n    if i{0} > {0}\n"
    "      return a{0}[i{0}] + {0}\n    end\n  end\n  x{0} = 'text {0}'\n  raise Error{0}.new(x{0})\nend\n",
}


@pytest.mark.parametrize("language", FUNCTIONS)
def test_a_data_set_has_the_constructs_that_the_code_has(language: str) -> None:
    words = ["red", "blue", "wide", "long", "deep", "cold", "warm", "soft", "hard", "fast"]
    items: list[Item] = []
    for number in range(60):
        # No two functions are near-duplicates of each other: names and numbers differ.
        text = FUNCTIONS[language].format(1000 + number).replace("text", f"{words[number % 10]} {number}")
        items.append(Item(f"{number:03}", text, language, "function", f"{number}", "f", 0, f"c{number}", "r"))
    made = build("constructs", items, size=300, language=language)
    left_out = made.report["classes left out"]
    assert {"error", "class", "jump"} <= set(left_out)
    assert set(made.examples["label"]) == set(CONSTRUCT_LABELS) - set(left_out)
    common = {"function", "parameters", "body", "comment", "loop", "branch", "condition", "return"}
    common |= {"string", "number", "subscript", "operator_expression", "assignment", "raise"}
    assert common <= set(made.examples["label"])
    counts = made.examples.group_by("split", "label").len()
    assert all(len(set(of_split["len"])) == 1 for _, of_split in counts.group_by("split"))


@pytest.mark.parametrize("language", FUNCTIONS)
def test_a_construct_that_the_code_hardly_has_is_left_out(language: str) -> None:
    words = ["red", "blue", "wide", "long", "deep", "cold", "warm", "soft", "hard", "fast"]
    items: list[Item] = []
    for number in range(60):
        text = FUNCTIONS[language].format(1000 + number).replace("text", f"{words[number % 10]} {number}")
        # Two of the functions alone raise something.
        if number > 1:
            text = "\n".join(line for line in text.split("\n") if "raise " not in line)
            text = text.replace("throw new", "new").replace("panic(", "print(")
        items.append(Item(f"{number:03}", text, language, "function", f"{number}", "f", 0, f"c{number}", "r"))
    made = build("constructs", items, size=300, language=language)
    assert 0 < made.report["found"]["raise"] < 5 and "raise" in made.report["classes left out"]
    assert "raise" not in set(made.examples["label"])
