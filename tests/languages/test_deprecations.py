"""Pairs of deprecated names and replacements, from messages as libraries write them."""

import pytest

from sonde.languages import facet_of
from sonde.languages._deprecations import NO_REPLACEMENT, NOT_ITSELF, Deprecations, Said, said

FACET = facet_of("python", "deprecations", Deprecations)

CASES = {
    "a warning": (
        'def old():\n    warnings.warn("old is deprecated, use new instead", DeprecationWarning, 2)\n'
        "def new(): ...\n",
        ("lib.m.old", "lib.m.new", (0, 0)),
    ),
    "parts of a message and a keyword": (
        "def old():\n    warn('This function is deprecated. '\n"
        "         'Use `new()` instead.', category=FutureWarning)\n"
        "def new(): ...\n",
        ("lib.m.old", "lib.m.new", (0, 0)),
    ),
    "a message in a variable": (
        'def old():\n    msg = ("old() is deprecated; "\n           "use new() instead")\n'
        "    warnings.warn(msg, DeprecationWarning)\ndef new(): ...\n",
        ("lib.m.old", "lib.m.new", (0, 0)),
    ),
    "a method and its sibling": (
        "class C:\n    def isSet(self):\n"
        '        warn("isSet() is deprecated, use is_set() instead", DeprecationWarning)\n'
        "    def is_set(self): ...\n",
        ("lib.m.C.isSet", "lib.m.C.is_set", (1, 1)),
    ),
    "a class by its constructor": (
        'class Old:\n    def __init__(self):\n        warn("Use New instead", DeprecationWarning)\n'
        "class New: ...\n",
        ("lib.m.Old", "lib.m.New", (0, 0)),
    ),
    "a decorator": (
        '@deprecated("Use `new` instead.")\ndef old(): ...\ndef new(): ...\n',
        ("lib.m.old", "lib.m.new", (0, 0)),
    ),
    "an imported replacement": (
        "import subprocess as sp\ndef old():\n"
        '    """Run.\n\n    .. deprecated:: 1.17\n        Use sp.Popen instead\n    """\n',
        ("lib.m.old", "subprocess.Popen", (0, 0)),
    ),
    "a documented one": (
        'def old():\n    """Deprecated since version 3.1: use :func:`new` instead."""\ndef new(): ...\n',
        ("lib.m.old", "lib.m.new", (0, 0)),
    ),
    "a removed one": (
        'def old():\n    raise AttributeError("`old` was removed in 2.0. Use `lib.other.new` instead.")\n',
        ("lib.m.old", "lib.other.new", (0, 0)),
    ),
    "a member of a class elsewhere": (
        'import lib.n\ndef old():\n    warn("old is deprecated, use lib.n.C.new", DeprecationWarning)\n',
        ("lib.m.old", "lib.n.C.new", (0, 1)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_pairs_are_read(case: str) -> None:
    text, expected = CASES[case]
    found, left_out = FACET.read(text, "lib/m.py")
    assert [(one.deprecated, one.replacement, one.members) for one in found] == [expected], left_out


@pytest.mark.parametrize(
    "text",
    [
        # No deprecation, a parameter, words, what a running program alone knows, and no name of its own.
        'def old():\n    warn("old is deprecated, use new instead", UserWarning)\ndef new(): ...\n',
        'def old(key):\n    warn("key is deprecated, use new instead", DeprecationWarning)\ndef new(): ...\n',
        'def old():\n    warn("old is deprecated, use a custom context instead", DeprecationWarning)\n',
        'def old():\n    warn(f"{x} is deprecated, use new instead", DeprecationWarning)\ndef new(): ...\n',
        'def old():\n    warn("old is deprecated, use gone instead", DeprecationWarning)\n',
        'def old():\n    warn("old is deprecated, use old instead", DeprecationWarning)\n',
        'def _old():\n    warn("_old is deprecated, use new instead", DeprecationWarning)\ndef new(): ...\n',
        'warn("old is deprecated, use a.b instead", DeprecationWarning)\n',
        'def f():\n    """Nothing is deprecated here; use it."""\n',
    ],
)
def test_what_gives_no_pair(text: str) -> None:
    found, _ = FACET.read(text, "lib/m.py")
    assert found == []


def test_reasons_are_counted() -> None:
    text = 'def f(x):\n    warn("Passing x is deprecated, use y instead", DeprecationWarning)\n'
    assert FACET.read(text, "m.py")[1] == {NOT_ITSELF: 1}
    assert said("It is deprecated.") == NO_REPLACEMENT
    assert said("a.b() has been deprecated in favor of a.c.") == Said("a.b", "a.c")


def test_the_place_is_that_of_the_definition() -> None:
    text = 'é = 1\ndef old():\n    warn("old is deprecated, use new", DeprecationWarning)\ndef new(): ...\n'
    (found,), _ = FACET.read(text, "lib/__init__.py")
    assert (found.deprecated, found.replacement) == ("lib.old", "lib.new")
    assert text[found.start :].startswith("def old")
