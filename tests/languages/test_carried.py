"""Edits and places carried over to the same program in other words, compared with the transform itself."""

from __future__ import annotations

import pytest

from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.transforms import (
    COMMENTS,
    DOCSTRINGS,
    LAYOUT,
    RENAME,
    SHUFFLE,
    SWAP,
    SpanMapper,
    Transforms,
)
from sonde.languages.engine.treesitter import TreeSitterLanguage
from sonde.tasks.engine.bugs import BugTask, RandomChoice
from sonde.tasks.engine.task import TASKS

FUNCTIONS = {
    "python": "def f(data, count):\n    # says what\n    rest = count - 1\n    if rest > count:\n"
    "        return data.count(rest, f'{data}')\n    return rest + count\n",
    "java": "int f(int[] data, int count) {\n    // says what\n    int rest = count - 1;\n"
    "    if (rest > count) {\n        return data.count(rest);\n    }\n    return rest + count;\n}\n",
    "go": "func f(data []int, count int) int {\n\t// says what\n\trest := count - 1\n"
    "\tif rest > count {\n\t\treturn data.count(rest)\n\t}\n\treturn rest + count\n}\n",
    "javascript": "function f(data, count) {\n  // says what\n  let rest = count - 1;\n"
    "  if (rest > count) {\n    return data.count(rest);\n  }\n  return rest + count;\n}\n",
    "ruby": "def f(data, count)\n  # says what\n  rest = count - 1\n  if rest > count\n"
    "    return data.count(rest)\n  end\n  rest + count\nend\n",
    "php": "function f($data, $count) {\n    // says what\n    $rest = $count - 1;\n"
    "    if ($rest > $count) {\n        return $data->count($rest);\n    }\n    return $rest + $count;\n}\n",
}


def language(name: str) -> TreeSitterLanguage:
    loaded = LANGUAGES.load(name)
    assert isinstance(loaded, TreeSitterLanguage)
    return loaded


def bugs_in(name: str, task_name: str) -> list[str]:
    """The function of a language with bugs put in."""
    task = TASKS.load(task_name)
    assert isinstance(task, BugTask)
    text, found = FUNCTIONS[name], set[str]()
    for seed in range(30):
        found |= {
            one.text for one in task.variants(text, get_facet(name, task.facet, BugSites), RandomChoice(seed))
        }
    return sorted(found - {text})


@pytest.mark.parametrize("transform", [RENAME, SHUFFLE])
@pytest.mark.parametrize("task", ["variable_misuse", "wrong_operator"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_bug_in_the_renamed_function_is_the_renamed_function_with_the_bug(
    name: str, task: str, transform: str
) -> None:
    rules, text = Transforms(language(name)), FUNCTIONS[name]
    change = rules.change(text, transform)
    assert change.text != text
    carried = SpanMapper(language(name), text, change, transform)
    mutants = bugs_in(name, task)
    assert len(mutants) > 2
    for mutant in mutants:
        assert carried.apply_edit(mutant) == rules.rename_variables(mutant, change.names)


@pytest.mark.parametrize("transform", [RENAME, LAYOUT, COMMENTS, DOCSTRINGS])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_fault_that_does_not_parse_is_carried_over(name: str, transform: str) -> None:
    text = FUNCTIONS[name].replace("\n", "\n\n", 1)
    rules = Transforms(language(name))
    change = rules.change(text, transform)
    assert change.text != text
    carried = SpanMapper(language(name), text, change, transform)
    broken = text.replace("rest > ", "rest > > ", 1)
    edits = get_facet(name, "edits", Edits)
    assert broken != text
    assert not edits.parses(broken)
    found = carried.apply_edit(broken)
    assert found is not None
    assert found.count("> >") == 1
    assert found.replace("> >", ">", 1) == change.text


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("transform", [RENAME, LAYOUT, COMMENTS])
def test_every_token_is_found_again(name: str, transform: str) -> None:
    text, edits = FUNCTIONS[name], get_facet(name, "edits", Edits)
    change = Transforms(language(name)).change(text, transform)
    carried = SpanMapper(language(name), text, change, transform)
    tokens = edits.tokens(text)
    for one in tokens:
        place = carried.map_span(one.start, one.end)
        assert place is not None
        found = change.text[slice(*place)]
        member = text[: one.start].endswith((".", "->"))
        # A string is one token, and may hold a variable.
        assert found == (
            "f'{v0}'" if one.surface == "f'{data}'" and transform == RENAME else one.surface
        ) or (not member and found == change.names[one.surface])
    assert carried.map_span(tokens[0].start, tokens[-1].end) == (0, len(change.text.rstrip()))
    assert carried.map_span(tokens[0].start, tokens[0].end + 1) is None


def test_statements_that_change_places_are_not_mistaken() -> None:
    text = "def f(a, b):\n    one = a\n    two = b\n    return one + two\n"
    rules = Transforms(language("python"))
    change = rules.change(text, SWAP)
    assert change.text == "def f(a, b):\n    two = b\n    one = a\n    return one + two\n"
    carried = SpanMapper(language("python"), text, change, SWAP)
    start = text.index("return")
    assert carried.map_span(start, start + 6) == (start, start + 6)
    # A bug behind the statements goes over; one that spans both does not.
    assert carried.apply_edit(text.replace("+", "-")) == change.text.replace("+", "-")
    assert carried.apply_edit(text.replace("= a", "= b").replace("two = b", "two = a")) is None


def test_a_name_inside_a_token_is_not_missed() -> None:
    text = "def f(a, b):\n    return f'{a}', b\n"
    change = Transforms(language("python")).change(text, RENAME)
    carried = SpanMapper(language("python"), text, change, RENAME)
    assert carried.apply_edit(text.replace("', b", "', a")) == "def f(v0, v1):\n    return f'{v0}', v0\n"
    assert carried.apply_edit(text.replace("f'{a}'", "f'{b}'")) is None
    # What lies between tokens goes along: blanks, indents and comments.
    assert carried.apply_edit(text.replace("', b", "',  b")) == "def f(v0, v1):\n    return f'{v0}',  v1\n"
    assert (
        carried.apply_edit(text.replace("    re", "  # b\n  re"))
        == "def f(v0, v1):\n  # b\n  return f'{v0}', v1\n"
    )
