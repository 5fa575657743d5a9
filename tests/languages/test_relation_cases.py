"""Every relation of every language has an edge that was written by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.languages import (
    go_relations,
    javascript_relations,
    php_relations,
    ruby_relations,
    test_java_relations,
    test_python_relations,
)
from tests.languages.by_hand import CHILDREN, Cases

from sonde.languages import LANGUAGES, get_facet, has_facet
from sonde.languages.engine.relations import Relations


def list_relations(cases: Cases) -> set[str]:
    """Return the relations of some cases, and that of parent and child, whose cases are apart."""
    return {edge.split(" ")[0] for _, expected in cases for edge in expected} | {CHILDREN}


WRITTEN: Mapping[str, set[str]] = {
    "go": list_relations(go_relations.CASES),
    "java": set(test_java_relations.GOLDEN),
    "javascript": list_relations(javascript_relations.CASES),
    "php": list_relations(php_relations.CASES),
    "python": {relation for relation, _, edges in test_python_relations.GOLDEN if edges},
    "ruby": list_relations(ruby_relations.CASES),
}


@pytest.mark.parametrize("language", [name for name in LANGUAGES.names() if has_facet(name, "relations")])
def test_the_cases_have_every_relation(language: str) -> None:
    assert WRITTEN[language] == set(get_facet(language, "relations", Relations).relation_types)
