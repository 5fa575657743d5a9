"""Python's own parser, walked the obvious way, must agree on functions, docstrings and called names.

Real differences, allowed for below:

- a function ends behind the indented comments that follow its last statement, for `ast` before them;
- a docstring keeps its escapes as written, `ast` evaluates them;
- a name stays as written, `ast` normalises it (NFKC);
- a docstring in parentheses documents for Python, here it does not (none in the sample).
"""

from __future__ import annotations

import ast
import re
import sysconfig
import unicodedata
import warnings
from pathlib import Path

import pytest

from sonde.base.fingerprint import unit_hash
from sonde.languages import LANGUAGES

PYTHON = LANGUAGES.load("python")
STDLIB = Path(sysconfig.get_path("stdlib"))


def sampled(count: int) -> list[Path]:
    skipped = {"site-packages", "lib2to3", "idlelib", "__pycache__"}
    files = [path for path in STDLIB.rglob("*.py") if not skipped & set(path.parts)]
    return sorted(files, key=lambda path: unit_hash(path.relative_to(STDLIB).as_posix()))[:count]


def read(path: Path) -> tuple[str, ast.Module] | None:
    try:
        text = path.read_bytes().decode("utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return text, ast.parse(text)
    except (UnicodeDecodeError, SyntaxError, ValueError):
        return None


class Outer(ast.NodeVisitor):
    """Functions with no enclosing function: qualified name, first line, last line, docstring."""

    def __init__(self) -> None:
        self.classes: list[str] = []
        self.found: list[tuple[str, int, int, str]] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.classes.append(node.name)
        for child in node.body:
            self.visit(child)
        self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        name = ".".join([*self.classes, node.name])
        self.found.append((name, first, node.end_lineno or 0, ast.get_docstring(node) or ""))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)


def called(module: ast.Module) -> list[tuple[str, bool]]:
    names: list[tuple[str, bool]] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.append((node.func.id, False))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names.append((node.func.attr, True))
    return sorted(names)


def defined(module: ast.Module) -> list[tuple[str, str]]:
    names: list[tuple[str, str]] = []

    def visit(node: ast.AST, around: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                names.append((child.name, "class"))
                visit(child, "class")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                names.append((child.name, "method" if around == "class" else "function"))
                visit(child, "function")
            else:
                visit(child, around)

    visit(module, "")
    return sorted(names)


def words(docstring: str) -> list[str]:
    return docstring.split()


def evaluated(docstring: str) -> str:
    """What Python reads where a docstring is written with escapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval('"""' + re.sub(r'(?<!\\)"', r"\"", docstring) + '"""')


FILES = [path for path in sampled(80) if read(path) is not None][:60]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(STDLIB).as_posix())
def test_functions_definitions_and_calls_agree_with_ast(path: Path) -> None:
    text, module = read(path) or ("", ast.Module([], []))
    outer = Outer()
    outer.visit(module)
    ours = PYTHON.functions(text)
    starts = [(function.qualified_name, text.count("\n", 0, function.start) + 1) for function in ours]
    assert starts == [found[:2] for found in outer.found]
    lines = text.splitlines()
    for function, (name, _, last, _) in zip(ours, outer.found, strict=True):
        beyond = text.count("\n", 0, function.end) + 1
        assert all(line.strip()[:1] in ("", "#") for line in lines[last:beyond]) and beyond >= last, name
    for function, (name, *_, theirs) in zip(ours, outer.found, strict=True):
        same = words(function.docstring) == words(theirs)
        assert same or words(evaluated(function.docstring)) == words(theirs), name
    assert sorted((item.name, item.kind) for item in PYTHON.definitions(text)) == defined(module)
    assert sorted(
        (unicodedata.normalize("NFKC", call.name), call.is_method) for call in PYTHON.calls(text)
    ) == called(module)
