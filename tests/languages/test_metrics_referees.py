"""Metrics against other people's tools: radon and checkstyle, and Python's own compiler and tokenizer."""

from __future__ import annotations

import ast
import io
import re
import shutil
import subprocess
import symtable
import sysconfig
import textwrap
import tokenize
import zipfile
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sonde.languages import LANGUAGES, get_facet
from sonde.languages.engine.data_flow import Flow
from sonde.languages.engine.metrics import ExecutionPaths, Metrics

MODULES = (
    *(
        "argparse",
        "ast",
        "base64",
        "bdb",
        "cgi",
        "codecs",
        "configparser",
        "copy",
        "csv",
        "dataclasses",
        "difflib",
    ),
    *(
        "dis",
        "doctest",
        "enum",
        "fractions",
        "functools",
        "heapq",
        "inspect",
        "ipaddress",
        "locale",
        "mailbox",
    ),
    *("optparse", "pathlib", "pdb", "pickle", "platform", "plistlib", "pprint", "pydoc", "random", "shutil"),
    *(
        "smtplib",
        "statistics",
        "subprocess",
        "tarfile",
        "textwrap",
        "threading",
        "tokenize",
        "traceback",
        "typing",
    ),
    *("uuid", "warnings", "weakref", "zipfile"),
)


Parsed = tuple[str, str, ast.FunctionDef | ast.AsyncFunctionDef]


def parsed() -> Iterator[Parsed]:
    """Functions of the standard library: as an item holds one, as a module, and Python's tree of it."""
    folder = Path(sysconfig.get_path("stdlib"))
    for path in (folder / f"{name}.py" for name in MODULES):
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        for function in LANGUAGES.load("python").functions(text):
            line = text.rfind("\n", 0, function.start) + 1
            module = textwrap.dedent(text[line : function.end])
            try:
                body = ast.parse(module).body
            except SyntaxError:  # Text at the margin inside a string keeps the rest from being dedented.
                continue
            if len(body) == 1 and isinstance(body[0], ast.FunctionDef | ast.AsyncFunctionDef):
                yield text[function.start : function.end], module, body[0]


@pytest.fixture(scope="module")
def functions() -> list[Parsed]:
    return list(parsed())


@pytest.fixture(scope="module")
def python() -> Metrics:
    return get_facet("python", "metrics", Metrics)


def test_complexity_of_python_is_radons(python: Metrics, functions: list[Parsed]) -> None:
    visitors = pytest.importorskip("radon.visitors")
    assert len(functions) > 1000
    for code, module, _ in functions:
        assert (
            python.complexity(code) == visitors.ComplexityVisitor.from_code(module).functions[0].complexity
        ), code


def test_length_of_python_is_the_tokenizers(python: Metrics, functions: list[Parsed]) -> None:
    layout = {"NL", "NEWLINE", "INDENT", "DEDENT", "COMMENT", "ENDMARKER"}
    for code, module, _ in functions[:600]:
        opened = count = 0
        for token in tokenize.generate_tokens(io.StringIO(module).readline):
            # Pythons from 3.12 on take f-strings apart; one is one token here.
            name = tokenize.tok_name[token.type]
            count += name not in layout and not opened
            opened += (name == "FSTRING_START") - (name == "FSTRING_END")
        assert len(python.leaves(code)) == count, code


def test_variables_of_python_are_the_compilers(functions: list[Parsed]) -> None:
    flow = get_facet("python", "flow", Flow)
    for code, module, node in functions:
        table = next(child for child in symtable.symtable(module, "m", "exec").get_children())
        if table.get_type() != "function" or any(isinstance(inner, ast.ClassDef) for inner in ast.walk(node)):
            continue
        theirs = {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_local() and not symbol.is_imported() and not symbol.is_namespace()
        }
        # A name that is both imported and assigned is an import to the compiler.
        imported = {
            (alias.asname or alias.name).partition(".")[0]
            for inner in ast.walk(node)
            if isinstance(inner, ast.Import | ast.ImportFrom)
            for alias in inner.names
        }
        found = flow.variables(code)
        if any(
            isinstance(inner, ast.Lambda | ast.FunctionDef) for inner in ast.walk(node) if inner is not node
        ):
            assert theirs <= {variable.name for variable in found}, code
        else:
            outer = min((variable.scope for variable in found), default=0)
            assert {variable.name for variable in found if variable.scope == outer} - imported == theirs, code


def blocks(node: Any) -> int:
    """Depth of statements below a function, by the compiler's tree."""
    deepest = 0
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        children = getattr(node, name, None)
        if not isinstance(children, list):
            continue
        # `elif` is an if in the else of another, in the other's own column.
        inner = children[0] if name == "orelse" and isinstance(node, ast.If) and len(children) == 1 else None
        elif_ = isinstance(inner, ast.If) and inner.col_offset == node.col_offset
        step = 0 if name == "handlers" or elif_ else 1
        for child in children:
            deepest = max(deepest, step + blocks(child))
    return deepest


def test_nesting_of_python_is_that_of_the_compilers_tree(python: Metrics, functions: list[Parsed]) -> None:
    for code, _, node in functions:
        assert python.nesting_depth(code) == blocks(node), code


class Npath(ast.NodeVisitor):
    """Nejmeh's rules over the compiler's tree: an obvious recursion, to compare with."""

    def row(self, statements: list[ast.stmt]) -> int:
        value = 1
        for statement in statements:
            value *= self.statement(statement)
        return value

    def operators(self, *expressions: ast.AST | None) -> int:
        found = [inner for one in expressions if one is not None for inner in ast.walk(one)]
        signs = sum(len(one.values) - 1 for one in found if isinstance(one, ast.BoolOp))
        return signs + 2 * sum(isinstance(one, ast.IfExp) for one in found)

    def ternaries(self, node: ast.AST) -> int:
        if isinstance(node, ast.IfExp):
            return self.operators(node)
        value = 1
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.stmt | ast.FunctionDef | ast.ClassDef):
                value *= self.ternaries(child)
        return value

    def statement(self, node: ast.stmt) -> int:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return 1
            case ast.If():
                return (
                    self.row(node.body)
                    + (self.row(node.orelse) if node.orelse else 1)
                    + self.operators(node.test)
                )
            case ast.While():
                return self.row(node.body) + self.row(node.orelse) + self.operators(node.test)
            case ast.For() | ast.AsyncFor():
                return self.row(node.body) + self.row(node.orelse) + self.operators(node.iter)
            case ast.Try():
                body = self.row(node.body) * self.row(node.orelse)
                return (body + sum(self.row(one.body) for one in node.handlers)) * self.row(node.finalbody)
            case ast.With() | ast.AsyncWith():
                inside = self.row(node.body)
                for item in node.items:
                    inside *= self.ternaries(item)
                return inside
            case ast.Return():
                return max(self.operators(node.value), 1)
            case _:
                return self.ternaries(node)


def test_npath_of_python_is_nejmehs_by_plain_recursion(python: Metrics, functions: list[Parsed]) -> None:
    compared = 0
    for code, _, node in functions:
        if any(isinstance(inner, ast.Match) for inner in ast.walk(node)):
            continue
        compared += 1
        assert get_facet("python", "npath", ExecutionPaths).count(code) == Npath().row(node.body), code
    assert compared > 1000


CONFIGURATION = """<?xml version="1.0"?>
<!DOCTYPE module PUBLIC "-//Checkstyle//DTD Checkstyle Configuration 1.3//EN"
  "https://checkstyle.org/dtds/configuration_1_3.dtd">
<module name="Checker"><property name="haltOnException" value="false"/><module name="TreeWalker">
<module name="NPathComplexity"><property name="max" value="-1"/></module>
<module name="CyclomaticComplexity"><property name="max" value="0"/></module>
</module></module>
"""

REPORTED = re.compile(r"\[ERROR\] (.*?):(\d+)(?::(\d+))?: (Cyclomatic|NPath) Complexity is ([\d,.\s]+?) \(")


def java_source() -> Path | None:
    found = sorted(Path("/usr/lib/jvm").glob("*/lib/src.zip"))
    return next((path for path in found if "17" in path.parent.parent.name), found[0] if found else None)


@pytest.mark.slow
def test_complexity_and_npath_of_java_are_checkstyles(tmp_path: Path) -> None:
    program, source = shutil.which("checkstyle"), java_source()
    if program is None or source is None:
        pytest.skip("needs checkstyle and the sources of a JDK (Debian: checkstyle, openjdk-17-source)")
    with zipfile.ZipFile(source) as archive:
        names = [
            name for name in archive.namelist() if re.match(r"java\.base/java/(io|net|text)/\w+\.java$", name)
        ]
        archive.extractall(tmp_path, names)
    (tmp_path / "checks.xml").write_text(CONFIGURATION)
    run = subprocess.run(
        [program, "-c", "checks.xml", "java.base"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    theirs: dict[tuple[str, int, int, str], int] = {}
    for found in REPORTED.finditer(run.stdout):
        digits = int(re.sub(r"\D", "", found[5]))
        theirs[str(Path(found[1]).resolve()), int(found[2]), int(found[3] or 1), found[4]] = digits
    metrics = get_facet("java", "metrics", Metrics)
    compared, wrong, unexplained = 0, 0, []
    for path in sorted((tmp_path / "java.base").rglob("*.java")):
        text = path.read_text(encoding="utf-8")
        lines = [0, *(match.end() for match in re.finditer("\n", text))]
        for function in LANGUAGES.load("java").functions(text):
            line = bisect_right(lines, function.start)
            column = len(text[lines[line - 1] : function.start].expandtabs(8)) + 1
            place = (str(path.resolve()), line, column)
            if (*place, "Cyclomatic") not in theirs:
                continue
            compared += 1
            code = text[function.start : function.end]
            assert metrics.complexity(code) == theirs[*place, "Cyclomatic"], code
            # checkstyle says 0 where nothing branches: that is one path.
            if get_facet("java", "npath", ExecutionPaths).count(code) != max(theirs[*place, "NPath"], 1):
                wrong += 1
                inner = len(metrics.captured(code).get("function", [])) > 1
                if not inner and not re.search(r"\bdo\b", code):
                    unexplained.append(code)
    assert compared > 1000
    assert not unexplained
    assert wrong <= 0.01 * compared
