"""What the tests of languages with cases by hand share: relations, faults, odd and broken code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from sonde.corpora import Item
from sonde.languages import LANGUAGES, Language, get_facet
from sonde.languages.engine.bug_sites import BugSites
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.edits import Edits
from sonde.languages.engine.metrics import Metrics
from sonde.languages.engine.program_tokens import ProgramLexer, tokenize, untokenize
from sonde.languages.engine.relations import Relations
from sonde.languages.engine.tagging import Tagger
from sonde.tasks.engine.bugs import BugTask, make_choice
from sonde.tasks.engine.faults import FaultContext, Mutation
from sonde.tasks.engine.task import TASKS

CHILDREN = "children:parent->child"
Cases = Sequence[tuple[str, list[str]]]
Check = Callable[[Language, str], None]


def edges(language: str, text: str) -> Iterator[tuple[str, str]]:
    """Each edge of a text: its relation, and how the cases write it."""
    related = get_facet(language, "relations", Relations).relate(text)
    assert not related.problem
    words = related.words.surface
    for edge in related.edges:
        dependent = " ".join(words[edge.first : edge.last + 1])
        yield edge.relation, f"{edge.relation} {words[edge.head]}: {dependent}"


def relates(language: str, text: str, expected: list[str]) -> None:
    """The edges of a text are these, but for those of nodes to their children."""
    found = [edge for relation, edge in edges(language, text) if relation != CHILDREN]
    assert sorted(found) == sorted(expected)


def relates_children(language: str, text: str, expected: list[str]) -> None:
    """The edges of nodes to their children are these."""
    found = [edge for relation, edge in edges(language, text) if relation == CHILDREN]
    assert sorted(edge.partition(" ")[2] for edge in found) == sorted(expected)


def puts_a_bug_in(task_name: str, item: Item, text: str) -> None:
    """A task of bugs makes of a text, one of an item's, the text and another one that parses."""
    task, bugs = TASKS.load(task_name), get_facet(item.language, "bugs", BugSites)
    assert isinstance(task, BugTask)
    right, wrong = task.variants(text, bugs, make_choice(0, item))
    assert right.text == text != wrong.text and bugs.parses(wrong.text)


def puts_a_fault_in(task_name: str, language: str, text: str) -> None:
    """A task of faults finds a place in a text."""
    task, edits = TASKS.load(task_name), get_facet(language, "edits", Edits)
    assert isinstance(task, Mutation)
    around = FaultContext(edits, "train", task.survey([text], edits))
    found = [task.fault(text, around, Random(seed)) for seed in range(20)]
    assert any(fault is not None and fault.text != text for fault in found)


def comes_back_from_program_tokens(language: str, text: str, comment: str) -> None:
    """A text made of its program tokens has the same ones, and comments are none."""
    facet = get_facet(language, "program", ProgramLexer)
    found = tokenize(facet, text)
    assert comment not in "".join(found) and tokenize(facet, untokenize(facet, found)) == found


def reads_whole(language: str, text: str, check: Check) -> None:
    """Odd code parses, its tokens have their places, and its functions are measured."""
    of = LANGUAGES.load(language)
    assert not of.parse(text).has_error
    check(of, text)
    for function in of.functions(text):
        own = function.slice_from(text)
        assert get_facet(language, "metrics", Metrics).complexity(own) >= 1
        assert not get_facet(language, "relations", Relations).relate(own).problem


def says_that_it_is_broken(language: str, text: str, check: Check) -> None:
    """Code that does not parse is said to, and nothing that is asked of it fails."""
    of = LANGUAGES.load(language)
    assert of.parse(text).has_error
    check(of, text)
    assert get_facet(language, "relations", Relations).relate(text).problem == "does not parse"
    get_facet(language, "metrics", Metrics).complexity(text)
    get_facet(language, "flow", Flow).variables(text)
    get_facet(language, "tagging", Tagger).identifiers(text)
    assert not get_facet(language, "bugs", BugSites).parses(text)
