"""Pairs of a better and a worse name: replacements, and fakes that no corpus holds."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sonde.base.errors import InputError
from sonde.corpora import SourceFile
from sonde.tasks import Dataset, DrawingTask, ParallelMap
from sonde.tasks.apis import api_fakes
from sonde.tasks.apis.api_deprecated import gather_deprecations
from sonde.tasks.apis.api_fakes import SLACK, FakeNames, SpellingModel, collect_words, split_name
from sonde.tasks.engine.cloze_queries import QUERY_SCHEMA
from sonde.tasks.engine.task import TASKS

DEPRECATED, FAKES = TASKS.load("api_deprecated"), TASKS.load("api_fakes")

LIBRARY = '''
def old_name():
    warnings.warn("old_name is deprecated, use new_name instead", DeprecationWarning)
def new_name(): ...
class C:
    def isSet(self):
        """Deprecated, use is_set instead."""
    def is_set(self): ...
'''
USER = """
from json import load_all, dump_first
import weakref, readline
from csv.tools import read_table, write_rows, DictReader, ListWriter
load_all(); dump_first(); read_table(); write_rows(); DictReader(); ListWriter()
weakref.collect_all(); readline.parse_one(); weakref.collect_all()
"""


def file(path: str, text: str) -> SourceFile:
    return SourceFile(path, text, "python", "c", "r")


def drawn(task: DrawingTask, text: str, size: int = 100, seed: int = 0, **options: Any) -> Dataset:
    files = [file("lib/__init__.py", ""), file("lib/m.py", text)]
    return task.draw(files, size=size, seed=seed, language="python", options=options)


def test_replacements_stand_first_and_members_are_not_imported() -> None:
    assert isinstance(DEPRECATED, DrawingTask)
    data = drawn(DEPRECATED, LIBRARY)
    assert dict(data.examples.schema) == dict(QUERY_SCHEMA)
    rows = {(row["mode"], row["library"]): row["candidates"] for row in data.examples.to_dicts()}
    texts = sorted((row["mode"], *row["candidates"]) for row in data.examples.to_dicts())
    assert texts == [
        ("call", "lib.m.C.is_set(", "lib.m.C.isSet("),
        ("call", "lib.m.new_name(", "lib.m.old_name("),
        ("import", "from lib.m import new_name", "from lib.m import old_name"),
    ]
    assert {library for _, library in rows} == {"lib"}
    assert {item.item_id for item in data.inputs} == set(data.examples["item_id"])
    assert data.report["pairs"] == 2
    collected = DEPRECATED.collect([file("lib/__init__.py", ""), file("lib/m.py", LIBRARY)])
    assert sorted(row["worse"] for row in collected if row["form"] == "call") == [
        "lib.m.C.isSet",
        "lib.m.old_name",
    ]


def test_a_table_takes_the_place_of_the_corpus(tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text("deprecated,replacement\nnumpy.product,numpy.prod\n", encoding="utf-8")
    data = drawn(DEPRECATED, "x = 1\n", deprecated=str(table))
    assert data.examples["candidates"].to_list() != []
    assert sorted(data.examples["candidates"].to_list()) == [
        ["from numpy import prod", "from numpy import product"],
        ["numpy.prod(", "numpy.product("],
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("old,new\na.b,a.c\n", "line 2: the columns deprecated and replacement need fully qualified names"),
        (
            "deprecated,replacement\nproduct,prod\n",
            "line 2: the columns deprecated and replacement need fully qualified names",
        ),
        ("deprecated,replacement\n", "has no pair"),
        (None, "no such file"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line(tmp_path: Path, content: str | None, words: str) -> None:
    table = tmp_path / "pairs.csv"
    if content is not None:
        table.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=words) as caught:
        drawn(DEPRECATED, LIBRARY, deprecated=str(table))
    assert "\n" not in str(caught.value)


def test_no_pair_is_an_error() -> None:
    with pytest.raises(InputError, match="option deprecated = "):
        drawn(DEPRECATED, "x = 1\n")
    with pytest.raises(InputError, match="made-up names in python"):
        drawn(FAKES, "import a\na.f()\n")


def test_fakes_have_real_parts_and_stand_nowhere_in_the_corpus() -> None:
    data = drawn(FAKES, USER)
    names = {"load_all", "dump_first", "read_table", "write_rows", "collect_all", "parse_one"}
    heads = {name.partition("_")[0] for name in names}
    tails = {name.partition("_")[2] for name in names}
    seen: set[str] = set()
    for row in data.examples.to_dicts():
        better, worse = row["name"], row["kind"]
        assert better in " ".join(row["candidates"][:1]).replace(" import ", ".").replace("from ", "")
        real, fake = (set(one.split(".")) for one in (better, worse))
        (made,), (held,) = fake - real, real - fake
        seen.add(row["template"])
        assert made.lower() not in collect_words([USER])
        assert abs(len(made) - len(held)) <= SLACK
        if row["template"] == "fake_name" and "_" in held:
            head, _, tail = made.partition("_")
            assert head in heads and tail in tails
            assert (head in held) != (tail in held)
    assert "fake_name" in seen
    assert {row["mode"] for row in data.examples.to_dicts()} == {"call", "import"}


def test_a_seed_fixes_the_fakes_and_a_smaller_set_is_part_of_a_larger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api_fakes, "SPELLING_TOLERANCE", 50.0)
    first, again, other = (drawn(FAKES, USER, seed=seed).examples for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)
    few = drawn(FAKES, USER, size=4).examples
    assert few.height == 4 and few.equals(first.head(4))
    assert drawn(FAKES, USER, per_library=1).examples.height < first.height


def fake(names: Any, name: str, pieces: Any = None, known: frozenset[str] = frozenset()) -> str | None:
    made = FakeNames(names, pieces or {}, known, 0).make_fake(name)
    return made[0] if made else None


def test_known_words_are_no_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_fakes, "SPELLING_TOLERANCE", 50.0)
    names = ["read_one", "load_two"]
    assert fake(names, "read_one") in ("read_two", "load_one")
    assert fake(names, "read_one", known=frozenset({"read_two"})) == "load_one"
    assert fake(names, "read_one", known=frozenset({"read_two", "load_one"})) is None
    assert fake(["read_one", "load_longer"], "read_one") == "load_one"
    assert fake(["ReadOne", "read_two"], "ReadOne") is None


def test_spelling_does_not_tell_fakes_from_names() -> None:
    heads = [
        f"{a}{b}"
        for a in ("re", "un", "co", "trans", "inter")
        for b in ("form", "load", "mit", "port", "act")
    ]
    tails = ["file", "stream", "names", "index", "cache", "state", "record", "token", "frame", "chunk"]
    rng = np.random.default_rng(0)
    names = sorted({f"{rng.choice(heads)}_{rng.choice(tails)}" for _ in range(160)})
    spelling = SpellingModel(names)
    fakes = FakeNames(names, {}, set(), 0)
    margins: list[float] = []
    for name in names:
        if (made := fakes.make_fake(name)) is None:
            continue
        # Learned from all other names, from the beginning.
        others = SpellingModel([one for one in names if one != name])
        slow = others.score(name, {}) - others.score(made[0], {})
        assert made[1] == pytest.approx(slow, abs=0.15)
        assert abs(made[1]) <= api_fakes.SPELLING_TOLERANCE
        assert spelling.score(name, {}) > spelling.score(name, spelling.exclude_name(name))
        margins.append(made[1])
    assert len(margins) > 30
    assert 0.3 < sum(one > 0 for one in margins) / len(margins) < 0.7


def test_a_spelling_model_is_that_of_witten_and_bell() -> None:
    found = SpellingModel(["ab", "ac"])
    # Of seven characters a, a, b, c and two ends; behind "a" b and c once each, behind "ab" the end.
    alphabet = 1 / 5
    a, b, end = ((count + 4 * alphabet) / 10 for count in (2, 1, 2))
    start = a
    for _ in range(3):
        start = (2 + start) / 3
    after_a = (1 + 2 * b) / 4
    for _ in range(2):
        after_a = (1 + 2 * after_a) / 4
    last = end
    for _ in range(3):
        last = (1 + last) / 2
    assert found.score("ab", {}) == pytest.approx(math.log(start) + math.log(after_a) + math.log(last))


def test_names_of_one_part_are_cut_between_their_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    assert split_name("abcdef", ("abc", "de", "f")) == ([("abc", "def")], False)
    assert split_name("_private_name", ()) == ([("_private_", "name")], True)
    pieces = {"weakref": ("weak", "ref"), "readline": ("read", "line")}
    monkeypatch.setattr(api_fakes, "SPELLING_TOLERANCE", 50.0)
    assert fake(pieces, "weakref", pieces) in ("weakline", "readref")


def test_deprecated_names_stand_on_the_paths_that_users_import() -> None:
    code = """
def old():
    warnings.warn("old is deprecated, use new instead", DeprecationWarning)
def new(): ...
def hidden():
    warnings.warn("hidden is deprecated, use new instead", DeprecationWarning)
"""
    files = [
        SourceFile("lib/_core.py", code, "python", "lib", "lib"),
        SourceFile("lib/__init__.py", "from lib._core import old, new\n", "python", "lib", "lib"),
    ]
    pairs, left_out = gather_deprecations(files)
    assert gather_deprecations(files, ParallelMap(workers=2, worth=max(1, len(files) // 2))) == (
        pairs,
        left_out,
    )
    assert list(pairs) == [("python", "lib.old", "lib.new", (0, 0))]
    assert left_out["private name"] == 1
