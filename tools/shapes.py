"""Statements as shapes: their syntax without the names of a tree, and these names in order."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tools.trees import DEFINITION, IMPORT, MODULE, OUTSIDE, Target, Tree, collect_bindings

DEFINED, REFERENCE, MEMBER, ATTRIBUTE, PARAMETER, KEYWORD = range(6)
"""Kinds of identifiers: what is defined and what is referred to, of modules, of classes and of functions."""

FUNCTION, CLASS, COMPREHENSION = "function", "class", "comprehension"
"""Kinds of scopes below a module."""

_PASSING_KEYWORDS_ON = {"dataclasses.replace", "functools.partial"}


class Identifier(NamedTuple):
    """A name of the tree within a statement: a target, or the name of a member, parameter or keyword."""

    kind: int
    value: Target | str


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement at the top of a module."""

    module: str
    line: int
    label: str
    shape: str
    identifiers: tuple[Identifier, ...]

    def targets(self) -> list[Target]:
        """List what it defines."""
        return [target for kind, target in self.identifiers if kind == DEFINED and isinstance(target, Target)]

    def __str__(self) -> str:
        return f"{self.module}:{self.line}  {self.label}"


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that a function, class or comprehension binds; those that an import binds have a target."""

    kind: str
    bindings: Mapping[str, Target | None]


def is_ignored(node: ast.AST) -> bool:
    """Tell whether a statement counts for nothing: imports, docstrings, `__all__`, and what does nothing."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass():
            return True
        case ast.Expr(value=ast.Constant(value=value)):
            return isinstance(value, str) or value is ...
        case ast.If(test=test, orelse=[]):
            return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.AnnAssign(target=ast.Name(id="__all__")):
            return True
        case _:
            return False


class Writer:
    """Write one statement as its shape, and list the names of the tree that occur in it, in order."""

    def __init__(self, tree: Tree, module: str) -> None:
        self.tree = tree
        self.module = module
        self.parts: list[str] = []
        self.identifiers: list[Identifier] = []
        self.numbers: dict[tuple[int, str], int] = {}
        self.scopes: list[Scope] = []
        # Numbers are kept by the identity of scopes, which lasts as long as they do.
        self.kept: list[Scope] = []

    def write(self, node: Any) -> None:
        """Write a node, a list of nodes, a name or a plain value."""
        if isinstance(node, ast.AST):
            special: Callable[[Any], None] | None = getattr(self, f"_write_{type(node).__name__}", None)
            if special is not None:
                special(node)
            elif not isinstance(node, ast.expr_context) and not (
                isinstance(node, ast.stmt) and is_ignored(node)
            ):
                self.parts.append(type(node).__name__)
                for name in node._fields:
                    self.write(getattr(node, name))
        elif isinstance(node, list):
            self.parts.append("[")
            for child in node:
                self.write(child)
            self.parts.append("]")
        elif isinstance(node, str):
            self.write_name(node)
        else:
            self.parts.append(repr(node))

    def write_name(self, name: str) -> None:
        """Write a name as what it stands for in the scope at hand."""
        found = self._look_up(name)
        if isinstance(found, Target):
            self.write_target(found)
        elif found is None and name == "__file__":
            self.write_target(Target(MODULE, self.tree.packages[self.module]))
        elif found is None:
            self.parts.append(name)
        elif found.kind == CLASS:
            self._write_member(name, found, MEMBER)
        else:
            self._write_number("local", found, name)

    def write_target(self, target: Target, kind: int = REFERENCE) -> None:
        """Write what comes from outside by its name, and what is of the tree as a reference."""
        if target.kind == OUTSIDE:
            self.parts.append(target.module)
        else:
            self.parts.append(target.kind)
            self.identifiers.append(Identifier(kind, target))

    def _write_number(self, kind: str, scope: Scope, name: str) -> None:
        number = self.numbers.setdefault((id(scope), name), len(self.numbers))
        self.parts.append(f"{kind} {number}")

    def _write_member(self, name: str, scope: Scope, kind: int) -> None:
        # A name with two underscores at both ends has a meaning of its own.
        if name.startswith("__") and name.endswith("__"):
            self.parts.append(name)
        else:
            self._write_number("member", scope, name)
            self.identifiers.append(Identifier(kind, name))

    def _write_attribute(self, name: str) -> None:
        if name.startswith("__") and name.endswith("__"):
            self.parts.append(name)
        else:
            self.identifiers.append(Identifier(ATTRIBUTE, name))

    def _look_up(self, name: str) -> Target | Scope | None:
        inside_function = False
        for scope in reversed(self.scopes):
            if name in scope.bindings and not (scope.kind == CLASS and inside_function):
                imported = scope.bindings[name]
                return scope if imported is None else self.tree.follow(imported)
            inside_function |= scope.kind == FUNCTION
        return self.tree.resolve(self.module, name)

    def _resolve(self, node: ast.AST) -> Target | None:
        """Resolve a name, or attributes of modules; None for what is known only when the code runs."""
        if isinstance(node, ast.Name):
            found = self._look_up(node.id)
            return found if isinstance(found, Target) else None
        if isinstance(node, ast.Attribute):
            base = self._resolve(node.value)
            if base is not None and base.kind == OUTSIDE:
                return Target(OUTSIDE, f"{base.module}.{node.attr}")
            if base is not None and base.kind == MODULE and not node.attr.startswith("__"):
                return self.tree.follow(Target(IMPORT, base.module, node.attr))
        return None

    def _enter(self, kind: str, bindings: Mapping[str, Target | None]) -> Scope:
        scope = Scope(kind, bindings)
        self.scopes.append(scope)
        self.kept.append(scope)
        return scope

    def _bindings(self, nodes: Iterable[ast.AST]) -> dict[str, Target | None]:
        return collect_bindings(nodes, self.tree.packages[self.module])

    def _write_Name(self, node: ast.Name) -> None:
        at_top = all(scope.kind == COMPREHENSION for scope in self.scopes)
        target = self._resolve(node)
        if target is not None and at_top and isinstance(node.ctx, ast.Store):
            self.write_target(target, DEFINED)
        else:
            self.write_name(node.id)

    def _write_Attribute(self, node: ast.Attribute) -> None:
        target = self._resolve(node)
        scope = next((scope for scope in reversed(self.scopes) if scope.kind == CLASS), None)
        if target is not None:
            self.write_target(target)
        elif scope is not None and isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}:
            own = node.attr in scope.bindings or isinstance(node.ctx, ast.Store)
            self.write(node.value)
            self._write_member(node.attr, scope, MEMBER if own else ATTRIBUTE)
        else:
            self.parts.append("Attribute")
            self.write(node.value)
            self._write_attribute(node.attr)

    def _write_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.parts.append(type(node).__name__)
        self.write(node.decorator_list)
        if self.scopes:
            self.write_name(node.name)
        else:
            self.write_target(Target(DEFINITION, self.module, node.name), DEFINED)

    def _write_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._write_definition(node)
        self.write(node.returns)
        self._write_function(node.args, node.body, self._bindings(node.body))

    _write_AsyncFunctionDef = _write_FunctionDef

    def _write_Lambda(self, node: ast.Lambda) -> None:
        self.parts.append("Lambda")
        self._write_function(node.args, node.body, self._bindings([node.body]))

    def _write_function(self, of: ast.arguments, body: object, bindings: dict[str, Target | None]) -> None:
        groups = (of.posonlyargs, of.args, [of.vararg], of.kwonlyargs, [of.kwarg])
        arguments = [argument for group in groups for argument in group if argument]
        self.parts.append(repr([[bool(argument) for argument in group] for group in groups]))
        self.write([argument.annotation for argument in arguments])
        self.write([of.defaults, of.kw_defaults])
        self._enter(FUNCTION, dict.fromkeys((argument.arg for argument in arguments), None) | bindings)
        for argument in arguments:
            self.write_name(argument.arg)
            self.identifiers.append(Identifier(PARAMETER, argument.arg))
        self.write(body)
        self.scopes.pop()

    def _write_ClassDef(self, node: ast.ClassDef) -> None:
        self._write_definition(node)
        self.write(node.bases)
        for keyword in node.keywords:
            self.parts.append(f"{keyword.arg}=")
            self.write(keyword.value)
        self._enter(CLASS, self._bindings(node.body))
        self.write(node.body)
        self.scopes.pop()

    def _write_comprehension_of(self, node: Any) -> None:
        self.parts.append(type(node).__name__)
        first, *others = node.generators
        self.write(first.iter)
        self._enter(COMPREHENSION, self._bindings(generator.target for generator in node.generators))
        self.write([first.target, first.ifs, first.is_async])
        for generator in others:
            self.write([generator.iter, generator.target, generator.ifs, generator.is_async])
        self.write([node.key, node.value] if isinstance(node, ast.DictComp) else node.elt)
        self.scopes.pop()

    _write_ListComp = _write_SetComp = _write_GeneratorExp = _write_DictComp = _write_comprehension_of

    def _write_Call(self, node: ast.Call) -> None:
        self.parts.append("Call")
        self.write(node.func)
        function = self._resolve(node.func)
        match node.args:
            case [ast.Constant(value=str(quoted)), *others] if str(function) == "typing.cast":
                arguments = [ast.parse(quoted, mode="eval").body, *others]
            case _:
                arguments = node.args
        self.write(arguments)
        builtin = isinstance(node.func, ast.Name) and self._look_up(node.func.id) is None
        outside = builtin or (function is not None and function.kind == OUTSIDE)
        for keyword in node.keywords:
            if keyword.arg is None or (outside and str(function) not in _PASSING_KEYWORDS_ON):
                self.parts.append(f"{keyword.arg}=")
            else:
                self.parts.append("keyword")
                self.identifiers.append(Identifier(KEYWORD, keyword.arg))
            self.write(keyword.value)

    def _write_Constant(self, node: ast.Constant) -> None:
        text = node.value if isinstance(node.value, str) else ""
        found = self.tree.find(text)
        if found is None:
            self.parts.append(repr(node.value))
        else:
            target, members = found
            self.parts.append(f"path {':' in text} {len(members)}")
            self.write_target(target)
            for member in members:
                self._write_attribute(member)

    def _write_Dict(self, node: ast.Dict) -> None:
        """Write a table; where a key is a name in the module that its value names, it refers to that."""
        self.parts.append("Dict")
        for key, value in zip(node.keys, node.values, strict=True):
            self.write(key)
            match key, value:
                case ast.Constant(value=str(name)), ast.Constant(value=str(module)):
                    found = self.tree.find(module)
                    named = self.tree.resolve(module, name) if found and found[0].kind == MODULE else None
                    self.write(value)
                    if named is not None:
                        self.write_target(named)
                case _:
                    self.write(value)

    def _write_MatchClass(self, node: ast.MatchClass) -> None:
        self.parts.append("MatchClass")
        self.write([node.cls, node.patterns])
        for name in node.kwd_attrs:
            self._write_attribute(name)
        self.write(node.kwd_patterns)


def write_statements(tree: Tree) -> Iterator[Statement]:
    """Write every statement that counts at the top of every module of a tree."""
    for module, parsed in tree.parsed.items():
        for node in parsed.body:
            if not is_ignored(node):
                writer = Writer(tree, module)
                writer.write(node)
                names = dict.fromkeys(
                    value.name
                    for kind, value in writer.identifiers
                    if kind == DEFINED and isinstance(value, Target)
                )
                label = ", ".join(names) or ast.unparse(node).splitlines()[0][:60]
                yield Statement(
                    module, node.lineno, label, "\n".join(writer.parts), tuple(writer.identifiers)
                )
