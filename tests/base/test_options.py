"""Typed options: what is read, what is refused, and that a refusal's own example is valid."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge

from sonde.base.errors import UnknownNameError, UsageError
from sonde.base.options import Count, OneOf, Options, Positive, Share, option, parse_value


class Chosen(Options):
    lens = "tried"

    count: Count = option(3, "how many", scoring=True)
    share: Share = option(0.25, "how much")
    several: tuple[Positive, ...] = option((1.0, 0.1), "which numbers")
    counts: tuple[Count, ...] = option((3,), "which counts")
    switch: bool = option(False, "whether")
    name: Annotated[str, OneOf(("mean", "last"))] = option("mean", "which one")
    kinds: tuple[Annotated[str, OneOf(("mean", "last"))], ...] = option(("mean",), "which ones")
    text: str = option("", "any text", corpus=True, unset="the models of the run")
    free: tuple[str, ...] = option((), "any texts")
    way: Literal["up", "down"] = option("up", "which way")
    late: Annotated[int, Ge(0)] | None = option(None, "a number or none")


def test_what_a_user_gives_is_read_by_its_type() -> None:
    read = Chosen.read(
        {"count": 5, "share": 1, "several": "0.5, 2,0.5", "counts": 7, "switch": True, "kinds": "last,mean"}
    )
    assert (read.count, read.share, read.several, read.counts) == (5, 1.0, (0.5, 2.0), (7,))
    assert (read.switch, read.kinds, read.name, read.late) == (True, ("last", "mean"), "mean", None)
    assert Chosen.read({"free": " a, b,", "late": 4}).free == ("a", "b")
    assert Chosen.among({"count": 5, "others": 1}).count == 5


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("count", 0, "is not a whole number of at least 1; for example tried.count=3"),
        ("count", True, "is not a whole number"),
        ("count", 2.0, "is not a whole number"),
        ("count", "5", "is not a whole number"),
        ("count", 10**26, "is not at most 2147483647"),
        ("share", float("nan"), "share = nan is not a number from 0 to 1; for example tried.share=0.25"),
        ("share", True, "is not a number from 0 to 1"),
        ("several", "1,inf", "is not a number above 0, or several separated by commas"),
        ("several", float("inf"), "is not a number above 0"),
        ("several", "", "is not a number above 0"),
        ("several", True, "is not a number above 0"),
        ("counts", "1,2.5", "is not a whole number of at least 1, or several"),
        ("switch", 1, "is not true or false; for example tried.switch=false"),
        ("text", 3, "is not a text"),
        ("kinds", "", "is not any of mean, last, separated by commas; for example tried.kinds=mean"),
        ("name", 3, "is not one of mean, last"),
        ("way", 3, "way = 3 is not one of up, down; for example tried.way=up"),
        ("late", -1, "is not a whole number of at least 0"),
    ],
)
def test_a_value_that_does_not_fit_is_one_line(name: str, value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)) as caught:
        Chosen.read({name: value})
    assert "\n" not in str(caught.value)
    assert f"option {name} = {value!r}" in str(caught.value)


@pytest.mark.parametrize("given", [{"name": "meen"}, {"kinds": "last,meen"}])
def test_an_unknown_name_has_its_nearest(given: dict[str, str]) -> None:
    with pytest.raises(UnknownNameError, match=r"of lens 'tried' 'meen'; did you mean 'mean'\?"):
        Chosen.read(given)
    with pytest.raises(UnknownNameError, match=r"option of lens 'tried' 'cuont'; did you mean 'count'\?"):
        Chosen.read({"cuont": 1})


def test_help_says_type_range_and_default() -> None:
    lines = Chosen.lines()
    assert lines["count"] == "how many (a whole number of at least 1; default 3)"
    assert lines["kinds"] == "which ones (any of mean, last, separated by commas; default mean)"
    assert lines["several"].endswith("or several separated by commas; default 1,0.1)")
    assert lines["text"] == "any text (a text; default the models of the run)"
    assert Chosen.names("scoring") == {"count"} and Chosen.names("corpus") == {"text"}


def test_what_is_written_on_a_command_line_has_the_type_of_the_option() -> None:
    assert Chosen.written("text", "007") == "007"
    assert Chosen.written("count", "007") == 7
    assert Chosen.written("several", "1,2") == "1,2"
    assert [parse_value(text) for text in ("50", "1e-3", "True", "50%")] == [50, 0.001, True, "50%"]
