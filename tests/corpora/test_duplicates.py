import random
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.corpora import NearDuplicateIndex, duplicate_tokens


def similar(a: Mapping[str, int], b: Mapping[str, int]) -> bool:
    """The definition, word by word."""
    if not a or not b:
        return False
    if min(len(a), len(b)) < 5:
        return dict(a) == dict(b)
    of_sets = Fraction(len(a.keys() & b.keys()), len(a.keys() | b.keys()))
    both, either = Counter(a) & Counter(b), Counter(a) | Counter(b)
    return of_sets > Fraction(8, 10) and Fraction(both.total(), either.total()) > Fraction(7, 10)


def survivors(bags: list[Counter[str]], index: NearDuplicateIndex) -> tuple[list[int], list[str | None]]:
    kept: list[int] = []
    answers: list[str | None] = []
    for place, bag in enumerate(bags):
        answers.append(index.find(bag))
        if answers[-1] is None:
            kept.append(place)
            index.add(str(place), bag)
    return kept, answers


def by_force(bags: list[Counter[str]]) -> tuple[list[int], list[str | None]]:
    kept: list[int] = []
    answers: list[str | None] = []
    for place, bag in enumerate(bags):
        match = next((other for other in kept if similar(bags[other], bag)), None)
        answers.append(None if match is None else str(match))
        if match is None:
            kept.append(place)
    return kept, answers


bags = st.lists(st.lists(st.sampled_from("abcdefghijkl"), max_size=14).map(Counter), max_size=25)


@settings(max_examples=300, deadline=None)
@given(bags)
def test_equals_comparing_every_pair(given_bags: list[Counter[str]]) -> None:
    index = NearDuplicateIndex()
    index._ranked_size, index._comparisons = 1, 1_000  # the order of tokens changes after two items
    assert survivors(given_bags, index) == by_force(given_bags)


def test_equals_comparing_every_pair_on_mutated_code() -> None:
    rng = random.Random(7)
    words = [f"word{n}" for n in range(300)]
    found: list[Counter[str]] = []
    for _ in range(400):
        if found and rng.random() < 0.6:
            bag = Counter(rng.choice(found))
            for _ in range(rng.randrange(6)):
                bag[rng.choice(words)] += 1
                bag.pop(rng.choice(list(bag)))
        else:
            bag = Counter(rng.choices(words, k=rng.randrange(1, 60)))
        found.append(bag)
    kept, answers = by_force(found)
    assert 50 < len(kept) < 390
    index = NearDuplicateIndex()
    index._ranked_size, index._comparisons = 100, 10_000
    assert survivors(found, index) == (kept, answers)
    assert index._ranked_size > 100


@pytest.mark.parametrize(
    ("shared", "own", "expected"), [(75, 25, False), (80, 20, False), (82, 18, True), (95, 5, True)]
)
def test_planted_pairs(shared: int, own: int, expected: bool) -> None:
    """A pair whose sets have a Jaccard of exactly shared / (shared + own)."""
    left = [f"s{n}" for n in range(shared)] + [f"l{n}" for n in range(own // 2)]
    right = [f"s{n}" for n in range(shared)] + [f"r{n}" for n in range(own - own // 2)]
    index = NearDuplicateIndex()
    index.add("left", Counter(left))
    assert (index.find(Counter(right)) == "left") is expected


def test_equal_sets_with_other_counts_are_no_copies() -> None:
    index = NearDuplicateIndex()
    index.add("few", Counter("abcdefgh"))
    assert index.find(Counter("abcdefgh" + "a" * 4)) is None  # 8 of 12 occurrences: 0.67
    assert index.find(Counter("abcdefgh" + "a" * 3)) == "few"  # 8 of 11: 0.73


def test_small_items_must_be_equal() -> None:
    index = NearDuplicateIndex()
    index.add("pair", Counter("aabb"))
    index.add("none", Counter())
    assert index.find(Counter("abab")) == "pair"
    assert index.find(Counter("ab")) is None
    assert index.find(Counter()) is None


def test_tokens_are_words_numbers_and_strings_of_any_language() -> None:
    python = 'def f(a):  # note b\n    """Doc string."""\n    return a + 0x1F + "q\\"x" + \'c\'\n'
    assert duplicate_tokens(python) == Counter(
        ["def", "f", "a", '"""Doc string."""', "return", "a", "0x1F", '"q\\"x"', "'c'"]
    )
    java = 'int f(int é) { /* a\n b */ return é * 1.5e3; } // end "x'
    assert duplicate_tokens(java) == Counter(["int", "f", "int", "é", "return", "é", "1.5e3"])


def test_apostrophes_in_prose_open_no_string() -> None:
    assert duplicate_tokens("We don't know rb'x' it's") == Counter(
        ["We", "don", "t", "know", "rb'x'", "it", "s"]
    )


@pytest.mark.parametrize("piece", ['"""', "'\\", "/* ", " '", "'''\\", ' "\\\n'])
def test_what_is_never_closed_takes_linear_time(piece: str) -> None:
    """A quadratic lexer would take minutes here."""
    assert duplicate_tokens(piece * 200_000).total() < 200_001


def test_looking_up_alone_teaches_which_tokens_are_rare() -> None:
    rng = random.Random(3)
    common = [f"common{n}" for n in range(12)]
    bags = [Counter([*common, *(f"own{n}_{k}" for k in range(3))]) for n in range(200)]
    index = NearDuplicateIndex()
    for place, bag in enumerate(bags):
        index.add(str(place), bag)
    asked = [rng.choice(bags) | Counter([f"new{n}"]) for n in range(100)]
    expected = [next((str(k) for k, bag in enumerate(bags) if similar(bag, one)), None) for one in asked]
    assert [index.find(one) for one in asked] == expected
    assert index._ranked_size == len(bags)
