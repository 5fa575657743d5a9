"""What the names at the top of the modules of a tree stand for, through imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

DEFINITION, MODULE, OUTSIDE, IMPORT = "definition", "module", "outside", "import"
"""Kinds of targets; an import is one that has yet to be followed."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+(:\w+)?")


class Target(NamedTuple):
    """What a name stands for; something from outside has its whole dotted name as the module."""

    kind: str
    module: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.module}.{self.name}".strip(".")


def collect_bindings(nodes: Iterable[ast.AST], package: str) -> dict[str, Target | None]:
    """Collect the names that statements bind in their own scope, the last binding of each.

    Args:
        nodes: The body of a scope.
        package: The package that relative imports begin in.
    """
    found: dict[str, Target | None] = {}
    elsewhere: set[str] = set()

    def visit(node: ast.AST, comprehended: bool) -> None:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = None
                return
            case ast.Lambda():
                return
            case ast.Import(names=aliases):
                for alias in aliases:
                    top = alias.name.partition(".")[0]
                    found[alias.asname or top] = Target(IMPORT, alias.name if alias.asname else top)
            case ast.ImportFrom(names=aliases, level=level):
                parents = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                module = ".".join([*parents, *([node.module] if node.module else [])])
                found.update(
                    {alias.asname or alias.name: Target(IMPORT, module, alias.name) for alias in aliases}
                )
            case ast.NamedExpr(target=target):
                found[target.id] = None
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if not comprehended:
                found[name] = None
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name) if name:
                found[name] = None
            case ast.MatchMapping(rest=name) if name:
                found[name] = None
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                elsewhere.update(names)
            case _:
                pass
        for child in ast.iter_child_nodes(node):
            visit(child, comprehended or isinstance(node, COMPREHENSIONS))

    for node in nodes:
        visit(node, False)
    return {name: target for name, target in found.items() if name not in elsewhere and name != "__all__"}


class Tree:
    """The modules of a tree and what the names at their top stand for.

    Args:
        sources: The text of every file by its path, from the folder that imports begin in.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.parsed: dict[str, ast.Module] = {}
        self.packages: dict[str, str] = {}
        self.bindings: dict[str, Mapping[str, Target | None]] = {}
        for path, text in sorted(sources.items()):
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            self.packages[module] = module if path.endswith("__init__.py") else module.rpartition(".")[0]
            self.parsed[module] = ast.parse(text, path)
            self.bindings[module] = collect_bindings(self.parsed[module].body, self.packages[module])
        parts = [module.split(".") for module in self.parsed]
        self.modules = {".".join(names[:number]) for names in parts for number in range(1, len(names) + 1)}

    def resolve(self, module: str, name: str, seen: frozenset[Target] = frozenset()) -> Target | None:
        """Resolve a name at the top of a module to the definition or module that it stands for."""
        bindings = self.bindings.get(module, {})
        if name not in bindings:
            return None
        imported = bindings[name]
        return Target(DEFINITION, module, name) if imported is None else self.follow(imported, seen)

    def follow(self, imported: Target, seen: frozenset[Target] = frozenset()) -> Target:
        """Follow an import, through those that hand the name on; what is not in the tree is from outside."""
        _, module, name = imported
        whole = f"{module}.{name}".strip(".")
        if name and module in self.modules and imported not in seen:
            found = self.resolve(module, name, seen | {imported})
            if found is not None:
                return found
        return Target(MODULE if whole in self.modules else OUTSIDE, whole)

    def find(self, text: str) -> tuple[Target, tuple[str, ...]] | None:
        """Find what a dotted path names, `package.module:name` or with a dot, and the members after it."""
        if not _DOTTED.fullmatch(text) or text.partition(".")[0] not in self.modules:
            return None
        parts = text.replace(":", ".").split(".")
        number = max(end for end in range(1, len(parts) + 1) if ".".join(parts[:end]) in self.modules)
        module = ".".join(parts[:number])
        if number == len(parts):
            return Target(MODULE, module), ()
        found = self.resolve(module, parts[number])
        return (found, tuple(parts[number + 1 :])) if found and found.kind != OUTSIDE else None
