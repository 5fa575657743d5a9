"""Names are suggested by spelling, and by what they mean if the spelling is no help."""

import pickle

import pytest

from sonde.base.errors import UnknownNameError
from sonde.base.registry import Registry
from sonde.base.suggestions import rank_by_meaning
from sonde.corpora import CORPORA
from sonde.languages import LANGUAGES
from sonde.lenses import LENSES
from sonde.tasks.engine.task import TASKS

REGISTRIES = {"task": TASKS, "lens": LENSES, "corpus": CORPORA, "language": LANGUAGES}


@pytest.mark.parametrize(
    ("kind", "name", "suggestion"),
    [
        ("task", "identifier_type", "idn"),
        ("task", "cyclomatic complexity", "cpx"),
        ("task", "exception_typ", "exception_type"),
        ("task", "call_orign", "call_origin"),
        ("task", "dataflow", "data_dependency"),
        ("task", "parseTree", "whole_trees"),
        ("lens", "probing", "probe"),
        ("lens", "perplexity", "surprisal"),
        ("lens", "activation-patching", "causal"),
        ("corpus", "csv", "labelled"),
        ("corpus", "CodeSearchNet", "hub"),
        ("language", "golang", "go"),
    ],
)
def test_a_wrong_name_leads_to_what_it_means(kind: str, name: str, suggestion: str) -> None:
    registry: Registry[object] = REGISTRIES[kind]  # pyright: ignore[reportAssignmentType]
    with pytest.raises(UnknownNameError) as caught:
        registry.load(name)
    assert caught.value.suggestion == suggestion
    assert f"unknown {kind} {name!r}; did you mean {suggestion!r}?" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_word_that_no_description_has_suggests_nothing() -> None:
    assert rank_by_meaning("garbage collector", {"idn": "what an identifier names"}) == []
    assert rank_by_meaning("", {"idn": "what an identifier names"}) == []


def test_a_rare_word_counts_more_than_one_that_all_have() -> None:
    tasks = {"len": "number of tokens", "nml": "number of loops", "oct": "number of operators"}
    assert rank_by_meaning("number of loops", tasks)[0] == "nml"
    assert rank_by_meaning("loop frobnication", tasks) == []


def test_an_option_is_found_by_what_it_does() -> None:
    options = LENSES.load("probe").typed_options
    with pytest.raises(UnknownNameError, match="did you mean 'l2'"):
        options.read({"penalty": 3})
