"""Scope cases of Python's imports, each small enough to be checked by eye."""
# ruff: noqa: E501 - a case a line is easier to check by eye

import pytest

from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.imports import ImportReader

PYTHON = get_facet("python", "imports", ImportReader)

# Name of the case, text, names called in text order.
CASES: list[tuple[str, str, list[str]]] = [
    ("plain import", "import a.b\na.b.f()\na.g()", ["a.b.f", "a.g"]),
    ("alias of a dotted module", "import a.b as k\nk.f()\na.f()", ["a.b.f"]),
    ("from-import", "from a.b import c\nc()\nc.d()", ["a.b.c", "a.b.c.d"]),
    ("from-import with alias", "from a import (b as k, c)\nk.f()\nb.f()\nc()", ["a.b.f", "a.c"]),
    ("parameter shadows", "import m\ndef f(m):\n    m.g()\nm.h()", ["m.h"]),
    ("every kind of parameter shadows", "import m\ndef f(*m): m.a()\ndef g(**m): m.b()\nlambda *, m: m.c()", []),
    ("default value lies outside", "import m\ndef f(m=m.g()): m.h()\nlambda m=m.i(): m.j()", ["m.g", "m.i"]),
    ("decorator and base lie outside", "import m\n@m.d()\nclass m(m.b()): pass", ["m.d", "m.b"]),
    ("annotation lies outside", "import m\ndef f(m: m.t()) -> m.u(): m.v()", ["m.t", "m.u"]),
    ("assignment in the function shadows throughout", "import m\ndef f():\n    m.g()\n    m = 1", []),
    ("nested import", "def f():\n    import m\n    m.g()\n    def h(): m.i()\nm.j()", ["m.g", "m.i"]),
    ("import in an inner scope hides the outer", "import a as k\ndef f():\n    import b as k\n    k.g()\nk.h()", ["b.g", "a.h"]),
    ("conflicting imports in a scope", "import a as k\nimport b as k\nk.f()", ["a.f"]),
    ("try and except imports", "try:\n    import a as k\nexcept ImportError:\n    k = None\nk.f()", ["a.f"]),
    ("class body is seen in the body alone", "class C:\n    import m\n    x = m.f()\n    def g(self): m.h()", ["m.f"]),
    ("class body does not hide from methods", "import m\nclass C:\n    m = 1\n    m.f()\n    def g(self): m.h()", ["m.h"]),
    ("comprehension target", "import m\n[m.f() for m in m.g()]\n{m.h() for x in y for m in m.i()}", ["m.g"]),
    ("comprehension in a class", "class C:\n    import m\n    x = [m.f() for _ in m.g()]", ["m.g"]),
    ("walrus binds around the comprehension", "import m\ndef f():\n    [m := x for x in y]\n    m.g()", []),
    ("global import", "def f():\n    global m\n    import m\ndef g(): m.h()", ["m.h"]),
    ("global name skips the function around", "import m\ndef f(m):\n    def g():\n        global m\n        m.h()", ["m.h"]),
    ("nonlocal import", "def f():\n    m = 0\n    def g():\n        nonlocal m\n        import m\n    m.h()", ["m.h"]),
    ("nonlocal of a parameter", "import m\ndef f(m):\n    def g():\n        nonlocal m\n        m.h()", []),
    ("del makes local", "import m\ndef f():\n    m.g()\n    del m\ndel m\nm.h()", ["m.h"]),
    ("for, with and except bind", "import a, b, c\ndef f():\n    for a in x: a.f()\n    with y as (b, z): b.f()\n    try: pass\n    except E as c: c.f()", []),
    ("match patterns bind", "import a, b, c, d\ndef f(x):\n    match x:\n        case [a, *b]: a.f(), b.f()\n        case {'k': K() as c, **d}: c.f(), d.f()", []),
    ("dotted patterns bind nothing", "import a, b\ndef f(x):\n    match x:\n        case a.X: a.f()\n        case b(): b()", ["a.f", "b"]),
    ("nested definition shadows", "from m import g\ndef f():\n    def g(): pass\n    g()\ng()", ["m.g"]),
    ("augmented and annotated assignment bind", "import a, b\ndef f():\n    a += 1\n    b: int\n    a.g(), b.g()", []),
    ("an annotation binds its target alone", "import m\ndef f():\n    x: L[m] = m.g()\n    def g() -> D[m.K, m]: m.h()", ["m.g", "m.h"]),
    ("type parameters bind", "import m\ndef f[m](): m.g()\nclass C[m: int]:\n    m.h()", []),
    ("only chains of names", "import m\nm.f().g()\nm[0].g()\n(m).g()\nm.f(m.h())", ["m.f", "m.f", "m.h"]),
    ("star imports stay unbound", "from m import *\nf()\nm.f()", []),
    ("future import", "from __future__ import annotations\nannotations()", []),
    ("a module's own global statement", "global m\nimport m\nm.f()", ["m.f"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "names"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_scope_case(text: str, names: list[str]) -> None:
    assert [call.name for call in PYTHON.read(text).calls] == names


@pytest.mark.parametrize(
    ("path", "statement", "name"),
    [
        ("p/q/m.py", "from .n import x", "p.q.n.x"),
        ("p/q/m.py", "from ..n import x", "p.n.x"),
        ("p/q/__init__.py", "from . import x", "p.q.x"),
        ("p/q/m.py", "from .. import x as x", "p.x"),
        ("p/q/m.py", "from ... import x", None),
        ("m.py", "from . import x", None),
        ("", "from .n import x", None),
    ],
)
def test_relative_imports_are_made_absolute(path: str, statement: str, name: str | None) -> None:
    found = PYTHON.read(f"{statement}\nx()", path)
    assert [call.name for call in found.calls] == ([] if name is None else [name])
    assert found.unplaced == (name is None)


def test_star_imports_are_counted() -> None:
    found = PYTHON.read("from a.b import *\ndef f():\n    from .c import *", "p/m.py")
    assert found.stars == ("a.b", "p.c")


def test_aliases_are_what_stands_after_as() -> None:
    found = PYTHON.read("import a.b as k, c\nfrom d import e as f, g\nimport h.i")
    assert [(one.bound, one.name, one.written, one.alias, one.member) for one in found.imports] == [
        ("k", "a.b", "a.b", "k", False),
        ("c", "c", "c", "", False),
        ("f", "d.e", "d.e", "f", True),
        ("g", "d.g", "d.g", "", True),
        ("h", "h", "h.i", "", False),
    ]


def test_positions_are_characters_of_the_called_name() -> None:
    text = "import m\ns = 'é…𝄞'; m . f(1)"
    (call,) = PYTHON.read(text).calls
    assert text[call.start : call.end] == "m . f"
    (imported,) = PYTHON.read(text).imports
    assert text[imported.start : imported.end] == "import m"


def test_propagation_is_one_step_and_only_on_request() -> None:
    text = "import m\nx = m.C()\nx.f()\ny = x.g()\ny.h()\nz = m.D()\nz = 1\nz.i()"
    assert [call.name for call in PYTHON.read(text).calls] == ["m.C", "m.D"]
    found = PYTHON.read(text, propagate=True).calls
    assert [call.name for call in found] == ["m.C", "m.C.f", "m.C.g", "m.D"]
    assert [call.imported.bound for call in found] == ["m", "x", "x", "m"]


def test_calls_in_broken_code_are_left_out() -> None:
    text = "import m\nm.f()\n)))) m.g( ((((\n"
    assert [call.name for call in PYTHON.read(text).calls] == ["m.f"]


def test_paths_start_at_the_outermost_package() -> None:
    paths = [
        "src/p/__init__.py",
        "src/p/q/__init__.py",
        "src/p/q/m.py",
        "src/r/s.py",
        "t.py",
        "p2/__init__.pyi",
    ]
    rooted = PYTHON.to_import_paths(paths)
    assert [rooted[path] for path in paths] == [
        "p/__init__.py",
        "p/q/__init__.py",
        "p/q/m.py",
        "src/r/s.py",
        "t.py",
        "p2/__init__.pyi",
    ]


def test_a_folder_that_is_a_package_itself_is_the_first_level() -> None:
    paths = ["__init__.py", "m.py", "q/__init__.py", "q/n.py", "loose/o.py"]
    assert list(PYTHON.to_import_paths(paths, "p").values()) == [
        "p/__init__.py",
        "p/m.py",
        "p/q/__init__.py",
        "p/q/n.py",
        "loose/o.py",
    ]
    assert PYTHON.to_import_paths(["m.py", "q/__init__.py"], "p") == {
        "m.py": "m.py",
        "q/__init__.py": "q/__init__.py",
    }


def test_a_deeply_nested_text_is_read() -> None:
    text = "import m\n" + "m.f(" * 2000 + ")" * 2000
    assert len(PYTHON.read(text).calls) == 2000


def test_a_language_without_imports_says_so() -> None:
    from sonde.base.errors import UsageError

    with pytest.raises(UsageError, match="text"):
        get_facet("text", "imports", ImportReader)
    assert "python" in LANGUAGES.names()
