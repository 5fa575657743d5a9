"""Functions of the standard library in slightly edited copies, as people's tables of code hold them."""

from __future__ import annotations

import ast
import calendar
import difflib
import functools
import gettext
import heapq
import inspect
import io
import keyword
import random
import re
import shlex
import statistics
import textwrap
import tokenize
from types import ModuleType

MODULES: tuple[ModuleType, ...] = (
    calendar,
    difflib,
    functools,
    gettext,
    heapq,
    inspect,
    shlex,
    statistics,
    textwrap,
)


def functions(count: int) -> list[str]:
    """Functions of moderate length, no two of which share a third of their words."""
    found: list[tuple[str, set[str]]] = []
    for module in MODULES:
        source = inspect.getsource(module)
        for node in ast.parse(source).body:
            text = ast.get_source_segment(source, node) or ""
            words = set(re.findall(r"\w+", text))
            unlike = all(3 * len(words & other) < len(words | other) for _, other in found)
            if isinstance(node, ast.FunctionDef) and 120 < len(text) < 1500 and unlike:
                found.append((f"{text}\n", words))
    assert len(found) >= count
    return [text for text, _ in found[:: len(found) // count][:count]]


def copied(text: str, number: int, names: int = 2) -> str:
    """A copy with a comment of its own and other words for some of its names.

    Args:
        text: The function.
        number: Which copy it is: other copies have other words.
        names: How many names are others.
    """
    rng = random.Random(f"{number} {text}")
    tokens = [
        one.string
        for one in tokenize.generate_tokens(io.StringIO(text).readline)
        if one.type == tokenize.NAME and not keyword.iskeyword(one.string)
    ]
    known = sorted(set(tokens))
    other = {name: f"{name}_{number}" for name in rng.sample(known, min(names, len(known)))}
    pieces = [
        one._replace(string=other.get(one.string, one.string)) if one.type == tokenize.NAME else one
        for one in tokenize.generate_tokens(io.StringIO(text).readline)
    ]
    lines = text.splitlines(keepends=True)
    for piece in sorted(pieces, key=lambda one: one.start, reverse=True):
        if piece.type == tokenize.NAME:
            row, (begin, end) = piece.start[0] - 1, (piece.start[1], piece.end[1])
            lines[row] = lines[row][:begin] + piece.string + lines[row][end:]
    return f"# copy {number}\n{''.join(lines)}"
