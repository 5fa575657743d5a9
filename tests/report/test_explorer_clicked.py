"""The explorer of tokens in a real browser, over everything that lenses can find: nothing stops it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from playwright.sync_api import expect
from tests.report.browser import needs_browser, opened
from tests.report.clicking import click_through

from sonde.report import render_function_page
from sonde.report.explorer import FUNCTION_ID, read_slug
from sonde.report.section import AMOUNT, ANSWER, COLOURINGS, LINK, LINK_COLUMNS, Rows, TokenFindings

TEXTS = {
    "a function": ("python", "def f(x):\n    return [g(y) for y in x]\n"),
    "no tokens": ("python", "\n \n"),
    "emptiness": ("python", ""),
    "prose": ("text", "Wide 𝕊 characters, and é.\n"),
    "no grammar": ("", "some text"),
}
"""What is shown, with its language."""

FOUND: Mapping[str, tuple[dict[str, Any], Rows]] = {
    AMOUNT: (
        {
            "columns": ("bits", "rank", "entropy", "subword", "tag", "top"),
            "texts": frozenset({"subword", "tag"}),
            "facts": (("rank", "rank", ""), ("stands in", "tag", "")),
            "colourings": COLOURINGS,
        },
        [
            [0, 3, 1.5, 2, 0.5, "def", "name", ["def", 900.0, "class", 50.0]],
            [3, 5, None, None, None, "f", "", []],
        ],
    ),
    ANSWER: (
        {
            "columns": ("group", "said", "right", "hit", "layer"),
            "texts": frozenset({"group", "said", "right"}),
            "group": "task",
        },
        [[0, 3, "idn", "keyword", "name", 0, 1], [4, 5, "use", "yes", "yes", 1, 1]],
    ),
    LINK: (
        {"columns": LINK_COLUMNS, "texts": frozenset({"group", "by"}), "group": "relation"},
        [[4, 5, "Call", 1, "head 1.2", 0, 3, 0, 3], [0, 3, "If", 0, "head 0.0", 4, 5, 0, 3]],
    ),
}
"""Columns and rows of each kind of finding."""

WHOLE = [["labelled", "yes", "no", 0], ["complexity", "low", "low", 1]]


def findings(kind: str, models: Sequence[str], *, rows: bool, whole: bool) -> TokenFindings:
    """What a lens found of some models: at places, of the whole function, both or nothing."""
    columns, places = FOUND[kind]
    return TokenFindings(
        lens=kind,
        label=kind.capitalize(),
        kind=kind,  # type: ignore[arg-type]
        rows={model: {FUNCTION_ID: places} if rows else {} for model in models},
        whole={model: {FUNCTION_ID: WHOLE} if whole else {} for model in models},
        **columns,
    )


def page(text: str, found: Sequence[TokenFindings], models: int) -> str:
    language, code = TEXTS[text]
    read = {
        "bits_per_byte": 1.0, "objective": "causal", "tokens": [], "relations": [], "arcs": [],
        "without": "none",
        "unscored": "",
        "head": "",
        "seen": False,
        "training_file": "",
    }  # fmt: skip
    shown = {
        "file": "a.py", "name": "f", "line": 1, "language": language, "text": code, "others": [],
        "reads": [{**read, "model": f"model {number}"} for number in range(models)],
    }  # fmt: skip
    return render_function_page(shown, found)


def pages() -> Iterator[tuple[str, str]]:
    """Every text with every kind of finding, at places or of the whole, alone and beside another kind."""
    one, two, many = ([read_slug(number) for number in range(models)] for models in (1, 2, 20))
    ways = [(True, True), (True, False), (False, True)]
    for text, kind, (rows, whole) in itertools.product(TEXTS, FOUND, ways):
        name = f"{text}, {kind}, at places: {rows}, of the whole: {whole}"
        yield name, page(text, [findings(kind, one, rows=rows, whole=whole)], 1)
    for first, second in itertools.permutations(FOUND, 2):
        # Of the second model there is one kind alone, and that of whole functions.
        found = [
            findings(first, one, rows=True, whole=False),
            findings(second, two, rows=False, whole=True),
        ]
        yield f"{first} of one model, {second} of both", page("a function", found, 2)
    every = [findings(kind, many, rows=True, whole=True) for kind in FOUND]
    yield "20 models", page("a function", every, 20)


def test_every_kind_of_finding_is_tried() -> None:
    assert set(FOUND) == set(get_args(get_type_hints(TokenFindings)["kind"]))


@pytest.mark.slow
@needs_browser
def test_the_explorer_shows_whatever_is_found(tmp_path: Path) -> None:
    tried = dict(pages())
    with opened("", tmp_path) as shown:
        for name, text in tried.items():
            (tmp_path / "opened.html").write_text(text, encoding="utf-8")
            shown.evaluate("location.reload()")
            shown.wait_for_selector(".ex-name:not(:empty)", state="attached")
            done = click_through(shown)
            assert ("of the whole: True" not in name) or shown.locator(".ex-said").count() > 0, name
            assert done[".ex-code"] >= 1, name


@needs_browser
@pytest.mark.parametrize("hash", ["#token=%E0%A4%A:1", "#%E0%A4%A", "#token=function:99999"])
def test_an_address_that_names_nothing_opens_the_page(tmp_path: Path, hash: str) -> None:
    text = page("a function", [findings(ANSWER, [read_slug(0)], rows=False, whole=True)], 1)
    with opened(text, tmp_path) as shown:
        shown.goto(f"{(tmp_path / 'opened.html').as_uri()}{hash}")
        shown.evaluate("location.reload()")
        expect(shown.locator(".ex-said").first).to_be_visible()
        # Whole functions have no colour to choose.
        expect(shown.locator(".ex-colour")).to_be_hidden()
