import dataclasses
import json
import subprocess
import sys
from pathlib import PurePosixPath
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.base.fingerprint import (
    OMITTED_AT_DEFAULT,
    derive_seed,
    fingerprint,
    hash_bytes,
    hash_text,
    unit_hash,
)

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@dataclasses.dataclass(frozen=True)
class One:
    value: int


@dataclasses.dataclass(frozen=True)
class Other:
    value: int


@dataclasses.dataclass(frozen=True)
class NamedLikeOne:
    value: int

    kind_in_keys: ClassVar[str] = "One"


@given(st.dictionaries(st.text(), plain))
def test_order_of_keys_does_not_matter(mapping: dict[str, object]) -> None:
    assert fingerprint(mapping) == fingerprint(dict(reversed(mapping.items())))


@given(st.lists(st.text() | st.integers() | st.booleans() | st.none()))
def test_what_is_written_by_hand_is_what_the_encoder_writes(parts: list[object]) -> None:
    # A hash that samples and ids are made of must never become another one.
    written = json.dumps(parts, separators=(",", ":")).encode()
    assert fingerprint(*parts) == hash_bytes(written)


def test_different_values_and_kinds_differ() -> None:
    assert fingerprint(1) != fingerprint("1")
    assert fingerprint(1, 2) != fingerprint(2, 1)
    assert fingerprint(One(1)) != fingerprint(Other(1))
    assert fingerprint(One(1)) == fingerprint(NamedLikeOne(1))
    assert fingerprint({"a", "b"}) == fingerprint({"b", "a"})
    assert fingerprint(PurePosixPath("a/b")) == fingerprint("a/b")


def test_what_has_no_plain_form_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot fingerprint a object"):
        fingerprint(object())
    with pytest.raises(ValueError, match="JSON"):
        fingerprint(float("nan"))


def test_hash_seed_of_the_interpreter_does_not_matter() -> None:
    code = "from sonde.base.fingerprint import fingerprint; print(fingerprint({'a', 'b', 'c'}, {'x': 1}))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_lone_surrogates_have_a_hash_of_their_own() -> None:
    assert hash_text("\ud800") != hash_text("?")


@given(st.text(), st.integers())
def test_unit_hash_lies_in_the_unit_interval(text: str, number: int) -> None:
    assert 0 <= unit_hash(text, number) < 1


def test_unit_hash_is_even() -> None:
    values = [unit_hash("even", index) for index in range(4000)]
    for tenth in range(10):
        share = sum(tenth / 10 <= value < (tenth + 1) / 10 for value in values) / len(values)
        # Five standard deviations of a binomial share around one tenth.
        assert abs(share - 0.1) < 5 * (0.1 * 0.9 / len(values)) ** 0.5


def test_seeds_differ_by_use() -> None:
    assert derive_seed("a", 0) != derive_seed("b", 0)
    assert 0 <= derive_seed("a") < 2**63


def test_a_field_that_is_omitted_at_its_default_is_part_of_a_key_once_it_is_given() -> None:
    before = dataclasses.make_dataclass("Kind", [("name", str)], frozen=True)
    added = ("depth", int, dataclasses.field(default=3, metadata=OMITTED_AT_DEFAULT))
    after = dataclasses.make_dataclass("Kind", [("name", str), added], frozen=True)
    assert fingerprint(before("a")) == fingerprint(after("a")) == fingerprint(after("a", 3))
    assert fingerprint(after("a")) != fingerprint(after("a", 4))
    assert fingerprint([before("a")]) == fingerprint([after("a")])
