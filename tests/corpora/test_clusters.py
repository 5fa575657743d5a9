"""Clusters of texts with nearly the same code, against a comparison of every pair."""

from __future__ import annotations

import random
import time
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from tests.copied import copied, functions

from sonde.corpora import cluster_near_duplicates
from sonde.corpora.engine.dedup import count_shape_ngrams, duplicate_tokens, is_near_duplicate, keywords

COUNT = 30


def by_all_pairs(texts: list[str], language: str) -> list[int]:
    """The first text of each text's component, of a graph of all pairs that the rule calls near."""
    words = [duplicate_tokens(text) for text in texts]
    shapes = [count_shape_ngrams(text, keywords(language)) for text in texts]
    linked = np.zeros((len(texts), len(texts)))
    for one, other in combinations(range(len(texts)), 2):
        shared = len(words[one].keys() & words[other].keys())
        alike = 3 * shared >= len(words[one].keys() | words[other].keys())
        same_shape = language != "text" and alike and is_near_duplicate(shapes[one], shapes[other])
        if is_near_duplicate(words[one], words[other]) or same_shape:
            linked[one, other] = 1
    _, parts = connected_components(linked, directed=False)
    return [int(np.flatnonzero(parts == part)[0]) for part in parts]


def table(names: int) -> list[str]:
    """30 functions in five copies each, in no order."""
    texts = [copied(text, number, names) for text in functions(COUNT) for number in range(5)]
    random.Random(names).shuffle(texts)
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("names", [0, 1, 2, 4])
@pytest.mark.parametrize("language", ["python", "text"])
def test_clusters_are_those_of_all_pairs(names: int, language: str) -> None:
    texts = table(names)
    assert cluster_near_duplicates(texts, language) == by_all_pairs(texts, language)


@pytest.mark.slow
@pytest.mark.parametrize(("names", "most"), [(0, COUNT), (1, COUNT), (2, COUNT + 2)])
def test_copies_of_a_function_are_one_cluster(names: int, most: int) -> None:
    assert len(set(cluster_near_duplicates(functions(COUNT), "python"))) == COUNT
    assert COUNT <= len(set(cluster_near_duplicates(table(names), "python"))) <= most


def test_a_chain_is_one_cluster() -> None:
    words = [[f"word{at}" for at in range(begin, begin + 40)] for begin in (0, 4, 8)]
    first, middle, last = (" ".join(one) for one in words)
    assert cluster_near_duplicates([first, last], "text") == [0, 1]
    assert cluster_near_duplicates([first, last, middle], "text") == [0, 0, 0]


def test_of_one_shape_are_those_that_share_words() -> None:
    one, other = (f"def {f}(a):\n    return {g}(a) + {h}[a] - {i}\n" for f, g, h, i in ("fghi", "pqrs"))
    renamed = one.replace("g(", "get(")
    assert cluster_near_duplicates([one, other, renamed], "python") == [0, 1, 0]


def test_many_versions_of_one_text_are_quick() -> None:
    (text,) = functions(1)
    texts = [copied(text, number, 3) for number in range(1_000)]
    begin = time.process_time()
    assert set(cluster_near_duplicates(texts, "python")) == {0}
    assert time.process_time() - begin < 10
