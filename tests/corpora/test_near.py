"""Near-duplicates of files: the rule against a slow referee, and MinHash against the exact way."""

import io
import keyword
import random
import tokenize
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sonde.corpora.engine.dedup as nearness
from sonde.base.errors import InputError
from sonde.corpora import NearDuplicateIndex, SourceFile, duplicate_tokens
from sonde.corpora.engine.build import build_token_bag
from sonde.corpora.engine.dedup import MinHashIndex, is_near_duplicate, keywords, library, sign

Tokens = Counter[str]
KEYWORDS = set(keyword.kwlist) - {"True", "False", "None"}


def python_tokens(text: str) -> Tokens:
    """Identifiers and literals by Python's own tokenizer."""
    kinds = (tokenize.NUMBER, tokenize.STRING)
    return Counter(
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in kinds
        or (
            token.type == tokenize.NAME
            and token.string not in set(keyword.kwlist) - {"True", "False", "None"}
        )
    )


def jaccard(one: Mapping[str, int], other: Mapping[str, int]) -> tuple[Fraction, Fraction]:
    """Of sets and of multisets, word by word."""
    a, b = Counter(one), Counter(other)
    sets = Fraction(len(a.keys() & b.keys()), len(a.keys() | b.keys()))
    return sets, Fraction((a & b).total(), (a | b).total())


def similar(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """The rule as it is written down, small items included."""
    if not one or not other:
        return False
    if min(len(one), len(other)) < 5:
        return dict(one) == dict(other)
    of_sets, of_multisets = jaccard(one, other)
    return of_sets > Fraction(4, 5) and of_multisets > Fraction(7, 10)


def exact(bags: list[Tokens]) -> tuple[list[int], list[int | None]]:
    return survivors(NearDuplicateIndex[int](), bags)


def minhash(bags: list[Tokens]) -> tuple[list[int], list[int | None]]:
    return survivors(MinHashIndex(bags.__getitem__), [(bag, sign(bag)) for bag in bags])


def survivors(
    index: NearDuplicateIndex[int] | MinHashIndex[int], marks: list
) -> tuple[list[int], list[int | None]]:
    kept: list[int] = []
    answers: list[int | None] = []
    for number, mark in enumerate(marks):
        answers.append(index.find(mark))
        if answers[-1] is None:
            kept.append(number)
            index.add(number, mark)
    return kept, answers


def by_force(bags: list[Tokens]) -> tuple[list[int], list[int | None]]:
    kept: list[int] = []
    answers: list[int | None] = []
    for number, bag in enumerate(bags):
        answers.append(next((other for other in kept if similar(bags[other], bag)), None))
        if answers[-1] is None:
            kept.append(number)
    return kept, answers


some_bags = st.lists(st.lists(st.sampled_from("abcdefghijkl"), max_size=14).map(Counter), max_size=25)


@settings(max_examples=120, deadline=None)
@given(some_bags)
def test_the_rule_and_the_exact_way_equal_comparing_every_pair(bags: list[Tokens]) -> None:
    assert exact(bags) == by_force(bags)
    for one in bags:
        for other in bags:
            assert is_near_duplicate(one, other) == similar(one, other)


@settings(max_examples=40, deadline=None)
@given(some_bags)
def test_minhash_never_takes_for_a_copy_what_is_none(bags: list[Tokens]) -> None:
    _, answers = minhash(bags)
    for number, answer in enumerate(answers):
        assert answer is None or similar(bags[answer], bags[number])


def mutated(count: int) -> list[Tokens]:
    """Bags of which most are another with a few tokens changed."""
    rng = random.Random(7)
    words = [f"word{n}" for n in range(2_000)]
    found: list[Tokens] = []
    for _ in range(count):
        if found and rng.random() < 0.6:
            bag = Counter(rng.choice(found))
            for _ in range(rng.randrange(12)):
                bag[rng.choice(words)] += 1
                bag.pop(rng.choice(list(bag)))
        else:
            bag = Counter(rng.choices(words, k=rng.randrange(1, 120)))
        found.append(bag)
    return found


def test_both_ways_agree_with_every_pair_on_a_corpus() -> None:
    bags = mutated(300)
    wanted = by_force(bags)
    assert 60 < len(wanted[0]) < 250
    assert exact(bags) == wanted
    assert minhash(bags) == wanted


def planted(of_sets: float, of_multisets: float) -> tuple[str, str]:
    """Two programs whose identifiers have about these similarities, moved apart by counts of one name."""
    shared = round(100 * of_sets)
    left = [f"shared{n}" for n in range(shared)]
    right = list(left)
    left += [f"left{n}" for n in range((100 - shared) // 2)]
    right += [f"right{n}" for n in range(100 - len(left))]
    if of_multisets > shared / 100:
        more = ["shared0"] * round((100 * of_multisets - shared) / (1 - of_multisets))
        left, right = left + more, right + more
    else:
        right += ["shared0"] * round(shared / of_multisets - 100)
    # Keywords, comments and operators alike in both, which must not count.
    frame = "for if while return class try import lambda yield None"
    head = f"# {frame} the same words in a comment\nif not (lambda: 1) is None:\n    pass\n"
    return tuple(head + "\n".join(f"{name};" for name in names) + "\n" for names in (left, right))


@pytest.mark.parametrize("of_sets", [0.75, 0.82, 0.95])
@pytest.mark.parametrize("of_multisets", [0.6, 0.75, 0.82, 0.95])
@pytest.mark.parametrize("way", [exact, minhash])
def test_planted_pairs_are_copies_as_the_rule_says(of_sets: float, of_multisets: float, way) -> None:
    texts = planted(of_sets, of_multisets)
    referee = [python_tokens(text) for text in texts]
    bags = [build_token_bag(SourceFile("p", text, "python", "c", "r")) for text in texts]
    assert bags == referee
    sets, multisets = jaccard(*referee)
    assert abs(sets - of_sets) < 0.01
    assert abs(multisets - of_multisets) < 0.01
    expected = of_sets > 0.8 and of_multisets > 0.7
    assert way(bags)[0] == ([0] if expected else [0, 1])


def test_right_at_a_threshold_is_no_copy() -> None:
    shared = [f"s{n}" for n in range(80)]
    sets = [Counter([*shared, "a"]), Counter([*shared, *(f"b{n}" for n in range(19))])]
    assert jaccard(*sets)[0] == Fraction(4, 5)
    counts = [Counter("abcdeee"), Counter("abcdeeeeee")]
    assert jaccard(*counts) == (1, Fraction(7, 10))
    for pair in (sets, counts):
        for way in (exact, minhash):
            assert way(pair)[0] == [0, 1]


def test_keywords_of_one_language_are_identifiers_of_another() -> None:
    assert "def" in keywords("python")
    assert "None" not in keywords("python")
    assert "null" not in keywords("java")
    assert keywords("text") == frozenset()
    code = "def f(synchronized): return None"
    assert duplicate_tokens(code, keywords("python")) == Counter(["f", "synchronized", "None"])
    assert duplicate_tokens(code, keywords("java")) == Counter(["def", "f", "None"])


def test_a_token_is_itself_however_long() -> None:
    index = NearDuplicateIndex()
    words = [letter * 500 for letter in "abcdef"]
    index.add("long", Counter(words))
    assert index.find(Counter(words)) == "long"
    assert index.find(Counter([*words[:4], "e" * 501, "f" * 499])) is None


def test_minhash_without_its_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearness.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"install sonde\[minhash\]"):
        library()


def test_signatures_are_those_of_the_library() -> None:
    """Equal on every machine and with every hash seed of the interpreter: the first minima, written down."""
    signature = sign(Counter(["alpha", "beta"]))
    assert signature is not None
    again = sign(Counter(["beta", "beta", "alpha"]))
    assert again is not None
    assert signature.tolist() == again.tolist()
    assert len(signature) == 252
    assert sign(Counter()) is None
