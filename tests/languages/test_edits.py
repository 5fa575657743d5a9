import ast
import io
import keyword
import tokenize
from collections import Counter
from pathlib import Path

import pytest

from sonde.languages import LANGUAGES, get_facet, has_facet
from sonde.languages.engine.edits import Edits

MODULES = ["bisect", "textwrap", "fnmatch", "heapq", "shlex"]


def edits(language: str) -> Edits:
    return get_facet(language, "edits", Edits)


def source(module: str) -> str:
    return (Path(ast.__file__).parent / f"{module}.py").read_text(encoding="utf-8")


def surfaces(language: str, text: str, what: str) -> list[str]:
    return [place.surface for place in edits(language).places(text, what)]


@pytest.mark.parametrize("module", MODULES)
def test_python_keywords_are_those_of_tokenize(module: str) -> None:
    text = source(module)
    known = {word for words in edits("python").keywords.values() for word in words}
    read = tokenize.generate_tokens(io.StringIO(text).readline)
    expected = Counter(
        token.string for token in read if token.type == tokenize.NAME and token.string in known
    )
    assert Counter(place.surface for place in edits("python").keyword_spans(text)) == expected


def test_every_python_keyword_has_one_category() -> None:
    words = [word for words in edits("python").keywords.values() for word in words]
    assert sorted(words) == sorted(keyword.kwlist)


@pytest.mark.parametrize("module", MODULES)
def test_python_blocks_are_the_bodies_of_ast(module: str) -> None:
    text = source(module)
    lines = text.splitlines()
    bodies = [
        body
        for node in ast.walk(ast.parse(text))
        for name in ("body", "orelse", "finalbody")
        if isinstance(body := getattr(node, name, None), list) and body and not isinstance(node, ast.Module)
    ]
    # `elif` is an `else` that holds one `if` to ast, and a clause without a block of its own to the grammar.
    expected = Counter(
        len(body)
        for body in bodies
        if not (isinstance(body[0], ast.If) and lines[body[0].lineno - 1].lstrip().startswith("elif"))
    )
    assert Counter(len(block) for block in edits("python").blocks(text)) == expected


@pytest.mark.parametrize("module", MODULES)
def test_python_operators_are_those_of_ast(module: str) -> None:
    text = source(module)
    signs = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
    expected = Counter(
        signs[type(operator)]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Compare)
        for operator in node.ops
        if type(operator) in signs
    )
    assert Counter(surfaces("python", text, "relational")) == expected


JAVA = """public int f(int x, String... y) { // c
  if (x <= 3 && y != null) { x = 4; int z = x; z += 1; return "a b" + z; } else { return 'c'; }
  for (Object o : y) { x++; }
}"""


def test_places_in_java() -> None:
    assert surfaces("java", JAVA, "type") == ["int", "int", "int"]
    assert surfaces("java", JAVA, "relational") == ["<=", "!="]
    assert surfaces("java", JAVA, "assignment") == ["=", "=", "+="]
    assert surfaces("java", JAVA, "bound") == ["y", "x", "z", "z", "o", "x"]
    blocks = edits("java").blocks(JAVA)
    assert [len(block) for block in blocks] == [2, 4, 1, 1]
    assert [token.surface for token in edits("java").tokens(JAVA)][:12] == [
        *("public", "int", "f", "(", "int", "x", ",", "String", "...", "y", ")", "{"),
    ]
    assert '"a b"' in {token.surface for token in edits("java").tokens(JAVA)}


def test_types_of_python_stand_for_themselves() -> None:
    text = "def str(int, x: list = 1, *, dict=2):\n    a.float(x, set=bytes)\n"
    text += "    for bool in tuple(x):\n        pass\n"
    assert surfaces("python", text, "type") == ["list", "bytes", "tuple"]


@pytest.mark.parametrize("language", ["python", "java"])
def test_tokens_hold_all_but_comments_and_blanks(language: str) -> None:
    texts = {"python": "def f(x):  # no\n    s = 'a # b'\n    return f'{x} {s}'\n", "java": JAVA}
    text = texts[language]
    for comment in ("# no", "// c"):
        text_without = text.replace(comment, "")
        if text_without != text:
            joined = "".join(token.surface for token in edits(language).tokens(text))
            assert "".join(joined.split()) == "".join(text_without.split())


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("python", "def x(self):\n    return self._x\n", True),
        ("python", "@property\ndef x(self):\n    '''The x.'''\n    return self._x\n", True),
        ("python", "def set_x(self, x):\n    self.x = x\n", True),
        ("python", "def x(self):\n    return self._x + 1\n", False),
        ("python", "def set_x(self, x):\n    self.x = x\n    self.y = x\n", False),
        ("python", "def x(self):\n    return self.y()\n", False),
        ("java", "int getX() { return x; }", True),
        ("java", "public int getX() { return this.x; }", True),
        ("java", "void setX(int x) { this.x = x; }", True),
        ("java", "Foo setX(int x) { this.x = x; return this; }", True),
        ("java", "int getX() { log(); return x; }", False),
        ("java", "void setX(int x) { this.x = x + 1; }", False),
    ],
)
def test_getters_and_setters(language: str, text: str, expected: bool) -> None:
    assert edits(language).is_accessor(text) is expected


def test_what_does_not_parse() -> None:
    assert edits("python").parses("def f():\n    pass\n")
    assert not edits("python").parses("def f(:\n    pass\n")
    assert not edits("java").parses("int f( { }")
    assert edits("java").parses("int f(int a) { return switch (a) { case 1 -> LEAST; default -> a; }; }")
    assert not edits("java").parses("int f(int a) { a; return a; }")


@pytest.mark.parametrize("language", [name for name in LANGUAGES.names() if has_facet(name, "tokens")])
def test_categories_of_a_language_share_no_word(language: str) -> None:
    words = Counter(word for words in edits(language).keywords.values() for word in words)
    assert set(words.values()) == {1}
