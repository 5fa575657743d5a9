"""Baselines against trying everything."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sonde.languages.engine.relations import Words
from sonde.lenses.attention.observe import NEVER, Edges, keyword_hits
from sonde.lenses.attention.predictors import Hits, NumberRuns, NumberSets, rank_predictors, select_greedy

EDGES = st.lists(st.sets(st.integers(-4, 4), max_size=4), min_size=1, max_size=12)
RANGES = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), min_size=1, max_size=12)


def by_trying(edges: list[set[int]], candidates: list[int], most: int) -> list[int]:
    """Greedy choice that counts every candidate anew; the first of the best candidates wins."""
    chosen: list[int] = []
    while len(chosen) < most:
        gains = [sum(c in hits and not hits & set(chosen) for hits in edges) for c in candidates]
        if not max(gains):
            break
        chosen.append(candidates[int(np.argmax(gains))])
    return chosen


def check(hits: Hits, edges: list[set[int]], candidates: list[int], least: int, greatest: int) -> None:
    expected = by_trying(edges, candidates, 4)
    chosen = select_greedy(hits, 4, least, greatest)
    assert list(chosen) == expected
    places = [
        min((place for place, one in enumerate(expected, 1) if one in mine), default=NEVER) for mine in edges
    ]
    assert rank_predictors(hits, chosen).tolist() == places


@given(RANGES)
def test_offsets_are_chosen_as_by_trying_all(pairs: list[tuple[int, int]]) -> None:
    low = np.array([start for start, _ in pairs])
    high = low + np.array([size for _, size in pairs])
    edges = [set(range(a, b + 1)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    # Among equals the offset nearest to zero, before it first; zero itself is the word that is asked.
    candidates = sorted({*range(-3, 4)} - {0}, key=lambda offset: (abs(offset), offset))
    check(NumberRuns(low, high), edges, candidates, -3, 3)


@given(EDGES)
def test_keywords_are_chosen_as_by_trying_all(edges: list[set[int]]) -> None:
    moved = [{keyword + 4 for keyword in mine} for mine in edges]
    pairs = np.array([(at, one) for at, mine in enumerate(moved) for one in sorted(mine)], int).reshape(-1, 2)
    sets = NumberSets(len(moved), pairs[:, 0], pairs[:, 1])
    check(sets, moved, list(range(9)), 0, 8)
    some = np.arange(len(moved)) % 2 == 0
    if some.any():
        check(sets.take(some), moved[::2], list(range(9)), 0, 8)


@given(
    st.lists(st.sampled_from(["if", "else", "x", "", "("]), min_size=3, max_size=14),
    st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13), st.integers(0, 13)), min_size=1, max_size=6),
    st.booleans(),
)
def test_keywords_hit_what_a_search_finds(
    surface: list[str], triples: list[tuple[int, int, int]], backwards: bool
) -> None:
    found = sorted({tuple(sorted(place % len(surface) for place in triple)) for triple in triples})
    found = [triple for triple in found if triple[0] < triple[1]]
    if not found:
        return
    keywords = ("else", "if")
    head, first, last = np.array(found).T
    at = np.arange(len(surface))
    words = Words(tuple(surface), at, at + 1, np.ones(len(surface), bool))
    hits = keyword_hits(words, keywords, Edges(("r",) * len(found), head, first, last), backwards=backwards)

    def after(keyword: str, place: int) -> int:
        return next((at for at in range(place + 1, len(surface)) if surface[at] == keyword), -1)

    def before(keyword: str, place: int) -> int:
        return next((at for at in range(place - 1, -1, -1) if surface[at] == keyword), -1)

    pairs = set(zip(hits.edge.tolist(), hits.keyword.tolist(), strict=True))
    assert len(pairs) == len(hits.edge)
    for edge, (start, low, high) in enumerate(found):
        for number, keyword in enumerate(keywords):
            if backwards:
                ends = [before(keyword, place) == start for place in (low, high)]
                anywhere = any(before(keyword, place) == start for place in range(low, high + 1))
            else:
                ends = [after(keyword, start) == place for place in (low, high)]
                anywhere = low <= after(keyword, start) <= high
            assert (hits.first[edge] == number) == ends[0]
            assert (hits.last[edge] == number) == ends[1]
            assert ((edge, number) in pairs) == anywhere
