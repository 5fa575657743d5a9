"""Every text that a user can meet, by module; ``make strings`` prints it to be read with their eyes.

These are the string literals with words in them (messages, help, titles, captions, tables), the templates of
the page, and of docstrings those that are shown: of commands, and the first line of what `sonde list` names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "sonde"
_REGISTERED = ("lenses", "tasks", "report", "corpora", "executors", "languages", "models")
_MARKUP = re.compile(r"{#.*?#}|{[{%].*?[%}]}|<[^>]*>", re.DOTALL)
_WORDS = re.compile(r"[A-Za-z]{2,}[ ,:;]+[A-Za-z({]|^[A-Z][a-z]+$")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of what a user can meet in a module; ``{}`` is what an f-string fills in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = _docstrings(tree)
    shown = _shown(path, tree)
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, _filled(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            if node not in docstrings:
                yield node.lineno, node.value
            elif node in shown:
                yield node.lineno, shown[node]


def _filled(node: ast.JoinedStr) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def _docstrings(tree: ast.Module) -> set[ast.AST]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _shown(path: Path, tree: ast.Module) -> dict[ast.AST, str]:
    """Docstrings that are shown: of commands whole, of registered modules the first line."""
    found: dict[ast.AST, str] = {}
    if path.parent == SOURCE:
        for node in tree.body:
            if (
                isinstance(node, ast.FunctionDef)
                and node.decorator_list
                and (text := ast.get_docstring(node))
            ):
                found[node.body[0].value] = text  # type: ignore[attr-defined]
    elif path.relative_to(SOURCE).parts[0] in _REGISTERED and (text := ast.get_docstring(tree)):
        found[tree.body[0].value] = text.partition("\n")[0]  # type: ignore[attr-defined]
    return found


def template_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of a template of the page, without markup."""
    text = _MARKUP.sub(lambda found: re.sub(r"[^\n]+", " ", found[0]), path.read_text(encoding="utf-8"))
    yield from enumerate(text.splitlines(), 1)


def main() -> int:
    """Print them all."""
    for path in sorted(SOURCE.rglob("*")):
        found = texts(path) if path.suffix == ".py" else template_texts(path) if path.suffix == ".j2" else ()
        for line, text in sorted(found):
            if _WORDS.search(text.strip()):
                sys.stdout.write(f"{path.relative_to(SOURCE)}:{line}: {' '.join(text.split())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
