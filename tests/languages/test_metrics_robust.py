"""Facets about any text whatever: they answer, inside the text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.base.registry import load_published_object
from sonde.languages import get_facet
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.metrics import ExecutionPaths, Metrics
from sonde.languages.engine.tagging import Tagger
from sonde.tasks.engine.task import GROUP

WORDS = {
    "java": "if ( ) { } else for ; : while do switch case default -> try catch finally return ? && || = < > "
    "a b int class new . , @ \"s\" 'c' 1 // /* */ lambda void f é",
    "python": "if ( ) : else elif for in while match case _ try except finally return lambda and or not = "
    "< [ ] a b def class . , @ 's' f'{a}' 1 # \n \n  \n    with as global async await del é \\",
}


@pytest.mark.parametrize("language", WORDS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_words_are_measured(language: str, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(WORDS[language].split(" ")), max_size=30))
    text = data.draw(st.sampled_from([" ", "\n", ""])).join(words)
    metrics = get_facet(language, "metrics", Metrics)
    assert metrics.complexity(text) >= 1
    assert metrics.nesting_depth(text) >= 0
    assert all(metrics.operators(text))
    assert get_facet(language, "npath", ExecutionPaths).count(text) >= 1
    assert load_published_object(GROUP, "npt").value(text, language) >= 1
    assert all(
        load_published_object(GROUP, task).value(text, language) >= 0
        for task in ("cpx", "mxn", "ocu", "oct", "vct")
    )
    assert all(
        count >= 0 for count in (*metrics.count_structures(text).values(), *metrics.patterns(text).values())
    )
    assert metrics.depth(text) >= 1
    leaves = metrics.leaves(text)
    assert all(text[leaf.start : leaf.end] == leaf.text for leaf in leaves)
    assert all(one.end <= other.start for one, other in pairwise(leaves))
    starts = {leaf.start for leaf in leaves}
    tagging = get_facet(language, "tagging", Tagger)
    for tags in (tagging.keywords(text), tagging.identifiers(text, text), tagging.nodes(text)):
        assert {tag.start for tag in tags} <= starts
    flow = get_facet(language, "flow", Flow)
    variables = flow.variables(text)
    assert all(text[start:end] == one.name for one in variables for start, end in one.places)
    assert all(max(pair) < len(variables) for pair in flow.dependencies(text))


@pytest.mark.parametrize("language", WORDS)
@given(text=st.text(max_size=40))
def test_any_characters_are_measured(language: str, text: str) -> None:
    metrics = get_facet(language, "metrics", Metrics)
    assert metrics.complexity(text) >= 1
    assert get_facet(language, "npath", ExecutionPaths).count(text) >= 1
    assert all(text[leaf.start : leaf.end] == leaf.text for leaf in metrics.leaves(text))
    assert get_facet(language, "tagging", Tagger).nodes(text) is not None
    assert get_facet(language, "flow", Flow).variables(text) is not None
