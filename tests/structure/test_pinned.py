"""What a rename never touches: literals that are hashed, what enters keys, and every public name."""

import ast
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from tests.structure.hashed import Sources
from tests.structure.pinned import COLLECTORS, COMMAND, DATA, PRINTED, difference, kinds, printed

PINNED: Mapping[str, Mapping[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))


@pytest.mark.parametrize("section", COLLECTORS)
def test_what_is_public_or_enters_keys_is_as_it_was(section: str) -> None:
    now = json.loads(json.dumps(COLLECTORS[section]()))
    assert len(now) >= 5
    if told := difference(section, PINNED[section], now):
        pytest.fail(told, pytrace=False)


def test_every_section_is_pinned_and_no_other() -> None:
    assert PINNED.keys() == COLLECTORS.keys()


def test_what_is_printed_is_as_it_was() -> None:
    was = {path.stem: path.read_text(encoding="utf-8") for path in PRINTED.iterdir()}
    now = printed()
    told = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    if told:
        pytest.fail(f"printed: changed: {', '.join(told)}; if that is meant, run `{COMMAND}`", pytrace=False)


HASHES = """
import hashlib
def hash_it(*parts):
    return hashlib.blake2b(str(parts).encode(), digest_size=16).hexdigest()
"""

DRAWS = """
from app.hashes import hash_it
from app import WHY
class Choice:
    def __init__(self, *parts):
        self.value = hash_it("choice", *parts)
    def pick(self, several, *, about):
        return hash_it(self.value, about, several)
    def first(self, several, *, about):
        return self.pick(several, about=about)
class Other:
    def first(self):
        return 1
def draw(rows, why):
    return sorted(rows, key=lambda row: hash_it(why, row["column"]))
def drawn(rows):
    Choice("made", 3).pick(rows, about="body")
    Choice(Other().first()).first(rows, about="first one")
    return [draw(rows, "twin"), draw(rows, why=WHY), print("nothing")]
"""

BEGIN = """
WHY = "constant"
from app.draws import drawn
"""

SEEN = {
    '["choice"]': 1,
    '["made", 3]': 1,
    '["body"]': 1,
    '["first one"]': 1,
    '["twin"]': 1,
    '["constant"]': 1,
    "hashlib.blake2b [16]": 1,
}


def found_in(*renamed: tuple[str, str]) -> Mapping[str, int]:
    """The literals that the three modules hash, after some words of theirs are other ones."""
    texts = {"app.__init__": BEGIN, "app.hashes": HASHES, "app.draws": DRAWS}
    for word, other in renamed:
        texts = {name.replace(word, other): text.replace(word, other) for name, text in texts.items()}
    begin = next(name for name in texts if name not in ("app.__init__", "app.draws"))
    trees = {name: ast.parse(text) for name, text in texts.items()}
    function = next(node.name for node in trees[begin].body if isinstance(node, ast.FunctionDef))
    return Sources(trees).hashed({f"{begin}.{function}"})


def test_literals_are_found_through_functions_classes_methods_and_constants() -> None:
    assert found_in() == SEEN


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("hash_it", "fingerprint"),
        ("hashes", "base.keys"),
        ("draw(", "sample("),
        ("pick", "select"),
        ("why", "label"),
        ("WHY", "REASON"),
        ("Choice", "Selector"),
        ("about", "subject"),
    ],
)
def test_a_rename_changes_no_literal(word: str, other: str) -> None:
    assert found_in((word, other)) == SEEN


@pytest.mark.parametrize("word", ["choice", "made", "body", "first one", "twin", "constant"])
def test_a_literal_that_is_renamed_is_seen(word: str) -> None:
    now = found_in((f'"{word}', '"other'))
    told = difference("hashed", SEEN, now)
    assert f'vanished: ["{word}"' in told and 'new: ["other"' in told and COMMAND in told


@dataclasses.dataclass(frozen=True)
class Early:
    """What a key held before."""

    name: str
    size: int = 0


@dataclasses.dataclass(frozen=True)
class Renamed:
    """The same under another name that says what it was."""

    kind_in_keys: ClassVar[str] = "Early"

    name: str
    size: int = 0


@dataclasses.dataclass(frozen=True)
class OtherField:
    """With a field by another name."""

    kind_in_keys: ClassVar[str] = "Early"

    title: str
    size: int = 0


def test_a_class_or_a_field_that_is_renamed_in_keys_is_seen() -> None:
    before = kinds([Early])
    assert kinds([Renamed]) == before
    assert "changed: Early" in difference("kinds", before, kinds([OtherField]))
    unsaid = dataclasses.make_dataclass("Later", [("name", str), ("size", int)])
    assert {entry["full"] for entry in kinds([unsaid]).values()} != {
        entry["full"] for entry in before.values()
    }
    assert "vanished: Early, new: Later" in difference("kinds", before, kinds([unsaid]))


@pytest.mark.parametrize(
    ("now", "said"),
    [({"a": 1}, ""), ({}, "vanished: a"), ({"a": 1, "b": 1}, "new: b"), ({"a": 2}, "changed: a (1 -> 2)")],
)
def test_a_difference_is_told_in_one_line(now: Mapping[str, int], said: str) -> None:
    told = difference("names", {"a": 1}, now)
    assert said in told and "\n" not in told and bool(told) == bool(said) and (COMMAND in told) == bool(said)
