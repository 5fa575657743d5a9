"""Texts and files that nobody would write, from a seed: what must never end in a traceback."""

from __future__ import annotations

import inspect
import json
import random
import textwrap
from collections.abc import Iterator
from functools import cache

SCRAPS = (
    "\x00", "\x1b[31m", "\x0c", "\x0b", "\r", "\r\n", "\ufeff", "\ud800", "\udfff", "\u202e", "\u2066",
    "\u200b", "\u2028", "\xa0", "é", "ｗ", "🎉", "\U0010ffff", "e\u0301", "\\", "\\\n", "\"", "'",
    "\"\"\"", "(", ")", "{", "}", "[", "]", ":", ";", ",", "#", "//", "/*", "*/", "@", "f'{", "\\N{",
    "def f():\n ", "class A:\n ", "if x:\n  ", "lambda", "return", "`", "$", "?", "</script>", "<!--",
    "&amp;", "datum.value", "if", "NaN", "-1", "0", "1e999", "inf", "x" * 300, "    ", "\t", "async ",
    "match x:\n case 1:\n  ", "void f() {", "new X() {", "->", "switch (x) {",
)  # fmt: skip

_JAVA = """
class Shape {
    private final int sides;
    Shape(int sides) { this.sides = sides; }
    int area(int width, int height) throws IllegalStateException {
        int total = 0;
        for (int i = 0; i < this.sides; i++) {
            if (width > height && i % 2 == 0) { total += width * height; } else { total -= i; }
        }
        try { return Math.max(total, 0); } catch (RuntimeException error) { throw error; }
        finally { total--; }
    }
}
"""


@cache
def samples() -> dict[str, tuple[str, ...]]:
    """Real code by language."""
    found = [
        obj
        for module in (textwrap, inspect, json)
        for _, obj in inspect.getmembers(module, inspect.isfunction)
        # What a library has put there while it was imported has no source (Ray: inspect.isgenerator).
        if obj.__module__ == module.__name__
    ]
    python = tuple(textwrap.dedent(inspect.getsource(one)) for one in found)
    return {
        "python": tuple(text for text in python if len(text) < 3000),
        "java": (_JAVA,),
        "text": ("A word, or two.",),
    }


def text(rng: random.Random) -> tuple[str, str]:
    """A language and a text: scraps, real code with faults, deep nesting, one long line."""
    language = rng.choice(("python", "python", "java", "java", "text"))
    kind = rng.random()
    if kind < 0.002:
        pair = rng.choice(("()", "[]", "{}", "(]"))
        return language, "x = " + pair[0] * 10_000 + pair[1] * rng.choice((0, 10_000))
    if kind < 0.003:
        return language, rng.choice(("x = 1; ", "f(x) ", "é = '", "a.b.", "# ")) * 150_000
    if kind < 0.25:
        return language, "".join(rng.choice(SCRAPS) for _ in range(rng.randrange(30)))
    if kind < 0.35:
        return language, "".join(chr(rng.randrange(0x300)) for _ in range(rng.randrange(200)))
    code = rng.choice(samples()[language])
    return language, mutated(code, rng)


def mutated(whole: str, rng: random.Random, faults: int = 5) -> str:
    """The text with pieces left out, doubled, moved or replaced by scraps."""
    for _ in range(rng.randrange(1, faults + 1)):
        start = rng.randrange(len(whole) + 1)
        end = min(len(whole), start + rng.randrange(1, 30))
        middle = rng.choice(
            ("", whole[start:end] * 2, rng.choice(SCRAPS), rng.choice(SCRAPS) + whole[start:end])
        )
        whole = whole[:start] + middle + whole[end:]
    return whole


def names(rng: random.Random) -> Iterator[str]:
    """Names that a corpus can give subwords, tags, clusters, paths and models."""
    while True:
        yield "".join(rng.choice(SCRAPS) for _ in range(rng.randrange(1, 4)))
