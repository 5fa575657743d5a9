"""Pairs of deprecated names and replacements, from messages as libraries write them."""

import pytest

from sonde.languages import get_facet
from sonde.languages.engine.deprecations import (
    NO_REPLACEMENT,
    OTHER_SUBJECT,
    Deprecations,
    Notice,
    parse_notice,
)

FACET = get_facet("python", "deprecations", Deprecations)

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
        'warn("old is deprecated, use a.b instead", DeprecationWarning)\n',
        'def f():\n    """Nothing is deprecated here; use it."""\n',
    ],
)
def test_what_gives_no_pair(text: str) -> None:
    found, _ = FACET.read(text, "lib/m.py")
    assert found == []


def test_reasons_are_counted() -> None:
    text = 'def f(x):\n    warn("Passing x is deprecated, use y instead", DeprecationWarning)\n'
    assert FACET.read(text, "m.py")[1] == {OTHER_SUBJECT: 1}
    assert parse_notice("It is deprecated.") == NO_REPLACEMENT
    assert parse_notice("a.b() has been deprecated in favor of a.c.") == Notice("a.b", "a.c")


def test_the_place_is_that_of_the_definition() -> None:
    text = 'é = 1\ndef old():\n    warn("old is deprecated, use new", DeprecationWarning)\ndef new(): ...\n'
    (found,), _ = FACET.read(text, "lib/__init__.py")
    assert (found.deprecated, found.replacement) == ("lib.old", "lib.new")
    assert text[found.start :].startswith("def old")


DIRECTIVE = '''
def old(x):
    """Do.

    .. deprecated:: 2.1
        {}

    Parameters
    ----------
    x : int
        .. deprecated:: 2.0
            Use :func:`other` instead.
    """
def new(): ...
def other(): ...
'''


@pytest.mark.parametrize(
    "text",
    [
        # A keyword: in one branch, by its name, as what is to be used, where parameters are documented.
        'def old(x):\n    if x:\n        warn("Use new instead", FutureWarning)\ndef new(): ...\n',
        'def old(x):\n    if x:\n        warn("x is deprecated, use new", FutureWarning)\ndef new(): ...\n',
        'def old(new):\n    warn("old is deprecated, use new", FutureWarning)\ndef new(): ...\n',
        'def old(x):\n    """Do.\n\n    Args:\n        x: it.\n            Deprecated, use `new`.\n    """\n'
        "def new(): ...\n",
        'class old:\n    """Do.\n\n    Parameters\n    ----------\n    x : int\n        .. deprecated:: 2.1\n'
        '            Use :meth:`old.new` instead.\n    """\n    def new(self): ...\n',
        'def old(x):\n    warn("old is deprecated with x, use new", FutureWarning)\ndef new(): ...\n',
        # A behaviour, a default, a case, a value.
        DIRECTIVE.format("Passing a list to ``old`` is deprecated. Use :func:`new` instead."),
        DIRECTIVE.format("The default of ``x`` is deprecated; use `new` instead."),
        DIRECTIVE.format("Use :func:`new` when all items are there."),
        DIRECTIVE.format("The ``'auto'`` and ``'slow'`` options are deprecated. Use ``'new'`` instead."),
        DIRECTIVE.format("This keyword is deprecated, use `new` instead."),
        'def old(x):\n    warn("Use of lists is deprecated, use new", FutureWarning)\ndef new(): ...\n',
    ],
)
def test_a_keyword_or_a_behaviour_is_no_name(text: str) -> None:
    assert FACET.read(text, "lib/m.py")[0] == []


@pytest.mark.parametrize(
    "said_so", ["Use :func:`new` instead.", "Renamed to `new`.", "`old` is deprecated, use `new`."]
)
def test_what_a_directive_at_the_margin_says_is_about_the_definition(said_so: str) -> None:
    found, _ = FACET.read(DIRECTIVE.format(said_so), "lib/m.py")
    assert [(one.deprecated, one.replacement) for one in found] == [("lib.m.old", "lib.m.new")]


def test_names_are_those_that_users_import() -> None:
    old = 'class C:\n    def old(self):\n        """Deprecated, use `C.new`."""\n    def new(self): ...\n'
    files = {
        "lib/__init__.py": "from lib.api import C\nfrom lib.deep import n\nfrom ._priv import *\n"
        "def f():\n    from lib.m import g\n",
        "lib/api.py": "from lib.core._m import C as C\n",
        "lib/core/_m.py": old,
        "lib/_priv.py": '__all__ = ["shown"]\ndef shown(): ...\ndef kept(): ...\n',
        "lib/m.py": "def g(): ...\n",
        "lib/deep/n.py": "def h(): ...\n",
        "lib/circle.py": "from lib.other import a\n",
        "lib/other.py": "from lib.circle import a\n",
    }
    (found,), _ = FACET.read(old, "lib/core/_m.py")
    assert found.deprecated == "lib.core._m.C.old"
    names = [
        "lib.core._m.C.old",
        "lib._priv.shown",
        "lib._priv.kept",
        "lib.m.g",
        "lib.deep.n.h",
        "lib.circle.a",
        "os.path",
    ]
    public = FACET.public(names, [(text, path) for path, text in files.items()])
    assert [public[name] for name in names] == [
        "lib.C.old", "lib.shown", "lib._priv.kept", "lib.m.g", "lib.deep.n.h", "lib.circle.a", "os.path",
    ]  # fmt: skip
