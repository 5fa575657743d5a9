"""Facets about any text whatever: they answer, inside the text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.base.plugins import published
from sonde.languages import facet_of
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.metrics import ExecutionPaths, Metrics
from sonde.languages.engine.tagging import Tagging
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
    metrics = facet_of(language, "metrics", Metrics)
    assert metrics.complexity(text) >= 1
    assert metrics.nesting(text) >= 0
    assert all(metrics.operators(text))
    assert facet_of(language, "npath", ExecutionPaths).count(text) >= 1
    assert published(GROUP, "npt").value(text, language) >= 1
    assert all(
        published(GROUP, task).value(text, language) >= 0 for task in ("cpx", "mxn", "ocu", "oct", "vct")
    )
    assert all(count >= 0 for count in (*metrics.structures(text).values(), *metrics.patterns(text).values()))
    assert metrics.depth(text) >= 1
    leaves = metrics.leaves(text)
    assert all(text[leaf.start : leaf.end] == leaf.text for leaf in leaves)
    assert all(one.end <= other.start for one, other in pairwise(leaves))
    starts = {leaf.start for leaf in leaves}
    tagging = facet_of(language, "tagging", Tagging)
    for tags in (tagging.keywords(text), tagging.identifiers(text, text), tagging.nodes(text)):
        assert {tag.start for tag in tags} <= starts
    flow = facet_of(language, "flow", Flow)
    variables = flow.variables(text)
    assert all(text[start:end] == one.name for one in variables for start, end in one.places)
    assert all(max(pair) < len(variables) for pair in flow.dependencies(text))


@pytest.mark.parametrize("language", WORDS)
@given(text=st.text(max_size=40))
def test_any_characters_are_measured(language: str, text: str) -> None:
    metrics = facet_of(language, "metrics", Metrics)
    assert metrics.complexity(text) >= 1
    assert facet_of(language, "npath", ExecutionPaths).count(text) >= 1
    assert all(text[leaf.start : leaf.end] == leaf.text for leaf in metrics.leaves(text))
    assert facet_of(language, "tagging", Tagging).nodes(text) is not None
    assert facet_of(language, "flow", Flow).variables(text) is not None
