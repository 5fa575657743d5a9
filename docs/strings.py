"""Every text that a user can meet, by module; ``make strings`` prints it to be read with their eyes.

These are the string literals with words in them (messages, help, titles, captions, tables), the templates of
the report, texts of TOML files that are printed, and of docstrings those that are printed: those of commands,
and those of extensions, by `sonde list` and `sonde explain`. ``make check`` reads the same texts
(`tools/prose.py`).
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src" / "sonde"
_EXTENSIONS = (
    "lenses/*/__init__.py",
    "tasks/*/*.py",
    "report/sections/*/*.py",
    "corpora/sources/*.py",
    "executors/*.py",
    "languages/*/__init__.py",
    "models/families/*.py",
)
_TABLES = ("results/glossary.toml", "cli/examples.toml", "lenses/*/metrics.toml")
_MARKUP = re.compile(r"{#.*?#}|{[{%].*?[%}]}|<(?:style|script)\b.*?</(?:style|script)>|<[^>]*>", re.DOTALL)
_WORDS = re.compile(r"[A-Za-z]{2,}[ ,:;]+[A-Za-z({]|^[A-Z][a-z]+$")
_ARRAYS = frozenset(
    (
        "Float",
        "Float32",
        "Float64",
        "Int",
        "Int32",
        "Int64",
        "UInt8",
        "Integer",
        "Bool",
        "Num",
        "Real",
        "Shaped",
    )
)
_TYPES = frozenset(("cast", "TypeVar", "ParamSpec"))


def list_texts(path: Path) -> list[tuple[int, str]]:
    """List line and text of what a user can meet in a file, as lines are printed.

    Args:
        path: A Python module, a template or a TOML file; other files have no texts.
    """
    match path.suffix:
        case ".py":
            texts = _read_module(path)
        case ".j2":
            texts = _read_template(path)
        case ".toml" if any(path.match(pattern) for pattern in _TABLES):
            texts = _read_table(path)
        case _:
            return []
    return sorted((line, text) for line, text in texts if _WORDS.search(text.strip()))


def _read_module(path: Path) -> Iterator[tuple[int, str]]:
    """Yield texts of a module; ``{}`` is what an f-string fills in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    printed = _find_printed(path, tree)
    skipped = {
        part
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) or _is_type(node)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, _fill(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            if node not in docstrings:
                yield node.lineno, node.value
            elif node in printed:
                yield node.lineno, printed[node]


def _is_type(node: ast.AST) -> bool:
    """Tell whether a node is the shape of an array, or names a type by a string."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and node.value.id in _ARRAYS
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TYPES


def _fill(node: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def _find_printed(path: Path, tree: ast.Module) -> dict[ast.AST, str]:
    """Find docstrings that are printed: those of commands, and of modules that are extensions."""
    nodes: list[ast.Module | ast.FunctionDef] = []
    if path.parent == SOURCE / "cli":
        nodes += [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    if any(path.match(pattern) for pattern in _EXTENSIONS) and not {"engine", "_"} & {
        *path.parts,
        path.stem[0],
    }:
        nodes.append(tree)
    return {
        node.body[0].value: text
        for node in nodes
        if (text := ast.get_docstring(node)) and isinstance(node.body[0], ast.Expr)
    }


def _read_template(path: Path) -> Iterator[tuple[int, str]]:
    """Yield lines of a template of the report, without markup."""
    text = _MARKUP.sub(lambda found: re.sub(r"[^\n]+", " ", found[0]), path.read_text(encoding="utf-8"))
    yield from enumerate(text.splitlines(), 1)


def _read_table(path: Path) -> Iterator[tuple[int, str]]:
    """Yield texts of a TOML file; of examples of commands the lines that say what they are for."""
    content = path.read_text(encoding="utf-8")
    for text in _walk(tomllib.loads(content)):
        lines = re.findall(r"^# (.*)", text, re.MULTILINE) if "\n" in text else [text]
        for line in lines:
            yield content[: max(0, content.find(line))].count("\n") + 1, line


def _walk(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _walk(member)


def main() -> int:
    """Print them all."""
    for path in sorted(SOURCE.rglob("*")):
        for line, text in list_texts(path):
            sys.stdout.write(f"{path.relative_to(SOURCE)}:{line}: {' '.join(text.split())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
